package dataplane

import (
	"net/http"
	"time"
)

// stallTimer ends a connection whose client takes nothing of its answer for too
// long. A client that is slow but reads is waited for, and so is a provider that
// pauses.
type stallTimer struct {
	rc    *http.ResponseController
	limit time.Duration // zero waits for ever
	since time.Time     // when the deadline was set last

	// lifted is true in HTTP/2, where a deadline ends the stream even while nothing
	// is written: it is lifted after each write.
	lifted bool
}

// newPatience returns the patience with the client of r.
func newPatience(w http.ResponseWriter, r *http.Request, limit time.Duration) stallTimer {
	return stallTimer{rc: http.NewResponseController(w), limit: limit, lifted: r.ProtoMajor == 2}
}

// extend is called before each write. In HTTP/1 the deadline is moved rarely, so
// that a lively stream pays nothing for it.
func (p *stallTimer) extend(now time.Time) {
	if p.limit <= 0 || now.Sub(p.since) < p.limit/4 {
		return
	}
	p.since = now
	p.rc.SetWriteDeadline(now.Add(p.limit)) // without deadlines the client is waited for
}

// written is called after each write.
func (p *stallTimer) written() {
	if p.lifted {
		p.end()
	}
}

// end lifts the deadline: the connection may serve further requests.
func (p *stallTimer) end() {
	if !p.since.IsZero() {
		p.since = time.Time{}
		p.rc.SetWriteDeadline(time.Time{})
	}
}
