package logstore

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// scanLimits limits what one page reads.
type scanLimits struct {
	entries int
	bytes   int
}

// Skipping this much takes well under a second.
const (
	scanEntries = 200_000
	scanBytes   = 64 << 20
)

// Get returns the entry with this id and its stored bodies. An entry outside scope is
// not found.
func (s *Store) Get(ctx context.Context, scope Scope, id reqlog.ID) (*reqlog.Entry, error) {
	e, err := s.get(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	return e, s.ReadBodies(ctx, []*reqlog.Entry{e})
}

// get returns an entry without its bodies.
func (s *Store) get(ctx context.Context, scope Scope, id reqlog.ID) (*reqlog.Entry, error) {
	for b, err := range s.keeper.blocks(ctx, id, after(id)) {
		if err != nil {
			return nil, s.reading(fmt.Errorf("reading log entry %s: %w", id, err))
		}
		e, err := find(b.data, id)
		if err != nil {
			s.damaged(b, err)
		} else if e != nil && scope.shows(e) {
			return e, nil
		}
	}
	return nil, apierr.New(apierr.NotFound, "log entry %s not found; it may not be written yet", id)
}

// reading converts the error of an unavailable database to one that clients may see.
func (s *Store) reading(err error) error {
	if !s.keeper.isUnavailable(err) {
		return err
	}
	return apierr.New(apierr.Unavailable, "the log database is unavailable; try again later (no entries are lost)").
		WithCode("log_unavailable").WithCause(err)
}

func (s Scope) shows(e *reqlog.Entry) bool {
	return (s.Organisation == "" || s.Organisation == e.Organisation) &&
		(s.Workspace == "" || s.Workspace == e.Workspace) &&
		(s.Keys == nil || slices.Contains(s.Keys, e.KeyID))
}

// slotEnd returns the smallest id after the slot of id.
func slotEnd(id reqlog.ID) reqlog.ID {
	next := (slotOf(id) + 1) << slotBits
	if next > maxMillis {
		return endOfIDs
	}
	return idAt(next)
}

// find returns the entry with this id, nil if the block does not contain it.
func find(data []byte, id reqlog.ID) (*reqlog.Entry, error) {
	b, err := newBlockReader(data)
	if err != nil {
		return nil, err
	}
	for {
		p, ok, err := b.next()
		if err != nil || !ok || less(p.id, id) {
			return nil, err
		}
		if p.id == id {
			return p.entry()
		}
	}
}

// List returns the entries that match q in its order, by default newest id first, without their bodies. Paging
// returns each entry once, even if entries are recorded concurrently. An invalid filter
// or cursor is an error that names it.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
	if err := s.resolve(ctx, &q); err != nil {
		return Page{}, err
	}
	if q.Order != (Order{}) {
		return s.listSorted(ctx, q)
	}
	p, err := q.plan(time.Now())
	if err != nil {
		return Page{}, err
	}
	page, err := s.list(ctx, p)
	if err != nil {
		return Page{}, s.reading(fmt.Errorf("listing log entries: %w", err))
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, p *plan) (Page, error) {
	sc := scan{plan: p, damaged: s.damaged, limits: s.limits}
	if p.q.Text != "" {
		done, err := s.searches.begin(ctx, p.q.Scope.Organisation)
		if err != nil {
			return Page{}, err
		}
		defer done()
		sc.search = &search{text: fold(nil, []byte(p.q.Text))}
		sc.bodies = func(ids []reqlog.ID) iter.Seq2[packedBodies, error] { return s.keeper.bodies(ctx, ids) }
	}
	next, stop := iter.Pull2(s.keeper.blocks(ctx, p.from, p.before))
	defer stop()
	sc.next = next
	return sc.page()
}

// scan merges blocks, whose times may overlap, in order.
type scan struct {
	plan    *plan
	next    func() (block, error, bool)
	damaged func(block, error) // called for blocks that cannot be read
	limits  scanLimits

	// If a text is searched, entries that match all other filters wait until their
	// bodies are read in groups.
	search  *search // otherwise nil
	bodies  func(ids []reqlog.ID) iter.Seq2[packedBodies, error]
	waiting []*reqlog.Entry
	cut     bool // the page ends before the end of what was read

	upcoming block // the next block, not yet opened
	ended    bool  // there is no next block

	open    cursors
	entries int // read so far
	bytes   int
}

// cursors is a heap of open blocks, ordered by their newest entry.
type cursors []*blockCursor

// blockCursor is an open block, positioned at one of its entries.
type blockCursor struct {
	block  block
	reader *blockReader
	filter filter
	at     packed
}

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, j int) bool { return less(c[j].at.id, c[i].at.id) }
func (c cursors) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cursors) Push(x any)        { *c = append(*c, x.(*blockCursor)) }
func (c *cursors) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	(*c)[last] = nil
	*c = (*c)[:last]
	return x
}

