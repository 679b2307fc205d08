package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/storage/tabledata"
	"modelgate/internal/store"
)

// batchSize is the size of the rows that are loaded together.
const batchSize = 8 << 20

// fillLog writes the rows of the log. Rows that are there must be the first rows of the
// source, in the order of keys, as an interrupted call leaves them.
func fillLog(ctx context.Context, from contents, to Place, progress Progress) (totals []Total, err error) {
	if len(from.log) == 0 {
		return nil, nil
	}
	logs, err := logstore.Open(ctx, to.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, logs.Close(ctx)) }()
	db, err := openLog(ctx, to.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	known, err := db.Tables(ctx)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int64)
	for _, t := range from.log {
		if err := t.Check(known); err != nil {
			return nil, fmt.Errorf("the log: %w", err)
		}
		if counts[t.Name], err = commonRows(ctx, from.logRows, db, t); err != nil {
			return nil, err
		}
	}
	for _, t := range from.log {
		l := loader{db: db, table: t, skip: counts[t.Name], prepare: logs.PrepareFor,
			progress: func(rows int64) { progress(logPart+t.Name, rows) }}
		want, err := l.load(ctx, from.logRows, tabledata.ByKey)
		if err != nil {
			return nil, err
		}
		got, err := verify(ctx, db, logPart, t, want)
		if err != nil {
			return nil, err
		}
		totals = append(totals, got)
	}
	return totals, nil
}

// verify reads the rows of a table, compares them with what was written, and returns their
// total.
func verify(ctx context.Context, db tabledata.DB, part string, t tabledata.Table, want *tabledata.Sums) (Total, error) {
	got, err := sum(ctx, db, t, nil)
	if err == nil && !got.Equal(want) {
		err = fmt.Errorf("table %s has %d rows that differ from the %d rows of the source; something else writes to it", part+t.Name, got.Rows, want.Rows)
	}
	return Total{part + t.Name, got}, err
}

// commonRows returns the number of rows of a table, which must be the first rows of the
// source.
func commonRows(ctx context.Context, from source, db tabledata.DB, t tabledata.Table) (int64, error) {
	got, err := sum(ctx, db, t, nil)
	if err != nil || got.Rows == 0 {
		return 0, err
	}
	first := tabledata.NewSums(t)
	err = eachRow(ctx, from, t, tabledata.ByKey, func(fields []byte) error {
		if first.Rows < got.Rows {
			first.Add(fields)
		}
		return nil
	})
	if err == nil && !got.Equal(first) {
		err = fmt.Errorf("table %s of the target's log has other rows than the source; choose an empty database or folder", t.Name)
	}
	return got.Rows, err
}

// openLog opens the tables of a log for writing.
func openLog(ctx context.Context, o logstore.Options) (tabledata.DB, error) {
	if o.URL == "" {
		return tabledata.OpenFile(ctx, o.Path, tabledata.Writing)
	}
	return connect(ctx, o.URL, o.Postgres, logSchema)
}

// loader loads rows of a source into a table.
type loader struct {
	db       tabledata.DB
	table    tabledata.Table
	skip     int64                                            // first rows that are there
	prepare  func(ctx context.Context, ids []reqlog.ID) error // called before rows with these keys are written; nil for none
	within   bool                                             // within a transaction of the caller
	progress func(rows int64)

	batch tabledata.Batch
	ids   map[int64]reqlog.ID // one of each day in batch
}

// load loads the rows and returns the sums of all rows of the source.
func (l *loader) load(ctx context.Context, from source, o tabledata.Order) (*tabledata.Sums, error) {
	l.batch.Columns, l.ids = len(l.table.Columns), make(map[int64]reqlog.ID)
	key := slices.IndexFunc(l.table.Columns, func(c tabledata.Column) bool { return c.Key == 1 && c.Type == tabledata.Bytea })
	sums := tabledata.NewSums(l.table, summed...)
	err := eachRow(ctx, from, l.table, o, func(fields []byte) error {
		sums.Add(fields)
		if sums.Rows%progressRows == 0 {
			l.progress(sums.Rows)
		}
		if sums.Rows <= l.skip {
			return nil
		}
		if key >= 0 && l.prepare != nil {
			l.note(tabledata.Field(fields, key))
		}
		l.batch.Add(fields)
		if l.batch.Size() >= batchSize {
			return l.flush(ctx)
		}
		return nil
	})
	if err == nil && l.batch.Rows > 0 {
		err = l.flush(ctx)
	}
	return sums, err
}

// note remembers one key of each day.
func (l *loader) note(key []byte) {
	var id reqlog.ID
	copy(id[:], key)
	l.ids[id.Time().Unix()/secondsOfDay] = id
}

const secondsOfDay = 24 * 60 * 60

