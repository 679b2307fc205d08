package store

import (
	"context"
	"encoding/json"
	"time"
)

// Integration is someone's credentials at a provider, for the whole organisation
// or for one workspace of it. Workspaces use it through a [Provider].
//
// What a request needs of it at run time: Provider names the row, Sealed opened
// is [Secrets], Configuration has the rest, and [IntegrationSettings.TargetOptions]
// puts the two together. A model may be asked for when AllowAllModels is true or
// an [IntegrationModel] enables it, by a workspace that [Queries.HasIntegration].
type Integration struct {
	ID           string
	Organisation string
	Workspace    string // id of the only workspace that has it; empty for the organisation's
	Slug         string // unique among the organisation's active ones
	Name         string
	Description  string
	Provider     string // id of a row of the provider table
	Sealed       string // [Secrets.Text], sealed for the organisation; empty for none

	Configuration  IntegrationSettings
	SecretMappings json.RawMessage // array: fields that secret references fill at run time
	Pricing        json.RawMessage // object or null: adjustments of the catalogue's prices
	Tags           map[string]string
	AllowAllModels bool

	// What workspaces get that have no row of their own in integration_workspaces.
	GlobalEnabled     bool
	GlobalUsageLimits json.RawMessage // array
	GlobalRateLimits  json.RawMessage // array

	// Implicit integrations were made for one provider, under its old name of
	// virtual key, and go with it.
	Implicit  bool
	Status    string // Active or Archived
	CreatedAt time.Time
	UpdatedAt time.Time
}

const integrationColumns = `id, organisation_id, workspace_id, slug, name, description, provider, sealed, configurations, secret_mappings,
			pricing, tags, allow_all_models, global_enabled, global_usage_limits, global_rate_limits, implicit, status, created_at, updated_at`

func scanIntegration(r row) (i Integration, err error) {
	err = r.Scan(&i.ID, &i.Organisation, &i.Workspace, &i.Slug, &i.Name, &i.Description, &i.Provider, &i.Sealed,
		jsonText{&i.Configuration}, jsonText{&i.SecretMappings}, jsonText{&i.Pricing}, jsonText{&i.Tags}, &i.AllowAllModels,
		&i.GlobalEnabled, jsonText{&i.GlobalUsageLimits}, jsonText{&i.GlobalRateLimits}, &i.Implicit, &i.Status,
		nullTime{&i.CreatedAt}, nullTime{&i.UpdatedAt})
	return i, err
}

// values are those of integrationColumns, in their order.
func (i Integration) values() []any {
	return []any{
		i.ID, i.Organisation, i.Workspace, i.Slug, i.Name, i.Description, i.Provider, i.Sealed,
		text(i.Configuration), orEmpty(i.SecretMappings, "[]"), orEmpty(i.Pricing, "null"), text(tagged(i.Tags)), i.AllowAllModels,
		i.GlobalEnabled, orEmpty(i.GlobalUsageLimits, "[]"), orEmpty(i.GlobalRateLimits, "[]"), i.Implicit, i.Status,
		millis(i.CreatedAt), millis(i.UpdatedAt),
	}
}

// IntegrationFilter says which active integrations of an organisation are meant.
type IntegrationFilter struct {
	Organisation string
	Shared       bool // those of the organisation
	Own          bool // those of workspaces

	// Workspace, when not empty, leaves what it has: its own, and those of the
	// organisation that were granted to it.
	Workspace string

	Tags map[string]string // all of which it has
}

// Integrations returns a page of integrations, the newest first, and how many
// there are.
func (q Queries) Integrations(ctx context.Context, f IntegrationFilter, p Page) (list []Integration, total int, err error) {
	const where = `
		FROM integrations
		WHERE organisation_id = $1 AND status = 'active'
			AND ($2 AND workspace_id = '' AND ($4 = '' OR ` + granted + `)
				OR $3 AND workspace_id <> '' AND ($4 = '' OR workspace_id = $4))`
	const columns = `SELECT ` + integrationColumns + where + ` ORDER BY id DESC LIMIT $5 OFFSET $6`
	args := []any{f.Organisation, f.Shared, f.Own, f.Workspace}
	limit, offset := p.limit()
	if len(f.Tags) > 0 {
		limit, offset = Page{}.limit()
	}
	list, err = rows(ctx, q.q, "integrations", columns, scanIntegration, append(args, limit, offset)...)
	if err != nil {
		return nil, 0, err
	}
	if len(f.Tags) > 0 {
		list, total = withTags(list, func(i Integration) map[string]string { return i.Tags }, f.Tags, p)
		return list, total, nil
	}
	total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, args...)
	return list, total, err
}

