package publication

import (
	"context"

	"modelgate/internal/sqlrow"
	"modelgate/internal/store"
)

func (l *loader) readProviders(ctx context.Context) error {
	const text = `
		SELECT p.organisation_id, p.workspace_id, p.slug, p.status, p.expires_at, p.integration_id,
			i.workspace_id, i.provider, i.sealed, i.configurations, i.secret_mappings, i.pricing, i.allow_all_models, i.status,
			COALESCE(g.enabled, i.global_enabled) AND i.workspace_id IN ('', p.workspace_id), COALESCE(g.status, 'active')
		FROM providers p
		JOIN workspaces w ON w.id = p.workspace_id
		JOIN integrations i ON i.id = p.integration_id
		LEFT JOIN integration_workspaces g ON g.integration_id = p.integration_id AND g.workspace_id = p.workspace_id
		WHERE p.status <> 'archived' AND w.status = 'active'
		ORDER BY p.id`
	models, err := l.models(ctx)
	if err != nil {
		return err
	}
	l.state.Providers, err = sqlrow.List(ctx, l.q.Reader, "providers", text, func(r sqlrow.Scanner) (v Provider, err error) {
		var status, grant string
		var enabled bool
		err = r.Scan(&v.Organisation, &v.Workspace, &v.Slug, &v.Status, sqlrow.Time(&v.ExpiresAt), &v.Integration,
			&v.Owner, &v.Provider, &v.Sealed, sqlrow.JSON(&v.Configuration), sqlrow.JSON(&v.Mappings), sqlrow.JSON(&v.Pricing), &v.AllModels, &status, &enabled, &grant)
		v.Models, v.Withdrawn = models[v.Integration], status != store.Active || !enabled
		if v.Status == store.Active && grant == store.Exhausted {
			v.Status = store.Exhausted
		}
		return v, err
	})
	return err
}

// models returns what integrations say of models, by integration.
func (l *loader) models(ctx context.Context) (map[string][]Model, error) {
	const text = `
		SELECT integration_id, slug, enabled, base_model_slug, pricing, configurations, sealed
		FROM integration_models
		ORDER BY integration_id, slug`
	models := make(map[string][]Model)
	_, err := sqlrow.List(ctx, l.q.Reader, "models", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var integration string
		var m Model
		var c store.IntegrationSettings
		err = r.Scan(&integration, &m.Slug, &m.Enabled, &m.BaseModel, sqlrow.JSON(&m.Pricing), sqlrow.JSON(&c), &m.Sealed)
		m.CustomHost = c.CustomHost
		models[integration] = append(models[integration], m)
		return none, err
	})
	return models, err
}
