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
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// unmeant is a member that no dialect knows.
const (
	unmeant      = "unmeant"
	unmeantWords = "unmeant words"
)

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
	checkUnknownMembers(t, isContent)
}

// Neither do those in parameters that are objects.
func TestUnknownMembersOfParametersDoNotVanish(t *testing.T) {
	checkUnknownMembers(t, func(name string) bool { return !isContent(name) })
}

// A member is not taken for carried because its name occurs elsewhere in the body
// that is sent.
func TestNamesElsewhereHideNoUnknownMember(t *testing.T) {
	const schema = `{"type":"object","properties":{"unmeant":{"type":"string","enum":["unmeant words"]}}}`
	for d, body := range map[api.Dialect]string{
		api.DialectChat:      `{"messages":[{"role":"user","content":"Hello","unmeant":"unmeant words"}],"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}}]}`,
		api.DialectMessages:  `{"max_tokens":9,"messages":[{"role":"user","content":"Hello","unmeant":"unmeant words"}],"tools":[{"name":"f","input_schema":` + schema + `}]}`,
		api.DialectResponses: `{"input":[{"role":"user","content":"Hello"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}","unmeant":"unmeant words"},{"type":"function_call_output","call_id":"c","output":"x"}],"tools":[{"type":"function","name":"f","parameters":` + schema + `}]}`,
		api.DialectGemini:    `{"contents":[{"role":"user","parts":[{"text":"Hello"}],"unmeant":"unmeant words"}],"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":` + schema + `}]}]}`,
		api.DialectConverse:  `{"messages":[{"role":"user","content":[{"text":"Hello"}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","unmeant":"unmeant words","inputSchema":{"json":` + schema + `}}}]}}`,
	} {
		for _, to := range historyTargets {
			if to.dialect == d || to.dialect == api.DialectReplicate { // it has no tools
				continue
			}
			sent, changes, err := encoded(t, d, to, mustObject(t, body))
			if err != nil {
				t.Errorf("%s to %s: %v", d, to.dialect, err)
				continue
			}
			if !strings.Contains(string(sent), `"unmeant"`) {
				t.Errorf("%s to %s: the name is not in the body: %s", d, to.dialect, sent)
			}
			if !slices.ContainsFunc(changes, func(c dialect.ParamChange) bool { return strings.HasSuffix(c.Name, "."+unmeant) }) {
				t.Errorf("%s to %s: the member vanishes; changes %v", d, to.dialect, changes)
			}
		}
	}
}

// parameterObjects are parameters with objects that no other sample has.
var parameterObjects = map[api.Dialect][]string{
	api.DialectChat: {
		`{"stream_options":{"include_obfuscation":true},"stream":true}`,
		`{"response_format":{"type":"text"}}`,
		`{"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","strict":true,"schema":` + jsonSchema + `}}}`,
		`{"response_format":{"type":"json_schema","json_schema":` + jsonSchema + `}}`,
		`{"response_format":{"type":"grammar","grammar":"x"}}`,
		`{"functions":[{"name":"f","parameters":` + jsonSchema + `}],"function_call":{"name":"f"}}`,
		`{"tools":[{"type":"custom","custom":{"name":"f","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}}],"tool_choice":{"type":"custom","custom":{"name":"f"}}}`,
		chatTools[:len(chatTools)-1] + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}}`,
		`{"reasoning":{"effort":"low"}}`, `{"reasoning":{"max_tokens":1024},"max_tokens":4000}`,
		`{"cache_control":{"type":"ephemeral","ttl":"1h"}}`,
		`{"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"city":"Bern","country":"CH"}}}}`,
		`{"image_config":{"aspect_ratio":"1:1"},"modalities":["text","image"]}`,
		`{"audio":{"voice":{"id":"v"},"format":"wav"},"modalities":["text","audio"]}`,
		`{"output_config":{"effort":"low"}}`, `{"context_management":{"edits":[{"type":"clear_thinking_20251015"}]}}`,
		`{"options":{"num_ctx":1024}}`, `{"performance_config":{"latency":"optimized"}}`, `{"provider":{"order":["x"]}}`,
	},
	api.DialectMessages: {
		`{"metadata":{"user_id":"u"}}`, `{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low","format":{"type":"json_schema","schema":` + jsonSchema + `}}}`,
		`{"output_format":{"type":"json_schema","schema":` + jsonSchema + `}}`,
		`{"container":{"id":"c","skills":[{"type":"anthropic","skill_id":"s"}]}}`,
	},
	api.DialectResponses: {
		`{"stream_options":{"include_obfuscation":false},"stream":true}`, `{"text":{"format":{"type":"text"},"verbosity":"low"}}`,
		`{"text":{"format":{"type":"json_schema","name":"n","description":"d","strict":true,"schema":` + jsonSchema + `}}}`,
		`{"thinking":{"type":"enabled","budget_tokens":1024},"max_output_tokens":4000}`,
		`{"tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":"lark","definition":"x"}}],"tool_choice":{"type":"custom","name":"f"}}`,
		responsesTools[:len(responsesTools)-1] + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}}`,
		`{"tools":[{"type":"function","name":"f","parameters":` + jsonSchema + `,"cache_control":{"type":"ephemeral"}}]}`,
		`{"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}`,
		`{"tools":[{"type":"web_search","filters":{"allowed_domains":["x.example"]},"user_location":{"type":"approximate","city":"Bern"}}]}`,
		`{"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f","parameters":` + jsonSchema + `}]}]}`,
	},
	api.DialectGemini: {
		`{"generationConfig":{"speechConfig":{"multiSpeakerVoiceConfig":{"speakerVoiceConfigs":[{"speaker":"a","voiceConfig":{"prebuiltVoiceConfig":{"voiceName":"Kore"}}}]}}}}`,
		`{"toolConfig":{"retrievalConfig":{"latLng":{"latitude":1,"longitude":2}}}}`,
		`{"tools":[{"googleSearchRetrieval":{"dynamicRetrievalConfig":{"mode":"MODE_DYNAMIC"}}}]}`,
		`{"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}}`,
		`{"modelArmorConfig":{"promptTemplateName":"x"}}`,
	},
	api.DialectConverse: {
		`{"additionalModelRequestFields":{"output_config":{"effort":"low","format":{"type":"json_schema","schema":` + jsonSchema + `}},"metadata":{"user_id":"u"},"inferenceConfig":{"topK":3}}}`,
		`{"additionalModelRequestFields":{"thinking":{"type":"adaptive","display":"omitted"}}}`,
	},
}

