package messages_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

const recordings = "../../../../shared/recordings"

type recorded struct {
	file    string
	API     string
	Request struct {
		Body json.RawMessage
	}
	Response struct {
		Status int
		Body   string
	}
}

func (r *recorded) streamed() bool { return strings.HasPrefix(r.Response.Body, "event:") }

// mustRecorded returns every exchange of an API of this dialect.
func mustRecorded(t *testing.T) []recorded {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var whole struct{ Exchanges []recorded }
		if json.Unmarshal(b, &whole) != nil {
			continue
		}
		for _, e := range whole.Exchanges {
			if e.API == "messages" || e.API == "count-tokens" && strings.Contains(file, "anthropic/") {
				e.file = strings.TrimPrefix(file, recordings)
				e.Response.Body = oneResponse(e.Response.Body)
				all = append(all, e)
			}
		}
	}
	if len(all) < 60 {
		t.Fatalf("%d exchanges recorded, want at least 60", len(all))
	}
	return all
}

// oneResponse cuts off what follows the end of a stream: a few recordings hold the
// streams of several answers.
func oneResponse(body string) string {
	const last = `data: {"type":"message_stop"`
	if i := strings.Index(body, last); i >= 0 && strings.HasPrefix(body, "event:") {
		if n := strings.Index(body[i:], "\n\n"); n >= 0 {
			return body[:i+n+2]
		}
	}
	return body
}

// plainBlocks reads the blocks of a response by maps: the complete message, or the
// events of the stream put together.
func plainBlocks(t *testing.T, r *recorded) map[string]any {
	t.Helper()
	if !r.streamed() {
		return mustMap(t, r.Response.Body)
	}
	message := map[string]any{}
	var blocks []any
	args := map[int]string{}
	for line := range strings.SplitSeq(r.Response.Body, "\n") {
		data, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		e := mustMap(t, data)
		index, _ := e["index"].(float64)
		switch e["type"] {
		case "message_start":
			message = e["message"].(map[string]any)
		case "content_block_start":
			blocks = append(blocks, e["content_block"])
		case "content_block_delta":
			grow(blocks[int(index)].(map[string]any), e["delta"].(map[string]any), args, int(index))
		case "content_block_stop":
			if text := args[int(index)]; text != "" {
				blocks[int(index)].(map[string]any)["input"] = mustMap(t, text)
			}
		case "message_delta":
			maps.Copy(message, e["delta"].(map[string]any))
			usage := message["usage"].(map[string]any)
			maps.Copy(usage, e["usage"].(map[string]any))
		}
	}
	message["content"] = blocks
	return message
}

func grow(block, delta map[string]any, args map[int]string, index int) {
	for k, v := range delta {
		switch k {
		case "type":
		case "partial_json":
			args[index] += v.(string)
		case "citation":
			list, _ := block["citations"].([]any)
			block["citations"] = append(list, v)
		default:
			old, _ := block[k].(string)
			block[k] = old + v.(string)
		}
	}
}

func mustMap(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return m
}

// read decodes a recorded answer.
func read(t *testing.T, r *recorded) *llm.Response {
	t.Helper()
	d := messages.Dialect{}
	if !r.streamed() {
		res, err := d.DecodeResponse([]byte(r.Response.Body), nil, dialecttest.TargetOf("anthropic", ""))
		if err != nil {
			t.Fatalf("%s: %v", r.file, err)
		}
		return res
	}
	frames, err := dialecttest.ServerSentEvents(strings.NewReader(r.Response.Body))
	if err != nil {
		t.Fatal(err)
	}
	events := decodeAll(frames...)
	if why := dialecttest.CheckEventOrder(events); why != "" {
		t.Errorf("%s: %s", r.file, why)
	}
	var a dialect.Assembler
	for i := range events {
		a.Add(&events[i])
	}
	res, fault, _ := a.Response()
	if fault != nil {
		t.Errorf("%s: fault %v", r.file, fault)
	}
	return res
}

