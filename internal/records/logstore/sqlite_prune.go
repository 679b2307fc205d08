package logstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"modelgate/internal/records/reqlog"
)

// Size of one step: some 10 ms, for which the writer waits.
const (
	pruneBlocks = 1024
	pruneBytes  = 4 << 20
)

// prune removes bodies before blocks, starting with bodies of entries removed in the
// last step, so that the remaining size is known.
func (k *sqliteBackend) prune(ctx context.Context, r Retention, now time.Time) (p Pruned, more bool, err error) {
	if err := k.create(ctx); err != nil {
		return p, false, err
	}
	if p, err = k.pruneBodies(ctx, r.bodiesFrom(now)); err != nil || p.Bodies > 0 {
		return p, true, err
	}
	used, err := k.used(ctx)
	if err != nil {
		return p, false, err
	}
	p, upTo, err := k.oldest(ctx, pruneBlocks, r.Bytes > 0, func(last reqlog.ID, p Pruned, held int64) bool {
		return p.Bytes < pruneBytes && (r.Bytes > 0 && used-held > r.Bytes || r.tooOld(last, now))
	})
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
		return Pruned{}, false, k.noteFailure(fmt.Errorf("removing log entries: %w", err))
	}
	return p, true, nil
}

// pruneBodies removes some of the bodies before from, and of those whose entries are
// gone.
func (k *sqliteBackend) pruneBodies(ctx context.Context, from reqlog.ID) (Pruned, error) {
	p, _, err := k.oldestBodies(ctx, k.read, from)
	if err != nil || p.Bodies == 0 {
		return p, err
	}
	tx, err := k.write.BeginTx(ctx, nil) // no batch may be written between reading and removing
	if err != nil {
		return Pruned{}, k.noteFailure(fmt.Errorf("removing bodies: %w", err))
	}
	defer tx.Rollback() // without effect once committed
	p, upTo, err := k.oldestBodies(ctx, tx, from)
	if err != nil {
		return Pruned{}, err
	}
	const q = `
		DELETE FROM bodies
		WHERE id <= $1`
	if _, err := tx.ExecContext(ctx, q, upTo[:]); err != nil {
		return Pruned{}, k.noteFailure(fmt.Errorf("removing bodies: %w", err))
	}
	if err := tx.Commit(); err != nil {
		return Pruned{}, k.noteFailure(fmt.Errorf("removing bodies: %w", err))
	}
	return p, nil
}

// prunable counts the content of blocks and bodies; the file has additional overhead.
func (k *sqliteBackend) prunable(ctx context.Context, r Retention, now time.Time) (Pruned, error) {
	const q = `
		SELECT (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM blocks) + (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM bodies)`
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
	p, upTo, err := k.oldest(ctx, math.MaxInt64, r.Bytes > 0, func(last reqlog.ID, _ Pruned, held int64) bool {
		return held < excess || r.tooOld(last, now)
	})
	if err != nil {
		return Pruned{}, err
	}
	before, err := firstRemainingID(ctx, k.read, upTo)
	if err != nil {
		return Pruned{}, err
	}
	if from := r.bodiesFrom(now); less(before, from) {
		before = from
	}
	bodies, _, err := bodiesBefore(ctx, k.read, before, math.MaxInt64, math.MaxInt64)
	p.add(bodies)
	return p, err
}

