package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/pipeline"
)

const rtStickyUser = `,"sticky":{"enabled":true,"hash_fields":["metadata.user"],"ttl":600}`

// rtUsers sends an exchange for each of n users with names that begin so.
func (r *rtRoutes) rtUsers(prefix string, n int) {
	for i := range n {
		r.send(rtMeta("user", fmt.Sprint(prefix, i)), func(x *rtRequest) { x.trail.Explain = false })
	}
}

func TestStickyNodeRemembersABoundedNumberOfAssignments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtWeighted(rtStickyUser, 1, 1)).rtSeeded(11)
		r.rtUsers("user", pipeline.MaxAssignments)
		if n := r.state.Assignments(); n != pipeline.MaxAssignments {
			t.Fatalf("of %d assignments %d are remembered, want all", pipeline.MaxAssignments, n)
		}
		r.send(rtMeta("user", "one more"))
		if n := r.state.Assignments(); n > pipeline.MaxAssignments || n < pipeline.MaxAssignments/2 {
			t.Errorf("of one assignment more %d are remembered, want at most %d and most of them", n, pipeline.MaxAssignments)
		}
		if got := r.send(rtMeta("user", "one more")); !got.hasDecision("kept: true") {
			t.Errorf("the last assignment was not remembered: %v", got.x.trail.Decisions)
		}
	})
}

func TestStickyNodeForgetsAssignmentsThatHaveEndedBeforeOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtWeighted(rtStickyUser, 1, 1)).rtSeeded(11)
		const ended = pipeline.MaxAssignments / 4
		r.rtUsers("early", ended)
		time.Sleep(time.Second)
		r.rtUsers("late", pipeline.MaxAssignments-ended)
		time.Sleep(10*time.Minute - time.Second) // when those of the first second end
		r.send(rtMeta("user", "one more"))
		if n, want := r.state.Assignments(), pipeline.MaxAssignments-ended+1; n != want {
			t.Errorf("%d assignments are remembered, want the %d that have not ended", n, want)
		}
	})
}

func TestAssignmentsOfAllStickyNodesAreBounded(t *testing.T) {
	state := new(pipeline.State)
	until := time.Now().Add(time.Hour)
	for round := range 2 { // what was forgotten is counted no more
		for node := range pipeline.MaxAssigned / pipeline.MaxAssignments {
			state.Assign(fmt.Sprint(node), pipeline.MaxAssignments, until)
		}
		if n := state.Assignments(); n != pipeline.MaxAssigned {
			t.Fatalf("round %d: of %d assignments %d are remembered, want all", round, pipeline.MaxAssigned, n)
		}
		state.Assign("another", 1, until)
		if n := state.Assignments(); n > pipeline.MaxAssigned/2 {
			t.Fatalf("round %d: after one assignment more %d are remembered, want most of them forgotten", round, n)
		}
	}
}

func TestStickyNodeWhoseStateWasForgottenServesOn(t *testing.T) {
	r := rtNew(t, rtWeighted(rtStickyUser, 1, 1))
	ann := rtMeta("user", "ann")
	for _, kept := range []bool{false, true} {
		if got := r.send(ann); got.hasDecision("kept: true") != kept {
			t.Fatalf("decided %v, want kept: %t", got.x.trail.Decisions, kept)
		}
	}
	r.state.FillSticky()
	for range 2 {
		if got := r.send(ann); got.status != 200 || got.hasDecision("kept: true") {
			t.Errorf("status %d, decided %v; want a response of a target that is drawn again", got.status, got.x.trail.Decisions)
		}
	}
	if n := r.state.Assignments(); n != 0 {
		t.Errorf("%d assignments are remembered of a tree that has no state, want none", n)
	}
}
