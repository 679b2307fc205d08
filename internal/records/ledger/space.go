package ledger

import "context"

// room waits until size bytes may be appended. It reports false if the record is lost,
// which it counts; an error also rejects the attempt.
func (l *Ledger) room(ctx context.Context, kind byte, size int) (bool, error) {
	if l.fits(kind, size) && !l.refuses(kind) {
		return true, nil
	}
	ctx, cancel := l.hold(ctx, kind)
	defer cancel()
	for !l.fits(kind, size) || l.refuses(kind) {
		switch {
		case l.refuses(kind), l.closed && kind == kindIntent:
			return false, l.fullError()
		case l.closed, l.losesRecords(kind):
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

// hold bounds how long an attempt waits. Records of attempts that were sent are not
// abandoned.
func (l *Ledger) hold(ctx context.Context, kind byte) (context.Context, context.CancelFunc) {
	if kind != kindIntent {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, HoldTime, ErrFull)
}

// losesRecords reports whether a record of a kind that does not fit is lost instead of
// waiting. If attempts are rejected, so are their rows, because otherwise the rows of
// rejected requests would fill the memory and hold everything up.
func (l *Ledger) losesRecords(kind byte) bool {
	return l.o.OnFull == DropRows || l.rejectsAttempts() && kind == kindRow && (l.writeStalled() || !l.fitsSegments(kind, 0))
}

// rejectsAttempts reports whether new attempts are rejected while nothing can be written.
func (l *Ledger) rejectsAttempts() bool { return l.o.OnFull == Reject || l.o.OnFull == DropBodies }

// limit returns the total size of segments, in bytes, up to which records of a kind may
// be appended. If rows may be dropped, they leave a quarter of the space to attempts.
// If attempts may be rejected, they leave a quarter to the rows of earlier attempts,
// because an ended exchange does not wait.
func (l *Ledger) limit(kind byte) int64 {
	if l.o.OnFull == DropRows && kind == kindRow || l.rejectsAttempts() && kind == kindIntent {
		return l.o.MaxSize - l.o.MaxSize/4
	}
	return l.o.MaxSize
}

// fits reports whether size bytes may be appended now.
func (l *Ledger) fits(kind byte, size int) bool {
	if !l.fitsSegments(kind, size) || l.closed {
		return false
	}
	if kind == kindSettle && l.rejectsAttempts() {
		return true // there are no more than attempts in progress
	}
	return l.fitsPending(size)
}

// fitsSegments reports whether size more bytes are within the total size of segments.
func (l *Ledger) fitsSegments(kind byte, size int) bool { return l.total+int64(size) <= l.limit(kind) }

// fitsPending reports whether size more bytes may be pending.
func (l *Ledger) fitsPending(size int) bool {
	return len(l.pending)+size <= maxPending || size > maxPending/2 && len(l.pending) <= maxPending/2
}

// refuses reports whether an attempt is rejected at once. While a write only takes long,
// it waits up to HoldTime.
func (l *Ledger) refuses(kind byte) bool {
	return l.rejectsAttempts() && kind == kindIntent && (l.failedWrite != nil || l.closed || !l.fitsSegments(kind, intentSize))
}

// writeStalled reports whether writes fail or take unusually long.
func (l *Ledger) writeStalled() bool { return l.failedWrite != nil || l.slow }

func (l *Ledger) lose(kind byte) {
	if kind == kindRow {
		l.stats.Lost++
		return
	}
	l.stats.LostAttempts++
}
