package routing

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/config"
)

// maxStates is the limit of entries of each kind. Configs come in headers, so
// anyone with a key can create new ones.
const maxStates = 100_000

// State is what requests write: breakers, cooldowns, speeds, sticky
// assignments. It outlives snapshots and compiled trees. Keys are a config's
// canonical form and the path of a node in it. The zero value is usable; it is
// safe for concurrent use.
type State struct {
	mu     sync.Mutex
	gates  map[string]*breaker // guarded by mu, as are the fields below
	speed  map[string]*speeds
	speedN int // number of branches in all speeds
	sticks map[string]*assignments

	assigned atomic.Int64 // number of assignments in all of sticks
}

// Key returns the key of a config, independent of its spelling.
func Key(root *config.Config) string {
	sum := sha256.Sum256(root.Canonical())
	return hex.EncodeToString(sum[:16])
}

// breaker returns the breaker of a leaf. Leaves without a circuit breaker have
// one too, for cooldowns.
func (s *State) breaker(key, path string, b *config.Breaker) *breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := key + " " + path
	if g, ok := s.gates[id]; ok {
		return g
	}
	if s.gates == nil {
		s.gates = make(map[string]*breaker)
	}
	if len(s.gates) >= maxStates {
		s.evictBreakers(time.Now())
	}
	g := &breaker{rule: b}
	s.gates[id] = g
	return g
}

// evictBreakers removes breakers without state: closed, without failures and
// not in cooldown; and some others if these are too few. Compiled trees
// continue to use the breakers that they hold.
func (s *State) evictBreakers(now time.Time) {
	spare := maxStates / 10
	for id, g := range s.gates {
		if g.idle(now) {
			delete(s.gates, id)
			spare--
		}
	}
	for id := range s.gates {
		if spare <= 0 {
			return
		}
		delete(s.gates, id)
		spare--
	}
}

func (s *State) speeds(key, path string, n int) *speeds {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := key + " " + path
	if v, ok := s.speed[id]; ok {
		return v
	}
	if s.speed == nil || s.speedN+n > maxStates {
		s.speed, s.speedN = make(map[string]*speeds), 0 // measured again within a few requests
	}
	s.speedN += n
	v := &speeds{of: make([]speed, n)}
	s.speed[id] = v
	return v
}

func (s *State) assignments(key, path string) *assignments {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := key + " " + path
	if a, ok := s.sticks[id]; ok {
		return a
	}
	if len(s.sticks) >= maxStates {
		s.dropAssignments()
	}
	if s.sticks == nil {
		s.sticks = make(map[string]*assignments)
	}
	a := &assignments{state: s}
	s.sticks[id] = a
	return a
}

// dropAssignments removes every sticky assignment. Compiled trees that hold one
// of the removed maps store nothing in it from then on. The caller must hold
// mu.
func (s *State) dropAssignments() {
	for _, a := range s.sticks {
		a.close()
	}
	s.sticks = nil
	s.assigned.Store(0)
}

// limitAssignments keeps the number of assignments of all configs within
// maxAssigned.
func (s *State) limitAssignments() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assigned.Load() > maxAssigned {
		for _, a := range s.sticks {
			a.clear()
		}
		s.assigned.Store(0)
	}
}
