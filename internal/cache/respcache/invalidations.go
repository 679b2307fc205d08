package respcache

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// MaxMarks is the limit of invalidations that are kept of a tenant. One more makes
// all of them one of everything.
const MaxMarks = 64

// Mark is an invalidation: entries of its owner with a lower generation, which it
// selects, are not served.
type Mark struct {
	Owner      Tenant
	Selector   Selector
	Generation int64 // higher than those of all earlier marks
}

// Invalidations decide which entries are served. They come from the control
// plane's database, so that they apply to every gateway and to every store, and
// cannot be undone by writing to a store. The zero value is empty; it is safe
// for concurrent use.
type Invalidations struct {
	mu     sync.Mutex                        // one change at a time
	owners atomic.Pointer[map[Tenant][]Mark] // by generation, ascending
}

// Generation returns the generation of entries whose requests begin now.
func (v *Invalidations) Generation(owner Tenant) int64 {
	list := v.marks(owner)
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Generation
}

// Covers reports whether e must not be served: it was invalidated after its request
// began, or its generation is unknown here yet.
func (v *Invalidations) Covers(e *Entry) bool {
	list := v.marks(e.Owner)
	if len(list) == 0 {
		return e.Generation != 0
	}
	if e.Generation > list[len(list)-1].Generation {
		return true
	}
	for i := len(list) - 1; i >= 0 && list[i].Generation > e.Generation; i-- {
		if list[i].Selector.selects(e) {
			return true
		}
	}
	return false
}

func (v *Invalidations) marks(owner Tenant) []Mark {
	if m := v.owners.Load(); m != nil {
		return (*m)[owner]
	}
	return nil
}

// Replace replaces the marks by all that are stored. Added ones that are newer
// than the stored ones of their owner stay.
func (v *Invalidations) Replace(stored []Mark) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := make(map[Tenant][]Mark)
	for _, m := range stored {
		next[m.Owner] = append(next[m.Owner], m)
	}
	for _, list := range next {
		slices.SortFunc(list, func(a, b Mark) int { return cmp.Compare(a.Generation, b.Generation) })
	}
	if before := v.owners.Load(); before != nil {
		for owner, list := range *before {
			for _, m := range list {
				if now := next[owner]; len(now) == 0 || m.Generation > now[len(now)-1].Generation {
					next[owner] = append(slices.Clip(now), m)
				}
			}
		}
	}
	v.owners.Store(&next)
}

// Add adds a mark that was just stored, before [Invalidations.Replace] brings it.
func (v *Invalidations) Add(m Mark) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := make(map[Tenant][]Mark)
	if before := v.owners.Load(); before != nil {
		next = maps.Clone(*before)
	}
	if list := next[m.Owner]; len(list) == 0 || list[len(list)-1].Generation < m.Generation {
		next[m.Owner] = append(slices.Clip(list), m)
	}
	v.owners.Store(&next)
}
