package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/config"
)

// maxStates bounds what is remembered per kind. Configs come in headers, so
// anyone with a key can make new ones.
const maxStates = 100_000

// State is what requests write: breakers, parked targets, speeds, sticky
// assignments. It outlives snapshots and compiled trees and is keyed by a
// config's canonical form and the path of a node in it. The zero value is
// ready; it is safe for concurrent use.
type State struct {
	mu     sync.Mutex
	gates  map[string]*breaker // guarded by mu, as is all below
	speed  map[string]*speeds
	speedN int // branches of all speeds
	sticks map[string]*assignments

	assigned atomic.Int64 // what all assignments of sticks remember
}

// Key names a config whatever its spelling.
func Key(root *config.Config) string {
	sum := sha256.Sum256(root.Canonical())
	return hex.EncodeToString(sum[:16])
}

// breaker returns the gate of a leaf. Leaves without a breaker have one too: it
// parks them when the provider says when to come back.
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

// evictBreakers forgets gates that say nothing: closed, without failures and not
// parked; and some others when too few of them do. A compiled tree that still
// holds one keeps using it.
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

// dropAssignments forgets every sticky assignment. Compiled trees that hold one
// of them remember nothing in it from then on. The caller holds mu.
func (s *State) dropAssignments() {
	for _, a := range s.sticks {
		a.close()
	}
	s.sticks = nil
	s.assigned.Store(0)
}

// limitAssignments keeps what all configs together remember within maxAssigned.
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
