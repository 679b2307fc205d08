package attempt

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// memoryTime is how long a refusal of a provider is remembered.
const memoryTime = time.Hour

// maxRemembered is the limit of keys in a set. A forgotten one costs a request
// to the provider.
const maxRemembered = 1024

// recentSet remembers keys for a time. Lookups take no lock. The zero value is
// empty; it is safe for concurrent use.
type recentSet[K comparable] struct {
	mu    sync.Mutex
	known atomic.Pointer[map[K]time.Time] // until when; replaced on each change
}

// isEmpty reports whether nothing was ever added.
func (s *recentSet[K]) isEmpty() bool { return s.known.Load() == nil }

// has reports whether k is remembered.
func (s *recentSet[K]) has(k K) bool {
	known := s.known.Load()
	return known != nil && time.Now().Before((*known)[k])
}

// renew remembers k for d from now, unless it is remembered for half of that.
func (s *recentSet[K]) renew(k K, d time.Duration) {
	if known := s.known.Load(); known == nil || time.Until((*known)[k]) < d/2 {
		s.add(k, d)
	}
}

// add remembers k for d, and forgets the keys in not.
func (s *recentSet[K]) add(k K, d time.Duration, not ...K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[K]time.Time)
	if last := s.known.Load(); last != nil {
		known = maps.Clone(*last)
	}
	now := time.Now()
	maps.DeleteFunc(known, func(_ K, until time.Time) bool { return !now.Before(until) })
	for old := range known {
		if len(known) < maxRemembered {
			break
		}
		delete(known, old)
	}
	known[k] = now.Add(d)
	for _, other := range not {
		delete(known, other)
	}
	s.known.Store(&known)
}
