package logstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"modelgate/internal/reqlog"
	"modelgate/internal/sqlite"
)

// format is the version of the tables and of the blocks in them.
const format = 1

// pragmas of the writing connection. Blocks are tens of kilobytes, so larger
// pages and rarer checkpoints mean less bookkeeping per entry. Files that were
// made before pruning was keep the room that it frees, for later entries.
var pragmas = []string{"page_size(8192)", "auto_vacuum(2)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)"}

// fileKeeper keeps blocks in an SQLite file.
type fileKeeper struct {
	tables
	file   *sqlite.DB
	broken bool // the connection is to be replaced; only of interest to prepare
}

func openFile(ctx context.Context, path string) (*fileKeeper, error) {
	file, err := sqlite.Open(ctx, sqlite.Options{Path: path, Pragmas: pragmas})
	if err != nil {
		return nil, err
	}
	k := &fileKeeper{tables: tables{read: file.Read, write: file.Write, lost: sqlite.Broken}, file: file}
	k.tables.prepare = k.prepare
	if err := k.prepared(ctx); err != nil {
		file.Close()
		return nil, fmt.Errorf("log database %s: %w", file.Path, err)
	}
	return k, nil
}

// prepare makes the tables, or refuses a file of a later format. After a failure
// that may be the connection's own, because the file was moved, or its disk went
// away and came back, it replaces the connection.
func (k *fileKeeper) prepare(ctx context.Context) error {
	const schema = `
		CREATE TABLE IF NOT EXISTS blocks (
			last_id BYTEA NOT NULL,
			serial BIGINT NOT NULL,
			first_id BYTEA NOT NULL,
			entries BIGINT NOT NULL,
			data BYTEA NOT NULL,
			PRIMARY KEY (last_id, serial)
		) WITHOUT ROWID;
		CREATE TABLE IF NOT EXISTS bodies (
			id BYTEA NOT NULL PRIMARY KEY,
			data BYTEA NOT NULL
		)`
	if k.broken {
		if err := k.file.Redial(); err != nil {
			return err
		}
	}
	k.broken = true // from now on
	var version int
	if err := k.write.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return fmt.Errorf("reading its format: %w", err)
	}
	if err := newer(version); err != nil {
		return err
	}
	if _, err := k.write.ExecContext(ctx, schema+";"+rollupTables); err != nil {
		return fmt.Errorf("creating its tables: %w", err)
	}
	if _, err := k.write.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, format)); err != nil {
		return fmt.Errorf("noting its format: %w", err)
	}
	return nil
}

// newer refuses a format that is later than ours.
func newer(version int) error {
	if version <= format {
		return nil
	}
	return fmt.Errorf("its format %d is of a newer modelgate (this one knows %d); run that version or a later one", version, format)
}

func (k *fileKeeper) away(err error) bool {
	return sqlite.Busy(err) || sqlite.Broken(err) || sqlite.Full(err)
}

// sync syncs the write-ahead log, which SQLite itself leaves to its checkpoints.
func (k *fileKeeper) sync(context.Context) error {
	f, err := os.OpenFile(k.file.Path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a checkpoint has taken in all
	}
	if err != nil {
		return fmt.Errorf("syncing the log: %w", err)
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return fmt.Errorf("syncing the log: %w", err)
	}
	return f.Close()
}

func (k *fileKeeper) close() error { return k.file.Close() }

// What is removed at once: some 10 ms, for which the writer waits.
const (
	pruneBlocks = 1024
	pruneBytes  = 4 << 20
)

