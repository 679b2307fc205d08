package logstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"modelgate/internal/postgres"
	"modelgate/internal/reqlog"
)

// postgresBackend keeps blocks in a PostgreSQL database, in a schema of its own, so
// that the database may be the control plane's. The tables of blocks and bodies
// have partitions for each day (UTC) of their ids, or for parts of a day with much
// in it. They are removed as a whole, so that the disk has their room at once.
type postgresBackend struct {
	tables
	name string

	mu   sync.Mutex
	days map[int64]struct{} // that have a partition, for all we know; guarded by mu
}

// openServer does not wait for a server that is away.
func openServer(ctx context.Context, o Options) (*postgresBackend, error) {
	at, err := postgres.ParseServer(o.URL, o.Postgres)
	if err != nil {
		return nil, err
	}
	const path = `SET search_path = modelgate_logs; `
	k := &postgresBackend{name: at.Name, days: make(map[int64]struct{})}
	k.read = at.Pool(poolSize, path+`SET default_transaction_read_only = on`)
	k.write = at.Pool(2, path+`SET idle_in_transaction_session_timeout = '30s'; SET lock_timeout = '10s'`)
	k.tables.prepare, k.tables.lost, k.tables.cut, k.tables.room = k.prepare, unprepared, postgres.IsConnectionLost, k.ensurePartitions
	reach, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := k.prepared(reach); err != nil && !k.away(err) {
		return nil, errors.Join(fmt.Errorf("log database %s: %w", k.name, err), k.close())
	} else if err != nil {
		o.Logger.Warn("the log's database can't be reached; entries wait", "database", k.name, "err", postgres.Reason(err))
	}
	return k, nil
}

// unprepared reports that a table, partition or schema is not there (42P01,
// 3F000, 23514): somebody has removed it, or put back a backup.
func unprepared(err error) bool {
	switch postgres.Code(err) {
	case "42P01", "3F000", "23514":
		return true
	}
	return false
}

// lockTables lets one process at a time change tables. The number is our own.
const lockTables = `SELECT pg_advisory_xact_lock(7305011976)`

// prepare makes the tables and the partitions of future days, or refuses
// tables of a later format.
func (k *postgresBackend) prepare(ctx context.Context) error {
	k.mu.Lock()
	clear(k.days)
	k.mu.Unlock()
	version, err := k.version(ctx)
	if err == nil {
		err = newer(version)
	}
	if err != nil {
		return err
	}
	err = k.change(ctx, func(tx *sql.Tx) error {
		for _, q := range []string{
			`CREATE SCHEMA IF NOT EXISTS modelgate_logs`,
			blocksByDay,
			bodiesByDay,
			rollupTables,
			feedbackTable,
			`CREATE TABLE IF NOT EXISTS format (version BIGINT NOT NULL)`,
			`DELETE FROM format`,
			`INSERT INTO format (version) VALUES (` + strconv.Itoa(format) + `)`,
		} {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("creating its tables: %w", err)
			}
		}
		return nil
	})
	const forbidden = "42501"
	if version == format && postgres.Code(err) == forbidden {
		return nil // all is there, made by somebody with more rights
	}
	return err
}

const blocksByDay = `
	CREATE TABLE IF NOT EXISTS blocks (
		last_id BYTEA NOT NULL,
		serial BIGINT NOT NULL,
		first_id BYTEA NOT NULL,
		entries BIGINT NOT NULL,
		data BYTEA NOT NULL,
		PRIMARY KEY (last_id, serial)
	) PARTITION BY RANGE (last_id)`

// bodiesByDay: what is compressed already is not compressed again.
const bodiesByDay = `
	DO $$ BEGIN
		IF to_regclass('bodies') IS NULL THEN
			CREATE TABLE bodies (
				id BYTEA NOT NULL PRIMARY KEY,
				data BYTEA NOT NULL
			) PARTITION BY RANGE (id);
			ALTER TABLE bodies ALTER COLUMN data SET STORAGE EXTERNAL;
		END IF;
	END $$`

