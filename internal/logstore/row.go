package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"modelgate/internal/reqlog"
)

// encoders lends encoders of single entries.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// AppendEntry appends e in the form that [ParseEntry] reads: a block of one.
func AppendEntry(dst []byte, e *reqlog.Entry) []byte {
	c := encoders.Get().(*encoder)
	defer encoders.Put(c)
	c.reset()
	c.add(e)
	return c.appendBlock(dst)
}

// ParseEntry reads an entry that [AppendEntry] wrote. It does not keep b.
func ParseEntry(b []byte) (*reqlog.Entry, error) {
	r, err := newBlockReader(b)
	if err != nil {
		return nil, err
	}
	p, ok, err := r.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errDamaged
	}
	return p.entry()
}

// Missing returns those of the entries whose id the store does not hold.
func (s *Store) Missing(ctx context.Context, entries []*reqlog.Entry) (missing []*reqlog.Entry, err error) {
	for _, e := range entries {
		there, err := s.holds(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if !there {
			missing = append(missing, e)
		}
	}
	return missing, nil
}

func (s *Store) holds(ctx context.Context, id reqlog.ID) (bool, error) {
	const q = `
		SELECT data
		FROM blocks
		WHERE last_id >= $1 AND last_id < $2 AND first_id <= $1`
	end := slotEnd(id)
	rows, err := s.file.Read.QueryContext(ctx, q, id[:], end[:])
	if err != nil {
		return false, fmt.Errorf("looking for log entry %s: %w", id, err)
	}
	defer rows.Close()
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return false, fmt.Errorf("looking for log entry %s: %w", id, err)
		}
		if e, err := find(data, id); err != nil || e != nil {
			return e != nil, err
		}
	}
	return false, rows.Err()
}

// Sync returns when no power cut can take away what was written. SQLite itself
// leaves that to its checkpoints.
func (s *Store) Sync(context.Context) error {
	f, err := os.OpenFile(s.file.Path+"-wal", os.O_RDWR, 0)
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
