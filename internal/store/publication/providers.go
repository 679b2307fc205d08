package publication

import (
	"context"

	"modelgate/internal/limits/quota"
	"modelgate/internal/storage/sqlrow"
	"modelgate/internal/store"
)

func (l *loader) readProviders(ctx context.Context) error {
	const text = `
		SELECT p.id, p.name, i.name, p.organisation_id, p.workspace_id, p.slug, p.status, p.expires_at, p.integration_id,
			i.workspace_id, i.provider, i.sealed, i.configurations, i.secret_mappings, i.pricing, i.allow_all_models, i.status,
			COALESCE(g.enabled, i.global_enabled) AND i.workspace_id IN ('', p.workspace_id), COALESCE(g.status, 'active'),
			p.rate_limits, p.usage_limits, COALESCE(s.cost, 0), COALESCE(s.tokens, 0),
			COALESCE(g.rate_limits, '[]'), COALESCE(g.usage_limits, '[]'), COALESCE(t.cost, 0), COALESCE(t.tokens, 0)
		FROM providers p
		JOIN workspaces w ON w.id = p.workspace_id
		JOIN integrations i ON i.id = p.integration_id
		LEFT JOIN integration_workspaces g ON g.integration_id = p.integration_id AND g.workspace_id = p.workspace_id
		LEFT JOIN spending s ON s.kind = 'provider' AND s.id = p.id
		LEFT JOIN spending t ON t.kind = 'grant' AND t.id = p.integration_id || '/' || p.workspace_id
		WHERE p.status <> 'archived' AND w.status = 'active'
		ORDER BY p.id`
	models, err := l.models(ctx)
	if err != nil {
		return err
	}
	l.state.Providers, err = sqlrow.List(ctx, l.q.Reader, "providers", text, func(r sqlrow.Scanner) (v Provider, err error) {
		var status, grant string
		var enabled bool
		own, granted := storedLimits{Holder: quota.Holder{Kind: store.ProviderBudget}},
			storedLimits{Holder: quota.Holder{Kind: store.GrantBudget}}
		err = r.Scan(&own.ID, &own.Name, &granted.Name, &v.Organisation, &v.Workspace, &v.Slug, &v.Status, sqlrow.Time(&v.ExpiresAt),
			&v.Integration,
			&v.Owner, &v.Provider, &v.Sealed, sqlrow.JSON(&v.Configuration), sqlrow.JSON(&v.Mappings), sqlrow.JSON(&v.Pricing), &v.AllModels,
			&status, &enabled, &grant,
			&own.rates, &own.budgets, &own.cost, &own.tokens, &granted.rates, &granted.budgets, &granted.cost, &granted.tokens)
		if err != nil {
			return v, err
		}
		granted.ID = store.GrantID(v.Integration, v.Workspace)
		v.Models, v.Withdrawn = models[v.Integration], status != store.Active || !enabled
		if v.Status == store.Active && grant == store.Exhausted {
			v.Status = store.Exhausted
		}
		v.Limits = targetLimits(&own, &granted)
		return v, nil
	})
	return err
}

// targetLimits returns the limits of a managed provider and of its integration in
// the workspace. Every attempt counts against them.
func targetLimits(holders ...*storedLimits) (list []*quota.Limit) {
	for _, h := range holders {
		limits := h.parse()
		for _, l := range limits {
			l.PerAttempt = true
		}
		list = append(list, limits...)
	}
	return list
}

// models returns the model settings of integrations, by integration.
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
