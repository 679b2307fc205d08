package pipeline_test

import (
	"testing"

	"modelgate/internal/pipeline"
)

const rtStickyByUser = `{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"],"ttl":600}},"targets":[` + rtLeaf + `,` + rtLeaf + `]}`

// Anyone with a key can send ever new configs with sticky nodes.
func TestStickyNodesAreForgottenWhenThereAreTooMany(t *testing.T) {
	r := rtNew(t, rtStickyByUser)
	random := 0.0
	r.engine.Random = func() float64 { return random }
	user := rtMeta("user", "u")
	if got := r.send(user); got.path != "0" {
		t.Fatalf("went to %q, want 0", got.path)
	}
	r.state.AddStickyNodes(pipeline.MaxStates - 1)
	random = 0.99
	if got := r.send(user); got.path != "0" {
		t.Errorf("with %d nodes: went to %q, want 0, which the user was given to", pipeline.MaxStates, got.path)
	}
	if n := r.state.StickyNodes(); n != pipeline.MaxStates {
		t.Errorf("%d nodes are remembered, want %d", n, pipeline.MaxStates)
	}
	other := r.compile(`{"name":"other",` + rtStickyByUser[1:])
	if n := r.state.StickyNodes(); n != 1 {
		t.Errorf("%d nodes are remembered after one more, want that one", n)
	}
	for i, want := range []string{"1", "0"} { // forgotten, and not remembered any more
		random = 0.99 * float64(1-i)
		if got := r.send(user); got.path != want {
			t.Errorf("the tree from before drew %q, want %q: its assignments are forgotten", got.path, want)
		}
	}
	if n := r.state.Assigned(); n != 0 {
		t.Errorf("%d assignments are counted, want none", n)
	}
	for i := range 2 {
		random = 0.99 * float64(i)
		if got := rtSend(t.Context(), other, user); got.path != "0" {
			t.Errorf("the new tree drew %q, want 0 both times", got.path)
		}
	}
	if n := r.state.Assigned(); n != 1 {
		t.Errorf("%d assignments are counted, want 1", n)
	}
}

// Many nodes together remember no more than a bounded number of assignments.
func TestStickyAssignmentsOfAllNodesAreBounded(t *testing.T) {
	r := rtNew(t, rtStickyByUser)
	random := 0.0
	r.engine.Random = func() float64 { return random }
	r.send(rtMeta("user", "u"))
	r.state.Assign(pipeline.MaxAssigned - 1)
	random = 0.99
	if got := r.send(rtMeta("user", "u")); got.path != "0" || r.state.Assigned() != pipeline.MaxAssigned {
		t.Errorf("with %d assignments: went to %q, want 0, which the user was given to, with %d", r.state.Assigned(), got.path, pipeline.MaxAssigned)
	}
	r.send(rtMeta("user", "v")) // one too many
	if n := r.state.Assigned(); n != 0 {
		t.Errorf("%d assignments are counted after one more, want none", n)
	}
	if got := r.send(rtMeta("user", "u")); got.path != "1" {
		t.Errorf("went to %q, want 1: the assignment is forgotten", got.path)
	}
	random = 0
	if got := r.send(rtMeta("user", "u")); got.path != "1" || r.state.Assigned() != 1 {
		t.Errorf("went to %q with %d assignments, want 1 again and one: the node still remembers", got.path, r.state.Assigned())
	}
}

// So many latency nodes are remembered that their branches are within the bound.
func TestLatencyNodesAreForgottenWhenThereAreTooMany(t *testing.T) {
	r := rtNew(t, rtTree("latency", 2, ""))
	for _, tt := range []struct {
		name     string
		branches int
		nodes    int // remembered then
	}{
		{"a node that just fits", pipeline.MaxStates - 2, 2},
		{"a node too many", 1, 1},
		{"a further node", 1, 2},
	} {
		r.state.AddLatencyNode(tt.name, tt.branches)
		if n := r.state.LatencyNodes(); n != tt.nodes {
			t.Errorf("%s of %d branches: %d nodes are remembered, want %d", tt.name, tt.branches, n, tt.nodes)
		}
	}
}
