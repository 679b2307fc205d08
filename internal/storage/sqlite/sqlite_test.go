package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"modelgate/internal/storage/sqlite"
)

func TestTheReadPoolRefusesChanges(t *testing.T) {
	db := mustOpen(t)
	mustExec(t, db, "CREATE TABLE a (n BIGINT PRIMARY KEY)")
	if _, err := db.Read.Exec("INSERT INTO a (n) VALUES (1)"); err == nil {
		t.Error("writing through Read worked, want an error")
	}
}

func TestReadersSeeTheStateBeforeAnOpenChange(t *testing.T) {
	db := mustOpen(t)
	mustExec(t, db, "CREATE TABLE a (n BIGINT PRIMARY KEY)")
	tx, err := db.Write.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("INSERT INTO a (n) VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.Read.QueryRow("SELECT COUNT(*) FROM a").Scan(&n); err != nil || n != 0 {
		t.Errorf("rows during a change = %d, %v; want 0", n, err)
	}
}

func TestAKeyThatExistsIsAConflict(t *testing.T) {
	db := mustOpen(t)
	mustExec(t, db, "CREATE TABLE a (n BIGINT PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO a (n) VALUES (1)")
	_, err := db.Write.Exec("INSERT INTO a (n) VALUES (1)")
	if !sqlite.Conflict(err) || sqlite.IsBusy(err) || sqlite.IsCorrupt(err) {
		t.Errorf("Conflict, Busy, Broken(%v) = %t, %t, %t; want true, false, false", err, sqlite.Conflict(err), sqlite.IsBusy(err), sqlite.IsCorrupt(err))
	}
}

func TestAnInvalidRowIsNotAConflict(t *testing.T) {
	db := mustOpen(t)
	mustExec(t, db, "CREATE TABLE a (n BIGINT NOT NULL CHECK (n > 0))")
	for _, text := range []string{"INSERT INTO a (n) VALUES (NULL)", "INSERT INTO a (n) VALUES (0)"} {
		if _, err := db.Write.Exec(text); err == nil || sqlite.Conflict(err) {
			t.Errorf("%s: %v, a conflict: %t", text, err, sqlite.Conflict(err))
		}
	}
}

func TestRedialCreatesAMissingFileAgain(t *testing.T) {
	db := mustOpen(t)
	mustExec(t, db, "CREATE TABLE a (n BIGINT PRIMARY KEY)")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(db.Path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Redial(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "CREATE TABLE a (n BIGINT PRIMARY KEY)")
	info, err := os.Stat(db.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the new file: %v, %v; want mode 600", info, err)
	}
}

func TestOpeningEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.TempDir(), "a.db")}); err == nil {
		db.Close()
		t.Error("Open() with an ended context worked, want its error")
	}
}

func mustOpen(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "a.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t *testing.T, db *sqlite.DB, q string) {
	t.Helper()
	if _, err := db.Write.Exec(q); err != nil {
		t.Fatal(err)
	}
}
