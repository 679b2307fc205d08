package logstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

// variedEntries are n entries of two days that differ in every field that groups have.
func variedEntries(n int) []*reqlog.Entry {
	r := rand.New(rand.NewPCG(1, 2))
	list := make([]*reqlog.Entry, n)
	for i := range list {
		at := noon.Add(-time.Duration(r.IntN(20*60)) * time.Minute)
		e := &reqlog.Entry{ID: reqlog.NewID(at), Time: at}
		e.Organisation, e.Workspace, e.KeyID = "acme", fmt.Sprint("w", r.IntN(2)), fmt.Sprint("k", r.IntN(3))
		e.Provider, e.Slug, e.Model = "openai", fmt.Sprint("main", r.IntN(2)), fmt.Sprint("m", r.IntN(3))
		e.Operation, e.CacheStatus = "chat", []string{"HIT", "MISS", "DISABLED"}[r.IntN(3)]
		if target := r.IntN(3); target > 0 {
			e.OptionIndex, e.TargetName = fmt.Sprintf("config.targets[%d]", target), []string{"", "cheap", "dear"}[target]
		}
		if v := r.IntN(4); v > 0 {
			e.Config, e.ConfigVersion = "main", int64(v)
			e.Prompt = reqlog.Prompt{ID: "p", Slug: "greeting", Version: int64(1 + v%2)}
		}
		e.Status = 200
		if r.IntN(3) == 0 {
			e.Status, e.ErrorCode, e.ErrorSource = 429, []string{"rate_limited", "status_429"}[r.IntN(2)], "gateway"
		} else {
			e.Priced, e.Cost = true, catalog.NanoDollars(r.IntN(1_000_000))
			e.Usage = llm.Usage{Input: int64(r.IntN(100)), Output: int64(r.IntN(50)), Known: true}
			e.FirstToken = time.Duration(1+r.IntN(900)) * time.Millisecond
		}
		e.Total = e.FirstToken + time.Duration(1+r.IntN(2000))*time.Millisecond
		list[i] = e
	}
	return list
}

// plainSum is a sum that the test makes.
type plainSum struct {
	Requests, Errors, Begun, Tokens, Cost, LatencyUs, FirstTokenUs int64
}

// valueIn returns the value of a field of an entry.
func valueIn(e *reqlog.Entry, f Field) string {
	switch f {
	case ByErrorCode:
		return e.ErrorCode
	case ByTargetName:
		return e.TargetName
	case ByConfigVersion:
		if e.Config == "" {
			return ""
		}
		return e.Config + "@" + strconv.Itoa(int(e.ConfigVersion))
	case ByPromptVersion:
		if e.Prompt.Slug == "" {
			return ""
		}
		return "greeting@" + strconv.Itoa(int(e.Prompt.Version))
	case ByOperation:
		return string(e.Operation)
	case ByKey:
		return e.KeyID
	case ByStatus:
		return strconv.Itoa(e.Status)
	case ByTarget:
		return e.OptionIndex
	}
	return e.CacheStatus
}

var detailFields = []Field{ByErrorCode, ByTargetName, ByConfigVersion, ByPromptVersion, ByOperation, ByKey, ByStatus, ByTarget, ByCache}

// TestDetailsAreWhatEntriesComeTo compares groups by every detail, with percentiles, with sums
// of the entries: of batches, of minutes, and of hours.
func TestDetailsAreWhatEntriesComeTo(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *Store) {
		all := variedEntries(700)
		for part := range slices.Chunk(all, 100) {
			mustRecord(t, s, part...)
		}
		check := func(when string) {
			t.Helper()
			for _, f := range detailFields {
				checkGroups(t, s, fmt.Sprint(when, ", field ", f), all, GroupQuery{By: f}, func(*reqlog.Entry) bool { return true })
			}
			for name, tt := range map[string]struct {
				is      map[Field][]string
				matches func(e *reqlog.Entry) bool
			}{
				"error code": {map[Field][]string{ByErrorCode: {"status_429"}}, func(e *reqlog.Entry) bool { return e.ErrorCode == "status_429" }},
				"target by name or path": {map[Field][]string{ByTarget: {"cheap", "config.targets[2]"}},
					func(e *reqlog.Entry) bool { return e.OptionIndex != "" }},
				"a version of a config":       {map[Field][]string{ByConfig: {"main@2"}}, func(e *reqlog.Entry) bool { return e.ConfigVersion == 2 }},
				"a config":                    {map[Field][]string{ByConfig: {"main"}}, func(e *reqlog.Entry) bool { return e.Config != "" }},
				"a version of a prompt":       {map[Field][]string{ByPrompt: {"greeting@1"}}, func(e *reqlog.Entry) bool { return e.Prompt.Version == 1 }},
				"a version that is not there": {map[Field][]string{ByConfig: {"main@9"}}, func(*reqlog.Entry) bool { return false }},
			} {
				checkGroups(t, s, when+", "+name, all, GroupQuery{By: ByKey, Is: tt.is}, tt.matches)
				listed, err := s.List(t.Context(), Query{Is: tt.is, From: noon.Add(-24 * time.Hour), To: noon.Add(time.Hour), Limit: 1000})
				want := 0
				for _, e := range all {
					if tt.matches(e) {
						want++
					}
				}
				if err != nil || len(listed.Entries) != want {
					t.Errorf("%s, %s: %d entries are listed, %v, want %d", when, name, len(listed.Entries), err, want)
				}
			}
		}
		check("batches")
		mustFold(t, s, noon.Add(time.Hour))
		check("minutes")
		mustFold(t, s, noon.Add(100*time.Hour))
		check("hours")
	})
}

