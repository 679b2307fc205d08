// Package dialecttest is the suite that every codec of a dialect passes.
//
// It promises that what passes keeps conversations whole: made-up ones come back
// as they were and without a fate, a stream decodes to the same answer however
// it is cut and whether whole or streamed, nothing of an answer is held back, and
// no bytes make a codec panic. What a wire protocol looks like is left to the
// dialects' own tests.
//
// A dialect says with [Capabilities] what it can say, and calls [Run]:
//
//	func TestChatKeepsConversationsWhole(t *testing.T) {
//		dialecttest.Run(t, dialecttest.Suite{
//			Dialect:  "chat",
//			Client:   chat.Dialect{},
//			Provider: chat.Dialect{},
//			Target:   dialect.RequestTarget{Provider: "openai", Model: "gpt-4o"},
//			Can: dialecttest.Can{
//				Fields: []llm.Field{llm.FieldTools, llm.FieldTemperature},
//				Usage:  llm.Usage{Input: 1, Output: 1},
//			},
//		})
//	}
//
// Combinations that a dialect can't say, such as a temperature with thinking,
// are taken out of a made-up request by Capabilities.Fit.
package dialecttest

import (
	"encoding/json"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
	"modelgate/internal/sse"
)

// Suite is what a dialect is tested with.
type Suite struct {
	Dialect  string                // name, which made-up requests and answers carry
	Client   dialect.ClientCodec   // nil when no client speaks the dialect
	Provider dialect.ProviderCodec // nil when no provider does
	Target   dialect.RequestTarget
	Reply    dialect.ResponseTarget // Request is filled in when nil: one for a stream with usage

	Can Capabilities

	// Frames reads all frames of a stream; nil reads server-sent events. The
	// frames hold no views of what r reuses.
	Frames func(r io.Reader) ([]sse.Event, error)

	// Ignore are options for comparing that go beyond those of [Same].
	Ignore cmp.Options

	// Requests, Answers and Frames of the dialect to be mutated, for sides that
	// the suite can't make itself.
	SampleRequests, SampleAnswers, SampleFrames [][]byte
}

// Run runs the suite as subtests. What needs the side that is missing is left
// out.
func Run(t *testing.T, s Suite) {
	s = s.filled()
	if s.Client != nil && s.Provider != nil {
		t.Run("requests come back", s.requests)
		t.Run("answers come back", s.answers)
		t.Run("streams hold the whole answer", s.streams)
		t.Run("cuts change nothing", s.cuts)
		t.Run("nothing waits", s.prompt)
	}
	t.Run("no bytes panic", s.garbage)
}

func (s Suite) filled() Suite {
	if s.Reply.Request == nil {
		usage := true
		s.Reply.Request = &llm.Request{
			Dialect: s.Dialect, Model: s.Target.Model, Stream: true, IncludeUsage: &usage,
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "Hello"}}}},
		}
	}
	if s.Reply.ID == "" {
		s.Reply.ID, s.Reply.Created = "0123456789abcdef0123456789abcdef", 1700000000
	}
	if s.Frames == nil {
		s.Frames = ServerSentEvents
	}
	return s
}

// ServerSentEvents reads the events of r, without blank ones.
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
			list = append(list, sse.Event{Type: slices.Clone(e.Type), ID: slices.Clone(e.ID), Data: slices.Clone(e.Data), Unterminated: e.Unterminated})
		}
	}
}

// Same are the options that compare requests and answers by what they mean:
// paths, the client's words, and whether usage was asked for are left out, JSON
// is compared by its values, and absent is the same as empty.
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

// jsonValue is the canonical text of a JSON value, or the text unchanged when
// it is none.
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
