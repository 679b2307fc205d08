package logstore

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/reqlog"
)

// Retention is how much of the log is kept. A zero field keeps all.
type Retention struct {
	// Age is how old an entry may be by its id. On PostgreSQL whole days (UTC)
	// are removed, so that entries stay up to a day longer.
	Age time.Duration

	// Bytes is how much room the log may take on the disk, about. On PostgreSQL
	// days are split into parts of a 32nd of it, and the last two parts stay.
	Bytes int64

	// Sums is how old the sums of entries, and feedback, may be. They go by whole
	// hours.
	Sums time.Duration

	// BodiesAge is how old bodies may be, of entries that stay. Zero keeps them as
	// long as their entries, with which they go in any case.
	BodiesAge time.Duration
}

// tooOld reports whether what was newest at last is beyond the age.
func (r Retention) tooOld(last reqlog.ID, now time.Time) bool {
	return r.Age > 0 && millis(last) < now.Add(-r.Age).UnixMilli()
}

// bodiesFrom returns the first id whose bodies are not beyond their age.
func (r Retention) bodiesFrom(now time.Time) reqlog.ID {
	if r.BodiesAge <= 0 {
		return reqlog.ID{}
	}
	return idAt(now.Add(-r.BodiesAge).UnixMilli())
}

// Pruned is what was removed: of entries, of how many the bodies, before them or
// with them, and how many sets of sums, each of an hour or less of one
// organisation.
type Pruned struct{ Blocks, Entries, Bodies, Bytes, Sums int64 }

func (p *Pruned) add(o Pruned) {
	p.Blocks += o.Blocks
	p.Entries += o.Entries
	p.Bodies += o.Bodies
	p.Bytes += o.Bytes
}

// Prune removes what r does not keep, step by step, so that writing and reading
// go on. Now is the time that ages are counted from.
func (s *Store) Prune(ctx context.Context, r Retention, now time.Time) (Pruned, error) {
	var sum Pruned
	var err error
	if sum.Sums, err = s.pruneSums(ctx, r, now); err != nil {
		return sum, fmt.Errorf("pruning the log: %w", err)
	}
	if err := s.pruneFeedback(ctx, r, now); err != nil {
		return sum, fmt.Errorf("pruning the log: %w", err)
	}
	for r != (Retention{}) {
		p, more, err := s.keeper.prune(ctx, r, now)
		if err != nil {
			return sum, fmt.Errorf("pruning the log: %w", err)
		}
		sum.add(p)
		s.pruned(p)
		if !more {
			break
		}
		select {
		case <-ctx.Done():
			return sum, ctx.Err()
		case <-time.After(prunePause):
		}
	}
	return sum, nil
}

// prunePause is between two steps of removing, for the writer.
const prunePause = 20 * time.Millisecond

// Prunable returns what [Store.Prune] would remove.
func (s *Store) Prunable(ctx context.Context, r Retention, now time.Time) (Pruned, error) {
	p, err := s.keeper.prunable(ctx, r, now)
	if err == nil {
		p.Sums, err = s.prunableSums(ctx, r, now)
	}
	if err != nil {
		return p, fmt.Errorf("looking at the log: %w", err)
	}
	return p, nil
}

// pruneEvery is how often the store looks for what is to be removed.
const pruneEvery = time.Minute

// pruneAfter is how many bytes are written before the store looks earlier, unless
// a 32th of [Retention.Bytes] is more. A burst could write far more in a minute.
const pruneAfter = 16 << 20

// grew counts what a batch has added and has the store look for what is to be
// removed. It is for the writer.
func (s *Store) grew(w *batchWriter) {
	s.added += int64(len(w.data))
	for i := range w.bodies {
		s.added += int64(len(w.bodies[i].data))
	}
	if s.added < s.pruneAfter {
		return
	}
	s.added = 0
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

// pruneOn prunes now and then until ctx ends.
func (s *Store) pruneOn(ctx context.Context, r Retention) {
	clock := time.Now().Round(0)
	for failed := false; ; {
		_, err := s.Prune(ctx, r, clock)
		if err != nil && !failed && ctx.Err() == nil {
			s.log.Error("old log entries can't be removed", "err", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(pruneEvery):
		case <-s.grown:
		}
		clock = FollowClock(clock, time.Now().Round(0))
	}
}

// FollowClock returns the time that ages are counted from a minute after last:
// now, or less when the clock has jumped ahead. Believing the jump would remove all
// at once, so it is followed slowly.
func FollowClock(last, now time.Time) time.Time {
	if furthest := last.Add(2 * pruneEvery); now.After(furthest) {
		return furthest
	}
	return now
}