func checkGroups(t *testing.T, s *Store, name string, all []*reqlog.Entry, q GroupQuery, matches func(*reqlog.Entry) bool) {
	t.Helper()
	want, latencies, firsts := map[string]plainSum{}, map[string][]float64{}, map[string][]float64{}
	for _, e := range all {
		if !matches(e) {
			continue
		}
		v := valueIn(e, q.By)
		w := want[v]
		w.Requests++
		w.Tokens += e.Usage.Input + e.Usage.Output
		w.Cost += int64(e.Cost)
		w.LatencyUs += e.Total.Microseconds()
		if latencies[v] = append(latencies[v], float64(e.Total)); e.Status != 200 {
			w.Errors++
		}
		if e.FirstToken > 0 {
			w.Begun++
			w.FirstTokenUs += e.FirstToken.Microseconds()
			firsts[v] = append(firsts[v], float64(e.FirstToken))
		}
		want[v] = w
	}
	q.Percentiles = true
	got := map[string]plainSum{}
	for _, g := range mustSum(t, s, q) {
		got[g.Value] = plainSum{g.Requests, g.Errors, g.Begun, g.Prompt + g.Completion, int64(g.Cost), g.latency, g.firstToken}
		for _, p := range []int{50, 90, 99} {
			for what, of := range map[string]struct {
				exact []float64
				got   time.Duration
			}{"latency": {latencies[g.Value], g.Latencies.Percentile(p)}, "first token": {firsts[g.Value], g.FirstTokens.Percentile(p)}} {
				if len(of.exact) == 0 {
					continue
				}
				slices.Sort(of.exact)
				exact := of.exact[int(math.Ceil(float64(p)/100*float64(len(of.exact))))-1]
				if d := float64(of.got); d < 0.989*exact || d > 1.011*exact {
					t.Errorf("%s: p%d %s of %q is %v, want %v within 1 %%", name, p, what, g.Value, of.got, time.Duration(exact))
				}
			}
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestOlderProgramsReadTheSameSums removes what older programs do not refer to from a stored
// set: what is left has the same sums. A set of an older program has no details.
func TestOlderProgramsReadTheSameSums(t *testing.T) {
	set := make(groupSet)
	for _, e := range variedEntries(200) {
		set.at(keyOf(e)).add(e)
	}
	data := set.append(nil, 0)
	r := reader{b: data[1:]}
	strings := readStrings(&r)
	rest := r.b
	old := binary.AppendUvarint([]byte{sumFormat}, uint64(len(strings)-2))
	for _, s := range strings[1 : len(strings)-1] {
		old = append(binary.AppendUvarint(old, uint64(len(s))), s...)
	}
	old = append(old, rest...)
	sum := func(data []byte) (all, failed Totals, codes map[string]int64) {
		codes = map[string]int64{}
		err := readSums(data, 0, func(k *groupKey, s *Totals, at sketches) error {
			all.Merge(s)
			codes[k.texts[ByErrorCode]] += s.Requests
			return at.addTo(&all)
		})
		if err != nil {
			t.Fatal(err)
		}
		return all, failed, codes
	}
	now, _, codes := sum(data)
	before, _, none := sum(old)
	if now.Requests != 200 || now.Requests != before.Requests || now.Cost != before.Cost || now.Errors != before.Errors || now.latency != before.latency {
		t.Errorf("an older program reads %+v, want %+v", before, now)
	}
	if len(codes) != 3 || now.Begun == 0 || len(none) != 1 || none[""] != 200 || before.Begun != 0 {
		t.Errorf("error codes are %v and without details %v; first tokens %d and %d", codes, none, now.Begun, before.Begun)
	}
}

// TestNamesCannotPassForDetails stores a model whose name begins like details.
func TestNamesCannotPassForDetails(t *testing.T) {
	e := variedEntries(1)[0]
	e.Model = detailMark + "\x01\x02\x03"
	set := make(groupSet)
	set.at(keyOf(e)).add(e)
	again := make(groupSet)
	if err := again.mergeStored(set.append(nil, 0), 0); err != nil || len(again) != 1 {
		t.Errorf("%d sums, %v, want one", len(again), err)
	}
}
