package logstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

func TestFiltersKeepWhatMatchesAll(t *testing.T) { onBoth(t, testFiltersKeepWhatMatchesAll) }

func testFiltersKeepWhatMatchesAll(t *testing.T, at place) {
	t.Run("in blocks of their own", func(t *testing.T) { testFilters(t, at, time.Minute) })
	t.Run("in one block", func(t *testing.T) { testFilters(t, at, time.Millisecond) })
}

// testFilters lists entries that are step apart.
func testFilters(t *testing.T, at place, step time.Duration) {
	s := mustOpen(t, at.fresh(t).with(logstore.Options{}))
	now := time.Now().Truncate(time.Second)
	yes := true
	for i, e := range []reqlog.Entry{
		{Input: reqlog.Input{Model: "a", Config: "c1", Operation: "chat", Metadata: map[string]string{"env": "dev", "user": "1"}}, Origin: reqlog.Origin{Provider: "openai", Slug: "s1", UpstreamModel: "u1", ResponseModel: "r1", OptionIndex: "config.targets[0]"}, Result: reqlog.Result{Status: 200}, Sender: reqlog.Sender{KeyID: "k1", Organisation: "o1", Workspace: "w1"}, Trace: reqlog.Trace{TraceID: "t1"}, Durations: reqlog.Durations{Total: time.Second}},
		{Input: reqlog.Input{Model: "b", Config: "c2", Operation: "chat", Stream: true, Metadata: map[string]string{"env": "dev"}}, Origin: reqlog.Origin{Provider: "openai", Slug: "s2", UpstreamModel: "u1", ResponseModel: "u2", OptionIndex: "config.targets[1]"}, Result: reqlog.Result{Status: 429}, Sender: reqlog.Sender{KeyID: "k2", Organisation: "o1", Workspace: "w2"}, Trace: reqlog.Trace{TraceID: "t2"}},
		{Input: reqlog.Input{Model: "a", Operation: "embeddings", Metadata: map[string]string{"dev": "env", "empty": ""}}, Origin: reqlog.Origin{Provider: "groq"}, Result: reqlog.Result{Status: 503}, Sender: reqlog.Sender{KeyID: "k1", Organisation: "o2", Workspace: "w1"}, Trace: reqlog.Trace{TraceID: "t11"}},
		{Input: reqlog.Input{Model: "A"}, Origin: reqlog.Origin{Provider: "groq"}, Result: reqlog.Result{Status: 500}, Sender: reqlog.Sender{Organisation: "o2", Workspace: "w3"}, Durations: reqlog.Durations{Total: 2 * time.Second}},
	} {
		e.Time = now.Add(time.Duration(i-10) * step)
		e.ID = reqlog.NewID(e.Time)
		e.Path = fmt.Sprint(i)
		s.Record(t.Context(), &e)
	}
	mustFlush(t, s)
	for _, tt := range []struct {
		name string
		q    logstore.Query
		want []string
	}{
		{"none", logstore.Query{}, []string{"3", "2", "1", "0"}},
		{"model by case", logstore.Query{Model: "a"}, []string{"2", "0"}},
		{"provider", logstore.Query{Provider: "openai"}, []string{"1", "0"}},
		{"model and provider", logstore.Query{Model: "a", Provider: "groq"}, []string{"2"}},
		{"status", logstore.Query{Status: "429"}, []string{"1"}},
		{"status class", logstore.Query{Status: "5xx"}, []string{"3", "2"}},
		{"key", logstore.Query{KeyID: "k1"}, []string{"2", "0"}},
		{"a string of another field", logstore.Query{KeyID: "openai"}, nil},
		{"config", logstore.Query{Configs: []string{"c1"}}, []string{"0"}},
		{"a config that is another field's", logstore.Query{Configs: []string{"a"}}, nil},
		{"workspace", logstore.Query{Workspace: "w1"}, []string{"2", "0"}},
		{"scope", logstore.Query{Scope: logstore.Scope{Organisation: "o1"}}, []string{"1", "0"}},
		{"scope of a workspace", logstore.Query{Scope: logstore.Scope{Organisation: "o1", Workspace: "w1"}}, []string{"0"}},
		{"scope of keys", logstore.Query{Scope: logstore.Scope{Keys: []string{"k2", "k1", "k9"}}}, []string{"2", "1", "0"}},
		{"scope of one key in a workspace", logstore.Query{Scope: logstore.Scope{Workspace: "w2", Keys: []string{"k2", "k1"}}}, []string{"1"}},
		{"scope of no key", logstore.Query{Scope: logstore.Scope{Keys: []string{}}}, nil},
		{"scope of keys that are not there", logstore.Query{Scope: logstore.Scope{Keys: []string{"openai", "k9"}}}, nil},
		{"a key outside the scope", logstore.Query{Scope: logstore.Scope{Keys: []string{"k2"}}, KeyID: "k1"}, nil},
		{"workspace outside the scope", logstore.Query{Scope: logstore.Scope{Workspace: "w1"}, Workspace: "w2"}, nil},
		{"trace whole", logstore.Query{TraceID: "t1"}, []string{"0"}},
		{"operation", logstore.Query{Operation: "embeddings"}, []string{"2"}},
		{"managed provider", logstore.Query{Slug: "s2"}, []string{"1"}},
		{"upstream model", logstore.Query{UpstreamModel: "u1"}, []string{"1", "0"}},
		{"upstream model that is another entry's response model", logstore.Query{UpstreamModel: "u2"}, nil},
		{"response model", logstore.Query{ResponseModel: "r1"}, []string{"0"}},
		{"response model and upstream model", logstore.Query{ResponseModel: "u2", UpstreamModel: "u1"}, []string{"1"}},
		{"target", logstore.Query{Target: "config.targets[0]"}, []string{"0"}},
		{"outcome", logstore.Query{Outcome: "error"}, []string{"3", "2", "1"}},
		{"outcome and model", logstore.Query{Outcome: "success", Model: "a"}, []string{"0"}},
		{"stream", logstore.Query{Stream: &yes}, []string{"1"}},
		{"not stream", logstore.Query{Stream: new(bool)}, []string{"3", "2", "0"}},
		{"latency", logstore.Query{MinLatency: time.Second}, []string{"3", "0"}},
		{"metadata", logstore.Query{Metadata: map[string]string{"env": "dev"}}, []string{"1", "0"}},
		{"metadata pairs", logstore.Query{Metadata: map[string]string{"env": "dev", "user": "1"}}, []string{"0"}},
		{"metadata not turned around", logstore.Query{Metadata: map[string]string{"dev": "env"}}, []string{"2"}},
		{"metadata of an empty value", logstore.Query{Metadata: map[string]string{"empty": ""}}, []string{"2"}},
		{"metadata that is absent", logstore.Query{Metadata: map[string]string{"env": "prod"}}, nil},
		{"from is in, to is out", logstore.Query{From: now.Add(-9 * step), To: now.Add(-7 * step)}, []string{"2", "1"}},
		{"to alone", logstore.Query{To: now.Add(-9 * step)}, []string{"0"}},
		{"limit", logstore.Query{Limit: 2}, []string{"3", "2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, err := s.List(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, paths(page.Entries)); diff != "" {
				t.Errorf("List(%+v) (-want +got):\n%s", tt.q, diff)
			}
		})
	}
}

