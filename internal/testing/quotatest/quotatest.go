// Package quotatest tests stores of counters.
//
// [Follow] runs a store and a simple reference through the same random steps and
// compares every result. [FollowRequest] follows one request from its settlement to the
// correction. [Hold] uses a store from many goroutines and checks
// that no limit is exceeded and nothing is lost. The package does not test what happens while a store fails (see
// the tests of quota).
package quotatest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/limits/quota"
)

// Subject is a store under test.
type Subject struct {
	// Open returns a store for a new process of a node. Stores that are shared by nodes
	// return one that has the counters of the others.
	Open func(node string) quota.Store
	// Flush waits until settlements of a store are visible to others. Nil if they
	// are at once.
	Flush func(quota.Store)
	// Shared says that nodes have the same counters, and that reservations of a
	// node that has crashed lapse.
	Shared bool
	// Prefix begins the names of counters.
	Prefix string
	// Lose makes the next correction fail, after it was executed or instead of it. Nil for
	// stores whose corrections cannot fail.
	Lose func(s quota.Store, executed bool)
}

func (s *Subject) flush(store quota.Store) {
	if s.Flush != nil {
		s.Flush(store)
	}
}

// moment is a time of the test's clock.
type moment struct {
	time.Time
	generation int64
}

func momentOf(t time.Time) moment { return moment{t, quota.GenerationAt(t)} }

// reservation is one that is not settled.
type reservation struct {
	id     int64
	node   int
	grants []quota.Grant
}

// run is one seeded sequence of steps.
type run struct {
	*testing.T
	Subject
	random *rand.Rand
	seed   uint64
	now    time.Time
	nodes  []quota.Store
	starts []int // of each node
	limits []*quota.Limit
	ledger map[string]int64 // totals that a ledger has counted of budgets
	open   []reservation
	next   int64
	model  reference
}

// Follow runs a store through random steps from several seeds: reservations of
// many limits, settlements, crashes and restarts of nodes, ends of windows, jumps
// of the clock, corrections. It fails the test at the first difference from the
// reference. With -short it plays a fifth of the seeds.
func Follow(t *testing.T, s Subject, seeds, steps int) {
	t.Helper()
	if testing.Short() {
		seeds = (seeds + 4) / 5
	}
	for seed := range uint64(seeds) {
		r := &run{T: t, Subject: s, seed: seed, random: rand.New(rand.NewPCG(seed, 16)),
			now:    time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seed) * 977 * time.Second),
			ledger: make(map[string]int64),
			model:  reference{lapses: s.Shared, counters: make(map[string]*total)}}
		r.begin()
		for range steps {
			r.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func (r *run) begin() {
	nodes := 1
	if r.Shared {
		nodes = 3
	}
	for i := range nodes {
		r.nodes, r.starts = append(r.nodes, r.Open(nodeName(i))), append(r.starts, 0)
	}
	windows := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 0}
	for i := range 8 {
		l := &quota.Limit{
			Counter: fmt.Sprintf("%s-%d-%d", r.Prefix, r.seed, i), Measure: quota.Measure(r.random.IntN(3)),
			Max: r.random.Int64N(200), Window: windows[r.random.IntN(len(windows))],
		}
		if r.random.IntN(20) == 0 {
			l.Max = 1 << 52
		}
		if r.random.IntN(6) == 0 {
			l.Measure, l.Window = quota.Concurrent, 0
		} else if l.Window == 0 {
			l.Base = r.random.Int64N(50)
			l.Max += l.Base
			l.Counted = l.Base
			r.ledger[l.Counter] = l.Counted
		}
		r.limits = append(r.limits, l)
	}
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i) }

// process returns the current process of a node.
func (r *run) process(i int) process { return process{i, r.starts[i]} }

func (r *run) step() {
	switch n := r.random.IntN(100); {
	case n < 45:
		r.reserve()
	case n < 75:
		r.settle()
	case n < 87:
		r.moveClock()
	case n < 91:
		r.crash()
	case n < 96:
		r.correct()
	default:
		r.change()
	}
	r.compare()
}

func (r *run) node() (int, quota.Store) {
	i := r.random.IntN(len(r.nodes))
	return i, r.nodes[i]
}

func (r *run) reserve() {
	var claims []quota.Claim
	for _, i := range r.random.Perm(len(r.limits))[:1+r.random.IntN(6)] {
		amount := 1 + r.random.Int64N(60)
		claims = append(claims, quota.Claim{Limit: r.limits[i], Amount: amount, Least: 1 + r.random.Int64N(amount)})
	}
	i, store := r.node()
	v, err := store.Reserve(context.Background(), r.now, claims)
	if err != nil {
		r.Fatalf("Reserve: %v", err)
	}
	r.next++
	amounts, refused := r.model.reserve(momentOf(r.now), r.next, claims)
	if v.Refused != refused || len(v.Grants) != len(amounts) || len(v.States) != len(claims) {
		r.Fatalf("Reserve(%v, %s) = %+v, want refused %d, amounts %v", r.now, describe(claims), v, refused, amounts)
	}
	for j, g := range v.Grants {
		if g.Amount != amounts[j] || g.Limit != claims[j].Limit {
			r.Fatalf("Reserve(%v, %s) granted %+v, want amounts %v", r.now, describe(claims), v.Grants, amounts)
		}
	}
	if refused < 0 {
		r.open = append(r.open, reservation{r.next, i, v.Grants})
	}
}

