package pipeline

import (
	"strconv"
	"time"
)

// MaxAssigned is how many sticky assignments are remembered at most.
const MaxAssigned = maxAssigned

// AddStickyNodes makes sticky nodes of n configs that nobody else sends.
func (s *State) AddStickyNodes(n int) {
	for i := range n {
		s.assignments("added", strconv.Itoa(i))
	}
}

// Assign makes n assignments at sticky nodes that nobody else uses, as many at each
// as fit.
func (s *State) Assign(n int) {
	until := time.Now().Add(time.Hour)
	for from := 0; from < n; from += maxAssignments {
		a := s.assignments("assigned", strconv.Itoa(from))
		for i := range min(maxAssignments, n-from) {
			a.put(uint64(i), 0, until)
		}
	}
}

// StickyNodes and Assigned count what is remembered.
func (s *State) StickyNodes() int { return len(s.sticks) }
func (s *State) Assigned() int64  { return s.assigned.Load() }

// AddLatencyNode makes a latency node that nobody else sends.
func (s *State) AddLatencyNode(name string, branches int) { s.speeds("added", name, branches) }

// LatencyNodes counts the remembered latency nodes.
func (s *State) LatencyNodes() int { return len(s.speed) }
