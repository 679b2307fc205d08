package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
)

// mustWriteSegments writes segments as a process that was killed leaves them, and returns
// their folder.
func mustWriteSegments(t *testing.T, contents ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	for i, b := range contents {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%08d.seg", i+1)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// noteIntent, noteSettle and noteRow are records of an attempt and a row.
func noteIntent(id reqlog.ID, n uint16) ledger.Record {
	i := intent(id, n)
	return ledger.Record{Intent: &i}
}

func settleRecord(id reqlog.ID, n uint16) ledger.Record {
	s := settlement(id, n)
	return ledger.Record{Settle: &s}
}

func noteRow(id reqlog.ID) ledger.Record {
	return ledger.Record{Exchange: id, Row: codec.Append(nil, entry(id))}
}

func TestInterruptedExchangeHasTheFiguresOfItsAttempts(t *testing.T) {
	id := reqlog.NewID(time.Now())
	began := id.Time()
	const unknown = "the gateway ended before the attempt did"
	type attempt struct {
		begin, end time.Duration // since the exchange
		bytes      int64         // of the request
		outcome    reqlog.Outcome
		status     int
		usage      llm.Usage
	}
	figures := llm.Usage{Input: 10, Output: 5, Known: true}
	guess := llm.Usage{Input: 7, Known: true, Estimated: true}
	for _, tt := range []struct {
		name string
		list []attempt
		want reqlog.Entry
	}{
		{
			"refused, then answered",
			[]attempt{{10 * time.Millisecond, time.Second, 4000, reqlog.Refused, 500, llm.Usage{}}, {2 * time.Second, 5 * time.Second, 3000, reqlog.Answered, 200, figures}},
			reqlog.Entry{Result: reqlog.Result{Status: 200, Usage: figures}, Durations: reqlog.Durations{Total: 5 * time.Second}, Input: reqlog.Input{RequestBytes: 4000}, Steps: reqlog.Steps{Attempts: []reqlog.Attempt{
				{Status: 500, Start: 10 * time.Millisecond, Took: 990 * time.Millisecond}, {Status: 200, Start: 2 * time.Second, Took: 3 * time.Second},
			}}},
		},
		{
			"refused, then without an end",
			[]attempt{{0, time.Second, 4000, reqlog.Refused, 500, llm.Usage{}}, {2 * time.Second, 5 * time.Second, 28, reqlog.Estimated, 0, guess}},
			reqlog.Entry{Result: reqlog.Result{Status: 500, Usage: guess}, Durations: reqlog.Durations{Total: time.Second}, Input: reqlog.Input{RequestBytes: 4000}, Steps: reqlog.Steps{Attempts: []reqlog.Attempt{
				{Status: 500, Took: time.Second}, {Start: 2 * time.Second, Error: unknown},
			}, Decisions: []reqlog.Decision{{Text: "attempt 2 is an estimate: its end is unknown; by its size the request had about 7 tokens"}}}},
		},
		{
			"answered next to one without an end",
			[]attempt{{0, time.Second, 4, reqlog.Answered, 200, figures}, {time.Second, time.Second, 28, reqlog.Estimated, 0, guess}},
			reqlog.Entry{Result: reqlog.Result{Status: 200, Usage: figures}, Durations: reqlog.Durations{Total: time.Second}, Input: reqlog.Input{RequestBytes: 4}, Steps: reqlog.Steps{Attempts: []reqlog.Attempt{
				{Status: 200, Took: time.Second}, {Start: time.Second, Error: unknown},
			}, Decisions: []reqlog.Decision{{Text: "attempt 2 is an estimate: its end is unknown; by its size the request had about 7 tokens"}}}},
		},
		{
			"without an end, of unknown size",
			[]attempt{{0, time.Second, -1, reqlog.Estimated, 0, llm.Usage{}}},
			reqlog.Entry{Result: reqlog.Result{Status: 503}, Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Error: unknown}}, Decisions: []reqlog.Decision{{Text: "attempt 1 is an estimate: its end is unknown"}}}},
		},
		{
			"without a response",
			[]attempt{{0, time.Second, 1, reqlog.Failed, 0, llm.Usage{}}},
			reqlog.Entry{Result: reqlog.Result{Status: 503}, Durations: reqlog.Durations{Total: time.Second}, Input: reqlog.Input{RequestBytes: 1}, Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Took: time.Second}}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []ledger.Record
			for n, a := range tt.list {
				i, s := intent(id, uint16(n+1)), settlement(id, uint16(n+1))
				i.Time, i.RequestBytes = began.Add(a.begin), a.bytes
				s.Time, s.Outcome, s.Status, s.Usage, s.Priced = began.Add(a.end), a.outcome, a.status, a.usage, false
				list = append(list, ledger.Record{Intent: &i}, ledger.Record{Settle: &s})
			}
			got := ledger.Entries(list)
			if len(got) != 1 {
				t.Fatalf("Entries = %d rows, want one", len(got))
			}
			e := got[0]
			have := reqlog.Entry{Result: reqlog.Result{Status: e.Status, Usage: e.Usage}, Durations: reqlog.Durations{Total: e.Total}, Input: reqlog.Input{RequestBytes: e.RequestBytes}, Steps: reqlog.Steps{Attempts: e.Attempts, Decisions: e.Decisions}}
			for i := range tt.want.Attempts {
				tt.want.Attempts[i].Provider, tt.want.Attempts[i].Slug = "openai", "main"
			}
			if diff := cmp.Diff(tt.want, have); diff != "" {
				t.Errorf("Entries of %+v: (-want +got)\n%s", tt.list, diff)
			}
		})
	}
}