// page reads until the page is full, the limit is reached, or everything is read.
func (s *scan) page() (page Page, err error) {
	if err = s.walk(&page); err == nil && len(s.waiting) > 0 {
		err = s.matchText(&page)
	}
	return page, err
}

// walk adds entries to page until it ends.
func (s *scan) walk(page *Page) error {
	if err := s.peek(); err != nil {
		return err
	}
	seen := s.plan.before // the oldest entry read
	for !s.cut {
		if err := s.openOverlapping(); err != nil {
			return err
		}
		if len(s.open) == 0 && s.ended {
			return nil
		}
		if len(s.open) == 0 {
			// Stopped between blocks: the rest begins with the next block.
			page.Next = s.plan.cursor(after(s.upcoming.last))
			return nil
		}
		top := s.open[0]
		if less(top.at.id, s.plan.from) {
			return nil
		}
		if len(page.Entries) == s.plan.limit || s.overLimit() && seen != s.plan.before {
			page.Next = s.plan.cursor(seen)
			return nil
		}
		if less(top.at.id, seen) { // otherwise a duplicate, or before the cursor
			seen = top.at.id
			if err := s.visit(top, page); err != nil {
				return err
			}
		}
		s.advance(top)
	}
	return nil
}

// visit adds the entry at top to page if it matches. A damaged entry is skipped.
func (s *scan) visit(top *blockCursor, page *Page) error {
	s.entries++
	ok, err := top.filter.matches(top.at)
	var e *reqlog.Entry
	if ok {
		e, err = top.at.entry()
	}
	switch {
	case err != nil:
		s.damaged(top.block, err)
	case e == nil:
	case s.search == nil:
		page.Entries = append(page.Entries, e)
	default:
		if s.waiting = append(s.waiting, e); len(s.waiting) == bodiesAtOnce {
			return s.matchText(page)
		}
	}
	return nil
}

func (s *scan) overLimit() bool { return s.entries >= s.limits.entries || s.bytes >= s.limits.bytes }

// openOverlapping opens every block that may contain an entry newer than the top. It
// stops early, with no block open, if the limit is reached and a page that begins at
// the next block makes progress.
func (s *scan) openOverlapping() error {
	for !s.ended && (len(s.open) == 0 || less(s.open[0].at.id, s.upcoming.last)) {
		if len(s.open) == 0 && s.overLimit() && less(after(s.upcoming.last), s.plan.before) {
			return nil
		}
		s.openNext()
		if err := s.peek(); err != nil {
			return err
		}
	}
	return nil
}

// openNext opens the upcoming block, unless it has no match or is unreadable.
func (s *scan) openNext() {
	s.bytes += len(s.upcoming.data)
	b, err := newBlockReader(s.upcoming.data)
	if err != nil {
		s.damaged(s.upcoming, err)
		return
	}
	f, ok := s.plan.filterFor(b, s.upcoming.data)
	if !ok {
		s.entries += s.upcoming.entries
		return
	}
	c := &blockCursor{block: s.upcoming, reader: b, filter: f}
	if s.step(c) {
		heap.Push(&s.open, c)
	}
}

// step moves c to its next entry and returns false after the last readable one.
func (s *scan) step(c *blockCursor) bool {
	at, ok, err := c.reader.next()
	if err != nil {
		s.damaged(c.block, err)
		return false
	}
	c.at = at
	return ok
}

// peek reads the next block from the database.
func (s *scan) peek() error {
	b, err, ok := s.next()
	s.upcoming, s.ended = b, !ok
	return err
}

// advance moves top, the root of the heap, to its next entry.
func (s *scan) advance(top *blockCursor) {
	if s.step(top) {
		heap.Fix(&s.open, 0)
	} else {
		heap.Pop(&s.open)
	}
}

// after returns the id that follows id.
func after(id reqlog.ID) reqlog.ID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]++
		if id[i] != 0 {
			break
		}
	}
	return id
}
