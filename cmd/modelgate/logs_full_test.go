package main

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// A driver's text says nothing about what to do.
func TestFullDiskIsExplained(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "full.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("PRAGMA max_page_count = 4; CREATE TABLE t (a)"); err != nil {
		t.Fatal(err)
	}
	_, full := db.Exec("INSERT INTO t VALUES (zeroblob(100000))")
	if got := explainFull(errors.Join(full, nil)); full == nil || !strings.Contains(got.Error(), "megabytes are free") || strings.Contains(got.Error(), "(13)") {
		t.Errorf("%v is explained as %v", full, got)
	}
	if other := errors.New("another"); explainFull(other) != other || explainFull(nil) != nil {
		t.Error("other errors are not returned as they are")
	}
}
