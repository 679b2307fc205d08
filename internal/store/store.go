// Package store keeps the state of the control plane: who there is, what they
// own, what they did, and the revision that tells running gateways to read it
// again.
//
// Every change, the audit row that tells of it and the revision that it makes
// are one transaction. The SQL is one text for SQLite and PostgreSQL: ids are
// time-ordered UUIDs and times are unix milliseconds, both made here; JSON is
// never queried. Several processes may share a database. Who may change what is
// left to the control plane, what a gateway makes of the rows to server.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/sqlite"
)

// DB is an open control-plane database. It is safe for concurrent use.
type DB struct {
	Queries // outside of any transaction

	write  *sql.DB
	engine engine
	close  func() error
}

// engine is what differs between the databases.
type engine struct {
	name     string
	lock     string           // taken by who migrates; empty where beginning does
	conflict func(error) bool // a row broke a constraint
	away     func(error) bool // the database can't be reached or written to now
}

// Queries reads and writes rows, inside a transaction or outside of any. Its
// methods are in the files of the nouns.
type Queries struct{ q querier }

// querier is what *sql.DB and *sql.Tx have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is one change under way. It ends with the function it was given to.
type Tx struct{ Queries }

// Open opens the database at dsn and brings its tables up to date: "file:" and
// the path of an SQLite file, which is created when it is missing, or the
// "postgres://" address of a PostgreSQL database. Errors are one line for an
// operator.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	var db *DB
	var err error
	switch scheme, _, ok := strings.Cut(dsn, "://"); {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		db, err = openPostgres(ctx, dsn, o)
	case ok && scheme != "file":
		return nil, fmt.Errorf("database: addresses of kind %s are not supported; use file: and the path of an SQLite file, or postgres://", scheme)
	default:
		db, err = openSQLite(ctx, dsn)
	}
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, db.write, db.engine.lock, migrations); err != nil {
		db.Close()
		return nil, fmt.Errorf("database %s: %w", db.engine.name, err)
	}
	return db, nil
}

func openSQLite(ctx context.Context, dsn string) (*DB, error) {
	file, err := sqlite.Open(ctx, sqlite.Options{Path: dsn})
	if err != nil {
		return nil, err
	}
	return &DB{
		Queries: Queries{file.Read},
		write:   file.Write,
		engine:  engine{name: file.Path, conflict: sqlite.Conflict, away: func(err error) bool { return sqlite.Busy(err) || sqlite.Broken(err) }},
		close:   file.Close,
	}, nil
}

// Close waits for what runs and closes the database.
func (db *DB) Close() error { return db.close() }

// Revision returns a number that grows with every change, from zero for an
// empty database.
func (q Queries) Revision(ctx context.Context) (int64, error) {
	const text = `
		SELECT value
		FROM revision
		WHERE id = 1`
	var n int64
	if err := q.q.QueryRowContext(ctx, text).Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the revision: %w", err)
	}
	return n, nil
}

// Change runs f, notes audit and raises the revision in one transaction. When
// f fails nothing is kept. A nil audit notes nothing: for what the program does
// by itself. A row that breaks a constraint is an *apierr.Error of kind
// Conflict unless f says more, a database that can't be reached one of kind
// Unavailable.
func (db *DB) Change(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	const raise = `
		UPDATE revision
		SET value = value + 1
		WHERE id = 1`
	err := transact(ctx, db.write, func(tx *sql.Tx) error {
		q := Queries{tx}
		if err := f(&Tx{q}); err != nil {
			return err
		}
		if audit != nil {
			if err := q.addAudit(ctx, audit); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, raise); err != nil {
			return fmt.Errorf("raising the revision: %w", err)
		}
		return nil
	})
	return db.explain(err)
}

// explain turns what the database said into what a client may see.
func (db *DB) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		return err
	}
	switch {
	case db.engine.conflict(err):
		return apierr.New(apierr.Conflict, "this exists already, or something else refers to it").WithCause(err)
	case db.engine.away(err):
		return apierr.New(apierr.Unavailable, "the control plane's database can't be reached; requests for models are served on").WithCode("database_unavailable").WithCause(err)
	}
	return err
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
