package dialects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/gatewaytest"
)

const recordings = "../../../shared/recordings"

// recordedAPIs are the recorded APIs of conversations, by their dialect.
var recordedAPIs = map[string]api.Dialect{
	"chat-completions": api.DialectChat, "messages": api.DialectMessages, "responses": api.DialectResponses,
	"generate-content": api.DialectGemini, "stream-generate-content": api.DialectGemini,
	"converse": api.DialectConverse, "converse-stream": api.DialectConverse,
}

// A recordedResponse is one that a provider has sent: a body, or the events of a
// stream.
type recordedResponse struct {
	name     string
	provider api.Dialect
	body     any
	events   []recordedEvent
}

type recordedEvent struct {
	typ  string
	data any // nil for data that is not JSON
	raw  string
}

// maxChanged is the size in bytes of the longest response that is changed: a test makes
// hundreds of changes, and each reads all of the response.
const maxChanged = 64 << 10

// mustRecordedResponses returns one response in every few of each dialect.
func mustRecordedResponses(t *testing.T, every int) (list []recordedResponse) {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tape struct {
			Exchanges []struct {
				API      string
				Response struct {
					Status     int
					Body       string
					BodyBase64 []byte `json:"body_base64"`
				}
			}
		}
		if json.Unmarshal(b, &tape) != nil {
			continue // index.json
		}
		for i, x := range tape.Exchanges {
			d, ok := recordedAPIs[x.API]
			if size := len(x.Response.Body) + len(x.Response.BodyBase64); !ok || x.Response.Status != 200 || size > maxChanged {
				continue
			}
			if seen[x.API]++; seen[x.API]%every != 0 {
				continue
			}
			r := recordedResponse{name: fmt.Sprintf("%s %d", strings.TrimPrefix(file, recordings), i), provider: d}
			if json.Unmarshal([]byte(x.Response.Body), &r.body) != nil {
				r.events = recordedEvents(x.Response.Body, x.Response.BodyBase64)
			}
			list = append(list, r)
		}
	}
	return list
}

// recordedEvents reads the events of a stream.
func recordedEvents(body string, binary []byte) (list []recordedEvent) {
	add := func(typ string, data []byte) {
		e := recordedEvent{typ: typ, raw: string(data)}
		json.Unmarshal(data, &e.data)
		list = append(list, e)
	}
	if binary != nil {
		r := eventstream.NewReader(bytes.NewReader(binary), 1<<20)
		for {
			m, err := r.Next()
			if err != nil {
				return list
			}
			add(string(m.Type()), m.Data())
		}
	}
	r := sse.NewReader(strings.NewReader(body), 1<<20)
	for {
		e, err := r.Next()
		if err != nil {
			return list
		}
		if e.Data != nil {
			add(string(e.Type), e.Data)
		}
	}
}

// A change changes a response in one place. It returns false if there is none
// beyond the first n.
type change struct {
	name string
	// keeps is true if the response says the same afterwards.
	keeps bool
	apply func(o object) bool
}

func member(name string, value any) func(o object) bool {
	return func(o object) bool {
		if _, ok := o[name]; !ok {
			return false
		}
		o[name] = value
		return true
	}
}

func renamed(value any, names ...string) func(o object) bool {
	return func(o object) bool {
		for _, name := range names {
			if s, ok := o[name].(string); ok && s != "" {
				o[name] = value
				return true
			}
		}
		return false
	}
}

// counters are the members of a response with numbers that clients are not shown as
// content.
var counters = []string{
	"index", "prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "cached_tokens", "promptTokenCount",
	"candidatesTokenCount", "inputTokens", "outputTokens", "totalTokens", "created", "output_index", "content_index", "contentBlockIndex", "sequence_number",
}

