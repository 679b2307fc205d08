package logstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/reqlog"
)

// Partitions are called by their table and day, as blocks_20261121.
func partitionName(table string, day int64) string {
	return table + "_" + time.UnixMilli(day*dayMillis).UTC().Format("20060102")
}

// partitionDay is the day of a partition, false for a table of another name. The
// year may have five digits.
func partitionDay(name string) (day int64, ok bool) {
	_, digits, ok := strings.Cut(name, "_")
	if n, err := strconv.Atoi(digits); ok && err == nil {
		at := time.Date(n/10000, time.Month(n/100%100), n%100, 0, 0, 0, 0, time.UTC)
		return at.UnixMilli() / dayMillis, true
	}
	return 0, false
}

// dayTables are the partitions of one day, or those of them that go.
type dayTables struct {
	day            int64
	blocks, bodies []partition // one or none
}

// partition is a table of one day.
type partition struct {
	name  string
	bytes int64
}

func (d dayTables) size() (n int64) {
	for _, p := range slices.Concat(d.blocks, d.bodies) {
		n += p.bytes
	}
	return n
}

// last returns the last id of the day.
func (d dayTables) last() reqlog.ID { return idAt((d.day+1)*dayMillis - 1) }

// partitions returns the days that have some, the oldest first.
func (k *serverKeeper) partitions(ctx context.Context) (list []dayTables, err error) {
	const q = `
		SELECT c.relname, i.inhparent = 'bodies'::regclass, COALESCE(pg_total_relation_size(c.oid), 0)
		FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent IN ('blocks'::regclass, 'bodies'::regclass)`
	rows, err := k.read.QueryContext(ctx, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	days := make(map[int64]dayTables)
	for rows.Next() {
		var p partition
		var bodies bool
		if err := rows.Scan(&p.name, &bodies, &p.bytes); err != nil {
			return nil, err
		}
		n, ok := partitionDay(p.name)
		if !ok {
			continue
		}
		d := days[n]
		if bodies {
			d.bodies = append(d.bodies, p)
		} else {
			d.blocks = append(d.blocks, p)
		}
		days[n] = d
	}
	for _, n := range slices.Sorted(maps.Keys(days)) {
		list = append(list, dayTables{n, days[n].blocks, days[n].bodies})
	}
	return list, rows.Err()
}

// goners returns what r does not keep: bodies that are beyond their age, then days
// as a whole. The present day and later ones stay.
func (k *serverKeeper) goners(ctx context.Context, r Retention, now time.Time) (list []dayTables, err error) {
	if err := k.prepared(ctx); err != nil {
		return nil, err
	}
	all, err := k.partitions(ctx)
	if err != nil {
		return nil, k.spoiled(fmt.Errorf("listing the days of the log: %w", err))
	}
	past := all[:0:0]
	total := int64(0)
	for _, d := range all {
		today := d.day >= now.UnixMilli()/dayMillis
		if !today && len(d.bodies) > 0 && less(d.last(), r.bodiesFrom(now)) {
			list = append(list, dayTables{day: d.day, bodies: d.bodies})
			d.bodies = nil
		}
		if !today && len(d.blocks)+len(d.bodies) > 0 {
			past = append(past, d)
		}
		total += d.size()
	}
	for _, d := range past {
		if !(r.Bytes > 0 && total > r.Bytes) && !r.tooOld(d.last(), now) {
			break
		}
		list = append(list, d)
		total -= d.size()
	}
	return list, nil
}

func (k *serverKeeper) prune(ctx context.Context, r Retention, now time.Time) (p Pruned, more bool, err error) {
	goners, err := k.goners(ctx, r, now)
	if err != nil || len(goners) == 0 {
		return p, false, err
	}
	if p, err = k.drop(ctx, goners[0]); err != nil {
		return Pruned{}, false, fmt.Errorf("removing a day of the log: %w", err)
	}
	return p, len(goners) > 1, nil
}

// drop removes partitions of a day. Writers and readers wait while it waits for
// earlier readers, so that is not for long: the next round tries again.
func (k *serverKeeper) drop(ctx context.Context, d dayTables) (p Pruned, err error) {
	if p, err = k.count(ctx, d); err != nil {
		return p, err
	}
	k.mu.Lock()
	delete(k.days, d.day)
	k.mu.Unlock()
	return p, k.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = '200ms'`); err != nil {
			return err
		}
		for _, p := range slices.Concat(d.blocks, d.bodies) {
			if _, err := tx.ExecContext(ctx, `DROP TABLE IF EXISTS `+p.name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (k *serverKeeper) prunable(ctx context.Context, r Retention, now time.Time) (sum Pruned, err error) {
	goners, err := k.goners(ctx, r, now)
	for _, d := range goners {
		p, err := k.count(ctx, d)
		if err != nil {
			return sum, err
		}
		sum.add(p)
	}
	return sum, err
}

// count returns what partitions hold.
func (k *serverKeeper) count(ctx context.Context, d dayTables) (sum Pruned, err error) {
	count := func(list []partition, what string, into ...any) {
		for _, p := range list {
			if err == nil {
				err = k.read.QueryRowContext(ctx, "SELECT "+what+" FROM "+p.name).Scan(into...)
			}
		}
	}
	count(d.blocks, "COUNT(*), COALESCE(SUM(entries), 0)", &sum.Blocks, &sum.Entries)
	count(d.bodies, "COUNT(*)", &sum.Bodies)
	sum.Bytes = d.size()
	if unprepared(err) {
		return Pruned{}, nil // another process was quicker
	}
	return sum, err
}
