package ledger

import (
	"context"
	"runtime"
	"sync"
	"time"

	"modelgate/internal/reqlog"
)

// RecordIntent notes an attempt that is about to be sent, and returns when that was
// written. It waits for room as [Options].Full says, until ctx ends. An error
// means that the attempt must not be sent; it is not settled then.
func (l *Ledger) RecordIntent(ctx context.Context, i reqlog.Intent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok, err := l.room(ctx, kindIntent, intentSize)
	if !ok {
		return err
	}
	at := l.cur.end
	l.pending = appendIntent(l.pending, at, &i)
	seg := l.accepted(intentSize)
	key := attempt{i.ID, i.Attempt}
	l.open[key] = place{seg, at}
	seg.open++
	l.stats.Intents++
	if err := l.await(ctx, kindIntent, seg, at+intentSize); err != nil {
		l.settle(&reqlog.Settlement{ID: i.ID, Attempt: i.Attempt, Time: i.Time, Outcome: reqlog.Failed})
		return err
	}
	return nil
}

// RecordSettlement notes what an attempt came to. It is written with what is noted next,
// the row of its exchange, or else with the next group. A settlement of an
// attempt that was not noted, or is settled, does nothing.
func (l *Ledger) RecordSettlement(s reqlog.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[attempt{s.ID, s.Attempt}]; !ok {
		return
	}
	if ok, _ := l.room(l.stop, kindSettle, settleSize); ok {
		l.settle(&s)
	}
}

// settle notes s. There is room.
func (l *Ledger) settle(s *reqlog.Settlement) {
	key := attempt{s.ID, s.Attempt}
	if p, ok := l.open[key]; ok {
		p.seg.open--
		delete(l.open, key)
	}
	l.pending = appendSettle(l.pending, l.cur.end, s)
	l.accepted(settleSize)
	l.stats.Settled++
}

// scratch lends the buffers that rows are encoded in.
var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Record notes the entry of an exchange that has ended, which must not change
// any more, and returns when that was written. It implements reqlog.Recorder.
func (l *Ledger) Record(ctx context.Context, e *reqlog.Entry) {
	buf := scratch.Get().(*[]byte)
	defer giveBack(buf)
	*buf = l.o.Codec.Append((*buf)[:0], e)
	size := headSize + len(e.ID) + len(*buf)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Bodies != nil && !l.bodiesFit(ctx, size) {
		l.stats.BodiesDropped++
		bare := *e
		bare.Bodies = nil
		e = &bare
		*buf = l.o.Codec.Append((*buf)[:0], e)
		size = headSize + len(e.ID) + len(*buf)
	}
	if size > maxRow {
		l.stats.Lost++
		return
	}
	if ok, _ := l.room(ctx, kindRow, size); !ok {
		return
	}
	at := l.cur.end
	l.pending = appendRow(l.pending, at, e.ID, *buf)
	seg := l.accepted(size)
	l.stats.Rows++
	l.rows.add(e, place{seg, at}, at+int64(size))
	if l.rows.wakes() {
		ring(l.due)
	}
	l.await(ctx, kindRow, seg, at+int64(size))
}

// giveBack lends buf again, unless it has grown large for one row.
func giveBack(buf *[]byte) {
	if cap(*buf) <= 256<<10 {
		scratch.Put(buf)
	}
}

// bodiesFit waits until a row of size bytes may be noted with its bodies, or has to
// go without them, as [Options].Full says: for want of room, of which bodies leave a
// quarter to rows without, or while writing fails.
func (l *Ledger) bodiesFit(ctx context.Context, size int) bool {
	if l.o.OnFull != DropBodies && l.o.OnFull != DropRows {
		return true
	}
	limit := l.limit(kindRow) - l.o.MaxSize/4
	for !l.writeStalled() && !l.closed && l.total+int64(size) <= limit {
		if l.fitsPending(size) {
			return true
		}
		if l.o.OnFull == DropRows || l.pause(ctx) != nil {
			break
		}
	}
	return false
}

// accepted seals the record of size bytes that was appended to pending.
func (l *Ledger) accepted(size int) *segment {
	seal(l.pending[len(l.pending)-size:], l.cur.seed)
	l.cur.end += int64(size)
	l.total += int64(size)
	if !l.dirty {
		l.dirty = true
		ring(l.wake)
	}
	return l.cur
}

// room waits until size bytes may be appended. False means that they may not:
// the record is given up and counted, and an error refuses the attempt too.
func (l *Ledger) room(ctx context.Context, kind byte, size int) (bool, error) {
	for !l.fits(kind, size) || l.refuses(kind) {
		switch {
		case l.refuses(kind), l.closed && kind == kindIntent:
			return false, ErrFull
		case l.closed, l.o.OnFull == DropRows:
			l.lose(kind)
			return false, nil
		}
		if err := l.pause(ctx); err != nil {
			l.lose(kind)
			return false, err
		}
	}
	return true, nil
}

// limit returns the size of all segments, in bytes, that records of a kind stay
// below. Where rows are dropped, they leave a quarter of the room to the attempts.
// Where attempts are refused, they leave a quarter to the rows of those that were
// not: an exchange that has ended does not wait.
func (l *Ledger) limit(kind byte) int64 {
	if l.o.OnFull == DropRows && kind == kindRow || l.o.OnFull == Reject && kind == kindIntent {
		return l.o.MaxSize - l.o.MaxSize/4
	}
	return l.o.MaxSize
}

