package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Options are how a PostgreSQL database is reached. SQLite takes none of them.
type Options struct {
	// SSL is DISABLED, PREFERRED (the default), REQUIRED, VERIFY_CA,
	// VERIFY_IDENTITY or CLOUD_A_BUNDLE, as DB_SSL in the environment says.
	SSL string
	// CA, Cert and Key are PEM texts or paths of files: the authority for the
	// modes that verify, and the client's own certificate. Both or none of Cert
	// and Key are given.
	CA, Cert, Key string

	// Connections bounds each of the two pools. Zero means 12.
	Connections int

	// NoAudit writes nothing into the audit log, of either database.
	NoAudit bool
}

func openPostgres(dsn string, o Options) (*DB, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("database: the postgres:// address can't be read; it has the form postgres://user:password@host:5432/name")
	}
	name := fmt.Sprintf("%s at %s", cfg.Database, cfg.Host)
	if o.SSL != "" || !strings.Contains(dsn, "sslmode=") {
		if err := o.secure(cfg); err != nil {
			return nil, fmt.Errorf("database %s: %w", name, err)
		}
	}
	cfg.ConnectTimeout = 10 * time.Second
	db := &DB{
		engine: engine{
			name: name, lock: lockMigrations, notify: notifyChange, conflict: pgConflict, away: pgAway, reason: pgReason,
			listen: func(ctx context.Context, changed func()) error { return pgListen(ctx, cfg, changed) },
		},
		// A process that stopped within a change must not hold up all others.
		write: pgPool(cfg, o.Connections, `SET idle_in_transaction_session_timeout = '30s'`),
	}
	read := pgPool(cfg, o.Connections, `SET default_transaction_read_only = on`)
	db.read, db.Queries = read, Queries{read}
	db.close = func() error { return errors.Join(read.Close(), db.write.Close()) }
	return db, nil
}

// pgPool returns a pool of connections, each of which begins with the statement
// first.
func pgPool(cfg *pgx.ConnConfig, size int, first string) *sql.DB {
	if size == 0 {
		size = 12
	}
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, first)
		return err
	}))
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// lockMigrations lets one process migrate at a time. The number is our own.
const lockMigrations = `SELECT pg_advisory_xact_lock(7305011975)`

// notifyChange is sent by the server when the transaction is kept.
const notifyChange = `NOTIFY modelgate_revision`

// pgConflict reports a row that is at odds with another: something refers to it
// (23001, 23503), or it exists (23505). A row that is wrong by itself, such as one
// that lacks a value, is a mistake of the program.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func pgConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "23001" || e.Code == "23503" || e.Code == "23505")
}

// pgAway reports a database that can't be reached or written to now: no
// connection (08), a change that was sacrificed to others (40), out of resources
// (53), a lock that is held for too long (55P03), stopped by an operator (57),
// failing disks (58), or read-only (25006).
func pgAway(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.SafeToRetry(err) {
		return true // whatever the server said of it, a wrong password too
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code[:min(2, len(e.Code))] {
		case "08", "40", "53", "57", "58":
			return true
		}
		return e.Code == "25006" || e.Code == "55P03"
	}
	for _, cut := range []error{driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, cut) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

// pgReason is what went wrong, without the address, which may hold a password.
func pgReason(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok { // names hosts, a line for each
		return strings.Join(strings.Fields(e.Unwrap().Error()), " ")
	}
	return "no connection could be made; check the address, DB_SSL and that the server runs"
}
