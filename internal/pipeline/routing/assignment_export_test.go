package routing

import (
	"fmt"
	"time"
)

// MaxAssignments is how many assignments of one sticky node are remembered at
// most, and MaxAssigned how many of all nodes.
const (
	MaxAssignments = maxAssignments
	MaxAssigned    = maxAssigned
)

// Assignments counts the assignments that are remembered.
func (s *State) Assignments() int {
	n := 0
	for _, a := range s.sticks {
		n += len(a.to)
	}
	return n
}

// Assign remembers n assignments of the node at path until a time.
func (s *State) Assign(path string, n int, until time.Time) {
	a := s.assignments("", path)
	for h := range n {
		a.put(uint64(h), 0, until)
	}
}

// FillSticky makes the state of as many sticky nodes as are remembered.
func (s *State) FillSticky() {
	for i := range maxStates {
		s.assignments("", fmt.Sprint(i))
	}
}
