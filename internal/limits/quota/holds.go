package quota

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Holds is a [Store] in front of another one that keeps parts of budgets for work that
// has not been sent, such as the lines of a batch. To everybody else these parts are
// reserved; the work itself claims them with [Claim.Own].
//
// What is kept is not in the other store: it lasts for hours, and belongs to no process.
// Load reads it, and each gateway calls Reload at intervals. Until then a part is a
// grant of the other store, which [Holds.HandOver] ends. Its fields are set before its
// methods are called.
type Holds struct {
	Store

	// Load returns what is kept of all budgets, by counter.
	Load func(context.Context) (map[string]int64, error)
	// Interval is that of Reload in other gateways with the same counters; zero if there are
	// none.
	Interval time.Duration

	held atomic.Pointer[map[string]int64]

	mu      sync.RWMutex
	pending []handedOver                // guarded by mu
	passed  map[string]map[string]int64 // by work, then by counter; guarded by mu
}

// handedOver is grants that end once all gateways know what is kept instead.
type handedOver struct {
	grants []Grant
	at     time.Time
}

var _ interface {
	Store
	Peeker
} = (*Holds)(nil)

// Reload reads what is kept, and ends grants that were handed over and that other gateways
// know of. If it fails, everything stays.
func (h *Holds) Reload(ctx context.Context) error {
	began := time.Now()
	held, err := h.Load(ctx)
	if err != nil {
		return err
	}
	h.held.Store(&held)
	h.mu.Lock()
	var known []handedOver
	h.pending = slices.DeleteFunc(h.pending, func(p handedOver) bool {
		over := !began.Before(p.at.Add(2 * h.Interval))
		if over {
			known = append(known, p)
		}
		return over
	})
	h.mu.Unlock()
	for _, p := range known {
		h.Store.Settle(began, p.grants, Use{})
	}
	return nil
}

// HandOver ends grants in whose place something is kept by now, with the next Reload that
// succeeds.
func (h *Holds) HandOver(grants []Grant) {
	if len(grants) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = append(h.pending, handedOver{grants, time.Now()})
}

// PassOn sets what is kept for a work, by its id, but has been passed on to attempts that
// reserve themselves: Load does not know it yet. Nil is nothing.
func (h *Holds) PassOn(id string, parts map[string]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(parts) == 0 {
		delete(h.passed, id)
		return
	}
	if h.passed == nil {
		h.passed = make(map[string]map[string]int64)
	}
	h.passed[id] = parts
}

// foreignPart returns what is kept of a limit for others than the caller, whose own part is own.
func (h *Holds) foreignPart(l *Limit, own int64) int64 {
	held := h.held.Load()
	if held == nil || l.Window != 0 || (*held)[l.Counter] == 0 {
		return 0
	}
	left := (*held)[l.Counter] - own
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, parts := range h.passed {
		left -= parts[l.Counter]
	}
	return max(left, 0)
}

// reduce returns l without a part of it, which is not negative.
func (l *Limit) reduce(part int64) *Limit {
	less := *l
	less.Max = l.Max - min(part, l.Max)
	return &less
}

// Reserve implements [Store].
func (h *Holds) Reserve(ctx context.Context, now time.Time, claims []Claim) (Verdict, error) {
	var left []Claim // of claims without what is kept; nil if nothing is
	for i, c := range claims {
		if kept := h.foreignPart(c.Limit, c.Own); kept > 0 {
			if left == nil {
				left = slices.Clone(claims)
			}
			left[i].Limit = c.Limit.reduce(kept)
		}
	}
	if left == nil {
		return h.Store.Reserve(ctx, now, claims)
	}
	v, err := h.Store.Reserve(ctx, now, left)
	for i, c := range claims {
		if i < len(v.States) {
			v.States[i].Held = add(v.States[i].Held, c.Limit.Max-left[i].Limit.Max)
		}
		if i < len(v.Grants) {
			v.Grants[i].Limit = c.Limit
		}
	}
	return v, err
}

// Read implements [Store]. What is kept is held.
func (h *Holds) Read(ctx context.Context, now time.Time, limits []*Limit) ([]State, error) {
	states, err := h.Store.Read(ctx, now, limits)
	for i := range states {
		states[i].Held = add(states[i].Held, h.foreignPart(limits[i], 0))
	}
	return states, err
}

// Peek implements [Peeker] if the other store does.
func (h *Holds) Peek(now time.Time, l *Limit) (State, bool) {
	known, ok := h.Store.(Peeker)
	if !ok || h.foreignPart(l, 0) > 0 {
		return State{}, false
	}
	return known.Peek(now, l)
}

// RemoveUnused removes unused counters of the other store, if it can.
func (h *Holds) RemoveUnused(dropUsed func(names map[string]bool)) {
	if c, ok := h.Store.(interface {
		RemoveUnused(dropUsed func(names map[string]bool))
	}); ok {
		c.RemoveUnused(dropUsed)
	}
}
