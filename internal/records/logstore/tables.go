package logstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"

	"modelgate/internal/records/reqlog"
)

// tables stores blocks in an SQL database. The statements are the same for all
// databases; each kind adds the other methods of [backend].
type tables struct {
	read, write *sql.DB

	prepare func(ctx context.Context) error                 // creates or checks the tables
	lost    func(error) bool                                // whether prepared statements must be prepared again
	cut     func(error) bool                                // whether the connection was lost and can be replaced; nil for none
	room    func(ctx context.Context, w *batchWriter) error // prepares space for a batch; nil if not needed

	mu    sync.Mutex
	ready bool // the tables exist; guarded by mu
}

// create creates the tables if necessary.
func (t *tables) create(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ready {
		return nil
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	t.ready = true
	return nil
}

// noteFailure returns err and records whether the tables must be prepared again.
func (t *tables) noteFailure(err error) error {
	if err != nil && t.lost(err) {
		t.mu.Lock()
		t.ready = false
		t.mu.Unlock()
	}
	return err
}

func (t *tables) keep(ctx context.Context, w *batchWriter) error {
	if err := t.create(ctx); err != nil {
		return err
	}
	if t.room != nil {
		if err := t.room(ctx, w); err != nil {
			return t.noteFailure(err)
		}
	}
	tx, err := t.write.BeginTx(ctx, nil)
	if err != nil {
		return t.noteFailure(fmt.Errorf("beginning a batch: %w", err))
	}
	defer tx.Rollback() // without effect once committed
	if err := t.add(ctx, tx, w); err != nil {
		if errors.Is(err, errBatchStored) {
			return nil
		}
		return t.noteFailure(err)
	}
	if err := tx.Commit(); err != nil {
		return t.noteFailure(fmt.Errorf("storing a batch: %w", err))
	}
	return nil
}

// add writes a batch. Blocks come first, because they reveal a batch that is already
// stored and must not be counted again.
func (t *tables) add(ctx context.Context, tx *sql.Tx, w *batchWriter) error {
	if err := addBlocks(ctx, tx, w.blocks); err != nil {
		return err
	}
	if err := addBodies(ctx, tx, w.bodies); err != nil {
		return err
	}
	return addRollups(ctx, tx, w.rollups)
}

func addBlocks(ctx context.Context, tx *sql.Tx, blocks []block) error {
	const q = `
		INSERT INTO blocks (last_id, serial, first_id, entries, data)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (last_id, serial) DO NOTHING`
	for _, b := range blocks {
		done, err := tx.ExecContext(ctx, q, b.last[:], b.serial, b.first[:], b.entries, b.data)
		if err != nil {
			return fmt.Errorf("writing a batch: %w", err)
		}
		if n, err := done.RowsAffected(); err == nil && n == 0 {
			return errBatchStored
		}
	}
	return nil
}

// Number of blocks read at once: few at first, because most readers need only the
// newest, and a server sends everything that it was asked for.
const (
	firstBlocks = 4
	mostBlocks  = 64
)

func (t *tables) blocks(ctx context.Context, from, before reqlog.ID) iter.Seq2[block, error] {
	return func(yield func(block, error) bool) {
		if err := t.create(ctx); err != nil {
			yield(block{}, err)
			return
		}
		next := block{last: slotEnd(before), serial: math.MinInt64}
		for n := firstBlocks; ; n = min(2*n, mostBlocks) {
			got := 0
			for b, err := range fresh(t.cut, t.some(ctx, from, before, next, n)) {
				if !yield(b, t.noteFailure(err)) || err != nil {
					return
				}
				next = b
				got++
			}
			if got < n {
				return
			}
		}
	}
}

// fresh yields what read yields, and starts again if read fails before its first value
// because its connection was lost: after a server restart a pool may contain many lost
// connections.
func fresh[T any](cut func(error) bool, read iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for left := poolSize; ; left-- {
			again, given := false, false
			for v, err := range read {
				if again = err != nil && !given && left > 0 && cut != nil && cut(err); again {
					break
				}
				if given = true; !yield(v, err) {
					return
				}
			}
			if !again {
				return
			}
		}
	}
}

// poolSize is the number of connections to a server for reading.
const poolSize = 6

// some yields up to n blocks after next.
func (t *tables) some(ctx context.Context, from, before reqlog.ID, next block, n int) iter.Seq2[block, error] {
	const q = `
		SELECT last_id, serial, first_id, entries, data
		FROM blocks
		WHERE last_id >= $1 AND last_id <= $2 AND (last_id, serial) < ($2, $3) AND first_id < $4
		ORDER BY last_id DESC, serial DESC
		LIMIT $5`
	return func(yield func(block, error) bool) {
		rows, err := t.read.QueryContext(ctx, q, from[:], next.last[:], next.serial, before[:], n)
		if err != nil {
			yield(block{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			b, err := scanBlock(rows)
			if !yield(b, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(block{}, err)
		}
	}
}

func scanBlock(rows *sql.Rows) (b block, err error) {
	var last, first []byte
	if err := rows.Scan(&last, &b.serial, &first, &b.entries, &b.data); err != nil {
		return b, err
	}
	if len(last) != len(b.last) || len(first) != len(b.first) {
		return b, errDamaged
	}
	b.last, b.first = reqlog.ID(last), reqlog.ID(first)
	return b, nil
}
