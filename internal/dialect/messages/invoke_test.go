package messages_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// invoke has the dialect itself as its outer one: what counts is that it is
// asked.
var invoke = messages.Invoke{Outer: messages.Dialect{}}

// chunks reads the events inside the messages of a binary stream.
func chunks(r io.Reader) (list []sse.Event, err error) {
	for m := eventstream.NewReader(r, 0); ; {
		next, err := m.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return list, err
		}
		var part struct{ Bytes []byte }
		var event struct{ Type string }
		if err := json.Unmarshal(next.Payload, &part); err != nil {
			return list, err
		}
		if err := json.Unmarshal(part.Bytes, &event); err != nil {
			return list, err
		}
		list = append(list, sse.Event{Type: []byte(event.Type), Data: part.Bytes})
	}
}

func TestInvokeModelKeepsConversationsWhole(t *testing.T) {
	dialecttest.Run(t, dialecttest.Suite{
		Dialect: "messages", Client: invoke, Provider: messages.Dialect{}, Frames: chunks,
		Target: dialecttest.TargetOf("anthropic", "claude-sonnet-4-5"),
		Ignore: cmp.Options{cmpopts.IgnoreFields(llm.Response{}, "ID", "Model"), cmpopts.IgnoreFields(llm.Citation{}, "Start", "End")},
		Can: dialecttest.Capabilities{
			Fields:   []llm.Field{llm.FieldTools, llm.FieldMaxTokens, llm.FieldTemperature, llm.FieldStop},
			AnyOrder: true, TwoUsers: true, Fit: fit, Thinking: true, Signed: llm.Anthropic, Redacted: true, Failed: true,
			Usage: llm.Usage{Input: 1, CachedInput: 1, Output: 1},
		},
	})
}

func TestTheLastEventOfInvokeModelTellsTheUsage(t *testing.T) {
	enc := invoke.NewEncoder(dialect.ResponseTarget{Request: &llm.Request{}})
	var out []byte
	for _, e := range []llm.Event{{Kind: llm.EventStart}, {Kind: llm.EventUsage, Usage: llm.Usage{Known: true, Input: 3, Output: 4}}, {Kind: llm.EventFinish, Stop: llm.StopEnd}, {Kind: llm.EventEnd}} {
		out = enc.Encode(out, &e)
	}
	events, err := chunks(bytes.NewReader(out))
	const want = `{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3,"outputTokenCount":4}}`
	if err != nil || len(events) == 0 || string(events[len(events)-1].Data) != want {
		t.Errorf("the stream holds %q, %v; want it to end in %s", out, err, want)
	}
}

func TestInvokeModelLeavesErrorsToItsOuterDialect(t *testing.T) {
	e := apierr.New(apierr.RateLimited, "slow down")
	outer := messages.Dialect{}
	if got := invoke.Error(e); !bytes.Equal(got, outer.Error(e)) {
		t.Errorf("Error = %s", got)
	}
	if got := invoke.ErrorEvent(nil, e); !bytes.Equal(got, outer.ErrorEvent(nil, e)) {
		t.Errorf("ErrorEvent = %s", got)
	}
	if got := invoke.ProviderError(nil, []byte(`x`), "p", 500); !bytes.Equal(got, outer.ProviderError(nil, []byte(`x`), "p", 500)) {
		t.Errorf("ProviderError = %s", got)
	}
	enc := invoke.NewEncoder(dialect.ResponseTarget{Request: &llm.Request{}})
	first := enc.Encode(nil, &llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{Message: "broke"}})
	if !bytes.Contains(first, []byte("broke")) || enc.Encode(nil, &llm.Event{Kind: llm.EventEnd}) != nil {
		t.Errorf("a fault is reported as %q, and something follows it", first)
	}
}

func TestABodyForInvokeModelIsCheckedWhereItIsRead(t *testing.T) {
	for body, param := range map[string]string{
		`{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`: "",
		`{"messages":[{"role":"user","content":"hi"}]}`:                "max_tokens",
		`{"inputText":"hi"}`:             "messages",
		`{"max_tokens":5,"messages":[]}`: "messages",
		`[]`:                             "body",
	} {
		_, err := invoke.DecodeRequest([]byte(body))
		if got := apierr.From(err); (err == nil) != (param == "") || err != nil && got.Param != param {
			t.Errorf("DecodeRequest(%s) = %v, want a refusal of %q", body, err, param)
		}
	}
	if err := invoke.Check(api.Invoke, nil); err != nil {
		t.Errorf("Check = %v, want none", err)
	}
}

func TestATapReadsInsideTheMessagesOfInvokeModel(t *testing.T) {
	tap := invoke.NewTap(api.Invoke)
	part := func(event string) sse.Event {
		return sse.Event{Type: []byte("chunk"), Data: []byte(`{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(event)) + `","p":"abc"}`)}
	}
	for _, e := range []sse.Event{
		part(`{"type":"message_start","message":{"model":"served","usage":{"input_tokens":3}}}`),
		{Type: []byte("chunk"), Data: []byte(`{"bytes":"%"}`)}, {Type: []byte("chunk"), Data: []byte(`{`)}, part(`{`),
		part(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`),
		part(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`),
		part(`{"type":"message_stop"}`),
	} {
		tap.Event(e)
	}
	s := tap.Info()
	if s.Model != "served" || !s.Begun || s.Finish != "end_turn" || !s.Terminated || s.Usage.Input != 3 || s.Usage.Output != 4 || s.Failed != "" {
		t.Errorf("Seen = %+v", s)
	}
	tap.Event(sse.Event{Type: []byte("error"), Data: []byte(`{"type":"error","error":{"message":"broke"}}`)})
	if s := tap.Info(); s.Failed != "broke" {
		t.Errorf("Failed = %q, want what the outer dialect reads of an exception", s.Failed)
	}
}
