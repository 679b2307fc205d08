package attempt

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

func TestAStreamThatALimitEndedHasNoMore(t *testing.T) {
	m := &streamMeter{attempt: &attempt{cut: new(llm.Usage)}}
	if !m.More() {
		t.Error("the events that end the stream are still to come")
	}
	m.ended = true
	if m.More() {
		t.Error("a stream that has ended has more")
	}
	m.before = 1
	if !m.More() {
		t.Error("an event that was read ahead is lost")
	}
}

// countingTap counts how often the state of the response is asked for.
type countingTap struct {
	dialect.Tap
	asked int
}

func (t *countingTap) Info() *dialect.ResponseInfo {
	t.asked++
	return &dialect.ResponseInfo{Finished: true}
}

func TestOnlyEventsThatAreNotSentAreCountedBefore(t *testing.T) {
	tap := new(countingTap)
	m := &streamMeter{attempt: &attempt{response: exchange.Response{Tap: tap}}}
	for _, tt := range []struct {
		data []byte
		want int
	}{{nil, 1}, {[]byte("x"), 0}} {
		tap.asked = 0
		if cut, err := m.countUnsent(sse.Event{Data: tt.data}); cut || err != nil || tap.asked != tt.want {
			t.Errorf("an event with data %q was counted %d times (%t, %v), want %d", tt.data, tap.asked, cut, err, tt.want)
		}
	}
}
