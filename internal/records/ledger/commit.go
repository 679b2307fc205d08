package ledger

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

// Pauses between write retries.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// marksEvery is the number of groups between marks.
const marksEvery = 5

// commit runs the committer's loop: it syncs written segments, retries failed writes,
// creates segments in advance and removes completed ones.
func (l *Ledger) commit() {
	pause := firstPause
	var marked time.Time
	for last := false; ; {
		failing := l.retry()
		failing = !l.syncSegments() || failing
		l.preallocateSegment()
		// A mark makes the store sync, which costs more than one group.
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

// waitForWork waits until there is work: briefly if writes fail, otherwise until others
// have had time to join the group. It returns false when the ledger is closing.
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

// clock returns the timer that ends a wait, nil to wait for a wake-up only.
func (l *Ledger) clock(pause time.Duration, failing bool) <-chan time.Time {
	if failing {
		return time.After(pause)
	}
	if l.urgent() {
		return closedTime
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// What was accepted while a write hung is written afterwards; its callers may not
	// be waiting.
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

// urgent reports whether a caller waits for a sync, or a write has failed.
func (l *Ledger) urgent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strict > 0 || l.failedWrite != nil
}

// retry writes what could not be written, and what no caller has written. It reports
// whether writes still fail.
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

// syncSegments syncs the written segments and wakes waiting callers. It reports whether
// that succeeded.
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
			l.o.Logger.Error("ledger sync failed", "segment", w.seg.path, "err", err)
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

// preallocateSegment creates the next segment before it is needed. While that fails,
// the current one grows. It also begins the next segment if no one writes, because a
// full ledger frees space only by leaving its last segment.
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
		l.dirty = true // again in the next round
		return
	}
	l.next = s
	l.turnOverIdle() // the current one may take all the space there is
}

// turnOverIdle begins the next segment unless a write is in progress.
func (l *Ledger) turnOverIdle() {
	if len(l.pending) == 0 && !l.writing && l.failedWrite == nil {
		l.rotateSegment()
	}
}

// keepMarks writes the applied positions into segments after syncing the store.
func (l *Ledger) keepMarks() {
	type work struct {
		seg *segment
		to  int64
	}
	var list []work
	l.mu.Lock()
	for _, s := range l.all {
		if l.rows.depth() == 0 {
			s.applied = s.end // nothing follows the last row
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
		return // the store reports its own failures
	}
	for _, w := range list {
		if err := w.seg.writeMark(w.to); err != nil {
			return // rows are then looked up again at the next start
		}
		l.mu.Lock()
		w.seg.marked = w.to
		l.mu.Unlock()
	}
}

// compact removes the oldest segments if everything in them is settled, applied and
// counted. A long-running attempt does not keep its segment: its intent is recorded
// again.
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
		if err := errors.Join(remove(s), s.release()); err != nil {
			l.o.Logger.Warn("removing a ledger segment failed", "err", err)
		}
	}
}

func remove(s *segment) error {
	if s.corrupt {
		return nil
	}
	return os.Remove(s.path)
}

// rewritesDurable reports whether all records of s that were rewritten to another
// segment would survive a power failure.
func (l *Ledger) rewritesDurable(s *segment) bool {
	return s.left.seg == nil || s.left.seg.synced >= s.left.at
}

// rewriteOpenIntents records the open intents of s again in the current segment. They
// are read from the system's cache, so this is done under the lock.
func (l *Ledger) rewriteOpenIntents(s *segment) {
	var b []byte
	for key, p := range l.open {
		if p.seg != s || !l.fits(kindIntent, maxIntent) {
			continue
		}
		if b == nil {
			b = make([]byte, maxIntent)
		}
		n, _ := s.file.ReadAt(b, p.at)
		raw := completeRecord(b[:n], p.at, s.seed)
		if raw == nil {
			continue
		}
		i := parse(raw).Intent
		l.open[key] = place{l.cur, l.cur.end}
		s.open--
		l.cur.open++
		l.pending = appendIntent(l.pending, l.cur.end, i)
		l.accepted(sizeOf(i))
		s.left = place{l.cur, l.cur.end}
	}
}
