package logstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Times of folding: rows of batches are folded into minutes soon after the minute, and
// minutes into hours after two days. Late rows are folded again.
const (
	foldBatches = 2 * time.Minute
	foldMinutes = 48 * time.Hour
)

// Number of periods folded at once, so that the writer does not wait long.
const (
	minutesAtOnce = 16
	hoursAtOnce   = 2
)

// rollupCompactor folds at intervals, in the writer.
type rollupCompactor struct{ next time.Time }

// compactRollups folds what is due. After a failure it is retried a minute later.
func (s *Store) compactRollups(f *rollupCompactor) {
	now := time.Now()
	if now.Before(f.next) && f.next.Sub(now) <= time.Minute { // or the clock was set back
		return
	}
	more, err := s.keeper.fold(s.giveUp, now)
	if err != nil {
		s.log.Warn("log rollup compaction failed", "err", err)
	}
	if err != nil || !more {
		f.next = now.Add(time.Minute)
	}
}

// fold merges some rows that are due, and reports whether there may be more.
func (t *tables) fold(ctx context.Context, now time.Time) (more bool, err error) {
	if err := t.create(ctx); err != nil {
		return false, err
	}
	for _, step := range []struct {
		from, to int
		width    int64
		before   int64
		limit    int
	}{
		{grainBatch, grainMinute, minuteMillis, now.Add(-foldBatches).UnixMilli(), minutesAtOnce},
		{grainMinute, grainHour, hourMillis, floor(now.Add(-foldMinutes).UnixMilli(), hourMillis), hoursAtOnce},
	} {
		due, err := t.due(ctx, step.from, step.width, floor(step.before, step.width), step.limit)
		if err != nil {
			return false, t.noteFailure(err)
		}
		for _, r := range due {
			if err := t.foldOne(ctx, r, step.from, step.to, step.width); err != nil {
				return false, t.noteFailure(err)
			}
		}
		more = more || len(due) == step.limit
	}
	return more, nil
}

// due returns the organisations and periods with rows to fold.
func (t *tables) due(ctx context.Context, grain int, width, before int64, limit int) (due []rollup, err error) {
	const q = `
		SELECT DISTINCT organisation, bucket - bucket % $1
		FROM rollups
		WHERE grain = $2 AND bucket < $3
		LIMIT $4`
	rows, err := t.read.QueryContext(ctx, q, width, grain, before, limit)
	if err != nil {
		return nil, fmt.Errorf("finding rollups to fold: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r rollup
		if err := rows.Scan(&r.organisation, &r.bucket); err != nil {
			return nil, fmt.Errorf("finding rollups to fold: %w", err)
		}
		due = append(due, r)
	}
	return due, rows.Err()
}

// foldOne merges the rows of one organisation and period into one. Concurrent calls
// fold each row once, because a row belongs to the call that deletes it.
func (t *tables) foldOne(ctx context.Context, r rollup, from, to int, width int64) error {
	tx, err := t.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("folding rollups: %w", err)
	}
	defer tx.Rollback() // without effect once committed
	rows, err := takeOut(ctx, tx, r, [2]int{from, to}, width)
	if err != nil {
		return fmt.Errorf("folding rollups: %w", err)
	}
	set := make(groupSet)
	for _, part := range rows {
		add := func() error { return set.mergeStored(part.data, part.bucket) }
		if checkSums(part.data) != nil {
			add = func() error { return addRollup(ctx, tx, grainDamaged, part) }
		}
		if err := add(); err != nil {
			return fmt.Errorf("folding rollups: %w", err)
		}
	}
	if len(set) > 0 {
		set.bound()
		r.data = set.append(nil, r.bucket)
		if err := addRollup(ctx, tx, to, r); err != nil {
			return fmt.Errorf("folding rollups: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("folding rollups: %w", err)
	}
	return nil
}

// takeOut deletes and returns the rows to fold, including the row they are folded into.
func takeOut(ctx context.Context, tx *sql.Tx, r rollup, grains [2]int, width int64) (list []rollup, err error) {
	const q = `
		DELETE FROM rollups
		WHERE organisation = $1 AND grain IN ($2, $3) AND bucket >= $4 AND bucket < $5
		RETURNING bucket, data`
	rows, err := tx.QueryContext(ctx, q, r.organisation, grains[0], grains[1], r.bucket, r.bucket+width)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		part := rollup{organisation: r.organisation}
		if err := rows.Scan(&part.bucket, &part.data); err != nil {
			return nil, err
		}
		list = append(list, part)
	}
	return list, rows.Err()
}
