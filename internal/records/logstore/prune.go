package logstore

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/records/reqlog"
)

// Retention says how much of the log is retained. A zero field retains all.
type Retention struct {
	// Age is the maximum age of entries by their ids. PostgreSQL drops complete days
	// (UTC), so entries stay up to a day longer.
	Age time.Duration

	// Bytes is the approximate size limit on disk. Feedback and results of guardrails may
	// each take an eighth of it. PostgreSQL splits days into parts of
	// 1/32 of it, and the last two parts stay.
	Bytes int64

	// Sums is the maximum age of rollups, feedback and results of guardrails, in full hours.
	Sums time.Duration

	// BodiesAge is the maximum age of bodies of retained entries. Zero retains them
	// with their entries.
	BodiesAge time.Duration
}

// tooOld reports whether data with this newest id is beyond the age.
func (r Retention) tooOld(last reqlog.ID, now time.Time) bool {
	return r.Age > 0 && millis(last) < now.Add(-r.Age).UnixMilli()
}

// bodiesFrom returns the first id whose bodies are within their age.
func (r Retention) bodiesFrom(now time.Time) reqlog.ID {
	if r.BodiesAge <= 0 {
		return reqlog.ID{}
	}
	return idAt(now.Add(-r.BodiesAge).UnixMilli())
}

// Pruned is what was removed: entries, bodies (with their entries or before), and
// rollups, each of up to an hour of one organisation.
type Pruned struct{ Blocks, Entries, Bodies, Bytes, Sums int64 }

func (p *Pruned) add(o Pruned) {
	p.Blocks += o.Blocks
	p.Entries += o.Entries
	p.Bodies += o.Bodies
	p.Bytes += o.Bytes
}

// Prune removes what r does not retain in small steps, without blocking reads and
// writes. Ages are relative to now.
func (s *Store) Prune(ctx context.Context, r Retention, now time.Time) (Pruned, error) {
	var sum Pruned
	var err error
	if sum.Sums, err = s.pruneSums(ctx, r, now); err != nil {
		return sum, fmt.Errorf("pruning the log: %w", err)
	}
	for _, drop := range [...]dropRows{s.keeper.dropFeedback, s.keeper.dropGuardResults} {
		if err := pruneRows(ctx, r, now, drop); err != nil {
			return sum, fmt.Errorf("pruning the log: %w", err)
		}
	}
	if err := s.pruneRowsBySize(ctx, r); err != nil {
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

// dropRows removes up to limit rows of a table that were created before before.
type dropRows func(ctx context.Context, before int64, limit int) (int64, error)

// rowsAtOnce is the number of rows removed in one step.
const rowsAtOnce = 1000

// pruneRows removes rows that are older than rollups may be.
func pruneRows(ctx context.Context, r Retention, now time.Time, drop dropRows) error {
	for r.Sums > 0 {
		n, err := drop(ctx, r.sumsBefore(now), rowsAtOnce)
		if err != nil || n < rowsAtOnce {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(prunePause):
		}
	}
	return nil
}

// prunePause is the pause between two steps, for the writer.
const prunePause = 20 * time.Millisecond

// Prunable returns what [Store.Prune] would remove.
func (s *Store) Prunable(ctx context.Context, r Retention, now time.Time) (Pruned, error) {
	p, err := s.keeper.prunable(ctx, r, now)
	if err == nil {
		p.Sums, err = s.prunableSums(ctx, r, now)
	}
	if err != nil {
		return p, fmt.Errorf("measuring the log: %w", err)
	}
	return p, nil
}

// pruneEvery is the interval of pruning.
const pruneEvery = time.Minute

// pruneAfter is the number of written bytes that triggers pruning earlier, unless 1/32
// of [Retention.Bytes] is more. A burst could write far more in a minute.
const pruneAfter = 16 << 20

// grew counts the bytes of a batch and triggers pruning. Only the writer calls it.
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

// pruneOn prunes at intervals until ctx ends.
func (s *Store) pruneOn(ctx context.Context, r Retention) {
	clock := time.Now().Round(0)
	for failed := false; ; {
		_, err := s.Prune(ctx, r, clock)
		if err != nil && !failed && ctx.Err() == nil {
			s.log.Error("removing expired log entries failed", "err", err)
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

// FollowClock returns the time for computing ages a minute after last: now, or less if
// the clock has jumped ahead. Following the jump at once would remove everything, so it
// is followed slowly.
func FollowClock(last, now time.Time) time.Time {
	if furthest := last.Add(2 * pruneEvery); now.After(furthest) {
		return furthest
	}
	return now
}