// plainly says a part as the recording would: for comparing.
func plainly(t *testing.T, p llm.Part) map[string]any {
	t.Helper()
	switch p := p.(type) {
	case llm.Text:
		m := map[string]any{"type": "text", "text": p.Text}
		var cites []any
		for _, c := range p.Citations {
			cites = append(cites, mustMap(t, string(c.Raw)))
		}
		if cites != nil {
			m["citations"] = cites
		}
		return m
	case llm.Thinking:
		if p.Redacted {
			return map[string]any{"type": "redacted_thinking", "data": p.Signature.Value}
		}
		return map[string]any{"type": "thinking", "thinking": p.Text, "signature": p.Signature.Value}
	case llm.ToolCall:
		m := map[string]any{"type": "tool_use", "id": p.ID, "name": p.Name, "input": mustMap(t, p.Arguments)}
		for _, e := range p.Extra {
			m[e.Name] = mustMap(t, string(e.Value))
		}
		return m
	case llm.Native:
		return mustMap(t, string(p.Raw))
	}
	t.Fatalf("a part of type %T", p)
	return nil
}

func TestRecordedResponsesAreReadFaithfully(t *testing.T) {
	var streams, bodies int
	for _, r := range mustRecorded(t) {
		if r.API != "messages" || r.Response.Status != 200 {
			continue
		}
		if r.streamed() {
			streams++
		} else {
			bodies++
		}
		want, got := plainBlocks(t, &r), read(t, &r)
		if len(got.Choices) == 0 {
			got.Choices = []llm.Choice{{}}
		}
		blocks := []any{}
		for _, p := range got.Choices[0].Parts {
			blocks = append(blocks, plainly(t, p))
		}
		for _, b := range list(want["content"]) {
			if b := b.(map[string]any); len(list(b["citations"])) == 0 {
				delete(b, "citations")
			}
		}
		said, _ := want["stop_reason"].(string)
		if diff := cmp.Diff([]any{want["id"], want["model"], said, append([]any{}, list(want["content"])...)},
			[]any{got.ID, got.Model, got.Choices[0].NativeFinishReason, blocks}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
		if diff := cmp.Diff(plainUsage(want["usage"].(map[string]any)), got.Usage); diff != "" {
			t.Errorf("%s: usage (-want +got):\n%s", r.file, diff)
		}
	}
	if streams < 20 || bodies < 20 {
		t.Errorf("%d streams and %d bodies: too few to show anything", streams, bodies)
	}
}

func list(v any) []any { l, _ := v.([]any); return l }

func plainUsage(m map[string]any) llm.Usage {
	n := func(m map[string]any, name string) int64 { f, _ := m[name].(float64); return int64(f) }
	write := func(m map[string]any) (w5m, w1h int64) {
		c, _ := m["cache_creation"].(map[string]any)
		w1h = n(c, "ephemeral_1h_input_tokens")
		return n(m, "cache_creation_input_tokens") - w1h, w1h
	}
	all := []map[string]any{m}
	for _, e := range list(m["iterations"]) {
		if e := e.(map[string]any); e["type"] == "compaction" { // what stands outside leaves it out
			all = append(all, e)
		}
	}
	details, _ := m["output_tokens_details"].(map[string]any)
	u := llm.Usage{Known: true, Reasoning: n(details, "thinking_tokens")}
	for _, m := range all {
		w5m, w1h := write(m)
		u.CacheWrite5m, u.CacheWrite1h = u.CacheWrite5m+w5m, u.CacheWrite1h+w1h
		u.Input += n(m, "input_tokens")
		u.CachedInput += n(m, "cache_read_input_tokens")
		u.Output += n(m, "output_tokens")
	}
	u.Output -= u.Reasoning
	return u
}

func TestTapReadsRecordedResponses(t *testing.T) {
	for _, r := range mustRecorded(t) {
		op := api.Messages
		if r.API == "count-tokens" {
			op = api.CountTokens
		}
		tap := messages.Dialect{}.NewTap(op)
		if !r.streamed() {
			tap.Body([]byte(r.Response.Body))
			body := mustMap(t, r.Response.Body)
			want := dialect.ResponseInfo{}
			switch failure, failed := body["error"].(map[string]any); {
			case failed:
				want.Failed = failure["message"].(string)
			case op == api.CountTokens:
				want.Begun, want.Finished = true, true // and nothing was used
			default:
				want = wholeSeen(body)
			}
			if diff := cmp.Diff(&want, tap.Info(), uncounted); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.file, diff)
			}
			continue
		}
		frames, err := dialecttest.ServerSentEvents(strings.NewReader(r.Response.Body))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			tap.Event(f)
		}
		want := wholeSeen(plainBlocks(t, &r))
		want.Terminated = strings.Contains(r.Response.Body, `"message_stop"`)
		if strings.Contains(r.Response.Body, `"fallback_message"`) {
			want.Model = "claude-opus-4-8" // which went on
		}
		if diff := cmp.Diff(&want, tap.Info(), uncounted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
	}
}