func describe(claims []quota.Claim) (text string) {
	for _, c := range claims {
		text += fmt.Sprintf("[%d..%d of %+v]", c.Least, c.Amount, *c.Limit)
	}
	return text
}

func (r *run) settle() {
	if len(r.open) == 0 {
		return
	}
	i := r.random.IntN(len(r.open))
	o := r.open[i]
	r.open = append(r.open[:i:i], r.open[i+1:]...)
	u := quota.Use{Requests: r.random.Int64N(2), Tokens: r.random.Int64N(90), Cost: r.random.Int64N(70)}
	r.nodes[o.node].Settle(r.now, o.grants, u)
	r.flush(r.nodes[o.node])
	r.model.settle(momentOf(r.now), r.process(o.node), o.id, o.grants, u)
}

// moveClock moves the clock forward, to the end of a window, a little back, or
// far.
func (r *run) moveClock() {
	switch n := r.random.IntN(20); {
	case n < 8:
		r.now = r.now.Add(time.Duration(r.random.Int64N(int64(3 * time.Second))))
	case n < 12:
		r.now = r.now.Add(time.Duration(r.random.Int64N(int64(7 * time.Minute))))
	case n < 16:
		_, end := r.limits[r.random.IntN(len(r.limits))].WindowAt(r.now)
		if !end.IsZero() {
			r.now = end.Add(-time.Duration(r.random.IntN(2))) // the last nanosecond, or the first
		}
	case n < 18:
		r.now = r.now.Add(-time.Duration(r.random.Int64N(int64(time.Second))))
	case n < 19 && !r.Shared: // shared stores correct the clocks of nodes
		r.now = r.now.Add(-time.Duration(r.random.Int64N(int64(48 * time.Hour))))
		r.open = nil // their windows may come a second time, and are then others
	default:
		r.now = r.now.Add(time.Duration(r.random.Int64N(int64(48 * time.Hour))))
	}
}

// crash ends a node, whose reservations are never settled, and starts it again.
// The counters of a store in memory end with it.
func (r *run) crash() {
	i, _ := r.node()
	r.nodes[i] = r.Open(nodeName(i))
	r.starts[i]++
	if !r.Shared {
		r.open, r.model.counters = nil, make(map[string]*total)
		return
	}
	var left []reservation
	for _, o := range r.open {
		if o.node != i {
			left = append(left, o)
		}
	}
	r.open = left
}

// correct lets the ledger count a part of what was settled.
func (r *run) correct() {
	i, store := r.node()
	for _, l := range r.limits {
		if l.Window > 0 || l.Measure == quota.Concurrent || r.random.IntN(2) == 0 || r.model.counters[l.Counter] == nil {
			continue
		}
		settled := r.random.Int64N(r.model.counters[l.Counter].settledBy(r.process(i)) + 1)
		r.ledger[l.Counter] += settled
		k := quota.Correction{Counter: l.Counter, Total: r.ledger[l.Counter], Settled: settled, Earlier: r.random.IntN(3) == 0}
		if r.random.IntN(4) == 0 { // of a node that is behind
			k.Total -= r.random.Int64N(30)
		}
		for r.Lose != nil && r.random.IntN(3) == 0 {
			r.Lose(store, r.random.IntN(2) == 0)
			if store.Correct(context.Background(), []quota.Correction{k}) == nil {
				r.Fatal("a correction whose reply was lost succeeded")
			}
			more := r.random.Int64N(r.model.counters[l.Counter].settledBy(r.process(i)) - k.Settled + 1)
			r.ledger[l.Counter], k.Total, k.Settled = r.ledger[l.Counter]+more, k.Total+more, k.Settled+more
		}
		if err := store.Correct(context.Background(), []quota.Correction{k}); err != nil {
			r.Fatal(err)
		}
		r.model.correct(r.process(i), k)
	}
}

// change replaces a limit, as a new snapshot does: another maximum, a new period,
// or a total that the ledger has counted.
func (r *run) change() {
	i := r.random.IntN(len(r.limits))
	l := *r.limits[i]
	l.Max = l.Base + r.random.Int64N(200)
	if l.Window == 0 && l.Measure != quota.Concurrent {
		switch r.random.IntN(3) {
		case 0:
			l.Base = r.ledger[l.Counter]
			l.Max = l.Base + 100
		case 1:
			r.ledger[l.Counter] += r.random.Int64N(20)
		}
		l.Counted = r.ledger[l.Counter]
	}
	r.limits[i] = &l
}

