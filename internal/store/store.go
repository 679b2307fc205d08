// Package store keeps the state of the control plane: gateway keys and the
// revision that tells a running gateway to read them again.
//
// Every change and the revision it makes are one transaction, and several
// processes may share the file, so a key made by one command is served by a
// gateway that runs. The SQL is text that PostgreSQL takes too: ids are
// time-ordered UUIDs and times are unix milliseconds, both made here; JSON is
// never queried. Who may change what is left to the control plane.
package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"modelgate/internal/sqlite"
)

// DB is an open control-plane database. It is safe for concurrent use.
type DB struct{ file *sqlite.DB }

// Open opens the database at dsn, "file:" and the path of an SQLite file, and
// brings its tables up to date. A missing file is created; its folder has to
// exist. Errors are one line for an operator.
func Open(ctx context.Context, dsn string) (*DB, error) {
	if scheme, _, ok := strings.Cut(dsn, "://"); ok && scheme != "file" {
		return nil, fmt.Errorf("database: addresses of kind %s are not supported; use file: and the path of an SQLite file", scheme)
	}
	file, err := sqlite.Open(ctx, sqlite.Options{Path: dsn})
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, file.Write, migrations); err != nil {
		file.Close()
		return nil, fmt.Errorf("database %s: %w", file.Path, err)
	}
	return &DB{file: file}, nil
}

// Close waits for what runs and closes the file.
func (db *DB) Close() error { return db.file.Close() }

// Revision returns a number that grows with every change, from zero for an
// empty database.
func (db *DB) Revision(ctx context.Context) (int64, error) {
	const q = `
		SELECT value
		FROM revision
		WHERE id = 1`
	var n int64
	if err := db.file.Read.QueryRowContext(ctx, q).Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the revision: %w", err)
	}
	return n, nil
}

// change runs f and raises the revision in the same transaction. When f fails
// nothing is kept.
func (db *DB) change(ctx context.Context, f func(*sql.Tx) error) error {
	const raise = `
		UPDATE revision
		SET value = value + 1
		WHERE id = 1`
	return transact(ctx, db.file.Write, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, raise); err != nil {
			return fmt.Errorf("raising the revision: %w", err)
		}
		return nil
	})
}

// transact runs f in a transaction that is kept only when f returns nil.
func transact(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a change: %w", err)
	}
	defer tx.Rollback() // without effect once committed
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("keeping a change: %w", err)
	}
	return nil
}
