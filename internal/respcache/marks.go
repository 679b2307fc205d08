package respcache

import (
	"sync"
	"time"
)

const (
	// markLife is how long an invalidation is remembered for requests in flight,
	// which may not last longer.
	markLife = time.Hour
	// maxMarks is the limit of remembered invalidations of a tenant.
	maxMarks = 64
)

// marks remembers invalidations until every request that began before them has
// ended. If a tenant has more than maxMarks, they become one that selects all of
// the tenant's requests in flight. The zero value is empty.
type marks struct {
	mu     sync.RWMutex
	owners map[Tenant][]mark // oldest first; guarded by mu
}

type mark struct {
	sel Selector
	at  time.Time
}

func (m *marks) add(owner Tenant, sel Selector, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owners == nil {
		m.owners = make(map[Tenant][]mark)
	}
	for o, list := range m.owners {
		if now.Sub(list[len(list)-1].at) >= markLife {
			delete(m.owners, o)
		}
	}
	list := m.owners[owner]
	if len(list) == maxMarks {
		list, sel = nil, Selector{}
	}
	m.owners[owner] = append(list, mark{sel, now})
}

// covers reports whether e was invalidated. The caller must hold mu.
func (m *marks) covers(e *Entry) bool {
	for _, k := range m.owners[e.Owner] {
		if k.sel.selects(e) && e.Started.Before(k.at) {
			return true
		}
	}
	return false
}
