package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/sqlrow"
)

// States of objects that can be archived.
const (
	Active   = "active"
	Archived = "archived"
)

// Workspace is a part of an organisation with its own members, keys and configs. The
// meaning of the JSON fields is defined by the control plane.
type Workspace struct {
	ID               string
	Organisation     string
	Slug             string
	Name             string
	Icon             string
	Description      string
	Defaults         json.RawMessage // object
	Settings         json.RawMessage // object
	SecuritySettings json.RawMessage // object
	UsageLimits      json.RawMessage // array
	RateLimits       json.RawMessage // array
	Tools            []string        // patterns of what its keys may use of tool servers; nil for all, empty for nothing
	IsDefault        bool
	Status           string // Active or Archived
	CreatedBy        string
	CreatedAt        time.Time
	UpdatedAt        time.Time

	Exhausted bool // its budget is exhausted; read only
}

// WorkspaceDefaults are the defaults of a workspace that requests read.
type WorkspaceDefaults struct {
	// InputGuardrails and OutputGuardrails are ids of guardrails for every request.
	InputGuardrails  []string `json:"input_guardrails,omitempty"`
	OutputGuardrails []string `json:"output_guardrails,omitempty"`
}

var workspaceTable = table[Workspace]{
	name: "workspaces", row: "workspace", order: "id", fixed: "id organisation_id slug is_default created_by created_at",
	columns: func(w *Workspace) []column {
		return []column{
			{"id", &w.ID}, {"organisation_id", &w.Organisation}, {"slug", &w.Slug}, {"name", &w.Name}, {"icon", &w.Icon},
			{"description", &w.Description}, {"defaults", object(&w.Defaults)}, {"settings", object(&w.Settings)},
			{"security_settings", object(&w.SecuritySettings)}, {"usage_limits", array(&w.UsageLimits)}, {"rate_limits", array(&w.RateLimits)},
			{"is_default", &w.IsDefault}, {"status", &w.Status}, {"created_by", &w.CreatedBy}, {"created_at", &w.CreatedAt},
			{"updated_at", &w.UpdatedAt}, {"tools", nullable(&w.Tools)},
		}
	},
	derived: func(w *Workspace) []column { return []column{{"exhausted", &w.Exhausted}} },
}

// Workspace returns the workspace of an organisation with this id or slug.
func (q Queries) Workspace(ctx context.Context, organisation, ref string) (Workspace, error) {
	return workspaceTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)`, organisation, ref)
}

// WorkspaceByID returns the workspace with this id, of whatever organisation.
func (q Queries) WorkspaceByID(ctx context.Context, id string) (Workspace, error) {
	return workspaceTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// WorkspaceQuery filters workspaces of an organisation. The zero value of a field
// filters nothing.
type WorkspaceQuery struct {
	Organisation string
	ID           string   // for callers bound to a workspace
	Member       string   // user who is a member
	Statuses     []string // Active, Archived
	Name         string   // substring of the name, case-sensitive
	ExactName    string
}

// Workspaces returns a page of workspaces, oldest first, and the number of all matches.
func (q Queries) Workspaces(ctx context.Context, w WorkspaceQuery, p Page) (list []Workspace, total int, err error) {
	only := ""
	if len(w.Statuses) == 1 {
		only = w.Statuses[0]
	}
	return workspaceTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR id = $2) AND ($3 = '' OR status = $3)
			AND ($4 = '' OR REPLACE(name, $4, '') <> name) AND ($5 = '' OR name = $5)
			AND ($6 = '' OR id IN (SELECT workspace_id FROM workspace_members WHERE user_id = $6))`,
		w.Organisation, w.ID, only, w.Name, w.ExactName, w.Member)
}

// ActiveWorkspaces returns the active workspaces of all organisations, oldest first.
func (q Queries) ActiveWorkspaces(ctx context.Context) ([]Workspace, error) {
	return workspaceTable.list(ctx, q.Reader, `
		WHERE status = 'active'
		ORDER BY id`)
}

// CreateWorkspace stores a workspace. A slug in use is a conflict.
func (tx *Tx) CreateWorkspace(ctx context.Context, w Workspace) error {
	return workspaceTable.insert(ctx, tx, w)
}

// UpdateWorkspace stores the changed fields of a workspace.
func (tx *Tx) UpdateWorkspace(ctx context.Context, w Workspace) error {
	return workspaceTable.update(ctx, tx, w)
}

// WorkspaceHolds returns the number of active configs, prompts, keys and providers of a
// workspace, without providers that every workspace gets.
func (q Queries) WorkspaceHolds(ctx context.Context, id string) (int, error) {
	const text = `
		SELECT (SELECT COUNT(*) FROM configs WHERE workspace_id = $1 AND status = 'active')
			+ (SELECT COUNT(*) FROM gateway_keys WHERE workspace_id = $1 AND status <> 'revoked')
			+ (SELECT COUNT(*) FROM prompts WHERE workspace_id = $1 AND status = 'active')
			+ (SELECT COUNT(*) FROM providers WHERE workspace_id = $1 AND status <> 'archived' AND made_by_grant = FALSE)`
	return sqlrow.Count(ctx, q.Reader, text, id)
}
