package logstore_test

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"modelgate/internal/records/logstore"
	"modelgate/internal/testing/storetest"
)

// place is where a test's log is kept: one of the two is given.
type place struct{ file, url string }

// onBoth runs f as a subtest with an empty place of each kind.
func onBoth(t *testing.T, f func(t *testing.T, at place)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { f(t, place{file: filepath.Join(t.TempDir(), "logs.db")}) })
	if testing.Short() {
		return
	}
	t.Run("postgres", func(t *testing.T) { f(t, place{url: storetest.Postgres(t)}) })
}

// fresh returns another, empty place of the same kind.
func (p place) fresh(t *testing.T) place {
	t.Helper()
	if p.url != "" {
		return place{url: storetest.Postgres(t)}
	}
	return place{file: filepath.Join(t.TempDir(), "logs.db")}
}

func (p place) with(o logstore.Options) logstore.Options {
	o.Path, o.URL = p.file, p.url
	return o
}

// spoil sets what is stored of the block after n older ones to an expression of SQLite's.
func (p place) spoil(t *testing.T, set string, n int) {
	t.Helper()
	if hex, ok := strings.CutPrefix(set, "x'"); ok && p.url != "" {
		set = `'\x` + hex
	}
	p.exec(t, `UPDATE blocks SET data = `+set+` WHERE last_id = (SELECT last_id FROM blocks ORDER BY last_id LIMIT 1 OFFSET `+strconv.Itoa(n)+`)`)
}

// exec runs a statement past the store.
func (p place) exec(t *testing.T, text string) {
	t.Helper()
	db := p.open(t)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func (p place) open(t *testing.T) *sql.DB {
	t.Helper()
	driver, dsn := "sqlite", p.file
	if p.url != "" {
		driver, dsn = "pgx", p.url+"&search_path=modelgate_logs"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// number reads a number past the store.
func (p place) number(t *testing.T, query string) (n int64) {
	t.Helper()
	db := p.open(t)
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
