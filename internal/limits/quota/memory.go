package quota

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a [Store] in this process: exact for one gateway. The zero value is
// empty and ready for use.
type Memory struct{ shards [64]shard }

// shard is a part of the counters. Counters are locked one by one, so that
// requests of different keys do not wait for each other.
type shard struct {
	mu       sync.RWMutex
	counters map[string]*counter
	swept    int64 // unix time of the last removal of old counters
}

// counter is the state of one counter.
type counter struct {
	mu     sync.Mutex
	window int64     // number of the window
	ends   time.Time // end of the window; zero for a budget
	// tolerance is how long after ends the counter is kept, as a clock may be set
	// back into its window.
	tolerance time.Duration
	// counted is what the ledger has counted of a budget. Settled and held are
	// in addition to it.
	counted, settled, held int64
	removed                bool // no longer in its shard
}

var seed = maphash.MakeSeed()

func (m *Memory) shard(name string) *shard {
	return &m.shards[maphash.String(seed, name)%uint64(len(m.shards))]
}

// lock returns the counter with a name, locked. It creates it if there is none.
func (m *Memory) lock(name string, now time.Time) *counter {
	s := m.shard(name)
	for {
		s.mu.RLock()
		c := s.counters[name]
		s.mu.RUnlock()
		if c == nil {
			c = m.create(s, name, now)
		}
		c.mu.Lock()
		if !c.removed {
			return c
		}
		c.mu.Unlock()
	}
}

func (m *Memory) create(s *shard, name string, now time.Time) *counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.counters[name]; c != nil {
		return c
	}
	if s.counters == nil {
		s.counters = make(map[string]*counter)
	}
	if !now.IsZero() {
		m.sweep(s, now)
	}
	c := new(counter)
	s.counters[name] = c
	return c
}

// sweepInterval is how often, in seconds, a shard removes counters that are over.
const sweepInterval = 60

// sweep removes counters that are over, at most once per interval. The caller holds
// s.mu.
func (m *Memory) sweep(s *shard, now time.Time) {
	if unix := now.Unix(); unix-s.swept < sweepInterval && unix >= s.swept {
		return
	}
	s.swept = now.Unix()
	for name, c := range s.counters {
		if !c.mu.TryLock() { // a reservation holds it, and may wait for the shard
			continue
		}
		if c.over(now) {
			c.removed = true
			delete(s.counters, name)
		}
		c.mu.Unlock()
	}
}

// over reports whether c can be removed: its window or period has ended, or it is that
// of a budget and nothing was used. What was used of a budget that is never reset stays,
// up to [Memory.RemoveUnused].
func (c *counter) over(now time.Time) bool {
	if !c.ends.IsZero() {
		return now.After(c.ends.Add(c.tolerance))
	}
	return c.idle() && c.settled == 0 && c.counted == 0
}

// idle reports whether c is the counter of a budget of which nothing is reserved.
func (c *counter) idle() bool { return c.ends.IsZero() && c.held == 0 }

// RemoveUnused removes counters of budgets without an end that are not used again,
// unless something is reserved. DropUsed is called with the names of the candidates, and
// deletes from the map those that may still be used. It must read what is in use after
// it is called, and must not use the store.
func (m *Memory) RemoveUnused(dropUsed func(names map[string]bool)) {
	names := make(map[string]bool)
	m.eachIdle(func(_ *shard, name string, _ *counter) { names[name] = true })
	if len(names) == 0 {
		return
	}
	dropUsed(names)
	m.eachIdle(func(s *shard, name string, c *counter) {
		if names[name] {
			c.removed = true
			delete(s.counters, name)
		}
	})
}

// eachIdle calls f with each idle counter that is not locked. It holds the locks of the
// counter and of its shard.
func (m *Memory) eachIdle(f func(s *shard, name string, c *counter)) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for name, c := range s.counters {
			if !c.mu.TryLock() { // a reservation holds it, and may wait for the shard
				continue
			}
			if c.idle() {
				f(s, name, c)
			}
			c.mu.Unlock()
		}
		s.mu.Unlock()
	}
}

// lateSettlements is how long the counter of a budget stays for attempts that end
// after its period.
const lateSettlements = time.Hour

