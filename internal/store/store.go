// Package store stores the state of the control plane: organisations, users and their
// objects, the audit log, and the revision by which running gateways notice changes.
//
// Every change is one transaction with its audit event and its revision. SQLite and
// PostgreSQL run the same SQL: ids are time-ordered UUIDs and times are unix
// milliseconds, both created here; JSON is never queried. Several processes may share a
// database. The package does not check permissions (see controlplane) or apply rows to
// requests (see server).
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/storage/sqlrow"
)

// DB is an open control-plane database. It is safe for concurrent use.
type DB struct {
	Queries // outside of transactions

	read    *sql.DB // read-only
	write   *journal.DB
	engine  engine
	mute    bool        // do not write the audit log
	ready   atomic.Bool // the tables are up to date
	reserve reserve
	close   func() error
	onEnded func([]EndedConnection) // see [DB.OnEnded]
}

// engine holds the differences between the databases.
type engine struct {
	name     string
	lock     string            // statement that locks migrations; empty if beginning a transaction locks
	conflict func(error) bool  // a constraint was violated
	away     func(error) bool  // the database cannot be reached or written to
	full     func(error) bool  // the disk of a file is full; nil without
	explain  func(error) error // the error, with a text that says what to change

	// listen passes notifications on until the connection fails. Nil means that none
	// are sent.
	listen func(context.Context, Listener) error
}

// Queries reads rows, in a transaction or outside. Its methods are in the files of the
// objects.
type Queries struct{ Reader sqlrow.Reader }

// Tx is an open transaction. It ends when the function it was given to returns.
type Tx struct {
	Queries
	change *journal.Tx
	mute   bool // see DB

	ended []EndedConnection // whose tokens the transaction deleted
}

// Open opens the database at dsn and migrates it. Dsn is "file:" and the path of an
// SQLite file, which is created if necessary, or the "postgres://" address of a
// PostgreSQL database. Errors are one line for an operator.
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

// Connect is [Open] without migrating. A PostgreSQL server need not be reachable yet:
// until [DB.Migrate] has succeeded, every change returns the error of an unavailable
// database.
func Connect(ctx context.Context, dsn string, o Options) (*DB, error) {
	open := openSQLite
	switch scheme, _, ok := strings.Cut(dsn, "://"); {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		open = func(_ context.Context, dsn string) (*DB, error) { return openPostgres(dsn, o) }
	case ok && scheme != "file":
		return nil, fmt.Errorf("database: addresses of kind %s are not supported; use file: and the path of an SQLite file, or postgres://",
			scheme)
	case keywords.MatchString(dsn):
		return nil, errors.New("database: addresses of keywords, such as host=…, are not supported; use postgres://user:password@host:5432/name")
	}
	db, err := open(ctx, dsn)
	if err == nil {
		db.mute = o.NoAudit
	}
	return db, err
}

// keywords matches the other form of a PostgreSQL address, such as "host=a dbname=b", which
// would be the name of a file.
var keywords = regexp.MustCompile(`^\s*(host|hostaddr|port|user|password|dbname|sslmode|service)\s*=`)

// Migrate applies the missing migrations and returns their names. Concurrent processes
// take turns. If the database cannot be reached it returns an *apierr.Error of kind
// Unavailable.
func (db *DB) Migrate(ctx context.Context) (applied []string, err error) {
	// An up-to-date database is not written to, because it may be read-only.
	missing, err := pending(ctx, db.Reader, migrations)
	if err != nil && !db.engine.away(err) || len(missing) > 0 {
		applied, err = migrate(ctx, db.write, db.engine.lock, migrations)
	}
	if err != nil && db.engine.away(err) {
		err = apierr.New(apierr.Unavailable, "cannot be reached or written to: %v", db.engine.explain(err))
	}
	if err != nil {
		return applied, fmt.Errorf("database %s: %w", db.engine.name, db.engine.explain(err))
	}
	db.ready.Store(true)
	return applied, nil
}

// Missing returns the names of the migrations that Migrate would apply. It changes
// nothing.
func (db *DB) Missing(ctx context.Context) ([]string, error) {
	missing, err := missing(ctx, db.write, migrations)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", db.engine.name, db.engine.explain(err))
	}
	return missing, nil
}

// Name returns the name of the database for messages, without its password.
func (db *DB) Name() string { return db.engine.name }

// Remote reports whether the database is a server, which may be unavailable while the
// host works.
func (db *DB) Remote() bool { return db.engine.listen != nil }

