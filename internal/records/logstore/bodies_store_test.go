package logstore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// withBodies is an entry whose bodies have about n bytes each. Each is some
// milliseconds after the one before.
func withBodies(i, n int, start time.Time) *reqlog.Entry {
	e := sampleEntry(100*i, start)
	e.Time = e.Time.UTC().Round(0)
	e.Level = reqlog.LevelFull
	part := fmt.Appendf(nil, `{"model":"gpt-4o","n":%d,"messages":[{"role":"user","content":"tell me of %d"}]}`, i, rand.Uint64())
	body := bytes.Repeat(part, n/len(part)+1)
	e.Bodies = &reqlog.Bodies{
		Request:  reqlog.Body{Type: "application/json", Data: body, Size: int64(len(body))},
		Response: reqlog.Body{Type: "text/event-stream", Data: body[:len(body)/2], Size: int64(len(body)), Cut: true},
	}
	return e
}

func TestARowHoldsTheBodiesOfItsEntry(t *testing.T) {
	for _, n := range []int{10, 3000, 300_000} {
		e := withBodies(1, n, time.Now())
		got, err := logstore.ParseEntry(logstore.AppendEntry(nil, e))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("the entry changed (-want +got):\n%s", diff)
		}
	}
	e := withBodies(1, 100, time.Now())
	row := logstore.AppendEntry(nil, e)
	e.Bodies = nil
	bare := logstore.AppendEntry(nil, e)
	for _, cut := range [][]byte{bare, row[:len(bare)], append(row[:len(bare):len(bare)], 9, 9)} {
		got, err := logstore.ParseEntry(cut)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("a row without bodies that can be read (-want +got):\n%s", diff)
		}
	}
}

func TestBodiesAreReadWithTheirEntries(t *testing.T) { onBoth(t, testBodiesAreReadWithTheirEntries) }

func testBodiesAreReadWithTheirEntries(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	var all []*reqlog.Entry
	start := time.Now().Add(-time.Hour)
	for i := range 200 {
		e := withBodies(i, 40*(i%50), start)
		if i%3 == 0 {
			e.Bodies, e.Level = nil, reqlog.LevelMetadata
		}
		all = append(all, e)
		s.Record(t.Context(), e)
	}
	mustFlush(t, s)
	for _, want := range all {
		got, err := s.Get(t.Context(), logstore.Scope{}, want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Get() (-want +got):\n%s", diff)
		}
	}
	page, err := s.List(t.Context(), logstore.Query{Limit: 1000})
	if err != nil || len(page.Entries) != len(all) {
		t.Fatalf("List() = %d entries, %v", len(page.Entries), err)
	}
	for _, e := range page.Entries {
		if e.Bodies != nil {
			t.Fatal("a listing has read bodies")
		}
	}
	if err := s.ReadBodies(t.Context(), page.Entries); err != nil {
		t.Fatal(err)
	}
	for i, e := range page.Entries {
		if diff := cmp.Diff(all[len(all)-1-i], e); diff != "" {
			t.Fatalf("Bodies() (-want +got):\n%s", diff)
		}
	}
}

func TestBodiesThatAreNotAskedForAreNotKept(t *testing.T) {
	at := place{}.fresh(t)
	s := mustOpen(t, at.with(logstore.Options{}))
	for _, level := range []reqlog.RecordLevel{reqlog.LevelMetadata, reqlog.LevelNone} {
		e := withBodies(1, 100, time.Now())
		e.Level = level
		s.Record(t.Context(), e)
		mustFlush(t, s)
		got, err := s.Get(t.Context(), logstore.Scope{}, e.ID)
		if err != nil || got.Bodies != nil {
			t.Errorf("%s: Get() = %v, %v; want no bodies", level, got, err)
		}
	}
	if n := at.number(t, `SELECT COUNT(*) FROM bodies`); n != 0 {
		t.Errorf("%d bodies are stored, want none", n)
	}
}

func TestAnEntryThatIsRecordedTwiceHasItsBodiesOnce(t *testing.T) {
	onBoth(t, testAnEntryThatIsRecordedTwiceHasItsBodiesOnce)
}

func testAnEntryThatIsRecordedTwiceHasItsBodiesOnce(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	for range 3 { // in one batch, and in others
		for i := range 40 {
			e := withBodies(i, 200, day)
			e.ID = reqlog.ID{0: 1, 15: byte(i)}
			s.Record(t.Context(), e)
			s.Record(t.Context(), e)
		}
		mustFlush(t, s)
	}
	if got := at.number(t, `SELECT COUNT(*) FROM bodies`); got != 40 {
		t.Errorf("%d bodies are stored, want 40", got)
	}
	if _, err := s.Get(t.Context(), logstore.Scope{}, reqlog.ID{0: 1, 15: 3}); err != nil {
		t.Error(err)
	}
}

func TestDamagedBodiesAreSkippedAndCounted(t *testing.T) {
	onBoth(t, testDamagedBodiesAreSkippedAndCounted)
}

