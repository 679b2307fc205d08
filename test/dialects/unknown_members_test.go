package dialects

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// unmeant is a member that no dialect knows.
const unmeant = "unmeant"

// unread are the objects of messages, parts and tools whose members are not looked
// at, by the dialect and the path without places, each with its reason.
var unread = map[string]string{
	"messages messages.content.citations":                               citationsReason,
	"converse messages.content.citationsContent":                        citationsReason,
	"converse messages.content.citationsContent.content":                citationsReason,
	"converse messages.content.citationsContent.citations":              citationsReason,
	"converse messages.content.citationsContent.citations.location":     citationsReason,
	"converse messages.content.citationsContent.citations.location.web": citationsReason,
	"gemini contents.parts.mediaProcessing":                             partReason,
	"gemini contents.parts.mediaResolution":                             partReason,
	"gemini contents.parts.partMetadata":                                partReason,
	"gemini contents.parts.speechMetadata":                              partReason,
	"gemini contents.parts.videoMetadata":                               partReason,
	"gemini tools":                                                      toolReason,
	"converse toolConfig.tools":                                         toolReason,
	"converse toolConfig.toolChoice":                                    toolReason,
}

const (
	citationsReason = "citations of earlier answers are kept as they are, for their own dialect"
	partReason      = "the member is a parameter, which is announced as a whole"
	toolReason      = "an object with two members is a tool, or a choice, of a kind that only the dialect knows"
)

var indices = regexp.MustCompile(`\[[0-9]+\]`)

// Members that no dialect knows are announced or refused at each target, wherever
// they are in messages, parts and tools.
func TestUnknownMembersDoNotVanish(t *testing.T) {
	found := map[string][]string{}
	for _, from := range clients {
		d := api.Dialect(from.name)
		for _, body := range unknownMemberBodies(t, d) {
			native := nativeElements(t, d, body)
			for i, path := range objectPaths(body) {
				key := string(d) + " " + indices.ReplaceAllString(path, "")
				if unread[key] != "" || slices.ContainsFunc(native, func(at string) bool { return strings.HasPrefix(path, at) }) {
					continue
				}
				raw, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				changed := mustObject(t, string(raw))
				n := 0
				walkObjects(changed, "", func(_ string, o object) {
					if n == i {
						o[unmeant] = "unmeant words"
					}
					n++
				})
				for _, to := range historyTargets {
					if to.dialect != d && vanishes(t, d, to, body, changed, path) {
						if !slices.Contains(found[key], string(to.dialect)) {
							found[key] = append(found[key], string(to.dialect))
						}
					}
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: a member that nobody knows vanishes on the way to %s", key, strings.Join(found[key], ", "))
	}
}

// nativeElements returns the paths of the elements that only the client's dialect
// has. Other targets get them as text or as a call, or not at all; the tests of the
// history are about them.
func nativeElements(t *testing.T, d api.Dialect, body object) (paths []string) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := decoders[d].DecodeRequest(raw)
	if err != nil {
		return nil // refused for every target
	}
	var parts func(list []llm.Part)
	parts = func(list []llm.Part) {
		for _, p := range list {
			switch p := p.(type) {
			case llm.Native:
				path, _, _ := strings.Cut(p.At, "]."+p.Type) // the element rather than its member
				paths = append(paths, path)
			case llm.ToolResult:
				parts(p.Parts)
			}
		}
	}
	for _, m := range r.Messages {
		parts(m.Parts)
	}
	for _, tool := range r.Tools {
		if tool.Native != nil {
			path, _, _ := strings.Cut(tool.At, "]."+tool.Native.Type)
			paths = append(paths, path)
		}
	}
	return paths
}

// unknownMemberBodies returns bodies that hold content and tools of all kinds.
func unknownMemberBodies(t *testing.T, d api.Dialect) (bodies []object) {
	t.Helper()
	for i := range historySamples[d] {
		bodies = append(bodies, mustObject(t, historySamples[d][i].body))
	}
	for i := range samples[d] {
		bodies = append(bodies, merge(merge(mustObject(t, bases[d]), mustObject(t, samples[d][i].base)), mustObject(t, samples[d][i].patch)))
	}
	return bodies
}

// vanishes reports whether the member in changed neither reaches the target nor is
// announced. A body that the target refuses anyway shows nothing, and an element that
// is announced is announced with its members.
func vanishes(t *testing.T, from api.Dialect, to *target, body, changed object, path string) bool {
	t.Helper()
	if _, _, err := encoded(t, from, to, body); err != nil {
		return false
	}
	sent, changes, err := encoded(t, from, to, changed)
	if err != nil {
		if _, ok := errors.AsType[*apierr.Error](err); !ok {
			t.Errorf("%s to %s: %v is not an error for clients", from, to.dialect, err)
		}
		return false
	}
	element := path[:strings.LastIndex(path, "]")+1] // empty outside of arrays
	announced := slices.ContainsFunc(changes, func(c dialect.ParamChange) bool {
		return strings.HasSuffix(c.Name, unmeant) || element != "" && strings.HasPrefix(c.Name, element)
	})
	return !announced && !strings.Contains(string(sent), unmeant)
}

// objectPaths returns the paths of the objects in messages, parts and tools.
func objectPaths(body object) (paths []string) {
	walkObjects(body, "", func(path string, _ object) { paths = append(paths, path) })
	return paths
}

// walkObjects visits the objects of a body in order. Arguments, schemas and
// parameters other than tools are not content.
func walkObjects(v any, path string, visit func(path string, o object)) {
	switch v := v.(type) {
	case object:
		visit(path, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if path == "" && !slices.Contains(contentMembers, name) || path != "" && slices.Contains(freeMembers, name) {
				continue
			}
			walkObjects(v[name], strings.TrimPrefix(path+"."+name, "."), visit)
		}
	case []any:
		for i, e := range v {
			walkObjects(e, path+"["+strconv.Itoa(i)+"]", visit)
		}
	}
}

var (
	contentMembers = []string{"messages", "system", "tools", "input", "contents", "systemInstruction", "toolConfig"}
	// freeMembers hold what a model or a client made up.
	freeMembers = []string{"input", "arguments", "args", "response", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "properties", "json"}
)