// changes are made in each object that they fit, one at a time.
func responseChanges() (list []change) {
	list = []change{
		{"a further member", true, func(o object) bool { o[unmeant] = object{"type": "x", "text": []any{nil, 1.0}}; return true }},
		{"a further null", true, func(o object) bool { o[unmeant] = nil; return true }},
		{"an unknown finish reason", true, renamed("unheard_of", "finish_reason", "stop_reason", "finishReason", "stopReason")},
		{"no usage", true, func(o object) bool {
			n := len(o)
			for _, name := range []string{"usage", "usageMetadata"} {
				delete(o, name)
			}
			return len(o) < n
		}},
		{"usage is null", true, member("usage", nil)},
		{"usageMetadata is null", true, member("usageMetadata", nil)},
		{"usage is a list", true, member("usage", []any{})},
		{"usage is a string", true, member("usage", "3")},
	}
	for _, name := range counters {
		list = append(list, change{name + " is a string", true, func(o object) bool {
			n, ok := o[name].(float64)
			if ok {
				o[name] = strconv.FormatFloat(n, 'f', -1, 64)
			}
			return ok
		}}, change{name + " has a fraction", false, member(name, 1.5)}, change{name + " is huge", false, member(name, 1e300)}, change{name + " is negative", false, member(name, -1.0)})
	}
	for _, name := range []string{"annotations", "tool_calls", "citations", "logprobs", "safetyRatings", "groundingMetadata", "reasoning", "refusal", "function_call", "system_fingerprint", "service_tier"} {
		list = append(list, change{name + " is null", false, member(name, nil)}, change{name + " is an object", false, member(name, object{})}, change{name + " is a number", false, member(name, 7.0)})
	}
	for _, name := range []string{"type", "role", "content", "choices", "message", "delta", "parts", "candidates", "output", "id", "name", "arguments", "input", "args", "text", "item", "part", "content_block", "function", "functionCall", "toolUse", "start", "contentBlock"} {
		list = append(list,
			change{"no " + name, false, func(o object) bool { _, ok := o[name]; delete(o, name); return ok }},
			change{name + " is null", false, member(name, nil)},
			change{name + " is a list", false, member(name, []any{})},
			change{name + " is an object", false, member(name, object{})},
			change{name + " is a number", false, member(name, 3.0)},
			change{name + " is unheard of", false, member(name, "unheard_of")},
		)
	}
	return list
}

// response makes what a client of a dialect gets of it.
func (r *recordedResponse) response(t *testing.T, from api.Dialect) (res gatewaytest.Response, failed error) {
	t.Helper()
	asked, err := decoders[from].DecodeRequest([]byte(bases[from]))
	if err != nil {
		t.Fatal(err)
	}
	asked.Stream = r.events != nil
	to := dialect.ResponseTarget{Request: asked, Provider: "p", ID: strings.Repeat("0", 32), Created: 1700000000}
	target := targetOf(r.provider).requestTarget()
	res.Status, res.Header = http.StatusOK, http.Header{}
	if r.events == nil {
		raw, _ := json.Marshal(r.body)
		decoded, err := encoders[r.provider].DecodeResponse(raw, asked, target)
		if err != nil {
			return res, err
		}
		res.Header.Set("Content-Type", "application/json")
		res.Body = decoders[from].EncodeResponse(nil, decoded, to)
		return res, nil
	}
	dec, enc := encoders[r.provider].NewDecoder(asked, target), decoders[from].NewEncoder(to)
	var events []llm.Event
	for _, e := range r.events {
		data := []byte(e.raw)
		if e.data != nil {
			data, _ = json.Marshal(e.data)
		}
		events = dec.Decode(events, sse.Event{Type: []byte(e.typ), Data: data, Raw: data})
	}
	events = dec.End(events)
	for i := range events {
		res.Body = enc.Encode(res.Body, &events[i])
		if events[i].Kind == llm.EventError {
			break
		}
	}
	res.Header.Set("Content-Type", "text/event-stream")
	if from == api.DialectConverse {
		res.Header.Set("Content-Type", "application/vnd.amazon.eventstream")
	}
	return res, nil
}

func targetOf(d api.Dialect) *target {
	for _, to := range historyTargets {
		if to.dialect == d {
			return to
		}
	}
	return nil
}

// said is what a client read, without ids that the gateway makes.
func (h *clientView) said() string {
	var b strings.Builder
	for _, k := range []kind{text, thought, call} {
		for _, p := range h.pieces {
			if p.kind == k {
				fmt.Fprintf(&b, "%v %s %s %s\n", k, p.name, p.text, p.args)
			}
		}
	}
	return b.String()
}

// objectsOf returns the objects of a response in order.
func (r *recordedResponse) objectsOf() (list []object) {
	visit := func(_ string, o object) { list = append(list, o) }
	all := func(string) bool { return true }
	if r.events == nil {
		walkObjects(r.body, "", all, visit)
	}
	for _, e := range r.events {
		walkObjects(e.data, "", all, visit)
	}
	return list
}

