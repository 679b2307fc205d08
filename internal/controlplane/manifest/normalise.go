package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/identity/access"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// normalise fills in the defaults that the file leaves out, to make it comparable with
// the stored state. It is idempotent.
func (p *plan) normalise() error {
	home, f := "", p.file
	for _, w := range p.state.workspaces {
		if w.IsDefault && w.Status == store.Active {
			home = w.Slug
		}
	}
	if f.Organisation != nil {
		orElse(&f.Organisation.Name, p.state.organisation.Name)
		said, err := organisationSettings(f.Organisation.Settings)
		if err == nil {
			err = p.checkOrganisation(f.Organisation.Settings, &said)
		}
		if err != nil {
			return p.fault("organisation.settings", err)
		}
		f.Organisation.Settings = object(text(said))
	}
	for i := range f.Workspaces {
		w := &f.Workspaces[i]
		orElse(&w.Name, w.Slug)
		w.Defaults, w.Settings, w.SecuritySettings = object(w.Defaults), object(w.Settings), object(w.SecuritySettings)
		normalUsages(w.UsageLimits)
	}
	for i := range f.Members {
		m := &f.Members[i]
		m.Email = access.UserName(m.Email)
		orElse(&m.Role, "member")
		m.Workspaces = filled(m.Workspaces)
		normalUsage(m.UsageLimits)
	}
	p.normaliseAdministered()
	p.normalisePeople()
	p.normaliseWorkloads()
	p.normaliseTools(home)
	p.normaliseAgents(home)
	p.normaliseForRequests(home)
	p.normalisePrompts(home)
	return p.expandProviders()
}

// normaliseAdministered normalises objects that requests do not use directly.
func (p *plan) normaliseAdministered() {
	f := p.file
	for i := range f.Guardrails {
		g := &f.Guardrails[i]
		orElse(&g.Name, g.Slug)
		g.Actions = object(g.Actions)
	}
	for i := range f.SecretReferences {
		r := &f.SecretReferences[i]
		orElse(&r.Name, r.Slug)
		r.Auth, r.Tags = filled(r.Auth), filled(r.Tags)
		slices.Sort(r.Workspaces)
		var s store.SecretReference
		if secrets.Limit(&s, r.Providers, r.Hosts) == nil { // otherwise the change itself reports the error
			r.Providers, r.Hosts = s.Providers, append([]string(nil), s.Hosts...)
		}
	}
	for i := range f.GuardrailCredentials {
		c := &f.GuardrailCredentials[i]
		c.Credentials = filled(c.Credentials)
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		orElse(&d.Name, d.Slug)
		orElse(&d.Type, store.Production)
		d.Config, d.AuthSettings = object(d.Config), object(d.AuthSettings)
		slices.Sort(d.Workspaces)
	}
}

// normaliseForRequests normalises objects that requests use.
func (p *plan) normaliseForRequests(home string) {
	f := p.file
	for i := range f.Providers {
		v := &f.Providers[i]
		orElse(&v.Workspace, home)
		orElse(&v.Name, v.Slug)
		v.Tags, v.ExpiresAt = filled(v.Tags), canonical(v.ExpiresAt)
		normalUsage(v.UsageLimits)
	}
	for i := range f.Configs {
		c := &f.Configs[i]
		orElse(&c.Workspace, home)
		orElse(&c.Name, c.Slug)
	}
	for i := range f.Keys {
		k := &f.Keys[i]
		orElse(&k.Name, "key")
		orElse(&k.Type, string(access.WorkspaceService))
		if k.Type != string(access.OrganisationService) {
			orElse(&k.Workspace, home)
		}
		if k.Scopes == nil {
			k.Scopes = []string{string(access.ScopeAll)}
		}
		if k.WithoutSecret {
			k.Mask = ""
		} else {
			orElse(&k.Mask, "***")
		}
		k.SHA256, k.Member = strings.ToLower(k.SHA256), access.UserName(k.Member)
		k.ExpiresAt, k.Metadata = canonical(k.ExpiresAt), filled(k.Metadata)
		k.Egress = k.Egress.Strict()
		normalUsage(k.UsageLimits)
		if r := k.RotationPolicy; r != nil {
			r.NextAt = canonical(r.NextAt)
			if r.TransitionMS == 0 {
				r.TransitionMS = 1_800_000
			}
		}
	}
}

