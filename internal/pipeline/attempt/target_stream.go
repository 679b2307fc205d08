package attempt

import (
	"io"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
	"modelgate/internal/upstream"
)

// targetStream is the stream of a target.
type targetStream struct {
	attempt *attempt
	res     *exchange.Response
	reader  framing.Reader
	tap     dialect.Tap

	comments []byte      // that preceded the first event
	ahead    []sse.Event // read ahead of reader
	first    sse.Event
	primed   bool // first is the next event after ahead

	// pending is the frame that is being read since the comments were due; nil if
	// none is. early is true until the first event with data.
	pending <-chan read
	early   bool
}

// Next implements [exchange.Stream].
func (s *targetStream) Next() (sse.Event, error) {
	if len(s.ahead) > 0 {
		e := s.ahead[0]
		s.ahead = s.ahead[1:]
		return e, nil
	}
	if s.primed {
		s.primed = false
		return s.first, nil
	}
	e, err := s.nextFrame()
	if err == io.EOF {
		return e, err
	}
	if err != nil {
		err = s.failure(err)
		observeBroken(s.attempt, err)
		return e, err
	}
	if s.early && e.Data != nil {
		s.early = false
		s.attempt.plan.timers.stopRequestTimeout()
	}
	if !s.early { // the limit of the first event holds until then
		s.attempt.plan.timers.eventReceived()
	}
	s.tap.Event(e)
	return e, nil
}

func (s *targetStream) failure(err error) error { return s.attempt.failure(s.res.Raw.Request, err) }

// More implements [exchange.Stream].
func (s *targetStream) More() bool {
	return len(s.ahead) > 0 || s.primed || s.pending == nil && s.reader.More()
}

// Begun implements [exchange.Stream].
func (s *targetStream) Begun() bool { return s.pending == nil }

// Comments implements [exchange.Stream].
func (s *targetStream) Comments() []byte { return s.comments }

// Pause implements [exchange.Stream].
func (s *targetStream) Pause() { s.attempt.plan.timers.dog.Pause() }

// Resume implements [exchange.Stream].
func (s *targetStream) Resume() { s.attempt.plan.timers.dog.Resume() }

// failer writes the error that ends a stream: the encoder of a translated stream
// knows what has been sent.
type failer interface {
	Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte
}

// Fail implements [exchange.Stream].
func (s *targetStream) Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	if f, ok := s.reader.(failer); ok {
		return f.Fail(dst, client, e)
	}
	if tap, ok := s.tap.(dialect.NumberingTap); ok {
		return tap.ErrorEvent(dst, e)
	}
	return client.ErrorEvent(dst, e)
}

// open begins the stream and sets the events of the response: layers, which read s. memory
// counts what a meter keeps; nil for a translated stream, which counts it itself.
func (s *targetStream) open(layers exchange.Stream, memory *streamMemory) error {
	m := s.attempt.newMeter(memory)
	if ok, err := s.begin(m); err != nil || !ok {
		return err
	}
	if m != nil {
		m.Stream, m.before = layers, len(s.ahead)
		layers = m
	}
	s.res.Events, s.res.Metered = layers, m != nil
	return nil
}

// begin waits for the first event with data. It returns false if the response has none to
// send: it is an error, which is in the response or returned.
func (s *targetStream) begin(m *streamMeter) (bool, error) {
	a := s.attempt
	a.plan.timers.dog.Phase(upstream.FirstEvent)
	var head headTimer
	defer head.stop()
	early, size := a.plan.handler.headMayBeEarly(a.plan.request), 0 // size of s.ahead
	if early && a.plan.handler.mayBeSilent(a.plan.request) {
		head.start(a.plan.trail, max(a.plan.handler.Engine.HeadDelay, commentDelay))
	}
	for {
		next, ok := s.firstFrame(&head)
		if !ok {
			s.early = true
			return true, nil
		}
		e, err := next.event, next.err
		if err == io.EOF && len(s.ahead) > 0 {
			return false, a.failBlank(s.res, s.ahead[0].Data)
		}
		if err == io.EOF {
			return false, a.unreadable("a stream without a single event")
		}
		if err != nil {
			return false, s.failure(err)
		}
		s.tap.Event(e)
		if cut, err := m.countUnsent(e); cut || err != nil {
			return true, err
		}
		if fits := len(s.comments)+len(e.Raw) <= maxHeld; e.Data == nil && (fits || !early) {
			if fits {
				s.comments = append(s.comments, e.Raw...)
			}
			if early {
				head.start(a.plan.trail, commentDelay)
			}
			continue
		}
		if seen := s.tap.Info(); seen.Blank && seen.Failed == "" && size+len(e.Raw) <= maxHeld {
			s.ahead, size = append(s.ahead, e.Clone()), size+len(e.Raw)
			if early {
				head.start(a.plan.trail, commentDelay)
			}
			continue
		}
		s.first, s.primed = e, true
		return s.checkFirst()
	}
}

// checkFirst makes a response of a first event that reports an error one with its status.
func (s *targetStream) checkFirst() (bool, error) {
	a, out := s.attempt, s.res
	if s.tap.Info().Failed != "" {
		if a.translation != nil {
			a.setFault(out, a.translation.fault)
		} else {
			a.setInside(out, string(s.first.Type), s.first.Data)
		}
		return false, nil
	}
	a.plan.timers.eventReceived()
	return true, nil
}