func testDamagedBodiesAreSkippedAndCounted(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	e, whole := withBodies(1, 9000, day), withBodies(2, 100, day)
	s.Record(t.Context(), e)
	s.Record(t.Context(), whole)
	mustFlush(t, s)
	at.exec(t, `UPDATE bodies SET data = substr(data, 1, length(data)-9) WHERE id = (SELECT id FROM bodies ORDER BY id LIMIT 1)`)
	for range 2 {
		got, err := s.Get(t.Context(), logstore.Scope{}, e.ID)
		if err != nil || got.Bodies != nil || got.Model != e.Model {
			t.Errorf("Get() = %+v, %v; want the entry without bodies", got, err)
		}
	}
	if got, err := s.Get(t.Context(), logstore.Scope{}, whole.ID); err != nil || got.Bodies == nil {
		t.Errorf("Get() of another = %+v, %v; want its bodies", got, err)
	}
	if got := s.Stats().Damaged; got != 1 {
		t.Errorf("Stats().Damaged = %d, want 1", got)
	}
}

func TestALogWithoutBodiesTakesThem(t *testing.T) { onBoth(t, testALogWithoutBodiesTakesThem) }

func testALogWithoutBodiesTakesThem(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	old := sampleEntry(1, time.Now())
	s.Record(t.Context(), old)
	mustFlush(t, s)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	at.exec(t, `DROP TABLE bodies`) // as a file that was made before bodies were
	s = mustOpen(t, at.with(logstore.Options{}))
	e := withBodies(2, 100, time.Now())
	s.Record(t.Context(), e)
	mustFlush(t, s)
	for _, id := range []reqlog.ID{old.ID, e.ID} {
		if got, err := s.Get(t.Context(), logstore.Scope{}, id); err != nil || (got.Bodies != nil) != (id == e.ID) {
			t.Errorf("Get() = %+v, %v", got, err)
		}
	}
}

// mustRecordBodies records n entries with bodies of each of the days before noon.
func mustRecordBodies(t *testing.T, s *logstore.Store, noon time.Time, days, n, size int) {
	t.Helper()
	for d := range days {
		for i := range n {
			s.Record(t.Context(), withBodies(i, size, noon.AddDate(0, 0, -d)))
		}
	}
	mustFlush(t, s)
}

func TestBodiesGoWithTheirEntries(t *testing.T) { onBoth(t, testBodiesGoWithTheirEntries) }

func testBodiesGoWithTheirEntries(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	mustRecordBodies(t, s, day, 6, 30, 9000)
	midnight := day.Add(12 * time.Hour)
	did := mustPrune(t, s, logstore.Retention{Age: 3 * 24 * time.Hour}, midnight)
	if did.Entries != 90 || did.Bodies != 90 {
		t.Errorf("removed %+v, want 90 entries and their bodies", did)
	}
	if left := at.number(t, `SELECT COUNT(*) FROM bodies`); left != 90 {
		t.Errorf("%d bodies are left, want 90", left)
	}
	if _, err := s.Get(t.Context(), logstore.Scope{}, mustNewest(t, s).ID); err != nil {
		t.Error(err)
	}
	did = mustPrune(t, s, logstore.Retention{Age: time.Hour}, midnight.AddDate(1, 0, 0))
	if left := at.number(t, `SELECT COUNT(*) FROM bodies`); did.Bodies != 90 || left != 0 {
		t.Errorf("removed %+v, left %d bodies; want all removed", did, left)
	}
}

func TestBodiesMayGoBeforeTheirEntries(t *testing.T) { onBoth(t, testBodiesMayGoBeforeTheirEntries) }

func testBodiesMayGoBeforeTheirEntries(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{}))
	mustRecordBodies(t, s, day, 6, 30, 9000)
	midnight := day.Add(12 * time.Hour)
	did := mustPrune(t, s, logstore.Retention{BodiesAge: 2 * 24 * time.Hour}, midnight)
	if did.Entries != 0 || did.Bodies != 120 || did.Bytes == 0 {
		t.Errorf("removed %+v, want 120 bodies alone", did)
	}
	if left := count(t, s, always, midnight); left != 180 {
		t.Errorf("%d entries are left, want all 180", left)
	}
	if e, err := s.Get(t.Context(), logstore.Scope{}, mustNewest(t, s).ID); err != nil || e.Bodies == nil {
		t.Errorf("Get() of the newest = %+v, %v; want its bodies", e, err)
	}
	late := withBodies(500, 100, day.AddDate(0, 0, -5)) // one that comes when its day's have gone
	s.Record(t.Context(), late)
	mustFlush(t, s)
	if e, err := s.Get(t.Context(), logstore.Scope{}, late.ID); err != nil || e.Bodies == nil {
		t.Errorf("Get() of a late one = %+v, %v; want its bodies", e, err)
	}
	did = mustPrune(t, s, logstore.Retention{BodiesAge: 2 * 24 * time.Hour, Age: 4 * 24 * time.Hour}, midnight)
	if did.Entries != 61 || did.Bodies != 1 {
		t.Errorf("removed %+v, want 61 entries and the bodies that came late", did)
	}
}