// TestInterruptedExchangeHasItsAttemptsInTheirOrder makes rows of exchanges with many
// attempts, which are held in no order.
func TestInterruptedExchangeHasItsAttemptsInTheirOrder(t *testing.T) {
	var want []string
	for n := range 12 {
		want = append(want, fmt.Sprint("slug-", n+1))
	}
	for range 20 {
		var list []ledger.Record
		ids := []reqlog.ID{reqlog.NewID(time.Now()), reqlog.NewID(time.Now())}
		slices.SortFunc(ids, func(a, b reqlog.ID) int { return slices.Compare(a[:], b[:]) })
		for n, slug := range want {
			for _, id := range ids {
				i, s := noteIntent(id, uint16(n+1)), settleRecord(id, uint16(n+1))
				i.Intent.Slug, s.Settle.Price = slug, slug
				list = append(list, i, s)
			}
		}
		rows := ledger.Entries(list)
		if len(rows) != len(ids) {
			t.Fatalf("Entries = %d rows, want %d", len(rows), len(ids))
		}
		for i, e := range rows {
			var got []string
			for _, a := range e.Attempts {
				got = append(got, a.Slug)
			}
			if last := want[len(want)-1]; e.ID != ids[i] || !slices.Equal(got, want) || e.Slug != last || e.Price != last {
				t.Fatalf("row %d is of %s with attempts %q, the last by %s and %s; want %s with %q", i, e.ID, got, e.Slug, e.Price, ids[i], want)
			}
		}
	}
}

