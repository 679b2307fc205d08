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
		stamp{&w.CreatedAt}, stamp{&w.UpdatedAt})
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
