// Package filecache stores cached responses in an SQLite file.
//
// It guarantees that all entries together take at most a number of bytes, the oldest
// make room, and that a damaged or removed file is replaced by an empty one. A file that
// has more at first, because the number was lowered, shrinks with each write. The file
// belongs to one process. Sealing, deadlines and outages are the job of
// [respcache.Shared].
package filecache

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"modelgate/internal/cache/respcache"
	"modelgate/internal/storage/sqlite"
)

const schema = `
CREATE TABLE IF NOT EXISTS entries (
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	size INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	value BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_expires ON entries (expires, size);`

// overhead is about what an entry takes in the file next to its value, in bytes.
const overhead = 300

// mostFreed is about how many bytes one write frees beyond those that it adds, so that
// it ends within its deadline even if the limit was lowered by much.
const mostFreed = 32 << 20

// resetPause is the least time between two replacements of the file.
const resetPause = 10 * time.Second

// Options configure a backend.
type Options struct {
	Path   string       // of the file, which is created
	Size   int64        // limit in bytes of all entries
	Logger *slog.Logger // nil is silent
}

// Backend is a [respcache.Backend] in a file.
type Backend struct {
	Options
	db      atomic.Pointer[database]
	damaged atomic.Pointer[database] // the next write replaces it

	// The rest is used by Write, which is called by one goroutine.
	total int64 // bytes of all entries
	reset time.Time
}

var _ respcache.Backend = (*Backend)(nil)

// database is an open file.
type database struct {
	*sqlite.DB
	file os.FileInfo
}

// isAt reports whether path is still the open file. If it was removed, new connections
// would open another one.
func (d *database) isAt(path string) bool {
	file, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return os.SameFile(file, d.file)
}

// Open opens the file, and replaces it if it is damaged. The caller must call Close.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Backend{Options: o}
	err := b.open(ctx)
	if sqlite.IsDamaged(err) {
		o.Logger.Warn("cache file replaced; it is damaged", "file", o.Path, "err", err.Error())
		if err = b.removeFiles(); err == nil {
			err = b.open(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// open opens the file and reads how much is in it.
func (b *Backend) open(ctx context.Context) error {
	db, err := sqlite.Open(ctx, sqlite.Options{Path: b.Path})
	if err != nil {
		return err
	}
	if _, err = db.Write.ExecContext(ctx, schema); err == nil {
		err = db.Write.QueryRowContext(ctx, `SELECT COALESCE(SUM(size), 0) FROM entries`).Scan(&b.total)
	}
	var file os.FileInfo
	if err == nil {
		file, err = os.Stat(b.Path)
	}
	if err != nil {
		db.Close()
		return err
	}
	b.db.Store(&database{db, file})
	return nil
}

// removeFiles removes the file with its log.
func (b *Backend) removeFiles() error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(b.Path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Read implements [respcache.Backend].
func (b *Backend) Read(ctx context.Context, name string, most int) (value []byte, err error) {
	const text = `
		SELECT value
		FROM entries
		WHERE name = $1 AND length(value) <= $2`
	db := b.db.Load()
	err = db.Read.QueryRowContext(ctx, text, name, most).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	b.check(db, err)
	return value, err
}

// check makes the next write replace the file if err says that it is damaged.
func (b *Backend) check(db *database, err error) {
	if sqlite.IsDamaged(err) {
		b.damaged.Store(db)
	}
}

// Write implements [respcache.Backend].
func (b *Backend) Write(ctx context.Context, records []respcache.Record) error {
	if db := b.db.Load(); b.damaged.Load() == db || !db.isAt(b.Path) {
		if err := b.replace(ctx, db); err != nil {
			return err
		}
	}
	db := b.db.Load()
	err := b.write(ctx, db, records)
	b.check(db, err)
	return err
}

// replace replaces a damaged or removed file by an empty one.
func (b *Backend) replace(ctx context.Context, before *database) error {
	if time.Since(b.reset) < resetPause {
		return errors.New("the cache file is damaged or was removed")
	}
	b.reset = time.Now()
	b.Logger.Warn("cache file replaced; it is damaged or was removed", "file", b.Path)
	if err := b.removeFiles(); err != nil {
		return fmt.Errorf("removing the damaged cache file: %w", err)
	}
	if err := b.open(ctx); err != nil {
		return err
	}
	before.Close()
	return nil
}

// write stores records and removes the oldest ones, all or nothing.
func (b *Backend) write(ctx context.Context, db *database, records []respcache.Record) error {
	const remove = `
		DELETE FROM entries
		WHERE name = $1
		RETURNING size`
	const add = `
		INSERT INTO entries (name, size, expires, value)
		VALUES ($1, $2, $3, $4)`
	tx, err := db.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect once committed
	total, added, now := b.total, int64(0), time.Now()
	for _, r := range records {
		freed, err := removed(ctx, tx, remove, r.Name)
		if err != nil {
			return err
		}
		total -= freed
		size := int64(len(r.Value) + overhead)
		if size > b.Size {
			continue
		}
		if _, err := tx.ExecContext(ctx, add, r.Name, size, now.Add(r.TTL).UnixMilli(), r.Value); err != nil {
			return err
		}
		total, added = total+size, added+size
	}
	if err := removeExpired(ctx, tx, &total, now); err != nil {
		return err
	}
	if total, err = b.makeRoom(ctx, tx, total, added+mostFreed); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	b.total = total
	return nil
}

// removeExpired removes up to 64 expired entries and subtracts them from total.
func removeExpired(ctx context.Context, tx *sql.Tx, total *int64, now time.Time) error {
	const expired = `
		DELETE FROM entries
		WHERE id IN (SELECT id FROM entries WHERE expires <= $1 ORDER BY expires LIMIT 64)
		RETURNING size`
	freed, err := removed(ctx, tx, expired, now.UnixMilli())
	*total -= freed
	return err
}

// makeRoom removes the oldest entries until the total is within the limit, or about
// most bytes are free, and returns the total.
func (b *Backend) makeRoom(ctx context.Context, tx *sql.Tx, total, most int64) (int64, error) {
	const oldest = `
		DELETE FROM entries
		WHERE id IN (SELECT id FROM entries ORDER BY id LIMIT 16)
		RETURNING size`
	for sum := int64(0); total > b.Size && sum < most; {
		freed, err := removed(ctx, tx, oldest)
		if err != nil || freed == 0 {
			return total, err
		}
		total, sum = total-freed, sum+freed
	}
	return total, nil
}

// removed runs a statement that deletes entries, and returns their size.
func removed(ctx context.Context, tx *sql.Tx, text string, args ...any) (freed int64, err error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return 0, err
		}
		freed += n
	}
	return freed, rows.Err()
}

// Close implements [respcache.Backend].
func (b *Backend) Close() error { return b.db.Load().Close() }
