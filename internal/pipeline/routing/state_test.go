package routing_test

import (
	"testing"

	"modelgate/internal/pipeline/routing"
	"modelgate/internal/testing/pipelinetest"
)

// So many latency nodes are remembered that their branches are within the bound.
func TestLatencyNodesAreForgottenWhenThereAreTooMany(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, ""))
	for _, tt := range []struct {
		name     string
		branches int
		nodes    int // remembered then
	}{
		{"a node that just fits", routing.MaxStates - 2, 2},
		{"a node too many", 1, 1},
		{"a further node", 1, 2},
	} {
		r.State.AddLatencyNode(tt.name, tt.branches)
		if n := r.State.LatencyNodes(); n != tt.nodes {
			t.Errorf("%s of %d branches: %d nodes are remembered, want %d", tt.name, tt.branches, n, tt.nodes)
		}
	}
}

// Breakers that say nothing are forgotten first.
func TestOpenBreakersAreRememberedBeforeOthers(t *testing.T) {
	const most = routing.MaxStates
	for _, tt := range []struct {
		name          string
		idle, failing int
		want          int // failing ones that stay
	}{
		{"enough say nothing", 20_000, most - 20_000, most - 20_000},
		{"few say nothing", 1000, most - 1000, most * 9 / 10},
		{"none says nothing", 0, most, most * 9 / 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := new(routing.State)
			s.AddGates("idle", tt.idle, false)
			s.AddGates("failing", tt.failing, true)
			if n := s.Gates(); n != most {
				t.Fatalf("%d breakers are remembered, want all %d", n, most)
			}
			s.AddGates("more", 1, true)
			if n := s.Gates(); n < tt.want || n > tt.want+2 {
				t.Errorf("%d breakers are remembered after one more, want %d with that one", n, tt.want+1)
			}
		})
	}
}