// granted is whether the workspace $4 has an integration of the organisation.
const granted = `COALESCE((
				SELECT enabled
				FROM integration_workspaces
				WHERE integration_id = integrations.id AND workspace_id = $4), global_enabled)`

// Integration returns the active integration of an organisation with this id or
// slug.
func (q Queries) Integration(ctx context.Context, organisation, ref string) (Integration, error) {
	const text = `
		SELECT ` + integrationColumns + `
		FROM integrations
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2) AND status = 'active'
		ORDER BY CASE WHEN id = $2 THEN 0 ELSE 1 END
		LIMIT 1`
	return one(ctx, q.q, "integration", text, scanIntegration, organisation, ref)
}

// GlobalIntegrations returns the integrations that every new workspace of an
// organisation gets, the oldest first.
func (q Queries) GlobalIntegrations(ctx context.Context, organisation string) ([]Integration, error) {
	const text = `
		SELECT ` + integrationColumns + `
		FROM integrations
		WHERE organisation_id = $1 AND workspace_id = '' AND global_enabled AND status = 'active'
		ORDER BY id`
	return rows(ctx, q.q, "integrations", text, scanIntegration, organisation)
}

// CreateIntegration stores i.
func (q Queries) CreateIntegration(ctx context.Context, i Integration) error {
	const text = `
		INSERT INTO integrations (` + integrationColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`
	return write(ctx, q.q, "integration", text, i.values()...)
}

// UpdateIntegration stores i instead of the active integration with its id.
func (q Queries) UpdateIntegration(ctx context.Context, i Integration) error {
	const text = `
		UPDATE integrations
		SET organisation_id = $2, workspace_id = $3, slug = $4, name = $5, description = $6, provider = $7, sealed = $8,
			configurations = $9, secret_mappings = $10, pricing = $11, tags = $12, allow_all_models = $13, global_enabled = $14,
			global_usage_limits = $15, global_rate_limits = $16, implicit = $17, status = $18, created_at = $19, updated_at = $20
		WHERE id = $1 AND status = 'active'`
	return write(ctx, q.q, "integration", text, i.values()...)
}

// ArchiveIntegration puts an integration away with the providers made from it.
// Its secrets are forgotten: nothing brings it back.
func (q Queries) ArchiveIntegration(ctx context.Context, id string, now time.Time) error {
	const text = `
		UPDATE integrations
		SET status = 'archived', sealed = '', updated_at = $2
		WHERE id = $1 AND status = 'active'`
	const models = `
		UPDATE integration_models
		SET sealed = ''
		WHERE integration_id = $1`
	const providers = `
		UPDATE providers
		SET status = 'archived', updated_at = $2
		WHERE integration_id = $1 AND status <> 'archived'`
	if err := write(ctx, q.q, "integration", text, id, millis(now)); err != nil {
		return err
	}
	if err := exec(ctx, q.q, "models", models, id); err != nil {
		return err
	}
	return exec(ctx, q.q, "providers", providers, id, millis(now))
}

// ArchiveWorkspaceIntegrations puts away the integrations of one workspace and
// every provider in it: what happens when the workspace is.
func (q Queries) ArchiveWorkspaceIntegrations(ctx context.Context, workspace string, now time.Time) error {
	const own = `
		SELECT ` + integrationColumns + `
		FROM integrations
		WHERE workspace_id = $1 AND status = 'active'`
	const providers = `
		UPDATE providers
		SET status = 'archived', updated_at = $2
		WHERE workspace_id = $1 AND status <> 'archived'`
	list, err := rows(ctx, q.q, "integrations", own, scanIntegration, workspace)
	if err != nil {
		return err
	}
	for _, i := range list {
		if err := q.ArchiveIntegration(ctx, i.ID, now); err != nil {
			return err
		}
	}
	return exec(ctx, q.q, "providers", providers, workspace, millis(now))
}
