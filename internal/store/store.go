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
	"sync/atomic"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/journal"
	"modelgate/internal/sqlite"
	"modelgate/internal/sqlrow"
)

// DB is an open control-plane database. It is safe for concurrent use.
type DB struct {
	Queries // outside of any transaction

	read   *sql.DB // refuses changes
	write  *journal.DB
	engine engine
	mute   bool        // the audit log is not written
	ready  atomic.Bool // the tables are up to date
	close  func() error
}

// engine is what differs between the databases.
type engine struct {
	name     string
	lock     string           // taken by who migrates; empty where beginning does
	conflict func(error) bool // a row broke a constraint
	away     func(error) bool // the database can't be reached or written to now
	reason   func(error) string

	// listen calls its function for every notify until the connection fails.
	// Nil where nothing tells.
	listen func(context.Context, func()) error
}

// Queries reads rows, inside a transaction or outside of any. Its methods are in
// the files of the nouns.
type Queries struct{ Reader sqlrow.Reader }

// Tx is one change under way. It reads and writes rows and ends with the function
// it was given to.
type Tx struct {
	Queries
	change *journal.Tx
	mute   bool // as the database's
}

// Open opens the database at dsn and brings its tables up to date: "file:" and
// the path of an SQLite file, which is created when it is missing, or the
// "postgres://" address of a PostgreSQL database. Errors are one line for an
// operator.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	db, err := Connect(ctx, dsn, o)
	if err != nil {
		return nil, err
	}
	if _, err := db.Migrate(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// Connect is [Open] without a look at the tables. A PostgreSQL server need not
// be reachable yet: until [DB.Migrate] has succeeded every change is refused as
// one to a database that is away.
func Connect(ctx context.Context, dsn string, o Options) (*DB, error) {
	open := openSQLite
	switch scheme, _, ok := strings.Cut(dsn, "://"); {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		open = func(_ context.Context, dsn string) (*DB, error) { return openPostgres(dsn, o) }
	case ok && scheme != "file":
		return nil, fmt.Errorf("database: addresses of kind %s are not supported; use file: and the path of an SQLite file, or postgres://", scheme)
	}
	db, err := open(ctx, dsn)
	if err == nil {
		db.mute = o.NoAudit
	}
	return db, err
}

// Migrate brings the tables up to date and returns the names of the migrations
// that it applied. Processes that do so at the same time take turns. A database
// that can't be reached is an *apierr.Error of kind Unavailable.
func (db *DB) Migrate(ctx context.Context) (applied []string, err error) {
	// What is up to date already is not written to: it may be read-only now.
	missing, err := pending(ctx, db.Reader, migrations)
	if err != nil && !db.engine.away(err) || len(missing) > 0 {
		applied, err = migrate(ctx, db.write, db.engine.lock, migrations)
	}
	if err != nil && db.engine.away(err) {
		err = apierr.New(apierr.Unavailable, "can't be reached or written to: %s", db.engine.reason(err))
	}
	if err != nil {
		return applied, fmt.Errorf("database %s: %w", db.engine.name, err)
	}
	db.ready.Store(true)
	return applied, nil
}

// Missing returns the names of the migrations that Migrate would apply. Nothing
// is changed.
func (db *DB) Missing(ctx context.Context) ([]string, error) {
	missing, err := missing(ctx, db.write, migrations)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", db.engine.name, err)
	}
	return missing, nil
}

// Name is what the database is called in messages, without its password.
func (db *DB) Name() string { return db.engine.name }

// Remote reports whether the database is a server, which may be away while the
// machine is well.
func (db *DB) Remote() bool { return db.engine.listen != nil }

// Ready reports whether the tables are known to be up to date.
func (db *DB) Ready() bool { return db.ready.Load() }

