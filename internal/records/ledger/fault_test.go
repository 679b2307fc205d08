package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

func TestAFullDiskHoldsAttemptsBackUntilThereIsRoom(t *testing.T) {
	disk, store, dir := new(ledger.Disk), newMemory(), t.TempDir()
	l := mustOpen(t, disk.On(ledger.Options{Dir: dir, Store: store, SyncInterval: time.Millisecond}))
	before := exchange(t, l)
	disk.Fill(true)
	done := make(chan reqlog.ID)
	go func() { done <- exchange(t, l) }()
	waittest.Until(t, "the failure is reported", func() bool { return l.Stats().LastError != "" })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.RecordIntent(ctx, intent(reqlog.NewID(time.Now()), 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Intend = %v, want it to wait as long as its context lasts", err)
	}
	disk.Fill(false)
	var after reqlog.ID
	runWithin(t, "the exchange that waited for room", func() { after = <-done })
	waittest.Until(t, "writing works again", func() bool { return l.Stats().LastError == "" })
	mustClose(t, l)
	if store.rows[before] != 1 || store.rows[after] != 1 || l.Stats().Lost != 0 {
		t.Errorf("rows = %v, %+v; want both exchanges and nothing lost", store.rows, l.Stats())
	}
	if r := mustVerify(t, dir); !r.OK() {
		t.Errorf("Verify = %+v, want the attempt that was abandoned settled too", r)
	}
}

func TestAFullDiskRefusesAttemptsWhereThatIsAskedFor(t *testing.T) {
	disk := new(ledger.Disk)
	l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), OnFull: ledger.Reject, SyncInterval: time.Millisecond}))
	running := reqlog.NewID(time.Now())
	mustIntend(t, l, running, 1)
	disk.Fill(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		if err := l.RecordIntent(ctx, intent(reqlog.NewID(time.Now()), 1)); !errors.Is(err, ledger.ErrFull) {
			t.Fatalf("Intend = %v, want ErrFull", err)
		}
	}
	runWithin(t, "the end of an attempt, while the disk is full", func() {
		l.RecordSettlement(settlement(running, 1))
		l.Record(t.Context(), entry(running))
	})
	disk.Fill(false)
	waittest.Until(t, "writing works again", func() bool { return l.Stats().LastError == "" })
	mustIntend(t, l, reqlog.NewID(time.Now()), 1)
	if st := l.Stats(); st.Lost != 0 || st.LostAttempts != 0 {
		t.Errorf("Stats = %+v, want nothing lost", st)
	}
	mustClose(t, l)
}

func TestNobodyWaitsWhereRowsMayBeDropped(t *testing.T) {
	disk, store := new(ledger.Disk), newMemory()
	l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Store: store, OnFull: ledger.DropRows}))
	disk.Fill(true)
	big := entry(reqlog.NewID(time.Now()))
	big.Path = strings.Repeat("x", 100<<10)
	runWithin(t, "more exchanges than may wait, while the disk is full", func() {
		for range 20 {
			e := *big
			e.ID = reqlog.NewID(time.Now())
			mustIntend(t, l, e.ID, 1)
			l.RecordSettlement(settlement(e.ID, 1))
			l.Record(t.Context(), &e)
		}
	})
	st := l.Stats()
	if st.Lost == 0 || st.Lost == 20 {
		t.Errorf("Stats = %+v, want some rows lost and counted, and some waiting", st)
	}
	disk.Fill(false)
	mustClose(t, l)
	if got := len(store.ids(t)); got != 20-int(st.Lost) {
		t.Errorf("the store has %d rows, want the %d that were not lost", got, 20-int(st.Lost))
	}
}

func TestAHungDiskHoldsNobodyWhereRowsMayBeDropped(t *testing.T) {
	disk := new(ledger.Disk)
	l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), OnFull: ledger.DropRows}))
	held, release := disk.Hang()
	stuck := make(chan struct{})
	go func() { exchange(t, l); close(stuck) }() // it leads the group
	<-held
	runWithin(t, "an exchange during a write that hangs", func() { exchange(t, l) })
	release()
	<-stuck
	mustClose(t, l)
}

