package logstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"modelgate/internal/records/reqlog"
)

// slice is the set of partitions for a part of a day, or those of them to be dropped. A
// day begins with one slice, which is split while the day grows. Slices cover the day.
type slice struct {
	day            int64
	from           int64       // first millisecond
	end            bool        // it is the last of its day
	blocks, bodies []partition // one or none
}

// partition is a table of a slice.
type partition struct {
	name  string
	bytes int64
}

func (s slice) size() (n int64) {
	for _, p := range slices.Concat(s.blocks, s.bodies) {
		n += p.bytes
	}
	return n
}

// lastOfDay returns the last id of the day.
func (s slice) lastOfDay() reqlog.ID { return idAt((s.day+1)*dayMillis - 1) }

// slices returns all slices, oldest first.
func (k *postgresBackend) slices(ctx context.Context) (list []slice, err error) {
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
	found := make(map[int64]*slice)
	for rows.Next() {
		var p partition
		var bodies bool
		if err := rows.Scan(&p.name, &bodies, &p.bytes); err != nil {
			return nil, err
		}
		day, from, ok := partitionTime(p.name)
		if !ok {
			continue
		}
		if found[from] == nil {
			found[from] = &slice{day: day, from: from}
		}
		if bodies {
			found[from].bodies = append(found[from].bodies, p)
		} else {
			found[from].blocks = append(found[from].blocks, p)
		}
	}
	for _, from := range slices.Sorted(maps.Keys(found)) {
		list = append(list, *found[from])
	}
	for i := range list {
		list[i].end = i+1 == len(list) || list[i+1].day != list[i].day
	}
	return list, rows.Err()
}

// expired returns what r does not retain, by day: bodies beyond their age, then the
// oldest slices. The last two slices of the current day and of later days stay, because
// the last may have just begun.
func (k *postgresBackend) expired(ctx context.Context, r Retention, now time.Time) (days [][]slice, err error) {
	if err := k.create(ctx); err != nil {
		return nil, err
	}
	all, err := k.slices(ctx)
	if err != nil {
		return nil, k.noteFailure(fmt.Errorf("listing the days of the log: %w", err))
	}
	today := now.UnixMilli() / dayMillis
	rest := all[:0:0]
	total := int64(0)
	for i, s := range all {
		newest := s.day >= today && (s.end || all[i+1].end)
		if s.day < today && len(s.bodies) > 0 && less(s.lastOfDay(), r.bodiesFrom(now)) {
			days = appendSlice(days, slice{day: s.day, from: s.from, end: true, bodies: s.bodies})
			s.bodies = nil
		}
		if !newest && len(s.blocks)+len(s.bodies) > 0 {
			rest = append(rest, s)
		}
		total += s.size()
	}
	for _, s := range rest {
		if !(r.Bytes > 0 && total > r.Bytes) && !r.tooOld(s.lastOfDay(), now) {
			break
		}
		days = appendSlice(days, s)
		if s.givesRoom() {
			total -= s.size()
		}
	}
	return slices.DeleteFunc(days, func(d []slice) bool { return !slices.ContainsFunc(d, slice.givesRoom) }), nil
}

// appendSlice appends a slice to a list of days.
func appendSlice(days [][]slice, s slice) [][]slice {
	if n := len(days); n > 0 && days[n-1][0].day == s.day {
		days[n-1] = append(days[n-1], s)
		return days
	}
	return append(days, []slice{s})
}

// givesRoom reports whether dropping a slice frees space. An empty slice is recreated
// while its day has later slices.
func (s slice) givesRoom() bool {
	const empty = 128 << 10
	return s.end || s.size() > empty
}

// prune drops the expired slices of a day, otherwise splits a slice.
func (k *postgresBackend) prune(ctx context.Context, r Retention, now time.Time) (p Pruned, more bool, err error) {
	goners, err := k.expired(ctx, r, now)
	if err != nil {
		return p, false, err
	}
	if len(goners) == 0 {
		if more, err = k.split(ctx, r, now); err != nil {
			err = fmt.Errorf("splitting a day of the log: %w", err)
		}
		return p, more, err
	}
	if p, err = k.drop(ctx, goners[0]); err != nil {
		return Pruned{}, false, fmt.Errorf("removing a day of the log: %w", err)
	}
	return p, true, nil
}

// drop drops the first slices of a day. The remaining ones start with an empty slice
// for late entries. Writers and readers wait while it waits for earlier readers, so it
// waits only briefly and is retried in the next round.
func (k *postgresBackend) drop(ctx context.Context, list []slice) (sum Pruned, err error) {
	if sum, err = k.count(ctx, list); err != nil {
		return sum, err
	}
	day := list[0].day
	k.mu.Lock()
	delete(k.days, day)
	k.mu.Unlock()
	return sum, k.changeSoon(ctx, func(tx *sql.Tx) error {
		for _, s := range list {
			for _, p := range slices.Concat(s.blocks, s.bodies) {
				if _, err := tx.ExecContext(ctx, `DROP TABLE IF EXISTS `+p.name); err != nil {
					return err
				}
			}
		}
		for _, table := range []string{"blocks", "bodies"} {
			later, err := sliceStarts(ctx, tx, table, day)
			if err == nil && later != nil {
				err = attach(ctx, tx, table, day)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// changeSoon is [postgresBackend.change] with a lock timeout of 200 ms.
func (k *postgresBackend) changeSoon(ctx context.Context, f func(*sql.Tx) error) error {
	return k.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = '200ms'`); err != nil {
			return err
		}
		return f(tx)
	})
}

func (k *postgresBackend) prunable(ctx context.Context, r Retention, now time.Time) (sum Pruned, err error) {
	goners, err := k.expired(ctx, r, now)
	for _, day := range goners {
		p, err := k.count(ctx, day)
		if err != nil {
			return sum, err
		}
		sum.add(p)
	}
	return sum, err
}

// count returns the content of slices.
func (k *postgresBackend) count(ctx context.Context, list []slice) (sum Pruned, err error) {
	for _, s := range list {
		p := Pruned{Bytes: s.size()}
		count := func(list []partition, what string, into ...any) {
			for _, t := range list {
				if err == nil {
					err = k.read.QueryRowContext(ctx, "SELECT "+what+" FROM "+t.name).Scan(into...)
				}
			}
		}
		count(s.blocks, "COUNT(*), COALESCE(SUM(entries), 0)", &p.Blocks, &p.Entries)
		count(s.bodies, "COUNT(*)", &p.Bodies)
		if unprepared(err) {
			return Pruned{}, nil // another process was faster
		}
		if err != nil {
			return sum, err
		}
		sum.add(p)
	}
	return sum, nil
}