func (k *fileKeeper) prune(ctx context.Context, r Retention, now time.Time) (p Pruned, more bool, err error) {
	if err := k.prepared(ctx); err != nil {
		return p, false, err
	}
	used, err := k.used(ctx)
	if err != nil {
		return p, false, err
	}
	p, upTo, err := k.oldest(ctx, func(last reqlog.ID, p Pruned) bool {
		return p.Bytes < pruneBytes && (r.Bytes > 0 && used-p.Bytes > r.Bytes || r.tooOld(last, now))
	}, pruneBlocks)
	if err != nil {
		return Pruned{}, false, err
	}
	if p.Blocks == 0 {
		more, err = k.shrink(ctx)
		return p, more, err
	}
	const q = `
		DELETE FROM blocks
		WHERE (last_id, serial) <= ($1, $2)`
	if _, err := k.write.ExecContext(ctx, q, upTo.last[:], upTo.serial); err != nil {
		return Pruned{}, false, k.spoiled(fmt.Errorf("removing log entries: %w", err))
	}
	return p, true, nil
}

// prunable goes by what blocks hold, of which the file has more to keep.
func (k *fileKeeper) prunable(ctx context.Context, r Retention, now time.Time) (Pruned, error) {
	const q = `
		SELECT COALESCE(SUM(LENGTH(data)), 0)
		FROM blocks`
	var held int64
	if err := k.read.QueryRowContext(ctx, q).Scan(&held); err != nil {
		return Pruned{}, fmt.Errorf("measuring the log: %w", err)
	}
	used, err := k.used(ctx)
	if err != nil {
		return Pruned{}, err
	}
	excess := int64(0)
	if r.Bytes > 0 && used > r.Bytes {
		excess = int64(float64(used-r.Bytes) / float64(used) * float64(held))
	}
	p, _, err := k.oldest(ctx, func(last reqlog.ID, p Pruned) bool { return p.Bytes < excess || r.tooOld(last, now) }, math.MaxInt64)
	return p, err
}

// oldest sums up to n blocks, for as long as goes says so of the next one and
// what comes before it, and returns the newest of them.
func (k *fileKeeper) oldest(ctx context.Context, goes func(last reqlog.ID, p Pruned) bool, n int64) (p Pruned, upTo block, err error) {
	const q = `
		SELECT last_id, serial, entries, LENGTH(data)
		FROM blocks
		ORDER BY last_id, serial
		LIMIT $1`
	rows, err := k.read.QueryContext(ctx, q, n)
	if err != nil {
		return p, upTo, fmt.Errorf("reading the oldest log entries: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var last []byte
		var b block
		var size int64
		if err := rows.Scan(&last, &b.serial, &b.entries, &size); err != nil {
			return p, upTo, fmt.Errorf("reading the oldest log entries: %w", err)
		}
		copy(b.last[:], last)
		if !goes(b.last, p) {
			break
		}
		p.add(b.entries, size)
		upTo = b
	}
	return p, upTo, rows.Err()
}

// used returns how many bytes of the file are not free.
func (k *fileKeeper) used(ctx context.Context) (n int64, err error) {
	const q = `
		SELECT (page_count - freelist_count) * page_size
		FROM pragma_page_count, pragma_freelist_count, pragma_page_size`
	if err := k.read.QueryRowContext(ctx, q).Scan(&n); err != nil {
		return 0, fmt.Errorf("measuring the log: %w", err)
	}
	return n, nil
}

// shrink gives some of the file's free room back, when more is free than the
// entries of the next time will take.
func (k *fileKeeper) shrink(ctx context.Context) (more bool, err error) {
	const q = `
		SELECT page_count, freelist_count, auto_vacuum
		FROM pragma_page_count, pragma_freelist_count, pragma_auto_vacuum`
	var pages, free, mode int64
	if err := k.read.QueryRowContext(ctx, q).Scan(&pages, &free, &mode); err != nil {
		return false, fmt.Errorf("measuring the log: %w", err)
	}
	if mode != 2 || free <= max(1024, pages/8) {
		return false, nil
	}
	rows, err := k.write.QueryContext(ctx, `PRAGMA incremental_vacuum(256)`)
	if err != nil {
		return false, k.spoiled(fmt.Errorf("giving room back: %w", err))
	}
	defer rows.Close()
	for rows.Next() { // a page each
	}
	return true, rows.Err()
}

var _ keeper = (*fileKeeper)(nil)
