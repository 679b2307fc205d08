package logstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"modelgate/internal/records/reqlog"
)

// guardResultTable is the table of results of guardrails in shadow mode. Ids are in
// the order of time.
const guardResultTable = `
	CREATE TABLE IF NOT EXISTS guard_results (
		id BYTEA NOT NULL PRIMARY KEY,
		organisation TEXT NOT NULL,
		workspace TEXT NOT NULL,
		guardrail TEXT NOT NULL,
		version TEXT NOT NULL,
		entry BYTEA NOT NULL,
		event TEXT NOT NULL,
		verdict TEXT NOT NULL,
		weight BIGINT NOT NULL,
		took BIGINT NOT NULL,
		created_at BIGINT NOT NULL,
		label TEXT NOT NULL,
		labelled_by TEXT NOT NULL,
		labelled_at BIGINT NOT NULL
	);
	CREATE INDEX IF NOT EXISTS guard_results_by_guardrail ON guard_results (organisation, guardrail, version, id);
	CREATE INDEX IF NOT EXISTS guard_results_by_time ON guard_results (created_at)`

const guardResultColumns = `id, organisation, workspace, guardrail, version, entry, event, verdict, weight, took, created_at, label, labelled_by, labelled_at`

func (t *tables) addGuardResults(ctx context.Context, list []GuardResult) error {
	const q = `
		INSERT INTO guard_results (` + guardResultColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '', '', 0)`
	if err := t.create(ctx); err != nil {
		return err
	}
	tx, err := t.write.BeginTx(ctx, nil)
	if err != nil {
		return t.noteFailure(err)
	}
	defer tx.Rollback() // without effect once committed
	for i := range list {
		r := &list[i]
		_, err := tx.ExecContext(ctx, q, r.ID[:], r.Organisation, r.Workspace, r.Guardrail, r.Version, r.Entry[:], r.Event, r.Verdict,
			r.Weight, r.Took.Microseconds(), r.Created.UnixMilli())
		if err != nil {
			return t.noteFailure(err)
		}
	}
	return t.noteFailure(tx.Commit())
}

func (t *tables) guardResults(ctx context.Context, q *GuardResultQuery, limit int) ([]GuardResult, error) {
	var c conditions
	order := `id DESC`
	if q.Sample {
		order = `substr(id, 9)` // the random part of an id
	}
	text := `
		SELECT ` + guardResultColumns + `
		FROM guard_results` + c.whereGuard(q) + `
		ORDER BY ` + order + `
		LIMIT ` + c.arg(limit)
	return readRows(ctx, t, text, c.args, scanGuardResult)
}

func scanGuardResult(rows *sql.Rows) (r GuardResult, err error) {
	var id, entry []byte
	var took, created, labelled int64
	err = rows.Scan(&id, &r.Organisation, &r.Workspace, &r.Guardrail, &r.Version, &entry, &r.Event, &r.Verdict, &r.Weight, &took, &created,
		&r.Label, &r.LabelledBy, &labelled)
	if err != nil {
		return r, err
	}
	if len(id) != len(r.ID) || len(entry) != len(r.Entry) {
		return r, errDamaged
	}
	r.ID, r.Entry = reqlog.ID(id), reqlog.ID(entry)
	r.Took, r.Created = time.Duration(took)*time.Microsecond, time.UnixMilli(created).UTC()
	if labelled != 0 {
		r.Labelled = time.UnixMilli(labelled).UTC()
	}
	return r, nil
}

func (t *tables) labelGuardResult(ctx context.Context, q *GuardResultQuery, label, by string, at time.Time) (int64, error) {
	if err := t.create(ctx); err != nil {
		return 0, err
	}
	labelled := at.UnixMilli()
	if label == "" {
		by, labelled = "", 0
	}
	var c conditions
	text := `
		UPDATE guard_results
		SET label = ` + c.arg(label) + `, labelled_by = ` + c.arg(by) + `, labelled_at = ` + c.arg(labelled) + c.whereGuard(q)
	done, err := t.write.ExecContext(ctx, text, c.args...)
	if err != nil {
		return 0, t.noteFailure(err)
	}
	return done.RowsAffected()
}

func (t *tables) sumGuardResults(ctx context.Context, q *GuardResultQuery) ([]GuardSum, error) {
	var c conditions
	text := `
		SELECT verdict, label, COUNT(*), CAST(SUM(weight) AS BIGINT)
		FROM guard_results` + c.whereGuard(q) + `
		GROUP BY verdict, label
		ORDER BY verdict, label`
	return readRows(ctx, t, text, c.args, func(rows *sql.Rows) (s GuardSum, err error) {
		return s, rows.Scan(&s.Verdict, &s.Label, &s.Stored, &s.Seen)
	})
}

func (t *tables) guardTimes(ctx context.Context, q *GuardResultQuery, limit int) ([]time.Duration, error) {
	var c conditions
	text := `
		SELECT took
		FROM guard_results` + c.whereGuard(q) + `
		ORDER BY id DESC
		LIMIT ` + c.arg(limit)
	list, err := readRows(ctx, t, text, c.args, func(rows *sql.Rows) (time.Duration, error) {
		var took int64
		err := rows.Scan(&took)
		return time.Duration(took) * time.Microsecond, err
	})
	slices.Sort(list)
	return list, err
}

// dropGuardResults removes up to limit results from before before.
func (t *tables) dropGuardResults(ctx context.Context, before int64, limit int) (int64, error) {
	return t.dropBefore(ctx, "guard_results", before, limit)
}

// readRows returns the rows of a statement.
func readRows[T any](ctx context.Context, t *tables, text string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	if err := t.create(ctx); err != nil {
		return nil, err
	}
	rows, err := t.read.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, t.noteFailure(err)
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, t.noteFailure(rows.Err())
}

// whereGuard returns the WHERE clause of q.
func (c *conditions) whereGuard(q *GuardResultQuery) string {
	all := []string{`organisation = ` + c.arg(q.Organisation)}
	for _, f := range [...]struct{ column, value string }{
		{`workspace`, q.Workspace}, {`guardrail`, q.Guardrail}, {`version`, q.Version}, {`verdict`, q.Verdict},
	} {
		if f.value != "" {
			all = append(all, f.column+` = `+c.arg(f.value))
		}
	}
	switch q.Label {
	case "":
	case "none":
		all = append(all, `label = ''`)
	default:
		all = append(all, `label = `+c.arg(q.Label))
	}
	if q.ID != (reqlog.ID{}) {
		all = append(all, `id = `+c.arg(q.ID[:]))
	}
	if q.Before != (reqlog.ID{}) {
		all = append(all, `id < `+c.arg(q.Before[:]))
	}
	if !q.From.IsZero() {
		all = append(all, `created_at >= `+c.arg(q.From.UnixMilli()))
	}
	return `
		WHERE ` + strings.Join(all, ` AND `)
}
