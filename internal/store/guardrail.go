package store

import (
	"context"
	"encoding/json"
	"time"
)

// Guardrail is a saved list of checks and what follows from their verdicts.
type Guardrail struct {
	ID           string
	Organisation string
	Workspace    string // id; empty for one of the whole organisation
	Slug         string // unique in the organisation
	Name         string
	VersionID    string          // another with each change of checks or actions
	Checks       json.RawMessage // array
	Actions      json.RawMessage // object
	Status       string          // Active or Archived
	OwnerID      string
	UpdatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

const guardrailColumns = `id, organisation_id, workspace_id, slug, name, version_id, checks, actions, status,
			owner_id, updated_by, created_at, updated_at`

func scanGuardrail(r row) (g Guardrail, err error) {
	err = r.Scan(&g.ID, &g.Organisation, &g.Workspace, &g.Slug, &g.Name, &g.VersionID, jsonText{&g.Checks}, jsonText{&g.Actions}, &g.Status,
		&g.OwnerID, &g.UpdatedBy, nullTime{&g.CreatedAt}, nullTime{&g.UpdatedAt})
	return g, err
}

// Guardrails returns a page of the active guardrails that are seen from a
// workspace: its own and the organisation's, the newest first, and how many
// there are. An empty workspace sees all of the organisation.
func (q Queries) Guardrails(ctx context.Context, organisation, workspace string, p Page) (list []Guardrail, total int, err error) {
	const where = `
		FROM guardrails
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2 OR workspace_id = '') AND status = 'active'`
	if total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, organisation, workspace); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "guardrails", `SELECT `+guardrailColumns+where+` ORDER BY id DESC LIMIT $3 OFFSET $4`,
		scanGuardrail, organisation, workspace, limit, offset)
	return list, total, err
}

// Guardrail returns the active guardrail with this id or slug that is seen from
// a workspace, as [Queries.Guardrails] says.
func (q Queries) Guardrail(ctx context.Context, organisation, workspace, ref string) (Guardrail, error) {
	const text = `
		SELECT ` + guardrailColumns + `
		FROM guardrails
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2 OR workspace_id = '') AND (id = $3 OR slug = $3) AND status = 'active'`
	return one(ctx, q.q, "guardrail", text, scanGuardrail, organisation, workspace, ref)
}

// CreateGuardrail stores a guardrail.
func (q Queries) CreateGuardrail(ctx context.Context, g Guardrail) error {
	const text = `
		INSERT INTO guardrails (` + guardrailColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`
	return write(ctx, q.q, "guardrail", text, g.ID, g.Organisation, g.Workspace, g.Slug, g.Name, g.VersionID, string(g.Checks), string(g.Actions),
		g.Status, g.OwnerID, g.UpdatedBy, millis(g.CreatedAt), millis(g.UpdatedAt))
}

// UpdateGuardrail stores what may change of a guardrail.
func (q Queries) UpdateGuardrail(ctx context.Context, g Guardrail) error {
	const text = `
		UPDATE guardrails
		SET name = $2, version_id = $3, checks = $4, actions = $5, status = $6, updated_by = $7, updated_at = $8
		WHERE id = $1`
	return write(ctx, q.q, "guardrail", text, g.ID, g.Name, g.VersionID, string(g.Checks), string(g.Actions), g.Status, g.UpdatedBy, millis(g.UpdatedAt))
}
