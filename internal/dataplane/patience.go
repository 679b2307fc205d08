package dataplane

import (
	"net/http"
	"time"
)

// patience ends a connection whose client takes nothing of its answer for too
// long. A client that is slow but reads is waited for.
type patience struct {
	rc    *http.ResponseController
	limit time.Duration // zero waits for ever
	since time.Time     // when the deadline was set last
}

// extend is called before each write. The deadline is moved rarely, so that a
// lively stream pays nothing for it.
func (p *patience) extend(now time.Time) {
	if p.limit <= 0 || now.Sub(p.since) < p.limit/4 {
		return
	}
	p.since = now
	p.rc.SetWriteDeadline(now.Add(p.limit)) // without deadlines the client is waited for
}

// end lifts the deadline: the connection may serve further requests.
func (p *patience) end() {
	if !p.since.IsZero() {
		p.rc.SetWriteDeadline(time.Time{})
	}
}
