package ledger

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"modelgate/internal/base/filelock"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/tokens"
	"modelgate/internal/records/reqlog"
)

// recover takes over the segments that no process holds any more, begins a new segment,
// and records in it what their processes could not.
func (l *Ledger) recover() error {
	names, err := list(l.o.Dir)
	if err != nil {
		return err
	}
	var last uint64
	found := newRemains()
	for _, n := range names {
		last = max(last, n.number)
		if !n.corrupt {
			l.takeOver(n, found)
		}
	}
	if l.cur, err = create(l.o.Dir, last, l.o.wrap); err != nil {
		return err
	}
	l.all = append(l.all, l.cur)
	l.total += segmentHead
	if err := l.complete(found); err != nil {
		return err
	}
	if found.any() || l.rows.depth() > 0 || l.stats.Quarantined > 0 {
		l.o.Logger.Warn("recovered ledger of a crashed process",
			"estimated", l.stats.Estimated, "rows_made", l.stats.Recovered, "rows_to_apply", l.rows.depth(), "quarantined", l.stats.Quarantined)
	}
	return nil
}

// takeOver reads a segment that no process holds. A segment that cannot be opened is
// ignored, so that it never prevents a start. A segment with a damaged header is
// quarantined, because its records cannot be trusted.
func (l *Ledger) takeOver(n name, found *recovery) {
	s, size, err := l.lockSegment(n)
	if err != nil {
		l.o.Logger.Error("unreadable ledger segment ignored", "segment", n.path, "err", err)
	}
	if s == nil {
		return
	}
	r := newReader(s.file, s.seed, segmentHead, size)
	if l.o.ReplayAll {
		s.applied = segmentHead
	}
	rows, err := found.read(r, s.applied)
	s.end, s.written, s.synced = r.at, r.at, r.at
	s.applied = min(s.applied, s.end)
	s.marked = s.applied
	switch {
	case err != nil || len(r.faults) > 0:
		l.quarantine(s, r, err)
	case r.torn > 0:
		l.o.Logger.Warn("ledger segment truncated at a torn write", "segment", s.path, "bytes", r.torn)
		if err := os.Truncate(s.path, s.end); err != nil {
			l.o.Logger.Warn("truncating a ledger segment failed", "err", err)
		}
	}
	l.all = append(l.all, s)
	l.total += s.end
	l.wait(span{seg: s, from: s.applied, to: s.end, rows: rows, again: true})
}

// wait queues a part of a segment for the store.
func (l *Ledger) wait(p span) {
	l.rows.spans = append(l.rows.spans, p)
	l.rows.noted += uint64(p.rows)
	if p.rows > 0 && l.rows.oldest.IsZero() {
		l.rows.oldest = time.Now()
	}
}

// lockSegment opens and locks a segment. It returns nil if another process holds it or
// it is empty.
func (l *Ledger) lockSegment(n name) (*segment, int64, error) {
	f, err := os.OpenFile(n.path, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	if err := filelock.TryLock(f); err != nil {
		f.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return nil, 0, nil
		}
		return nil, 0, err
	}
	s := &segment{file: l.o.wrap(f), path: n.path, number: n.number, foreign: true}
	size, err := s.readHead(f)
	if err == nil {
		return s, size, nil
	}
	defer f.Close()
	if !errors.Is(err, errHead) {
		return nil, 0, err // written by a newer program, or a disk error
	}
	if size <= segmentHead {
		return nil, 0, os.Remove(n.path) // a process ended while creating it
	}
	l.stats.Quarantined++
	return nil, 0, errors.Join(err, os.Rename(n.path, n.path+corruptSuffix))
}

// readHead reads the header of a segment and returns the size of its file.
func (s *segment) readHead(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	head := make([]byte, segmentHead)
	n, err := s.file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return info.Size(), err
	}
	if s.seed, s.applied, err = parseHead(head[:n]); err == nil {
		s.readID(head)
	}
	return info.Size(), err
}