// TestStartEstimatesAttemptsWithoutAnEnd starts with requests of several sizes: a
// token stands for 3 bytes.
func TestStartEstimatesAttemptsWithoutAnEnd(t *testing.T) {
	want := map[int64]int64{-1: 0, 0: 0, 1: 1, 3: 1, 4: 2, 6: 2, 3000: 1000, 3001: 1001}
	sizes := map[reqlog.ID]int64{}
	var list []ledger.Record
	for size := range want {
		id := reqlog.NewID(time.Now())
		sizes[id] = size
		r := noteIntent(id, 1)
		r.Intent.RequestBytes = size
		list = append(list, r)
	}
	dir, store := mustWriteSegments(t, ledger.Segment(list)), newMemory()
	l := mustOpen(t, ledger.Options{Dir: dir, Store: store, KeepSegments: true})
	mustClose(t, l)
	settled := 0
	err := ledger.Each(dir, func(r ledger.Record) {
		if r.Settle == nil {
			return
		}
		settled++
		size := sizes[r.Settle.ID]
		usage := llm.Usage{}
		if size > 0 {
			usage = llm.Usage{Known: true, Estimated: true, Input: want[size]}
		}
		if s := r.Settle; s.Outcome != reqlog.Estimated || s.Usage != usage || s.Priced {
			t.Errorf("a request of %d bytes is settled as %+v, want an estimate with usage %+v and no cost", size, *s, usage)
		}
	})
	if err != nil || settled != len(want) {
		t.Errorf("%d attempts are settled, %v; want %d", settled, err, len(want))
	}
	if got := len(store.ids(t)); got != len(want) {
		t.Errorf("the store has %d rows, want %d", got, len(want))
	}
}

