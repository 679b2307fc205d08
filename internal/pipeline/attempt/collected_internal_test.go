package attempt

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// What a complete response is collected from counts with no less than it takes, and text
// with little more.
func TestCollectedEventsTakeNoMoreMemoryThanCounted(t *testing.T) {
	logprob := func(i int) llm.Logprob { return llm.Logprob{Token: fmt.Sprint("token ", i), Logprob: -1} }
	for _, tt := range []struct {
		name   string
		opened llm.Part
		n      int
		event  func(i int) llm.Event
		most   int // times what is taken
	}{
		{"text", llm.Text{}, 20, func(i int) llm.Event { return llm.Event{Kind: llm.EventDelta, Text: strings.Repeat("a", 100_000)} }, 4},
		{"a signature", llm.Thinking{}, 20, func(i int) llm.Event {
			return llm.Event{Kind: llm.EventDelta, Signature: llm.Signature{Vendor: "google", Value: strings.Repeat("a", 100_000)}}
		}, 4},
		{"thinking with a signature", llm.Thinking{}, 20, func(i int) llm.Event {
			return llm.Event{Kind: llm.EventDelta, Text: strings.Repeat("a", 60_000), Signature: llm.Signature{Vendor: "google", Value: strings.Repeat("a", 60_000)}}
		}, 4},
		{"probabilities", llm.Text{}, 20_000, func(i int) llm.Event {
			return llm.Event{Kind: llm.EventDelta, Logprobs: []llm.Logprob{logprob(i)}}
		}, 8},
		{"probabilities of alternatives", llm.Text{}, 4000, func(i int) llm.Event {
			p := logprob(i)
			p.Top = []llm.Logprob{logprob(1), logprob(2), logprob(3), logprob(4), logprob(5)}
			return llm.Event{Kind: llm.EventDelta, Logprobs: []llm.Logprob{p}}
		}, 8},
		{"citations", llm.Text{}, 4000, func(i int) llm.Event {
			return llm.Event{Kind: llm.EventDelta, Citation: &llm.Citation{}}
		}, 20},
		{"parts", llm.Text{}, 4000, func(i int) llm.Event {
			return llm.Event{Kind: llm.EventPartStart, Part: i + 1, Opened: llm.ToolCall{ID: fmt.Sprint("call ", i), Name: "f"}}
		}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all dialect.Assembler
			all.Add(&llm.Event{Kind: llm.EventPartStart, Opened: tt.opened})
			before, counted := heap(), 0
			for i := range tt.n {
				events := []llm.Event{tt.event(i)}
				counted += collectedSize(nil, events)
				all.Add(&events[0])
			}
			took := heap() - before
			if took > counted || counted > tt.most*took {
				t.Errorf("%d events take %d bytes and count as %d, want at least as many and at most %d times as many", tt.n, took, counted, tt.most)
			}
			runtime.KeepAlive(all)
		})
	}
}

// The data of a frame counts only where something of it may be kept as it is.
func TestTheDataOfAFrameCountsWhereItIsKept(t *testing.T) {
	data := []byte(strings.Repeat("x", 10_000))
	for _, tt := range []struct {
		name  string
		event llm.Event
		kept  bool
	}{
		{"text", llm.Event{Kind: llm.EventDelta, Text: "a"}, false},
		{"the end", llm.Event{Kind: llm.EventEnd}, false},
		{"a part", llm.Event{Kind: llm.EventPartStart, Opened: llm.Text{}}, true},
		{"a citation", llm.Event{Kind: llm.EventDelta, Citation: &llm.Citation{}}, true},
		{"further fields", llm.Event{Kind: llm.EventFinish, Extra: []llm.Member{{}}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := collectedSize(data, []llm.Event{tt.event}) >= len(data); got != tt.kept {
				t.Errorf("the data counts: %t, want %t", got, tt.kept)
			}
		})
	}
}

func TestFurtherFieldsOfEventsCountWithTheirPlaces(t *testing.T) {
	const n = 1000
	event := llm.Event{Kind: llm.EventFinish, Extra: make([]llm.Member, n)}
	if got, want := collectedSize(nil, []llm.Event{event}), n*int(reflect.TypeFor[llm.Member]().Size()); got < want {
		t.Errorf("collectedSize of %d fields = %d, want at least the %d bytes of their places", n, got, want)
	}
}
