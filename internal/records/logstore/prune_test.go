package logstore_test

import (
	"errors"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// day is a moment in the middle of a day.
var day = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// mustRecord records n entries of each of the days before noon, the current one
// first.
func mustRecord(t *testing.T, s *logstore.Store, noon time.Time, days, n int) {
	t.Helper()
	for d := range days {
		for i := range n {
			e := sampleEntry(i, noon.AddDate(0, 0, -d).Add(time.Duration(i)*time.Second))
			s.Record(t.Context(), e)
		}
	}
	mustFlush(t, s)
}

func count(t *testing.T, s *logstore.Store, from, to time.Time) int {
	t.Helper()
	q, n := logstore.Query{From: from, To: to, Limit: 1000}, 0
	for more := true; more; more = q.Cursor != "" {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Entries)
		q.Cursor = page.Next
	}
	return n
}

var always = time.Unix(0, 0)

func mustPrune(t *testing.T, s *logstore.Store, r logstore.Retention, now time.Time) logstore.Pruned {
	t.Helper()
	would, err := s.Prunable(t.Context(), r, now)
	if err != nil {
		t.Fatal(err)
	}
	did, err := s.Prune(t.Context(), r, now)
	if err != nil || r.Bytes == 0 && did != would {
		t.Fatalf("Prune() = %+v, %v; Prunable() said %+v", did, err, would)
	}
	return did
}

func TestEntriesBeyondTheirAgeAreRemoved(t *testing.T) {
	onBoth(t, testEntriesBeyondTheirAgeAreRemoved)
}

func testEntriesBeyondTheirAgeAreRemoved(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	mustRecord(t, s, day, 10, 100)
	r := logstore.Retention{Age: 3 * 24 * time.Hour}
	midnight := day.Add(12 * time.Hour) // when PostgreSQL's days and ages agree
	did := mustPrune(t, s, r, midnight)
	if left := count(t, s, always, midnight); did.Entries != 700 || left != 300 {
		t.Errorf("removed %d, left %d; want 700 and 300", did.Entries, left)
	}
	if again := mustPrune(t, s, r, midnight); again != (logstore.Pruned{}) {
		t.Errorf("a second round removed %+v, want nothing", again)
	}
	if got := s.Stats().Pruned; got != 700 {
		t.Errorf("Stats().Pruned = %d, want 700", got)
	}
}

func TestTheOldestEntriesAreRemovedWhenTheLogIsTooLarge(t *testing.T) {
	s := mustOpen(t, logstore.Options{})
	mustRecord(t, s, day, 20, 500)
	s.Pragma(t, "wal_checkpoint(TRUNCATE)")
	size, before := s.Size(t), 10_000
	for _, share := range []float64{0.9, 0.5} { // what remains
		r := logstore.Retention{Bytes: int64(share * float64(size))}
		least, most := int(share*8000), int(share*11_500)
		would, err := s.Prunable(t.Context(), r, day)
		if left := before - int(would.Entries); err != nil || left < least || left > most {
			t.Errorf("Prunable() = %+v, %v; want about %v of 10000 to remain", would, err, share)
		}
		did := mustPrune(t, s, r, day.Add(time.Hour))
		left := count(t, s, always, day.Add(time.Hour))
		if did.Entries > would.Entries*3/2 || left > most || int(did.Entries)+left != before {
			t.Errorf("removed %d, left %d of %d; want about %d removed", did.Entries, left, before, would.Entries)
		}
		before = left
	}
	if got := count(t, s, day.Add(-time.Hour), day.Add(time.Hour)); got != 500 {
		t.Errorf("of the newest day %d are left, want all 500", got)
	}
}

func TestTheFileShrinksWhenMuchWasRemoved(t *testing.T) {
	s := mustOpen(t, logstore.Options{})
	for i := range 120_000 {
		s.Record(t.Context(), sampleEntry(i, day))
	}
	mustFlush(t, s)
	s.Pragma(t, "wal_checkpoint(TRUNCATE)")
	before := s.Size(t)
	mustPrune(t, s, logstore.Retention{Age: time.Millisecond}, day.AddDate(0, 0, 1))
	s.Pragma(t, "wal_checkpoint(TRUNCATE)")
	if after := s.Size(t); after > before*2/3 {
		t.Errorf("the file has %d bytes after, %d before; want the space returned", after, before)
	}
	mustBeIntact(t, s.Path())
}

func TestZeroRetentionKeepsAll(t *testing.T) { onBoth(t, testZeroRetentionKeepsAll) }

func testZeroRetentionKeepsAll(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	mustRecord(t, s, day, 3, 10)
	if did := mustPrune(t, s, logstore.Retention{}, day.AddDate(50, 0, 0)); did != (logstore.Pruned{}) {
		t.Errorf("Prune() with nothing said = %+v, want nothing removed", did)
	}
}

func TestADamagedBlockIsSkippedAndCounted(t *testing.T) {
	onBoth(t, testADamagedBlockIsSkippedAndCounted)
}

func testADamagedBlockIsSkippedAndCounted(t *testing.T, at place) {
	for n, set := range []string{`x''`, `x'ff00'`, `substr(data, 1, length(data)/2)`} {
		at := at.fresh(t)
		s := mustOpen(t, at.with(logstore.Options{}))
		var damaged *reqlog.Entry // the oldest, the one in the middle, the newest
		for i := range 3 {
			e := sampleEntry(i, day.Add(-time.Duration(i)*time.Hour))
			s.Record(t.Context(), e)
			if i == 2-n {
				damaged = e
			}
		}
		mustFlush(t, s)
		at.spoil(t, set, n)
		for range 2 {
			if got := count(t, s, always, day.Add(time.Hour)); got != 2 {
				t.Errorf("%s: %d entries listed, want the 2 that are complete", set, got)
			}
			_, err := s.Get(t.Context(), logstore.Scope{}, damaged.ID)
			if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.NotFound {
				t.Errorf("%s: Get() of a damaged entry: %v; want not found", set, err)
			}
		}
		if got := s.Stats().Damaged; got != 1 {
			t.Errorf("%s: Stats().Damaged = %d, want 1", set, got)
		}
	}
}
