package ledger

import (
	"context"
	"errors"
	"io"
	"time"

	"modelgate/internal/records/reqlog"
)

// batch is the number of waiting rows that are applied without waiting for more, and
// batchBytes the size of their bodies.
const (
	batch      = 2000
	batchBytes = 2 << 20
)

// rowBytes is the limit of the bodies of rows in memory.
const rowBytes = 16 << 20

// rows are the rows waiting to be applied, in the order of the ledger: first spans,
// which are read from segments, then rows in memory, then rows that arrived when memory
// was full.
type rows struct {
	max    int
	spans  []span
	memory []row
	bytes  int  // of the bodies of rows in memory
	taken  int  // rows being applied
	behind span // rows that arrived when memory was full; only from and rows are set

	noted, done uint64
	oldest      time.Time // time since which a row waits; zero if none does
	hurry       bool      // a caller waits for the rows
}

// row is a row in memory.
type row struct {
	entry *reqlog.Entry
	at    place
	end   int64
}

// span is a part of a segment.
type span struct {
	seg      *segment
	from, to int64
	rows     int  // number of rows in it
	again    bool // they may have been applied before
}

// add adds a recorded row.
func (r *rows) add(e *reqlog.Entry, at place, end int64) {
	if r.depth() == 0 {
		r.oldest = time.Now()
	}
	r.noted++
	n := e.Bodies.Len()
	switch {
	case r.behind.rows > 0:
		r.behind.rows++
	case len(r.memory) >= r.max, n > 0 && r.bytes+r.taken+n > rowBytes:
		r.behind = span{seg: at.seg, from: at.at, rows: 1}
	default:
		r.memory = append(r.memory, row{e, at, end})
		r.bytes += n
	}
}

// wakes reports whether the applier must be woken for the row added last.
func (r *rows) wakes() bool {
	return len(r.memory) == 1 || len(r.memory) == batch || r.bytes >= batchBytes
}

// take returns the rows in memory and uses spare for the next ones.
func (r *rows) take(spare []row) (taken []row) {
	taken, r.memory, r.hurry = r.memory, spare[:0], false
	r.taken, r.bytes = r.bytes, 0
	return taken
}

func (r *rows) depth() int { return int(r.noted - r.done) }

