package logstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/reqlog"
	"modelgate/internal/sqlite"
)

// format is the version of the table and of the blocks in it, kept in the file
// as user_version.
const format = 1

// pragmas of the writing connection. Blocks are tens of kilobytes, so larger
// pages and rarer checkpoints mean less bookkeeping per entry.
var pragmas = []string{"page_size(8192)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)"}

// schema: a row is a block of entries whose ids lie in one slot of time. The key
// is the newest id in it; serial tells apart what may share that id.
const schema = `
	CREATE TABLE IF NOT EXISTS blocks (
		last_id BYTEA NOT NULL,
		serial BIGINT NOT NULL,
		first_id BYTEA NOT NULL,
		entries BIGINT NOT NULL,
		data BYTEA NOT NULL,
		PRIMARY KEY (last_id, serial)
	) WITHOUT ROWID`

// A block that is there already was stored by a commit whose answer was lost.
const insert = `
	INSERT INTO blocks (last_id, serial, first_id, entries, data)
	VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (last_id, serial) DO NOTHING`

// prepare makes the table, or refuses a file of a later format.
func prepare(ctx context.Context, file *sqlite.DB) error {
	var version int
	if err := file.Write.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return fmt.Errorf("reading its format: %w", err)
	}
	if version > format {
		return fmt.Errorf("its format %d is of a newer modelgate (this one knows %d); run that version or a later one", version, format)
	}
	if _, err := file.Write.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("creating its table: %w", err)
	}
	if _, err := file.Write.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, format)); err != nil {
		return fmt.Errorf("noting its format: %w", err)
	}
	return nil
}

// write is the writer's loop: wait, take all that waits, store it.
func (s *Store) write() {
	defer close(s.written)
	spare := make([]*reqlog.Entry, 0, s.batch)
	w := &batchWriter{serial: time.Now().UnixNano()}
	for s.await() {
		batch := s.take(spare)
		s.settle(len(batch), s.persist(w, batch))
		clear(batch) // let go of the entries
		spare = batch
	}
}

// await returns true when entries should be written, and false when the store
// was closed and all is written.
func (s *Store) await() bool {
	var late <-chan time.Time
	for {
		waiting, now, closed := s.due()
		switch {
		case waiting && now:
			return true
		case closed:
			return false
		case waiting && late == nil:
			late = time.After(s.flush)
		}
		select {
		case <-s.wake:
		case <-late:
			return true
		}
	}
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// persist stores batch, trying again with growing pauses until it is stored or
// Close has run out of time.
func (s *Store) persist(w *batchWriter, batch []*reqlog.Entry) bool {
	w.encode(batch)
	for pause, failed := firstPause, false; ; pause = min(2*pause, longestPause) {
		err := w.store(s.giveUp, s.file)
		if err == nil {
			if failed {
				s.log.Info("writing the log works again")
			}
			return true
		}
		s.failing(err)
		if !failed {
			s.log.Error("writing the log fails; entries wait", "err", err)
			failed = true
		}
		select {
		case <-time.After(pause):
		case <-s.giveUp.Done():
			return false
		}
		s.mend(err)
	}
}

// mend replaces the connection after a failure that may be the connection's
// own: the file was moved, or its disk went away and came back.
func (s *Store) mend(err error) {
	if !sqlite.Broken(err) {
		return
	}
	if err := errors.Join(s.file.Redial(), prepare(s.giveUp, s.file)); err != nil {
		s.failing(err)
	}
}

// slot is how long a time the entries of one block may span, as bits of
// milliseconds: 1.024 s. It bounds how many blocks overlap, and so what a reader
// has to hold.
const slotBits = 10

// Limits of one block: a block is read as a whole.
const (
	blockEntries = 512
	blockBytes   = 256 << 10
)

// block is a row of the table.
type block struct {
	last, first reqlog.ID
	serial      int64
	entries     int
	data        []byte
}

// batchWriter turns batches into blocks and stores them. Its buffers are used
// again.
type batchWriter struct {
	serial int64
	enc    encoder
	blocks []block
	data   []byte // of all blocks
}

// encode packs batch, which it sorts, into blocks: the newest entry first.
func (w *batchWriter) encode(batch []*reqlog.Entry) {
	slices.SortFunc(batch, func(a, b *reqlog.Entry) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	w.blocks, w.data = w.blocks[:0], w.data[:0]
	w.enc.reset()
	for i, e := range batch {
		if i > 0 && (w.enc.full() || slotOf(e.ID) != slotOf(batch[i-1].ID)) {
			w.cut(batch[i-w.enc.entries : i])
		}
		w.enc.add(e)
	}
	if n := w.enc.entries; n > 0 {
		w.cut(batch[len(batch)-n:])
	}
}

// cut ends the block of these entries.
func (w *batchWriter) cut(entries []*reqlog.Entry) {
	start := len(w.data)
	w.data = w.enc.appendBlock(w.data)
	w.serial++
	w.blocks = append(w.blocks, block{
		serial:  w.serial,
		last:    entries[0].ID,
		first:   entries[len(entries)-1].ID,
		entries: len(entries),
		data:    w.data[start:len(w.data):len(w.data)],
	})
	w.enc.reset()
}

// store writes the blocks in one transaction.
func (w *batchWriter) store(ctx context.Context, file *sqlite.DB) error {
	tx, err := file.Write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a batch: %w", err)
	}
	defer tx.Rollback() // without effect once committed
	stmt, err := tx.PrepareContext(ctx, insert)
	if err != nil {
		return fmt.Errorf("preparing a batch: %w", err)
	}
	defer stmt.Close()
	if err := w.insertAll(ctx, stmt); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("keeping a batch: %w", err)
	}
	return nil
}

func (w *batchWriter) insertAll(ctx context.Context, stmt *sql.Stmt) error {
	for _, b := range w.blocks {
		if _, err := stmt.ExecContext(ctx, b.last[:], b.serial, b.first[:], b.entries, b.data); err != nil {
			return fmt.Errorf("writing a batch: %w", err)
		}
	}
	return nil
}

func slotOf(id reqlog.ID) int64 { return millis(id) >> slotBits }

// millis is the time of id, in milliseconds.
func millis(id reqlog.ID) int64 {
	return int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
}
