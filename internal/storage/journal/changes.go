package journal

import (
	"context"

	"modelgate/internal/storage/sqlrow"
)

// State names a state of a database. The zero value is none.
type State struct {
	Revision int64
	Mark     string // of the change that made the revision; another one after a backup was restored
}

// Changes are the rows that were written to between two states.
type Changes struct {
	Until State

	all  bool                         // any row may have been written to
	rows map[Rows]map[string]struct{} // ids by table; the empty one is any
}

// Wrote reports whether any row of these tables may have been written to.
func (c *Changes) Wrote(tables ...Rows) bool {
	for _, t := range tables {
		if len(c.rows[t]) > 0 {
			return true
		}
	}
	return c.all
}

// IDs returns the ids of the rows of a table that were written to. It reports
// false when any may have been.
func (c *Changes) IDs(table Rows) (ids map[string]struct{}, ok bool) {
	ids = c.rows[table]
	_, any := ids[""]
	return ids, !any && !c.all
}

// Since returns what was written after a state, which may be none, until the
// revision. Any row may have been when a record in between is missing, or when
// the state is unknown, as after a backup was restored.
func Since(ctx context.Context, q sqlrow.Reader, before State, revision int64) (*Changes, error) {
	const text = `
		SELECT revision, mark, part, id
		FROM changes
		WHERE revision >= $1
		ORDER BY revision`
	type record struct {
		State
		table Rows
		id    string
	}
	from := revision
	if before != (State{}) {
		from = min(before.Revision, revision)
	}
	records, err := sqlrow.List(ctx, q, "changes", text, func(r sqlrow.Scanner) (v record, err error) {
		err = r.Scan(&v.Revision, &v.Mark, &v.table, &v.id)
		return v, err
	}, from)
	if err != nil {
		return nil, err
	}
	c := &Changes{Until: State{Revision: revision}, rows: make(map[Rows]map[string]struct{})}
	known, next := false, from
	for _, r := range records {
		if r.Revision == revision {
			c.Until.Mark = r.Mark
		}
		if r.Revision == next {
			next++
		}
		if before != (State{}) && r.Revision == before.Revision {
			known = known || r.Mark == before.Mark
			continue
		}
		if c.rows[r.table] == nil {
			c.rows[r.table] = make(map[string]struct{})
		}
		c.rows[r.table][r.id] = struct{}{}
	}
	c.all = !known || next != revision+1
	return c, nil
}
