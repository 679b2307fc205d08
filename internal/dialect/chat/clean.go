package chat

import (
	"bytes"
	"cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

var _ dialect.ForeignContentCleaner = Dialect{}

// Clean implements dialect.ForeignContentCleaner: clients send back the messages
// that they received, and many providers reject members that they do not know.
// Members that only the gateway writes are removed for all, those of other
// vendors for providers whose profile does not have them. Media of the assistant
// move to the next message of the user, or into one at the end.
func (Dialect) Clean(body *jsonedit.Doc, to dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	c := cleaner{profile: cmp.Or(to.Chat, &usualProfile)}
	c.ids = dialect.NewCallIDFitter(knownCallIDs(c.profile), body.Bytes(), "tool_call_id")
	if c.ids == nil && !jsonedit.StringBegins(body.Bytes(), foreignNames...) {
		return nil, nil
	}
	c.unknown = to.Chat == nil || to.Chat.History == dialect.ThinkingAsSeen
	edits := dialect.EditElements(body, "messages", "", c.message)
	if len(c.held) > 0 { // no message of the user follows, and media are held only where a message changes
		list := bytes.TrimSuffix(edits[0].Value, []byte("]"))
		edits[0].Value = append(append(append(list, `,{"role":"user","content":[`...), bytes.Join(c.held, []byte(","))...), "]}]"...)
	}
	return edits, c.ids.Changes("messages")
}

// knownCallIDs returns the rule for ids of calls that a provider documents.
func knownCallIDs(p *dialect.ChatProfile) dialect.NameRule {
	if p.ShortIDs || p.Vendor {
		return callIDs(p)
	}
	return dialect.AnyCallID
}

// foreignNames begin the members that Clean may remove; extraContent is one of a
// tool call.
var (
	foreignNames = []string{"reasoning", `content_blocks"`, `extra_content"`, `annotations"`, `images"`}
	extraContent = []byte(`"extra_content"`)
)

// cleaner removes members of other vendors from the messages of a body.
type cleaner struct {
	profile *dialect.ChatProfile
	ids     *dialect.CallIDFitter
	unknown bool     // the models of the provider are unknown
	held    [][]byte // media for the next message of the user
}

func (c *cleaner) message(m jsonedit.Value) []byte {
	role, _ := m.Get("role")
	switch word, _ := role.Text(); {
	case word == "assistant":
		return c.ids.FitInner(c.assistant(m), "tool_calls", "id")
	case word == "tool":
		return c.ids.Fit(m.Raw(), "tool_call_id")
	case word == "user" && len(c.held) > 0:
		return c.user(m)
	}
	return m.Raw()
}

// assistant returns a message without the members that the provider does not
// have. Text that only content_blocks hold becomes the content.
func (c *cleaner) assistant(m jsonedit.Value) []byte {
	var blocks, images, calls, content jsonedit.Value
	b := jsonedit.Append(nil)
	changed := false
	b.Open('{')
	for key, v := range m.Fields() {
		name := key.String()
		raw := v.Raw()
		switch name {
		case "content_blocks":
			blocks = v
		case "images":
			images = v
		case "content":
			content = v
			continue
		case "tool_calls":
			calls = v
			raw = c.calls(v)
		}
		if c.drops(name, v) {
			changed = true
			continue
		}
		changed = changed || !bytes.Equal(raw, v.Raw())
		b.Key(name)
		b.Raw(raw)
	}
	if !changed {
		return m.Raw()
	}
	text := c.hold(blocks)
	if blocks.Kind() != jsonedit.Array && c.drops("images", images) { // blocks hold them too
		c.hold(images)
	}
	b.Name("content")
	if content.IsNull() && calls.IsNull() {
		b.String(text)
	} else {
		b.Raw(content.Raw())
	}
	b.Close('}')
	return b.Bytes()
}

// hold keeps the media of blocks, and returns their text.
func (c *cleaner) hold(blocks jsonedit.Value) string {
	var text []byte
	for e := range blocks.Elements() {
		kind, _ := e.Get("type")
		switch word, _ := kind.Text(); word {
		case "text":
			inner, _ := e.Get("text")
			words, _ := inner.TextBytes()
			text = append(text, words...)
		case "image_url", "video_url", "audio_url", "file", "input_audio":
			c.held = append(c.held, e.Raw())
		}
	}
	return string(text)
}

// user returns a message with the held media before its content, if it has
// content.
func (c *cleaner) user(m jsonedit.Value) []byte {
	if content, _ := m.Get("content"); content.IsNull() {
		return m.Raw()
	}
	b := jsonedit.Append(nil)
	b.Open('{')
	for key, v := range m.Fields() {
		b.Key(key.String())
		if !key.Is("content") {
			b.Raw(v.Raw())
			continue
		}
		b.Open('[')
		for _, media := range c.held {
			b.Raw(media)
		}
		if v.Kind() == jsonedit.Array {
			for e := range v.Elements() {
				b.Raw(e.Raw())
			}
		} else {
			b.Open('{')
			b.Name("type")
			b.String("text")
			b.Name("text")
			b.Raw(v.Raw())
			b.Close('}')
		}
		b.Close(']')
	}
	b.Close('}')
	c.held = nil
	return b.Bytes()
}

// drops reports whether a member of a message of the assistant is removed.
func (c *cleaner) drops(name string, v jsonedit.Value) bool {
	p := c.profile
	closed := p.Vendor || p.StrictMessages || p.GoogleSigned
	switch name {
	case "content_blocks":
		return true
	case "reasoning", "reasoning_content":
		return closed
	case "images": // https://openrouter.ai/docs/features/multimodal/image-generation
		return closed && v.Kind() == jsonedit.Array
	case "reasoning_details":
		return closed || p.History == dialect.ThinkingText || dialect.MayContainMarkedSignature(v.Raw())
	case "annotations":
		return p.StrictMessages
	}
	return false
}

// calls returns tool calls without signatures of models that the provider does
// not have.
func (c *cleaner) calls(list jsonedit.Value) []byte {
	if !bytes.Contains(list.Raw(), extraContent) {
		return list.Raw()
	}
	b := jsonedit.Append(nil)
	b.Open('[')
	for call := range list.Elements() {
		b.Open('{')
		for key, v := range call.Fields() {
			known := c.unknown || c.profile.GoogleSigned
			if !key.Is("extra_content") || known && !dialect.MayContainMarkedSignature(v.Raw()) {
				b.Key(key.String())
				b.Raw(v.Raw())
			}
		}
		b.Close('}')
	}
	b.Close(']')
	return b.Bytes()
}
