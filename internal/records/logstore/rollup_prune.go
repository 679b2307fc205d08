package logstore

import (
	"context"
	"fmt"
	"time"
)

// sumsAtOnce is the number of rollups removed in one step, for which the writer waits.
const sumsAtOnce = 64

// pruneSums removes the rollups beyond their age in small steps, and returns their
// number.
func (s *Store) pruneSums(ctx context.Context, r Retention, now time.Time) (sum int64, err error) {
	for r.Sums > 0 {
		n, err := s.keeper.dropSums(ctx, r.sumsBefore(now), sumsAtOnce)
		if err != nil {
			return sum, err
		}
		sum += n
		if n < sumsAtOnce {
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

// prunableSums returns the number of rollups that [Store.Prune] would remove.
func (s *Store) prunableSums(ctx context.Context, r Retention, now time.Time) (int64, error) {
	if r.Sums <= 0 {
		return 0, nil
	}
	return s.keeper.countSums(ctx, r.sumsBefore(now))
}

// sumsBefore returns the start of the first hour that is not completely beyond the age.
func (r Retention) sumsBefore(now time.Time) int64 {
	return floor(max(now.Add(-r.Sums).UnixMilli(), 0), hourMillis)
}

// dropSums removes up to limit rollups of periods that began before before, and returns
// their number.
func (t *tables) dropSums(ctx context.Context, before int64, limit int) (int64, error) {
	const q = `
		DELETE FROM rollups
		WHERE (organisation, grain, bucket, id) IN (
			SELECT organisation, grain, bucket, id
			FROM rollups
			WHERE grain IN (0, 1, 2, 3) AND bucket < $1
			LIMIT $2
		)`
	if err := t.create(ctx); err != nil {
		return 0, err
	}
	done, err := t.write.ExecContext(ctx, q, before, limit)
	if err != nil {
		return 0, t.noteFailure(fmt.Errorf("removing rollups: %w", err))
	}
	return done.RowsAffected()
}

// countSums returns the number of rollups of periods that began before before.
func (t *tables) countSums(ctx context.Context, before int64) (n int64, err error) {
	const q = `
		SELECT COUNT(*)
		FROM rollups
		WHERE grain IN (0, 1, 2, 3) AND bucket < $1`
	if err := t.create(ctx); err != nil {
		return 0, err
	}
	if err := t.read.QueryRowContext(ctx, q, before).Scan(&n); err != nil {
		return 0, t.noteFailure(fmt.Errorf("counting rollups: %w", err))
	}
	return n, nil
}
