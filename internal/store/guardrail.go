package store

import (
	"context"
	"encoding/json"
	"time"
)

// Guardrail is a saved list of checks and the actions for their verdicts.
type Guardrail struct {
	ID           string
	Organisation string
	Workspace    string // id; empty for an organisation guardrail
	Slug         string // unique in the organisation
	Name         string
	VersionID    string          // changes with each change of checks or actions
	Checks       json.RawMessage // array
	Actions      json.RawMessage // object
	Status       string          // Active or Archived
	OwnerID      string
	UpdatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

var guardrailTable = table[Guardrail]{
	name: "guardrails", row: "guardrail", order: "id DESC", fixed: "id organisation_id workspace_id slug owner_id created_at",
	columns: func(g *Guardrail) []column {
		return []column{
			{"id", &g.ID}, {"organisation_id", &g.Organisation}, {"workspace_id", &g.Workspace}, {"slug", &g.Slug}, {"name", &g.Name},
			{"version_id", &g.VersionID}, {"checks", array(&g.Checks)}, {"actions", object(&g.Actions)}, {"status", &g.Status},
			{"owner_id", &g.OwnerID}, {"updated_by", &g.UpdatedBy}, {"created_at", &g.CreatedAt}, {"updated_at", &g.UpdatedAt},
		}
	},
}

// Guardrails returns a page of the active guardrails visible from a workspace, its own
// and the organisation's, newest first, and the number of all. An empty workspace sees
// all of the organisation.
func (q Queries) Guardrails(ctx context.Context, organisation, workspace string, p Page) (list []Guardrail, total int, err error) {
	return guardrailTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2 OR workspace_id = '') AND `+p.state(`status = 'active'`), organisation, workspace)
}

// ActiveGuardrails returns the active guardrails of all organisations.
func (q Queries) ActiveGuardrails(ctx context.Context) ([]Guardrail, error) {
	return guardrailTable.list(ctx, q.Reader, `
		WHERE status = 'active'
		ORDER BY id`)
}

// Guardrail returns the active guardrail with this id, or else this slug, that is
// visible from a workspace; see [Queries.Guardrails].
func (q Queries) Guardrail(ctx context.Context, organisation, workspace, ref string) (Guardrail, error) {
	return guardrailTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2 OR workspace_id = '') AND (id = $3 OR slug = $3) AND status = 'active'
		ORDER BY CASE WHEN id = $3 THEN 0 ELSE 1 END
		LIMIT 1`,
		organisation, workspace, ref)
}

// CreateGuardrail stores a guardrail and its first version.
func (tx *Tx) CreateGuardrail(ctx context.Context, g Guardrail) error {
	if err := guardrailTable.insert(ctx, tx, g); err != nil {
		return err
	}
	return tx.keepVersion(ctx, &g)
}

// UpdateGuardrail stores the changed fields of a guardrail, and its version if it is new.
func (tx *Tx) UpdateGuardrail(ctx context.Context, g Guardrail) error {
	if err := guardrailTable.update(ctx, tx, g); err != nil {
		return err
	}
	return tx.keepVersion(ctx, &g)
}
