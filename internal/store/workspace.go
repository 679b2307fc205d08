package store

import (
	"context"
	"encoding/json"
	"time"
)

// The states of what can be put away and still be looked at.
const (
	Active   = "active"
	Archived = "archived"
)

// Workspace is a part of an organisation with members, keys and configs of its
// own. The JSON fields' meaning is the control plane's.
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
	IsDefault        bool
	Status           string // Active or Archived
	CreatedBy        string
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

const workspaceColumns = `id, organisation_id, slug, name, icon, description, defaults, settings, security_settings,
			usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at`

func scanWorkspace(r row) (w Workspace, err error) {
	err = r.Scan(&w.ID, &w.Organisation, &w.Slug, &w.Name, &w.Icon, &w.Description, jsonText{&w.Defaults}, jsonText{&w.Settings},
		jsonText{&w.SecuritySettings}, jsonText{&w.UsageLimits}, jsonText{&w.RateLimits}, &w.IsDefault, &w.Status, &w.CreatedBy,
		nullTime{&w.CreatedAt}, nullTime{&w.UpdatedAt})
	return w, err
}

// Workspace returns the workspace of an organisation with this id or slug.
func (q Queries) Workspace(ctx context.Context, organisation, ref string) (Workspace, error) {
	const text = `
		SELECT ` + workspaceColumns + `
		FROM workspaces
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)`
	return one(ctx, q.q, "workspace", text, scanWorkspace, organisation, ref)
}

// WorkspaceByID returns the workspace with this id, of whatever organisation.
func (q Queries) WorkspaceByID(ctx context.Context, id string) (Workspace, error) {
	const text = `
		SELECT ` + workspaceColumns + `
		FROM workspaces
		WHERE id = $1`
	return one(ctx, q.q, "workspace", text, scanWorkspace, id)
}

// WorkspaceQuery says which workspaces of an organisation to list. The zero
// value of a field filters nothing.
type WorkspaceQuery struct {
	Organisation string
	ID           string   // one alone, for callers of a single workspace
	Member       string   // user who is a member of them
	Statuses     []string // Active, Archived
	Name         string   // part of the name, by case
	ExactName    string
}

// Workspaces returns a page of workspaces, the oldest first, and how many match.
func (q Queries) Workspaces(ctx context.Context, w WorkspaceQuery, p Page) (list []Workspace, total int, err error) {
	const where = `
		FROM workspaces
		WHERE organisation_id = $1 AND ($2 = '' OR id = $2) AND ($3 = 0 OR status = 'active') AND ($4 = 0 OR status = 'archived')
			AND ($5 = '' OR REPLACE(name, $5, '') <> name) AND ($6 = '' OR name = $6)
			AND ($7 = '' OR id IN (SELECT workspace_id FROM workspace_members WHERE user_id = $7))`
	activeAlone := int64(0)
	archivedAlone := int64(0)
	if len(w.Statuses) == 1 {
		if w.Statuses[0] == Active {
			activeAlone = 1
		} else {
			archivedAlone = 1
		}
	}
	args := []any{w.Organisation, w.ID, activeAlone, archivedAlone, w.Name, w.ExactName, w.Member}
	if total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, args...); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "workspaces", `SELECT `+workspaceColumns+where+` ORDER BY id LIMIT $8 OFFSET $9`,
		scanWorkspace, append(args, limit, offset)...)
	return list, total, err
}

// CreateWorkspace stores a workspace. A slug that is taken is a conflict.
func (q Queries) CreateWorkspace(ctx context.Context, w Workspace) error {
	const text = `
		INSERT INTO workspaces (` + workspaceColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	return write(ctx, q.q, "workspace", text, w.ID, w.Organisation, w.Slug, w.Name, w.Icon, w.Description,
		orEmpty(w.Defaults, "{}"), orEmpty(w.Settings, "{}"), orEmpty(w.SecuritySettings, "{}"),
		orEmpty(w.UsageLimits, "[]"), orEmpty(w.RateLimits, "[]"), w.IsDefault, w.Status, w.CreatedBy, millis(w.CreatedAt), millis(w.UpdatedAt))
}

// UpdateWorkspace stores what may change of a workspace.
func (q Queries) UpdateWorkspace(ctx context.Context, w Workspace) error {
	const text = `
		UPDATE workspaces
		SET name = $2, icon = $3, description = $4, defaults = $5, settings = $6, security_settings = $7,
			usage_limits = $8, rate_limits = $9, status = $10, updated_at = $11
		WHERE id = $1`
	return write(ctx, q.q, "workspace", text, w.ID, w.Name, w.Icon, w.Description, orEmpty(w.Defaults, "{}"), orEmpty(w.Settings, "{}"),
		orEmpty(w.SecuritySettings, "{}"), orEmpty(w.UsageLimits, "[]"), orEmpty(w.RateLimits, "[]"), w.Status, millis(w.UpdatedAt))
}

// WorkspaceHolds returns how many configs, prompts, keys and providers are active in a
// workspace, but for providers that every workspace gets.
func (q Queries) WorkspaceHolds(ctx context.Context, id string) (int, error) {
	const text = `
		SELECT (SELECT COUNT(*) FROM configs WHERE workspace_id = $1 AND status = 'active')
			+ (SELECT COUNT(*) FROM gateway_keys WHERE workspace_id = $1 AND status <> 'revoked')
			+ (SELECT COUNT(*) FROM prompts WHERE workspace_id = $1 AND status = 'active')
			+ (SELECT COUNT(*) FROM providers WHERE workspace_id = $1 AND status <> 'archived' AND made_by_grant = FALSE)`
	return count(ctx, q.q, text, id)
}
