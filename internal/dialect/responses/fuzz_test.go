package responses_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

const id = "0123456789abcdef0123456789abcdef"

func FuzzRequest(f *testing.F) {
	f.Add([]byte(codexRequest))
	f.Add([]byte(`{"model":"m","input":[{"type":"reasoning","summary":[{"text":"a"}],"content":[{"text":"b"}],"id":"r"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var d jsonedit.Doc
		if d.Scan(body) == nil {
			responses.Dialect{}.Check(api.Responses, &d)
		}
		r, err := responses.Dialect{}.DecodeRequest(body)
		if err != nil {
			if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid {
				t.Fatalf("DecodeRequest failed with %T, want an *apierr.Error of kind Invalid", err)
			}
			return
		}
		for _, to := range []dialect.RequestTarget{dialecttest.TargetOf("openai", "gpt-5"), dialecttest.TargetOf("groq", "x")} {
			out, _, err := responses.Dialect{}.EncodeRequest(nil, r, to)
			if err != nil {
				continue
			}
			if !json.Valid(out) {
				t.Fatalf("EncodeRequest of %s wrote %s", body, out)
			}
			if _, err := (responses.Dialect{}).DecodeRequest(out); err != nil && !strings.Contains(err.Error(), "answers a call") {
				t.Fatalf("DecodeRequest of what EncodeRequest wrote: %v\n%s\n%s", err, body, out)
			}
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"u"}],"logprobs":[{"token":"a","logprob":-1}]}]},{"type":"reasoning","id":"r","summary":[],"encrypted_content":"mg1.google.x"}],"usage":{"input_tokens":1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		responses.Dialect{}.NewTap(api.Responses).Body(body)
		if out := (responses.Dialect{}).ProviderError(nil, body, "p", 500); !json.Valid(out) {
			t.Fatalf("ProviderError wrote %s", out)
		}
		r, err := responses.Dialect{}.DecodeResponse(body, nil, dialecttest.TargetOf("openai", ""))
		if err != nil {
			return
		}
		if out := (responses.Dialect{}).EncodeResponse(nil, r, dialect.ResponseTarget{ID: id}); !json.Valid(out) {
			t.Fatalf("EncodeResponse of %s wrote %s", body, out)
		}
	})
}

func FuzzStream(f *testing.F) {
	for _, events := range streamSeeds {
		f.Add([]byte(strings.Join(events, "\n")))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d := responses.Dialect{}.NewDecoder(nil, dialecttest.TargetOf("openai", ""))
		tap := responses.Dialect{}.NewTap(api.Responses)
		var events []llm.Event
		for line := range strings.SplitSeq(string(body), "\n") {
			events = d.Decode(events, sse.Event{Data: []byte(line)})
			tap.Event(sse.Event{Data: []byte(line)})
		}
		events = d.End(events)
		if why := dialecttest.CheckEventOrder(events); why != "" {
			t.Fatal(why)
		}
		enc := responses.Dialect{}.NewEncoder(dialect.ResponseTarget{ID: id})
		var stream []byte
		for i := range events {
			stream = enc.Encode(stream, &events[i])
		}
		for line := range strings.SplitSeq(string(stream), "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(data)) {
				t.Fatalf("the encoder wrote %s", data)
			}
		}
	})
}

var streamSeeds = [][]string{
	{
		`{"type":"response.created","response":{"id":"resp_1","model":"m","created_at":1}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"r","summary":[]}}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}`,
		`{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"b"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"r","summary":[{"text":"a"},{"text":"c"}],"content":[{"text":"bd"}],"encrypted_content":"x"}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f"}}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}`,
		`{"type":"response.output_text.delta","output_index":2,"content_index":0,"delta":"t","logprobs":[{"token":"t","logprob":0}]}`,
		`{"type":"response.output_text.annotation.added","output_index":2,"content_index":0,"annotation":{"type":"url_citation","url":"u"}}`,
		`{"type":"response.refusal.delta","output_index":3,"content_index":0,"delta":"no"}`,
		`{"type":"response.completed","response":{"status":"completed","output":[{"type":"image_generation_call","id":"i","result":"AA=="},{"type":"other"}],"usage":{"input_tokens":3,"output_tokens":4}}}`,
	},
	{`{"type":"error","error":{"message":"m"}}`},
	{`{"error":{"message":"m"}}`},
	{`{"type":"response.failed","response":{"error":{"code":"c","message":"m"}}}`},
}
