package logstore

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
)

// routed are requests of every outcome, over two routes and some status codes.
func routed() (list []*reqlog.Entry) {
	for i, e := range []reqlog.Entry{
		{Result: reqlog.Result{Status: 200}, Input: reqlog.Input{Model: "fast"}, Origin: reqlog.Origin{UpstreamModel: "gpt", ResponseModel: "gpt-2026", OptionIndex: "config.targets[0]"}},
		{Result: reqlog.Result{Status: 200}, Input: reqlog.Input{Model: "fast"}, Origin: reqlog.Origin{UpstreamModel: "gpt", ResponseModel: "gpt-2026", OptionIndex: "config.targets[0]"}},
		{Result: reqlog.Result{Status: 200}, Input: reqlog.Input{Model: "fast"}, Origin: reqlog.Origin{UpstreamModel: "sonnet", ResponseModel: "sonnet-5", OptionIndex: "config.targets[1]", CacheStatus: "HIT"}},
		{Result: reqlog.Result{Status: 200, ErrorSource: "provider", ErrorCode: "upstream_stream_incomplete"}, Input: reqlog.Input{Model: "fast"}, Origin: reqlog.Origin{UpstreamModel: "sonnet", OptionIndex: "config.targets[1]"}},
		{Result: reqlog.Result{Status: 200, ErrorSource: "gateway", ErrorCode: "upstream_failed"}, Input: reqlog.Input{Model: "slow"}, Origin: reqlog.Origin{UpstreamModel: "gpt", ResponseModel: "gpt-2026", OptionIndex: "config"}},
		{Result: reqlog.Result{Status: 499, ErrorSource: "client", ErrorCode: "client_closed_request"}, Input: reqlog.Input{Model: "slow"}, Origin: reqlog.Origin{UpstreamModel: "gpt", OptionIndex: "config"}},
		{Result: reqlog.Result{Status: 499, ErrorSource: "provider", ErrorCode: "status_499"}, Input: reqlog.Input{Model: "slow"}, Origin: reqlog.Origin{UpstreamModel: "gpt", OptionIndex: "config"}},
		{Result: reqlog.Result{Status: 500, ErrorSource: "provider", ErrorCode: "status_500"}, Input: reqlog.Input{Model: "slow"}, Origin: reqlog.Origin{UpstreamModel: "gpt", OptionIndex: "config"}},
		{Result: reqlog.Result{Status: 302}, Origin: reqlog.Origin{Slug: "main", Provider: "openai"}},
	} {
		e.ID, e.Organisation, e.KeyID = reqlog.NewID(noon.Add(time.Duration(i)*20*time.Second)), "acme", "k"
		e.TraceID = fmt.Sprint(i)
		list = append(list, &e)
	}
	return list
}

// outcomesOf adds up the figures of sums.
func outcomesOf(list []Group) string {
	var s Totals
	for i := range list {
		s.Merge(&list[i].Totals)
	}
	return fmt.Sprintf("%d: %d/%d/%d, %d hits", s.Requests, s.Successes, s.Errors, s.Cancelled, s.Hits)
}

func TestBrokenStreamsAreErrorsInEverySum(t *testing.T) {
	everyField := []Field{
		ByNothing, ByWorkspace, ByKey, ByService, ByProvider, ByModel, ByConfig, ByPrompt, ByCache, ByUpstreamModel, ByResponseModel, ByTarget, ByStatus, ByOutcome,
	}
	onBothKinds(t, func(t *testing.T, s *Store) {
		mustRecord(t, s, routed()...)
		for _, age := range []time.Duration{0, time.Hour, 10 * 24 * time.Hour} {
			mustFold(t, s, noon.Add(age)) // not at all, into minutes, and into hours
			for _, by := range everyField {
				for _, q := range []GroupQuery{{By: by}, {By: by, Step: time.Minute}, {By: by, Feedback: true}} {
					if got, want := outcomesOf(mustSum(t, s, q)), "9: 3/4/1, 1 hits"; got != want {
						t.Errorf("after %s, by %d: %s, want %s", age, by, got, want)
					}
				}
			}
		}
		entries := GroupQuery{Feedback: true} // which is read with each entry
		if got, want := outcomesOf(mustSum(t, s, entries)), "9: 3/4/1, 1 hits"; got != want {
			t.Errorf("of entries: %s, want %s", got, want)
		}
	})
}

