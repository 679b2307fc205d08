package ledger

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"modelgate/internal/records/reqlog"
)

// RecordIntent records an attempt that is about to be sent, and returns when the record
// was written. If there is no space it behaves as [Options].OnFull says, until ctx ends.
// On an error the attempt must not be sent, and needs no settlement.
func (l *Ledger) RecordIntent(ctx context.Context, i reqlog.Intent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := sizeOf(&i)
	ok, err := l.room(ctx, kindIntent, size)
	if !ok {
		return err
	}
	at := l.cur.end
	l.pending = appendIntent(l.pending, at, &i)
	seg := l.accepted(size)
	key := attempt{i.ID, i.Attempt}
	l.open[key] = place{seg, at}
	seg.open++
	l.stats.Intents++
	if err := l.await(ctx, kindIntent, seg, at+int64(size)); err != nil {
		l.settle(&reqlog.Settlement{ID: i.ID, Attempt: i.Attempt, Time: i.Time, Outcome: reqlog.Failed})
		return err
	}
	return nil
}

// RecordSettlement records how an attempt ended. It is written with the next record,
// usually the row of its exchange, or with the next group. A settlement of an attempt
// that was not recorded or is already settled has no effect.
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

// settle records s. The caller has checked the space.
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

// scratch pools the buffers in which rows are encoded.
var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Record records the entry of an ended exchange, which must not change any more, and
// returns when it was written. It implements reqlog.Recorder.
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
	if len(e.Attempts) == 0 && l.crowded(size) {
		l.lose(kindRow)
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

// crowded reports whether a row of a request that was not sent would take memory that
// requests in progress need: if attempts are rejected and writes fail, they get half of it.
func (l *Ledger) crowded(size int) bool {
	return l.rejectsAttempts() && l.writeStalled() && len(l.pending)+size > maxPending/2
}

// giveBack returns buf to the pool, unless it has grown too large.
func giveBack(buf *[]byte) {
	if cap(*buf) <= 256<<10 {
		scratch.Put(buf)
	}
}

// bodiesFit waits until a row of size bytes may be recorded with its bodies, and
// reports false if the bodies must be dropped, as [Options].OnFull says: because of
// space, of which bodies leave a quarter to exchanges without them, or while writes fail.
func (l *Ledger) bodiesFit(ctx context.Context, size int) bool {
	if l.o.OnFull != DropBodies && l.o.OnFull != DropRows {
		return true
	}
	limit := min(l.limit(kindRow), l.limit(kindIntent)) - l.o.MaxSize/4
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

var _ reqlog.Recorder = (*Ledger)(nil)

// await returns when the segment was written up to end, writing it unless another
// caller does. If callers do not wait for the disk, it also returns when the disk
// hangs; accepted records stay accepted.
func (l *Ledger) await(ctx context.Context, kind byte, seg *segment, end int64) error {
	held := false
	for seg.written < end {
		if l.writeStalled() && !held {
			var cancel context.CancelFunc
			ctx, cancel = l.hold(ctx, kind)
			defer cancel()
			held = true
		}
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
	ctx, cancel := l.hold(ctx, kind)
	defer cancel()
	l.strict++
	defer func() { l.strict-- }()
	ring(l.wake)
	for seg.synced < end {
		if l.waitDisabled(kind) {
			return l.notWrittenError(kind)
		}
		if l.refuses(kind) {
			return l.fullError()
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeOrWait writes the pending records, or waits for the caller that does.
func (l *Ledger) writeOrWait(ctx context.Context, kind byte) error {
	switch {
	case l.failedWrite == nil && !l.writing:
		l.yieldToAppenders()
		l.writePending()
		return nil
	case l.refuses(kind):
		return l.fullError()
	case l.waitDisabled(kind):
		return nil
	case l.writeStalled():
		return l.pause(ctx)
	}
	l.changed.Wait()
	return nil
}

// waitDisabled reports whether callers do not wait for the disk: by the settings, or
// because the ledger is closing. If attempts may be rejected, ended exchanges wait in
// memory, because the next request on their connection would wait for them.
func (l *Ledger) waitDisabled(kind byte) bool {
	return l.writeStalled() && (l.o.OnFull == DropRows || l.rejectsAttempts() && kind != kindIntent || l.closed)
}

// notWrittenError returns the error for a record that was accepted but not written.
func (l *Ledger) notWrittenError(kind byte) error {
	if kind == kindIntent && l.o.OnFull != DropRows {
		return l.fullError()
	}
	return nil
}

// fullError returns ErrFull with the reason why writes fail.
func (l *Ledger) fullError() error {
	if l.failure == nil {
		return ErrFull
	}
	return fmt.Errorf("%w: %w", ErrFull, l.failure)
}

// pause waits for a change until ctx ends.
func (l *Ledger) pause(ctx context.Context) error {
	if err := waitError(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.changed.Wait()
	return waitError(ctx)
}

// waitError returns the error of ctx, which is ErrFull after [Ledger.hold].
func waitError(ctx context.Context) error {
	if context.Cause(ctx) == ErrFull {
		return ErrFull
	}
	return ctx.Err()
}

// slowAfter is how long a write may take before waiting callers behave as if the disk
// were full.
const slowAfter = time.Second

// yieldToAppenders lets other ready callers append their records, so that they share
// one write. Without any it takes no time.
func (l *Ledger) yieldToAppenders() {
	l.writing = true
	l.mu.Unlock()
	runtime.Gosched()
	l.mu.Lock()
	l.writing = false
}

// writePending writes the pending records. It releases the lock in the
// meantime so that others can append; the first of them writes the next group.
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

// wrote handles the result of writing a group.
func (l *Ledger) wrote(g group, err error) {
	if err != nil {
		if l.failedWrite == nil {
			l.o.Logger.Error("ledger write failed; retrying", "err", err, "on_full", string(l.o.OnFull))
		}
		stuck := g // using g would allocate for every group
		l.failedWrite, l.failure = &stuck, err
		ring(l.wake)
	} else {
		if l.failedWrite != nil {
			l.o.Logger.Info("ledger write recovered")
		}
		l.failedWrite, l.failure = nil, nil
		g.seg.written = g.at + int64(len(g.buf))
		l.spare = g.buf[:0]
	}
	l.changed.Broadcast()
}

// rotateSegment begins the next segment if the current one is large enough. Nothing may
// be pending.
func (l *Ledger) rotateSegment() {
	if l.next == nil || l.cur.end < l.o.SegmentSize {
		return
	}
	l.cur, l.next = l.next, nil
	l.all = append(l.all, l.cur)
	l.total += segmentHead
}

// ring wakes a goroutine, or has it continue at once when it is busy.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tooSlow tells waiting callers that the current write takes long.
func (l *Ledger) tooSlow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing {
		l.slow = true
		l.changed.Broadcast()
	}
}