func (r *recordedResponse) clone() *recordedResponse {
	c := recordedResponse{name: r.name, provider: r.provider}
	deep := func(v any) (out any) {
		raw, _ := json.Marshal(v)
		json.Unmarshal(raw, &out)
		return out
	}
	if r.body != nil {
		c.body = deep(r.body)
	}
	for _, e := range r.events {
		e.data = deep(e.data)
		c.events = append(c.events, e)
	}
	return &c
}

// Content of a kind that nobody knows, in a recorded response, loses none of the rest,
// and its words reach the client.
func TestUnknownPartsOfRecordedResponsesReachTheClient(t *testing.T) {
	const words = "words of a hologram"
	kinds := map[api.Dialect]struct {
		list    string // the member with content
		element object
	}{
		api.DialectChat:      {"content", object{"type": "hologram", "text": words}},
		api.DialectMessages:  {"content", object{"type": "hologram", "text": words}},
		api.DialectResponses: {"output", object{"type": "hologram", "id": "h1", "status": "completed", "content": []any{object{"type": "output_text", "text": words}}}},
		api.DialectGemini:    {"parts", object{"hologram": object{"text": words}}},
		api.DialectConverse:  {"content", object{"hologram": object{"text": words}}},
	}
	found, made := map[string]string{}, 0
	for _, r := range mustRecordedResponses(t, 5) {
		kind := kinds[r.provider]
		changed := r.clone()
		if r.events != nil || !slices.ContainsFunc(changed.objectsOf(), func(o object) bool {
			list, ok := o[kind.list].([]any)
			if ok {
				o[kind.list] = append(list, kind.element)
			}
			return ok
		}) {
			continue
		}
		for _, from := range clients {
			d := api.Dialect(from.name)
			if d == r.provider {
				continue
			}
			plain, err := r.response(t, d)
			if err != nil {
				continue
			}
			res, err := changed.response(t, d)
			if err != nil {
				t.Errorf("%s to %s: %v", r.name, d, err)
				continue
			}
			made++
			before, after := readers[from.name].read(plain), readers[from.name].read(res)
			if after.unsound != "" || !strings.Contains(after.all(text), words) || !strings.HasPrefix(after.all(text), before.all(text)) || len(after.calls()) != len(before.calls()) || after.stop != before.stop {
				found[fmt.Sprintf("%s to %s", r.provider, d)] = fmt.Sprintf("%s: unsound %q: %.600s", r.name, after.unsound, res.Body)
			}
		}
	}
	if made < 50 {
		t.Errorf("only %d responses", made)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %s", key, found[key])
	}
}

