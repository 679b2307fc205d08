package tools

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
)

// compact returns JSON without insignificant white space.
func compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// maxInstructions is the limit of the instructions of all servers together, in bytes.
const maxInstructions = 16 << 10

// capabilities writes what the servers of a view can do together. What a server can do that
// does not answer is assumed, so that clients ask for it once it answers.
func (x *request) capabilities(b *jsonedit.Builder, greetings []greeting) {
	has := func(name string) bool {
		for _, g := range greetings {
			if g.hello == nil || g.hello.capabilities[name] {
				return true
			}
		}
		return false
	}
	b.Name("capabilities")
	b.Open('{')
	for _, name := range [...]string{"tools", "prompts", "resources"} {
		if has(name) {
			b.Name(name)
			b.Open('{')
			b.Name("listChanged")
			b.Bool(true)
			if name == "resources" {
				b.Name("subscribe")
				b.Bool(true)
			}
			b.Close('}')
		}
	}
	for _, name := range [...]string{"completions", "logging"} {
		if has(name) && len(greetings) > 0 {
			b.Name(name)
			b.Raw([]byte("{}"))
		}
	}
	if x.era == peer.Modern && slices.ContainsFunc(greetings, greeting.hasTasks) {
		b.Name("extensions")
		b.Raw([]byte(`{"` + extensionTasks + `":{}}`))
	}
	b.Close('}')
}

// instructions returns those of all servers, each with the name of its server if there are
// several. Models follow them, so that those are left out that nobody has approved: of servers
// whose changes are held back, and all of them if guardrails act on what servers say.
func (x *request) instructions(greetings []greeting) string {
	if _, guarded := x.tools.Guards(); guarded {
		return ""
	}
	var b strings.Builder
	for _, g := range greetings {
		if g.hello == nil || g.hello.instructions == "" || g.server.HoldChanged {
			continue
		}
		text := g.hello.instructions
		if x.view.prefixed {
			text = "# " + g.server.Name + " (" + g.server.Slug + ")\n\n" + text
		}
		if b.Len() > 0 {
			text = "\n\n" + text
		}
		if room := maxInstructions - b.Len(); len(text) > room {
			text = strings.ToValidUTF8(text[:room], "")
		}
		b.WriteString(text)
	}
	return b.String()
}

// serverInfo writes what the gateway says of itself.
func (x *request) serverInfo(b *jsonedit.Builder) {
	b.Open('{')
	b.Name("name")
	b.String("modelgate")
	b.Name("version")
	b.String(x.Version)
	if x.view.title != "" {
		b.Name("title")
		b.String(x.view.title)
	}
	b.Close('}')
}

// initializeResult returns the result of initialize.
func (x *request) initializeResult(version string, greetings []greeting) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("protocolVersion")
	b.String(version)
	x.capabilities(&b, greetings)
	b.Name("serverInfo")
	x.serverInfo(&b)
	if text := x.instructions(greetings); text != "" {
		b.Name("instructions")
		b.String(text)
	}
	b.Close('}')
	return b.Bytes()
}

// discover responds to server/discover.
func (x *request) discover() error {
	greetings := x.greetAll(nil)
	var b jsonedit.Builder
	b.Open('{')
	b.Name("resultType")
	b.String("complete")
	b.Name("supportedVersions")
	b.Open('[')
	for _, v := range supportedVersions {
		b.String(v)
	}
	b.Close(']')
	x.capabilities(&b, greetings)
	if text := x.instructions(greetings); text != "" {
		b.Name("instructions")
		b.String(text)
	}
	ttl := int64(helloTTL)
	for _, g := range greetings {
		if g.hello == nil {
			ttl = 0 // it may answer soon
		}
	}
	b.Name("ttlMs")
	b.Int(ttl)
	b.Name("cacheScope")
	b.String("private")
	x.ownMeta(&b)
	b.Close('}')
	return x.respondWith(b.Bytes())
}

// helloTTL is how long clients may keep what the gateway says of its servers, in ms.
const helloTTL = 60_000

// ownMeta writes the _meta of a result that the gateway makes itself.
func (x *request) ownMeta(b *jsonedit.Builder) {
	if x.era != peer.Modern {
		return
	}
	b.Name("_meta")
	b.Open('{')
	b.Name(metaServer)
	x.serverInfo(b)
	b.Close('}')
}
