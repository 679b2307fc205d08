package routing

import "strconv"

// AddGates makes the gates of n leaves that nobody else uses. Failing ones have seen
// a failure.
func (s *State) AddGates(name string, n int, failing bool) {
	for i := range n {
		path := name + strconv.Itoa(i)
		if failing {
			s.FailAt(path)
			continue
		}
		s.breaker("", path, nil)
	}
}

// AddLatencyNode makes a latency node that nobody else sends.
func (s *State) AddLatencyNode(name string, branches int) { s.speeds("added", name, branches) }

// LatencyNodes counts the remembered latency nodes.
func (s *State) LatencyNodes() int { return len(s.speed) }