// ChangeDelay returns for how long the database has accepted no change, zero if it does.
func (db *DB) ChangeDelay() time.Duration { return db.write.Delay() }

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
		engine:  engine{name: file.Path, conflict: sqlite.Conflict, away: isSQLiteUnavailable, full: sqlite.IsFull, explain: sqlite.Explain},
		reserve: reserve{file.Path + "-reserve"},
		close:   file.Close,
	}, nil
}

// isSQLiteUnavailable reports whether the file is locked for too long, missing, read-only,
// damaged or on a full disk.
func isSQLiteUnavailable(err error) bool {
	return sqlite.IsBusy(err) || sqlite.IsCorrupt(err) || sqlite.IsFull(err) || errors.Is(err, context.DeadlineExceeded)
}

// Close waits for running statements and closes the database.
func (db *DB) Close() error { return db.close() }

// Revision returns a number that increases with every change, zero for an empty
// database.
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

// changeTime is the time limit of a change, after which an unresponsive database is
// reported.
const changeTime = 15 * time.Second

// Update runs f, records audit and increases the revision in one transaction, which is
// rolled back if f fails. A nil audit records nothing; it is for changes that the
// program makes by itself. Changes of all processes are serialised, so f sees all
// earlier changes and no concurrent ones. A violated constraint returns an
// *apierr.Error of kind Conflict unless f returns a more specific error, an unreachable
// database one of kind Unavailable. If the disk is full, a change with an audit event
// is repeated with the space that [DB.KeepReserve] has kept for it; f then runs again.
func (db *DB) Update(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	return db.UpdateLong(ctx, audit, f)
}

// UpdateLong is [DB.Update] without its time limit. All other changes wait for it.
func (db *DB) UpdateLong(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	if !db.ready.Load() {
		return unavailableError(nil)
	}
	change := func() error {
		return db.change(ctx, func(tx *Tx) error { return tx.run(ctx, audit, f) })
	}
	if audit == nil {
		return db.ClientError(change())
	}
	return db.ClientError(db.withReserve(change))
}

// TryChange is [DB.UpdateLong] with a rollback at the end. It returns the error that
// UpdateLong would return.
func (db *DB) TryChange(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	if !db.ready.Load() {
		return unavailableError(nil)
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

// run runs f and records audit, unless that is nil.
func (tx *Tx) run(ctx context.Context, audit *Audit, f func(*Tx) error) error {
	if err := f(tx); err != nil || audit == nil {
		return err
	}
	return tx.Note(ctx, audit)
}

// change runs f in a transaction that increases the revision.
func (db *DB) change(ctx context.Context, f func(*Tx) error) error {
	var tx *Tx
	err := db.write.Change(ctx, func(change *journal.Tx) error {
		tx = db.tx(change)
		return f(tx)
	})
	if err == nil && len(tx.ended) > 0 && db.onEnded != nil {
		db.onEnded(tx.ended)
	}
	return err
}

// transact runs f in a transaction without a revision, for rows that gateways do not
// publish.
func (db *DB) transact(ctx context.Context, f func(*Tx) error) error {
	return db.write.Transact(ctx, func(change *journal.Tx) error { return f(db.tx(change)) })
}

func (db *DB) tx(change *journal.Tx) *Tx {
	return &Tx{Queries: Queries{change}, change: change, mute: db.mute}
}

// ClientError converts an error of the database to one that clients may see: a violated
// constraint to an *apierr.Error of kind Conflict, an unavailable database to one of
// kind Unavailable. Other errors are returned unchanged.
func (db *DB) ClientError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		return err
	}
	switch {
	case db.engine.conflict(err):
		return apierr.New(apierr.Conflict, "the object already exists, or another object refers to it").WithCause(err)
	case db.engine.away(err):
		return unavailableError(err)
	}
	return err
}

func unavailableError(err error) error {
	return apierr.New(apierr.Unavailable, "the control plane's database is unavailable; try again later; model requests are still served").
		WithCode("database_unavailable").WithCause(err)
}

// View is [DB.Read] with errors converted by [DB.ClientError].
func (db *DB) View(ctx context.Context, f func(Queries) error) error {
	return db.ClientError(db.Read(ctx, f))
}

// Read runs f on a consistent snapshot of the database.
func (db *DB) Read(ctx context.Context, f func(Queries) error) error {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("reading the database: %w", err)
	}
	defer tx.Rollback()
	return f(Queries{tx})
}
