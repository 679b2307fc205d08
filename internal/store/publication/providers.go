package publication

import (
	"context"
	"fmt"
	"slices"

	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
)

// Provider is a managed provider that is not archived.
type Provider struct {
	Row         store.Provider // exhausted also if its integration is exhausted in the workspace
	Integration *Integration   // shared by its providers
	Withdrawn   bool           // the integration is archived, or disabled in the workspace
	Limits      []*quota.Limit // of the provider and of its integration in the workspace
}

// Integration is an integration of a managed provider.
type Integration struct {
	Row      store.Integration
	Mappings []store.SecretMapping // of the row
	Models   []store.IntegrationModel
}

func (l *loader) readProviders(ctx context.Context) error {
	rows, err := l.q.ActiveProviders(ctx)
	if err != nil {
		return err
	}
	integrations, err := l.integrations(ctx)
	if err != nil {
		return err
	}
	grants, err := l.grants(ctx)
	if err != nil {
		return err
	}
	l.state.Providers = make([]Provider, 0, len(rows))
	for _, row := range rows {
		i, ok := integrations[row.Integration]
		if !ok {
			continue
		}
		g, granted := grants[store.GrantID(row.Integration, row.Workspace)]
		enabled := granted && g.Enabled || !granted && i.Row.GlobalEnabled
		foreign := i.Row.Workspace != "" && i.Row.Workspace != row.Workspace
		if row.Status == store.Active && g.Status == store.Exhausted {
			row.Status = store.Exhausted
		}
		l.state.Providers = append(l.state.Providers, Provider{
			Row: row, Integration: i, Withdrawn: i.Row.Status != store.Active || !enabled || foreign,
		})
	}
	return l.addProviderLimits(ctx, grants)
}

// integrations returns the integrations of managed providers, by id.
func (l *loader) integrations(ctx context.Context) (map[string]*Integration, error) {
	rows, err := l.q.UsedIntegrations(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*Integration, len(rows))
	for _, row := range rows {
		mappings, err := row.Mappings()
		if err != nil {
			return nil, fmt.Errorf("reading integration %s: %w", row.ID, err)
		}
		byID[row.ID] = &Integration{Row: row, Mappings: mappings}
	}
	models, err := l.q.UsedIntegrationModels(ctx)
	for _, m := range models {
		if i := byID[m.Integration]; i != nil {
			i.Models = append(i.Models, m)
		}
	}
	return byID, err
}

// grants returns the grants of integrations of managed providers, by id.
func (l *loader) grants(ctx context.Context) (map[string]store.IntegrationWorkspace, error) {
	list, err := l.q.UsedIntegrationWorkspaces(ctx)
	byID := make(map[string]store.IntegrationWorkspace, len(list))
	for _, g := range list {
		byID[store.GrantID(g.Integration, g.Workspace)] = g
	}
	return byID, err
}

// addProviderLimits adds the limits of the managed providers and those of their
// integrations in the workspace. Every attempt counts against them.
func (l *loader) addProviderLimits(ctx context.Context, grants map[string]store.IntegrationWorkspace) error {
	var own, granted []storedLimits
	for i := range l.state.Providers {
		p := &l.state.Providers[i]
		holder := quota.Holder{ID: p.Row.ID, Name: p.Row.Name}
		own = append(own, storedLimits{Holder: holder, rates: p.Row.RateLimits, budgets: p.Row.UsageLimits})
		id := store.GrantID(p.Row.Integration, p.Row.Workspace)
		if g, ok := grants[id]; ok {
			holder := quota.Holder{ID: id, Name: p.Integration.Row.Name}
			granted = append(granted, storedLimits{Holder: holder, rates: g.RateLimits, budgets: g.UsageLimits})
		}
	}
	ofProviders, err := l.parseLimits(ctx, store.ProviderBudget, own)
	if err != nil {
		return err
	}
	ofGrants, err := l.parseLimits(ctx, store.GrantBudget, granted)
	if err != nil {
		return err
	}
	for i := range l.state.Providers {
		p := &l.state.Providers[i]
		p.Limits = slices.Concat(ofProviders[p.Row.ID], ofGrants[store.GrantID(p.Row.Integration, p.Row.Workspace)])
		for _, limit := range p.Limits {
			limit.PerAttempt = true
		}
	}
	return nil
}