// checkUnknownMembers adds a member to each object within the parameters that count,
// in turn, and reports objects in which it vanishes.
func checkUnknownMembers(t *testing.T, counts func(parameter string) bool) {
	t.Helper()
	found := map[string][]string{}
	objects := 0
	for _, from := range clients {
		d := api.Dialect(from.name)
		for _, body := range unknownMemberBodies(t, d) {
			native := nativeElements(t, d, body)
			for i, path := range objectPaths(body, counts) {
				key := string(d) + " " + indices.ReplaceAllString(path, "")
				if unread[key] != "" || slices.ContainsFunc(native, func(at string) bool { return strings.HasPrefix(path, at) }) {
					continue
				}
				objects++
				changed := withMember(t, body, counts, i)
				for _, to := range historyTargets {
					if to.dialect != d && vanishes(t, d, to, body, changed, path) && !slices.Contains(found[key], string(to.dialect)) {
						found[key] = append(found[key], string(to.dialect))
					}
				}
			}
		}
	}
	if objects < 100 {
		t.Errorf("only %d objects", objects)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: a member that nobody knows vanishes on the way to %s", key, strings.Join(found[key], ", "))
	}
}

// withMember returns a body with an unknown member in one of its objects.
func withMember(t *testing.T, body object, counts func(string) bool, i int) object {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	changed := mustObject(t, string(raw))
	n := 0
	walkObjects(changed, "", counts, func(_ string, o object) {
		if n == i {
			o[unmeant] = unmeantWords
		}
		n++
	})
	return changed
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
	for _, patch := range parameterObjects[d] {
		bodies = append(bodies, merge(mustObject(t, bases[d]), mustObject(t, patch)))
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
		return strings.HasSuffix(c.Name, unmeant) || element != "" && strings.HasPrefix(c.Name, element) ||
			c.Outcome == dialect.Dropped && (path == c.Name || strings.HasPrefix(path, c.Name+".") || strings.HasPrefix(path, c.Name+"["))
	})
	return !announced && !strings.Contains(string(sent), unmeantWords)
}

// objectPaths returns the paths of the objects in parameters that count.
func objectPaths(body object, counts func(string) bool) (paths []string) {
	walkObjects(body, "", counts, func(path string, _ object) { paths = append(paths, path) })
	return paths
}

// walkObjects visits the objects of a body in order, without arguments and schemas.
func walkObjects(v any, path string, counts func(parameter string) bool, visit func(path string, o object)) {
	switch v := v.(type) {
	case object:
		visit(path, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if path == "" && !counts(name) || path != "" && slices.Contains(freeMembers, name) {
				continue
			}
			walkObjects(v[name], strings.TrimPrefix(path+"."+name, "."), counts, visit)
		}
	case []any:
		for i, e := range v {
			walkObjects(e, path+"["+strconv.Itoa(i)+"]", counts, visit)
		}
	}
}

// isContent reports whether a parameter holds messages or tools.
func isContent(parameter string) bool { return slices.Contains(contentMembers, parameter) }

var (
	contentMembers = []string{"messages", "system", "tools", "input", "contents", "systemInstruction", "toolConfig"}
	// freeMembers hold what a model or a client made up.
	freeMembers = []string{"input", "arguments", "args", "response", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "properties", "json", "schema", "responseSchema", "responseJsonSchema"}
)
