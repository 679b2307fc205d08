package manifest

import (
	"context"
	"slices"

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
		return func(ctx context.Context, c *route.Caller) error { return providers.Archive(ctx, c, row.ID) }
	},
}

func (p *plan) provider(path string, want *settings.Provider, old *store.Provider, _ []string) (step, error) {
	if p.isDeclared(func(d route.Declared) bool {
		return slices.ContainsFunc(d.Providers, func(v store.Provider) bool {
			return v.Workspace == p.names.workspaces[want.Workspace] && v.Slug == want.Slug
		})
	}) {
		return nil, errDeclared
	}
	in := new(providers.Input)
	b := &in.Body
	b.Slug, b.Name, b.Note, b.Tags, b.ExpiresAt, b.MadeByGrant = want.Slug, want.Name, want.Note, want.Tags, want.ExpiresAt, want.MadeByGrant
	b.RateLimits, b.UsageLimits = want.RateLimits, input(want.UsageLimits)
	var err error
	if b.Workspace, err = p.workspaceID(path+".workspace", want.Workspace); err != nil {
		return nil, err
	}
	var ok bool
	if b.Integration, ok = p.names.integrations[want.Integration]; !ok {
		return nil, p.missing(path+".integration", "integration", want.Integration)
	}
	id := ""
	if old != nil {
		id = old.ID
	}
	return func(ctx context.Context, c *route.Caller) error { return providers.Put(ctx, c, id, in) }, nil
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