func TestALedgerThatIsFullTakesRowsAgainWhenTheStoreIsBack(t *testing.T) {
	store := newMemory()
	store.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, SegmentSize: 4 << 10, MaxSize: 64 << 10, OnFull: ledger.Reject, SyncInterval: time.Millisecond})
	n := 0
	for ; n < 1000; n++ {
		id := reqlog.NewID(time.Now())
		if err := l.RecordIntent(t.Context(), intent(id, 1)); err != nil {
			break
		}
		l.RecordSettlement(settlement(id, 1))
		l.Record(t.Context(), entry(id))
	}
	if n == 1000 || l.Stats().Bytes > 64<<10 {
		t.Fatalf("took %d exchanges, %+v; want an end at 64 KB", n, l.Stats())
	}
	store.setError(nil)
	waittest.Until(t, "it takes attempts again", func() bool {
		id := reqlog.NewID(time.Now())
		if l.RecordIntent(t.Context(), intent(id, 1)) != nil {
			return false
		}
		l.RecordSettlement(settlement(id, 1))
		return true
	})
	mustClose(t, l)
	if got := len(store.ids(t)); got != n {
		t.Errorf("the store has %d rows, want %d", got, n)
	}
}

func TestASyncThatFailsIsTriedAgain(t *testing.T) {
	disk := new(ledger.Disk)
	l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Sync: ledger.Strict}))
	disk.Deafen(true)
	sent := make(chan error, 1)
	go func() { sent <- l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)) }()
	before := disk.Syncs()
	waittest.Until(t, "it was tried twice", func() bool { return disk.Syncs() > before+1 })
	select {
	case err := <-sent:
		t.Fatalf("Intend = %v before its intent was safe", err)
	default:
	}
	disk.Deafen(false)
	if err := <-sent; err != nil {
		t.Errorf("Intend = %v", err)
	}
	mustClose(t, l)
}

func TestStrictAttemptsShareTheirSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(ledger.Disk)
		l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Sync: ledger.Strict}))
		before, began := disk.Syncs(), time.Now()
		const n = 200
		done := make(chan error, n)
		for range n {
			go func() { done <- l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)) }()
		}
		for range n {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		// A sync of the fake disk takes a millisecond: whoever comes during one
		// waits for the next.
		took, syncs := time.Since(began), disk.Syncs()-before
		if took < time.Millisecond || syncs < 1 {
			t.Errorf("%d attempts took %v and %d syncs, want them to wait for a sync", n, took, syncs)
		}
		if took > 3*time.Millisecond || syncs > 3 {
			t.Errorf("%d attempts took %v and %d syncs, want one group or two", n, took, syncs)
		}
		time.Sleep(time.Hour)
		if got := disk.Syncs() - before; got > 4 {
			t.Errorf("%d syncs after an idle hour, want no more than %d and one of the end", got, syncs)
		}
		mustClose(t, l)
	})
}

func TestGroupedAttemptsDoNotWaitForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(ledger.Disk)
		l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir()}))
		synctest.Wait()
		before, began := disk.Syncs(), time.Now()
		for range 100 {
			exchange(t, l)
		}
		if took := time.Since(began); took != 0 || disk.Syncs() != before {
			t.Errorf("took %v and %d syncs, want neither", took, disk.Syncs()-before)
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if got := disk.Syncs() - before; got != 1 {
			t.Errorf("%d syncs within 250 ms, want one for the group", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := disk.Syncs() - before; got != 1 {
			t.Errorf("%d syncs after an idle hour, want no more", got)
		}
		mustClose(t, l)
	})
}

