package logstore

import (
	"os"
	"testing"
)

// Size returns how many bytes the store's files take.
func (s *Store) Size(tb testing.TB) int64 {
	tb.Helper()
	var n int64
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(s.file.Path + suffix)
		if err != nil {
			tb.Fatal(err)
		}
		n += info.Size()
	}
	return n
}
