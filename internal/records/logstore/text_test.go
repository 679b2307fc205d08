package logstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

func bodies(request, response string) *reqlog.Bodies {
	return &reqlog.Bodies{Request: reqlog.Body{Data: []byte(request)}, Response: reqlog.Body{Data: []byte(response)}}
}

func TestATextIsFoundWhereItIs(t *testing.T) { onBoth(t, testATextIsFoundWhereItIs) }

func testATextIsFoundWhereItIs(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	now := time.Now()
	for i, e := range []reqlog.Entry{
		{Input: reqlog.Input{Model: "gpt-Needle"}, Result: reqlog.Result{Status: 200}},
		{Result: reqlog.Result{ErrorMessage: "a needle, so to say", Status: 400}},
		{Input: reqlog.Input{Path: "/v1/needles"}, Result: reqlog.Result{Status: 200}},
		{Input: reqlog.Input{Metadata: map[string]string{"NEEDLE": "a", "b": "c"}}, Result: reqlog.Result{Status: 200}},
		{Input: reqlog.Input{Metadata: map[string]string{"a": "b", "c": "the needle"}}, Result: reqlog.Result{Status: 200}},
		{Bodies: bodies("one needle in "+strings.Repeat("hay ", 5000), "none"), Level: reqlog.LevelFull, Result: reqlog.Result{Status: 200}, Origin: reqlog.Origin{Provider: "openai"}},
		{Bodies: bodies("none", strings.Repeat("hay ", 5000)+"NeEdLe"), Level: reqlog.LevelFull, Result: reqlog.Result{Status: 500}, Origin: reqlog.Origin{Provider: "openai"}},
		{Bodies: bodies("nee", "dle"), Level: reqlog.LevelFull, Input: reqlog.Input{Model: "nee", Path: "dle"}, Result: reqlog.Result{Status: 200}},
		{Origin: reqlog.Origin{Provider: "needle"}, Result: reqlog.Result{Finish: "needle", Status: 200}, Sender: reqlog.Sender{UserAgent: "needle", KeyName: "needle"}},
		{Bodies: bodies("ein Nädelchen, \u212aiste", "Köln"), Level: reqlog.LevelFull, Result: reqlog.Result{Status: 200}},
	} {
		e.ID, e.KeyID = reqlog.NewID(now.Add(time.Duration(i-20)*10*time.Millisecond)), fmt.Sprint(i)
		e.Path += fmt.Sprintf("/%d", i)
		s.Record(t.Context(), &e)
	}
	mustFlush(t, s)
	for _, tt := range []struct {
		name string
		q    logstore.Query
		want []string
	}{
		{"anywhere", logstore.Query{Text: "needle"}, []string{"6", "5", "4", "3", "2", "1", "0"}},
		{"whatever its case", logstore.Query{Text: "nEEDLE"}, []string{"6", "5", "4", "3", "2", "1", "0"}},
		{"with another filter", logstore.Query{Text: "needle", Status: "5xx"}, []string{"6"}},
		{"in bodies with another filter", logstore.Query{Text: "needle", Provider: "openai"}, []string{"6", "5"}},
		{"longer than a word", logstore.Query{Text: "hay needle"}, []string{"6"}},
		{"of other letters", logstore.Query{Text: "NÄDELCHEN"}, []string{"9"}},
		{"of a letter with three forms", logstore.Query{Text: "kiste"}, []string{"9"}},
		{"of three letters", logstore.Query{Text: "Öln"}, []string{"9"}},
		{"nowhere", logstore.Query{Text: "needless"}, nil},
		{"within a scope", logstore.Query{Text: "needle", Scope: logstore.Scope{Keys: []string{"3", "5", "9"}}}, []string{"5", "3"}},
		{"as many as are asked for", logstore.Query{Text: "needle", Limit: 3}, []string{"6", "5", "4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, err := s.List(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range page.Entries {
				got = append(got, e.KeyID)
				if e.Bodies != nil {
					t.Error("the listing holds bodies")
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("List(%+v) (-want +got):\n%s", tt.q, diff)
			}
		})
	}
}

