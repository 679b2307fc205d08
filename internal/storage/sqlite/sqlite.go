// Package sqlite opens SQLite files the one way this program uses them.
//
// A [DB] is a pool of connections for reading and a single one for writing,
// over a write-ahead log, so that readers never wait for the writer and two
// processes may share a file. Errors of opening a file are one line that says what to
// do. Tables and their migrations are the job of the stores.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "modernc.org/sqlite"
)

// Options say which file to open and how.
type Options struct {
	// Path is the file, as a plain path or as a "file:" address without
	// parameters. A missing file is created for its owner only (mode 0600);
	// its folder has to exist.
	Path string

	// Readers bounds the connections of the read pool. Zero means four.
	Readers int

	// Pragmas are run on every connection that writes, such as
	// "wal_autocheckpoint(4000)", in alphabetical order: page_size has no effect
	// together with auto_vacuum. They must not come from outside the program.
	Pragmas []string
}

// DB is one open file. Both halves are safe for concurrent use.
type DB struct {
	Path string // absolute

	// Read refuses every change.
	Read *sql.DB

	// Write holds one connection. Its transactions take the write lock when
	// they begin and wait up to five seconds for another process.
	Write *sql.DB
}

const busyTimeout = 5 * time.Second

// Open opens the file, creating it when it is missing.
func Open(ctx context.Context, o Options) (*DB, error) {
	path, err := cleanPath(o.Path)
	if err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, openError(path, err)
	}
	db := &DB{Path: path}
	if db.Write, err = pool(path, 1, writerParams(o.Pragmas)); err != nil {
		return nil, openError(path, err)
	}
	// The writer comes first: it turns the write-ahead log on, which a reader can't.
	if err := probe(ctx, db.Write); err != nil {
		db.Write.Close()
		return nil, openError(path, err)
	}
	if db.Read, err = pool(path, readers(o.Readers), readerParams()); err != nil {
		db.Write.Close()
		return nil, openError(path, err)
	}
	return db, nil
}

// openError returns the error of opening the file at path.
func openError(path string, err error) error {
	return fmt.Errorf("database %s: %w", path, Explain(err))
}

// Close closes both halves, the writer last, so that it can fold the
// write-ahead log into the file.
func (db *DB) Close() error { return errors.Join(db.Read.Close(), db.Write.Close()) }

// Redial closes the writing connection, and the next use of Write opens another.
// It makes the file again when it is gone.
func (db *DB) Redial() error {
	db.Write.SetMaxIdleConns(0)
	db.Write.SetMaxIdleConns(1)
	return create(db.Path)
}

func readers(n int) int {
	if n > 0 {
		return n
	}
	return 4
}

func cleanPath(p string) (string, error) {
	if rest, ok := strings.CutPrefix(p, "file:"); ok {
		p = strings.TrimPrefix(rest, "//")
		if strings.ContainsRune(p, '?') {
			return "", fmt.Errorf("database %q: parameters after ? are not supported; use only the path", p)
		}
	}
	if p == "" || strings.HasPrefix(p, ":memory:") {
		return "", errors.New("database: a file path is required, for example file:/var/lib/modelgate/modelgate.db")
	}
	return filepath.Abs(p)
}

// create makes the file before SQLite does, because SQLite would let others
// read it; the log and its index inherit the mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func pool(path string, size int, params url.Values) (*sql.DB, error) {
	address := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + params.Encode()
	connector, err := driver.NewConnector(address)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}

func writerParams(pragmas []string) url.Values {
	v := url.Values{
		"_txlock":       {"immediate"},
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_foreign_keys": {"on"},
	}
	for _, p := range pragmas {
		v.Add("_pragma", p)
	}
	return v
}

func readerParams() url.Values {
	return url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_query_only":   {"on"},
	}
}

// probe makes the first connection. Turning the write-ahead log on needs the
// file alone and does not wait by itself, so two processes that start together
// take turns here.
func probe(ctx context.Context, db *sql.DB) error {
	const pause = 20 * time.Millisecond
	for end := time.Now().Add(busyTimeout); ; {
		err := touch(ctx, db)
		if err == nil || !IsBusy(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// touch takes the write lock, which finds a folder or file that can't be
// written to now and not at the first change.
func touch(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return tx.Rollback()
}

// Inspect opens an existing file for reading and changes nothing, not even the files next to
// it unless a process that has crashed left its log there. The error of a missing file is an
// fs.ErrNotExist.
func Inspect(ctx context.Context, path string) (*sql.DB, string, error) {
	path, err := cleanPath(path)
	if err != nil {
		return nil, path, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, path, openError(path, err)
	}
	params := readerParams()
	params.Set("mode", "ro")
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		params.Set("immutable", "1") // nobody has it open, and an index would be created otherwise
	}
	db, err := pool(path, 1, params)
	if err != nil {
		return nil, path, openError(path, err)
	}
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&n); err != nil {
		db.Close()
		return nil, path, openError(path, err)
	}
	return db, path, nil
}
