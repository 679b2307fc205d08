package logstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/storetest"
)

// noon is a full hour, long before the entries of other tests.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// mustFile opens a log whose writer starts nothing by itself.
func mustFile(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "logs.db"), Flush: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// onBothKinds runs f as a subtest with an empty log of each kind.
func onBothKinds(t *testing.T, f func(t *testing.T, s *Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { f(t, mustFile(t)) })
	if testing.Short() {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		s, err := Open(t.Context(), Options{URL: storetest.Postgres(t), Flush: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.Background()) })
		f(t, s)
	})
}

func mustRecord(t testing.TB, s *Store, entries ...*reqlog.Entry) {
	t.Helper()
	for _, e := range entries {
		s.Record(t.Context(), e)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func mustSum(t testing.TB, s *Store, q GroupQuery) []Group {
	t.Helper()
	if q.Scope.Organisation == "" {
		q.Scope.Organisation = "acme"
	}
	if q.To.IsZero() {
		q.From, q.To = noon.Add(-24*time.Hour), noon.Add(24*time.Hour)
	}
	list, err := s.Groups(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Or(a.Step.Compare(b.Step), cmp.Compare(a.Value, b.Value)) })
	return list
}

// sampleEntries are ten requests of an organisation and one of another, whose sums were
// done by hand.
func sampleEntries() []*reqlog.Entry {
	entry := func(minute int, workspace, key, service, model string, status, prompt, completion int, cost int64, ms int, cache string) *reqlog.Entry {
		at := noon.Add(time.Duration(minute) * time.Minute)
		e := &reqlog.Entry{
			ID: reqlog.NewID(at), Time: at, Sender: reqlog.Sender{Organisation: "acme", Workspace: workspace, KeyID: key}, Origin: reqlog.Origin{Provider: service, Slug: "main-" + service, CacheStatus: cache},
			Input: reqlog.Input{Model: model, Metadata: map[string]string{"_user": workspace + "-" + key}}, Result: reqlog.Result{Status: status}, Durations: reqlog.Durations{Total: time.Duration(ms) * time.Millisecond},
		}
		e.Prompt.Slug = "p-" + model
		if prompt >= 0 {
			e.Usage = llm.Usage{Input: int64(prompt), Output: int64(completion), Known: true}
		}
		if cost >= 0 {
			e.Priced, e.Cost = true, catalog.NanoDollars(1000*cost)
		}
		return e
	}
	other := entry(0, "w1", "k1", "openai", "gpt", 200, 7, 7, 7, 7, "HIT")
	other.Organisation = "rival"
	return []*reqlog.Entry{
		entry(0, "w1", "k1", "openai", "gpt", 200, 10, 1, 100, 10, "MISS"),
		entry(0, "w1", "k1", "openai", "gpt", 200, 20, 2, 200, 20, "HIT"),
		entry(0, "w1", "k2", "openai", "gpt", 200, 30, 3, -1, 30, "SEMANTIC HIT"),
		entry(1, "w1", "k2", "openai", "mini", 429, -1, 0, -1, 40, "MISS"),
		entry(1, "w1", "k1", "anthropic", "sonnet", 200, 50, 5, 500, 50, "MISS"),
		withAttempts(entry(59, "w2", "k3", "anthropic", "sonnet", 500, -1, 0, -1, 60, "DISABLED"), "a", "a"),
		withAttempts(entry(60, "w2", "k3", "anthropic", "sonnet", 200, 70, 7, 700, 70, "DISABLED"), "a", "a", "a"),
		withAttempts(entry(61, "w2", "k3", "anthropic", "sonnet", 200, 80, 8, 800, 80, "DISABLED"), "a", "a", "b"),
		entry(200, "w2", "k4", "", "none", 302, -1, 0, -1, 90, "DISABLED"),
		entry(200, "w2", "k4", "openai", "gpt", 499, 100, 0, 0, 400, "DISABLED"),
		other,
	}
}

// withAttempts gives an entry attempts at targets, of which the last has answered.
func withAttempts(e *reqlog.Entry, targets ...string) *reqlog.Entry {
	for i, target := range targets {
		e.Attempts = append(e.Attempts, reqlog.Attempt{Target: target, Start: time.Duration(i)})
		e.OptionIndex = target
	}
	return e
}

// figures are the sums that tests compare.
type figures struct {
	Value                                                       string
	Requests, Successes, Errors, Hits, Semantic                 int64
	Counted, Prompt, Completion, Priced, Cost, LatencyMs, P99Ms int64
	FirstMinute, LastMinute                                     int
	Twice, FellBack                                             int64 // succeeded after two retries, and at another target
}

func figuresOf(list []Group) (out []figures) {
	for _, s := range list {
		out = append(out, figures{
			s.Value, s.Requests, s.Successes, s.Errors, s.Hits, s.SemanticHits, s.Counted, s.Prompt, s.Completion, s.Priced, int64(s.Cost),
			s.AverageLatency().Milliseconds(), s.Latencies.Percentile(99).Round(10 * time.Millisecond).Milliseconds(),
			int(s.First().Sub(noon).Minutes()), int(s.Last().Sub(noon).Minutes()), s.Rescued.Retried[1], s.Rescued.FellBack,
		})
	}
	return out
}

// byModel are the sums of known by model, done by hand.
var byModel = []figures{
	{"gpt", 4, 3, 0, 2, 1, 4, 160, 6, 3, 300_000, 115, 400, 0, 200, 0, 0},
	{"mini", 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 40, 40, 1, 1, 0, 0},
	{"none", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 90, 90, 200, 200, 0, 0},
	{"sonnet", 4, 3, 1, 0, 0, 3, 200, 20, 3, 2_000_000, 65, 80, 1, 61, 1, 1},
}

func TestSumsAreThoseOfTheEntries(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *Store) {
		mustRecord(t, s, sampleEntries()...)
		if diff := gocmp.Diff(byModel, figuresOf(mustSum(t, s, GroupQuery{By: ByModel, Percentiles: true}))); diff != "" {
			t.Errorf("sums by model (-want +got):\n%s", diff)
		}
	})
}

