package health

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// CircuitState is the state of a circuit breaker.
type CircuitState string

// States of a circuit breaker. A target that cools down is avoided by configs with a choice
// until the time that the provider named.
const (
	CircuitClosed   CircuitState = "closed"
	CircuitOpen     CircuitState = "open"
	CircuitHalfOpen CircuitState = "half_open" // the next request probes the target
	CoolingDown     CircuitState = "cooling_down"
)

// Circuit is a circuit breaker of a target.
type Circuit interface {
	// CircuitState returns the state at now, and when it ends if that is known.
	CircuitState(now time.Time) (s CircuitState, until time.Time)
}

// CircuitReport is a circuit breaker that is not closed.
type CircuitReport struct {
	Target string // JSON path of the target in its config
	State  CircuitState
	Until  time.Time // zero if unknown
}

// maxCircuits is the limit of circuits of one provider. Configs come in headers, so there
// may be any number of them.
const maxCircuits = 32

// circuits are the circuit breakers that were not closed when they were last used.
type circuits struct {
	mu    sync.Mutex
	known map[Circuit]string // paths of targets; guarded by mu
}

// NoteCircuit remembers a circuit breaker that is not closed until it is.
func (r *Recent) NoteCircuit(target string, c Circuit, now time.Time) {
	if r == nil {
		return
	}
	r.circuits.mu.Lock()
	defer r.circuits.mu.Unlock()
	if _, ok := r.circuits.known[c]; ok {
		return
	}
	if len(r.circuits.known) >= maxCircuits {
		r.circuits.prune(now)
	}
	if len(r.circuits.known) >= maxCircuits {
		return
	}
	if r.circuits.known == nil {
		r.circuits.known = make(map[Circuit]string)
	}
	r.circuits.known[c] = target
}

// prune forgets closed circuits. The caller holds mu.
func (s *circuits) prune(now time.Time) {
	maps.DeleteFunc(s.known, func(c Circuit, _ string) bool {
		state, _ := c.CircuitState(now)
		return state == CircuitClosed
	})
}

// list returns the circuits that are not closed.
func (s *circuits) list(now time.Time) (list []CircuitReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(now)
	for c, target := range s.known {
		if state, until := c.CircuitState(now); state != CircuitClosed {
			list = append(list, CircuitReport{target, state, until})
		}
	}
	slices.SortFunc(list, func(a, b CircuitReport) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), a.Until.Compare(b.Until))
	})
	return list
}

// OpenCircuits is how many circuit breakers of a managed provider are not closed.
type OpenCircuits struct {
	Key
	Open int
}

// OpenCircuits returns one for each provider that is remembered, in any order.
func (g *Registry) OpenCircuits(now time.Time) []OpenCircuits {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	known := maps.Clone(g.known)
	g.mu.Unlock()
	list := make([]OpenCircuits, 0, len(known))
	for k, r := range known {
		list = append(list, OpenCircuits{k, len(r.circuits.list(now))})
	}
	return list
}
