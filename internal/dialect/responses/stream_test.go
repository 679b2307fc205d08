package responses_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

func responseTarget(t testing.TB, request string) dialect.ResponseTarget {
	t.Helper()
	return dialect.ResponseTarget{Request: mustDecode(t, request), Provider: "anthropic", ID: id, Created: 1700000000}
}

func encoded(to dialect.ResponseTarget, events ...llm.Event) string {
	enc := responses.Dialect{}.NewEncoder(to)
	var stream []byte
	for i := range events {
		stream = enc.Encode(stream, &events[i])
	}
	return string(stream)
}

// manyParts is a response of every kind of part, with two calls next to each
// other.
var manyParts = []llm.Event{
	{Kind: llm.EventStart, ID: "msg_1", Model: "claude"},
	{Kind: llm.EventPartStart, Part: 0, Opened: llm.Thinking{}},
	{Kind: llm.EventDelta, Part: 0, Text: "hm"},
	{Kind: llm.EventDelta, Part: 0, Signature: llm.Signature{Vendor: llm.Anthropic, Value: "AB"}},
	{Kind: llm.EventPartEnd, Part: 0},
	{Kind: llm.EventPartStart, Part: 1, Opened: llm.Text{}},
	{Kind: llm.EventDelta, Part: 1, Text: "He"},
	{Kind: llm.EventDelta, Part: 1, Text: "llo"},
	{Kind: llm.EventDelta, Part: 1, Citation: &llm.Citation{URL: "https://example.com", Title: "E", End: 5}},
	{Kind: llm.EventPartEnd, Part: 1},
	{Kind: llm.EventPartStart, Part: 2, Opened: llm.Refusal{}},
	{Kind: llm.EventDelta, Part: 2, Text: "no"},
	{Kind: llm.EventPartEnd, Part: 2},
	{Kind: llm.EventPartStart, Part: 3, Opened: llm.ToolCall{ID: "c1", Name: "f", Signature: llm.Signature{Vendor: llm.Google, Value: "G"}}},
	{Kind: llm.EventPartStart, Part: 4, Opened: llm.ToolCall{ID: "c2", Name: "n__g", Custom: true}},
	{Kind: llm.EventDelta, Part: 4, Text: "in"},
	{Kind: llm.EventDelta, Part: 3, Text: `{"a"`},
	{Kind: llm.EventDelta, Part: 3, Text: `:1}`},
	{Kind: llm.EventPartEnd, Part: 4},
	{Kind: llm.EventPartEnd, Part: 3},
	{Kind: llm.EventPartStart, Part: 5, Opened: llm.Native{Dialect: "messages", Type: "server_tool_use"}},
	{Kind: llm.EventPartEnd, Part: 5},
	{Kind: llm.EventFinish, Stop: llm.StopTool},
	{Kind: llm.EventUsage, Usage: llm.Usage{Known: true, Input: 1, CachedInput: 2, Output: 3, Reasoning: 4}},
	{Kind: llm.EventEnd},
}

const withNamespace = `{"model":"m","input":"x","temperature":0.5,"metadata":{"a":"b"},"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"custom","name":"g"}]}]}`

// Official clients add the part that content_part.added brings behind those that
// the item holds.
func TestAMessageIsEmptyWhenItBegins(t *testing.T) {
	stream := string(encoded(responseTarget(t, withNamespace), manyParts...))
	_, begun, _ := strings.Cut(stream, `"item":{"id":"msg_`)
	if _, rest, _ := strings.Cut(begun, `"content":`); !strings.HasPrefix(rest, "[]") {
		t.Errorf("the message begins as %.120s, want no content", begun)
	}
}

