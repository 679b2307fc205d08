package ledger_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

func TestRecordedEntriesAreAppliedOnce(t *testing.T) {
	dir, store := t.TempDir(), newMemory()
	l := mustOpen(t, ledger.Options{Dir: dir, Store: store})
	const workers, each = 8, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				exchange(t, l)
			}
		})
	}
	wg.Wait()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(store.ids(t)); n != workers*each {
		t.Errorf("the store has %d rows, want %d", n, workers*each)
	}
	st := l.Stats()
	if st.Depth != 0 || !st.Oldest.IsZero() || st.Open != 0 || st.Lost != 0 || st.Rows != workers*each || st.Intents != workers*each || st.Settled != workers*each {
		t.Errorf("Stats = %+v, want all rows applied and nothing open", st)
	}
	mustClose(t, l)
	r := mustVerify(t, dir)
	if !r.OK() || r.Exchanges != workers*each || r.Attempts != workers*each || r.Input != 10*workers*each || r.Cost != 1234*workers*each {
		t.Errorf("Verify = %+v, want every exchange with its tokens and cost", r)
	}
}

// kill copies a ledger as it is, as a killed process leaves it.
func kill(t *testing.T, dir string) string {
	t.Helper()
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return left
}

func TestAKilledProcessLosesNothingThatWasNoted(t *testing.T) {
	dir, store := t.TempDir(), newMemory()
	store.setError(errAway) // no row gets further than the ledger
	l := mustOpen(t, ledger.Options{Dir: dir, Store: store})
	whole := exchange(t, l)
	rowless, cut := reqlog.NewID(time.Now()), reqlog.NewID(time.Now())
	mustIntend(t, l, rowless, 1)
	l.RecordSettlement(settlement(rowless, 1))
	mustIntend(t, l, cut, 1)
	l.RecordSettlement(reqlog.Settlement{ID: cut, Attempt: 1, Outcome: reqlog.Refused, Status: 503})
	mustIntend(t, l, cut, 2)
	left := kill(t, dir)

	if r := mustVerify(t, left); r.OK() || len(r.Unsettled) != 1 || r.Unsettled[0].ID != cut {
		t.Errorf("%d attempts without an end, want the one that was cut: Verify = %+v", len(r.Unsettled), r)
	}
	store.setError(nil)
	l2 := mustOpen(t, ledger.Options{Dir: left, Store: store})
	if err := l2.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []reqlog.ID{whole, rowless, cut} {
		if store.rows[id] != 1 {
			t.Errorf("the row of %s was applied %d times, want once", id, store.rows[id])
		}
	}
	if st := l2.Stats(); st.Estimated != 1 || st.Recovered != 2 {
		t.Errorf("the start made %d estimates and %d rows, want 1 and 2", st.Estimated, st.Recovered)
	}
	mustClose(t, l2)
	r := mustVerify(t, left)
	if !r.OK() || r.Estimated != 1 || r.Exchanges != 2 {
		t.Errorf("%d estimates and %d rows are left, want 1 and the 2 that were made: Verify = %+v", r.Estimated, r.Exchanges, r)
	}
	l3 := mustOpen(t, ledger.Options{Dir: left, Store: store})
	mustClose(t, l3)
	if st := l3.Stats(); st.Estimated != 0 || st.Recovered != 0 {
		t.Errorf("a further start found %+v, want nothing left to do", st)
	}
	store.ids(t)
	mustClose(t, l)
}

func TestRowsThatWereAppliedBeforeAKillAreLookedFor(t *testing.T) {
	dir, store := t.TempDir(), newMemory()
	l := mustOpen(t, ledger.Options{Dir: dir, Store: store})
	for range 20 {
		exchange(t, l)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := kill(t, dir) // applied, and most likely not marked as such
	again := mustOpen(t, ledger.Options{Dir: left, Store: store, ReplayAll: true})
	mustClose(t, again)
	if got := len(store.ids(t)); got != 20 || store.looked != 20 {
		t.Errorf("the store has %d rows and was asked for %d, want 20 of both", got, store.looked)
	}
	mustClose(t, l)
}

func TestRowsThatWereAppliedLongBeforeAKillAreNotLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, store := t.TempDir(), newMemory()
		l := mustOpen(t, ledger.Options{Dir: dir, Store: store})
		for range 20 {
			exchange(t, l)
		}
		time.Sleep(10 * time.Second) // and nothing else is noted
		left := kill(t, dir)
		mustClose(t, l)
		mustClose(t, mustOpen(t, ledger.Options{Dir: left, Store: store}))
		if got := len(store.ids(t)); got != 20 || store.looked != 0 {
			t.Errorf("the store has %d rows and was asked for %d, want 20 and none: they are marked as applied", got, store.looked)
		}
	})
}

