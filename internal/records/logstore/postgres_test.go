package logstore_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/storetest"
)

// countStored returns how many entries the blocks of a database hold, duplicates counted
// twice.
func countStored(t *testing.T, url string) (n int) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), `SELECT COALESCE(SUM(entries), 0) FROM modelgate_logs.blocks`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// mustReach waits for a state.
func mustReach(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !reached(); {
		if time.Now().After(end) {
			t.Fatalf("waited too long until %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func writeFails(s *logstore.Store) func() bool {
	return func() bool { return s.Stats().LastError != "" }
}

func TestAServerThatIsKilledWhileWritingLosesAndDoublesNothing(t *testing.T) {
	server := storetest.NewServer(t, "fsync=on")
	relay, through := storetest.NewRelay(t, server.DSN())
	s := mustOpen(t, logstore.Options{URL: through, Queue: 64, Batch: 50, Flush: time.Millisecond})
	const writers, each = 4, 2500
	var recording sync.WaitGroup
	for range writers {
		recording.Go(func() {
			for i := range each {
				s.Record(t.Context(), sampleEntry(i, time.Now()))
			}
		})
	}
	for range 3 {
		before := s.Stats().Written
		mustReach(t, "more is written", func() bool { return s.Stats().Written >= before+300 })
		relay.Cut() // the response to a commit may be lost
		server.Stop()
		mustReach(t, "writing fails", writeFails(s))
		server.Start(t)
	}
	recording.Wait()
	mustFlush(t, s)
	if got := countAll(t, s); got != writers*each || countStored(t, server.DSN()) != got {
		t.Errorf("%d entries are listed, %d stored; want %d, each once", got, countStored(t, server.DSN()), writers*each)
	}
	if got := s.Stats(); got.Lost != 0 || got.Written != writers*each || got.LastError != "" {
		t.Errorf("Stats() = %+v; want all written", got)
	}
}

// TestABatchWhoseCommitWasNotAnsweredIsKeptOnce holds the responses back, so that
// the server keeps what the store takes for failed.
func TestABatchWhoseCommitWasNotAnsweredIsKeptOnce(t *testing.T) {
	url := storetest.Postgres(t)
	relay, through := storetest.NewRelay(t, url)
	s := mustOpen(t, logstore.Options{URL: through, Batch: 1})
	const n = 60
	for i := range n {
		relay.Delay(time.Duration(i%4) * time.Millisecond)
		s.Record(t.Context(), sampleEntry(i, time.Now()))
		<-time.After(time.Duration(i) * 300 * time.Microsecond) // somewhere in the transaction
		relay.Cut()
	}
	relay.Delay(0)
	mustFlush(t, s)
	if got := countStored(t, url); got != n {
		t.Errorf("%d entries are stored, want %d", got, n)
	}
	sums, err := s.Groups(t.Context(), logstore.GroupQuery{Scope: logstore.Scope{Organisation: "acme"}, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if err != nil || len(sums) != 1 || sums[0].Requests != n {
		t.Errorf("Sum() = %+v, %v; want %d requests", sums, err, n)
	}
}

// The server has stored a batch whose response is lost, and gets it again.
func TestABatchWhoseResponseIsLostIsCountedOnce(t *testing.T) {
	url := storetest.Postgres(t)
	relay, through := storetest.NewRelay(t, url)
	s := mustOpen(t, logstore.Options{URL: through, Batch: 1})
	s.Record(t.Context(), sampleEntry(0, time.Now()))
	mustFlush(t, s) // the tables exist
	relay.LoseCommit()
	s.Record(t.Context(), sampleEntry(1, time.Now()))
	mustFlush(t, s)
	if relay.Loses() {
		t.Fatal("no response to a COMMIT was lost")
	}
	sums, err := s.Groups(t.Context(), logstore.GroupQuery{Scope: logstore.Scope{Organisation: "acme"}, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if got := countStored(t, url); got != 2 || err != nil || len(sums) != 1 || sums[0].Requests != 2 {
		t.Errorf("%d entries are stored, their sums are %+v, %v; want 2 entries, counted once each", got, sums, err)
	}
}

func TestAServerThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	server := storetest.NewServer(t)
	server.Stop()
	s := mustOpen(t, logstore.Options{URL: server.DSN(), Batch: 1})
	e := sampleEntry(1, time.Now())
	s.Record(t.Context(), e)
	mustReach(t, "writing fails", writeFails(s))
	for _, err := range []error{
		func() error { _, err := s.List(t.Context(), logstore.Query{}); return err }(),
		func() error { _, err := s.Get(t.Context(), logstore.Scope{}, e.ID); return err }(),
	} {
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Unavailable {
			t.Errorf("reading while the server is away: %v; want unavailable", err)
		}
	}
	server.Start(t)
	mustFlush(t, s)
	if _, err := s.Get(t.Context(), logstore.Scope{}, e.ID); err != nil {
		t.Errorf("Get() after the server came: %v", err)
	}
}

func TestSeveralProcessesShareALog(t *testing.T) {
	url := storetest.Postgres(t)
	var nodes []*logstore.Store
	var writing sync.WaitGroup
	for range 3 {
		nodes = append(nodes, mustOpen(t, logstore.Options{URL: url, Batch: 20}))
	}
	for n, s := range nodes {
		writing.Go(func() {
			for i := range 300 {
				// Days that have no partition yet, which all want at once.
				s.Record(t.Context(), sampleEntry(i, day.AddDate(0, 0, (i+n)%9)))
			}
			mustFlush(t, s)
		})
	}
	writing.Wait()
	for _, s := range nodes {
		if got := count(t, s, always, day.AddDate(1, 0, 0)); got != 900 {
			t.Errorf("a node lists %d entries, want the 900 of all", got)
		}
	}
	r := logstore.Retention{Age: time.Hour}
	for _, s := range nodes {
		writing.Go(func() {
			if _, err := s.Prune(t.Context(), r, day.AddDate(1, 0, 0)); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	if got := countStored(t, url); got != 0 {
		t.Errorf("%d entries are left of what is too old, want none", got)
	}
	mustRecord(t, nodes[0], day, 1, 1)
	mustPrune(t, nodes[1], r, day.AddDate(1, 0, 0))
	mustRecord(t, nodes[0], day, 1, 1) // into a day that another has removed
	if got := countStored(t, url); got != 1 {
		t.Errorf("%d entries are stored after the days were removed, want the late one", got)
	}
}

func TestADayStaysWhileAnyOfItIsYoungEnough(t *testing.T) {
	s := mustOpen(t, logstore.Options{URL: storetest.Postgres(t)})
	mustRecord(t, s, day, 3, 10)
	if did := mustPrune(t, s, logstore.Retention{Age: 24 * time.Hour}, day.Add(time.Hour)); did.Entries != 10 {
		t.Errorf("removed %d entries, want the 10 of the day before yesterday", did.Entries)
	}
}

func TestDaysAreRemovedFromPostgreSQLWhenTheLogIsTooLarge(t *testing.T) {
	s := mustOpen(t, logstore.Options{URL: storetest.Postgres(t)})
	mustRecord(t, s, day, 6, 500)
	all := mustPrune(t, s, logstore.Retention{Bytes: 1 << 40}, day)
	if all.Entries != 0 {
		t.Fatalf("removed %+v of a log that is small enough", all)
	}
	would, err := s.Prunable(t.Context(), logstore.Retention{Bytes: 1}, day)
	if err != nil || would.Entries != 2500 {
		t.Fatalf("Prunable() of all = %+v, %v; want all except the current day", would, err)
	}
	did := mustPrune(t, s, logstore.Retention{Bytes: would.Bytes / 2}, day)
	if did.Entries == 0 || did.Entries >= 2500 || did.Entries%500 != 0 {
		t.Errorf("removed %d entries, want some whole days", did.Entries)
	}
}

// TestADayThatIsBeingReadIsRemovedLater holds a transaction open that has read.
func TestADayThatIsBeingReadIsRemovedLater(t *testing.T) {
	url := storetest.Postgres(t)
	s := mustOpen(t, logstore.Options{URL: url})
	mustRecord(t, s, day, 2, 10)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`SELECT COUNT(*) FROM modelgate_logs.blocks`); err != nil {
		t.Fatal(err)
	}
	r := logstore.Retention{Age: time.Hour}
	if _, err := s.Prune(t.Context(), r, day.AddDate(0, 0, 9)); err == nil {
		t.Error("Prune() did not tell that a day is in use")
	}
	tx.Rollback()
	mustPrune(t, s, r, day.AddDate(0, 0, 9))
	if got := countStored(t, url); got != 0 {
		t.Errorf("%d entries are left, want none", got)
	}
}

func TestTablesOfALaterFormatAreRefused(t *testing.T) {
	at := place{url: storetest.Postgres(t)}
	s := mustOpen(t, at.with(logstore.Options{}))
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	at.exec(t, `UPDATE format SET version = 99`)
	_, err := logstore.Open(t.Context(), at.with(logstore.Options{}))
	if err == nil || !strings.Contains(err.Error(), "newer modelgate") || strings.Contains(err.Error(), "postgres@") {
		t.Errorf("Open() = %v; want an error that asks for a newer modelgate", err)
	}
}

func TestAnAddressThatCannotBeReadIsRefused(t *testing.T) {
	_, err := logstore.Open(t.Context(), logstore.Options{URL: "postgres://u:hush@[bad"})
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("Open() = %v; want an error without the password", err)
	}
}

func TestPruningDoesNotHoldUpWriting(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		s := mustOpen(t, at.with(logstore.Options{Batch: 50, Flush: time.Millisecond}))
		mustRecord(t, s, day, 20, 300)
		var pruning sync.WaitGroup
		ctx, end := context.WithCancel(t.Context())
		pruning.Go(func() {
			for ctx.Err() == nil {
				_, err := s.Prune(ctx, logstore.Retention{Age: 24 * time.Hour}, day.AddDate(0, 0, 30))
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		var last reqlog.ID
		for i := range 3000 {
			e := sampleEntry(i, day.AddDate(0, 0, 40))
			s.Record(t.Context(), e)
			last = e.ID
			if i%100 == 0 {
				if _, err := s.List(t.Context(), logstore.Query{From: always}); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustFlush(t, s)
		end()
		pruning.Wait()
		if _, err := s.Get(t.Context(), logstore.Scope{}, last); err != nil {
			t.Errorf("Get() of the newest entry: %v", err)
		}
		if got := count(t, s, day.AddDate(0, 0, 40), day.AddDate(0, 0, 41)); got != 3000 {
			t.Errorf("%d new entries, want all 3000", got)
		}
	})
}

// TestReadersDoNotSeeConnectionsThatWereCut fills the pool before each cut.
func TestReadersDoNotSeeConnectionsThatWereCut(t *testing.T) {
	relay, through := storetest.NewRelay(t, storetest.Postgres(t))
	s := mustOpen(t, logstore.Options{URL: through})
	e := withBodies(1, 100, time.Now())
	s.Record(t.Context(), e)
	mustFlush(t, s)
	readAll := func(together int) {
		var all sync.WaitGroup
		for range together {
			all.Go(func() {
				if page, err := s.List(t.Context(), logstore.Query{Text: "tell me"}); err != nil || len(page.Entries) != 1 {
					t.Errorf("List() = %d entries, %v; want 1", len(page.Entries), err)
				}
				if got, err := s.Get(t.Context(), logstore.Scope{}, e.ID); err != nil || got.Bodies == nil {
					t.Errorf("Get() = %+v, %v; want the entry", got, err)
				}
				from := time.Now().Add(-time.Hour)
				if _, err := s.Groups(t.Context(), logstore.GroupQuery{Scope: logstore.Scope{Organisation: "acme"}, From: from, To: from.Add(2 * time.Hour)}); err != nil {
					t.Errorf("Sum() = %v", err)
				}
			})
		}
		all.Wait()
	}
	for range 10 {
		readAll(12)
		relay.Cut()
		readAll(1)
	}
}