// enter moves c to the window of l at now; see [Limit.Tolerance].
func (c *counter) enter(l *Limit, now time.Time) {
	if l.Window == 0 {
		c.raise(l)
		c.ends = time.Time{}
		if l.Final {
			c.ends, c.tolerance = l.Resets, lateSettlements
		}
		return
	}
	n, end := l.WindowAt(now)
	if c.ends.IsZero() || n > c.window || n < c.window-l.Tolerance() {
		c.window, c.ends, c.settled, c.held = n, end, 0, 0
		c.tolerance = time.Duration(l.Tolerance()) * l.Window
	}
}

// raise brings c up to what the ledger has counted of l, a budget; see [Limit.Counted].
func (c *counter) raise(l *Limit) { c.counted = max(c.counted, l.Counted-c.settled) }

// state returns the state of l, whose window c has entered.
func (c *counter) state(l *Limit) State {
	s := State{Used: max(c.counted+c.settled-l.Base, 0), Held: c.held, Reset: c.ends}
	if l.Window == 0 {
		s.Reset = l.Resets
	}
	return s
}

// Reserve implements [Store]. It locks the counters in the order of their names
// and decides about all claims at once.
func (m *Memory) Reserve(_ context.Context, now time.Time, claims []Claim) (Verdict, error) {
	var room [16]*counter
	counters := m.lockAll(room[:0], now, claims)
	defer unlock(counters)
	v := Verdict{Refused: -1, States: make([]State, len(claims))}
	for i, c := range counters {
		l := claims[i].Limit
		c.enter(l, now)
		v.States[i] = c.state(l)
		if v.Refused < 0 && v.States[i].Left(l) < claims[i].Least {
			v.Refused = i
		}
	}
	if v.Refused >= 0 {
		return v, nil
	}
	v.Grants = make([]Grant, len(claims))
	for i, c := range counters {
		g := Grant{Limit: claims[i].Limit, Window: c.window, Amount: min(claims[i].Amount, v.States[i].Left(claims[i].Limit))}
		c.held += g.Amount
		v.Grants[i] = g
	}
	return v, nil
}

// lockAll appends the counters of claims to dst, in the order of the claims, and
// locks them in the order of their names.
func (m *Memory) lockAll(dst []*counter, now time.Time, claims []Claim) []*counter {
	var room [16]int
	order := room[:0]
	for i := range claims {
		order = append(order, i)
		dst = append(dst, nil)
	}
	slices.SortFunc(order, func(a, b int) int {
		return strings.Compare(claims[a].Limit.Counter, claims[b].Limit.Counter)
	})
	for _, i := range order {
		dst[i] = m.lock(claims[i].Limit.Counter, now)
	}
	return dst
}

func unlock(counters []*counter) {
	for _, c := range counters {
		c.mu.Unlock()
	}
}

// Settle implements [Store].
func (m *Memory) Settle(now time.Time, grants []Grant, u Use) {
	for _, g := range grants {
		c := m.lock(g.Limit.Counter, now)
		if g.Limit.Window == 0 {
			c.raise(g.Limit) // the counter may be new
		}
		if g.Limit.Window == 0 || c.window == g.Window && !c.ends.IsZero() {
			c.held = max(c.held-g.Amount, 0)
			c.settled = add(c.settled, u.Of(g.Limit.Measure))
		}
		c.mu.Unlock()
	}
}

// Read implements [Store].
func (m *Memory) Read(_ context.Context, now time.Time, limits []*Limit) ([]State, error) {
	states := make([]State, len(limits))
	for i, l := range limits {
		c := m.lock(l.Counter, now)
		c.enter(l, now)
		states[i] = c.state(l)
		c.mu.Unlock()
	}
	return states, nil
}

// Peek implements [Peeker].
func (m *Memory) Peek(now time.Time, l *Limit) (State, bool) {
	c := m.lock(l.Counter, now)
	defer c.mu.Unlock()
	c.enter(l, now)
	return c.state(l), true
}

// Correct implements [Store].
func (m *Memory) Correct(_ context.Context, list []Correction) error {
	for _, k := range list {
		c := m.lock(k.Counter, time.Time{})
		c.counted = max(c.counted, k.Total)
		c.settled = max(c.settled-k.Settled, 0)
		c.mu.Unlock()
	}
	return nil
}

// add adds two amounts, and stops at the largest integer.
func add(a, b int64) int64 {
	b = max(b, 0)
	return a + min(b, math.MaxInt64-a)
}
