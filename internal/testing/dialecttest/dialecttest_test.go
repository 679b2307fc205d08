package dialecttest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// all can say everything that the suite makes up.
var all = dialecttest.Capabilities{
	Fields:    []llm.Field{llm.FieldTools, llm.FieldToolChoice, llm.FieldN, llm.FieldLogprobs, llm.FieldFormat, llm.FieldThinking},
	Developer: true, LateSystem: true, Names: true, AnyOrder: true, TwoUsers: true, Cache: true,
	Media:    map[llm.MediaKind]dialecttest.Medium{llm.Image: {URL: true}, llm.Document: {Text: true, NeedsName: true}},
	Thinking: true, Signed: llm.Anthropic, Unsigned: true, Redacted: true, CallSigned: llm.Google,
	Refusal: true, CustomTools: true, ResultNames: true, Failed: true,
	ID: true, Model: true, Created: true, Usage: llm.Usage{Input: 1, Output: 1},
}

func TestEveryCallHasItsResultNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := dialecttest.Conversation(all).Draw(t, "request")
		var open []string
		for i, m := range r.Messages {
			for _, p := range m.Parts {
				switch part := p.(type) {
				case llm.ToolCall:
					open = append(open, part.ID)
				case llm.ToolResult:
					if len(open) == 0 || open[0] != part.ID {
						t.Fatalf("message %d answers %s, and %v are open", i, part.ID, open)
					}
					open = open[1:]
				}
			}
			if m.Role == llm.User && len(open) > 0 {
				t.Fatalf("message %d leaves %v without a result", i, open)
			}
		}
		if last := r.Messages[len(r.Messages)-1]; last.Role != llm.User {
			t.Fatalf("the last word is with %s, want the user", last.Role)
		}
	})
}

func TestGeneratedStreamsHoldTheResponse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := dialecttest.Response(all).Draw(t, "answer")
		events := dialecttest.Streamed(t, want)
		if why := dialecttest.CheckEventOrder(events); why != "" {
			t.Fatal(why)
		}
		var a dialect.Assembler
		for i := range events {
			a.Add(&events[i])
		}
		got, fault, whole := a.Response()
		if diff := cmp.Diff(want, got, dialecttest.Same()); diff != "" || fault != nil || !whole {
			t.Fatalf("fault %v, whole %t (-want +got):\n%s", fault, whole, diff)
		}
	})
}

func TestMisorderedNoticesEveryBreach(t *testing.T) {
	text := llm.Text{}
	start := llm.Event{Kind: llm.EventStart}
	open := func(part int) llm.Event { return llm.Event{Kind: llm.EventPartStart, Part: part, Opened: text} }
	delta := llm.Event{Kind: llm.EventDelta}
	shut := llm.Event{Kind: llm.EventPartEnd}
	finish := llm.Event{Kind: llm.EventFinish}
	end := llm.Event{Kind: llm.EventEnd}
	for _, tt := range []struct {
		name   string
		events []llm.Event
		wrong  bool
	}{
		{"whole", []llm.Event{start, open(0), delta, shut, finish, end}, false},
		{"nothing", nil, false},
		{"an error alone", []llm.Event{{Kind: llm.EventError}}, false},
		{"no start", []llm.Event{open(0), shut}, true},
		{"two starts", []llm.Event{start, start}, true},
		{"a part left out", []llm.Event{start, open(1)}, true},
		{"a delta before its part", []llm.Event{start, delta}, true},
		{"a delta after its part", []llm.Event{start, open(0), shut, delta}, true},
		{"a part that ends twice", []llm.Event{start, open(0), shut, shut}, true},
		{"a part after the finish", []llm.Event{start, finish, open(0)}, true},
		{"a part open at the end", []llm.Event{start, open(0), end}, true},
		{"more after the end", []llm.Event{start, end, finish}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := dialecttest.CheckEventOrder(tt.events); (got != "") != tt.wrong {
				t.Errorf("Misordered = %q, want a breach: %t", got, tt.wrong)
			}
		})
	}
}
