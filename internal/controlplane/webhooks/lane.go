package webhooks

import (
	"maps"
	"sync"
	"time"
)

// Limits of the attempts in progress on a node. Slow endpoints leave room for those of
// others.
const (
	atOnce         = 32
	atOnceOf       = atOnce / 2 // an organisation
	atOnceTo       = 4          // an endpoint
	longestWaiting = 5 * time.Minute
	usualTime      = 100 * time.Millisecond // of an attempt, until one has ended
)

// lanes limit the attempts in progress by organisation and by endpoint. Its methods are
// safe for concurrent use.
type lanes struct {
	now func() time.Time

	mu   sync.Mutex
	open map[string]*lane // by id; guarded by mu
}

// lane has the attempts in progress to an endpoint, or of an organisation.
type lane struct {
	sending int
	took    time.Duration // of the last attempt that ended
	free    time.Time     // when a place is expected for the next one that waits
}

func newLanes(now func() time.Time) *lanes { return &lanes{now: now, open: make(map[string]*lane)} }

// enter takes a place in the lanes of an organisation and of an endpoint. If one of them is
// full, leave is nil, and wait is when a place is expected: whoever comes later waits longer,
// so that a thousand deliveries to a slow endpoint are not all looked at each time that one
// of them ends.
func (l *lanes) enter(organisation, endpoint string) (leave func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if wait = l.lane(endpoint).wait(atOnceTo, now); wait == 0 {
		wait = l.lane(organisation).wait(atOnceOf, now)
	}
	if wait > 0 {
		return nil, wait
	}
	l.lane(endpoint).sending++
	l.lane(organisation).sending++
	return func() { l.leave(now, organisation, endpoint) }, 0
}

// maxIdle is the number of lanes above which idle ones are forgotten.
const maxIdle = 1000

func (l *lanes) lane(id string) *lane {
	if l.open[id] == nil {
		if len(l.open) >= maxIdle {
			maps.DeleteFunc(l.open, func(_ string, n *lane) bool { return n.sending == 0 })
		}
		l.open[id] = &lane{took: usualTime}
	}
	return l.open[id]
}

// wait returns zero if a lane of this many places has a free one, otherwise when to come
// again.
func (n *lane) wait(places int, now time.Time) time.Duration {
	if n.sending < places {
		return 0
	}
	if n.free.Before(now) {
		n.free = now
	}
	n.free = n.free.Add(max(n.took/time.Duration(places), time.Millisecond))
	return min(n.free.Sub(now), longestWaiting)
}

// leave returns the places of an attempt that began at a time.
func (l *lanes) leave(began time.Time, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, id := range ids {
		n := l.open[id] // not forgotten while it sends
		n.sending--
		n.took = now.Sub(began)
	}
}
