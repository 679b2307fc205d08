// Package storetest runs tests of stored data on both databases.
//
// [Run] gives a test a new SQLite file and then a new PostgreSQL database, on the
// server named by TEST_POSTGRES, otherwise on a private server started from installed
// programs, which are installed if possible. It never skips a database: if PostgreSQL
// is not available, the test fails and says what to install. [NewServer] returns a
// private server that a test can stop and start.
package storetest

import (
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"modelgate/internal/store"
)

// Run runs f as a subtest on each database; with -short on SQLite only. Every call of
// open opens the same database again, as another process would; it is closed with the
// test.
func Run(t *testing.T, f func(t *testing.T, open func() *store.DB)) {
	t.Helper()
	Addresses(t, func(t *testing.T, dsn string) {
		f(t, func() *store.DB { return Open(t, dsn) })
	})
}

// Addresses is [Run] for tests that open the database themselves: dsn is an argument of
// [store.Open].
func Addresses(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { f(t, "file:"+filepath.Join(t.TempDir(), "modelgate.db")) })
	if testing.Short() {
		return
	}
	t.Run("postgres", func(t *testing.T) { f(t, Postgres(t)) })
}

// Open opens the database at dsn until the test ends, and checks it with
// [CheckRecorded].
func Open(t testing.TB, dsn string) *store.DB {
	t.Helper()
	Blank(t, dsn)
	db, err := store.Open(t.Context(), dsn, store.Options{Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	CheckRecorded(t, dsn)
	return db
}

// Postgres returns the address of a new, empty PostgreSQL database. It is
// dropped with the test.
func Postgres(t testing.TB) string {
	t.Helper()
	if given := os.Getenv("TEST_POSTGRES"); given != "" {
		return newDatabase(t, given)
	}
	s, err := shared()
	if err != nil {
		t.Fatalf("a PostgreSQL server for tests: %v", err)
	}
	return newDatabase(t, s.DSN())
}

// shared is the server shared by all tests of a binary. It ends with the process.
var shared = sync.OnceValues(func() (*Server, error) {
	s, err := prepare(nil)
	if err != nil {
		return nil, err
	}
	return s, s.start()
})

// newDatabase creates a database on the server at dsn.
func newDatabase(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("TEST_POSTGRES is not a postgres:// address")
	}
	name := "modelgate_test_" + rand.Text()
	Exec(t, dsn, `CREATE DATABASE "`+name+`"`)
	t.Cleanup(func() { Exec(t, dsn, `DROP DATABASE IF EXISTS "`+name+`" WITH (FORCE)`) })
	u.Path = "/" + name
	return u.String()
}

// Exec runs a statement on the database at dsn without the store. ALTER DATABASE
// CURRENT changes that database.
func Exec(t testing.TB, dsn, text string) {
	t.Helper()
	driver, address := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "file:"); ok {
		driver, address = "sqlite", path
	} else if u, err := url.Parse(dsn); err == nil {
		text = strings.Replace(text, "ALTER DATABASE CURRENT", `ALTER DATABASE "`+strings.TrimPrefix(u.Path, "/")+`"`, 1)
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ExecOn(t, db, text)
}
