package store

import (
	"context"
	"errors"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/postgres"
)

// Options configure the connection to a PostgreSQL database; see [postgres.Options].
// SQLite uses only the last field.
type Options struct {
	SSL, CA, Cert, Key string

	// Connections is the limit of each pool, here and in other stores. Zero means 12 for each
	// of the two here.
	Connections int

	// NoAudit disables the audit log, for either database.
	NoAudit bool
}

// Postgres returns the options of package postgres.
func (o Options) Postgres() postgres.Options {
	return postgres.Options{SSL: o.SSL, CA: o.CA, Cert: o.Cert, Key: o.Key, Connections: o.Connections}
}

func openPostgres(dsn string, o Options) (*DB, error) {
	at, err := postgres.ParseServer(dsn, o.Postgres())
	if err != nil {
		return nil, err
	}
	db := &DB{
		engine: engine{
			name: at.Name, lock: lockMigrations,
			conflict: postgres.IsConflict, away: postgres.IsUnavailable, explain: at.Explain,
		},
		// A process that stops within a transaction must not block all others.
		write: journal.New(at.Pool(0, `SET idle_in_transaction_session_timeout = '30s'`), notifyChange),
	}
	if at.CanListen() {
		db.engine.listen = func(ctx context.Context, l Listener) error { return pgListen(ctx, at, db.notify, l) }
	}
	read := at.Pool(0, `SET default_transaction_read_only = on`)
	db.read, db.Queries = read, Queries{read}
	db.close = func() error { return errors.Join(read.Close(), db.write.Close()) }
	return db, nil
}

// lockMigrations lets one process migrate at a time. The number is arbitrary.
const lockMigrations = `SELECT pg_advisory_xact_lock(7305011975)`

// notifyChange is sent by the server when the transaction is committed.
const notifyChange = `NOTIFY ` + changeChannel

// notify sends a notification without a change.
func (db *DB) notify(ctx context.Context, channel string) error {
	_, err := db.write.Exec(ctx, `SELECT pg_notify($1, '')`, channel)
	return err
}
