package logstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

func TestAFullDiskKeepsEntriesUntilThereIsRoom(t *testing.T) {
	testTrouble(t, trouble{
		begin:  "max_page_count=1",
		end:    "max_page_count=1000000",
		says:   "full",
		filler: strings.Repeat("x", 8192),
	})
}

func TestAReadOnlyDiskKeepsEntriesUntilItIsWritable(t *testing.T) {
	testTrouble(t, trouble{begin: "query_only=1", end: "query_only=0", says: "readonly"})
}

type trouble struct{ begin, end, says, filler string }

// testTrouble records while the file can't take it: the queue fills, waiting
// ends with the context and is counted, nothing queued is lost, and all works
// again by itself.
func testTrouble(t *testing.T, tr trouble) {
	for range 20 {
		if tr.lasts(t) {
			return
		}
	}
	t.Fatal("each time the trouble was over before it was seen")
}

// lasts is false if the trouble was over too early: a connection that fails is
// replaced, and a pragma goes with it.
func (tr trouble) lasts(t *testing.T) bool {
	const queue = 10
	s := mustOpen(t, logstore.Options{Queue: queue, Batch: 1})
	s.Record(t.Context(), sampleEntry(0, time.Now()))
	mustFlush(t, s)

	s.Pragma(t, tr.begin)
	defer s.Pragma(t, tr.end) // closing waits until all is written
	record := func(ctx context.Context, i int) reqlog.ID {
		e := sampleEntry(i, time.Now())
		e.ErrorMessage = fmt.Sprint(i, tr.filler)
		s.Record(ctx, e)
		return e.ID
	}
	first := record(t.Context(), 1)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	flushed := s.Flush(short)
	// The writer holds the first entry, or all: the queue fits ten more.
	ended, end := context.WithCancel(t.Context())
	end()
	const more = 2*queue + 5
	for i := range more {
		record(ended, 2+i)
	}
	stats := s.Stats()
	if stats.Written > 1 || stats.LastError == "" { // over, or not yet seen
		return false
	}
	if !errors.Is(flushed, context.DeadlineExceeded) {
		t.Fatalf("Flush() = %v; want a wait that ends with its context", flushed)
	}
	if stats.Lost == 0 || stats.Depth+int(stats.Lost) != more+1 || !strings.Contains(stats.LastError, tr.says) {
		t.Fatalf("Stats() = %+v; want %d in depth and lost together, and an error that says %s", stats, more+1, tr.says)
	}

	s.Pragma(t, tr.end)
	mustFlush(t, s)
	after := s.Stats()
	if after.Depth != 0 || after.LastError != "" || after.Lost != stats.Lost || int(after.Written) != 1+stats.Depth {
		t.Errorf("Stats() after = %+v; want %d written, %d lost, no error", after, 1+stats.Depth, stats.Lost)
	}
	if _, err := s.Get(t.Context(), logstore.Scope{}, first); err != nil {
		t.Errorf("Get() of an entry that waited: %v", err)
	}
	return true
}

func TestRecordWaitsForRoom(t *testing.T) {
	s := mustOpen(t, logstore.Options{Queue: 2, Batch: 1})
	s.Pragma(t, "query_only=1")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			s.Record(t.Context(), sampleEntry(i, time.Now()))
		}
	}()
	for s.Stats().LastError == "" {
		mustYield(t, done)
	}
	s.Pragma(t, "query_only=0")
	waittest.Receive(t, done, "the writer")
	mustFlush(t, s)
	if got := s.Stats(); got.Written != 50 || got.Lost != 0 {
		t.Errorf("Stats() = %+v; want 50 written, none lost", got)
	}
}

// mustYield lets others run, and fails when done is closed already.
func mustYield(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
		t.Fatal("Record() did not wait for room")
	case <-time.After(time.Millisecond):
	}
}

func TestCloseWritesWhatWaits(t *testing.T) { onBoth(t, testCloseWritesWhatWaits) }

