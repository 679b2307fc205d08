package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// The journal says which tables each change wrote to, and for keys which rows,
// so that a gateway reads again only what is new to it. It is an aid alone: what
// it does not tell, or what was written without it, is read as a whole.

// journal watches the statements of one change.
type journal struct {
	querier
	touched map[touch]struct{}
}

// touch is a table that was written to. An empty id means any of its rows.
type touch struct{ table, id string }

// publishedTables are those that snapshots are made of.
var publishedTables = map[string]bool{
	"organisations": true, "workspaces": true, "gateway_keys": true, "integrations": true, "integration_models": true,
	"integration_workspaces": true, "providers": true, "configs": true, "config_versions": true,
	"secret_references": true, "prompts": true, "prompt_versions": true, "prompt_labels": true,
}

// anyTable stands for a statement that the journal does not understand.
const anyTable = "*"

var (
	writes  = regexp.MustCompile(`(?i)^\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(\w+)`)
	reads   = regexp.MustCompile(`(?i)^\s*SELECT\b`)
	oneKey  = regexp.MustCompile(`(?i)^\s*(?:UPDATE|DELETE\s+FROM)\s+gateway_keys\b.*\bWHERE\s+id\s*=\s*\$1\s*$`)
	newKey  = regexp.MustCompile(`(?i)^\s*INSERT\s+INTO\s+gateway_keys\s*\(\s*id\s*,.*\)\s*VALUES\s*\(\s*\$1\s*,`)
	inLines = strings.NewReplacer("\n", " ", "\t", " ")
)

// note writes down what a statement writes to.
func (j *journal) note(query string, args []any) {
	query = inLines.Replace(query)
	m := writes.FindStringSubmatch(query)
	switch {
	case m == nil && reads.MatchString(query):
	case m == nil:
		j.touched[touch{table: anyTable}] = struct{}{}
	case publishedTables[strings.ToLower(m[1])]:
		t := touch{table: strings.ToLower(m[1])}
		if len(args) > 0 && (oneKey.MatchString(query) || newKey.MatchString(query)) {
			t.id, _ = args[0].(string)
		}
		j.touched[t] = struct{}{}
	}
}

// ExecContext implements querier.
func (j *journal) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	j.note(query, args)
	return j.querier.ExecContext(ctx, query, args...)
}

// QueryContext implements querier.
func (j *journal) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	j.note(query, args)
	return j.querier.QueryContext(ctx, query, args...)
}

// QueryRowContext implements querier.
func (j *journal) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	j.note(query, args)
	return j.querier.QueryRowContext(ctx, query, args...)
}

const (
	journalled = 1000 // changes that the journal reaches back
	manyRows   = 50   // of one table in one change: then all of them
)

// write adds the change to the journal and forgets what is too old.
func (j *journal) write(ctx context.Context, revision int64) error {
	const (
		insert = `
		INSERT INTO changes (revision, mark, part, id)
		VALUES ($1, $2, $3, $4)`
		forget = `
		DELETE FROM changes
		WHERE revision < $1`
	)
	if len(j.touched) > manyRows {
		j.touched[touch{table: "gateway_keys"}] = struct{}{}
	}
	whole := func(t touch) bool { _, ok := j.touched[touch{table: t.table}]; return ok && t.id != "" }
	j.touched[touch{}] = struct{}{} // a change of nothing published is one too
	mark := rand.Text()
	for t := range j.touched {
		if whole(t) {
			continue
		}
		if _, err := j.querier.ExecContext(ctx, insert, revision, mark, t.table, t.id); err != nil {
			return fmt.Errorf("writing the journal of changes: %w", err)
		}
	}
	if _, err := j.querier.ExecContext(ctx, forget, revision-journalled); err != nil {
		return fmt.Errorf("writing the journal of changes: %w", err)
	}
	return nil
}

// changedTables is what was written since an earlier state.
type changedTables struct {
	mark   string // of the latest change
	all    bool   // everything may have been
	tables map[string]bool
	keys   []string // ids of rows, unless the table is in tables
}

// wrote reports whether one of the tables may have been written to as a whole.
func (n *changedTables) wrote(tables ...string) bool {
	for _, t := range tables {
		if n.tables[t] {
			return true
		}
	}
	return n.all
}

// newsSince reads what was written after the state before, which may be nil,
// until revision. A journal with a gap, or one that does not know the earlier
// state, as after a backup was restored, tells that everything was.
func (q Queries) newsSince(ctx context.Context, before *RuntimeState, revision int64) (*changedTables, error) {
	const text = `
		SELECT revision, mark, part, id
		FROM changes
		WHERE revision >= $1
		ORDER BY revision`
	type line struct {
		revision       int64
		mark, part, id string
	}
	from := revision
	if before != nil {
		from = min(before.Revision, revision)
	}
	lines, err := rows(ctx, q.q, "changes", text, func(r row) (l line, err error) {
		err = r.Scan(&l.revision, &l.mark, &l.part, &l.id)
		return l, err
	}, from)
	if err != nil {
		return nil, err
	}
	n := &changedTables{tables: make(map[string]bool)}
	known, next := false, from
	for _, l := range lines {
		if l.revision == revision {
			n.mark = l.mark
		}
		if l.revision == next {
			next++
		}
		switch {
		case before != nil && l.revision == before.Revision:
			known = known || l.mark == before.Mark
		case l.part == anyTable:
			n.all = true
		case l.id == "":
			n.tables[l.part] = true
		default:
			n.keys = append(n.keys, l.id)
		}
	}
	n.all = n.all || !known || next != revision+1
	return n, nil
}