func wholeSeen(m map[string]any) dialect.ResponseInfo {
	s := dialect.ResponseInfo{Model: m["model"].(string), Usage: plainUsage(m["usage"].(map[string]any)), Begun: len(list(m["content"])) > 0}
	s.Finish, _ = m["stop_reason"].(string)
	s.Finished = s.Finish != ""
	return s
}

func TestRecordedRequestsPassAndComeBack(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t) {
		if len(r.Request.Body) == 0 || r.Request.Body[0] != '{' {
			continue
		}
		n++
		op := api.Messages
		if r.API == "count-tokens" {
			op = api.CountTokens
		}
		var doc jsonedit.Doc
		if err := doc.Scan(r.Request.Body); err != nil {
			t.Fatal(err)
		}
		if err := (messages.Dialect{}).Check(op, &doc); err != nil {
			t.Errorf("%s: Check = %v, want none", r.file, err)
			continue
		}
		first, again := roundTrip(t, r.file, r.Request.Body)
		if diff := cmp.Diff(first, again, dialecttest.Same()...); diff != "" {
			t.Errorf("%s came back otherwise (-want +got):\n%s", r.file, diff)
		}
		sent := mustMap(t, string(r.Request.Body))
		for _, tool := range list(sent["tools"]) {
			if tool := tool.(map[string]any); tool["description"] == "" {
				delete(tool, "description")
			}
		}
		for _, name := range []string{"temperature", "thinking", "tools", "mcp_servers", "context_management", "container", "metadata", "cache_control", "output_config"} {
			if diff := cmp.Diff(sent[name], mustMap(t, string(encoded(t, first)))[name]); diff != "" && sent[name] != nil {
				t.Errorf("%s: %s (-sent +written):\n%s", r.file, name, diff)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d requests recorded, want at least 40", n)
	}
}

// roundTrip decodes a request, encodes it, and decodes it again.
func roundTrip(t *testing.T, name string, body []byte) (first, again *llm.Request) {
	t.Helper()
	first, err := messages.Dialect{}.DecodeRequest(body)
	if err != nil {
		t.Fatalf("%s: DecodeRequest: %v", name, err)
	}
	if first.MaxTokens == nil {
		most := int64(64000)
		first.MaxTokens = &most
	}
	again, err = messages.Dialect{}.DecodeRequest(encoded(t, first))
	if err != nil {
		t.Fatalf("%s: decoding what was encoded: %v", name, err)
	}
	return first, again
}

func encoded(t *testing.T, r *llm.Request) []byte {
	t.Helper()
	body, fates, err := messages.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf("anthropic", r.Model))
	if err != nil || len(fates) > 0 {
		t.Fatalf("EncodeRequest: %v, fates %v", err, fates)
	}
	return body
}

// uncounted leaves out the size of the content, which has tests of its own.
var uncounted = cmpopts.IgnoreFields(dialect.ResponseInfo{}, "Written")
