package logstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/records/reqlog"
)

// partitionName returns the name of a partition: its table and day, such as
// blocks_20261121. Later slices of the day also contain their first millisecond, such
// as blocks_20261121_1795219200123.
func partitionName(table string, day int64) string {
	return table + "_" + time.UnixMilli(day*dayMillis).UTC().Format("20060102")
}

func sliceName(table string, day, from int64) string {
	return partitionName(table, day) + "_" + strconv.FormatInt(from, 10)
}

// partitionTime returns the day of a partition and its first millisecond, false for a
// table with another name. The year may have five digits.
func partitionTime(name string) (day, from int64, ok bool) {
	_, digits, ok := strings.Cut(name, "_")
	digits, at, sliced := strings.Cut(digits, "_")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return 0, 0, false
	}
	day = time.Date(n/10000, time.Month(n/100%100), n%100, 0, 0, 0, 0, time.UTC).UnixMilli() / dayMillis
	if !sliced {
		return day, day * dayMillis, true
	}
	from, err = strconv.ParseInt(at, 10, 64)
	return day, from, err == nil
}

// sliceStarts returns the starts of a day's partitions from the second on.
func sliceStarts(ctx context.Context, tx *sql.Tx, table string, day int64) (list []int64, err error) {
	const q = `
		SELECT c.relname
		FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = to_regclass($1) AND starts_with(c.relname, $2)`
	rows, err := tx.QueryContext(ctx, q, table, partitionName(table, day)+"_")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		if _, from, ok := partitionTime(name); ok {
			list = append(list, from)
		}
	}
	slices.Sort(list)
	return list, rows.Err()
}

// A slice is split when it has 1/32 of the log's size limit, but at least minSlice, so
// that the oldest part of a day can be dropped while the day is written. Attaching
// reads the rows of a slice without their large values, so maxSlice limits how long
// writers wait.
const (
	minSlice = 1 << 20
	maxSlice = 1 << 30
)

// split ends the last slice of the current day at its newest id if it is large enough,
// and begins another.
func (k *postgresBackend) split(ctx context.Context, r Retention, now time.Time) (did bool, err error) {
	if r.Bytes <= 0 {
		return false, nil
	}
	limit := min(max(r.Bytes/32, minSlice), maxSlice)
	all, err := k.slices(ctx)
	if err != nil {
		return false, k.noteFailure(fmt.Errorf("listing the days of the log: %w", err))
	}
	for _, s := range all {
		if s.day == now.UnixMilli()/dayMillis && s.end && s.size() > limit && len(s.blocks) == 1 && len(s.bodies) == 1 {
			err = k.changeSoon(ctx, func(tx *sql.Tx) error { return splitSlice(ctx, tx, s, now) })
			if errors.Is(err, errUnsplit) {
				return false, nil
			}
			return err == nil, err
		}
	}
	return false, nil
}

// clockSkew is how far another node's clock may be ahead. A slice after an id further
// ahead would stay empty until that time.
const clockSkew = time.Minute

// errUnsplit means that a slice cannot be split: it is empty, reaches the end of its
// day or into the future, or another process was faster.
var errUnsplit = errors.New("the slice cannot be split")

func splitSlice(ctx context.Context, tx *sql.Tx, s slice, now time.Time) error {
	// While this waits, entries are queued but requests do not wait. Without a split
	// nothing can be removed.
	if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = '2s'`); err != nil {
		return err
	}
	tables := []struct{ table, key, name string }{{"blocks", "last_id", s.blocks[0].name}, {"bodies", "id", s.bodies[0].name}}
	starts, err := sliceStarts(ctx, tx, "blocks", s.day)
	if err != nil {
		return err
	}
	if slices.Max(append(starts, s.day*dayMillis)) != s.from {
		return errUnsplit
	}
	next := int64(0)
	for _, t := range tables {
		if _, err := tx.ExecContext(ctx, `ALTER TABLE `+t.table+` DETACH PARTITION `+t.name); err != nil {
			return err
		}
		var last reqlog.ID
		var raw []byte
		err := tx.QueryRowContext(ctx, `SELECT `+t.key+` FROM `+t.name+` ORDER BY `+t.key+` DESC LIMIT 1`).Scan(&raw)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if copy(last[:], raw) > 0 {
			next = max(next, millis(last)+1)
		}
	}
	end := (s.day + 1) * dayMillis
	if next <= s.from || next >= end || next > now.Add(clockSkew).UnixMilli() {
		return errUnsplit
	}
	for _, t := range tables {
		if err := attachTable(ctx, tx, newPartition{t.table, t.name, s.from, next}); err != nil {
			return err
		}
		if err := attachNew(ctx, tx, newPartition{t.table, sliceName(t.table, s.day, next), next, end}); err != nil {
			return err
		}
	}
	return nil
}
