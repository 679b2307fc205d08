package quotatest

import (
	"sync"

	"modelgate/internal/limits/quota"
)

// reference is a counter of limits that is simple enough to be right: it lists
// every open reservation and every settlement, and adds them up when asked.
type reference struct {
	mu       sync.Mutex
	lapses   bool // the store is shared, and reservations lapse with generations
	counters map[string]*total
}

type total struct {
	window, counted int64
	generation      int64 // the latest that was seen
	entered         bool
	held, settled   []entry
}

// entry is a part of a counter that a process of a node added.
type entry struct {
	id, generation, amount int64
	by                     process
}

// process is the nth process of a node.
type process struct{ node, n int }

// enter returns the counter of a limit in its window, without what has lapsed. A
// shared store remembers that only with a reservation, so it returns a copy.
func (r *reference) enter(l *quota.Limit, at moment) *total {
	c := r.counters[l.Counter]
	if c == nil {
		c = new(total)
		r.counters[l.Counter] = c
	}
	if r.lapses {
		copied := *c
		c = &copied
	}
	n, _ := l.WindowAt(at.Time)
	if !c.entered || n > c.window || n < c.window-l.Tolerance() {
		*c = total{window: n, entered: true}
	}
	c.generation = max(c.generation, at.generation)
	if r.lapses {
		c.lapse(l)
	}
	c.raise(l)
	return c
}

// lapse forgets what is older than the generation before the latest.
func (c *total) lapse(l *quota.Limit) {
	c.held = since(c.held, c.generation-1)
	if l.Window == 0 {
		c.settled = since(c.settled, c.generation-1)
	}
}

// raise brings a counter up to what the ledger has counted, which may have what is
// settled.
func (c *total) raise(l *quota.Limit) {
	if l.Window == 0 {
		c.counted = max(c.counted, l.Counted-sum(c.settled))
	}
}

// state returns what is used and held of a limit.
func (c *total) state(l *quota.Limit) (used, held int64) {
	return max(c.counted+sum(c.settled)-l.Base, 0), sum(c.held)
}

// reserve returns the amounts that are granted, or the index of the claim that
// is refused.
func (r *reference) reserve(at moment, id int64, claims []quota.Claim) (amounts []int64, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entered := make([]*total, len(claims))
	for i, k := range claims {
		entered[i] = r.enter(k.Limit, at)
		used, held := entered[i].state(k.Limit)
		left := max(k.Limit.Max-k.Limit.Base-used-held, 0)
		if left < k.Least {
			return nil, i
		}
		amounts = append(amounts, min(k.Amount, left))
	}
	for i, k := range claims {
		c := entered[i]
		r.counters[k.Limit.Counter] = c
		c.held = append(c.held, entry{id: id, generation: c.generation, amount: amounts[i]})
	}
	return amounts, -1
}

// settle replaces the reservation with an id by what a process used.
func (r *reference) settle(at moment, by process, id int64, grants []quota.Grant, u quota.Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range grants {
		c := r.counters[g.Limit.Counter]
		if g.Limit.Window > 0 && c.window != g.Window {
			continue
		}
		c.generation = max(c.generation, at.generation)
		if r.lapses {
			c.lapse(g.Limit)
		}
		c.raise(g.Limit)
		for i, h := range c.held {
			if h.id == id {
				c.held = append(c.held[:i:i], c.held[i+1:]...)
				break
			}
		}
		c.settled = append(c.settled, entry{id, c.generation, u.Of(g.Limit.Measure), by})
	}
}

// correct raises what is counted, and forgets the oldest settlements of a process up to
// an amount, and those of earlier processes of its node if all of them are counted.
func (r *reference) correct(by process, k quota.Correction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counters[k.Counter]
	c.counted = max(c.counted, k.Total)
	for i := range c.settled {
		e := &c.settled[i]
		switch {
		case e.by == by:
			part := min(e.amount, k.Settled)
			e.amount -= part
			k.Settled -= part
		case k.Earlier && e.by.node == by.node:
			e.amount = 0
		}
	}
}

// settledBy returns what a process has settled of a counter and nobody has corrected.
func (c *total) settledBy(p process) (n int64) {
	for _, e := range c.settled {
		if e.by == p {
			n += e.amount
		}
	}
	return n
}

// since returns the entries of a generation and later ones.
func since(list []entry, generation int64) (kept []entry) {
	for _, e := range list {
		if e.generation >= generation {
			kept = append(kept, e)
		}
	}
	return kept
}

func sum(list []entry) (n int64) {
	for _, e := range list {
		n += e.amount
	}
	return n
}
