package dataplane

import (
	"net/http"
	"time"
)

// stallTimer closes the connection of a client that accepts nothing of its
// response for too long. It does not affect a slow client that reads, or a
// provider that pauses.
type stallTimer struct {
	rc    *http.ResponseController
	limit time.Duration // zero means forever
	since time.Time     // when the deadline was last set

	// lifted is true in HTTP/2, where a deadline ends the stream even while
	// nothing is written: it is removed after each write.
	lifted bool
}

// newStallTimer returns the stall timer for the client of r.
func newStallTimer(w http.ResponseWriter, r *http.Request, limit time.Duration) stallTimer {
	return stallTimer{rc: http.NewResponseController(w), limit: limit, lifted: r.ProtoMajor == 2}
}

// extend sets the deadline before a write. In HTTP/1 it is moved rarely, so
// that a busy stream has no cost.
func (p *stallTimer) extend(now time.Time) {
	if p.limit <= 0 || now.Sub(p.since) < p.limit/4 {
		return
	}
	p.since = now
	p.rc.SetWriteDeadline(now.Add(p.limit)) // without deadlines the gateway waits for the client
}

// written removes the deadline after a write in HTTP/2.
func (p *stallTimer) written() {
	if p.lifted {
		p.end()
	}
}

// end removes the deadline: the connection may serve further requests.
func (p *stallTimer) end() {
	if !p.since.IsZero() {
		p.since = time.Time{}
		p.rc.SetWriteDeadline(time.Time{})
	}
}
