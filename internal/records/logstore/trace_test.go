package logstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/base/apierr"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// spans are entries of the traces a, b and c, a second apart.
func spans(start time.Time) (list []*reqlog.Entry) {
	for i, e := range []reqlog.Entry{
		{Trace: reqlog.Trace{TraceID: "a"}, Result: reqlog.Result{Status: 200, Usage: llm.Usage{Input: 3, Output: 4, Known: true}}, Durations: reqlog.Durations{Total: 9 * time.Second}, Charge: reqlog.Charge{Priced: true, Cost: 5}},
		{Trace: reqlog.Trace{TraceID: "b"}, Result: reqlog.Result{Status: 429}, Sender: reqlog.Sender{Workspace: "w"}},
		{Trace: reqlog.Trace{TraceID: "a"}, Result: reqlog.Result{Status: 503}, Durations: reqlog.Durations{Total: time.Second}},
		{Trace: reqlog.Trace{TraceID: "c"}, Result: reqlog.Result{Status: 200}, Sender: reqlog.Sender{Workspace: "w"}, Input: reqlog.Input{Model: "m"}},
		{Trace: reqlog.Trace{TraceID: "b"}, Result: reqlog.Result{Status: 200}, Sender: reqlog.Sender{Workspace: "w"}, Charge: reqlog.Charge{Priced: true, Cost: 7}, Input: reqlog.Input{Model: "m"}},
		{Trace: reqlog.Trace{TraceID: ""}},
	} {
		e.Time = start.Add(time.Duration(i) * time.Second)
		e.ID, e.Path = reqlog.NewID(e.Time), fmt.Sprint(i)
		list = append(list, &e)
	}
	return list
}

func TestTracesSumTheirEntries(t *testing.T) { onBoth(t, testTracesSumTheirEntries) }

func testTracesSumTheirEntries(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	start := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()
	for _, e := range spans(start) {
		s.Record(t.Context(), e)
	}
	mustFlush(t, s)
	moment := func(sec int) time.Time { return start.Add(time.Duration(sec) * time.Second) }
	a := logstore.Trace{ID: "a", First: moment(0), Last: moment(9), Entries: 2, Status: 503, Errors: 1, Priced: 1, Cost: 5, Counted: 1, Tokens: 7}
	b := logstore.Trace{ID: "b", First: moment(1), Last: moment(4), Entries: 2, Status: 429, Errors: 1, Priced: 1, Cost: 7}
	c := logstore.Trace{ID: "c", First: moment(3), Last: moment(3), Entries: 1, Status: 200}
	for _, tt := range []struct {
		name string
		q    logstore.Query
		want []logstore.Trace
	}{
		{"all", logstore.Query{}, []logstore.Trace{b, c, a}},
		{"of a workspace", logstore.Query{Scope: logstore.Scope{Workspace: "w"}}, []logstore.Trace{b, c}},
		{"of none", logstore.Query{Scope: logstore.Scope{Keys: []string{}}}, nil},
		{"by a filter, of what matches", logstore.Query{Model: "m"}, []logstore.Trace{
			{ID: "b", First: moment(4), Last: moment(4), Entries: 1, Status: 200, Priced: 1, Cost: 7}, c,
		}},
	} {
		page, err := s.Traces(t.Context(), tt.q)
		if err != nil || page.Cut || page.Next != "" {
			t.Fatalf("%s: %v, %+v", tt.name, err, page)
		}
		if diff := cmp.Diff(tt.want, page.Traces, cmpopts.IgnoreUnexported(logstore.Trace{}), cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	entries, cut, err := s.Trace(t.Context(), logstore.Query{TraceID: "a"}, 10)
	if got := paths(entries); err != nil || cut || !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("the entries of a = %v, %t, %v", got, cut, err)
	}
	entries, cut, err = s.Trace(t.Context(), logstore.Query{TraceID: "a"}, 1)
	if got := paths(entries); err != nil || !cut || !slices.Equal(got, []string{"2"}) {
		t.Errorf("the newest entry of a = %v, %t, %v", got, cut, err)
	}
}

func TestPagesOfTracesGiveEachOnce(t *testing.T) {
	s := mustOpen(t, place{file: t.TempDir() + "/logs.db"}.with(logstore.Options{}))
	now := time.Now()
	record := func(trace string, at time.Time) {
		s.Record(t.Context(), &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Trace: reqlog.Trace{TraceID: trace}})
		mustFlush(t, s)
	}
	for i := range 25 { // trace i has its entries i and 25-i seconds ago
		record(fmt.Sprint(i), now.Add(-time.Duration(100+i)*time.Second))
		record(fmt.Sprint(i), now.Add(-time.Duration(200-i)*time.Second))
	}
	var got []string
	q := logstore.Query{Limit: 10}
	for {
		page, err := s.Traces(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range page.Traces {
			got = append(got, fmt.Sprint(tr.ID, "x", tr.Entries))
		}
		if page.Next == "" {
			break
		}
		record("new", time.Now()) // one that comes in the meantime moves nothing
		q.Cursor = page.Next
	}
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprint(i, "x2"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages = %v, want %v", got, want)
	}
}

func TestTracesAreReadWithinBounds(t *testing.T) {
	s := mustOpen(t, place{file: t.TempDir() + "/logs.db"}.with(logstore.Options{}))
	for i := range 30 {
		at := time.Now().Add(-time.Duration(i) * time.Minute)
		s.Record(t.Context(), &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Trace: reqlog.Trace{TraceID: fmt.Sprint(i)}, Input: reqlog.Input{Model: "m"}})
	}
	mustFlush(t, s)
	s.LookAtMost(2)
	page, err := s.Traces(t.Context(), logstore.Query{Model: "m"})
	if err != nil || !page.Cut || len(page.Traces) == 0 || len(page.Traces) > 20 {
		t.Errorf("traces = %d, cut %t, %v; want some and cut", len(page.Traces), page.Cut, err)
	}
	for _, q := range []logstore.Query{{Limit: -1}, {Limit: 1001}, {Cursor: "x"}, {Cursor: strings.Repeat("A", 27)}} {
		if _, err := s.Traces(t.Context(), q); apierr.From(err).Kind != apierr.Invalid {
			t.Errorf("Traces(%+v): %v, want it refused", q, err)
		}
	}
	first, _ := s.Traces(t.Context(), logstore.Query{Limit: 1})
	if _, err := s.Traces(t.Context(), logstore.Query{Limit: 1, Model: "m", Cursor: first.Next}); first.Next == "" || err == nil {
		t.Errorf("a cursor of other filters is taken: %q, %v", first.Next, err)
	}
}
