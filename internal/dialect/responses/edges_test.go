package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// streamOf decodes the data of events.
func streamOf(t *testing.T, data ...string) *llm.Response {
	t.Helper()
	d := responses.Dialect{}.NewDecoder(nil, dialecttest.TargetOf("openai", ""))
	var events []llm.Event
	for _, line := range data {
		events = d.Decode(events, sse.Event{Data: []byte(line)})
	}
	events = d.End(events)
	if why := dialecttest.CheckEventOrder(events); why != "" {
		t.Fatal(why)
	}
	var a dialect.Assembler
	for i := range events {
		a.Add(&events[i])
	}
	r, _, _ := a.Response()
	return r
}

func TestStreamsThatSayThingsTwiceOrLate(t *testing.T) {
	const end = `{"type":"response.completed","response":{"status":"completed"}}`
	thought := llm.Thinking{Summary: true, ID: "r", Signature: llm.Signature{Vendor: llm.OpenAI, Value: "S"}}
	for _, tt := range []struct {
		name string
		data []string
		want []llm.Part
	}{
		{"deltas win over another whole text", []string{
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"ab"}`,
			`{"type":"response.content_part.done","output_index":0,"content_index":0,"part":{"type":"output_text","text":"xyz"}}`,
		}, []llm.Part{llm.Text{Text: "ab"}}},
		{"a whole text goes on where deltas ended", []string{
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"ab"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"abc"}]}}`,
		}, []llm.Part{llm.Text{Text: "abc"}}},
		{"what comes after the end of a part is skipped", []string{
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"a"}`,
			`{"type":"response.content_part.done","output_index":0,"content_index":0,"part":{"type":"output_text","text":"a"}}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"b"}`,
		}, []llm.Part{llm.Text{Text: "a"}}},
		{"thinking without text keeps its place", []string{
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"r","summary":[]}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"r","summary":[],"encrypted_content":"S"}}`,
			`{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{}"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}`,
		}, []llm.Part{thought, llm.ToolCall{ID: "c", Name: "f", Arguments: "{}"}}},
		{"a call without a call_id has that of its item", []string{
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"i","name":"f","arguments":"{}"}}`,
		}, []llm.Part{llm.ToolCall{ID: "i", Name: "f", Arguments: "{}"}}},
		{"events without an index belong to the newest item", []string{
			`{"type":"response.output_item.added","output_index":null,"item":{"type":"reasoning","id":"r","summary":[]}}`,
			`{"type":"response.output_item.done","item":{"type":"reasoning","id":"r","summary":[],"encrypted_content":"S"}}`,
			`{"type":"response.output_item.added","output_index":"1","item":{"type":"message","id":"m","content":[]}}`,
			`{"type":"response.output_text.delta","output_index":"1","item_id":"m2","content_index":0,"delta":"a"}`,
			`{"type":"response.output_text.delta","item_id":"m3","content_index":0,"delta":"b"}`,
		}, []llm.Part{thought, llm.Text{Text: "ab"}}},
		{"events without an index belong to the item with their id", []string{
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"i","call_id":"c","name":"f","arguments":""}}`,
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"j","call_id":"d","name":"g","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"i","delta":"{}"}`,
			`{"type":"response.function_call_arguments.delta","item_id":"j","delta":"[]"}`,
			`{"type":"response.function_call_arguments.done","item_id":"i","arguments":"{}"}`,
		}, []llm.Part{llm.ToolCall{ID: "c", Name: "f", Arguments: "{}"}, llm.ToolCall{ID: "d", Name: "g", Arguments: "[]"}}},
		{"a response that comes with its end alone", []string{
			`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}}`,
		}, []llm.Part{llm.Text{Text: "a"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := streamOf(t, append(tt.data, end)...)
			if diff := cmp.Diff(tt.want, r.Choices[0].Parts, dialecttest.Same()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfManyItemsTheNewestAreSearchedForAnID(t *testing.T) {
	var data []string
	for i := range 66 {
		data = append(data, fmt.Sprintf(`{"type":"response.output_item.added","item":{"type":"function_call","id":"i%d","call_id":"c%[1]d","name":"f","arguments":""}}`, i))
	}
	for _, id := range []string{"i0", "i2"} { // 66 and 64 items ago
		data = append(data, `{"type":"response.function_call_arguments.delta","item_id":"`+id+`","delta":"{}"}`)
	}
	data = append(data, `{"type":"response.completed","response":{"status":"completed"}}`)
	parts := streamOf(t, data...).Choices[0].Parts
	for i, want := range map[int]string{0: "", 2: "{}", 65: "{}"} { // what is not found is of the newest
		if got := parts[i].(llm.ToolCall).Arguments; got != want {
			t.Errorf("call %d has the arguments %q, want %q", i, got, want)
		}
	}
}

func TestAMessageThatIsOpenNextToACallEndsWithItsText(t *testing.T) {
	stream := encoded(dialect.ResponseTarget{ID: id},
		llm.Event{Kind: llm.EventStart},
		llm.Event{Kind: llm.EventPartStart, Part: 0, Opened: llm.Text{}},
		llm.Event{Kind: llm.EventPartStart, Part: 1, Opened: llm.ToolCall{ID: "c", Name: "f"}},
		llm.Event{Kind: llm.EventDelta, Part: 0, Text: "late"},
		llm.Event{Kind: llm.EventPartEnd, Part: 0})
	typ, data := lastOf(t, stream)
	if typ != "response.output_item.done" || data["output_index"] != 0.0 {
		t.Errorf("the last event is %s of %v, want the end of the message", typ, data["output_index"])
	}
}

func TestRedactedThinkingComesBackAsSuch(t *testing.T) {
	want := llm.Thinking{Redacted: true, Signature: llm.Signature{Vendor: llm.Anthropic, Value: "R"}}
	response := &llm.Response{Choices: []llm.Choice{{Parts: []llm.Part{want}}}}
	body := responses.Dialect{}.EncodeResponse(nil, response, dialect.ResponseTarget{ID: id})
	if !strings.Contains(string(body), `"encrypted_content":"mg1.anthropic.redacted.R"`) {
		t.Fatalf("EncodeResponse = %s", body)
	}
	item := string(body[strings.Index(string(body), `"output":[`)+len(`"output":[`):])
	item = item[:strings.Index(item, `],"usage"`)]
	want.ID = "rs_" + id + "0000"
	r := mustDecode(t, `{"model":"m","input":[`+item+`]}`)
	if diff := cmp.Diff([]llm.Part{want}, r.Messages[0].Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOneSignatureIsOfOneCall(t *testing.T) {
	r := mustDecode(t, `{"model":"m","input":[
		{"type":"reasoning","summary":[],"encrypted_content":"mg1.google.G"},
		{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
		{"type":"function_call","call_id":"b","name":"f","arguments":"{}"}]}`)
	parts := r.Messages[0].Parts
	if a, b := parts[0].(llm.ToolCall), parts[1].(llm.ToolCall); a.Signature.Value != "G" || b.Signature.Value != "" {
		t.Errorf("signatures %q and %q, want G and none", a.Signature.Value, b.Signature.Value)
	}
}

func TestMessagesOfTheModelStayWithItsOpenCalls(t *testing.T) {
	r := mustDecode(t, `{"model":"m","input":[
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},
		{"type":"function_call_output","call_id":"c","output":""}]}`)
	if len(r.Messages) != 2 || len(r.Messages[0].Parts) != 3 {
		t.Errorf("%d messages, want the call with both texts, then its result", len(r.Messages))
	}
}

func TestAFileIsHeldOnce(t *testing.T) {
	r := mustDecode(t, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"f","filename":"a.pdf","file_data":"JVBE"}]}]}`)
	want := llm.Media{Kind: llm.Document, Type: "application/pdf", Data: "JVBE", Name: "a.pdf"}
	if diff := cmp.Diff(want, r.Messages[0].Parts[0], dialecttest.Same()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFirstNameOfTheModelCounts(t *testing.T) {
	tap := responses.Dialect{}.NewTap(api.Responses)
	tap.Event(sse.Event{Data: []byte(`{"type":"response.created","response":{"model":"a"}}`)})
	tap.Event(sse.Event{Data: []byte(`{"type":"response.completed","response":{"model":"b","status":"completed"}}`)})
	if got := tap.Info().Model; got != "a" {
		t.Errorf("Model = %q, want a", got)
	}
}