// version returns the format of the tables, zero when there are none.
func (k *postgresBackend) version(ctx context.Context) (n int, err error) {
	const q = `
		SELECT version
		FROM format`
	err = k.read.QueryRowContext(ctx, q).Scan(&n)
	if unprepared(err) || errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading its format: %w", err)
	}
	return n, nil
}

// change runs f in a transaction that no other process changes tables beside.
func (k *postgresBackend) change(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := k.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect once committed
	if _, err := tx.ExecContext(ctx, lockTables); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

const dayMillis = 24 * 60 * 60 * 1000

func dayOf(id reqlog.ID) int64 { return millis(id) / dayMillis }

// ahead is for how many future days partitions are made, so that the first
// batch of a day needs none.
const ahead = 2

// ensurePartitions makes the partitions that a batch needs.
func (k *postgresBackend) ensurePartitions(ctx context.Context, w *batchWriter) error {
	var missing []int64
	k.mu.Lock()
	for _, b := range w.blocks {
		if _, ok := k.days[dayOf(b.last)]; !ok {
			missing = append(missing, dayOf(b.last))
		}
	}
	k.mu.Unlock()
	if missing == nil {
		return nil
	}
	today := time.Now().UnixMilli() / dayMillis
	for d := range int64(ahead + 1) {
		missing = append(missing, today+d)
	}
	return k.partition(ctx, missing)
}

// partition makes the partitions of days that have none. One is made apart and
// then attached, which readers and writers of others need not wait for.
func (k *postgresBackend) partition(ctx context.Context, days []int64) error {
	err := k.change(ctx, func(tx *sql.Tx) error {
		for _, day := range days {
			for _, table := range []string{"blocks", "bodies"} {
				if err := attach(ctx, tx, table, day); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("making a day's partition: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, day := range days {
		k.days[day] = struct{}{}
	}
	return nil
}

// attach makes the partition that a day begins with, where a table has none. It
// ends where the day's next slice begins.
func attach(ctx context.Context, tx *sql.Tx, table string, day int64) error {
	if there, err := exists(ctx, tx, partitionName(table, day)); err != nil || there {
		return err
	}
	later, err := sliceStarts(ctx, tx, table, day)
	if err != nil {
		return err
	}
	return attachNew(ctx, tx, newPartition{table, partitionName(table, day), day * dayMillis, slices.Min(append(later, (day+1)*dayMillis))})
}

// newPartition is a part of a table to be made: the rows with ids between two milliseconds.
type newPartition struct {
	table, name string
	from, to    int64
}

// attachNew makes a partition.
func attachNew(ctx context.Context, tx *sql.Tx, p newPartition) error {
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL)`, p.name, p.table)); err != nil {
		return err
	}
	return attachTable(ctx, tx, p)
}

// attachTable makes a table that is there a partition.
func attachTable(ctx context.Context, tx *sql.Tx, p newPartition) error {
	first, end := idAt(p.from), idAt(p.to)
	if p.to > maxMillis {
		end = endOfIDs
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('\x%x') TO ('\x%x')`, p.table, p.name, first[:], end[:]))
	return err
}

func exists(ctx context.Context, tx *sql.Tx, table string) (there bool, err error) {
	const q = `SELECT to_regclass($1) IS NOT NULL`
	err = tx.QueryRowContext(ctx, q, table).Scan(&there)
	return there, err
}

func (k *postgresBackend) away(err error) bool { return postgres.IsUnavailable(err) }

// sync has nothing to do: what PostgreSQL has committed is safe.
func (k *postgresBackend) sync(context.Context) error { return nil }

func (k *postgresBackend) close() error { return errors.Join(k.read.Close(), k.write.Close()) }

var _ backend = (*postgresBackend)(nil)
