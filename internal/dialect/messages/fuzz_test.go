package messages_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","max_tokens":1,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aaaa"}}]}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"mg1.google.x"},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":9},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"minimum":1}}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := messages.Dialect{}
		var doc jsonedit.Doc
		if doc.Scan(body) == nil {
			_ = d.Check(api.Messages, &doc)
		}
		r, err := d.DecodeRequest(body)
		if err != nil {
			if refusal, ok := errors.AsType[*apierr.Error](err); !ok || refusal.Kind != apierr.Invalid {
				t.Fatalf("DecodeRequest failed with %T %v", err, err)
			}
			return
		}
		for _, from := range []string{"messages", "chat"} {
			for _, to := range []dialect.RequestTarget{anthropic, dialecttest.TargetOf("bedrock", "claude-opus-5"), dialecttest.TargetOf("vertex-ai", "claude-3")} {
				r.Dialect = from
				encoded, _, err := d.EncodeRequest(nil, r, to)
				if err == nil && !json.Valid(encoded) {
					t.Fatalf("EncodeRequest wrote what is not JSON: %s", encoded)
				}
			}
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(`{"id":"m","type":"message","model":"m","content":[{"type":"text","text":"x","citations":[{"type":"char_location"}]},{"type":"tool_use","id":"a","name":"f","input":{"input":"x"}},{"type":"new"}],"stop_reason":"end_turn","container":{},"usage":{"input_tokens":1,"output_tokens":2,"iterations":[{"type":"compaction","input_tokens":3}],"server_tool_use":{}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d := messages.Dialect{}
		d.NewTap(api.Messages).Body(body)
		if out := d.ProviderError(nil, body, "p", 500); !json.Valid(out) {
			t.Fatalf("ProviderError wrote what is not JSON: %s", out)
		}
		for _, r := range []*llm.Request{nil, emulated()} {
			response, err := d.DecodeResponse(body, r, dialect.RequestTarget{Model: "claude-3"})
			if err != nil {
				continue
			}
			if out := d.EncodeResponse(nil, response, forClient); !json.Valid(out) {
				t.Fatalf("EncodeResponse wrote what is not JSON: %s", out)
			}
		}
	})
}

func FuzzDecodeStream(f *testing.F) {
	f.Add([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n" +
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n" +
		"data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"compaction\",\"content\":\"a\"}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"compaction_delta\",\"content\":\"b\"}}\n\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"container\":{}},\"usage\":{\"output_tokens\":1}}\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		frames, err := dialecttest.ServerSentEvents(bytes.NewReader(stream))
		if err != nil {
			return
		}
		tap := messages.Dialect{}.NewTap(api.Messages)
		for _, r := range []*llm.Request{nil, emulated()} {
			d := messages.Dialect{}.NewDecoder(r, dialect.RequestTarget{Model: "claude-3"})
			var events []llm.Event
			for _, frame := range frames {
				tap.Event(frame)
				events = d.Decode(events, frame)
			}
			events = d.End(events)
			if why := dialecttest.CheckEventOrder(events); why != "" {
				t.Fatalf("%s", why)
			}
			encode(t, events)
		}
	})
}

// encode writes events as a stream, of which every frame must be JSON.
func encode(t *testing.T, events []llm.Event) {
	t.Helper()
	e := messages.Dialect{}.NewEncoder(forClient)
	for i := range events {
		frames, err := dialecttest.ServerSentEvents(bytes.NewReader(e.Encode(nil, &events[i])))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			if !json.Valid(f.Data) {
				t.Fatalf("a frame is not JSON: %s", f.Data)
			}
		}
	}
}

// A deep request and a long one take no longer than their size says.
func TestHostileRequestsAreRead(t *testing.T) {
	var keys, turns bytes.Buffer
	for i := range 50000 {
		keys.WriteString(`"k` + string(rune('a'+i%26)) + itoa(i) + `":1,`)
		turns.WriteString(`{"role":"user","content":[{"type":"text","text":"x"}]},`)
	}
	for _, body := range []string{
		`{"messages":[{"role":"assistant","content":[{` + keys.String() + `"type":"tool_use","id":"a","name":"f","input":{}}]}]}`,
		`{"output_config":{` + keys.String() + `"a":1},"messages":[]}`,
		`{"messages":[` + turns.String() + `{"role":"assistant","content":"x"}]}`,
	} {
		r, err := messages.Dialect{}.DecodeRequest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Extra) > 0 && len(r.Extra) != 50001 {
			t.Errorf("%d extras, want 50001", len(r.Extra))
		}
		r.Extra = nil
		for _, from := range []string{"messages", "chat"} {
			r.Dialect = from
			if _, _, err := (messages.Dialect{}).EncodeRequest(nil, r, anthropic); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func itoa(i int) string { b, _ := json.Marshal(i); return string(b) }

// A frame is decoded without keeping it.
func TestEventsHoldNoViewsOfTheFrame(t *testing.T) {
	d := messages.Dialect{}.NewDecoder(nil, anthropic)
	var events []llm.Event
	buffer := make([]byte, 0, 1024)
	for _, f := range []string{
		`{"type":"message_start","message":{"id":"m","model":"x","container":{"id":"c"},"usage":{"input_tokens":1,"inference_geo":"us"}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"t"}}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"a":1},"caller":{"type":"direct"}}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s","name":"n","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_details":{"a":1}},"usage":{"output_tokens":1,"server_tool_use":{"n":1}}}`,
		`{"type":"message_stop"}`,
	} {
		buffer = append(buffer[:0], f...)
		events = d.Decode(events, sse.Event{Data: buffer})
		for i := range buffer {
			buffer[i] = '#'
		}
	}
	var a dialect.Assembler
	for i := range events {
		a.Add(&events[i])
	}
	got, _, _ := a.Response()
	want := []llm.Choice{{
		Parts: []llm.Part{
			llm.Text{Citations: []llm.Citation{{Text: "t"}}},
			llm.ToolCall{ID: "a", Name: "f", Arguments: `{"a":1}`, Extra: []llm.Member{{Name: "caller", Value: json.RawMessage(`{"type":"direct"}`)}}},
			llm.Native{Dialect: "messages", Type: "server_tool_use", Raw: json.RawMessage(`{"type":"server_tool_use","id":"s","name":"n","input":{"q":1}}`)},
		},
		Stop: llm.StopEnd,
		Extra: []llm.Member{
			{Name: "usage.inference_geo", Value: json.RawMessage(`"us"`)}, {Name: "container", Value: json.RawMessage(`{"id":"c"}`)},
			{Name: "usage.server_tool_use", Value: json.RawMessage(`{"n":1}`)}, {Name: "stop_details", Value: json.RawMessage(`{"a":1}`)},
		},
	}}
	if diff := cmp.Diff(want, got.Choices, dialecttest.Same()...); diff != "" {
		t.Errorf("the response (-want +got):\n%s", diff)
	}
}
