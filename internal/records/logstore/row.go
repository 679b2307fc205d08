package logstore

import (
	"context"
	"fmt"
	"sync"

	"modelgate/internal/records/reqlog"
)

// encoders pools encoders of single entries.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// AppendEntry appends e in the form that [ParseEntry] reads: a block of one entry,
// followed by its bodies if it has any.
func AppendEntry(dst []byte, e *reqlog.Entry) []byte {
	c := encoders.Get().(*encoder)
	defer encoders.Put(c)
	c.reset()
	c.add(e)
	dst = c.appendBlock(dst)
	if b := bodiesOf(e); b != nil {
		dst = appendBodies(dst, b, rowRaw)
	}
	return dst
}

// ParseEntry decodes an entry written by [AppendEntry]. It does not retain b.
// Unreadable bodies are left out.
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
	e, err := p.entry()
	if err == nil && len(r.rest.b) > 0 {
		e.Bodies, _ = parseBodies(r.rest.b)
	}
	return e, err
}

// Missing returns the entries whose ids are not stored.
func (s *Store) Missing(ctx context.Context, entries []*reqlog.Entry) (missing []*reqlog.Entry, err error) {
	slots := make(map[int64][]*reqlog.Entry)
	for _, e := range entries {
		slots[slotOf(e.ID)] = append(slots[slotOf(e.ID)], e)
	}
	there := make(map[reqlog.ID]bool, len(entries))
	for _, in := range slots {
		if err := s.collectIDs(ctx, in, there); err != nil {
			return nil, fmt.Errorf("finding log entries: %w", err)
		}
	}
	for _, e := range entries {
		if !there[e.ID] {
			missing = append(missing, e)
		}
	}
	return missing, nil
}

// collectIDs adds to there the stored ids around the time of entries in one slot.
func (s *Store) collectIDs(ctx context.Context, entries []*reqlog.Entry, there map[reqlog.ID]bool) error {
	from, to := entries[0].ID, entries[0].ID
	for _, e := range entries {
		if less(e.ID, from) {
			from = e.ID
		}
		if less(to, e.ID) {
			to = e.ID
		}
	}
	for b, err := range s.keeper.blocks(ctx, from, after(to)) {
		if err != nil {
			return err
		}
		if err := b.collectIDs(there); err != nil {
			s.damaged(b, err)
		}
	}
	return nil
}

// collectIDs adds the ids of the block's entries to there.
func (b *block) collectIDs(there map[reqlog.ID]bool) error {
	r, err := newBlockReader(b.data)
	if err != nil {
		return err
	}
	for {
		p, ok, err := r.next()
		if err != nil || !ok {
			return err
		}
		there[p.id] = true
	}
}

// Sync returns when everything written survives a power failure.
func (s *Store) Sync(ctx context.Context) error { return s.keeper.sync(ctx) }
