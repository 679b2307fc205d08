package pipeline

import (
	"time"

	"modelgate/internal/sse"
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
func readLater(src frames) <-chan read {
	later := make(chan read, 1)
	go func() {
		e, err := src.Next()
		later <- read{e, err}
	}()
	return later
}

// commentTimer decides when comments before the first event are sent: after
// [commentDelay], once no other branch of a race is left. Its zero value never
// sends them.
type commentTimer struct {
	only  <-chan struct{} // closed when no other branch is left; nil if there is none
	timer *time.Timer     // nil until then
}

// start begins to wait, at the first comment that is held back. Later calls do
// nothing.
func (c *commentTimer) start(t *Trail) {
	switch {
	case c.only != nil || c.timer != nil || t.moreFollows:
	case t.onlyBranch != nil:
		c.only = t.onlyBranch
	default:
		c.timer = time.NewTimer(commentDelay)
	}
}

func (c *commentTimer) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// firstFrame returns the next frame before the first event, and false if comments
// have waited long enough: the frame is then pending.
func (s *eventStream) firstFrame(c *commentTimer) (read, bool) {
	if c.only == nil && c.timer == nil {
		e, err := s.reader.Next()
		return read{e, err}, true
	}
	later := readLater(s.reader)
	for {
		var due <-chan time.Time
		if c.timer != nil {
			due = c.timer.C
		}
		select {
		case r := <-later:
			return r, true
		case <-c.only:
			c.only, c.timer = nil, time.NewTimer(commentDelay)
		case <-due:
			s.pending = later
			return read{}, false
		}
	}
}

// nextFrame returns the next frame, which may be pending.
func (s *eventStream) nextFrame() (sse.Event, error) {
	if s.pending == nil {
		return s.reader.Next()
	}
	r := <-s.pending
	s.pending = nil
	return r.event, r.err
}

// awaitPending waits for a pending frame, which a closed body ends.
func (s *eventStream) awaitPending() {
	<-s.pending
	s.pending = nil
}