func TestAnInvalidQueryIsNamed(t *testing.T) { onBoth(t, testAnInvalidQueryIsNamed) }

func testAnInvalidQueryIsNamed(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	for i := range 3 {
		s.Record(t.Context(), sampleEntry(i, time.Now()))
	}
	mustFlush(t, s)
	page, err := s.List(t.Context(), logstore.Query{Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("List(Limit: 1) = %q, %v; want a cursor", page.Next, err)
	}
	altered := []byte(page.Next)
	altered[3] ^= 1
	now := time.Now()
	for _, tt := range []struct {
		name  string
		q     logstore.Query
		param string
	}{
		{"limit too large", logstore.Query{Limit: 1001}, "limit"},
		{"limit negative", logstore.Query{Limit: -1}, "limit"},
		{"status word", logstore.Query{Status: "bad"}, "status"},
		{"status class 0", logstore.Query{Status: "0xx"}, "status"},
		{"status too long", logstore.Query{Status: "1000"}, "status"},
		{"status negative", logstore.Query{Status: "-5"}, "status"},
		{"range turned around", logstore.Query{From: now, To: now.Add(-time.Hour)}, "from"},
		{"latency negative", logstore.Query{MinLatency: -1}, "min_latency"},
		{"cursor altered", logstore.Query{Cursor: string(altered)}, "cursor"},
		{"cursor cut", logstore.Query{Cursor: page.Next[:10]}, "cursor"},
		{"cursor of no base64", logstore.Query{Cursor: "!"}, "cursor"},
		{"cursor of another listing", logstore.Query{Cursor: page.Next, Model: "a"}, "cursor"},
		{"cursor of another config", logstore.Query{Cursor: page.Next, Configs: []string{"c"}}, "cursor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.List(t.Context(), tt.q)
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Kind != apierr.Invalid || e.Param != tt.param {
				t.Errorf("List(%+v) error = %v; want invalid %s", tt.q, err, tt.param)
			}
		})
	}
	if next, err := s.List(t.Context(), logstore.Query{Cursor: page.Next}); err != nil || len(next.Entries) != 2 {
		t.Errorf("List(Cursor) = %d entries, %v; want 2 with another limit", len(next.Entries), err)
	}
}