func openSQLite(ctx context.Context, dsn string) (*DB, error) {
	file, err := sqlite.Open(ctx, sqlite.Options{Path: dsn})
	if err != nil {
		return nil, err
	}
	return &DB{
		Queries: Queries{file.Read},
		read:    file.Read,
		write:   journal.New(file.Write, ""),
		engine:  engine{name: file.Path, conflict: sqlite.Conflict, away: sqliteAway, reason: error.Error},
		close:   file.Close,
	}, nil
}

// sqliteAway reports a file that is locked for too long, gone, read-only,
// damaged or on a full disk.
func sqliteAway(err error) bool {
	return sqlite.IsBusy(err) || sqlite.IsCorrupt(err) || sqlite.IsFull(err) || errors.Is(err, context.DeadlineExceeded)
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
	if err := q.Reader.QueryRowContext(ctx, text).Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the revision: %w", err)
	}
	return n, nil
}

// changeTime is how long one change may take, so that a database that does not
// answer is told in time.
const changeTime = 15 * time.Second

// Update runs f, notes audit and raises the revision in one transaction. When
// f fails nothing is kept. A nil audit notes nothing: for what the program does
// by itself. Changes of all processes come one after the other, so f sees what
// every earlier one did, and nothing moves under it. A row that is at odds with
// another is an *apierr.Error of kind Conflict unless f says more, a database
// that can't be reached one of kind Unavailable.
func (db *DB) Update(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	return db.UpdateLong(ctx, audit, f)
}

// UpdateLong is [DB.Update] for as long as ctx lasts. Every other change waits
// in the meantime.
func (db *DB) UpdateLong(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	if !db.ready.Load() {
		return away(nil)
	}
	return db.ClientError(db.change(ctx, func(tx *Tx) error { return tx.run(ctx, audit, f) }))
}

// TryChange is [DB.UpdateLong] without its effect: everything is written and
// then rolled back. It returns the error that UpdateLong would return.
func (db *DB) TryChange(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	if !db.ready.Load() {
		return away(nil)
	}
	err := db.change(ctx, func(tx *Tx) error {
		if err := tx.run(ctx, audit, f); err != nil {
			return err
		}
		return errRolledBack
	})
	if errors.Is(err, errRolledBack) {
		return nil
	}
	return db.ClientError(err)
}

var errRolledBack = errors.New("rolled back")

// run runs f and notes audit, unless that is nil.
func (tx *Tx) run(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	if err := f(tx); err != nil || audit == nil {
		return err
	}
	return tx.Note(ctx, audit)
}

// change runs f in a transaction that raises the revision.
func (db *DB) change(ctx context.Context, f func(*Tx) error) error {
	return db.write.Change(ctx, func(change *journal.Tx) error { return f(db.tx(change)) })
}

// transact runs f in a transaction that makes no revision: no gateway reads what
// it writes.
func (db *DB) transact(ctx context.Context, f func(*Tx) error) error {
	return db.write.Transact(ctx, func(change *journal.Tx) error { return f(db.tx(change)) })
}

func (db *DB) tx(change *journal.Tx) *Tx { return &Tx{Queries{change}, change, db.mute} }

// ClientError turns what the database said into what a client may see: a row that is
// at odds with another into an *apierr.Error of kind Conflict, a database that is
// away into one of kind Unavailable. Other errors stay.
func (db *DB) ClientError(err error) error {
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
		return away(err)
	}
	return err
}

func away(err error) error {
	return apierr.New(apierr.Unavailable, "the control plane's database can't be reached or written to now; try again later; requests for models are served on").
		WithCode("database_unavailable").WithCause(err)
}

// View is [DB.Read] with errors that a client may see.
func (db *DB) View(ctx context.Context, f func(Queries) error) error {
	return db.ClientError(db.Read(ctx, f))
}

// Read runs f on the database as it is at one moment.
func (db *DB) Read(ctx context.Context, f func(Queries) error) error {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("reading the database: %w", err)
	}
	defer tx.Rollback()
	return f(Queries{tx})
}
