package ledger_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

// mustCopy writes a copy to a new folder.
func mustCopy(t *testing.T, c *ledger.Copy) string {
	t.Helper()
	dir := t.TempDir()
	for _, s := range c.Segments() {
		content, err := io.ReadAll(s.Reader())
		if err != nil || int64(len(content)) != s.Size {
			t.Fatalf("segment %s: %d bytes, %v; want %d", s.Name, len(content), err, s.Size)
		}
		if err := os.WriteFile(filepath.Join(dir, s.Name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (m *memory) clone() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemory()
	maps.Copy(c.rows, m.rows)
	return c
}

// TestCopiesHaveWhatASnapshotLacks takes a snapshot of the store within a copy, while rows wait, are
// applied and are recorded, and segments are removed.
func TestCopiesHaveWhatASnapshotLacks(t *testing.T) {
	dir, rows := t.TempDir(), newMemory()
	l := mustOpen(t, ledger.Options{Dir: dir, Store: rows, SegmentSize: 4096})
	var all []reqlog.ID
	record := func(n int) {
		for range n {
			all = append(all, exchange(t, l))
		}
	}
	record(20)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows.setError(errAway)
	record(10)
	c, err := ledger.BeginCopy(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	snapshot := rows.clone()
	if n := len(snapshot.rows); n != 20 {
		t.Fatalf("the snapshot has %d rows, want 20", n)
	}
	rows.setError(nil)
	record(1)
	first := filepath.Join(dir, c.Segments()[0].Name)
	waittest.Until(t, "the first segment is removed", func() bool { return !slices.Contains(segments(t, dir), first) })
	if err := c.End(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	restored := mustOpen(t, ledger.Options{Dir: mustCopy(t, c), Store: snapshot})
	if err := restored.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, restored)
	slices.SortFunc(all, func(a, b reqlog.ID) int { return slices.Compare(a[:], b[:]) })
	if got := snapshot.ids(t); !slices.Equal(got, all) {
		t.Errorf("the restored store has %d rows, want %d", len(got), len(all))
	}
}

func TestCopiesNoticeSegmentsThatComeAndGo(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, ledger.Options{Dir: dir, SegmentSize: 4096})
	defer mustClose(t, l)
	exchange(t, l)
	c, err := ledger.BeginCopy(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waittest.Until(t, "the second segment is removed", func() bool {
		for range 20 {
			exchange(t, l)
		}
		list := segments(t, dir)
		return len(list) > 0 && list[0] >= filepath.Join(dir, "00000003.seg")
	})
	if err := c.End(); !errors.Is(err, ledger.ErrSegmentsGone) {
		t.Errorf("End() = %v, want %v", err, ledger.ErrSegmentsGone)
	}
}

// TestUnmarkedSegmentsAreLookedUp opens a ledger whose log was replaced by an older one.
func TestUnmarkedSegmentsAreLookedUp(t *testing.T) {
	dir, rows := t.TempDir(), newMemory()
	l := mustOpen(t, ledger.Options{Dir: dir, Store: rows})
	exchange(t, l)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	older := rows.clone()
	exchange(t, l)
	mustClose(t, l)
	for _, path := range segments(t, dir) {
		head, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := ledger.IsCopy(path, head); err != nil || !same {
			t.Errorf("IsCopy() of itself = %t, %v", same, err)
		}
		head[45]++ // of its id
		if same, err := ledger.IsCopy(path, head); err != nil || same {
			t.Errorf("IsCopy() of another = %t, %v", same, err)
		}
	}
	if err := ledger.Unmark(dir); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, ledger.Options{Dir: dir, Store: older})
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if got := older.ids(t); len(got) != 2 {
		t.Errorf("the restored store has %d rows, want 2", len(got))
	}
}