// compare compares the states of all limits on all nodes.
func (r *run) compare() {
	for i, store := range r.nodes {
		states, err := store.Read(context.Background(), r.now, r.limits)
		if err != nil {
			r.Fatalf("Read: %v", err)
		}
		for j, l := range r.limits {
			used, held := r.model.enter(l, momentOf(r.now)).state(l)
			if states[j].Used != used || states[j].Held != held {
				r.Fatalf("at %v node %d has %d used and %d held of %+v, want %d and %d", r.now, i, states[j].Used, states[j].Held, *l, used, held)
			}
			if known, ok := store.(quota.Peeker); ok {
				if s, is := known.Peek(r.now, l); !is || s != states[j] {
					r.Fatalf("at %v node %d knows of %+v without a call %t, %+v, want %d used and %d held", r.now, i, *l, is, s, used, held)
				}
			}
		}
	}
}

// Hold makes nodes with several goroutines each reserve and settle at the same
// time, some of them in the opposite order of limits and some without settling,
// and checks that no limit was exceeded at any time, that claims were granted all
// or none, and that nothing was lost. Exact says that all of a limit can be
// reserved, whatever other nodes have leased.
func Hold(t *testing.T, s Subject, exact bool) {
	t.Helper()
	const nodes, workers, rounds = 2, 4, 60
	now := time.Now()
	requests := &quota.Limit{Counter: s.Prefix + "-requests", Max: 300, Window: 7 * 24 * time.Hour}
	tokens := &quota.Limit{Counter: s.Prefix + "-tokens", Measure: quota.Tokens, Max: 20_000, Window: 7 * 24 * time.Hour}
	cost := &quota.Limit{Counter: s.Prefix + "-cost", Measure: quota.Cost, Max: 90_000, Base: 10_000, Counted: 10_000}
	var granted, usedTokens, usedCost, heldRequests, heldTokens, refused atomic.Int64
	stores := []quota.Store{s.Open(nodeName(0))}
	for s.Shared && len(stores) < nodes {
		stores = append(stores, s.Open(nodeName(len(stores))))
	}
	var wg sync.WaitGroup
	for n := range nodes {
		store := stores[n%len(stores)]
		for w := range workers {
			random := rand.New(rand.NewPCG(uint64(n), uint64(w)))
			wg.Go(func() {
				for range rounds {
					list := []quota.Claim{{Limit: requests, Amount: 1, Least: 1}, {Limit: tokens, Amount: 80, Least: 10},
						{Limit: cost, Amount: 300, Least: 300}}
					random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
					v, err := store.Reserve(context.Background(), now, list)
					if err != nil {
						t.Errorf("Reserve: %v", err)
						return
					}
					if v.Refused >= 0 {
						refused.Add(1)
						continue
					}
					granted.Add(1)
					amount := map[*quota.Limit]int64{}
					for _, g := range v.Grants {
						amount[g.Limit] = g.Amount
					}
					if random.IntN(10) == 0 { // crashes
						heldRequests.Add(1)
						heldTokens.Add(amount[tokens])
						usedCost.Add(amount[cost])
						continue
					}
					u := quota.Use{Requests: 1, Tokens: random.Int64N(amount[tokens] + 1), Cost: random.Int64N(amount[cost] + 1)}
					usedTokens.Add(u.Tokens)
					usedCost.Add(u.Cost)
					store.Settle(now, v.Grants, u)
				}
			})
		}
	}
	wg.Wait()
	for _, store := range stores {
		s.flush(store)
	}
	states, err := stores[0].Read(context.Background(), now, []*quota.Limit{requests, tokens, cost})
	if err != nil {
		t.Fatal(err)
	}
	if n := granted.Load(); n > requests.Max || exact && n != requests.Max {
		t.Errorf("%d requests were granted of %d, %d refused", n, requests.Max, refused.Load())
	}
	if !exact {
		return
	}
	if got := states[0]; got.Used != granted.Load()-heldRequests.Load() || got.Held != heldRequests.Load() {
		t.Errorf("requests are at %+v, want %d used and %d held", got, granted.Load()-heldRequests.Load(), heldRequests.Load())
	}
	if got := states[1]; got.Used != usedTokens.Load() || got.Held != heldTokens.Load() || got.Used+got.Held > tokens.Max {
		t.Errorf("tokens are at %+v, want %d used and %d held", got, usedTokens.Load(), heldTokens.Load())
	}
	if got := states[2]; got.Used+got.Held != usedCost.Load() || got.Used+got.Held > cost.Max-cost.Base {
		t.Errorf("cost is at %+v, want %d in all", got, usedCost.Load())
	}
}