// fits reports whether size bytes may be appended now.
func (l *Ledger) fits(kind byte, size int) bool {
	if l.total+int64(size) > l.limit(kind) || l.closed {
		return false
	}
	return l.fitsPending(size)
}

// fitsPending reports whether size bytes may wait to be written.
func (l *Ledger) fitsPending(size int) bool {
	return len(l.pending)+size <= maxPending || size > maxPending/2 && len(l.pending) <= maxPending/2
}

// refuses reports whether an attempt is refused at once.
func (l *Ledger) refuses(kind byte) bool {
	return l.o.OnFull == Reject && kind == kindIntent && (l.writeStalled() || !l.fits(kind, intentSize))
}

var _ reqlog.Recorder = (*Ledger)(nil)

// writeStalled reports whether writing fails or takes unusually long.
func (l *Ledger) writeStalled() bool { return l.failedWrite != nil || l.slow }

func (l *Ledger) lose(kind byte) {
	if kind == kindRow {
		l.stats.Lost++
		return
	}
	l.stats.LostAttempts++
}

// await returns when the segment was written up to end, by this caller where no
// other does. Where nobody waits for a disk that hangs, it returns then too: what
// was accepted stays so.
func (l *Ledger) await(ctx context.Context, kind byte, seg *segment, end int64) error {
	for seg.written < end {
		if err := l.writeOrWait(ctx, kind); err != nil {
			return err
		}
		if l.waitDisabled(kind) && seg.written < end {
			return l.notWrittenError(kind)
		}
	}
	if l.o.Sync != Strict || kind != kindIntent {
		return nil
	}
	l.strict++
	defer func() { l.strict-- }()
	ring(l.wake)
	for seg.synced < end {
		if l.waitDisabled(kind) {
			return l.notWrittenError(kind)
		}
		if l.refuses(kind) {
			return ErrFull
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeOrWait writes what is pending, or waits for who does.
func (l *Ledger) writeOrWait(ctx context.Context, kind byte) error {
	switch {
	case l.failedWrite == nil && !l.writing:
		l.yieldToAppenders()
		l.writePending()
		return nil
	case l.refuses(kind):
		return ErrFull
	case l.waitDisabled(kind):
		return nil
	case l.writeStalled():
		return l.pause(ctx)
	}
	l.changed.Wait()
	return nil
}

// waitDisabled reports whether nobody waits for the disk: by the settings, or because
// the ledger is being closed. Where attempts are refused, what has ended waits in
// memory: the next request on its connection would wait behind it.
func (l *Ledger) waitDisabled(kind byte) bool {
	return l.writeStalled() && (l.o.OnFull == DropRows || l.o.OnFull == Reject && kind != kindIntent || l.closed)
}

// notWrittenError is what a caller is told whose record was accepted and not written.
func (l *Ledger) notWrittenError(kind byte) error {
	if kind == kindIntent && l.o.OnFull != DropRows {
		return ErrFull
	}
	return nil
}

// pause waits for a change until ctx ends.
func (l *Ledger) pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.changed.Wait()
	return ctx.Err()
}

// slowAfter is how long a write may take before those who wait for it do what
// they do when the disk is full.
const slowAfter = time.Second

// yieldToAppenders lets those who are ready add what they have: together it is one write.
// Where nobody is, it takes no time.
func (l *Ledger) yieldToAppenders() {
	l.writing = true
	l.mu.Unlock()
	runtime.Gosched()
	l.mu.Lock()
	l.writing = false
}

// writePending writes what is pending. The lock is not held in the meantime, and others go on
// adding; the first of them writes the next group.
func (l *Ledger) writePending() {
	if len(l.pending) == 0 {
		return
	}
	g := group{seg: l.cur, buf: l.pending, at: l.cur.written}
	l.pending, l.spare = l.spare[:0], nil
	l.writing = true
	l.rotateSegment()
	l.alarm.Reset(slowAfter)
	l.mu.Unlock()
	_, err := g.seg.file.WriteAt(g.buf, g.at)
	l.mu.Lock()
	l.alarm.Stop()
	l.writing, l.slow = false, false
	l.wrote(g, err)
}

// wrote takes in how writing a group ended.
func (l *Ledger) wrote(g group, err error) {
	if err != nil {
		if l.failedWrite == nil {
			l.o.Logger.Error("ledger write failed; retrying", "err", err, "on_full", string(l.o.OnFull))
		}
		stuck := g // g itself would be allocated for every group
		l.failedWrite, l.failure = &stuck, err
		ring(l.wake)
	} else {
		if l.failedWrite != nil {
			l.o.Logger.Info("writing the ledger works again")
		}
		l.failedWrite, l.failure = nil, nil
		g.seg.written = g.at + int64(len(g.buf))
		l.spare = g.buf[:0]
	}
	l.changed.Broadcast()
}

// rotateSegment begins the next segment where the current one is large enough.
// Nothing is pending.
func (l *Ledger) rotateSegment() {
	if l.next == nil || l.cur.end < l.o.SegmentSize {
		return
	}
	l.cur, l.next = l.next, nil
	l.all = append(l.all, l.cur)
	l.total += segmentHead
}

// ring wakes a goroutine, now or when it next looks.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tooSlow tells those who wait that the write under way takes long.
func (l *Ledger) tooSlow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing {
		l.slow = true
		l.changed.Broadcast()
	}
}
