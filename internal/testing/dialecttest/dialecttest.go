// Package dialecttest is the test suite that every codec passes.
//
// It guarantees that a codec keeps conversations intact: generated ones come
// back unchanged and without parameter changes, a stream decodes to the same
// response however it is cut and whether it is complete or streamed, no part of
// a response is held back, and no bytes make a codec panic. It does not test
// the wire format, which is the job of each dialect's own tests.
//
// A dialect describes its [Capabilities] and calls [Run]:
//
//	func TestChatKeepsConversationsIntact(t *testing.T) {
//		dialecttest.Run(t, dialecttest.Suite{
//			Dialect:  "chat",
//			Client:   chat.Dialect{},
//			Provider: chat.Dialect{},
//			Target:   dialect.RequestTarget{Provider: "openai", Model: "gpt-4o"},
//			Can: dialecttest.Capabilities{
//				Fields: []llm.Field{llm.FieldTools, llm.FieldTemperature},
//				Usage:  llm.Usage{Input: 1, Output: 1},
//			},
//		})
//	}
//
// Capabilities.Fit removes generated combinations that a dialect cannot
// express, such as a temperature with thinking.
package dialecttest

import (
	"encoding/json"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// Suite describes the dialect under test.
type Suite struct {
	Dialect        string                // name, which generated requests and responses have
	Client         dialect.ClientCodec   // nil if no client uses the dialect
	Provider       dialect.ProviderCodec // nil if no provider uses it
	Target         dialect.RequestTarget
	ResponseTarget dialect.ResponseTarget // a nil Request is replaced by one for a stream with usage

	Can Capabilities

	// Frames reads all frames of a stream; nil reads server-sent events. The
	// frames hold no views of what r reuses.
	Frames func(r io.Reader) ([]sse.Event, error)

	// Ignore are options for comparing in addition to those of [Same].
	Ignore cmp.Options

	// Requests, responses and frames of the dialect to mutate, for sides that
	// the suite cannot generate itself.
	SampleRequests, SampleResponses, SampleFrames [][]byte
}

// Run runs the suite as subtests. Tests of a missing side are left out.
func Run(t *testing.T, s Suite) {
	s = s.filled()
	if s.Client != nil && s.Provider != nil {
		t.Run("requests come back", s.requests)
		t.Run("answers come back", s.testResponses)
		t.Run("streams hold the complete response", s.streams)
		t.Run("cuts change nothing", s.cuts)
		t.Run("nothing waits", s.prompt)
	}
	t.Run("no bytes panic", s.garbage)
}

func (s Suite) filled() Suite {
	if s.ResponseTarget.Request == nil {
		usage := true
		s.ResponseTarget.Request = &llm.Request{
			Dialect: s.Dialect, Model: s.Target.Model, Stream: true, IncludeUsage: &usage,
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "Hello"}}}},
		}
	}
	if s.ResponseTarget.ID == "" {
		s.ResponseTarget.ID, s.ResponseTarget.Created = "0123456789abcdef0123456789abcdef", 1700000000
	}
	if s.Frames == nil {
		s.Frames = ServerSentEvents
	}
	return s
}

// ServerSentEvents reads the events of r except blank ones.
func ServerSentEvents(r io.Reader) ([]sse.Event, error) {
	var list []sse.Event
	reader := sse.NewReader(r, 0)
	for {
		e, err := reader.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		if e.Data != nil {
			list = append(list,
				sse.Event{Type: slices.Clone(e.Type), ID: slices.Clone(e.ID), Data: slices.Clone(e.Data), Unterminated: e.Unterminated})
		}
	}
}

// Same returns the options that compare requests and responses by meaning:
// paths, the client's names, and the request for usage are ignored, JSON is
// compared by value, and absent is the same as empty.
func Same() cmp.Options {
	return cmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(llm.Request{}, "Dialect", "Names", "IncludeUsage"),
		cmpopts.IgnoreFields(llm.Response{}, "Dialect"),
		cmpopts.IgnoreFields(llm.Choice{}, "NativeFinishReason"),
		cmpopts.IgnoreFields(llm.Citation{}, "Raw", "Dialect"),
		cmpopts.IgnoreFields(llm.Message{}, "At"),
		cmpopts.IgnoreFields(llm.Media{}, "At"),
		cmpopts.IgnoreFields(llm.ToolCall{}, "At"),
		cmpopts.IgnoreFields(llm.ToolResult{}, "At"),
		cmpopts.IgnoreFields(llm.Native{}, "At"),
		cmpopts.IgnoreFields(llm.Tool{}, "At"),
		cmp.FilterValues(func(a, b json.RawMessage) bool { return json.Valid(a) && json.Valid(b) },
			cmp.Transformer("JSON", func(raw json.RawMessage) jsonValue { return valueOf(raw) })),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Arguments" },
			cmp.Transformer("Arguments", func(text string) jsonValue {
				if text == "" {
					text = "{}"
				}
				return valueOf(json.RawMessage(text))
			})),
	}
}

// jsonValue is the canonical text of a JSON value, or the unchanged text if it
// is not JSON.
type jsonValue string

func valueOf(raw json.RawMessage) jsonValue {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return jsonValue(raw)
	}
	b, _ := json.Marshal(v)
	return jsonValue(b)
}

func (s Suite) diff(want, got any) string {
	return cmp.Diff(want, got, append(Same(), s.Ignore...))
}