// oldest adds up to n blocks, as long as goes returns true for the next block and the
// sum before it, and returns the newest of them. Sizes include bodies if bodies is set.
func (k *sqliteBackend) oldest(ctx context.Context, n int64, bodies bool,
	goes func(last reqlog.ID, p Pruned, held int64) bool) (p Pruned, upTo block, err error) {
	const q = `
		SELECT last_id, serial, entries, LENGTH(data), CASE WHEN $1 THEN
			(SELECT COALESCE(SUM(LENGTH(data)), 0) FROM bodies WHERE id >= first_id AND id <= last_id) ELSE 0 END
		FROM blocks
		ORDER BY last_id, serial
		LIMIT $2`
	rows, err := k.read.QueryContext(ctx, q, bodies, n)
	if err != nil {
		return p, upTo, fmt.Errorf("reading the oldest log entries: %w", err)
	}
	defer rows.Close()
	upTo = block{serial: math.MinInt64}
	for held := int64(0); rows.Next(); {
		var last []byte
		var b block
		var size, more int64
		if err := rows.Scan(&last, &b.serial, &b.entries, &size, &more); err != nil {
			return p, upTo, fmt.Errorf("reading the oldest log entries: %w", err)
		}
		copy(b.last[:], last)
		if !goes(b.last, p, held) {
			break
		}
		p.add(Pruned{Blocks: 1, Entries: int64(b.entries), Bytes: size})
		held += size + more
		upTo = b
	}
	return p, upTo, rows.Err()
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// oldestBodies adds up the bodies that are removed in one step, and returns the newest
// of them.
func (k *sqliteBackend) oldestBodies(ctx context.Context, db queryer, from reqlog.ID) (p Pruned, upTo reqlog.ID, err error) {
	before, err := firstRemainingID(ctx, db, block{serial: math.MinInt64})
	if err != nil {
		return p, upTo, err
	}
	if less(before, from) {
		before = from
	}
	return bodiesBefore(ctx, db, before, pruneBlocks, pruneBytes)
}

// firstRemainingID returns the id before which there are no entries after removing all blocks
// up to gone. Blocks with the same slot may contain ids of each other, so it is the
// start of the first remaining block's slot.
func firstRemainingID(ctx context.Context, db queryer, gone block) (id reqlog.ID, err error) {
	const q = `
		SELECT last_id
		FROM blocks
		WHERE (last_id, serial) > ($1, $2)
		ORDER BY last_id, serial
		LIMIT 1`
	rows, err := db.QueryContext(ctx, q, gone.last[:], gone.serial)
	if err != nil {
		return id, fmt.Errorf("reading the oldest log entries: %w", err)
	}
	defer rows.Close()
	if !rows.Next() {
		return endOfIDs, rows.Err()
	}
	var last []byte
	if err := rows.Scan(&last); err != nil {
		return id, fmt.Errorf("reading the oldest log entries: %w", err)
	}
	copy(id[:], last)
	return idAt(slotOf(id) << slotBits), nil
}

// bodiesBefore adds up the bodies of ids before one, up to n bodies and about bytes
// bytes, and returns the newest of them.
func bodiesBefore(ctx context.Context, db queryer, before reqlog.ID, n, bytes int64) (p Pruned, upTo reqlog.ID, err error) {
	const q = `
		SELECT id, LENGTH(data)
		FROM bodies
		WHERE id < $1
		ORDER BY id
		LIMIT $2`
	rows, err := db.QueryContext(ctx, q, before[:], n)
	if err != nil {
		return p, upTo, fmt.Errorf("reading the oldest bodies: %w", err)
	}
	defer rows.Close()
	for p.Bytes < bytes && rows.Next() {
		var id []byte
		var size int64
		if err := rows.Scan(&id, &size); err != nil {
			return p, upTo, fmt.Errorf("reading the oldest bodies: %w", err)
		}
		copy(upTo[:], id)
		p.add(Pruned{Bodies: 1, Bytes: size})
	}
	return p, upTo, rows.Err()
}

// used returns the number of bytes of the file that are not free.
func (k *sqliteBackend) used(ctx context.Context) (n int64, err error) {
	const q = `
		SELECT (page_count - freelist_count) * page_size
		FROM pragma_page_count, pragma_freelist_count, pragma_page_size`
	if err := k.read.QueryRowContext(ctx, q).Scan(&n); err != nil {
		return 0, fmt.Errorf("measuring the log: %w", err)
	}
	return n, nil
}

// shrink frees some unused space of the file if there is more than new entries will
// soon need.
func (k *sqliteBackend) shrink(ctx context.Context) (more bool, err error) {
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
		return false, k.noteFailure(fmt.Errorf("freeing space: %w", err))
	}
	defer rows.Close()
	for rows.Next() { // one page each
	}
	return true, rows.Err()
}
