package routing

import (
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"modelgate/config"
	"modelgate/internal/pipeline/exchange"
)

// loadBalance draws one branch by weight. It does not fail over: the outcome of
// the drawn branch is the response.
type loadBalance struct {
	picker
	hedge  hedge
	random func() float64 // in [0, 1)
	sticky *sticky        // nil: every draw is independent
}

// Handle draws a branch and calls it.
func (b *loadBalance) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	list := b.usable(r, t)
	choose := func(list []int) int { return b.choose(r, t, list) }
	if b.hedge.usable(r) && len(list) > 1 {
		return b.hedge.race(ctx, r, t, b.ordered(b.from(choose(list), list)), never)
	}
	return b.callOne(list, choose, func(i int) (*exchange.Response, error) { return b.branches[i].Handle(ctx, r, t) })
}

func (b *loadBalance) choose(r *exchange.Request, t *exchange.Trail, list []int) int {
	hash, ok := b.sticky.hash(r, t)
	i, kept := 0, false
	if ok {
		i, kept = b.sticky.recall(hash, list)
	}
	if !kept {
		i = b.pickWeighted(list)
	}
	if ok && !r.DryRun && (!kept || b.sticky.prefix) { // each use renews the provider's cache
		b.sticky.keep(hash, i)
	}
	if ok && b.sticky.prefix {
		t.Bill().PromptCache.Expect(b.branches[i].path, t.Lookups.PrefixTokens)
	}
	t.Decide(b.branches[i].path, "drawn by weight %v (kept: %t)", b.branches[i].weight, kept)
	return i
}

// never returns the statuses on which a load balance leaves the drawn branch,
// which is none. A further branch is started only because the drawn one is
// slow.
func never(*Branch) []int { return []int{} }

// from returns list with i first and the others drawn by weight.
func (b *loadBalance) from(i int, list []int) []int {
	out := []int{i}
	rest := slices.DeleteFunc(slices.Clone(list), func(n int) bool { return n == i })
	for len(rest) > 0 {
		n := b.pickWeighted(rest)
		out = append(out, n)
		rest = slices.DeleteFunc(rest, func(m int) bool { return m == n })
	}
	return out
}

// pickWeighted picks by weight. If only branches of weight zero are left, it
// returns the first of them; otherwise these are never picked.
func (b *loadBalance) pickWeighted(list []int) int {
	sum := 0.0
	for _, i := range list {
		sum += b.branches[i].weight
	}
	r := b.random() * sum
	for _, i := range list {
		if w := b.branches[i].weight; w > 0 {
			if r < w {
				return i
			}
			r -= w
		}
	}
	for _, i := range list { // rounding of the sum
		if b.branches[i].weight > 0 {
			return i
		}
	}
	return list[0]
}

// sticky sends requests with equal fields to the same branch.
type sticky struct {
	fields []string
	ttl    time.Duration
	prefix bool // the beginning of the conversation is among the fields
	kept   *assignments
}

// sticky returns the stickiness of a node, nil without one.
func (n *Nodes) sticky(c *config.Config) *sticky {
	s := c.Strategy.Sticky
	if s == nil || !s.Enabled {
		return nil
	}
	return &sticky{fields: s.HashFields, ttl: s.Lifetime(), prefix: slices.Contains(s.HashFields, config.PrefixField),
		kept: n.State.assignments(n.Key, c.Path)}
}

// recall returns the branch assigned to a hash, if it is usable.
func (s *sticky) recall(hash uint64, usable []int) (int, bool) {
	i, ok := s.kept.get(hash, time.Now())
	return i, ok && slices.Contains(usable, i)
}

func (s *sticky) keep(hash uint64, i int) { s.kept.put(hash, i, time.Now().Add(s.ttl)) }

// hash returns the hash of the fields, and false if a field is missing: the
// draw is independent then.
func (s *sticky) hash(r *exchange.Request, t *exchange.Trail) (uint64, bool) {
	if s == nil || len(s.fields) == 0 {
		return 0, false
	}
	h := fnv.New64a()
	for _, f := range s.fields {
		v, ok := findField(&t.Lookups, r, f)
		if !ok {
			return 0, false
		}
		h.Write(v)
		h.Write([]byte{0})
	}
	return h.Sum64(), true
}

// maxAssignments is the limit of assignments of one sticky node, and
// maxAssigned that of all nodes together.
const (
	maxAssignments = 100_000
	maxAssigned    = 1_000_000
)

// assignments holds the branch assigned to each hash.
type assignments struct {
	state  *State
	mu     sync.Mutex
	to     map[uint64]assignment // guarded by mu
	closed bool                  // guarded by mu; removed from state
}

type assignment struct {
	branch int
	until  time.Time
}

func (a *assignments) get(h uint64, now time.Time) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	as, ok := a.to[h]
	return as.branch, ok && now.Before(as.until)
}

func (a *assignments) put(h uint64, branch int, until time.Time) {
	if a.add(h, branch, until) > maxAssigned {
		a.state.limitAssignments()
	}
}

// add stores an assignment and returns the number of assignments of all nodes.
func (a *assignments) add(h uint64, branch int, until time.Time) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0
	}
	if a.to == nil {
		a.to = make(map[uint64]assignment)
	}
	before := len(a.to)
	if before >= maxAssignments {
		a.forget()
	}
	a.to[h] = assignment{branch, until}
	return a.state.assigned.Add(int64(len(a.to) - before))
}

func (a *assignments) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = nil
}

func (a *assignments) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to, a.closed = nil, true
}

// forget drops expired assignments, and others if that is not enough.
func (a *assignments) forget() {
	now, spare := time.Now(), maxAssignments/10
	for h, as := range a.to {
		if !now.Before(as.until) {
			delete(a.to, h)
			spare--
		}
	}
	for h := range a.to {
		if spare <= 0 {
			return
		}
		delete(a.to, h)
		spare--
	}
}
