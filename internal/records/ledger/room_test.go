package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

// sizedEntry is an entry that takes about n bytes without bodies.
func sizedEntry(n int) *reqlog.Entry {
	e := entry(reqlog.NewID(time.Now()))
	e.Path = strings.Repeat("x", n)
	return e
}

func TestLedgerTakesAttemptsUpToTheirShareAndNoMore(t *testing.T) {
	const share = ledger.HeadSize + ledger.IntentSize
	most := int64(share)
	for most-most/4 < share { // rows get a quarter
		most++
	}
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), OnFull: ledger.Reject, MaxSize: most})
	mustIntend(t, l, reqlog.NewID(time.Now()), 1)
	if err := l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)); !errors.Is(err, ledger.ErrFull) {
		t.Errorf("Intend beyond the share of max_size = %v, want ErrFull", err)
	}
	if got := l.Stats().Bytes; got != share {
		t.Errorf("the ledger has %d bytes, want %d", got, share)
	}
	l.Close(closed(t))
}

func TestRefusedAttemptsLeaveRoomToThoseInProgress(t *testing.T) {
	store := newMemory()
	store.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, SegmentSize: 4 << 10, MaxSize: 64 << 10, OnFull: ledger.Reject, SyncInterval: time.Millisecond})
	var running []reqlog.ID
	for range 10 {
		id := reqlog.NewID(time.Now())
		mustIntend(t, l, id, 1)
		running = append(running, id)
	}
	n := len(running)
	runWithin(t, "exchanges up to the first that is refused", func() {
		for ; ; n++ {
			id := reqlog.NewID(time.Now())
			if l.RecordIntent(t.Context(), intent(id, 1)) != nil {
				return
			}
			l.RecordSettlement(settlement(id, 1))
			l.Record(t.Context(), entry(id))
		}
	})
	runWithin(t, "the end of exchanges in a ledger that refuses attempts", func() {
		for _, id := range running {
			l.RecordSettlement(settlement(id, 1))
			l.Record(t.Context(), entry(id))
		}
	})
	store.setError(nil)
	mustClose(t, l)
	if got := len(store.ids(t)); got != n {
		t.Errorf("the store has %d rows, want %d", got, n)
	}
}

func TestRowsThatMayBeDroppedLeaveRoomToAttempts(t *testing.T) {
	const most = 64 << 10
	store := newMemory()
	store.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, OnFull: ledger.DropRows, SegmentSize: most, MaxSize: most})
	rows := 0
	for ; l.Stats().Lost == 0 && rows < 1000; rows++ {
		l.Record(t.Context(), sizedEntry(1000))
	}
	if got := l.Stats().Bytes; got > most*3/4 || got < most*3/4-2000 {
		t.Errorf("rows were dropped at %d bytes, want it at three quarters of %d", got, most)
	}
	for range most / 4 / ledger.IntentSize {
		mustIntend(t, l, reqlog.NewID(time.Now()), 1)
	}
	if st := l.Stats(); st.LostAttempts != 0 || st.Open != most/4/ledger.IntentSize {
		t.Errorf("Stats = %+v, want every attempt noted", st)
	}
	for range 10 {
		mustIntend(t, l, reqlog.NewID(time.Now()), 1) // nobody waits
	}
	if st := l.Stats(); st.LostAttempts == 0 || st.LostAttempts > 10 || st.Bytes > most {
		t.Errorf("%d of 10 attempts are lost, with %d bytes in the ledger; want some, and at most %d", st.LostAttempts, st.Bytes, most)
	}
	l.Close(closed(t))
}

