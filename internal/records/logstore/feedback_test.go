package logstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// feedbackAt is feedback of a trace, so many seconds after a time.
func feedbackAt(at time.Time, sec int, workspace, trace string, value int, weight float64) logstore.Feedback {
	at = at.Add(time.Duration(sec) * time.Second)
	return logstore.Feedback{
		ID: reqlog.NewID(at), Organisation: "o", Workspace: workspace, KeyID: "giver", TraceID: trace,
		Value: float64(value), Weight: weight, Metadata: map[string]string{"n": fmt.Sprint(sec)}, Created: at, Updated: at,
	}
}

// withFeedback is the test log with entries of the traces a, b and c and feedback of these.
func withFeedback(t *testing.T, at place) (s *logstore.Store, start time.Time, list []logstore.Feedback) {
	t.Helper()
	s = mustOpen(t, at.with(logstore.Options{}))
	start = time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	for i, e := range []reqlog.Entry{
		{Trace: reqlog.Trace{TraceID: "a"}, Sender: reqlog.Sender{Workspace: "w", KeyID: "k1"}, Origin: reqlog.Origin{Provider: "openai"}, Input: reqlog.Input{Model: "old"}},
		{Trace: reqlog.Trace{TraceID: "a"}, Sender: reqlog.Sender{Workspace: "w", KeyID: "k1"}, Origin: reqlog.Origin{Provider: "openai"}, Input: reqlog.Input{Model: "gpt", Metadata: map[string]string{"team": "x"}}},
		{Trace: reqlog.Trace{TraceID: "b"}, Sender: reqlog.Sender{Workspace: "w", KeyID: "k2"}, Input: reqlog.Input{Model: "gpt", Metadata: map[string]string{"team": "x"}}},
		{Trace: reqlog.Trace{TraceID: "c"}, Sender: reqlog.Sender{Workspace: "w", KeyID: "k2"}, Input: reqlog.Input{Model: "gpt", Metadata: map[string]string{"team": "y"}}},
		{Trace: reqlog.Trace{TraceID: "a"}, Sender: reqlog.Sender{Workspace: "v", KeyID: "k3"}, Input: reqlog.Input{Model: "other"}},
	} {
		e.Organisation, e.Time = "o", start.Add(time.Duration(i)*time.Second)
		e.ID, e.Path = reqlog.NewID(e.Time), fmt.Sprint(i)
		s.Record(t.Context(), &e)
	}
	mustFlush(t, s)
	list = []logstore.Feedback{
		feedbackAt(start, 10, "w", "a", 10, 1), feedbackAt(start, 20, "w", "a", -10, 0.5), feedbackAt(start, 90, "w", "b", 4, 0.25), feedbackAt(start, 100, "w", "unknown", 0, 1),
		feedbackAt(start, 30, "v", "a", -3, 1),
	}
	for _, f := range [][]logstore.Feedback{list[:4], list[4:]} {
		if err := s.AddFeedback(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	return s, start, list
}

func TestFeedbackIsReadAsItWasGiven(t *testing.T) { onBoth(t, testFeedbackIsReadAsItWasGiven) }

func testFeedbackIsReadAsItWasGiven(t *testing.T, at place) {
	s, start, list := withFeedback(t, at)
	for i, want := range []logstore.RatedEntry{{KeyID: "k1", Service: "openai", Model: "gpt"}, {KeyID: "k1", Service: "openai", Model: "gpt"}, {KeyID: "k2", Model: "gpt"}, {}, {KeyID: "k3", Model: "other"}} {
		if list[i].About != want {
			t.Errorf("feedback %d is of %+v, want %+v", i, list[i].About, want)
		}
	}
	of := func(workspace string, keys []string) logstore.Scope {
		return logstore.Scope{Organisation: "o", Workspace: workspace, Keys: keys}
	}
	for _, tt := range []struct {
		name string
		q    logstore.FeedbackQuery
		want []int // of list
	}{
		{"of the organisation", logstore.FeedbackQuery{Scope: of("", nil)}, []int{3, 2, 4, 1, 0}},
		{"of another", logstore.FeedbackQuery{Scope: logstore.Scope{Organisation: "p"}}, nil},
		{"of a workspace", logstore.FeedbackQuery{Scope: of("w", nil)}, []int{3, 2, 1, 0}},
		{"of a trace", logstore.FeedbackQuery{Scope: of("w", nil), TraceID: "a"}, []int{1, 0}},
		{"by id", logstore.FeedbackQuery{Scope: of("w", nil), ID: list[2].ID}, []int{2}},
		{"by the id of another workspace's", logstore.FeedbackQuery{Scope: of("w", nil), ID: list[4].ID}, nil},
		{"of the traces of a key", logstore.FeedbackQuery{Scope: of("w", []string{"k1", "k9"})}, []int{1, 0}},
		{"by its author", logstore.FeedbackQuery{Scope: of("w", []string{"giver"})}, []int{3, 2, 1, 0}},
		{"of no key", logstore.FeedbackQuery{Scope: of("w", []string{})}, nil},
		{"without a workspace", logstore.FeedbackQuery{Scope: of("", nil), Without: []string{"w", "u"}}, []int{4}},
		{"since", logstore.FeedbackQuery{Scope: of("w", nil), From: start.Add(20 * time.Second), To: start.Add(100 * time.Second)}, []int{2, 1}},
		{"that is good", logstore.FeedbackQuery{Scope: of("", nil), Weighted: logstore.FloatRange{Min: new(float64(1))}}, []int{2, 0}},
		{"that is not", logstore.FeedbackQuery{Scope: of("", nil), Weighted: logstore.FloatRange{Min: new(float64(-5)), Max: new(float64(0))}}, []int{3, 4, 1}},
	} {
		got, total, err := s.Feedback(t.Context(), tt.q, 0, 100)
		var want []logstore.Feedback
		for _, i := range tt.want {
			want = append(want, list[i])
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" || total != len(want) {
			t.Errorf("%s: %d, %v (-want +got):\n%s", tt.name, total, err, diff)
		}
	}
	page, total, err := s.Feedback(t.Context(), logstore.FeedbackQuery{Scope: of("w", nil)}, 1, 2)
	if err != nil || total != 4 || len(page) != 2 || page[0].ID != list[2].ID {
		t.Errorf("the second page = %v of %d, %v", page, total, err)
	}
}

func TestFeedbackIsChangedWithinItsScope(t *testing.T) {
	onBoth(t, testFeedbackIsChangedWithinItsScope)
}

func testFeedbackIsChangedWithinItsScope(t *testing.T, at place) {
	s, start, list := withFeedback(t, at)
	mine := logstore.FeedbackQuery{Scope: logstore.Scope{Organisation: "o", Workspace: "w"}, ID: list[0].ID}
	later := start.Add(2 * time.Hour)
	if err := s.ChangeFeedback(t.Context(), mine, logstore.FeedbackChange{Value: -1, At: later}); err != nil {
		t.Fatal(err)
	}
	want := list[0]
	want.Value, want.Updated = -1, later
	got, _, err := s.Feedback(t.Context(), mine, 0, 1)
	if diff := cmp.Diff([]logstore.Feedback{want}, got); err != nil || diff != "" {
		t.Errorf("after a change of the value: %v (-want +got):\n%s", err, diff)
	}
	if err := s.ChangeFeedback(t.Context(), mine, logstore.FeedbackChange{Value: 2, Weight: new(float64(0)), Metadata: &map[string]string{}, At: later}); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := s.Feedback(t.Context(), mine, 0, 1); got[0].Value != 2 || got[0].Weight != 0 || len(got[0].Metadata) != 0 {
		t.Errorf("after a change of all: %+v", got[0])
	}
	for name, q := range map[string]logstore.FeedbackQuery{
		"another organisation": {Scope: logstore.Scope{Organisation: "p"}, ID: list[0].ID}, "another workspace": {Scope: logstore.Scope{Organisation: "o", Workspace: "v"}, ID: list[0].ID},
		"another key": {Scope: logstore.Scope{Organisation: "o", Keys: []string{"k2"}}, ID: list[0].ID}, "no such": {Scope: mine.Scope, ID: reqlog.NewID(start)},
	} {
		if err := s.ChangeFeedback(t.Context(), q, logstore.FeedbackChange{Value: 9, At: later}); apierr.From(err).Kind != apierr.NotFound {
			t.Errorf("%s: %v, want it not found", name, err)
		}
	}
}

func TestFeedbackIsSummed(t *testing.T) { onBoth(t, testFeedbackIsSummed) }

func testFeedbackIsSummed(t *testing.T, at place) {
	s, start, _ := withFeedback(t, at)
	sums, err := s.SumFeedback(t.Context(), logstore.FeedbackQuery{Scope: logstore.Scope{Organisation: "o", Workspace: "w"}}, time.Minute)
	var got []string
	for _, f := range sums {
		got = append(got, fmt.Sprint(f.Step.Sub(start.Truncate(time.Minute)).Minutes(), " ", f.About.KeyID, " ", f.About.Model, " ", f.Value, " ", f.Count, " ", f.Weighted))
	}
	slices.Sort(got)
	step := func(sec int) float64 {
		return start.Add(time.Duration(sec) * time.Second).Truncate(time.Minute).Sub(start.Truncate(time.Minute)).Minutes()
	}
	want := []string{
		fmt.Sprint(step(10), " k1 gpt 10 1 10"), fmt.Sprint(step(20), " k1 gpt -10 1 -5"), fmt.Sprint(step(90), " k2 gpt 4 1 1"), fmt.Sprint(step(100), "   0 1 0"),
	}
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("sums = %q, %v; want %q", got, err, want)
	}
}

func TestEntriesAreDistinguishedByTheirFeedback(t *testing.T) {
	onBoth(t, testEntriesAreToldApartByTheirFeedback)
}

func testEntriesAreToldApartByTheirFeedback(t *testing.T, at place) {
	s, start, _ := withFeedback(t, at)
	for _, tt := range []struct {
		name  string
		scope logstore.Scope
		r     logstore.FloatRange
		want  []string
	}{
		{"good", logstore.Scope{Organisation: "o"}, logstore.FloatRange{Min: new(float64(1))}, []string{"2", "1", "0"}}, // a of w is 2.5 on average, b is 1
		{"better", logstore.Scope{Organisation: "o"}, logstore.FloatRange{Min: new(float64(2)), Max: new(float64(3))}, []string{"1", "0"}},
		{"bad", logstore.Scope{Organisation: "o"}, logstore.FloatRange{Max: new(float64(-1))}, []string{"4"}},
		{"bad, of a workspace", logstore.Scope{Organisation: "o", Workspace: "w"}, logstore.FloatRange{Max: new(float64(-1))}, nil},
		{"of another organisation", logstore.Scope{Organisation: "p"}, logstore.FloatRange{Min: new(float64(-10))}, nil},
	} {
		page, err := s.List(t.Context(), logstore.Query{Scope: tt.scope, Weighted: tt.r})
		if got := paths(page.Entries); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
	if _, err := s.List(t.Context(), logstore.Query{Weighted: logstore.FloatRange{Min: new(float64(1)), Max: new(float64(0))}}); apierr.From(err).Param != "weighted_feedback_min" {
		t.Errorf("bounds that hold nothing: %v", err)
	}
	first, err := s.List(t.Context(), logstore.Query{Scope: logstore.Scope{Organisation: "o"}, Weighted: logstore.FloatRange{Min: new(float64(1))}, Limit: 2})
	if err != nil || first.Next == "" {
		t.Fatalf("the first page = %v, %v", first, err)
	}
	if err := s.AddFeedback(t.Context(), []logstore.Feedback{feedbackAt(start, 200, "w", "c", 10, 1)}); err != nil {
		t.Fatal(err)
	}
	second, err := s.List(t.Context(), logstore.Query{Scope: logstore.Scope{Organisation: "o"}, Weighted: logstore.FloatRange{Min: new(float64(1))}, Limit: 2, Cursor: first.Next})
	if got := paths(second.Entries); err != nil || !slices.Equal(got, []string{"0"}) {
		t.Errorf("the second page, after more feedback = %v, %v", got, err)
	}
	if _, err := s.List(t.Context(), logstore.Query{Scope: logstore.Scope{Organisation: "o"}, Weighted: logstore.FloatRange{Min: new(float64(2))}, Limit: 2, Cursor: first.Next}); apierr.From(err).Param != "cursor" {
		t.Errorf("a cursor of other bounds: %v, want it refused", err)
	}
	sums, err := s.Groups(t.Context(), logstore.GroupQuery{Scope: logstore.Scope{Organisation: "o", Workspace: "w"}, From: start, To: start.Add(time.Minute), ByMetadata: "team", Feedback: true})
	if err != nil || len(sums) != 2 {
		t.Fatalf("sums by team = %v, %v", sums, err)
	}
	for _, sum := range sums {
		want := map[string][2]float64{"x": {2, 2.5 + 1}, "y": {1, 10}}[sum.Value]
		if float64(sum.Rated) != want[0] || sum.Weighted != want[1] {
			t.Errorf("team %s has %d requests with feedback of %v, want %v", sum.Value, sum.Rated, sum.Weighted, want)
		}
	}
	sums, err = s.Groups(t.Context(), logstore.GroupQuery{Scope: logstore.Scope{Organisation: "o"}, From: start, To: start.Add(time.Minute), Weighted: logstore.FloatRange{Max: new(float64(2))}})
	if err != nil || len(sums) != 1 || sums[0].Requests != 2 {
		t.Errorf("requests with feedback of up to 2 = %+v, %v; want b and that of v", sums, err)
	}
}

func TestFeedbackGoesWithTheSums(t *testing.T) { onBoth(t, testFeedbackGoesWithTheSums) }

func testFeedbackGoesWithTheSums(t *testing.T, at place) {
	s, start, _ := withFeedback(t, at)
	var many []logstore.Feedback
	for i := range 2500 {
		many = append(many, feedbackAt(start.Add(-48*time.Hour), i%60, "w", "a", 1, 1))
	}
	if err := s.AddFeedback(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		r    logstore.Retention
		want int
	}{{logstore.Retention{Age: time.Second}, 2505}, {logstore.Retention{Sums: 24 * time.Hour}, 5}} {
		if _, err := s.Prune(t.Context(), tt.r, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, total, err := s.Feedback(t.Context(), logstore.FeedbackQuery{}, 0, 1); err != nil || total != tt.want {
			t.Errorf("after %+v there are %d, %v; want %d", tt.r, total, err, tt.want)
		}
	}
}
