package ledger

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

// Pauses between tries to write again.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// marksEvery is how many groups share a mark.
const marksEvery = 5

// commit is the committer's loop. It makes safe what was written, tries again
// what could not be, makes segments ahead and removes those that are done.
func (l *Ledger) commit() {
	pause := firstPause
	var marked time.Time
	for last := false; ; {
		failing := l.retry()
		failing = !l.syncSegments() || failing
		l.preallocateSegment()
		// A mark has the store sync, which is worth more than one group.
		if last || time.Since(marked) >= marksEvery*l.o.SyncInterval {
			l.keepMarks()
			marked = time.Now()
		}
		l.compact()
		if last {
			return
		}
		if !failing {
			pause = firstPause
		}
		last = !l.waitForWork(pause, failing)
		pause = min(2*pause, longestPause)
	}
}

// waitForWork waits until there is something to do: for a moment where writing fails,
// else until others have had time to join the group. It returns false when the
// ledger is being closed.
func (l *Ledger) waitForWork(pause time.Duration, failing bool) bool {
	late := l.clock(pause, failing)
	for {
		select {
		case <-l.stop.Done():
			return false
		case <-late:
			return true
		case <-l.wake:
			if failing {
				continue
			}
			if l.urgent() {
				return true
			}
			if late == nil {
				late = time.After(l.o.SyncInterval)
			}
		}
	}
}

// clock returns what ends a rest, nil for nothing but a wake-up.
func (l *Ledger) clock(pause time.Duration, failing bool) <-chan time.Time {
	if failing {
		return time.After(pause)
	}
	if l.urgent() {
		return closedTime
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// What was accepted while a write hung is written when that ends: its callers
	// may not wait for it.
	busy := l.dirty || len(l.pending) > 0 || l.unmarked()
	l.dirty = false
	if !busy {
		return nil
	}
	return time.After(l.o.SyncInterval)
}

// unmarked reports whether a segment was applied further than its mark says.
func (l *Ledger) unmarked() bool {
	for _, s := range l.all {
		if s.marked < s.applied {
			return true
		}
	}
	return false
}

// urgent reports whether somebody waits for a sync, or writing has failed.
func (l *Ledger) urgent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strict > 0 || l.failedWrite != nil
}

// retry writes again what could not be written, and what nobody has written. It
// reports whether writing still fails.
func (l *Ledger) retry() (failing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failedWrite != nil && !l.writing {
		g := *l.failedWrite
		l.writing = true
		l.mu.Unlock()
		_, err := g.seg.file.WriteAt(g.buf, g.at)
		l.mu.Lock()
		l.writing = false
		l.wrote(g, err)
	}
	if l.failedWrite == nil && !l.writing {
		l.writePending()
	}
	return l.failedWrite != nil
}

// syncSegments syncs the segments that were written to, and tells who waits for it. It
// reports whether that worked.
func (l *Ledger) syncSegments() bool {
	type work struct {
		seg *segment
		to  int64
	}
	var list []work
	l.mu.Lock()
	for _, s := range l.all {
		if s.synced < s.written {
			list = append(list, work{s, s.written})
		}
	}
	l.mu.Unlock()
	worked := true
	for _, w := range list {
		if err := w.seg.file.Sync(); err != nil {
			l.o.Logger.Error("syncing the ledger", "segment", w.seg.path, "err", err)
			worked = false
			continue
		}
		l.mu.Lock()
		w.seg.synced = max(w.seg.synced, w.to)
		l.changed.Broadcast()
		ring(l.counting.wake)
		l.mu.Unlock()
	}
	return worked
}

// preallocateSegment makes the next segment before it is needed. While it can't be made, the
// present one grows. It begins it too where nobody writes: a ledger that is full
// gets room only by leaving its last segment.
func (l *Ledger) preallocateSegment() {
	l.mu.Lock()
	l.turnOverIdle()
	needed := l.next == nil && l.cur.end > l.o.SegmentSize/2
	after := l.cur.number
	l.mu.Unlock()
	if !needed {
		return
	}
	s, err := create(l.o.Dir, after, l.o.wrap)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.dirty = true // again at the next turn
		return
	}
	l.next = s
	l.turnOverIdle() // the current one may take all the room there is
}

// turnOverIdle begins the next segment, unless somebody writes.
func (l *Ledger) turnOverIdle() {
	if len(l.pending) == 0 && !l.writing && l.failedWrite == nil {
		l.rotateSegment()
	}
}

// keepMarks writes into segments how far they were applied, once the store
// holds that against a power cut.
func (l *Ledger) keepMarks() {
	type work struct {
		seg *segment
		to  int64
	}
	var list []work
	l.mu.Lock()
	for _, s := range l.all {
		if l.rows.depth() == 0 {
			s.applied = s.end // what is behind the last row is none
		}
		if s.marked < s.applied {
			list = append(list, work{s, s.applied})
		}
	}
	l.mu.Unlock()
	if len(list) == 0 {
		return
	}
	if err := l.o.Store.Sync(context.WithoutCancel(l.stop)); err != nil {
		return // the store tells of its own failures
	}
	for _, w := range list {
		if err := w.seg.writeMark(w.to); err != nil {
			return // rows are then looked for again at the next start
		}
		l.mu.Lock()
		w.seg.marked = w.to
		l.mu.Unlock()
	}
}

// compact removes the oldest segments as long as all in them is settled, applied
// and counted. An attempt that goes on for long does not keep its segment: its
// intent is noted again.
func (l *Ledger) compact() {
	for !l.o.KeepSegments {
		l.mu.Lock()
		s := l.all[0]
		done := s != l.cur && s.applied >= s.end && s.marked >= s.applied && s.written >= s.end
		if done && s.open > 0 {
			l.rewriteOpenIntents(s)
		}
		done = done && s.open == 0 && l.rewritesDurable(s) && l.fullyCounted(s)
		if done {
			l.all = slices.Delete(l.all, 0, 1)
			l.total -= s.end
			l.changed.Broadcast()
		}
		l.mu.Unlock()
		if !done {
			return
		}
		if err := errors.Join(removed(s), s.release()); err != nil {
			l.o.Logger.Warn("removing a segment of the ledger", "err", err)
		}
	}
}

func removed(s *segment) error {
	if s.corrupt {
		return nil
	}
	return os.Remove(s.path)
}

// rewritesDurable reports whether nothing that left s for another segment is at the
// mercy of a power cut.
func (l *Ledger) rewritesDurable(s *segment) bool {
	return s.left.seg == nil || s.left.seg.synced >= s.left.at
}

// rewriteOpenIntents notes the open intents of s again, in the current segment. They are read
// from memory that the system holds, so that it is done under the lock.
func (l *Ledger) rewriteOpenIntents(s *segment) {
	for key, p := range l.open {
		if p.seg != s || !l.fits(kindIntent, intentSize) {
			continue
		}
		var b [intentSize]byte
		if _, err := s.file.ReadAt(b[:], p.at); err != nil {
			continue
		}
		raw := completeRecord(b[:], p.at, s.seed)
		if raw == nil {
			continue
		}
		i := parse(raw).Intent
		l.open[key] = place{l.cur, l.cur.end}
		s.open--
		l.cur.open++
		l.pending = appendIntent(l.pending, l.cur.end, i)
		l.accepted(intentSize)
		s.left = place{l.cur, l.cur.end}
	}
}