// TestRowsInMemoryAreBounded records rows while the disk is full and nobody waits.
func TestRowsInMemoryAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows []int // sizes
		lost uint64
	}{
		{"many rows", []int{100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10, 100 << 10}, 2},
		{"large row behind little", []int{400 << 10, 1500 << 10}, 0},
		{"large row behind much", []int{600 << 10, 1500 << 10}, 1},
		{"row of half the memory behind a third", []int{350 << 10, 650 << 10}, 0},
		{"row of less than half behind more than half", []int{700 << 10, 400 << 10}, 1},
		{"small row behind a large one", []int{1500 << 10, 10 << 10}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			disk, store := new(ledger.Disk), newMemory()
			l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Store: store, OnFull: ledger.DropRows}))
			disk.Fill(true)
			mustIntend(t, l, reqlog.NewID(time.Now()), 1) // finds the disk full
			for _, n := range tt.rows {
				l.Record(t.Context(), sizedEntry(n))
			}
			if got := l.Stats().Lost; got != tt.lost {
				t.Errorf("rows of %v bytes: %d lost, want %d", tt.rows, got, tt.lost)
			}
			disk.Fill(false)
			mustClose(t, l)
			if got, want := len(store.ids(t)), len(tt.rows)-int(tt.lost); got != want {
				t.Errorf("the store has %d rows, want %d", got, want)
			}
		})
	}
}

func TestLongestRowIsKeptAndALongerOneIsLostAndCounted(t *testing.T) {
	store := newMemory()
	// An entry is encoded as its id and as many bytes as its request had.
	long := ledger.Codec{
		Append: func(dst []byte, e *reqlog.Entry) []byte {
			return append(append(dst, e.ID[:]...), make([]byte, int(e.RequestBytes)-len(e.ID))...)
		},
		Parse: func(b []byte) (*reqlog.Entry, error) { return &reqlog.Entry{ID: reqlog.ID(b[:16])}, nil },
	}
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, Codec: long})
	const content = ledger.MaxRow - 16 - 16 // without the head and the id of the record
	for i, n := range []int64{content, content + 1} {
		e := entry(reqlog.NewID(time.Now()))
		e.RequestBytes = n
		l.Record(t.Context(), e)
		if got := l.Stats().Lost; got != uint64(i) {
			t.Errorf("after a row with content of %d bytes %d are lost, want %d", n, got, i)
		}
	}
	mustClose(t, l)
	if got := len(store.ids(t)); got != 1 {
		t.Errorf("the store has %d rows, want the one that is not too long", got)
	}
}

func TestRowIsInTheFileWhenRecordReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, and so no group is written by time
		dir := t.TempDir()
		l := mustOpen(t, ledger.Options{Dir: dir})
		for n := 1; n <= 3; n++ {
			e := sizedEntry(1000)
			mustIntend(t, l, e.ID, 1)
			l.RecordSettlement(settlement(e.ID, 1))
			l.Record(t.Context(), e)
			if r := mustVerify(t, kill(t, dir)); r.Exchanges != n || r.Attempts != n {
				t.Errorf("Verify = %d rows and %d settlements, want %d of both", r.Exchanges, r.Attempts, n)
			}
		}
		mustClose(t, l)
	})
}

func TestRowIsAppliedWhenItIsInTheFileAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, store := new(ledger.Disk), newMemory()
		l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Store: store, OnFull: ledger.DropRows}))
		held, release := disk.Hang()
		go l.Record(t.Context(), entry(reqlog.NewID(time.Now()))) // leads a group
		<-held
		l.Record(t.Context(), entry(reqlog.NewID(time.Now()))) // behind it
		time.Sleep(time.Hour)
		if n := len(store.ids(t)); n != 0 {
			t.Errorf("the store has %d rows that are not in the file", n)
		}
		release()
		time.Sleep(time.Hour)
		if n := len(store.ids(t)); n != 2 {
			t.Errorf("the store has %d rows, want both", n)
		}
		mustClose(t, l)
	})
}