// They do so in streams.
func TestUnknownPartsOfStreamsReachTheClient(t *testing.T) {
	const words = "words of a hologram"
	parsed := func(typ, data string) recordedEvent { return recordedEvent{typ: typ, raw: data} }
	complete := func(d api.Dialect, body string) recordedResponse {
		return recordedResponse{provider: d, body: json.RawMessage(body)}
	}
	for _, r := range []recordedResponse{
		{provider: api.DialectChat, events: []recordedEvent{
			parsed("", `{"choices":[{"index":0,"delta":{"content":[{"type":"hologram","text":"`+words+`"}]}}]}`),
			parsed("", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`),
		}},
		{provider: api.DialectMessages, events: []recordedEvent{
			parsed("message_start", `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`),
			parsed("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"hologram","text":"`+words[:5]+`"}}`),
			parsed("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+words[5:]+`"}}`),
			parsed("content_block_stop", `{"type":"content_block_stop","index":0}`),
			parsed("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`),
			parsed("message_stop", `{"type":"message_stop"}`),
		}},
		{provider: api.DialectResponses, events: []recordedEvent{
			parsed("response.output_item.done", `{"type":"response.output_item.done","output_index":0,"item":{"type":"hologram","id":"h","content":[{"type":"output_text","text":"`+words+`"}]}}`),
			parsed("response.completed", `{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}`),
		}},
		{provider: api.DialectGemini, events: []recordedEvent{
			parsed("", `{"candidates":[{"content":{"role":"model","parts":[{"hologram":{"text":"`+words+`"}}]},"finishReason":"STOP","index":0}]}`),
		}},
		{provider: api.DialectConverse, events: []recordedEvent{
			parsed("contentBlockStart", `{"contentBlockIndex":0,"start":{"hologram":{"text":"`+words+`"}}}`),
			parsed("contentBlockStop", `{"contentBlockIndex":0}`),
			parsed("messageStop", `{"stopReason":"end_turn"}`),
		}},
		{provider: api.DialectCohere, events: []recordedEvent{
			parsed("message-start", `{"type":"message-start","id":"c","delta":{"message":{"role":"assistant"}}}`),
			parsed("content-start", `{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"hologram","text":"`+words+`"}}}}`),
			parsed("content-end", `{"type":"content-end","index":0}`),
			parsed("message-end", `{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`),
		}},
		complete(api.DialectChat, `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"hologram","text":"`+words+`"}]},"finish_reason":"stop"}]}`),
		complete(api.DialectMessages, `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"hologram","text":"`+words+`"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`),
		complete(api.DialectResponses, `{"id":"r","status":"completed","output":[{"type":"hologram","id":"h","content":[{"type":"output_text","text":"`+words+`"}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`),
		complete(api.DialectGemini, `{"candidates":[{"content":{"role":"model","parts":[{"hologram":{"text":"`+words+`"}}]},"finishReason":"STOP","index":0}]}`),
		complete(api.DialectConverse, `{"output":{"message":{"role":"assistant","content":[{"hologram":{"text":"`+words+`"}}]}},"stopReason":"end_turn","usage":{}}`),
		complete(api.DialectCohere, `{"id":"c","message":{"role":"assistant","content":[{"type":"hologram","text":"`+words+`"}]},"finish_reason":"COMPLETE"}`),
	} {
		for _, from := range clients {
			d := api.Dialect(from.name)
			if d == r.provider {
				continue
			}
			res, err := r.response(t, d)
			if err != nil {
				t.Fatal(err)
			}
			if h := readers[from.name].read(res); h.unsound != "" || h.all(text) != words || !h.ended {
				t.Errorf("%s to %s: unsound %q, text %q: %s", r.provider, d, h.unsound, h.all(text), res.Body)
			}
		}
	}
}

// Whatever a provider changes in what it was recorded to send, clients of other
// dialects get a sound response or an error, and what the change does not concern
// stays.
func TestChangedRecordedResponsesStaySound(t *testing.T) {
	problems, made := map[string]string{}, 0
	for _, r := range mustRecordedResponses(t, 45) {
		for _, from := range clients {
			d := api.Dialect(from.name)
			if d == r.provider {
				continue
			}
			plain, err := r.response(t, d)
			if err != nil {
				continue // an error in the recording
			}
			before := readers[from.name].read(plain)
			if before.unsound != "" {
				problems[from.name+": unchanged "+r.name] = before.unsound
				continue
			}
			for _, c := range responseChanges() {
				for _, i := range []int{0, 1, 3, 6, 10, 15, 25} {
					changed := r.clone()
					objects := changed.objectsOf()
					fits := 0
					done := slices.ContainsFunc(objects, func(o object) bool {
						probe := maps.Clone(o)
						if !c.apply(probe) {
							return false
						}
						if fits++; fits <= i {
							return false
						}
						return c.apply(o)
					})
					if !done {
						break
					}
					made++
					key := fmt.Sprintf("%s to %s, stream %t: %s", r.provider, d, r.events != nil, c.name)
					res, err := changed.response(t, d)
					if err != nil {
						if c.keeps {
							problems[key] = fmt.Sprintf("%s, place %d: %v", r.name, i, err)
						}
						continue
					}
					after := readers[from.name].read(res)
					switch {
					case after.unsound != "":
						problems[key] = fmt.Sprintf("%s, place %d: unsound: %.300s", r.name, i, after.unsound)
					case c.keeps && (before.said() != after.said() || before.ended != after.ended || after.fault != before.fault):
						problems[key] = fmt.Sprintf("%s, place %d: ended %t, fault %q\nsaid %.200s\nwant %.200s", r.name, i, after.ended, after.fault, after.said(), before.said())
					}
				}
			}
		}
	}
	if made < 1000 {
		t.Errorf("only %d changes", made)
	}
	t.Logf("%d changes", made)
	for _, key := range slices.Sorted(maps.Keys(problems)) {
		t.Errorf("%s: %s", key, problems[key])
	}
}
