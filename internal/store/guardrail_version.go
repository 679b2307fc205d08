package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
)

// GuardrailVersion is a version of a guardrail. Versions never change.
type GuardrailVersion struct {
	ID        string
	Guardrail string // id
	Number    int64  // from 1
	Checks    json.RawMessage
	Actions   json.RawMessage
	CreatedBy string
	CreatedAt time.Time
}

var guardrailVersionTable = table[GuardrailVersion]{
	name: "guardrail_versions", row: "version",
	columns: func(v *GuardrailVersion) []column {
		return []column{
			{"id", &v.ID}, {"guardrail_id", &v.Guardrail}, {"number", &v.Number}, {"checks", array(&v.Checks)}, {"actions", object(&v.Actions)},
			{"created_by", &v.CreatedBy}, {"created_at", &v.CreatedAt},
		}
	},
}

// GuardrailVersions returns all versions of a guardrail, newest first.
func (q Queries) GuardrailVersions(ctx context.Context, guardrail string) ([]GuardrailVersion, error) {
	return guardrailVersionTable.list(ctx, q.Reader, `
		WHERE guardrail_id = $1
		ORDER BY number DESC`, guardrail)
}

// GuardrailVersion returns the version of a guardrail with this number.
func (q Queries) GuardrailVersion(ctx context.Context, guardrail string, number int64) (GuardrailVersion, error) {
	return guardrailVersionTable.one(ctx, q.Reader, `
		WHERE guardrail_id = $1 AND number = $2`, guardrail, number)
}

// keepVersion stores the current version of g, with the next number, unless it is stored.
func (tx *Tx) keepVersion(ctx context.Context, g *Guardrail) error {
	const text = `
		INSERT INTO guardrail_versions (id, guardrail_id, number, checks, actions, created_by, created_at)
		SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6
		FROM guardrail_versions
		WHERE guardrail_id = $2
		HAVING NOT EXISTS (SELECT 1 FROM guardrail_versions WHERE id = $1)`
	return tx.exec(ctx, journal.Unpublished, "version", text,
		g.VersionID, g.ID, orEmpty(g.Checks, "[]"), orEmpty(g.Actions, "{}"), g.UpdatedBy, millis(g.UpdatedAt))
}