func TestATextThatCannotBeMeantIsNamed(t *testing.T) {
	s := mustOpen(t, logstore.Options{})
	for i := range 3 {
		s.Record(t.Context(), withBodies(i, 100, time.Now().Add(-time.Hour)))
	}
	mustFlush(t, s)
	page, err := s.List(t.Context(), logstore.Query{Text: "tell", Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("List() = %+v, %v; want a cursor", page, err)
	}
	for param, q := range map[string]logstore.Query{
		"text":   {Text: "öö"},
		"text ":  {Text: strings.Repeat("ö", 257)},
		"cursor": {Text: "tell me", Cursor: page.Next},
	} {
		_, err := s.List(t.Context(), q)
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid || e.Param != strings.TrimSpace(param) {
			t.Errorf("List(%+v) error = %v; want invalid %s", q, err, param)
		}
	}
	if _, err := s.List(t.Context(), logstore.Query{Text: strings.Repeat("ö", 256)}); err != nil {
		t.Error(err)
	}
}

// TestPagesOfASearchGiveEachEntryOnce ends pages by their limit, by the bodies that
// were read, and by the entries that were looked at.
func TestPagesOfASearchGiveEachEntryOnce(t *testing.T) {
	onBoth(t, testPagesOfASearchGiveEachEntryOnce)
}

func testPagesOfASearchGiveEachEntryOnce(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	start := time.Now().Add(-time.Hour)
	var want []string
	for i := range 700 {
		e := withBodies(i, 1000, start)
		e.Path = e.ID.String()
		if i%7 == 0 {
			e.Bodies.Response.Data = []byte("here is the needle")
		}
		if i%11 == 0 {
			e.Bodies, e.Level, e.Metadata = nil, reqlog.LevelMetadata, map[string]string{"find": "the Needle"}
		}
		if i%7 == 0 || i%11 == 0 {
			want = append(want, e.Path)
		}
		s.Record(t.Context(), e)
		if i%90 == 0 {
			mustFlush(t, s)
		}
	}
	mustFlush(t, s)
	slices.Sort(want)
	slices.Reverse(want)
	for _, tt := range []struct{ limit, entries, bytes, pages int }{
		{1000, 1 << 30, 1 << 30, 1},
		{10, 1 << 30, 1 << 30, 16},
		{1, 1 << 30, 1 << 30, 154},
		{1000, 50, 1 << 30, 14},
		{1000, 1 << 30, 100 << 10, 12},
		{1000, 1 << 30, 1, 600}, // a body at a time
		{3, 40, 50 << 10, 30},
	} {
		s.LookAtMost(tt.entries)
		s.ReadAtMost(tt.bytes)
		q := logstore.Query{Text: "the needle", Limit: tt.limit}
		var got []string
		pages := 0
		for more := true; more; more = q.Cursor != "" {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, paths(page.Entries)...)
			q.Cursor = page.Next
			pages++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v: pages (-want +got):\n%s", tt, diff)
		}
		if pages < tt.pages || pages > 800 {
			t.Errorf("%+v: %d pages, want at least %d", tt, pages, tt.pages)
		}
	}
}

// TestSearchesDoNotWaitForOneAnother begins more than there are connections.
func TestSearchesDoNotWaitForOneAnother(t *testing.T) { onBoth(t, testSearchesDoNotWaitForOneAnother) }

func testSearchesDoNotWaitForOneAnother(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	for i := range 300 {
		s.Record(t.Context(), withBodies(i, 2000, time.Now().Add(-time.Minute)))
		if i%10 == 0 {
			mustFlush(t, s)
		}
	}
	mustFlush(t, s)
	newest := mustNewest(t, s).ID
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 3 {
				if page, err := s.List(t.Context(), logstore.Query{Text: "TELL ME OF"}); err != nil || len(page.Entries) != 100 {
					t.Errorf("List() = %d entries, %v; want 100", len(page.Entries), err)
				}
				if e, err := s.Get(t.Context(), logstore.Scope{}, newest); err != nil || e.Bodies == nil {
					t.Errorf("Get() = %+v, %v; want bodies", e, err)
				}
			}
		})
	}
	all.Wait()
}