// TestPagesGiveEachEntryOnce lists entries whose times lie across each other in
// many blocks, while more arrive.
// A cursor of one list would skip entries of another.
func TestCursorsBelongToTheirFilters(t *testing.T) {
	s := mustOpen(t, logstore.Options{})
	now := time.Now()
	for i := range 3 {
		s.Record(t.Context(), sampleEntry(i, now))
	}
	mustFlush(t, s)
	first, err := s.List(t.Context(), logstore.Query{Limit: 1})
	if err != nil || first.Next == "" {
		t.Fatalf("List(Limit: 1) = %q, %v; want a cursor", first.Next, err)
	}
	if _, err := s.List(t.Context(), logstore.Query{Limit: 2, Cursor: first.Next}); err != nil {
		t.Errorf("a cursor is refused for pages of another length: %v", err)
	}
	yes, low, high := true, int64(1), 1.0
	for _, q := range []logstore.Query{
		{Scope: logstore.Scope{Organisation: "o"}}, {Scope: logstore.Scope{Workspace: "w"}}, {From: now.Add(-time.Hour)}, {To: now.Add(time.Hour)},
		{Status: "5xx"}, {Outcome: "error"}, {Model: "a"}, {Provider: "a"}, {Slug: "a"}, {UpstreamModel: "a"}, {ResponseModel: "a"}, {Target: "a"},
		{Configs: []string{"a"}}, {KeyID: "a"}, {Workspace: "a"}, {TraceID: "a"}, {Operation: "chat"}, {Stream: &yes}, {MinLatency: time.Second},
		{Metadata: map[string]string{"a": "b"}}, {Text: "abc"}, {Cost: logstore.Bounds{Min: &low}}, {Cost: logstore.Bounds{Max: &low}},
		{Tokens: logstore.Bounds{Min: &low}}, {PromptTokens: logstore.Bounds{Min: &low}}, {CompletionTokens: logstore.Bounds{Min: &low}}, {Weighted: logstore.FloatRange{Min: &high}},
	} {
		q.Cursor = first.Next
		if _, err := s.List(t.Context(), q); !refusesCursor(err) {
			t.Errorf("the cursor of another list: %v, want it refused; the query is %+v", err, q)
		}
	}
	for i := range first.Next {
		altered := []byte(first.Next)
		altered[i]++
		if _, err := s.List(t.Context(), logstore.Query{Cursor: string(altered)}); !refusesCursor(err) {
			t.Errorf("a cursor that was altered at %d: %v, want it refused", i, err)
		}
	}
}

func refusesCursor(err error) bool {
	e, ok := errors.AsType[*apierr.Error](err)
	return ok && e.Kind == apierr.Invalid && e.Param == "cursor"
}

func TestPagesGiveEachEntryOnce(t *testing.T) { onBoth(t, testPagesGiveEachEntryOnce) }

