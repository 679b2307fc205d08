package pipeline

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

func TestAStreamThatALimitEndedHasNoMore(t *testing.T) {
	s := &eventStream{meter: &streamMeter{res: &Response{cut: new(llm.Usage)}}}
	if !s.More() {
		t.Error("the events that end the stream are still to come")
	}
	s.meter.ended = true
	if s.More() {
		t.Error("a stream that has ended has more")
	}
	s.ahead = []sse.Event{{Raw: []byte("data: 1\n\n")}}
	if !s.More() {
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
	s := &eventStream{tap: tap, meter: &streamMeter{res: new(Response)}}
	for _, tt := range []struct {
		data []byte
		want int
	}{{nil, 1}, {[]byte("x"), 0}} {
		tap.asked = 0
		if cut, err := s.countUnsent(sse.Event{Data: tt.data}); cut || err != nil || tap.asked != tt.want {
			t.Errorf("an event with data %q was counted %d times (%t, %v), want %d", tt.data, tap.asked, cut, err, tt.want)
		}
	}
}

func TestTranslationsWithoutABeginningArePartedToo(t *testing.T) {
	for _, primed := range []bool{false, true} {
		reader := new(translation)
		s := &eventStream{reader: reader, primed: primed}
		s.part()
		if !reader.parted || len(reader.queue) != 0 {
			t.Errorf("primed %t: parted %t with %d events", primed, reader.parted, len(reader.queue))
		}
	}
	reader := new(translation)
	s := &eventStream{reader: reader, primed: true, first: sse.Event{Raw: []byte("data: 1\n\ndata: 2\n\n")}}
	s.part()
	if string(s.first.Raw) != "data: 1\n\n" || len(reader.queue) != 1 || string(reader.queue[0].Raw) != "data: 2\n\n" {
		t.Errorf("the first event is %q before %d others", s.first.Raw, len(reader.queue))
	}
}