func TestAnInterruptedExchangeSaysThatItIsAnEstimate(t *testing.T) {
	id := reqlog.NewID(time.Now())
	first, second := intent(id, 1), intent(id, 2)
	second.Provider = "anthropic"
	failed := reqlog.Settlement{ID: id, Attempt: 1, Time: first.Time.Add(time.Second), Outcome: reqlog.Refused, Status: 500}
	guess := reqlog.Settlement{ID: id, Attempt: 2, Outcome: reqlog.Estimated}
	guess.Usage = llm.Usage{Input: 1000, Known: true, Estimated: true}
	list := ledger.Entries([]ledger.Record{{Intent: &first}, {Settle: &failed}, {Intent: &second}, {Settle: &guess}})
	if len(list) != 1 {
		t.Fatalf("got %d entries, want one", len(list))
	}
	e := list[0]
	if e.Usage != guess.Usage || e.Priced || e.ErrorCode != ledger.CodeInterrupted || e.Provider != "anthropic" || e.KeyID != "key" || len(e.Attempts) != 2 {
		t.Errorf("usage %+v, priced %t, code %s, %d attempts; want the estimate, no cost, %s and both: entry = %+v", e.Usage, e.Priced, e.ErrorCode, len(e.Attempts), ledger.CodeInterrupted, e)
	}
	if len(e.Decisions) != 1 || !strings.Contains(e.Decisions[0].Text, "about 1000 tokens") {
		t.Errorf("decisions = %v, want the estimate", e.Decisions)
	}
}

func TestAnExchangeWithoutARowCostsWhatItsAttemptsDo(t *testing.T) {
	id := reqlog.NewID(time.Now())
	first, second := intent(id, 1), intent(id, 2)
	broken := reqlog.Settlement{ID: id, Attempt: 1, Outcome: reqlog.Answered, Status: 200, Cost: 70, Priced: true, Price: "a"}
	whole := reqlog.Settlement{ID: id, Attempt: 2, Outcome: reqlog.Answered, Status: 200, Cost: 30, Priced: true, Price: "b"}
	all := []ledger.Record{{Intent: &first}, {Settle: &broken}, {Intent: &second}, {Settle: &whole}}
	if e := ledger.Entries(all)[0]; e.Cost != 100 || e.Price != "b" || !e.Priced {
		t.Errorf("the entry costs %d, %t by %q, want 100 by b", e.Cost, e.Priced, e.Price)
	}
	whole.Outcome, whole.Cost, whole.Priced = reqlog.Estimated, 0, false
	if e := ledger.Entries(all)[0]; e.Cost != 0 || e.Priced {
		t.Errorf("the entry costs %d, %t, want an unknown cost: the second attempt's is", e.Cost, e.Priced)
	}
}

func TestRowsWaitInTheSegmentsWhileTheStoreIsAway(t *testing.T) {
	dir, store := t.TempDir(), newMemory()
	store.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: dir, Store: store, MaxQueued: 10, SegmentSize: 8 << 10, SyncInterval: time.Millisecond})
	want := map[reqlog.ID]bool{}
	for range 300 {
		want[exchange(t, l)] = true
	}
	if st := l.Stats(); st.Depth != 300 || st.Oldest.IsZero() {
		t.Errorf("Stats = %+v, want 300 rows waiting", st)
	}
	store.setError(nil)
	for range 100 { // rows go on coming while it catches up
		want[exchange(t, l)] = true
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := store.ids(t); len(got) != len(want) {
		t.Errorf("the store has %d rows, want %d", len(got), len(want))
	}
	if st := l.Stats(); st.Depth != 0 || !st.Oldest.IsZero() || st.Lost != 0 {
		t.Errorf("Stats = %+v, want no row waiting and none lost", st)
	}
	mustClose(t, l)
}

func TestRowsOfABatchThatFailsHalfWayAreAppliedOnce(t *testing.T) {
	store := newMemory()
	store.breaks = 7
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, SyncInterval: time.Hour})
	for range 20 {
		exchange(t, l)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(store.ids(t)); n != 20 {
		t.Errorf("the store has %d rows, want 20", n)
	}
	mustClose(t, l)
}