// TestStartMakesRowsOfExchangesWithoutOneAlone starts with exchanges that ended at
// each step, in one segment and in two.
func TestStartMakesRowsOfExchangesWithoutOneAlone(t *testing.T) {
	now := time.Now()
	complete, settled, open, late, three := reqlog.NewID(now), reqlog.NewID(now), reqlog.NewID(now), reqlog.NewID(now), reqlog.NewID(now)
	list := []ledger.Record{
		noteIntent(complete, 1), settleRecord(complete, 1), noteRow(complete),
		noteIntent(settled, 1), noteIntent(settled, 2), settleRecord(settled, 1), settleRecord(settled, 2),
		noteIntent(open, 1),
		// An attempt whose settlement is missing, although the row was written.
		noteIntent(late, 1), noteIntent(late, 2), settleRecord(late, 2), noteRow(late),
		noteIntent(three, 1), settleRecord(three, 1), noteIntent(three, 2), settleRecord(three, 2), noteIntent(three, 3), settleRecord(three, 3), noteRow(three),
	}
	for cut := range len(list) + 1 {
		dir, store := mustWriteSegments(t, ledger.Segment(list[:cut]), ledger.Segment(list[cut:])), newMemory()
		l := mustOpen(t, ledger.Options{Dir: dir, Store: store, KeepSegments: true})
		if st := l.Stats(); st.Estimated != 2 || st.Recovered != 2 || st.Quarantined != 0 {
			t.Errorf("cut at %d: %d estimates, %d rows made and %d segments put aside; want 2, 2 and none", cut, st.Estimated, st.Recovered, st.Quarantined)
		}
		mustClose(t, l)
		want := []reqlog.ID{complete, settled, open, late, three}
		slices.SortFunc(want, func(a, b reqlog.ID) int { return slices.Compare(a[:], b[:]) })
		if got := store.ids(t); !slices.Equal(got, want) {
			t.Errorf("cut at %d: the store has %v, want %v", cut, got, want)
		}
		var estimated []string
		if err := ledger.Each(dir, func(r ledger.Record) {
			if r.Settle != nil && r.Settle.Outcome == reqlog.Estimated {
				estimated = append(estimated, fmt.Sprint(r.Settle.ID, r.Settle.Attempt))
			}
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(estimated)
		wanted := []string{fmt.Sprint(open, 1), fmt.Sprint(late, 1)}
		slices.Sort(wanted)
		if !slices.Equal(estimated, wanted) {
			t.Errorf("cut at %d: estimates of %q, want %q", cut, estimated, wanted)
		}
		if r := mustVerify(t, dir); !r.OK() || r.Exchanges != 5 || r.Attempts != 9 || r.Estimated != 2 {
			t.Errorf("cut at %d: Verify = %+v, want 5 rows and 9 attempts, 2 of them estimates", cut, r)
		}
	}
}

// TestStartAppliesRowsBehindTheMark starts with a segment that was applied up to
// the end of each record.
func TestStartAppliesRowsBehindTheMark(t *testing.T) {
	var list []ledger.Record
	for range 4 {
		id := reqlog.NewID(time.Now())
		list = append(list, noteIntent(id, 1), settleRecord(id, 1), noteRow(id))
	}
	for applied := range len(list) + 1 {
		rows := 0 // behind the mark
		for _, r := range list[applied:] {
			if r.Row != nil {
				rows++
			}
		}
		b := ledger.Mark(ledger.Segment(list), len(ledger.Segment(list[:applied])))
		dir, store := mustWriteSegments(t, b), newMemory()
		store.setError(errAway)
		if r := mustVerify(t, dir); r.Segments[0].Waiting != rows || r.Segments[0].Rows != 4 {
			t.Errorf("marked after %d records: Verify = %+v, want %d rows waiting of 4", applied, r.Segments[0], rows)
		}
		l := mustOpen(t, ledger.Options{Dir: dir, Store: store})
		if st := l.Stats(); st.Depth != rows || st.Oldest.IsZero() != (rows == 0) {
			t.Errorf("marked after %d records: Stats = %d rows, the oldest of %v; want %d", applied, st.Depth, st.Oldest, rows)
		}
		store.setError(nil)
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustClose(t, l)
		if st := l.Stats(); st.Depth != 0 || !st.Oldest.IsZero() {
			t.Errorf("marked after %d records: at the end Stats = %d rows, the oldest of %v; want none", applied, st.Depth, st.Oldest)
		}
		if got := len(store.ids(t)); got != rows || store.looked != rows {
			t.Errorf("marked after %d records: %d rows were applied and %d looked for, want %d", applied, got, store.looked, rows)
		}
	}
}

// TestRecordsAreReadWhereverTheyStand reads segments whose records end around the
// 256 KB that are read at a time, and rows that are longer.
func TestRecordsAreReadWhereverTheyStand(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	row := func(n int) ledger.Record {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return ledger.Record{Exchange: reqlog.NewID(time.Now()), Row: b}
	}
	const ahead = 256 << 10
	for _, d := range []int{-33, -32, -31, -17, -16, -15, -1, 0, 1, 15, 16, 17} {
		id := reqlog.NewID(time.Now())
		list := []ledger.Record{row(ahead - 32 + d), noteIntent(id, 1), settleRecord(id, 1), row(0), row(ahead), noteIntent(id, 2), row(3 * ahead), noteIntent(id, 3)}
		b := ledger.Segment(list)
		got, damaged, err := ledger.Records(b)
		if err != nil || damaged != 0 || !slices.Equal(markEstimated(got), markEstimated(list)) {
			t.Errorf("after a row that ends at %d: %d records, %d damaged places, %v; want all %d", ahead+d, len(got), damaged, err, len(list))
		}
		// The same behind a row that is damaged.
		b[ledger.HeadSize+20] ^= 1
		got, damaged, err = ledger.Records(b)
		if err != nil || damaged != 1 || !slices.Equal(markEstimated(got), markEstimated(list[1:])) {
			t.Errorf("after a damaged row that ends at %d: %d records, %d damaged places, %v; want all but one of %d", ahead+d, len(got), damaged, err, len(list))
		}
	}
}

func TestLongestRowIsReadFromASegment(t *testing.T) {
	t.Parallel()
	id := reqlog.NewID(time.Now())
	list := []ledger.Record{noteIntent(id, 1), {Exchange: id, Row: []byte(strings.Repeat("x", ledger.MaxRow-32))}, settleRecord(id, 1)}
	got, damaged, err := ledger.Records(ledger.Segment(list))
	if err != nil || damaged != 0 || !slices.Equal(markEstimated(got), markEstimated(list)) {
		t.Errorf("Records = %d records, %d damaged places, %v; want 3 with a row of %d bytes", len(got), damaged, err, ledger.MaxRow)
	}
}

// TestSegmentsAreReadInTheOrderOfTheirNumbers starts with numbers of eight digits
// and of nine: the names are in another order.
func TestSegmentsAreReadInTheOrderOfTheirNumbers(t *testing.T) {
	id := reqlog.NewID(time.Now())
	dir, store := t.TempDir(), newMemory()
	for name, list := range map[string][]ledger.Record{
		"99999998.seg":  {noteIntent(id, 1)},
		"99999999.seg":  {settleRecord(id, 1)},
		"100000000.seg": {noteRow(id)},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), ledger.Segment(list), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var kinds []string
	if err := ledger.Each(dir, func(r ledger.Record) { kinds = append(kinds, strings.Fields(recordLine(r))[0]) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"intent", "settle", "row"}; !slices.Equal(kinds, want) {
		t.Errorf("Each = %q, want %q", kinds, want)
	}
	l := mustOpen(t, ledger.Options{Dir: dir, Store: store, KeepSegments: true})
	if st := l.Stats(); st.Recovered != 0 || st.Estimated != 0 {
		t.Errorf("a start made %d rows and %d estimates, want none: the exchange is complete", st.Recovered, st.Estimated)
	}
	mustClose(t, l)
	if _, err := os.Stat(filepath.Join(dir, "100000001.seg")); err != nil {
		t.Errorf("the segment of the process: %v, want the number after the last", err)
	}
}

// TestTextsOfARecordAreKeptUpToTheirLimit reads texts back that fit into the fixed part of a
// record, that are one byte too long for it, and that reach their limit.
func TestTextsOfARecordAreKeptUpToTheirLimit(t *testing.T) {
	const room = ledger.IntentSize - 48 - 6 // for texts, without their lengths
	text := func(n int) string { return strings.Repeat("x", n) }
	read := func(r ledger.Record) ledger.Record {
		t.Helper()
		id := reqlog.NewID(time.Now())
		list := []ledger.Record{r, noteIntent(id, 1)}
		got, damaged, err := ledger.Records(ledger.Segment(list))
		if err != nil || damaged != 0 || len(got) != 2 || recordLine(got[1]) != recordLine(list[1]) {
			t.Fatalf("Records of %s = %d records, %d damaged places, %v; want 2", recordLine(r), len(got), damaged, err)
		}
		return got[0]
	}
	for _, n := range []int{0, 1, room - 15, room - 14, room - 13, 255, 256, 300, 1023, 1024, 1025, 5000} { // with 15 bytes of others
		for _, counters := range [][]string{nil, {"one", "another"}} {
			base := reqlog.Intent{ID: reqlog.NewID(time.Now()), Attempt: 1, Time: time.UnixMicro(7).UTC(), Organisation: "org", Workspace: "ws", KeyID: "key", Provider: "abcd", Slug: "sl", Model: "model", Counters: counters}
			for at, field := range []func(*reqlog.Intent) *string{
				func(i *reqlog.Intent) *string { return &i.Organisation }, func(i *reqlog.Intent) *string { return &i.Workspace },
				func(i *reqlog.Intent) *string { return &i.KeyID }, func(i *reqlog.Intent) *string { return &i.Provider },
				func(i *reqlog.Intent) *string { return &i.Slug }, func(i *reqlog.Intent) *string { return &i.Model },
			} {
				i, want := base, base
				*field(&i), *field(&want) = text(n), text(min(n, 1024))
				if got := *read(ledger.Record{Intent: &i}).Intent; !reflect.DeepEqual(got, want) {
					t.Errorf("string %d of %d bytes: the intent is read as %+v, want %+v", at, n, got, want)
				}
			}
			all := base
			all.Organisation, all.Workspace, all.KeyID, all.Provider, all.Slug, all.Model = text(min(n, 1024)), text(min(n, 1000)), text(min(n, 700)), text(min(n, 90)), "s", text(min(n, 500))
			if got := *read(ledger.Record{Intent: &all}).Intent; !reflect.DeepEqual(got, all) {
				t.Errorf("strings of up to %d bytes: the intent is read as %+v, want %+v", n, got, all)
			}
		}
	}
	const price = 192 - 16 - 104 - 1
	for _, n := range []int{0, 1, price - 1, price, price + 1, 300} {
		r := settleRecord(reqlog.NewID(time.Now()), 1)
		r.Settle.Price = text(n)
		want := *r.Settle
		want.Price = text(min(n, price))
		if got := recordLine(read(r)); got != recordLine(ledger.Record{Settle: &want}) {
			t.Errorf("a price of %d bytes is read as %s, want %+v", n, got, want)
		}
	}
}

// TestStartThatCannotNoteWhatItFindsFails starts on a disk that takes the head of a
// segment and no more.
func TestStartThatCannotNoteWhatItFindsFails(t *testing.T) {
	for name, fail := range map[string]func(*ledger.Disk){
		"no write":  func(d *ledger.Disk) { d.Fill(true) },
		"no sync":   func(d *ledger.Disk) { d.Deafen(true) },
		"one write": func(d *ledger.Disk) { d.FillAfter(1) },
		"one sync":  func(d *ledger.Disk) { d.DeafenAfter(1) },
	} {
		id := reqlog.NewID(time.Now())
		dir, disk, store := mustWriteSegments(t, ledger.Segment([]ledger.Record{noteIntent(id, 1)})), new(ledger.Disk), newMemory()
		fail(disk)
		l, err := ledger.Open(t.Context(), disk.On(ledger.Options{Dir: dir, Store: store, Codec: codec}))
		if err == nil {
			t.Errorf("Open on a disk that takes %s = nil, want an error", name)
			disk.Fill(false)
			disk.Deafen(false)
			mustClose(t, l)
		}
		// What it left is for the next start.
		again := mustOpen(t, ledger.Options{Dir: dir, Store: store})
		mustClose(t, again)
		if got := store.ids(t); len(got) != 1 || got[0] != id {
			t.Errorf("after a start on a disk that takes %s and another the store has %v, want %s", name, got, id)
		}
	}
}

func TestStartNeedsALedgerThatCanBeWrittenTo(t *testing.T) {
	for name, fail := range map[string]func(*ledger.Disk){
		"writes": func(d *ledger.Disk) { d.Fill(true) },
		"syncs":  func(d *ledger.Disk) { d.Deafen(true) },
	} {
		disk, dir := new(ledger.Disk), t.TempDir()
		fail(disk)
		l, err := ledger.Open(t.Context(), disk.On(ledger.Options{Dir: dir, Store: newMemory(), Codec: codec}))
		if err == nil {
			t.Errorf("Open = nil while %s fail, want an error", name)
			l.Close(closed(t))
		}
		if names := segments(t, dir); len(names) != 0 {
			t.Errorf("a start while %s fail leaves %v, want nothing", name, names)
		}
	}
}

// TestTwoProcessesTakeTurnsInTheNumbersOfSegments has two processes begin segments in
// one folder.
func TestTwoProcessesTakeTurnsInTheNumbersOfSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := ledger.Options{Dir: dir, SegmentSize: 2 << 10, KeepSegments: true}
		a, b := mustOpen(t, o), mustOpen(t, o)
		for range 20 {
			exchange(t, a)
			exchange(t, b)
			time.Sleep(time.Second)
		}
		mustClose(t, a)
		mustClose(t, b)
		if r := mustVerify(t, dir); !r.OK() || r.Exchanges != 40 || r.Attempts != 40 {
			t.Errorf("Verify = %+v, want 40 exchanges", r)
		}
		names := segments(t, dir)
		if last := fmt.Sprintf("%08d.seg", len(names)+2); len(names) < 6 || filepath.Base(names[0]) != "00000001.seg" || filepath.Base(names[len(names)-1]) > last {
			t.Errorf("segments = %v, want some from 00000001 on without gaps, except for those that were made ahead", names)
		}
	})
}
