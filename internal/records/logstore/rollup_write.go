package logstore

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"modelgate/internal/records/reqlog"
)

// rollupTables is the table of rollups. A row has the totals of an organisation for a
// batch in one minute, for a minute, or for an hour, depending on its grain. Id
// distinguishes rows. A period may have several rows, which add up.
const rollupTables = `
	CREATE TABLE IF NOT EXISTS rollups (
		organisation TEXT NOT NULL,
		grain BIGINT NOT NULL,
		bucket BIGINT NOT NULL,
		id BIGINT NOT NULL,
		data BYTEA NOT NULL,
		PRIMARY KEY (organisation, grain, bucket, id)
	);
	CREATE INDEX IF NOT EXISTS rollups_by_time ON rollups (grain, bucket)`

// Grains of rollups. Unreadable rows are set aside when they would be folded.
const (
	grainBatch = iota
	grainMinute
	grainHour
	grainDamaged
)

const (
	minuteMillis = int64(time.Minute / time.Millisecond)
	hourMillis   = int64(time.Hour / time.Millisecond)
)

// rollup is a row of the table.
type rollup struct {
	organisation string
	bucket       int64 // start, in Unix milliseconds
	data         []byte
}

// sumUp returns the rollups of a batch, by organisation and minute.
func sumUp(batch []*reqlog.Entry) []rollup {
	type place struct {
		organisation string
		bucket       int64
	}
	sets := make(map[place]groupSet)
	for _, e := range batch {
		at := place{e.Organisation, floor(millis(e.ID), minuteMillis)}
		if sets[at] == nil {
			sets[at] = make(groupSet)
		}
		sets[at].at(keyOf(e)).add(e)
	}
	rows := make([]rollup, 0, len(sets))
	for at, set := range sets {
		set.bound()
		rows = append(rows, rollup{at.organisation, at.bucket, set.append(nil, at.bucket)})
	}
	return rows
}

func floor(ms, step int64) int64 { return ms - ms%step }

// addRollups writes the rollups of a batch in the transaction that writes its entries.
func addRollups(ctx context.Context, tx *sql.Tx, rows []rollup) error {
	for _, r := range rows {
		if err := addRollup(ctx, tx, grainBatch, r); err != nil {
			return fmt.Errorf("writing the rollups of a batch: %w", err)
		}
	}
	return nil
}

func addRollup(ctx context.Context, tx *sql.Tx, grain int, r rollup) error {
	const q = `
		INSERT INTO rollups (organisation, grain, bucket, id, data)
		VALUES ($1, $2, $3, $4, $5)`
	_, err := tx.ExecContext(ctx, q, r.organisation, grain, r.bucket, rand.Int64(), r.data)
	return err
}

// rollups yields the rollups of an organisation that begin in [from, before), which
// must be full minutes, and those of the hours that contain them.
func (t *tables) rollups(ctx context.Context, organisation string, from, before int64) iter.Seq2[rollup, error] {
	return fresh(t.cut, t.readRollups(ctx, organisation, from, before))
}

func (t *tables) readRollups(ctx context.Context, organisation string, from, before int64) iter.Seq2[rollup, error] {
	const q = `
		SELECT bucket, data
		FROM rollups
		WHERE organisation = $1 AND grain = 0 AND bucket >= $2 AND bucket < $4
		UNION ALL
		SELECT bucket, data
		FROM rollups
		WHERE organisation = $1 AND grain = 1 AND bucket >= $2 AND bucket < $4
		UNION ALL
		SELECT bucket, data
		FROM rollups
		WHERE organisation = $1 AND grain = 2 AND bucket >= $3 AND bucket < $4`
	return func(yield func(rollup, error) bool) {
		if err := t.create(ctx); err != nil {
			yield(rollup{}, err)
			return
		}
		rows, err := t.read.QueryContext(ctx, q, organisation, from, floor(from, hourMillis), before)
		if err != nil {
			yield(rollup{}, t.noteFailure(err))
			return
		}
		defer rows.Close()
		var data sql.RawBytes
		for rows.Next() {
			r := rollup{organisation: organisation}
			err := rows.Scan(&r.bucket, &data)
			r.data = data
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(rollup{}, t.noteFailure(err))
		}
	}
}
