package logstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/records/reqlog"
)

// feedbackTable is the table of feedback; about_key, service and model belong to the
// rated entry. See feedbackColumns for fractional values.
const feedbackTable = `
	CREATE TABLE IF NOT EXISTS feedback (
		id BYTEA NOT NULL PRIMARY KEY,
		organisation TEXT NOT NULL,
		workspace TEXT NOT NULL,
		key_id TEXT NOT NULL,
		trace_id TEXT NOT NULL,
		about_key TEXT NOT NULL,
		service TEXT NOT NULL,
		model TEXT NOT NULL,
		value BIGINT NOT NULL,
		weight DOUBLE PRECISION NOT NULL,
		metadata TEXT NOT NULL,
		created_at BIGINT NOT NULL,
		updated_at BIGINT NOT NULL
	);
	CREATE INDEX IF NOT EXISTS feedback_by_time ON feedback (organisation, created_at);
	CREATE INDEX IF NOT EXISTS feedback_by_trace ON feedback (organisation, trace_id)`

// feedbackColumns were added to the table later. Versions without them may read and write
// the table at the same time, during an upgrade: value is an integer for them, and its
// product with weight is exact. If the given value is a fraction, it is in exact_value,
// with its weight. structures are members of the metadata that are not strings.
var feedbackColumns = []string{"exact_value DOUBLE PRECISION", "exact_weight DOUBLE PRECISION", "structures TEXT"}

// The given value and weight of feedback, as expressions.
const (
	givenValue  = `COALESCE(exact_value, value)`
	givenWeight = `COALESCE(exact_weight, weight)`
)

// wholeFeedback returns an integer and a weight with the same product as a value and a
// weight, and the given ones if they differ.
func wholeFeedback(value, weight float64) (n int64, scaled float64, exactValue, exactWeight *float64) {
	if value == math.Trunc(value) {
		return int64(value), weight, nil, nil
	}
	away := math.Copysign(math.Ceil(math.Abs(value)), value) // never zero
	return int64(away), value * weight / away, &value, &weight
}

func (t *tables) addFeedback(ctx context.Context, list []Feedback) error {
	const q = `
		INSERT INTO feedback (id, organisation, workspace, key_id, trace_id, about_key, service, model, value, weight, metadata, created_at, updated_at,
			exact_value, exact_weight, structures)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	if err := t.create(ctx); err != nil {
		return err
	}
	tx, err := t.write.BeginTx(ctx, nil)
	if err != nil {
		return t.noteFailure(err)
	}
	defer tx.Rollback() // without effect once committed
	for i := range list {
		f := &list[i]
		metadata, err := json.Marshal(f.Metadata)
		if err != nil {
			return err
		}
		structures, err := json.Marshal(f.Structures)
		if err != nil {
			return err
		}
		value, weight, exactValue, exactWeight := wholeFeedback(f.Value, f.Weight)
		_, err = tx.ExecContext(ctx, q, f.ID[:], f.Organisation, f.Workspace, f.KeyID, f.TraceID, f.About.KeyID, f.About.Service, f.About.Model,
			value, weight, string(metadata), f.Created.UnixMilli(), f.Updated.UnixMilli(), exactValue, exactWeight, string(structures))
		if err != nil {
			return t.noteFailure(err)
		}
	}
	return t.noteFailure(tx.Commit())
}

func (t *tables) changeFeedback(ctx context.Context, q *FeedbackQuery, to FeedbackChange) (int64, error) {
	if err := t.create(ctx); err != nil {
		return 0, err
	}
	var c conditions
	set := `
		UPDATE feedback
		SET value = ` + c.arg(to.Value) + `, exact_value = NULL, exact_weight = NULL, updated_at = ` + c.arg(to.At.UnixMilli())
	if to.Weight != nil {
		set += `, weight = ` + c.arg(*to.Weight)
	} else {
		set += `, weight = ` + givenWeight
	}
	if to.Metadata != nil {
		text, err := json.Marshal(*to.Metadata)
		if err != nil {
			return 0, err
		}
		set += `, structures = NULL, metadata = ` + c.arg(string(text))
	}
	done, err := t.write.ExecContext(ctx, set+c.where(q), c.args...)
	if err != nil {
		return 0, t.noteFailure(err)
	}
	return done.RowsAffected()
}

func (t *tables) feedback(ctx context.Context, q *FeedbackQuery, skip, limit int) (list []Feedback, total int, err error) {
	if err := t.create(ctx); err != nil {
		return nil, 0, err
	}
	var c conditions
	where := c.where(q)
	if err := t.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM feedback`+where, c.args...).Scan(&total); err != nil {
		return nil, 0, t.noteFailure(err)
	}
	text := `
		SELECT id, organisation, workspace, key_id, trace_id, about_key, service, model,
			` + givenValue + `, ` + givenWeight + `, metadata, COALESCE(structures, 'null'), created_at, updated_at
		FROM feedback` + where + `
		ORDER BY created_at DESC, id DESC
		LIMIT ` + c.arg(limit) + ` OFFSET ` + c.arg(skip)
	rows, err := t.read.QueryContext(ctx, text, c.args...)
	if err != nil {
		return nil, 0, t.noteFailure(err)
	}
	defer rows.Close()
	for rows.Next() {
		f, err := scanFeedback(rows)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, f)
	}
	return list, total, t.noteFailure(rows.Err())
}