func TestSumsAreNarrowedByRoute(t *testing.T) {
	s := mustFile(t)
	mustRecord(t, s, routed()...)
	is := func(f Field, list ...string) GroupQuery { return GroupQuery{Is: map[Field][]string{f: list}} }
	for _, tt := range []struct {
		name string
		q    GroupQuery
		want string
	}{
		{"upstream model", is(ByUpstreamModel, "sonnet"), "=2"},
		{"response model", is(ByResponseModel, "gpt-2026"), "=3"},
		{"target", is(ByTarget, "config.targets[0]", "config"), "=6"},
		{"outcome", is(ByOutcome, "error"), "=4"},
		{"outcome and status", GroupQuery{Is: map[Field][]string{ByOutcome: {"error"}, ByStatus: {"200"}}}, "=2"},
		{"provider by id", GroupQuery{Providers: []Provider{{Service: "openai"}}}, "=1"},
		{"provider by slug", GroupQuery{Providers: []Provider{{Slug: "other"}, {Slug: "main"}}}, "=1"},
		{"another provider", GroupQuery{Providers: []Provider{{Slug: "openai"}}}, ""},
		{"groups", GroupQuery{By: ByResponseModel}, "=5 gpt-2026=3 sonnet-5=1"},
	} {
		if got := counts(mustSum(t, s, tt.q)); got != tt.want {
			t.Errorf("by %s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTheLogIsListedByRouteAndOutcome(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *Store) {
		mustRecord(t, s, routed()...)
		for _, tt := range []struct {
			name string
			q    Query
			want string
		}{
			{"success", Query{Outcome: "success"}, "210"},
			{"error", Query{Outcome: "error"}, "7643"},
			{"cancelled", Query{Outcome: "cancelled"}, "5"},
			{"other", Query{Outcome: "other"}, "8"},
			{"broken streams", Query{Outcome: "error", Status: "2xx"}, "43"},
			{"upstream model", Query{UpstreamModel: "sonnet"}, "32"},
			{"response model", Query{ResponseModel: "sonnet-5"}, "2"},
			{"target", Query{Target: "config.targets[0]"}, "10"},
			{"slug", Query{Slug: "main"}, "8"},
			{"a slug that is another field's", Query{Slug: "openai"}, ""},
		} {
			tt.q.From, tt.q.To = noon, noon.Add(time.Hour)
			page, err := s.List(t.Context(), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			m, err := tt.q.Matcher()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				got.WriteString(e.TraceID)
			}
			watched := ""
			for _, e := range routed() {
				if m.Matches(e) {
					watched = e.TraceID + watched
				}
			}
			if got.String() != tt.want || watched != tt.want {
				t.Errorf("by %s: listed %q, watched %q, want %q", tt.name, got.String(), watched, tt.want)
			}
		}
	})
}

func TestFiltersThatCannotMatchAreRefused(t *testing.T) {
	s := mustFile(t)
	for _, q := range []Query{{Status: "99"}, {Status: "0xx"}, {Status: "1000"}, {Status: "+50"}, {Status: "20"}, {Status: "ok"}, {Outcome: "failure"}} {
		if _, err := s.List(t.Context(), q); err == nil {
			t.Errorf("List(%+v) worked, want an error", q)
		}
		if _, err := q.Matcher(); err == nil {
			t.Errorf("Matcher of %+v worked, want an error", q)
		}
	}
}

// formerSet writes a set in format 3, which has no outcomes and no routes, or in
// format 4, which has no savings.
func formerSet(format byte, set groupSet, bucket int64) []byte {
	texts := ByCache + 1
	if format == 4 {
		texts = ByStatus
	}
	var c encoder
	c.reset()
	for k, s := range set {
		for _, text := range k.texts[1:texts] {
			c.uvarint(c.number(text))
		}
		c.varint(int64(k.status))
		if format == 4 {
			c.uvarint(uint64(k.outcome))
		}
		for _, n := range s.numbers(bucket) {
			c.varint(n)
		}
		s.Rescued.append(&c)
		c.varint(s.Estimated)
		sketch := s.Latencies.append(nil)
		c.uvarint(uint64(len(sketch)))
		c.body = append(c.body, sketch...)
	}
	dst := binary.AppendUvarint([]byte{format}, uint64(len(c.numbers)))
	dst = append(dst, c.table...)
	dst = binary.AppendUvarint(dst, uint64(len(set)))
	return append(dst, c.body...)
}

func TestSumsOfEarlierVersionsAreRead(t *testing.T) {
	for _, format := range []byte{3, 4} {
		s := mustFile(t)
		set := make(groupSet)
		for _, e := range sampleEntries()[:10] {
			k := keyOf(e)
			set.at(k).add(e)
		}
		at := noon.UnixMilli()
		if _, err := s.keeper.(*sqliteBackend).write.Exec(`INSERT INTO rollups (organisation, grain, bucket, id, data) VALUES ('acme', 1, $1, 1, $2)`, at, formerSet(format, set, at)); err != nil {
			t.Fatal(err)
		}
		mustRecord(t, s, routed()...)
		for range 2 {
			if got, want := outcomesOf(mustSum(t, s, GroupQuery{})), "19: 9/6/2, 3 hits"; got != want {
				t.Errorf("of format %d and the current one: %s, want %s", format, got, want)
			}
			if got, want := counts(mustSum(t, s, GroupQuery{By: ByOutcome})), "cancelled=2 error=6 other=2 success=9"; got != want {
				t.Errorf("by outcome, of format %d: %s, want %s", format, got, want)
			}
			mustFold(t, s, noon.Add(10*24*time.Hour))
		}
	}
}

func TestSavingsAreSummedAndFolded(t *testing.T) {
	s := mustFile(t)
	list := routed()
	list[0].Saved = reqlog.Saved{Response: 30, Prompt: -2}
	list[1].Saved = reqlog.Saved{Response: 4, Prompt: 7}
	mustRecord(t, s, list...)
	for range 2 {
		var sum reqlog.Saved
		for _, g := range mustSum(t, s, GroupQuery{}) {
			sum.Response += g.Saved.Response
			sum.Prompt += g.Saved.Prompt
		}
		if want := (reqlog.Saved{Response: 34, Prompt: 5}); sum != want {
			t.Errorf("saved %+v, want %+v", sum, want)
		}
		mustFold(t, s, noon.Add(10*24*time.Hour))
	}
	page, err := s.List(t.Context(), Query{From: noon, To: noon.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range page.Entries {
		for _, sent := range list[:2] {
			if e.ID == sent.ID {
				found++
				if e.Saved != sent.Saved {
					t.Errorf("the entry %s has %+v, want %+v", e.TraceID, e.Saved, sent.Saved)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("found %d of 2 entries", found)
	}
}

func TestRoutesAreBoundedInNumber(t *testing.T) {
	set := make(groupSet)
	for i := range 40_000 { // whatever clients and providers call their models
		k := keyOf(&reqlog.Entry{
			Result: reqlog.Result{Status: 200}, Input: reqlog.Input{Model: fmt.Sprintf("m%d", i%1000)}, Origin: reqlog.Origin{UpstreamModel: fmt.Sprintf("u%d", i%97), ResponseModel: fmt.Sprintf("r%d", i%4001), OptionIndex: fmt.Sprintf("t%d", i%31)},
		})
		set.at(k).Requests++
	}
	set.bound()
	total := int64(0)
	models := make(map[string]bool)
	for k, s := range set {
		total += s.Requests
		models[k.texts[ByModel]] = true
	}
	if len(set) > maxRoutes+maxValues || total != 40_000 || len(models) != maxValues {
		t.Errorf("%d sums of %d requests for %d models, want at most %d of 40000 for %d", len(set), total, len(models), maxRoutes+maxValues, maxValues)
	}
}
