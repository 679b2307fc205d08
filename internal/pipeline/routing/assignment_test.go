package routing_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/pipeline/routing"
	"modelgate/internal/testing/pipelinetest"
)

const rtStickyUser = `,"sticky":{"enabled":true,"hash_fields":["metadata.user"],"ttl":600}`

// rtUsers sends an exchange for each of n users with names that begin so.
func rtUsers(r *pipelinetest.Routes, prefix string, n int) {
	for i := range n {
		r.Send(pipelinetest.Meta("user", fmt.Sprint(prefix, i)), func(x *pipelinetest.Request) { x.Trail.Explain = false })
	}
}

func TestStickyNodeRemembersABoundedNumberOfAssignments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Weighted(rtStickyUser, 1, 1)).Seed(11)
		rtUsers(r, "user", routing.MaxAssignments)
		if n := r.State.Assignments(); n != routing.MaxAssignments {
			t.Fatalf("of %d assignments %d are remembered, want all", routing.MaxAssignments, n)
		}
		r.Send(pipelinetest.Meta("user", "one more"))
		if n := r.State.Assignments(); n > routing.MaxAssignments || n < routing.MaxAssignments/2 {
			t.Errorf("of one assignment more %d are remembered, want at most %d and most of them", n, routing.MaxAssignments)
		}
		if got := r.Send(pipelinetest.Meta("user", "one more")); !got.HasDecision("kept: true") {
			t.Errorf("the last assignment was not remembered: %v", got.X.Trail.Decisions)
		}
	})
}

func TestStickyNodeForgetsAssignmentsThatHaveEndedBeforeOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Weighted(rtStickyUser, 1, 1)).Seed(11)
		const ended = routing.MaxAssignments / 4
		rtUsers(r, "early", ended)
		time.Sleep(time.Second)
		rtUsers(r, "late", routing.MaxAssignments-ended)
		time.Sleep(10*time.Minute - time.Second) // when those of the first second end
		r.Send(pipelinetest.Meta("user", "one more"))
		if n, want := r.State.Assignments(), routing.MaxAssignments-ended+1; n != want {
			t.Errorf("%d assignments are remembered, want the %d that have not ended", n, want)
		}
	})
}

func TestAssignmentsOfAllStickyNodesAreBounded(t *testing.T) {
	state := new(routing.State)
	until := time.Now().Add(time.Hour)
	for round := range 2 { // what was forgotten is counted no more
		for node := range routing.MaxAssigned / routing.MaxAssignments {
			state.Assign(fmt.Sprint(node), routing.MaxAssignments, until)
		}
		if n := state.Assignments(); n != routing.MaxAssigned {
			t.Fatalf("round %d: of %d assignments %d are remembered, want all", round, routing.MaxAssigned, n)
		}
		state.Assign("another", 1, until)
		if n := state.Assignments(); n > routing.MaxAssigned/2 {
			t.Fatalf("round %d: after one assignment more %d are remembered, want most of them forgotten", round, n)
		}
	}
}

func TestStickyNodeWhoseStateWasForgottenServesOn(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Weighted(rtStickyUser, 1, 1))
	ann := pipelinetest.Meta("user", "ann")
	for _, kept := range []bool{false, true} {
		if got := r.Send(ann); got.HasDecision("kept: true") != kept {
			t.Fatalf("decided %v, want kept: %t", got.X.Trail.Decisions, kept)
		}
	}
	r.State.FillSticky()
	for range 2 {
		if got := r.Send(ann); got.Status != 200 || got.HasDecision("kept: true") {
			t.Errorf("status %d, decided %v; want a response of a target that is drawn again", got.Status, got.X.Trail.Decisions)
		}
	}
	if n := r.State.Assignments(); n != 0 {
		t.Errorf("%d assignments are remembered of a tree that has no state, want none", n)
	}
}