func TestEachFieldIsSummedBy(t *testing.T) {
	s := mustFile(t)
	mustRecord(t, s, sampleEntries()...)
	for _, tt := range []struct {
		name string
		by   Field
		want string
	}{
		{"nothing", ByNothing, "=10"},
		{"workspace", ByWorkspace, "w1=5 w2=5"},
		{"key", ByKey, "k1=3 k2=2 k3=3 k4=2"},
		{"service", ByService, "=1 anthropic=4 openai=5"},
		{"provider", ByProvider, "main-=1 main-anthropic=4 main-openai=5"},
		{"model", ByModel, "gpt=4 mini=1 none=1 sonnet=4"},
		{"prompt", ByPrompt, "p-gpt=4 p-mini=1 p-none=1 p-sonnet=4"},
		{"cache", ByCache, "DISABLED=5 HIT=1 MISS=3 SEMANTIC HIT=1"},
		{"status", ByStatus, "200=6 302=1 429=1 499=1 500=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := counts(mustSum(t, s, GroupQuery{By: tt.by})); got != tt.want {
				t.Errorf("Sum by %s = %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

// counts writes the requests of each sum.
func counts(list []Group) string {
	var out strings.Builder
	for i, s := range list {
		if i > 0 {
			out.WriteString(" ")
		}
		if !s.Step.IsZero() {
			out.WriteString(s.Step.Format("15:04"))
		}
		out.WriteString(fmt.Sprintf("%s=%d", s.Value, s.Requests))
	}
	return out.String()
}

// narrowings are queries of known with how many requests match.
var narrowings = []struct {
	name string
	q    GroupQuery
	want string
}{
	{"a workspace", GroupQuery{Scope: Scope{Workspace: "w1"}}, "=5"},
	{"keys", GroupQuery{Scope: Scope{Keys: []string{"k2", "k4"}}}, "=4"},
	{"no keys", GroupQuery{Scope: Scope{Keys: []string{}}}, ""},
	{"another organisation", GroupQuery{Scope: Scope{Organisation: "rival"}}, "=1"},
	{"without a workspace", GroupQuery{Without: []string{"w2"}}, "=5"},
	{"one of two statuses", GroupQuery{Is: map[Field][]string{ByStatus: {"200", "429"}}}, "=7"},
	{"two fields", GroupQuery{Is: map[Field][]string{ByStatus: {"200"}, ByKey: {"k3"}}}, "=2"},
	{"models of providers", GroupQuery{Models: []ServedModel{{"openai", "gpt"}, {"anthropic", "gpt"}}}, "=4"},
	{"from a minute on", GroupQuery{From: noon.Add(time.Minute), To: noon.Add(10 * time.Hour)}, "=7"},
	{"up to a minute", GroupQuery{From: noon, To: noon.Add(time.Minute)}, "=3"},
	{"a part of a minute", GroupQuery{From: noon.Add(30 * time.Second), To: noon.Add(61 * time.Second)}, "=5"},
	{"steps", GroupQuery{Step: time.Hour}, "12:00=6 13:00=2 15:00=2"},
	{"steps and a field", GroupQuery{Step: 24 * time.Hour, By: ByWorkspace}, "00:00w1=5 00:00w2=5"},
	{"metadata", GroupQuery{Metadata: map[string]string{"_user": "w1-k2"}}, "=2"},
	{"by metadata", GroupQuery{ByMetadata: "_user", Scope: Scope{Workspace: "w2"}}, "w2-k3=3 w2-k4=2"},
	{"by absent metadata", GroupQuery{ByMetadata: "team"}, ""},
	{"metadata in steps", GroupQuery{Metadata: map[string]string{"_user": "w2-k3"}, Step: time.Hour, Is: map[Field][]string{ByStatus: {"200"}}}, "13:00=2"},
	{"tokens", GroupQuery{Tokens: IntRange{Min: new(int64(22)), Max: new(int64(55))}}, "=3"},
	{"prompt tokens", GroupQuery{Prompt: IntRange{Min: new(int64(70))}}, "=3"},
	{"completion tokens", GroupQuery{Completion: IntRange{Max: new(int64(1))}}, "=2"},
	{"cost", GroupQuery{Cost: IntRange{Min: new(int64(200_000)), Max: new(int64(700_000))}}, "=3"},
	{"a trace", GroupQuery{TraceID: "none"}, ""},
	{"a span", GroupQuery{SpanID: "none"}, ""},
}

func TestSumsAreNarrowed(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *Store) {
		mustRecord(t, s, sampleEntries()...)
		for _, tt := range narrowings {
			t.Run(tt.name, func(t *testing.T) {
				if got := counts(mustSum(t, s, tt.q)); got != tt.want {
					t.Errorf("Sum() = %s, want %s", got, tt.want)
				}
			})
		}
	})
}

func TestFoldingChangesNoSum(t *testing.T) {
	for later, want := range map[time.Duration]string{10 * time.Hour: "0/7/0", 10 * 24 * time.Hour: "0/0/4"} {
		t.Run(later.String(), func(t *testing.T) {
			onBothKinds(t, func(t *testing.T, s *Store) { mustKeepSums(t, s, noon.Add(later), want) })
		})
	}
}

// mustKeepSums folds between batches and after them.
func mustKeepSums(t *testing.T, s *Store, now time.Time, want string) {
	t.Helper()
	for i, e := range sampleEntries() {
		mustRecord(t, s, e)
		if i == 4 || i == 8 {
			mustFold(t, s, now)
		}
	}
	mustFold(t, s, now)
	if got := rowsOf(t, s); got != want {
		t.Errorf("%s rows of batches, minutes and hours, want %s", got, want)
	}
	if diff := gocmp.Diff(byModel, figuresOf(mustSum(t, s, GroupQuery{By: ByModel, Percentiles: true}))); diff != "" {
		t.Errorf("sums by model (-want +got):\n%s", diff)
	}
	half := GroupQuery{From: noon.Add(30 * time.Minute), To: noon.Add(10 * time.Hour)}
	if got := counts(mustSum(t, s, half)); got != map[bool]string{false: "=5", true: "=10"}[now.Sub(noon) > foldMinutes] {
		t.Errorf("%s from half past on; minutes have 5, hours 10", got)
	}
	if got := counts(mustSum(t, s, GroupQuery{Step: time.Hour})); got != "12:00=6 13:00=2 15:00=2" {
		t.Errorf("%s in steps of an hour", got)
	}
}

// mustFold folds all that is due.
func mustFold(t testing.TB, s *Store, now time.Time) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = s.keeper.fold(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
}

// rowsOf counts the rows of each grain.
func rowsOf(t testing.TB, s *Store) string {
	t.Helper()
	var read *sql.DB
	switch k := s.keeper.(type) {
	case *sqliteBackend:
		read = k.read
	case *postgresBackend:
		read = k.read
	}
	var n [4]int
	for grain := range n {
		if err := read.QueryRow(`SELECT COUNT(*) FROM rollups WHERE grain = $1`, grain).Scan(&n[grain]); err != nil {
			t.Fatal(err)
		}
	}
	if n[grainDamaged] > 0 {
		return fmt.Sprintf("%d/%d/%d, %d damaged", n[0], n[1], n[2], n[3])
	}
	return fmt.Sprintf("%d/%d/%d", n[0], n[1], n[2])
}

func TestABatchThatIsStoredTwiceIsSummedOnce(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *Store) {
		w := &batchWriter{serial: 1}
		w.encode(sampleEntries())
		for range 2 {
			if err := s.keeper.keep(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			if got := counts(mustSum(t, s, GroupQuery{})); got != "=10" {
				t.Errorf("Sum() = %s, want =10", got)
			}
			mustFold(t, s, noon.Add(10*24*time.Hour))
		}
	})
}

func TestDamagedSumsAreSetAside(t *testing.T) {
	s := mustFile(t)
	mustRecord(t, s, sampleEntries()[:3]...)
	mustRecord(t, s, sampleEntries()[3:5]...)
	if _, err := s.keeper.(*sqliteBackend).write.Exec(`UPDATE rollups SET data = SUBSTR(data, 1, LENGTH(data) - 1) WHERE bucket = $1`, noon.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := counts(mustSum(t, s, GroupQuery{By: ByStatus, From: noon.Add(time.Minute), To: noon.Add(time.Hour)})); got != "200=1 429=1" {
			t.Errorf("Sum() next to damage = %s, want 200=1 429=1", got)
		}
		mustSum(t, s, GroupQuery{Percentiles: true}) // skips them
		mustFold(t, s, noon.Add(10*time.Hour))
	}
	if got := rowsOf(t, s); got != "0/1/0, 1 damaged" {
		t.Errorf("rows = %s, want one minute and one damaged", got)
	}
}

func TestModelsAreBoundedInLengthAndNumber(t *testing.T) {
	var batch []*reqlog.Entry
	for i := range 2 * maxValues {
		for range 1 + 2*maxValues/(i+1) {
			batch = append(batch, &reqlog.Entry{ID: reqlog.NewID(noon), Sender: reqlog.Sender{Organisation: "acme"}, Input: reqlog.Input{Model: fmt.Sprintf("m%04d-%0200d", i, 0)}, Result: reqlog.Result{Status: 404}})
		}
	}
	s := mustFile(t)
	mustRecord(t, s, batch...)
	mustFold(t, s, noon.Add(time.Hour))
	list := mustSum(t, s, GroupQuery{By: ByModel})
	total, other := int64(0), int64(0)
	for _, sum := range list {
		total += sum.Requests
		if sum.Value == otherValues {
			other = sum.Requests
		}
		if len(sum.Value) > maxText {
			t.Fatalf("a model of %d bytes, want at most %d", len(sum.Value), maxText)
		}
	}
	if len(list) > maxValues || len(list) < maxValues-1 || total != int64(len(batch)) || other == 0 {
		t.Errorf("%d models of %d requests, %d of them other; want %d of %d", len(list), total, other, maxValues, len(batch))
	}
	if list[0].Requests != 1+2*maxValues {
		t.Errorf("the model asked for most has %d requests, want %d", list[0].Requests, 1+2*maxValues)
	}
}

func TestNamesAreClippedBetweenCharacters(t *testing.T) {
	long := fmt.Sprintf("%0127d", 0)
	if got := clip(long + "é"); got != long {
		t.Errorf("clip(127 bytes and é) has %d bytes, want 127", len(got))
	}
}

func TestReadingTooManyEntriesIsRefused(t *testing.T) {
	s := mustFile(t)
	s.limits.entries = 10
	var batch []*reqlog.Entry
	for i := range 10 * mostPages {
		batch = append(batch, &reqlog.Entry{ID: reqlog.NewID(noon.Add(time.Duration(i) * time.Second)), Sender: reqlog.Sender{Organisation: "acme"}})
	}
	mustRecord(t, s, batch...)
	_, err := s.Groups(t.Context(), GroupQuery{Scope: Scope{Organisation: "acme"}, From: noon, To: noon.Add(time.Hour), SpanID: "x"})
	if err == nil {
		t.Fatal("Sum() of many entries by span worked, want an error")
	}
	_, err = s.Groups(t.Context(), GroupQuery{Scope: Scope{Organisation: "acme"}, From: noon, To: noon.Add(time.Minute), SpanID: "x"})
	if err != nil {
		t.Errorf("Sum() of a minute by span: %v", err)
	}
}

func FuzzStoredSums(f *testing.F) {
	for _, r := range sumUp(sampleEntries()) {
		f.Add(r.data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkSums(b) != nil {
			return
		}
		set, again := make(groupSet), make(groupSet)
		if err := set.mergeStored(b, 0); err != nil {
			t.Fatal(err)
		}
		if err := again.mergeStored(set.append(nil, 0), 0); err != nil {
			t.Fatal(err)
		}
		if len(again) != len(set) {
			t.Errorf("stored and read again: %d sums, want %d", len(again), len(set))
		}
	})
}