func orElse(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func normalUsage(u *settings.Usage) {
	if u != nil {
		orElse(&u.Type, "cost")
	}
}

func normalUsages(list []settings.Usage) {
	for i := range list {
		normalUsage(&list[i])
	}
}

// expandProviders adds an integration for each provider with credentials of its own, as
// virtual keys have.
func (p *plan) expandProviders() error {
	complete := *p.file
	complete.Integrations, complete.Providers = slices.Clone(p.file.Integrations), slices.Clone(p.file.Providers)
	p.wanted = &complete
	w := p.wanted
	for i := range w.Integrations {
		p.paths = append(p.paths, fmt.Sprintf("integrations[%d]", i))
	}
	for i := range w.Providers {
		v := &w.Providers[i]
		if v.Integration != "" {
			continue
		}
		path := fmt.Sprintf("providers[%d]", i)
		if slices.ContainsFunc(w.Integrations, func(o settings.Integration) bool { return o.Slug == v.Slug }) {
			return p.file.ErrorAt(path+".slug", errors.New("an integration with this slug already exists, but the provider's own credentials need the slug"))
		}
		made := settings.Integration{
			Slug: v.Slug, Workspace: v.Workspace, Name: v.Name, Provider: v.Provider, APIKey: v.APIKey, CustomHost: v.CustomHost, Options: v.Options,
			OnlyModels: v.Models != nil, Implicit: true, Workspaces: []settings.Grant{{Workspace: v.Workspace}},
		}
		for _, m := range v.Models {
			made.Models = append(made.Models, settings.IntegrationModel{Slug: m})
		}
		w.Integrations, p.paths = append(w.Integrations, made), append(p.paths, path)
		v.Integration, v.Provider, v.APIKey, v.CustomHost, v.Options, v.Models = v.Slug, "", "", "", nil, nil
	}
	for i := range w.Integrations {
		normalIntegration(&w.Integrations[i])
	}
	p.granter = p.newGranter()
	return p.granter.run()
}

func normalIntegration(v *settings.Integration) {
	orElse(&v.Name, v.Slug)
	v.Options, v.Headers, v.Tags, v.Pricing = filled(v.Options), filled(v.Headers), filled(v.Tags), object(v.Pricing)
	if g := v.Global; g != nil {
		normalUsages(g.UsageLimits)
		if !g.Enabled && len(g.UsageLimits)+len(g.RateLimits) == 0 {
			v.Global = nil
		}
	}
	for i := range v.Models {
		m := &v.Models[i]
		orElse(&m.Name, m.Slug)
		m.Pricing, m.Headers = object(m.Pricing), filled(m.Headers)
	}
	for i := range v.Workspaces {
		normalUsages(v.Workspaces[i].UsageLimits)
	}
	slices.SortFunc(v.Models, func(a, b settings.IntegrationModel) int { return strings.Compare(a.Slug, b.Slug) })
}

// register assigns an id to every object that can be referred to: its stored id or a
// new one. Objects to be removed have none.
func (p *plan) register() {
	f, s := p.file, p.state
	p.names = references{
		workspaces: ids(p.keepsUnlisted(f.Workspaces != nil), f.Workspaces, s.workspaces, func(w settings.Workspace) string { return w.Slug },
			func(w store.Workspace) (string, string, bool) { return w.Slug, w.ID, w.Status == store.Active }),
		people: ids(p.keepsUnlisted(f.Members != nil), f.Members, s.users, func(m settings.Member) string { return m.Email },
			func(u store.User) (string, string, bool) { return u.Email, u.ID, true }),
		guardrails: ids(p.keepsUnlisted(f.Guardrails != nil), f.Guardrails, s.guardrails, func(g settings.Guardrail) string { return g.Slug },
			func(g store.Guardrail) (string, string, bool) { return g.Slug, g.ID, g.Status == store.Active }),
		references: ids(p.keepsUnlisted(f.SecretReferences != nil), f.SecretReferences, s.references,
			func(r settings.SecretReference) string { return r.Slug },
			func(r store.SecretReference) (string, string, bool) { return r.Slug, r.ID, true }),
		integrations: ids(p.keepsUnlisted(f.Integrations != nil), p.wanted.Integrations, s.integrations,
			func(i settings.Integration) string { return i.Slug },
			func(i store.Integration) (string, string, bool) { return i.Slug, i.ID, true }),
		configs: make(map[[2]string]int64), former: make(map[string]bool),
	}
	for _, k := range s.keys {
		if k.PreviousHash != nil {
			p.names.former[k.PreviousHash.String()] = true
		}
	}
	p.registerPrompts()
	for _, m := range f.Members {
		if id, ok := s.userIDs[m.Email]; ok {
			p.names.people[m.Email] = id
		}
	}
	p.registerConfigs()
}

// keepsUnlisted reports whether objects that are not in a section of the file stay.
func (p *plan) keepsUnlisted(asked bool) bool { return !p.prune || !asked }

// ids returns the ids of the entries of a section and, if spared, of the other stored
// objects.
func ids[W, R any](spared bool, want []W, rows []R, name func(W) string, row func(R) (slug, id string, active bool)) map[string]string {
	stored, out := make(map[string]string, len(rows)), make(map[string]string, len(rows))
	for _, r := range rows {
		slug, id, active := row(r)
		stored[slug] = id
		if active && spared {
			out[slug] = id
		}
	}
	for _, w := range want {
		slug := name(w)
		if out[slug] = stored[slug]; out[slug] == "" {
			out[slug] = newID()
		}
	}
	return out
}
