package logstore

import (
	"context"
	"fmt"
	"sync"

	"modelgate/internal/reqlog"
)

// encoders lends encoders of single entries.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// AppendEntry appends e in the form that [ParseEntry] reads: a block of one, and
// behind it the bodies, where e has any.
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

// ParseEntry reads an entry that [AppendEntry] wrote. It does not keep b. Bodies
// that can't be read are left out.
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

// Missing returns those of the entries whose id the store does not hold.
func (s *Store) Missing(ctx context.Context, entries []*reqlog.Entry) (missing []*reqlog.Entry, err error) {
	slots := make(map[int64][]*reqlog.Entry)
	for _, e := range entries {
		slots[slotOf(e.ID)] = append(slots[slotOf(e.ID)], e)
	}
	there := make(map[reqlog.ID]bool, len(entries))
	for _, in := range slots {
		if err := s.collectIDs(ctx, in, there); err != nil {
			return nil, fmt.Errorf("looking for log entries: %w", err)
		}
	}
	for _, e := range entries {
		if !there[e.ID] {
			missing = append(missing, e)
		}
	}
	return missing, nil
}

// collectIDs notes the ids of all that is stored about the time of entries of one
// slot.
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
		if err := b.ids(there); err != nil {
			s.damaged(b, err)
		}
	}
	return nil
}

// ids notes the ids of the block's entries.
func (b *block) ids(there map[reqlog.ID]bool) error {
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

// Sync returns when no power cut can take away what was written.
func (s *Store) Sync(ctx context.Context) error { return s.keeper.sync(ctx) }