func TestEventsComeInTheOrderOfTheProtocol(t *testing.T) {
	want := []string{
		"response.created", "response.in_progress",
		"response.output_item.added 0 reasoning", "response.reasoning_summary_part.added 0", "response.reasoning_summary_text.delta 0",
		"response.reasoning_summary_text.done 0", "response.reasoning_summary_part.done 0", "response.output_item.done 0 reasoning",
		"response.output_item.added 1 message", "response.content_part.added 1.0", "response.output_text.delta 1.0", "response.output_text.delta 1.0",
		"response.output_text.annotation.added 1.0", "response.output_text.done 1.0", "response.content_part.done 1.0",
		"response.content_part.added 1.1", "response.refusal.delta 1.1", "response.refusal.done 1.1", "response.content_part.done 1.1",
		"response.output_item.done 1 message",
		"response.output_item.added 2 reasoning", "response.output_item.done 2 reasoning",
		"response.output_item.added 3 function_call", "response.output_item.added 4 custom_tool_call",
		"response.custom_tool_call_input.delta 4", "response.function_call_arguments.delta 3", "response.function_call_arguments.delta 3",
		"response.custom_tool_call_input.done 4", "response.output_item.done 4 custom_tool_call",
		"response.function_call_arguments.done 3", "response.output_item.done 3 function_call",
		"response.completed",
	}
	var got []string
	stream := encoded(responseTarget(t, withNamespace), manyParts...)
	ids := map[int]string{}
	for i, frame := range strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		typ, data, _ := strings.Cut(frame, "\ndata: ")
		var e struct {
			Type     string
			Sequence int    `json:"sequence_number"`
			Output   *int   `json:"output_index"`
			Content  *int   `json:"content_index"`
			ItemID   string `json:"item_id"`
			Item     struct{ Type, ID string }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if typ != "event: "+e.Type || e.Sequence != i {
			t.Errorf("event %d is %q of type %q with the number %d", i, typ, e.Type, e.Sequence)
		}
		line := e.Type
		if e.Output != nil {
			line += fmt.Sprintf(" %d", *e.Output)
			if known := ids[*e.Output]; known == "" {
				ids[*e.Output] = e.Item.ID
			} else if known != e.ItemID+e.Item.ID {
				t.Errorf("event %d is of item %s, want %s", i, e.ItemID+e.Item.ID, known)
			}
		}
		if e.Content != nil {
			line += fmt.Sprintf(".%d", *e.Content)
		}
		if e.Item.Type != "" {
			line += " " + e.Item.Type
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const wholeOfManyParts = `{"id":"resp_` + id + `","object":"response","created_at":1700000000,"status":"completed","error":null,"incomplete_details":null,
	"model":"claude","output":[
	{"id":"rs_` + id + `0000","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"mg1.anthropic.AB","status":"completed"},
	{"id":"msg_` + id + `0001","type":"message","role":"assistant","content":[
		{"type":"output_text","annotations":[{"type":"url_citation","start_index":0,"end_index":5,"url":"https://example.com","title":"E"}],"logprobs":[],"text":"Hello"},
		{"type":"refusal","refusal":"no"}],"status":"completed"},
	{"id":"rs_` + id + `0002","type":"reasoning","summary":[],"encrypted_content":"mg1.google.G","status":"completed"},
	{"id":"fc_` + id + `0003","type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}","status":"completed"},
	{"id":"ctc_` + id + `0004","type":"custom_tool_call","call_id":"c2","name":"g","namespace":"n","input":"in","status":"completed"}],
	"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":10},
	"service_tier":null,"background":false,"instructions":null,"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,
	"reasoning":{"effort":null,"summary":null},"store":false,"temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"auto",
	"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"custom","name":"g"}]}],
	"top_logprobs":0,"top_p":null,"user":null,"metadata":{"a":"b"},"truncation":"disabled","max_tool_calls":null,"prompt_cache_key":null,"safety_identifier":null}`

func TestTheLastEventHasTheCompleteResponse(t *testing.T) {
	to := responseTarget(t, withNamespace)
	stream := encoded(to, manyParts...)
	_, last := lastOf(t, stream)
	if diff := cmp.Diff(mustJSON(t, wholeOfManyParts), last["response"]); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
	var a dialect.Assembler
	for i := range manyParts {
		a.Add(&manyParts[i])
	}
	r, _, _ := a.Response()
	if diff := cmp.Diff(mustJSON(t, wholeOfManyParts), mustJSON(t, string(responses.Dialect{}.EncodeResponse(nil, r, to)))); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
}

// lastOf returns the type and the data of the last event of a stream.
func lastOf(t *testing.T, stream string) (typ string, data map[string]any) {
	t.Helper()
	typ, text, ok := strings.Cut(stream[strings.LastIndex(stream, "event: "):], "\ndata: ")
	if !ok || !strings.HasSuffix(text, "\n\n") {
		t.Fatalf("the stream ends in %q", text)
	}
	return strings.TrimPrefix(typ, "event: "), mustJSON(t, text).(map[string]any)
}

func TestBrokenStreamsEndInAFailedResponse(t *testing.T) {
	fault := llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{Type: "overloaded_error", Message: "too much"}}
	typ, data := lastOf(t, encoded(responseTarget(t, withNamespace), append(manyParts[:7:7], fault, llm.Event{Kind: llm.EventEnd})...))
	if typ != "response.failed" {
		t.Fatalf("the last event is %s, want response.failed", typ)
	}
	r := data["response"].(map[string]any)
	if diff := cmp.Diff(mustJSON(t, `{"code":"server_error","message":"too much"}`), r["error"]); diff != "" || r["status"] != "failed" {
		t.Errorf("status %v and error (-want +got):\n%s", r["status"], diff)
	}
	want := `[{"id":"rs_` + id + `0000","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"mg1.anthropic.AB","status":"completed"},
		{"id":"msg_` + id + `0001","type":"message","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"He"}],"status":"incomplete"}]`
	if diff := cmp.Diff(mustJSON(t, want), r["output"]); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// The official clients raise an error for an event whose data has a member
// named error, and hand on other events of that type as they are.
func TestErrorEventsHoldAnErrorObject(t *testing.T) {
	got := string(responses.Dialect{}.ErrorEvent([]byte("<"), apierr.New(apierr.UpstreamFailed, "x").WithParam("p")))
	want := `{"type":"error","code":"upstream_failed","message":"x","param":"p","sequence_number":0,"error":{"type":"upstream_error","code":"upstream_failed","message":"x","param":"p"}}`
	if got != "<event: error\ndata: "+want+"\n\n" {
		t.Errorf("ErrorEvent = %s, want %s", got, want)
	}
}

func TestEndingsSayWhy(t *testing.T) {
	for _, tt := range []struct {
		stop         llm.StopReason
		parts        []llm.Part
		typ, details string
	}{
		{llm.StopEnd, nil, "response.completed", "null"},
		{"", nil, "response.completed", "null"},
		{llm.StopSequence, nil, "response.completed", "null"},
		{llm.StopPause, nil, "response.completed", "null"},
		{llm.StopLength, nil, "response.incomplete", `{"reason":"max_output_tokens"}`},
		{llm.StopContext, nil, "response.incomplete", `{"reason":"max_output_tokens"}`},
		{llm.StopFilter, nil, "response.incomplete", `{"reason":"content_filter"}`},
		{llm.StopRefusal, nil, "response.incomplete", `{"reason":"content_filter"}`},
		{llm.StopRefusal, []llm.Part{llm.Refusal{Text: "no"}}, "response.completed", "null"},
	} {
		t.Run(fmt.Sprint(tt.stop, len(tt.parts)), func(t *testing.T) {
			r := &llm.Response{Choices: []llm.Choice{{Parts: tt.parts, Stop: tt.stop}}}
			stream := encoded(dialect.ResponseTarget{ID: id}, slices.Collect(dialect.Replay(r))...)
			last := stream[strings.LastIndex(stream, "event: "):]
			if !strings.HasPrefix(last, "event: "+tt.typ+"\n") || !strings.Contains(last, `"incomplete_details":`+tt.details) {
				t.Errorf("the last event is %s, want %s with %s", last, tt.typ, tt.details)
			}
		})
	}
}

func TestAnErrorBeforeAllElseStillBeginsTheStream(t *testing.T) {
	stream := encoded(dialect.ResponseTarget{ID: id}, llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{Code: "rate_limit_error", Message: "m"}}, llm.Event{Kind: llm.EventEnd})
	if n := strings.Count(stream, "event: "); n != 3 || !strings.Contains(stream, `"error":{"code":"rate_limit_exceeded","message":"m"}`) {
		t.Errorf("%d events, want 3: %s", n, stream)
	}
}

// Each end of a response is another outcome.
func TestEndsOfResponsesAreReported(t *testing.T) {
	for _, tt := range []struct{ event, finish, failed string }{
		{`{"type":"response.completed","response":{"status":"completed"}}`, "completed", ""},
		{`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`, "max_output_tokens", ""},
		{`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"broken"}}}`, "failed", "broken"},
		{`{"type":"response.failed","response":{"status":"failed","error":null}}`, "failed", "the provider reported an error without a message"},
		{`{"type":"error","code":"x","message":"cut"}`, "", "cut"},
	} {
		tap := responses.Dialect{}.NewTap(api.Responses)
		tap.Event(sse.Event{Data: []byte(tt.event)})
		if got := tap.Info(); got.Finish != tt.finish || got.Failed != tt.failed {
			t.Errorf("%s ends as %q with the error %q, want %q with %q", tt.event, got.Finish, got.Failed, tt.finish, tt.failed)
		}
	}
}
