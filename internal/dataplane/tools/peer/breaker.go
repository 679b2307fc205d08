package peer

import (
	"net/url"
	"sync"
	"time"

	"modelgate/internal/provider/toolserver"
)

// Limits of a breaker.
const (
	breakAfter = 5                // failures in a row
	firstPause = time.Second      // doubled with each further failure
	longPause  = 30 * time.Second // the longest pause
	maxServers = 10_000           // of which failures are remembered
)

// Condition is whether a server is asked.
type Condition string

// Conditions.
const (
	Working Condition = "working"
	Failing Condition = "failing" // its last call failed; it is asked
	Broken  Condition = "broken"  // it failed repeatedly; it is asked again after a pause
)

// State is what this node has seen of a server lately.
type State struct {
	Condition Condition
	Reason    string    // of the last failure; empty if it works
	Since     time.Time // when the condition began; zero if it was never different
}

// breaker keeps a server that fails from being asked. It is safe for concurrent use.
type breaker struct {
	after   int // failures in a row
	longest time.Duration

	mu       sync.Mutex
	failures int       // in a row; guarded by mu, as are the fields below
	until    time.Time // end of the pause; zero while it is asked
	pause    time.Duration
	probing  bool
	reason   string
	since    time.Time
}

// allow returns whether the server is asked, or the failure of a call that is not sent. While
// it is broken, one call at a time finds out whether it works again.
func (b *breaker) allow(now time.Time) *Failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return nil
	}
	wait := b.until.Sub(now)
	if wait <= 0 && !b.probing {
		b.probing = true
		return nil
	}
	return &Failure{Kind: Unavailable, Unsent: true, Wait: max(wait, time.Second),
		Reason: "the tool server failed repeatedly and is not asked for a while: " + b.reason}
}

// report records whether a call reached the server. f is why it did not.
func (b *breaker) report(ok bool, f *Failure, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasProbe := b.probing
	b.probing = false
	if ok {
		if b.failures > 0 {
			b.failures, b.until, b.pause, b.reason, b.since = 0, time.Time{}, 0, "", now
		}
		return
	}
	b.failures++
	b.reason = f.Reason
	if b.failures == 1 {
		b.since = now
	}
	if b.failures < b.after || !b.until.IsZero() && !wasProbe {
		return
	}
	if b.until.IsZero() {
		b.since = now
	}
	b.pause = min(max(2*b.pause, firstPause), b.longest)
	b.until = now.Add(b.pause)
}

// endProbe records that the server responds, although its answer is not complete. A call that
// finds out whether a server works again may take long; others need not wait for its end.
func (b *breaker) endProbe(now time.Time) {
	b.mu.Lock()
	probing := !b.until.IsZero()
	b.mu.Unlock()
	if probing {
		b.report(true, nil, now)
	}
}

// release ends a call that says nothing about the server.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

func (b *breaker) state() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Condition: Working, Reason: b.reason, Since: b.since}
	switch {
	case !b.until.IsZero():
		s.Condition = Broken
	case b.failures > 0:
		s.Condition = Failing
	}
	return s
}

// breakers are those of all servers.
type breakers struct {
	mu  sync.RWMutex
	all map[string]*serverBreaker // by id; guarded by mu
}

// serverBreaker is the breaker of a server at an address.
type serverBreaker struct {
	breaker
	url     *url.URL // nil for a command
	command string
}

// isOf reports whether a server is still at the same address.
func (b *serverBreaker) isOf(s *toolserver.Server) bool {
	if b == nil || b.command != s.Command || (b.url == nil) != (s.URL == nil) {
		return false
	}
	return b.url == s.URL || b.url.Scheme == s.URL.Scheme && b.url.Host == s.URL.Host &&
		b.url.Path == s.URL.Path && b.url.RawQuery == s.URL.RawQuery
}

// of returns the breaker of a server, and a new one if its address has changed.
func (b *breakers) of(s *toolserver.Server) *breaker {
	b.mu.RLock()
	found := b.all[s.ID]
	b.mu.RUnlock()
	if found.isOf(s) {
		return &found.breaker
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if found = b.all[s.ID]; found.isOf(s) {
		return &found.breaker
	}
	if b.all == nil {
		b.all = map[string]*serverBreaker{}
	}
	makeRoom(b.all, maxServers)
	found = &serverBreaker{breaker: breaker{after: breakAfter, longest: longPause}, url: s.URL, command: s.Command}
	if s.Transport == toolserver.Stdio {
		found.after, found.longest = 1, longCrashPause // each failure is a process that crashed
	}
	b.all[s.ID] = found
	return &found.breaker
}

// stateOf returns what is known of a server.
func (b *breakers) stateOf(id string) State {
	b.mu.RLock()
	found := b.all[id]
	b.mu.RUnlock()
	if found == nil {
		return State{Condition: Working}
	}
	return found.state()
}

// makeRoom removes any entry of a map that has as many as it may.
func makeRoom[K comparable, V any](m map[K]V, limit int) {
	for k := range m {
		if len(m) < limit {
			return
		}
		delete(m, k)
	}
}

// addressOf returns where a server is, as text to compare.
func addressOf(s *toolserver.Server) string {
	if s.URL == nil {
		return s.Command
	}
	return s.URL.Scheme + s.URL.Host + s.URL.Path + s.URL.RawQuery
}
