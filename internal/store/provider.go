package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/sqlrow"
)

// States of a [Provider], in addition to Active and Archived.
const (
	Exhausted = "exhausted"
	Expired   = "expired"
)

// Provider is what requests of a workspace name by @slug: an integration under the
// workspace's own name and limits. It can be used while it and its integration are
// active and [Queries.HasIntegration] reports true.
type Provider struct {
	ID           string
	Organisation string
	Workspace    string // id
	Integration  string // id
	Slug         string // unique among the workspace's that are not archived
	Name         string
	Note         string
	UsageLimits  json.RawMessage // object or null; the limits of the grant apply too
	RateLimits   json.RawMessage // array
	Tags         map[string]string
	MadeByGrant  bool   // created because the workspace got the integration
	Status       string // Active, Exhausted, Expired or Archived; see StatusAt
	CreatedAt    time.Time
	UpdatedAt    time.Time
	ExpiresAt    time.Time // zero means never
}

// StatusAt returns the state of p at now. A provider may be expired although its row
// does not say so yet.
func (p Provider) StatusAt(now time.Time) string {
	if p.Status != Archived && !p.ExpiresAt.IsZero() && !now.Before(p.ExpiresAt) {
		return Expired
	}
	return p.Status
}

var providerTable = table[Provider]{
	name: "providers", row: "provider", order: "id DESC", fixed: "id", live: "status <> 'archived'",
	columns: func(p *Provider) []column {
		return []column{
			{"id", &p.ID}, {"organisation_id", &p.Organisation}, {"workspace_id", &p.Workspace}, {"integration_id", &p.Integration},
			{"slug", &p.Slug}, {"name", &p.Name}, {"note", &p.Note}, {"usage_limits", nullable(&p.UsageLimits)},
			{"rate_limits", array(&p.RateLimits)},
			{"tags", object(&p.Tags)}, {"made_by_grant", &p.MadeByGrant}, {"status", &p.Status}, {"created_at", &p.CreatedAt},
			{"updated_at", &p.UpdatedAt}, {"expires_at", &p.ExpiresAt},
		}
	},
}

// Providers returns a page of a workspace's providers that have all tags, newest first,
// and the number of all. An empty workspace means all of the organisation.
func (q Queries) Providers(ctx context.Context, organisation, workspace string, tags map[string]string,
	p Page) (list []Provider, total int, err error) {
	where, args := `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND `+p.state(`status <> 'archived'`), []any{organisation, workspace}
	if len(tags) == 0 {
		return providerTable.page(ctx, q.Reader, p, where, args...)
	}
	where, args = p.named(where, args)
	list, err = providerTable.list(ctx, q.Reader, where+` ORDER BY id DESC`, args...)
	list, total = withTags(list, func(p Provider) map[string]string { return p.Tags }, tags, p)
	return list, total, err
}

// Provider returns the provider that is not archived with this id, or with this slug in
// a workspace. An empty workspace means any of the organisation, and then only ids
// match.
func (q Queries) Provider(ctx context.Context, organisation, workspace, ref string) (Provider, error) {
	return providerTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND status <> 'archived'
			AND ($2 = '' AND id = $3 OR workspace_id = $2 AND (id = $3 OR slug = $3))
		ORDER BY CASE WHEN id = $3 THEN 0 ELSE 1 END
		LIMIT 1`, organisation, workspace, ref)
}

// ActiveProviders returns the providers of all active workspaces that are not archived.
func (q Queries) ActiveProviders(ctx context.Context) ([]Provider, error) {
	return providerTable.list(ctx, q.Reader, `
		WHERE status <> 'archived' AND workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY id`)
}

// ProviderSlugs returns the slugs of managed providers, including archived ones, with
// this id or slug. An empty organisation or workspace means any.
func (q Queries) ProviderSlugs(ctx context.Context, organisation, workspace, ref string) ([]string, error) {
	const text = `
		SELECT DISTINCT slug
		FROM providers
		WHERE ($1 = '' OR organisation_id = $1) AND ($2 = '' OR workspace_id = $2) AND (id = $3 OR slug = $3)`
	return sqlrow.List(ctx, q.Reader, "providers", text, scanID, organisation, workspace, ref)
}

// ProvidersOf returns the number of providers of an integration in a workspace that are
// not archived.
func (q Queries) ProvidersOf(ctx context.Context, integration, workspace string) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM providers
		WHERE integration_id = $1 AND workspace_id = $2 AND status <> 'archived'`
	return sqlrow.Count(ctx, q.Reader, text, integration, workspace)
}

// ProviderIDs returns the ids of all providers of an integration in a workspace,
// including archived ones.
func (q Queries) ProviderIDs(ctx context.Context, integration, workspace string) ([]string, error) {
	const text = `
		SELECT id
		FROM providers
		WHERE integration_id = $1 AND workspace_id = $2
		ORDER BY id`
	return sqlrow.List(ctx, q.Reader, "providers", text, scanID, integration, workspace)
}

// ProviderSlugTaken reports whether a provider of a workspace has this slug.
func (q Queries) ProviderSlugTaken(ctx context.Context, workspace, slug string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM providers
		WHERE workspace_id = $1 AND slug = $2 AND status <> 'archived'`
	n, err := sqlrow.Count(ctx, q.Reader, text, workspace, slug)
	return n > 0, err
}

// CreateProvider stores p.
func (tx *Tx) CreateProvider(ctx context.Context, p Provider) error {
	return providerTable.insert(ctx, tx, p)
}

// UpdateProvider replaces the provider with p's id.
func (tx *Tx) UpdateProvider(ctx context.Context, p Provider) error {
	return providerTable.update(ctx, tx, p)
}

// DefaultWorkspaceID returns the id of an organisation's default workspace, empty if it
// has no active one.
func (q Queries) DefaultWorkspaceID(ctx context.Context, organisation string) (string, error) {
	const text = `
		SELECT id
		FROM workspaces
		WHERE organisation_id = $1 AND is_default AND status = 'active'
		ORDER BY id
		LIMIT 1`
	list, err := sqlrow.List(ctx, q.Reader, "workspaces", text, scanID, organisation)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0], nil
}
