package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/store"
)

// Blank writes an empty, up-to-date SQLite database with the triggers of
// [CheckRecorded] to the address dsn, unless there is a file, or no folder for it, or it
// is of another kind. A copy takes a small part of the time of all migrations.
// Benchmarks do without.
func Blank(t testing.TB, dsn string) {
	t.Helper()
	path, file := strings.CutPrefix(dsn, "file:")
	if _, measured := t.(*testing.B); measured || !file {
		return
	}
	content, err := blank()
	if err != nil {
		t.Fatalf("an empty database: %v", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
}

// blank is the content of such a file, made once for all tests of a binary.
var blank = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "modelgate-blank")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "modelgate.db")
	db, err := store.Open(context.Background(), "file:"+path, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	own, err := openNextTo(path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(noteWrites(context.Background(), own), own.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