func TestSegmentsGoWhenAllInThemIsSettledAndApplied(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, ledger.Options{Dir: dir, SegmentSize: 16 << 10, SyncInterval: time.Millisecond})
	long := reqlog.NewID(time.Now())
	mustIntend(t, l, long, 1) // goes on all the time
	for i := range 2000 {
		exchange(t, l)
		if i%100 == 0 {
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	waittest.Until(t, "many segments were begun", func() bool {
		exchange(t, l)
		names := segments(t, dir)
		return filepath.Base(names[len(names)-1]) >= "00000008.seg"
	})
	waittest.Until(t, "few segments are left", func() bool { exchange(t, l); return l.Stats().Segments <= 3 })
	// While segments still go, one may be gone before it is read.
	waittest.Until(t, "the attempt that goes on is all that is open", func() bool {
		r := mustVerify(t, dir)
		return r.Running == 1 && r.OK()
	})
	l.RecordSettlement(settlement(long, 1))
	mustClose(t, l)
	if r := mustVerify(t, dir); !r.OK() || r.Running != 0 {
		t.Errorf("Verify = %+v, want all settled", r)
	}
}

func TestTwoProcessesShareAFolder(t *testing.T) {
	dir, store := t.TempDir(), newMemory()
	a := mustOpen(t, ledger.Options{Dir: dir, Store: store})
	running := reqlog.NewID(time.Now())
	mustIntend(t, a, running, 1)
	b := mustOpen(t, ledger.Options{Dir: dir, Store: store})
	if st := b.Stats(); st.Estimated != 0 {
		t.Errorf("the second process settled %d attempts of the first, want none", st.Estimated)
	}
	if st := b.Stats(); st.Quarantined != 0 {
		t.Errorf("the second process set %d segments of the first aside, want none", st.Quarantined)
	}
	exchange(t, b)
	a.RecordSettlement(settlement(running, 1))
	a.Record(t.Context(), entry(running))
	mustClose(t, a)
	mustClose(t, b)
	if n := len(store.ids(t)); n != 2 {
		t.Errorf("the store has %d rows, want 2", n)
	}
}

func TestOneOfTwoProcessesTakesOverASegment(t *testing.T) {
	dir, store := t.TempDir(), newMemory()
	killed := mustOpen(t, ledger.Options{Dir: dir})
	id := reqlog.NewID(time.Now())
	mustIntend(t, killed, id, 1)
	left := kill(t, dir)
	mustClose(t, killed)
	a := mustOpen(t, ledger.Options{Dir: left, Store: store})
	b := mustOpen(t, ledger.Options{Dir: left, Store: store})
	if a, b := a.Stats(), b.Stats(); a.Estimated != 1 || b.Estimated != 0 || b.Recovered != 0 {
		t.Errorf("two starts made %d and %d estimates and %d and %d rows, want all of them from the first", a.Estimated, b.Estimated, a.Recovered, b.Recovered)
	}
	mustClose(t, a)
	mustClose(t, b)
	if n := store.rows[id]; n != 1 {
		t.Errorf("the row of the attempt was applied %d times, want once", n)
	}
}

func TestASettlementCountsOnce(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, ledger.Options{Dir: dir})
	id := reqlog.NewID(time.Now())
	mustIntend(t, l, id, 1)
	l.RecordSettlement(settlement(id, 1))
	l.RecordSettlement(settlement(id, 1))
	l.RecordSettlement(settlement(id, 2)) // was never noted
	mustClose(t, l)
	if r := mustVerify(t, dir); r.Attempts != 1 || r.Segments[0].Settled != 1 {
		t.Errorf("Verify = %+v, want one settlement", r)
	}
}

func TestAClosedLedgerRefusesAttempts(t *testing.T) {
	l := mustOpen(t, ledger.Options{Dir: t.TempDir()})
	mustClose(t, l)
	if err := l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("Intend = %v, want ErrFull", err)
	}
	l.Record(context.Background(), entry(reqlog.NewID(time.Now())))
	if st := l.Stats(); st.Lost != 1 {
		t.Errorf("Stats = %+v, want one lost row", st)
	}
}

func TestAFolderThatCannotBeMadeIsReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ledger.Open(t.Context(), ledger.Options{Dir: filepath.Join(file, "ledger"), Codec: codec, Store: newMemory()})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("Open = %v, want one line", err)
	}
}
