package attempt

import (
	"slices"
	"time"

	"modelgate/config"
	"modelgate/internal/format/sse"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// commentDelay is how long comments that precede the first event are held back if
// no other attempt can follow: a stream that fails in this time still becomes an
// error with its own status. Clients get the comments within a second.
const commentDelay = 900 * time.Millisecond

// read is the result of reading a frame.
type read struct {
	event sse.Event
	err   error
}

// readLater reads the next frame in a goroutine, since the head of the response
// cannot wait for it. The result is read before anything else is done with src.
func readLater(src framing.Reader) <-chan read {
	later := make(chan read, 1)
	go func() {
		e, err := src.Next()
		later <- read{e, err}
	}()
	return later
}

// headTimer decides when the head of a stream is sent before its first event: after
// a delay, once no other branch of a race is left. Its zero value never sends it.
type headTimer struct {
	delay time.Duration   // zero until a delay is set
	only  <-chan struct{} // closed when no other branch is left; nil if there is none
	timer *time.Timer     // nil until it runs
}

// start begins to wait for delay, unless another attempt may follow or the timer
// waits for a shorter one already.
func (h *headTimer) start(t *exchange.Trail, delay time.Duration) {
	if t.MoreFollows || h.delay > 0 && h.delay <= delay {
		return
	}
	waiting := h.only != nil
	h.delay = delay
	switch {
	case waiting:
	case h.timer != nil:
		h.timer.Reset(delay)
	case t.OnlyBranch != nil:
		h.only = t.OnlyBranch
	default:
		h.timer = time.NewTimer(delay)
	}
}

func (h *headTimer) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// firstFrame returns the next frame before the first event, and false if the head
// has waited long enough: the frame is then pending.
func (s *targetStream) firstFrame(h *headTimer) (read, bool) {
	if h.delay == 0 {
		e, err := s.reader.Next()
		return read{e, err}, true
	}
	later := readLater(s.reader)
	for {
		var due <-chan time.Time
		if h.timer != nil {
			due = h.timer.C
		}
		select {
		case r := <-later:
			return r, true
		case <-h.only:
			h.only, h.timer = nil, time.NewTimer(h.delay)
		case <-due:
			s.pending = later
			return read{}, false
		}
	}
}

// headMayBeEarly reports whether the client may get the head of a stream before its
// first event. It may not if a hook can deny the stream, which then has the status of
// a denial, or is a completion that says so.
func (h *TargetHandler) headMayBeEarly(r *exchange.Request) bool {
	g := r.GuardsOf(h.Leaf)
	if g == nil || len(g.After) == 0 {
		return true
	}
	return !slices.ContainsFunc(g.After, func(h *guardrail.Hook) bool { return h.StreamMode() != config.StreamObserve })
}

// mayBeSilent reports whether the client may get the head of a stream that is
// silent. It may not if a timeout of the request gives such a stream its own status.
func (h *TargetHandler) mayBeSilent(r *exchange.Request) bool {
	return h.Engine.HeadDelay > 0 && h.Timeout <= 0 && r.Deadline.IsZero()
}

// nextFrame returns the next frame, which may be pending.
func (s *targetStream) nextFrame() (sse.Event, error) {
	if s.pending == nil {
		return s.reader.Next()
	}
	r := <-s.pending
	s.pending = nil
	return r.event, r.err
}

// awaitPending waits for a pending frame, which a closed body ends.
func (s *targetStream) awaitPending() {
	<-s.pending
	s.pending = nil
}
