package routing

import (
	"net/http"
	"time"

	"modelgate/config"
)

// MaxStates is how many gates are remembered at most.
const MaxStates = maxStates

// Gates counts the remembered gates.
func (s *State) Gates() int { return len(s.gates) }

// OpenRequests returns how many requests each branch of the only latency node
// has open.
func (s *State) OpenRequests() []int {
	var open []int
	for _, v := range s.speed {
		for _, one := range v.of {
			open = append(open, one.open)
		}
	}
	return open
}

// FailAt makes the gate of a leaf at path and lets it see a failure.
func (s *State) FailAt(path string) {
	g := s.breaker("", path, &config.Breaker{FailureThreshold: 9, Cooldown: time.Minute})
	g.report(outcome{status: http.StatusInternalServerError}, false, time.Now())
}