func TestBodiesCountWhereTheLogIsTooLarge(t *testing.T) {
	s := mustOpen(t, logstore.Options{})
	for d := range 10 {
		for i := range 20 {
			e := withBodies(i, 0, day.AddDate(0, 0, -d))
			e.Bodies.Request.Data = noise(100 << 10)
			s.Record(t.Context(), e)
		}
	}
	mustFlush(t, s)
	s.Pragma(t, "wal_checkpoint(TRUNCATE)")
	r := logstore.Retention{Bytes: s.Size(t) / 2}
	would, err := s.Prunable(t.Context(), r, day)
	if err != nil || would.Entries < 80 || would.Entries > 120 || would.Bytes < r.Bytes*8/10 {
		t.Errorf("Prunable() = %+v, %v; want about half of 200 entries and of %d bytes", would, err, 2*r.Bytes)
	}
	did := mustPrune(t, s, r, day.Add(time.Hour))
	if did.Entries < 80 || did.Entries > 120 || did.Bodies < did.Entries-20 {
		t.Errorf("removed %+v; want about half of 200 entries, and their bodies", did)
	}
	s.Pragma(t, "wal_checkpoint(TRUNCATE)")
	mustBeIntact(t, s.Path())
}

// noise is what can't be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func mustNewest(t *testing.T, s *logstore.Store) *reqlog.Entry {
	t.Helper()
	page, err := s.List(t.Context(), logstore.Query{From: always, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		t.Fatalf("List() = %+v, %v; want an entry", page, err)
	}
	return page.Entries[0]
}

func TestWritersDoNotWaitForBodiesThatGo(t *testing.T) {
	s := mustOpen(t, logstore.Options{Flush: time.Millisecond})
	for i := range 2000 {
		e := withBodies(i, 0, day)
		e.Bodies.Request.Data = noise(20 << 10)
		s.Record(t.Context(), e)
	}
	mustFlush(t, s)
	pruned := make(chan error)
	go func() {
		_, err := s.Prune(t.Context(), logstore.Retention{BodiesAge: time.Hour}, day.AddDate(0, 0, 1))
		pruned <- err
	}()
	var longest time.Duration
	for i := 0; ; i++ {
		began := time.Now()
		s.Record(t.Context(), withBodies(i, 100, time.Now()))
		mustFlush(t, s)
		longest = max(longest, time.Since(began))
		select {
		case err := <-pruned:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d entries were written in the meantime, each within %v", i, longest)
			if i < 3 || longest > 10*time.Second {
				t.Errorf("%d entries were written in the meantime, the slowest in %v; want writing to go on", i, longest)
			}
			return
		default:
		}
	}
}

func TestBodiesThatWaitToBeWrittenAreBounded(t *testing.T) {
	s := mustOpen(t, logstore.Options{})
	s.Exec(t, "ALTER TABLE blocks RENAME TO blocks_away")
	ended, end := context.WithCancel(t.Context())
	end()
	const n, size = 60, 1 << 20
	for i := range n {
		e := withBodies(i, 0, time.Now())
		e.Bodies = &reqlog.Bodies{Request: reqlog.Body{Data: make([]byte, size)}}
		s.Record(ended, e)
		if i == 0 {
			mustReach(t, "the first is tried", writeFails(s))
		}
	}
	if got := s.Stats(); got.Depth < 8 || got.Depth > 17 || got.Depth+int(got.Lost) != n {
		t.Errorf("Stats() = %+v; want some 9 MB to wait and no room for more", got)
	}
	s.Exec(t, "ALTER TABLE blocks_away RENAME TO blocks")
	mustFlush(t, s)
	before := s.Stats()
	s.Record(ended, withBodies(n, 1000, time.Now()))
	mustFlush(t, s)
	if got := s.Stats(); got.Depth != 0 || got.Lost != before.Lost || int(got.Written) != n+1-int(got.Lost) {
		t.Errorf("Stats() = %+v, %+v before; want all written that found room, and room again", got, before)
	}
}

// TestBodiesOfOneSlotStayWithTheirEntries removes a block of a second that others
// share.
func TestBodiesOfOneSlotStayWithTheirEntries(t *testing.T) {
	s := mustOpen(t, logstore.Options{})
	start := day.Truncate(1024 * time.Millisecond)
	for i := range 30 { // each in a block of its own, in one slot of time
		e := withBodies(i, 100, start)
		s.Record(t.Context(), e)
		mustFlush(t, s)
	}
	late := withBodies(-1, 100, start.Add(5*time.Millisecond)) // before all, in the last block
	newest := withBodies(31, 100, start)
	s.Record(t.Context(), late)
	s.Record(t.Context(), newest)
	mustFlush(t, s)
	did := mustPrune(t, s, logstore.Retention{Age: time.Hour}, newest.ID.Time().Add(time.Hour))
	if did.Entries != 30 {
		t.Fatalf("removed %+v, want 30 entries", did)
	}
	if got, err := s.Get(t.Context(), logstore.Scope{}, late.ID); err != nil || got.Bodies == nil {
		t.Errorf("Get() = %+v, %v; want the bodies of an entry that stays", got, err)
	}
}