// Flush returns when all rows recorded before can be read in the store, or ctx ends.
func (l *Ledger) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for target := l.rows.noted; l.rows.done < target; {
		l.rows.hurry = true
		ring(l.due)
		if l.closed {
			return errClosed
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

var errClosed = errors.New("the ledger is closed")

// apply runs the applier's loop.
func (l *Ledger) apply() {
	var spare []row
	for {
		part, taken, ok := l.work(spare)
		switch {
		case !ok:
			return
		case taken != nil:
			ok = l.applyMemory(taken)
			clear(taken) // release the entries
			spare = taken
			l.letGo()
		default:
			ok = l.applySpan(part)
		}
		if !ok {
			return // later rows must not be mistaken for all rows
		}
	}
}

// letGo marks the rows taken from memory as released.
func (l *Ledger) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows.taken = 0
}

// work waits for the next rows to apply: a span, or the rows in memory. It returns
// false when the ledger is closing.
func (l *Ledger) work(spare []row) (part span, taken []row, ok bool) {
	var late <-chan time.Time
	for {
		l.mu.Lock()
		r := &l.rows
		waiting := len(r.memory) > 0
		now := len(r.memory) >= batch || r.bytes >= batchBytes || r.hurry || r.behind.rows > 0
		switch {
		case len(r.spans) > 0:
			part, r.spans = r.spans[0], r.spans[1:]
			l.mu.Unlock()
			return part, nil, true
		case waiting && (now || late != nil && expired(late)):
			taken = r.take(spare)
			l.mu.Unlock()
			return part, taken, true
		case r.behind.rows > 0:
			l.catchUp()
		case waiting && late == nil:
			late = time.After(l.o.SyncInterval)
		}
		more := len(r.spans) > 0
		l.mu.Unlock()
		if more {
			continue
		}
		select {
		case <-l.due:
		case <-late:
			late = closedTime
		case <-l.stop.Done():
			return part, nil, false
		}
	}
}

// closedTime is an expired timer.
var closedTime = func() chan time.Time { c := make(chan time.Time); close(c); return c }()

func expired(late <-chan time.Time) bool {
	select {
	case <-late:
		return true
	default:
		return false
	}
}

// catchUp turns the rows that arrived when memory was full into spans. Later rows have
// space in memory.
func (l *Ledger) catchUp() {
	b := l.rows.behind
	l.rows.behind = span{}
	for _, s := range l.all {
		if s.foreign || s.number < b.seg.number {
			continue
		}
		from := int64(segmentHead)
		if s == b.seg {
			from = b.from
		}
		part := span{seg: s, from: from, to: s.end}
		if s == l.cur {
			part.rows = b.rows
		}
		l.rows.spans = append(l.rows.spans, part)
	}
}

// applyMemory applies rows in the order in which they were recorded. It returns false
// if the ledger is closed before that is done.
func (l *Ledger) applyMemory(taken []row) bool {
	last := taken[len(taken)-1]
	entries := make([]*reqlog.Entry, len(taken))
	for i, r := range taken {
		entries[i] = r.entry
	}
	if !l.untilWritten(last.at.seg, last.end) || !l.store(entries, false) {
		return false
	}
	l.applied(last.at.seg, last.end, len(taken))
	return true
}

// applySpan applies the rows in a part of a segment. It returns false if the ledger is
// closed before that is done.
func (l *Ledger) applySpan(p span) bool {
	if !l.untilWritten(p.seg, p.to) {
		return false
	}
	r := newReader(p.seg.file, p.seg.seed, p.from, p.to)
	for {
		entries, err := l.readRows(r)
		if err != nil && err != io.EOF {
			l.o.Logger.Error("reading a ledger segment failed", "segment", p.seg.path, "err", err)
		}
		if len(entries) > 0 && !l.store(entries, p.again) {
			return false
		}
		if err != nil {
			l.applied(p.seg, p.to, p.rows)
			return true
		}
		l.applied(p.seg, r.at, 0)
	}
}

// readRows reads some rows, and returns io.EOF after the last.
func (l *Ledger) readRows(r *reader) (entries []*reqlog.Entry, err error) {
	for bytes := 0; len(entries) < batch && bytes < batchBytes; {
		rec, err := r.next()
		if err != nil {
			return entries, err
		}
		if rec.Row == nil {
			continue
		}
		e, err := l.o.Codec.Parse(rec.Row)
		if err != nil {
			l.o.Logger.Error("reading a ledger row failed", "exchange", rec.Exchange.String(), "err", err)
			l.mu.Lock()
			l.stats.Lost++
			l.mu.Unlock()
			continue
		}
		entries = append(entries, e)
		bytes += e.Bodies.Len()
	}
	return entries, nil
}

// untilWritten waits until rows are written to the segment. It returns false if the
// ledger is closed before that.
func (l *Ledger) untilWritten(s *segment, end int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s.written < end {
		if l.pause(l.stop) != nil {
			return false
		}
	}
	return true
}

// store applies rows, retrying until it succeeds or the ledger is closed.
func (l *Ledger) store(entries []*reqlog.Entry, again bool) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := l.o.Store.Apply(l.stop, entries, again)
		if err == nil {
			return true
		}
		if l.stop.Err() != nil {
			return false
		}
		l.o.Logger.Error("applying ledger entries failed; retrying", "rows", len(entries), "err", err)
		again = true
		select {
		case <-time.After(pause):
		case <-l.stop.Done():
			return false
		}
	}
}

// applied records that a segment was applied up to end, and all own segments before it.
func (l *Ledger) applied(s *segment, end int64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.applied = max(s.applied, end)
	for _, o := range l.all {
		if !s.foreign && !o.foreign && o.number < s.number {
			o.applied = o.end
		}
	}
	l.rows.done += uint64(n)
	switch {
	case l.rows.depth() == 0:
		l.rows.oldest = time.Time{}
	case len(l.rows.memory) > 0:
		l.rows.oldest = l.rows.memory[0].entry.Time.Add(l.rows.memory[0].entry.Total)
	}
	l.dirty = true
	ring(l.wake)
	l.changed.Broadcast()
}
