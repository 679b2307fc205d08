package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxSlots is how many slots all providers together may have, about 50 MB.
const maxSlots = 65_536

// sweepPause is the time between searches for slots that are too old.
const sweepPause = time.Minute

// Key identifies a managed provider. One that is replaced by another kind of provider under
// the same slug is another one.
type Key struct{ Workspace, Slug, Provider string }

// Registry has the memory of all managed providers, which outlives snapshots. The zero
// value is usable; a nil Registry has none. It is safe for concurrent use.
type Registry struct {
	mu    sync.Mutex
	known map[Key]*Recent // guarded by mu

	slots atomic.Int64 // of all providers
	swept atomic.Int64 // when old slots were last searched, in nanoseconds since 1970
}

// Of returns what is remembered of a provider.
func (g *Registry) Of(k Key) *Recent {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.known[k]
	if r == nil {
		if g.known == nil {
			g.known = make(map[Key]*Recent)
		}
		r = &Recent{registry: g}
		g.known[k] = r
	}
	return r
}

// Retain forgets the providers that are not in use.
func (g *Registry) Retain(inUse func(Key) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, r := range g.known {
		if !inUse(k) {
			delete(g.known, k)
			r.drop(1 << 62)
		}
	}
}

// hold takes the memory of a slot. It reports false if there is none. A nil Registry has
// no limit.
func (g *Registry) hold(now time.Time) bool {
	if g == nil {
		return true
	}
	if g.slots.Add(1) <= maxSlots {
		return true
	}
	before := g.swept.Load()
	if now.UnixNano()-before >= int64(sweepPause) && g.swept.CompareAndSwap(before, now.UnixNano()) {
		g.sweep(now)
		if g.slots.Load() <= maxSlots {
			return true
		}
	}
	g.slots.Add(-1)
	return false
}

// release returns the memory of a slot.
func (g *Registry) release() {
	if g != nil {
		g.slots.Add(-1)
	}
}

// sweep drops the slots that no report reads any more.
func (g *Registry) sweep(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.known {
		r.drop(slotNumber(now) - parts + 1)
	}
}

// drop removes the slots with a lower number.
func (r *Recent) drop(number int64) {
	for i := range r.slots {
		if s := r.slots[i].Load(); s != nil && s.number < number && r.slots[i].CompareAndSwap(s, nil) {
			r.registry.release()
		}
	}
}
