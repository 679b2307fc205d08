package logstore

import (
	"context"
	"os"
	"testing"
)

// Path returns the store's file.
func (s *Store) Path() string { return s.keeper.(*sqliteBackend).file.Path }

// Size returns how many bytes the store's files take.
func (s *Store) Size(tb testing.TB) int64 {
	tb.Helper()
	var n int64
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(s.keeper.(*sqliteBackend).file.Path + suffix)
		if err != nil {
			tb.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// Pragma runs a pragma on the connection that writes.
func (s *Store) Pragma(tb testing.TB, pragma string) {
	tb.Helper()
	s.Exec(tb, "PRAGMA "+pragma)
}

// Exec runs a statement on the file. Unlike a pragma, what it changes outlasts the
// writer's connection, which is replaced after failures.
func (s *Store) Exec(tb testing.TB, statement string) {
	tb.Helper()
	if _, err := s.keeper.(*sqliteBackend).file.Write.ExecContext(context.Background(), statement); err != nil {
		tb.Fatal(err)
	}
}

// LookAtMost makes a page stop after n entries. Call it before reading.
func (s *Store) LookAtMost(entries int) { s.limits.entries = entries }

// ReadAtMost makes a page stop after n bytes. Call it before reading.
func (s *Store) ReadAtMost(bytes int) { s.limits.bytes = bytes }