// flush loads the batch.
func (l *loader) flush(ctx context.Context) error {
	if len(l.ids) > 0 {
		if err := l.prepare(ctx, slices.Collect(maps.Values(l.ids))); err != nil {
			return err
		}
		clear(l.ids)
	}
	if l.within {
		return l.db.Load(ctx, l.table, l.batch.Reader())
	}
	if err := l.db.Exec(ctx, `BEGIN`); err != nil {
		return err
	}
	if err := l.db.Load(ctx, l.table, l.batch.Reader()); err != nil {
		return errors.Join(err, l.db.Exec(context.WithoutCancel(ctx), `ROLLBACK`))
	}
	return l.db.Exec(ctx, `COMMIT`)
}

// fillControl replaces the tables of the control plane in one step.
func fillControl(ctx context.Context, from contents, to Place, progress Progress) (totals []Total, err error) {
	if postgres.IsAddress(to.Control) {
		db, err := connect(ctx, to.Control, to.Options.Postgres(), "")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		if err := db.Exec(ctx, `BEGIN`); err != nil {
			return nil, err
		}
		if err := dropTables(ctx, db); err != nil {
			return nil, err
		}
		if totals, err = writeControl(ctx, from, db, progress); err != nil {
			return nil, err
		}
		return totals, db.Exec(ctx, `COMMIT`)
	}
	path := filePath(to.Control)
	fresh := path + ".new"
	for _, name := range []string{fresh, fresh + "-wal", fresh + "-shm"} {
		if err := remove(name); err != nil {
			return nil, err
		}
	}
	db, err := tabledata.OpenFile(ctx, fresh, tabledata.Writing)
	if err != nil {
		return nil, err
	}
	err = db.Exec(ctx, `BEGIN IMMEDIATE`)
	if err == nil {
		totals, err = writeControl(ctx, from, db, progress)
	}
	if err == nil {
		err = db.Exec(ctx, `COMMIT`)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return totals, replace(fresh, path)
}

// replace replaces an SQLite file that no process uses.
func replace(fresh, path string) error {
	f, err := os.OpenFile(fresh, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close(), remove(path+"-wal"), remove(path+"-shm")); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// remove removes a file if it exists.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// dropTables drops the control plane's tables in PostgreSQL, and the counters of limits: gateways
// fill them again from the totals of budgets. Other tables stay.
func dropTables(ctx context.Context, db tabledata.DB) error {
	const counters = `
		DO $$ BEGIN
			IF to_regclass('modelgate_limits.counters') IS NOT NULL THEN
				DELETE FROM modelgate_limits.counters;
				DELETE FROM modelgate_limits.batches;
			END IF;
		END $$`
	dir, err := os.MkdirTemp("", "modelgate-schema")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := store.Migrations()
	if err != nil {
		return err
	}
	p, err := newPristine(ctx, dir, len(all))
	if err != nil {
		return err
	}
	defer p.Close()
	names := store.HistoryTables()
	for _, t := range p.tables {
		names = append(names, `"`+t.Name+`"`)
	}
	return db.Exec(ctx, `DROP TABLE IF EXISTS `+strings.Join(names, `, `)+`;`+counters)
}

// writeControl creates the tables of the control plane in a transaction of the caller,
// writes their rows, verifies them, and brings the tables up to date.
func writeControl(ctx context.Context, from contents, db tabledata.DB, progress Progress) (totals []Total, err error) {
	all, err := store.Migrations()
	if err != nil {
		return nil, err
	}
	for i, m := range all {
		if i == from.version {
			if totals, err = writeRows(ctx, from, db, progress); err != nil {
				return nil, err
			}
		}
		if err := db.Exec(ctx, m.Text); err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.Name, err)
		}
	}
	if from.version == len(all) {
		return writeRows(ctx, from, db, progress)
	}
	return totals, nil
}

// writeRows replaces the rows that migrations made.
func writeRows(ctx context.Context, from contents, db tabledata.DB, progress Progress) (totals []Total, err error) {
	known, err := db.Tables(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(from.control) {
		if err := t.Check(known); err != nil {
			return nil, err
		}
		if err := db.Exec(ctx, `DELETE FROM "`+t.Name+`"`); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	for _, t := range from.control {
		l := loader{db: db, table: t, within: true, progress: func(rows int64) { progress(controlPart+t.Name, rows) }}
		want, err := l.load(ctx, from.controlRows, tabledata.Unordered)
		if err != nil {
			return nil, explainValue(err)
		}
		got, err := verify(ctx, db, controlPart, t, want)
		if err != nil {
			return nil, err
		}
		totals = append(totals, got)
	}
	return totals, nil
}

// explainValue says what to do about a value that PostgreSQL does not store (22021, 22P05):
// SQLite stores text that is not UTF-8 or has NUL bytes.
func explainValue(err error) error {
	switch postgres.Code(err) {
	case "22021", "22P05":
		return fmt.Errorf("%w; a value has bytes that are not text; correct it with the API and try again", err)
	}
	return sqlite.Explain(err)
}
