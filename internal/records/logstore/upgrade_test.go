package logstore_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// Feedback of an earlier version: its table, and the statements with which it writes and
// sums.
const (
	earlierFeedback = `
		CREATE TABLE feedback (
			id BYTEA NOT NULL PRIMARY KEY, organisation TEXT NOT NULL, workspace TEXT NOT NULL, key_id TEXT NOT NULL, trace_id TEXT NOT NULL,
			about_key TEXT NOT NULL, service TEXT NOT NULL, model TEXT NOT NULL, value BIGINT NOT NULL, weight DOUBLE PRECISION NOT NULL,
			metadata TEXT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL
		)`
	earlierInsert = `
		INSERT INTO feedback (id, organisation, workspace, key_id, trace_id, about_key, service, model, value, weight, metadata, created_at, updated_at)
		VALUES ($1, 'o', 'w', 'k', 'early', '', '', '', $2, $3, '{}', $4, $4)`
	earlierSum      = `SELECT COUNT(*), SUM(value), SUM(value * weight) FROM feedback WHERE organisation = $1`
	earlierMetadata = `SELECT MAX(metadata) FROM feedback WHERE trace_id = $1`
)

// TestFeedbackOfTwoVersionsHasTheSameSums opens a log while the connection of an earlier
// version with prepared statements is open. Both write and sum.
func TestFeedbackOfTwoVersionsHasTheSameSums(t *testing.T) {
	onBoth(t, testFeedbackOfTwoVersionsHasTheSameSums)
}

func testFeedbackOfTwoVersionsHasTheSameSums(t *testing.T, at place) {
	if at.url != "" {
		at.exec(t, `CREATE SCHEMA modelgate_logs`)
	}
	at.exec(t, earlierFeedback)
	earlier := at.open(t)
	defer earlier.Close()
	earlier.SetMaxOpenConns(1) // whose prepared statements stay
	now := time.Now().Truncate(time.Second)
	write := func(value int64, weight float64) {
		t.Helper()
		id := reqlog.NewID(now)
		if _, err := earlier.ExecContext(t.Context(), earlierInsert, id[:], value, weight, now.UnixMilli()); err != nil {
			t.Errorf("the earlier version cannot write: %v", err)
		}
	}
	sums := func(wantCount, wantValue int64, wantWeighted float64) {
		t.Helper()
		var count, value int64
		var weighted float64
		if err := earlier.QueryRowContext(t.Context(), earlierSum, "o").Scan(&count, &value, &weighted); err != nil {
			t.Errorf("the earlier version cannot read: %v", err)
		}
		if d := weighted - wantWeighted; count != wantCount || value != wantValue || d > 1e-9 || d < -1e-9 {
			t.Errorf("the earlier version sums up %d values to %d and %g, want %d to %d and %g", count, value, weighted, wantCount, wantValue, wantWeighted)
		}
	}
	write(5, 0.5)
	sums(1, 5, 2.5)
	s := mustOpen(t, at.with(logstore.Options{}))
	write(-3, 1)
	list := []logstore.Feedback{feedbackAt(now, 1, "w", "late", 4, 0.25), feedbackAt(now, 2, "w", "half", 0, 0.5), feedbackAt(now, 3, "w", "minus", 0, 1)}
	list[1].Value, list[2].Value = 2.5, -0.25
	list[1].Structures = map[string]json.RawMessage{"nested": json.RawMessage(`{"a":[1]}`)}
	if err := s.AddFeedback(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	const weighted = 2.5 - 3 + 1 + 1.25 - 0.25
	sums(5, 5-3+4+3-1, weighted)
	var metadata string
	if err := earlier.QueryRowContext(t.Context(), earlierMetadata, "half").Scan(&metadata); err != nil || json.Unmarshal([]byte(metadata), new(map[string]string)) != nil {
		t.Errorf("the earlier version reads the metadata %s, %v; want strings", metadata, err)
	}
	groups, err := s.SumFeedback(t.Context(), logstore.FeedbackQuery{Scope: logstore.Scope{Organisation: "o"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	sum, values := 0.0, ""
	for _, v := range []float64{-3, -0.25, 2.5, 4, 5} {
		for _, g := range groups {
			if g.Value == v {
				sum += g.Weighted
				values += fmt.Sprint(" ", g.Value)
			}
		}
	}
	if d := sum - weighted; len(groups) != 5 || d > 1e-9 || d < -1e-9 {
		t.Errorf("this version sums up%s of %+v to %g, want %g", values, groups, sum, weighted)
	}
	found, _, err := s.Feedback(t.Context(), logstore.FeedbackQuery{Scope: logstore.Scope{Organisation: "o"}, TraceID: "half"}, 0, 10)
	if err != nil || len(found) != 1 || found[0].Value != 2.5 || found[0].Weight != 0.5 || string(found[0].Structures["nested"]) != `{"a":[1]}` {
		t.Errorf("this version reads %+v, %v; want what was given", found, err)
	}
}