// quarantine renames a damaged segment. Its readable records are still used.
func (l *Ledger) quarantine(s *segment, r *reader, cause error) {
	l.stats.Quarantined++
	s.corrupt = true
	where := make([]string, 0, len(r.faults))
	for _, f := range r.faults {
		where = append(where, fmt.Sprintf("%d-%d", f.from, f.to))
	}
	aside := s.path + corruptSuffix
	if err := os.Rename(s.path, aside); err != nil {
		l.o.Logger.Error("quarantining a damaged ledger segment failed", "err", err)
	} else {
		s.path = aside
	}
	l.o.Logger.Error("ledger segment damaged and quarantined; readable records are kept", "segment", s.path, "bytes", where, "err", cause)
}

// complete records an estimate for each attempt without an end, and a row for each
// exchange without one.
func (l *Ledger) complete(found *recovery) error {
	if !found.any() {
		return nil
	}
	l.mu.Lock()
	for _, i := range found.unsettled() {
		s := estimate(i)
		l.settle(&s)
		found.settle(&s)
		l.stats.Estimated++
	}
	part := span{seg: l.cur, from: l.cur.end, again: true}
	for _, e := range found.entries() {
		content := l.o.Codec.Append(nil, e)
		l.pending = appendRow(l.pending, l.cur.end, e.ID, content)
		l.accepted(headSize + len(e.ID) + len(content))
		part.rows++
	}
	part.to = l.cur.end
	l.wait(part)
	l.stats.Recovered = part.rows
	l.writePending()
	err := l.failure
	l.mu.Unlock()
	if err == nil {
		err = l.cur.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("completing the ledger: %w", err)
	}
	return nil
}

// estimate returns the settlement of an attempt whose end is unknown, with its input
// estimated from the size of the request, so that it is at least a third of its tokens. One
// with a flat price may have been made, and costs that.
func estimate(i *reqlog.Intent) reqlog.Settlement {
	s := reqlog.Settlement{ID: i.ID, Attempt: i.Attempt, Time: time.Now(), Outcome: reqlog.Estimated}
	switch {
	case i.Flat:
		s.Usage, s.Cost, s.Priced = llm.Usage{Known: true, Estimated: true}, i.Price, true
	case i.RequestBytes > 0:
		s.Usage = llm.Usage{Known: true, Estimated: true, Input: tokens.SizeText(i.RequestBytes)}
	}
	return s
}

// recovery collects the unfinished attempts and exchanges in segments.
type recovery struct {
	intents   map[attempt]*reqlog.Intent // of exchanges without a row
	settled   map[attempt]*reqlog.Settlement
	exchanges map[reqlog.ID]bool // without a row; unordered
}

func newRemains() *recovery {
	return &recovery{map[attempt]*reqlog.Intent{}, map[attempt]*reqlog.Settlement{}, map[reqlog.ID]bool{}}
}

// read reads a segment and returns the number of rows after applied.
func (m *recovery) read(r *reader, applied int64) (rows int, err error) {
	for {
		at := r.at
		rec, err := r.next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		m.take(rec)
		if rec.Row != nil && at >= applied {
			rows++
		}
	}
}

// take handles a record. A row follows all attempts of its exchange.
func (m *recovery) take(rec Record) {
	switch {
	case rec.Intent != nil:
		m.intents[attempt{rec.Intent.ID, rec.Intent.Attempt}] = rec.Intent
		m.exchanges[rec.Intent.ID] = true
	case rec.Settle != nil:
		m.settle(rec.Settle)
	case rec.Row != nil:
		delete(m.exchanges, rec.Exchange)
		for n := uint16(1); ; n++ {
			key := attempt{rec.Exchange, n}
			_, begun := m.intents[key]
			_, ended := m.settled[key]
			if !begun && !ended {
				return
			}
			if begun == ended {
				delete(m.intents, key)
			}
			delete(m.settled, key)
		}
	}
}

func (m *recovery) settle(s *reqlog.Settlement) { m.settled[attempt{s.ID, s.Attempt}] = s }

func (m *recovery) any() bool { return len(m.intents) > 0 }

// unsettled returns the attempts without an end, in order.
func (m *recovery) unsettled() (list []*reqlog.Intent) {
	for key, i := range m.intents {
		if m.settled[key] == nil {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, byAttempt)
	return list
}

func byAttempt(a, b *reqlog.Intent) int {
	if c := slices.Compare(a.ID[:], b.ID[:]); c != 0 {
		return c
	}
	return int(a.Attempt) - int(b.Attempt)
}
