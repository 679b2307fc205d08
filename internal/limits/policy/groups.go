package policy

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxGroups is how many groups with counters of their own a policy has in a period of a
	// usage limit, or in a window of a rate limit of at least an hour, on one gateway, if
	// clients choose the values. Further values share the group [OverflowKey].
	MaxGroups = 100_000

	// maxNewGroups is how many of them may begin within an hour on one gateway.
	maxNewGroups = 10_000

	// OverflowKey is the value key of the group of all values beyond these bounds.
	OverflowKey = "overflow"
)

// groups are the value keys that have counters of their own in one period, by their
// hashes. They outlive a change of the policy, so that a reset makes no room.
type groups struct {
	period string // sorts by time
	mu     sync.RWMutex
	keys   map[uint64]struct{} // guarded by mu
	// before are those of the previous period, whose values keep their groups; nil for none.
	before atomic.Pointer[groups]
}

// groupsAt returns the groups of the period of v, or of a later one.
func (c *compiled) groupsAt(v *values) *groups {
	for {
		g := c.groups.Load()
		if g != nil && g.period >= v.period {
			return g
		}
		next := &groups{period: v.period, keys: make(map[uint64]struct{})}
		next.before.Store(g)
		if c.groups.CompareAndSwap(g, next) {
			if g != nil {
				g.before.Store(nil)
			}
			return next
		}
	}
}

// admit reports whether a value key has a counter of its own, and adds it if there is
// room for it.
func (g *groups) admit(key []byte, v *values) bool {
	hash := maphash.Bytes(seed, key)
	known, size := g.find(hash)
	if known {
		return true
	}
	if before, _ := g.before.Load().find(hash); !before {
		if size >= MaxGroups || v.began.Load() >= maxNewGroups {
			return false
		}
		v.began.Add(1)
	}
	g.add(hash)
	return true
}

// find reports whether the groups include one, and their number. Nil has none.
func (g *groups) find(hash uint64) (ok bool, size int) {
	if g == nil {
		return false, 0
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, ok = g.keys[hash]
	return ok, len(g.keys)
}

func (g *groups) add(hash uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys[hash] = struct{}{}
}

// Remember makes the value key of a counter of a usage-limit policy, by its name without
// the prefix "policy/", one that has a counter of its own: it had one before this process
// began, or on another gateway. Counters that [Set.Measure] does not know are ignored.
func (s *Set) Remember(counter string, now time.Time) {
	if _, ok := s.Measure(counter, now); !ok {
		return
	}
	id, _, _ := strings.Cut(counter, "/")
	c := s.byID[id]
	parts := strings.SplitN(counter, "/", 4)
	if !c.clientValues || len(parts) < 4 || parts[3] == OverflowKey {
		return
	}
	c.groupsAt(c.current(now)).add(maphash.String(seed, parts[3]))
}

// ClientGroups reports whether clients choose values of group_by, so that the number of
// groups is bounded.
func (p *Policy) ClientGroups() bool { return compile(p).clientValues }