func testCloseWritesWhatWaits(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{Flush: time.Hour}))
	e := sampleEntry(1, time.Now())
	s.Record(t.Context(), e)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Record(t.Context(), sampleEntry(2, time.Now()))
	if got := s.Stats(); got.Lost != 1 || got.Depth != 0 {
		t.Errorf("Stats() = %+v; want the entry after Close lost", got)
	}
	again := mustOpen(t, at.with(logstore.Options{}))
	if _, err := again.Get(t.Context(), logstore.Scope{}, e.ID); err != nil {
		t.Errorf("Get() after opening again: %v", err)
	}
}

func TestCloseEndsWithItsContextAndCountsTheLoss(t *testing.T) {
	s := mustOpen(t, logstore.Options{Batch: 1})
	s.Exec(t, "ALTER TABLE blocks RENAME TO blocks_away")
	for i := range 3 {
		s.Record(t.Context(), sampleEntry(i, time.Now()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 entries lost") {
		t.Errorf("Close() = %v; want the loss of 3 and the deadline", err)
	}
	if got := s.Stats(); got.Lost != 3 || got.Depth != 0 {
		t.Errorf("Stats() = %+v; want 3 lost", got)
	}
}

func TestAnEntryWaitsNoLongerThanFlush(t *testing.T) {
	s := mustOpen(t, logstore.Options{Flush: time.Millisecond})
	e := sampleEntry(1, time.Now())
	s.Record(t.Context(), e)
	for s.Stats().Written == 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the entry was not written by itself")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestReadersAndWritersDoNotWaitForEachOther(t *testing.T) {
	onBoth(t, testReadersAndWritersDoNotWaitForEachOther)
}

func testReadersAndWritersDoNotWaitForEachOther(t *testing.T, at place) {
	s := mustOpen(t, at.with(logstore.Options{Batch: 20, Flush: time.Millisecond}))
	var writers, readers sync.WaitGroup
	const perWriter = 2000
	for w := range 4 {
		writers.Go(func() {
			for i := range perWriter {
				e := sampleEntry(i, time.Now())
				e.Workspace = fmt.Sprint(w)
				s.Record(t.Context(), e)
			}
		})
	}
	stop := make(chan struct{})
	for r := range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				page, err := s.List(t.Context(), logstore.Query{Workspace: fmt.Sprint(r), Limit: 50})
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range page.Entries {
					if _, err := s.Get(t.Context(), logstore.Scope{}, e.ID); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	mustFlush(t, s)
	close(stop)
	readers.Wait()
	if got := s.Stats(); got.Written != 4*perWriter || got.Lost != 0 {
		t.Errorf("Stats() = %+v; want %d written, none lost", got, 4*perWriter)
	}
}

const crashPath = "LOGSTORE_TEST_CRASH_PATH"

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(crashPath); path != "" {
		recordUntilKilled(path)
	}
	os.Exit(m.Run())
}

// recordUntilKilled records and says after each flush how much is safe.
func recordUntilKilled(path string) {
	ctx := context.Background()
	s, err := logstore.Open(ctx, logstore.Options{Path: path, Flush: time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		s.Record(ctx, sampleEntry(i, time.Now()))
		if i%997 == 0 {
			if err := s.Flush(ctx); err != nil {
				os.Exit(1)
			}
			fmt.Println(i + 1)
		}
	}
}

func TestAKilledProcessLosesOnlyWhatWasQueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	safe := 0
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), crashPath+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		flushed := 0
		for flushed < 997*(3+round) {
			if _, err := fmt.Fscan(out, &flushed); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // killed, as it should be
		safe += flushed
	}
	s := mustOpen(t, logstore.Options{Path: path})
	if got := countAll(t, s); got < safe {
		t.Errorf("after three kills %d entries can be read, want the %d that were flushed", got, safe)
	}
	mustBeIntact(t, path)
}

func countAll(t *testing.T, s *logstore.Store) int {
	t.Helper()
	q, n := logstore.Query{Limit: 1000}, 0
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

func mustBeIntact(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check = %q, %v; want ok", verdict, err)
	}
}

func TestAFileOfALaterFormatIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs.db")
	s := mustOpen(t, logstore.Options{Path: path})
	s.Pragma(t, "user_version=2")
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := logstore.Open(t.Context(), logstore.Options{Path: path})
	if err == nil || !strings.Contains(err.Error(), "newer modelgate") {
		t.Errorf("Open() = %v; want an error that asks for a newer modelgate", err)
	}
}
