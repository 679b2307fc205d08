package logstore_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/storetest"
)

// recordMuch records n entries of a moment with about 20 KB each, which do not
// compress well, and returns the last.
func recordMuch(t *testing.T, s *logstore.Store, n int, at time.Time) *reqlog.Entry {
	t.Helper()
	e := sendMuch(t.Context(), s, n, at)
	mustFlush(t, s)
	return e
}

func sendMuch(ctx context.Context, s *logstore.Store, n int, at time.Time) (e *reqlog.Entry) {
	for i := range n {
		raw := make([]byte, 10_000)
		rand.Read(raw)
		e = sampleEntry(i, at)
		if at.IsZero() {
			e = sampleEntry(0, time.Now())
		}
		e.Level = reqlog.LevelFull
		e.Bodies = &reqlog.Bodies{Request: reqlog.Body{Type: "text/plain", Data: []byte(hex.EncodeToString(raw)), Size: 20_000}}
		s.Record(ctx, e)
	}
	return e
}

// partitionBytes returns the size of all partitions.
func partitionBytes(t *testing.T, at place) int64 {
	t.Helper()
	return at.number(t, `SELECT COALESCE(SUM(pg_total_relation_size(inhrelid)), 0)::bigint FROM pg_inherits WHERE inhparent IN ('blocks'::regclass, 'bodies'::regclass)`)
}

func TestPresentDayOnPostgreSQLStaysWithinItsBytes(t *testing.T) {
	at := place{url: storetest.Postgres(t)}
	nodes := []*logstore.Store{mustOpen(t, at.with(logstore.Options{})), mustOpen(t, at.with(logstore.Options{}))}
	const limit, step = 8 << 20, 100
	r := logstore.Retention{Bytes: limit, Age: 24 * time.Hour}
	first := recordMuch(t, nodes[0], 1, day)
	removed, largest := int64(0), int64(0)
	var last *reqlog.Entry
	for i := range 16 {
		now := day.Add(time.Duration(i+1) * time.Minute)
		last = recordMuch(t, nodes[i%2], step, now)
		largest = max(largest, partitionBytes(t, at))
		did, err := nodes[(i+1)%2].Prune(t.Context(), r, now)
		if err != nil {
			t.Fatal(err)
		}
		removed += did.Entries
		if got := partitionBytes(t, at); got > limit {
			t.Errorf("round %d: %d bytes after pruning to %d", i, got, limit)
		}
	}
	t.Logf("%d entries removed, %d bytes at most", removed, largest)
	if left := count(t, nodes[0], always, day.Add(time.Hour)); left < 3*step || int64(left)+removed != 16*step+1 {
		t.Errorf("%d entries are left and %d were removed of %d", left, removed, 16*step+1)
	}
	if largest > limit+limit/2 {
		t.Errorf("the log had %d bytes with a limit of %d", largest, limit)
	}
	for _, s := range nodes {
		if _, err := s.Get(t.Context(), logstore.Scope{}, last.ID); err != nil {
			t.Errorf("the newest entry: %v", err)
		}
		if _, err := s.Get(t.Context(), logstore.Scope{}, first.ID); err == nil {
			t.Error("the oldest entry is there still")
		}
	}
	// What comes late belongs to a time that was removed, of either node.
	for i, s := range nodes {
		late := recordMuch(t, s, 1, day.Add(time.Duration(i)*time.Second))
		if _, err := s.Get(t.Context(), logstore.Scope{}, late.ID); err != nil {
			t.Errorf("a late entry: %v", err)
		}
	}
	if n := at.number(t, `SELECT COUNT(*) FROM pg_inherits WHERE inhparent = 'blocks'::regclass`); n > 20 {
		t.Errorf("the table has %d partitions", n)
	}
	// In the days that follow, the day goes by its size and by its age as others.
	midnight := day.Add(12 * time.Hour)
	did, err := nodes[0].Prune(t.Context(), logstore.Retention{Bytes: limit / 2}, midnight.Add(time.Minute))
	if left := count(t, nodes[0], always, midnight); err != nil || did.Entries == 0 || left < step || partitionBytes(t, at) > limit/2 {
		t.Errorf("Prune() of the day before = %+v, %v; %d are left with %d bytes", did, err, left, partitionBytes(t, at))
	}
	if _, err := nodes[1].Get(t.Context(), logstore.Scope{}, last.ID); err != nil {
		t.Errorf("the newest entry after midnight: %v", err)
	}
	mustPrune(t, nodes[1], logstore.Retention{BodiesAge: time.Hour}, midnight.AddDate(0, 0, 1))
	recordMuch(t, nodes[0], 1, day)
	if left := count(t, nodes[0], always, midnight); left <= step {
		t.Errorf("%d entries are left after their bodies were removed", left)
	}
	mustPrune(t, nodes[1], logstore.Retention{Age: time.Hour}, midnight.AddDate(0, 0, 2))
	if left := count(t, nodes[0], always, midnight); left != 0 {
		t.Errorf("%d entries are left of a day that is too old", left)
	}
	mustRecord(t, nodes[0], day, 1, 5)
	if left := count(t, nodes[1], always, midnight); left != 5 {
		t.Errorf("%d entries are there of the 5 that were recorded in a removed day", left)
	}
}

// Slices are split and removed while two nodes write into them and read.
func TestSplittingTheDayLosesNothingThatIsWritten(t *testing.T) {
	at := place{url: storetest.Postgres(t)}
	nodes := []*logstore.Store{mustOpen(t, at.with(logstore.Options{Batch: 20, Flush: time.Millisecond})), mustOpen(t, at.with(logstore.Options{Batch: 20, Flush: time.Millisecond}))}
	const limit, each = 6 << 20, 1000
	var work sync.WaitGroup
	var last [2]*reqlog.Entry
	ctx, end := context.WithCancel(t.Context())
	for _, s := range nodes {
		work.Go(func() {
			for ctx.Err() == nil {
				// A step may find a table in use; what was removed before it counts.
				if _, err := s.Prune(t.Context(), logstore.Retention{Bytes: limit}, time.Now()); err != nil && !strings.Contains(err.Error(), "lock timeout") && !strings.Contains(err.Error(), "deadlock") {
					t.Error(err)
				}
				if _, err := s.List(t.Context(), logstore.Query{From: always}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var writers sync.WaitGroup
	for i, s := range nodes {
		writers.Go(func() { last[i] = sendMuch(t.Context(), s, each, time.Time{}) })
	}
	writers.Wait()
	for _, s := range nodes {
		mustFlush(t, s)
	}
	end()
	work.Wait()
	newest := last[0]
	if last[1].Time.After(newest.Time) {
		newest = last[1]
	}
	for _, s := range nodes {
		if _, err := s.Get(t.Context(), logstore.Scope{}, newest.ID); err != nil {
			t.Errorf("the newest entry: %v", err)
		}
		if st := s.Stats(); st.Lost != 0 || st.Written != each {
			t.Errorf("Stats() = %+v", st)
		}
	}
	// What could not be removed among so many locks goes with what follows.
	for range 3 {
		newest = sendMuch(t.Context(), nodes[0], 80, time.Time{})
		mustFlush(t, nodes[0])
		if _, err := nodes[1].Prune(t.Context(), logstore.Retention{Bytes: limit}, time.Now()); err != nil {
			t.Error(err)
		}
	}
	if got := partitionBytes(t, at); got > limit {
		t.Errorf("%d bytes are left with a limit of %d", got, limit)
	}
	if _, err := nodes[1].Get(t.Context(), logstore.Scope{}, newest.ID); err != nil {
		t.Errorf("the newest entry: %v", err)
	}
}
