package logstore_test

import (
	"slices"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// resultAt is a result of a guardrail, so many seconds after a time.
func resultAt(at time.Time, sec int, workspace, version, verdict string, weight int64) logstore.GuardResult {
	at = at.Add(time.Duration(sec) * time.Second)
	return logstore.GuardResult{
		ID: reqlog.NewID(at), Organisation: "o", Workspace: workspace, Guardrail: "g", Version: version, Entry: reqlog.NewID(at), Event: "request",
		Verdict: verdict, Weight: weight, Took: time.Duration(sec) * time.Millisecond, Created: at,
	}
}

func TestGuardResultsAreReadLabelledAndSummed(t *testing.T) {
	onBoth(t, testGuardResultsAreReadLabelledAndSummed)
}

func testGuardResultsAreReadLabelledAndSummed(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	start := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	list := []logstore.GuardResult{
		resultAt(start, 1, "w", "1", logstore.GuardPassed, 40), resultAt(start, 2, "w", "1", logstore.GuardFailed, 1),
		resultAt(start, 3, "v", "1", logstore.GuardFailed, 2), resultAt(start, 4, "w", "2", logstore.GuardError, 1),
	}
	if err := s.AddGuardResults(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	places := func(q logstore.GuardResultQuery, limit int) (got []int) {
		t.Helper()
		found, err := s.GuardResults(t.Context(), q, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			got = append(got, slices.IndexFunc(list, func(l logstore.GuardResult) bool { return l == r }))
		}
		return got
	}
	for name, tt := range map[string]struct {
		q     logstore.GuardResultQuery
		limit int
		want  []int
	}{
		"all, newest first":    {logstore.GuardResultQuery{Organisation: "o", Guardrail: "g"}, 9, []int{3, 2, 1, 0}},
		"a page":               {logstore.GuardResultQuery{Organisation: "o", Guardrail: "g"}, 2, []int{3, 2}},
		"the next page":        {logstore.GuardResultQuery{Organisation: "o", Guardrail: "g", Before: list[2].ID}, 9, []int{1, 0}},
		"another organisation": {logstore.GuardResultQuery{Organisation: "p", Guardrail: "g"}, 9, nil},
		"another guardrail":    {logstore.GuardResultQuery{Organisation: "o", Guardrail: "h"}, 9, nil},
		"of a workspace":       {logstore.GuardResultQuery{Organisation: "o", Workspace: "w", Version: "1"}, 9, []int{1, 0}},
		"hits":                 {logstore.GuardResultQuery{Organisation: "o", Verdict: logstore.GuardFailed}, 9, []int{2, 1}},
		"since":                {logstore.GuardResultQuery{Organisation: "o", From: list[3].Created}, 9, []int{3}},
	} {
		if got := places(tt.q, tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("%s: results %v, want %v", name, got, tt.want)
		}
	}
	sample := places(logstore.GuardResultQuery{Organisation: "o", Sample: true}, 9)
	if again := places(logstore.GuardResultQuery{Organisation: "o", Sample: true}, 9); len(sample) != 4 || !slices.Equal(sample, again) {
		t.Errorf("samples %v and %v, want all, twice in the same order", sample, again)
	}

	one := logstore.GuardResultQuery{Organisation: "o", Workspace: "w", Guardrail: "g", ID: list[1].ID}
	if err := s.LabelGuardResult(t.Context(), one, logstore.LabelWrong, "ada", start); err != nil {
		t.Fatal(err)
	}
	for _, q := range []logstore.GuardResultQuery{{Organisation: "p", ID: list[1].ID}, {Organisation: "o", Workspace: "v", ID: list[1].ID}} {
		if err := s.LabelGuardResult(t.Context(), q, logstore.LabelRight, "eve", start); !apierr.IsNotFound(err) {
			t.Errorf("labelling out of scope: %v, want not found", err)
		}
	}
	got, err := s.GuardResults(t.Context(), one, 1)
	if err != nil || len(got) != 1 || got[0].Label != logstore.LabelWrong || got[0].LabelledBy != "ada" || !got[0].Labelled.Equal(start) {
		t.Errorf("labelled: %+v, %v", got, err)
	}
	sums, err := s.SumGuardResults(t.Context(), logstore.GuardResultQuery{Organisation: "o", Version: "1"})
	want := []logstore.GuardSum{{Verdict: "failed", Stored: 1, Seen: 2}, {Verdict: "failed", Label: "wrong", Stored: 1, Seen: 1}, {Verdict: "passed", Stored: 1, Seen: 40}}
	if err != nil || !slices.Equal(sums, want) {
		t.Errorf("sums %v, %v; want %v", sums, err, want)
	}
	times, err := s.GuardTimes(t.Context(), logstore.GuardResultQuery{Organisation: "o"}, 3)
	if err != nil || !slices.Equal(times, []time.Duration{2 * time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond}) {
		t.Errorf("times %v, %v; want those of the newest three, ascending", times, err)
	}
	if err := s.LabelGuardResult(t.Context(), one, "", "ada", start); err != nil {
		t.Fatal(err)
	}
	if got := places(one, 1); !slices.Equal(got, []int{1}) {
		t.Errorf("after its label was removed: %v, want the result as it was", got)
	}
}

func TestOldGuardResultsAreRemoved(t *testing.T) { onBoth(t, testOldGuardResultsAreRemoved) }

func testOldGuardResultsAreRemoved(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	now := time.Now().UTC()
	old, young := resultAt(now.AddDate(0, 0, -3), 0, "w", "1", "passed", 1), resultAt(now.Add(-time.Hour), 0, "w", "1", "passed", 1)
	if err := s.AddGuardResults(t.Context(), []logstore.GuardResult{old, young}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), logstore.Retention{Sums: 48 * time.Hour}, now); err != nil {
		t.Fatal(err)
	}
	left, err := s.GuardResults(t.Context(), logstore.GuardResultQuery{Organisation: "o"}, 9)
	if err != nil || len(left) != 1 || left[0].ID != young.ID {
		t.Errorf("left %v, %v; want the young result only", left, err)
	}
}
