package manifest

import (
	"context"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (p *plan) providers() error {
	rows := make(map[[2]string]store.Provider)
	for _, v := range p.state.providers {
		rows[[2]string{v.Workspace, v.Slug}] = v
	}
	drop := func(have *settings.Provider) step {
		row := rows[[2]string{p.stored(have.Workspace), have.Slug}]
		return func(ctx context.Context, tx *store.Tx) error { return p.dropProvider(ctx, tx, row) }
	}
	spared := p.keepsUnlisted(p.file.Providers != nil)
	if spared {
		p.removals = append(p.removals, p.granter.dropUngranted(drop)...)
	}
	return compare(p, family[settings.Provider]{
		section: "providers", kind: "provider", want: p.wanted.providers, have: p.have.Providers, spared: spared,
		name: providerName,
		put: func(path string, want *settings.Provider, _ []string) (step, error) {
			workspace, err := p.workspaceID(path+".workspace", want.Workspace)
			if err != nil {
				return nil, err
			}
			row, known := rows[[2]string{workspace, want.Slug}]
			if !known {
				row = store.Provider{ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug, Status: store.Active, CreatedAt: p.now}
			}
			return p.provider(path, want, row, known)
		},
		drop: drop,
	})
}

func providerName(v *settings.Provider) string { return v.Workspace + "/" + v.Slug }

func (p *plan) provider(path string, want *settings.Provider, row store.Provider, known bool) (step, error) {
	var ok bool
	if row.Integration, ok = p.names.integrations[want.Integration]; !ok {
		return nil, p.missing(path+".integration", "integration", want.Integration)
	}
	if err := credentials.Tags(want.Tags).Check("tags"); err != nil {
		return nil, err
	}
	old := row
	row.Name, row.Note, row.Tags, row.MadeByGrant, row.UpdatedAt = want.Name, want.Note, want.Tags, want.MadeByGrant, route.After(row.UpdatedAt, p.now)
	row.ExpiresAt = parsed(want.ExpiresAt)
	if row.Status == store.Expired && p.now.Before(row.ExpiresAt) {
		row.Status = store.Active
	}
	before, err := limits.ReadUsage(row.UsageLimits)
	if err != nil {
		return nil, err
	}
	if row.UsageLimits, err = p.budget(want.UsageLimits, row.UsageLimits); err != nil {
		return nil, err
	}
	after, err := limits.ReadUsage(row.UsageLimits)
	if err != nil {
		return nil, err
	}
	if row.Status == store.Exhausted && after.Relieves(before) {
		row.Status = store.Active
	}
	if row.RateLimits, err = limit(want.RateLimits); err != nil {
		return nil, err
	}
	of, err := limitsOf(store.ProviderBudget, row.ID, &old, &row, providers.Limits)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *store.Tx) error {
		put := tx.CreateProvider
		if known {
			put = tx.UpdateProvider
		}
		if err := put(ctx, row); err != nil {
			return err
		}
		if err := limits.Note(ctx, tx, of, operator); err != nil {
			return err
		}
		return budgets.Refresh(ctx, tx, store.ProviderBudget, row.ID)
	}, nil
}

// parsed reads a time that the file's check let pass.
func parsed(at string) time.Time {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// dropProvider archives a provider, with the integration that was made for it
// alone.
func (p *plan) dropProvider(ctx context.Context, tx *store.Tx, row store.Provider) error {
	row.Status, row.UpdatedAt = store.Archived, route.After(row.UpdatedAt, p.now)
	if err := tx.UpdateProvider(ctx, row); err != nil {
		return err
	}
	i, err := tx.Integration(ctx, row.Organisation, row.Integration)
	if apierr.IsNotFound(err) || err == nil && !i.Implicit {
		return nil
	}
	if err != nil {
		return err
	}
	return tx.ArchiveIntegration(ctx, i.ID, row.UpdatedAt)
}
