package logstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/postgres"
)

// postgresBackend stores blocks in PostgreSQL, in a schema of its own, so that the
// database may be the control plane's. The tables of blocks and bodies are partitioned
// by day (UTC) of their ids, or by parts of a busy day. Partitions are dropped as a
// whole, which frees their disk space at once.
type postgresBackend struct {
	tables
	name string

	mu   sync.Mutex
	days map[int64]struct{} // days that have a partition, as far as known; guarded by mu
}

// openServer does not wait for an unavailable server.
func openServer(ctx context.Context, o Options) (*postgresBackend, error) {
	o.Postgres.Setting = "MODELGATE_LOGS_DATABASE_URL or DATABASE_URL"
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
	if err := k.create(reach); err != nil && !k.isUnavailable(err) {
		return nil, errors.Join(fmt.Errorf("log database %s: %w", k.name, at.Explain(err)), k.close())
	} else if err != nil {
		o.Logger.Warn("log database unavailable; entries are queued", "database", k.name, "err", at.Reason(err))
	}
	return k, nil
}

// unprepared reports whether a table, partition or schema does not exist (42P01, 3F000,
// 23514), because it was dropped or a backup was restored.
func unprepared(err error) bool {
	switch postgres.Code(err) {
	case "42P01", "3F000", "23514":
		return true
	}
	return false
}

// lockTables lets one process at a time change tables. The number is arbitrary.
const lockTables = `SELECT pg_advisory_xact_lock(7305011976)`

// prepare creates the tables and the partitions of future days, or returns an error for
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
			addColumns("feedback", feedbackColumns),
			guardResultTable,
			`CREATE TABLE IF NOT EXISTS format (version BIGINT NOT NULL)`,
			`DELETE FROM format`,
			`INSERT INTO format (version) VALUES (` + strconv.Itoa(Format) + `)`,
		} {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("creating its tables: %w", err)
			}
		}
		return nil
	})
	const forbidden = "42501"
	if version == Format && postgres.Code(err) == forbidden {
		return nil // created by a user with more privileges
	}
	return err
}

// addColumns returns the statement that adds columns that a table lacks.
func addColumns(table string, columns []string) string {
	return `ALTER TABLE ` + table + ` ADD COLUMN IF NOT EXISTS ` + strings.Join(columns, `, ADD COLUMN IF NOT EXISTS `)
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

// bodiesByDay disables compression by the database for data that is already compressed.
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

// version returns the format of the tables, zero if there are none.
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

// change runs f in a transaction while no other process changes tables.
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

// ahead is the number of future days for which partitions are created, so that the
// first batch of a day needs none.
const ahead = 2

// ensurePartitions creates the partitions that a batch needs.
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

// partition creates the missing partitions of days. A partition is created as a table
// and then attached, which does not block other readers and writers.
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

// attach creates the first partition of a day if a table has none. It ends where the
// day's next slice begins.
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

// newPartition is a partition to be created: the rows with ids between two
// milliseconds.
type newPartition struct {
	table, name string
	from, to    int64
}

// attachNew creates a partition.
func attachNew(ctx context.Context, tx *sql.Tx, p newPartition) error {
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL)`, p.name, p.table)); err != nil {
		return err
	}
	return attachTable(ctx, tx, p)
}

// attachTable attaches an existing table as partition.
func attachTable(ctx context.Context, tx *sql.Tx, p newPartition) error {
	first, end := idAt(p.from), idAt(p.to)
	if p.to > maxMillis {
		end = endOfIDs
	}
	_, err := tx.ExecContext(ctx,
		fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('\x%x') TO ('\x%x')`, p.table, p.name, first[:], end[:]))
	return err
}

func exists(ctx context.Context, tx *sql.Tx, table string) (there bool, err error) {
	const q = `SELECT to_regclass($1) IS NOT NULL`
	err = tx.QueryRowContext(ctx, q, table).Scan(&there)
	return there, err
}

func (k *postgresBackend) isUnavailable(err error) bool { return postgres.IsUnavailable(err) }

// sync does nothing: what PostgreSQL has committed is durable.
func (k *postgresBackend) sync(context.Context) error { return nil }

func (k *postgresBackend) close() error { return errors.Join(k.read.Close(), k.write.Close()) }

var _ backend = (*postgresBackend)(nil)