// TestStrictAttemptIsHeldUntilItIsSafe sends an attempt while syncs fail and others
// note what does not wait for one.
func TestStrictAttemptIsHeldUntilItIsSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(ledger.Disk)
		l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Sync: ledger.Strict}))
		disk.Deafen(true)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		ended := make(chan error, 2)
		go func() { ended <- l.RecordIntent(ctx, intent(reqlog.NewID(time.Now()), 1)) }()
		go func() { ended <- l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)) }()
		for range 10 {
			time.Sleep(time.Second / 10)
			l.Record(t.Context(), entry(reqlog.NewID(time.Now())))
		}
		synctest.Wait()
		if n := len(ended); n != 0 {
			t.Errorf("%d attempts may be sent before their intents are safe, want none: the first with %v", n, <-ended)
		}
		time.Sleep(time.Second)
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Intend = %v after its context has ended, want DeadlineExceeded", err)
		}
		disk.Deafen(false)
		if err := <-ended; err != nil {
			t.Errorf("Intend = %v when syncs work again, want nil", err)
		}
		mustClose(t, l)
	})
}

func TestHeldAttemptsAreRejectedAfterHoldTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(ledger.Disk)
		l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), OnFull: ledger.Block}))
		disk.Fill(true)
		for _, state := range []string{"finds the disk full", "knows that it is"} {
			began := time.Now()
			err := l.RecordIntent(t.Context(), intent(reqlog.NewID(began), 1))
			if took := time.Since(began); !errors.Is(err, ledger.ErrFull) || took != ledger.HoldTime {
				t.Errorf("an attempt that %s: %v after %s, want ErrFull after %s", state, err, took, ledger.HoldTime)
			}
		}
		disk.Fill(false)
		mustClose(t, l)
	})
}

// TestRejectedRequestsFillNoMemory records more rows of rejected requests than fit into
// memory, and then the end of attempts in progress.
func TestRejectedRequestsFillNoMemory(t *testing.T) {
	for _, full := range []ledger.FullPolicy{ledger.Reject, ledger.DropBodies} {
		t.Run(string(full), func(t *testing.T) {
			disk, store := new(ledger.Disk), newMemory()
			l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Store: store, OnFull: full, SyncInterval: time.Millisecond}))
			running := reqlog.NewID(time.Now())
			mustIntend(t, l, running, 1)
			disk.Fill(true)
			runWithin(t, "rejected requests, while the disk is full", func() {
				for range 200 {
					id := reqlog.NewID(time.Now())
					if err := l.RecordIntent(t.Context(), intent(id, 1)); !errors.Is(err, ledger.ErrFull) {
						t.Errorf("RecordIntent = %v, want ErrFull", err)
					}
					e := sizedEntry(20 << 10)
					l.Record(t.Context(), e)
				}
				ended := sizedEntry(20 << 10)
				ended.ID, ended.Attempts = running, make([]reqlog.Attempt, 1)
				l.RecordSettlement(settlement(running, 1))
				l.Record(t.Context(), ended)
			})
			st := l.Stats()
			if st.Lost == 0 || st.Lost > 190 || st.LostAttempts != 0 || !l.Blocked() {
				t.Errorf("Stats = %+v, blocked %t; want some rows of rejected requests lost and no attempt", st, l.Blocked())
			}
			disk.Fill(false)
			waittest.Until(t, "writing works again", func() bool { return !l.Blocked() })
			mustClose(t, l)
			if store.rows[running] != 1 {
				t.Errorf("the store has %d rows of the request in progress, want 1", store.rows[running])
			}
		})
	}
}

// TestASlowDiskHoldsAttemptsForAWhile sends attempts while a write takes long, although
// attempts are rejected when writes fail.
func TestASlowDiskHoldsAttemptsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(ledger.Disk)
		l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), OnFull: ledger.Reject}))
		for _, tt := range []struct {
			slow time.Duration
			want error
		}{{ledger.HoldTime / 2, nil}, {2 * ledger.HoldTime, ledger.ErrFull}} {
			held, release := disk.Hang()
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)) }()
			<-held
			go func() { second <- l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)) }()
			time.Sleep(tt.slow)
			if !l.Blocked() {
				t.Error("the ledger is not blocked by a write that hangs")
			}
			release()
			if err := <-first; err != nil {
				t.Errorf("the attempt of the write: %v", err)
			}
			if err := <-second; !errors.Is(err, tt.want) {
				t.Errorf("an attempt during a write of %s: %v, want %v", tt.slow, err, tt.want)
			}
		}
		mustClose(t, l)
	})
}