func TestBodiesWaitForAWriteUnlessNobodyWaits(t *testing.T) {
	const size = 300 << 10 // of one body
	// All rows share a compressor, which must not begin in a bubble.
	codec.Append(nil, withBodies(reqlog.NewID(time.Now()), size))
	for _, tt := range []struct {
		full    ledger.FullPolicy
		dropped uint64
	}{
		{ledger.DropBodies, 0},
		{ledger.DropRows, 1},
	} {
		t.Run(string(tt.full), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, store := new(ledger.Disk), newLibrary(size)
				l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Store: store, OnFull: tt.full}))
				held, release := disk.Hang()
				go l.Record(t.Context(), withBodies(reqlog.NewID(time.Now()), 1))
				<-held
				for range 2 { // together more than may wait to be written
					go l.Record(t.Context(), withBodies(reqlog.NewID(time.Now()), size))
				}
				synctest.Wait()
				release() // before the write counts as slow
				synctest.Wait()
				if got := l.Stats().BodiesDropped; got != tt.dropped {
					t.Errorf("bodies of %d rows were dropped, want %d", got, tt.dropped)
				}
				l.Close(closed(t))
			})
		})
	}
}

func TestAttemptThatWaitsForRoomIsRefusedWhenTheLedgerCloses(t *testing.T) {
	disk := new(ledger.Disk)
	l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), SyncInterval: time.Millisecond}))
	disk.Fill(true)
	sent := make(chan error, 1)
	go func() { sent <- l.RecordIntent(context.Background(), intent(reqlog.NewID(time.Now()), 1)) }()
	waittest.Until(t, "the failure is reported", func() bool { return l.Stats().LastError != "" })
	if err := l.Close(closed(t)); err == nil {
		t.Error("Close = nil, want an error: the intent was not written")
	}
	runWithin(t, "the attempt that waited", func() {
		if err := <-sent; !errors.Is(err, ledger.ErrFull) {
			t.Errorf("Intend = %v, want ErrFull", err)
		}
	})
}

func TestFailingAndWorkingWritesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		disk := new(ledger.Disk)
		l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), OnFull: ledger.DropRows, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		exchange(t, l)
		for range 2 {
			disk.Fill(true)
			exchange(t, l)
			time.Sleep(time.Minute)
			disk.Fill(false)
			time.Sleep(time.Minute)
		}
		exchange(t, l)
		mustClose(t, l)
		for _, line := range []string{"ledger write failed", "ledger write recovered"} {
			if n := strings.Count(log.String(), line); n != 2 {
				t.Errorf("%q was logged %d times for two failures, want 2:\n%s", line, n, &log)
			}
		}
	})
}

func TestLedgerOfFullSizeHoldsExchangesBackAndLosesNone(t *testing.T) {
	const exchanges, most = 300, 64 << 10
	store := newMemory()
	store.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, SegmentSize: 4 << 10, MaxSize: most, SyncInterval: time.Millisecond})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range exchanges { // more than there is room for
			exchange(t, l)
		}
	}()
	waittest.Until(t, "the ledger is full", func() bool { return l.Stats().Bytes > most-1000 })
	store.setError(nil)
	runWithin(t, "the exchanges that waited", func() { <-done })
	mustClose(t, l)
	if st := l.Stats(); len(store.ids(t)) != exchanges || st.Lost != 0 || st.LostAttempts != 0 {
		t.Errorf("the store has %d rows, %d rows and %d attempts are lost; want %d and none", len(store.ids(t)), st.Lost, st.LostAttempts, exchanges)
	}
}

// TestBodiesAreDroppedBeyondTheirShareOfTheLedger records a row that takes all that
// bodies may take, and one of a byte more.
func TestBodiesAreDroppedBeyondTheirShareOfTheLedger(t *testing.T) {
	const most = 64 << 10
	for full, share := range map[ledger.FullPolicy]int{ledger.DropBodies: most / 2, ledger.DropRows: most / 2} {
		for more := range 2 {
			l := mustOpen(t, ledger.Options{Dir: t.TempDir(), OnFull: full, MaxSize: most, Codec: plain(share-ledger.HeadSize-48+more, new(atomic.Int64))})
			l.Record(t.Context(), withBodies(reqlog.NewID(time.Now()), 10))
			if st := l.Stats(); st.BodiesDropped != uint64(more) || st.Rows != 1 || st.Bytes != int64(share+more) {
				t.Errorf("%s: after a row up to %d bytes, of which bodies may take %d, Stats = %+v; want %d rows without bodies", full, share+more, share, st, more)
			}
			mustClose(t, l)
		}
	}
}