func scanFeedback(rows *sql.Rows) (f Feedback, err error) {
	var id []byte
	var metadata, structures string
	var created, updated int64
	err = rows.Scan(&id, &f.Organisation, &f.Workspace, &f.KeyID, &f.TraceID, &f.About.KeyID, &f.About.Service, &f.About.Model,
		&f.Value, &f.Weight, &metadata, &structures, &created, &updated)
	if err != nil {
		return f, err
	}
	if len(id) != len(f.ID) || json.Unmarshal([]byte(metadata), &f.Metadata) != nil ||
		json.Unmarshal([]byte(structures), &f.Structures) != nil {
		return f, errDamaged
	}
	f.ID, f.Created, f.Updated = reqlog.ID(id), time.UnixMilli(created).UTC(), time.UnixMilli(updated).UTC()
	return f, nil
}

func (t *tables) sumFeedback(ctx context.Context, q *FeedbackQuery, step int64) (list []FeedbackGroup, err error) {
	if err := t.create(ctx); err != nil {
		return nil, err
	}
	var c conditions
	began := `created_at - created_at % ` + c.arg(step)
	text := `
		SELECT workspace, key_id, about_key, service, model, ` + givenValue + ` AS given, ` + began + ` AS began, COUNT(*), SUM(value * weight)
		FROM feedback` + c.where(q) + `
		GROUP BY workspace, key_id, about_key, service, model, given, began`
	rows, err := t.read.QueryContext(ctx, text, c.args...)
	if err != nil {
		return nil, t.noteFailure(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s FeedbackGroup
		var at int64
		if err := rows.Scan(&s.Workspace, &s.KeyID, &s.About.KeyID, &s.About.Service, &s.About.Model, &s.Value, &at, &s.Count,
			&s.Weighted); err != nil {
			return nil, err
		}
		s.Step = time.UnixMilli(at).UTC()
		list = append(list, s)
	}
	return list, t.noteFailure(rows.Err())
}

func (t *tables) ratings(ctx context.Context, q *FeedbackQuery, limit int) (map[TraceOf]rating, error) {
	if err := t.create(ctx); err != nil {
		return nil, err
	}
	each := *q
	each.Weighted = FloatRange{}
	var c conditions
	text := `
		SELECT workspace, trace_id, COUNT(*), SUM(value * weight)
		FROM feedback` + c.where(&each) + `
		GROUP BY workspace, trace_id
		HAVING ` + c.inRange(`AVG(value * weight)`, q.Weighted) + `
		LIMIT ` + c.arg(limit)
	rows, err := t.read.QueryContext(ctx, text, c.args...)
	if err != nil {
		return nil, t.noteFailure(err)
	}
	defer rows.Close()
	all := make(map[TraceOf]rating)
	for rows.Next() {
		var of TraceOf
		var r rating
		if err := rows.Scan(&of.Workspace, &of.ID, &r.Count, &r.Weighted); err != nil {
			return nil, err
		}
		all[of] = r
	}
	return all, t.noteFailure(rows.Err())
}

// dropFeedback removes up to limit feedbacks given before before.
func (t *tables) dropFeedback(ctx context.Context, before int64, limit int) (int64, error) {
	return t.dropBefore(ctx, "feedback", before, limit)
}

// dropBefore removes up to limit rows of a table that were created before before.
func (t *tables) dropBefore(ctx context.Context, table string, before int64, limit int) (int64, error) {
	q := `
		DELETE FROM ` + table + `
		WHERE id IN (
			SELECT id
			FROM ` + table + `
			WHERE created_at < $1
			LIMIT $2
		)`
	if err := t.create(ctx); err != nil {
		return 0, err
	}
	done, err := t.write.ExecContext(ctx, q, before, limit)
	if err != nil {
		return 0, t.noteFailure(fmt.Errorf("removing rows of %s: %w", table, err))
	}
	return done.RowsAffected()
}

// conditions collects the conditions of a statement and their arguments.
type conditions struct{ args []any }

// arg returns the placeholder of a value.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return "$" + strconv.Itoa(len(c.args))
}

// list returns the placeholders of values, for IN.
func (c *conditions) list(values []string) string {
	marks := make([]string, len(values))
	for i, v := range values {
		marks[i] = c.arg(v)
	}
	return "(" + strings.Join(marks, ", ") + ")"
}

// where returns the WHERE clause of q.
func (c *conditions) where(q *FeedbackQuery) string {
	all := []string{c.inRange(`value * weight`, q.Weighted)}
	add := func(column, value string) {
		if value != "" {
			all = append(all, column+` = `+c.arg(value))
		}
	}
	add(`organisation`, q.Scope.Organisation)
	add(`workspace`, q.Scope.Workspace)
	add(`trace_id`, q.TraceID)
	if q.ID != (reqlog.ID{}) {
		all = append(all, `id = `+c.arg(q.ID[:]))
	}
	if len(q.Without) > 0 {
		all = append(all, `workspace NOT IN `+c.list(q.Without))
	}
	switch {
	case q.Scope.Keys == nil:
	case len(q.Scope.Keys) == 0:
		all = append(all, `1 = 0`)
	default:
		all = append(all, `(about_key IN `+c.list(q.Scope.Keys)+` OR key_id IN `+c.list(q.Scope.Keys)+`)`)
	}
	if !q.From.IsZero() {
		all = append(all, `created_at >= `+c.arg(q.From.UnixMilli()))
	}
	if !q.To.IsZero() {
		all = append(all, `created_at < `+c.arg(q.To.UnixMilli()))
	}
	return `
		WHERE ` + strings.Join(all, ` AND `)
}

// inRange returns the condition that a number is within r.
func (c *conditions) inRange(number string, r FloatRange) string {
	out := `1 = 1`
	if r.Min != nil {
		out += ` AND ` + number + ` >= ` + c.arg(*r.Min)
	}
	if r.Max != nil {
		out += ` AND ` + number + ` <= ` + c.arg(*r.Max)
	}
	return out
}
