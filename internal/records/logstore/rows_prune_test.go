package logstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

func TestFeedbackAndResultsStayWithinTheirShare(t *testing.T) {
	onBoth(t, testFeedbackAndResultsStayWithinTheirShare)
}

func testFeedbackAndResultsStayWithinTheirShare(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	start := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	const bytes = 8 << 20 // a share is 1 MiB
	add := func(organisation string, n int, text string) {
		t.Helper()
		var list []logstore.Feedback
		var results []logstore.GuardResult
		for i := range n {
			f := feedbackAt(start, i%3000, "w", "a", 1, 1)
			f.Organisation, f.Metadata = organisation, map[string]string{"n": fmt.Sprint(i), "text": text}
			list = append(list, f)
			results = append(results, logstore.GuardResult{ID: reqlog.NewID(f.Created), Organisation: organisation, Guardrail: "pg-a", Entry: f.ID, Event: "request", Verdict: logstore.GuardFailed, Weight: 1, Created: f.Created})
		}
		if err := s.AddFeedback(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if err := s.AddGuardResults(t.Context(), results); err != nil {
			t.Fatal(err)
		}
	}
	count := func(organisation string) (feedback, results int) {
		t.Helper()
		_, feedback, err := s.Feedback(t.Context(), logstore.FeedbackQuery{Scope: logstore.Scope{Organisation: organisation}}, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.GuardResults(t.Context(), logstore.GuardResultQuery{Organisation: organisation}, 1e6)
		if err != nil {
			t.Fatal(err)
		}
		return feedback, len(list)
	}
	add("small", 50, "x")
	add("large", 6000, strings.Repeat("é", 500)) // 8 MB
	for _, step := range []string{"at first", "after more"} {
		if _, err := s.Prune(t.Context(), logstore.Retention{Bytes: bytes}, time.Now()); err != nil {
			t.Fatal(err)
		}
		feedback, results := count("large")
		if feedback < 100 || feedback > 800 || results < 1000 || results > 2700 {
			t.Errorf("%s: %d rows of feedback and %d results are left of the large organisation, want those of 1 MiB", step, feedback, results)
		}
		if feedback, results := count("small"); feedback != 50 || results != 50 {
			t.Errorf("%s: %d rows of feedback and %d results are left of the small organisation, want 50", step, feedback, results)
		}
		add("large", 3000, strings.Repeat("é", 500))
	}
	if _, err := s.Prune(t.Context(), logstore.Retention{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if feedback, _ := count("large"); feedback < 3000 {
		t.Errorf("%d rows of feedback are left without a limit", feedback)
	}
}

func TestMetadataOfFeedbackIsLimited(t *testing.T) { onBoth(t, testMetadataOfFeedbackIsLimited) }

func testMetadataOfFeedbackIsLimited(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	f := feedbackAt(time.Now(), 0, "w", "a", 1, 1)
	f.Metadata = map[string]string{strings.Repeat("n", 1000): strings.Repeat("é", 1000)}
	for i := range 100 {
		f.Metadata[fmt.Sprint(i)] = "v"
	}
	changed := f.Metadata
	check := func() {
		t.Helper()
		list, _, err := s.Feedback(t.Context(), logstore.FeedbackQuery{}, 0, 10)
		if err != nil || len(list) != 1 || len(list[0].Metadata) != 64 {
			t.Fatalf("%d rows, %v, want one with 64 members", len(list), err)
		}
		for name, value := range list[0].Metadata {
			if len(name) > 512 || len([]rune(value)) > 512 {
				t.Errorf("a name of %d bytes and a value of %d characters", len(name), len([]rune(value)))
			}
		}
	}
	if err := s.AddFeedback(t.Context(), []logstore.Feedback{f}); err != nil {
		t.Fatal(err)
	}
	check()
	if err := s.ChangeFeedback(t.Context(), logstore.FeedbackQuery{ID: f.ID}, logstore.FeedbackChange{Value: 1, Metadata: &changed, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	check()
}