func testPagesGiveEachEntryOnce(t *testing.T, at place) {
	for _, most := range []int{1 << 30, 7} {
		t.Run(fmt.Sprintf("looking at most at %d", most), func(t *testing.T) {
			s := mustOpen(t, at.fresh(t).with(logstore.Options{}))
			s.LookAtMost(most)
			start := time.Now().Add(-time.Minute)
			want := map[string]bool{}
			for i := range 1500 {
				e := sampleEntry(i, start)
				e.ID = reqlog.NewID(start.Add(rand.N(5 * time.Second))) // not in the order of recording
				e.Path = e.ID.String()
				want[e.Path] = e.Model == "gpt-4o"
				s.Record(t.Context(), e)
				if i%41 == 0 {
					mustFlush(t, s)
				}
			}
			mustFlush(t, s)
			q := logstore.Query{Model: "gpt-4o", Limit: 37}
			var got []string
			for more := true; more; more = q.Cursor != "" {
				page, err := s.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, paths(page.Entries)...)
				q.Cursor = page.Next
				late := sampleEntry(0, time.Now())
				late.Path = late.ID.String()
				s.Record(t.Context(), late)
				mustFlush(t, s)
			}
			var wanted []string
			for path, matching := range want {
				if matching {
					wanted = append(wanted, path)
				}
			}
			slices.Sort(wanted)
			slices.Reverse(wanted)
			first := slices.IndexFunc(got, func(p string) bool { return want[p] })
			if diff := cmp.Diff(wanted, got[first:]); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPagesStopBetweenBlocksThatCannotMatch lists one entry in three of blocks
// with one entry each, so that most pages end where a block was skipped.
func TestPagesStopBetweenBlocksThatCannotMatch(t *testing.T) {
	onBoth(t, testPagesStopBetweenBlocksThatCannotMatch)
}

func testPagesStopBetweenBlocksThatCannotMatch(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	s.LookAtMost(1)
	start := time.Now().Add(-time.Hour)
	var want []string
	for i := range 60 {
		id := reqlog.NewID(start.Add(time.Duration(i) * 100 * time.Millisecond))
		e := &reqlog.Entry{ID: id, Input: reqlog.Input{Path: id.String(), Model: fmt.Sprint(i % 3)}}
		if e.Model == "1" {
			want = append([]string{e.Path}, want...)
		}
		s.Record(t.Context(), e)
		mustFlush(t, s)
	}
	q := logstore.Query{Model: "1"}
	var got []string
	for pages := 0; pages == 0 || q.Cursor != ""; pages++ {
		if pages > 100 {
			t.Fatal("listing does not end")
		}
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, paths(page.Entries)...)
		q.Cursor = page.Next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestAnEntryIsFoundByItsIDWithinItsScope(t *testing.T) {
	onBoth(t, testAnEntryIsFoundByItsIDWithinItsScope)
}

func testAnEntryIsFoundByItsIDWithinItsScope(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	var all []*reqlog.Entry
	for i := range 1200 {
		e := sampleEntry(i, time.Now())
		e.Time = e.Time.UTC().Round(0)
		all = append(all, e)
		s.Record(t.Context(), e)
	}
	mustFlush(t, s)
	for _, e := range all {
		got, err := s.Get(t.Context(), logstore.Scope{Organisation: e.Organisation, Workspace: e.Workspace, Keys: []string{"another", e.KeyID}}, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("Get(%s) (-want +got):\n%s", e.ID, diff)
		}
	}
	for _, tt := range []struct {
		name  string
		scope logstore.Scope
		id    reqlog.ID
	}{
		{"another organisation", logstore.Scope{Organisation: "other"}, all[5].ID},
		{"another workspace", logstore.Scope{Organisation: "acme", Workspace: "team-0"}, all[6].ID},
		{"keys of others", logstore.Scope{Keys: []string{"another"}}, all[5].ID},
		{"no key", logstore.Scope{Keys: []string{}}, all[5].ID},
		{"never recorded", logstore.Scope{}, reqlog.NewID(time.Now())},
		{"at the end of time", logstore.Scope{}, reqlog.NewID(time.UnixMilli(1<<48 - 1))},
	} {
		_, err := s.Get(t.Context(), tt.scope, tt.id)
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.NotFound {
			t.Errorf("%s: Get() error = %v; want not found", tt.name, err)
		}
	}
}

func TestAClockThatJumpsBreaksNothing(t *testing.T) { onBoth(t, testAClockThatJumpsBreaksNothing) }

func testAClockThatJumpsBreaksNothing(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	now := time.Now()
	twice := reqlog.NewID(now)
	for _, id := range []reqlog.ID{
		reqlog.NewID(now.Add(time.Hour)), reqlog.NewID(now.Add(-time.Hour)), twice, twice,
		reqlog.NewID(time.UnixMilli(0)), reqlog.NewID(time.UnixMilli(1<<48 - 1)), {},
	} {
		s.Record(t.Context(), &reqlog.Entry{ID: id, Input: reqlog.Input{Path: id.String()}})
		mustFlush(t, s)
	}
	page, err := s.List(t.Context(), logstore.Query{From: time.UnixMilli(-5)})
	if err != nil {
		t.Fatal(err)
	}
	got := paths(page.Entries)
	if len(got) != 6 || !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("List() = %q; want six, newest first, the one recorded twice once", got)
	}
}

// mustFlush writes what was recorded. It fails after a minute in which nothing was written.
func mustFlush(tb testing.TB, s *logstore.Store) {
	tb.Helper()
	for written := s.Stats().Written; ; written = s.Stats().Written {
		ctx, cancel := context.WithTimeout(tb.Context(), waittest.Bound)
		err := s.Flush(ctx)
		cancel()
		if err == nil {
			return
		}
		if now := s.Stats(); !errors.Is(err, context.DeadlineExceeded) || now.Written == written {
			tb.Fatalf("Flush() = %v; Stats() = %+v", err, now)
		}
	}
}

func paths(entries []*reqlog.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Path)
	}
	return all
}
