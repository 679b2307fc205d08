package manifest

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (p *plan) planProviders() error {
	if p.keepsUnlisted(p.file.Providers != nil) {
		p.granter.dropUngranted()
	}
	return providerKind.plan(p)
}

var providerKind = kind[settings.Provider, store.Provider]{
	section: "providers", name: "provider",
	entries: func(s *settings.Settings) *[]settings.Provider { return &s.Providers },
	rows:    func(s *state) []store.Provider { return s.providers },
	key:     func(v *settings.Provider) entryID { return entryID{v.Workspace, v.Slug} },
	rowKey:  func(s *state, v *store.Provider) entryID { return entryID{s.slugs[v.Workspace], v.Slug} },
	read:    (*reader).provider, put: (*plan).provider,
	drop: func(p *plan, row store.Provider) step {
		return func(ctx context.Context, tx *store.Tx) error { return p.dropProvider(ctx, tx, row) }
	},
}

func (p *plan) provider(path string, want *settings.Provider, old *store.Provider, _ []string) (step, error) {
	workspace, err := p.workspaceID(path+".workspace", want.Workspace)
	if err != nil {
		return nil, err
	}
	row := rowOr(old, store.Provider{ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug, Status: store.Active, CreatedAt: p.now})
	var ok bool
	if row.Integration, ok = p.names.integrations[want.Integration]; !ok {
		return nil, p.missing(path+".integration", "integration", want.Integration)
	}
	if err := credentials.Tags(want.Tags).Check("tags"); err != nil {
		return nil, err
	}
	before := row
	row.Name, row.Note, row.Tags, row.MadeByGrant, row.UpdatedAt = want.Name, want.Note, want.Tags, want.MadeByGrant, route.After(row.UpdatedAt, p.now)
	row.ExpiresAt = parsed(want.ExpiresAt)
	if row.Status == store.Expired && p.now.Before(row.ExpiresAt) {
		row.Status = store.Active
	}
	relieved, err := p.budget(want.UsageLimits, &row.UsageLimits)
	if err != nil {
		return nil, err
	}
	if row.Status == store.Exhausted && relieved {
		row.Status = store.Active
	}
	if row.RateLimits, err = limit("rate_limits", want.RateLimits); err != nil {
		return nil, err
	}
	of, err := limits.Compare(store.ProviderBudget, row.ID, &before, &row, providers.Limits)
	if err != nil {
		return nil, err
	}
	return saveLimited(save(row, old, (*store.Tx).CreateProvider, (*store.Tx).UpdateProvider), of), nil
}

// parsed parses a time that the file's check has accepted.
func parsed(at string) time.Time {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// dropProvider archives a provider, with its integration if that was created for it
// only.
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

func (r *reader) provider(p *store.Provider) (v settings.Provider, ok bool, err error) {
	slug, placed := r.workspaces[p.Workspace]
	v = settings.Provider{
		Slug: p.Slug, Workspace: slug, Name: p.Name, Integration: r.integrations[p.Integration], Note: p.Note, Tags: filled(p.Tags),
		ExpiresAt: moment(p.ExpiresAt), MadeByGrant: p.MadeByGrant,
	}
	if !placed || v.Integration == "" {
		return v, false, nil
	}
	u, err := limits.ReadUsage(p.UsageLimits)
	if err != nil {
		return v, false, err
	}
	v.UsageLimits = usage(u)
	v.RateLimits, err = rates(p.RateLimits)
	return v, true, err
}
