package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/secret"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (r *reader) listIntegrations(out *settings.Settings) error {
	out.Integrations = []settings.Integration{}
	r.provided = make(map[[2]string]bool)
	for _, p := range r.state.providers {
		r.provided[[2]string{p.Integration, p.Workspace}] = true
	}
	slices.SortFunc(r.state.integrations, func(a, b store.Integration) int { return cmp.Compare(a.Slug, b.Slug) })
	for i := range r.state.integrations {
		row := &r.state.integrations[i]
		if _, placed := r.workspaces[row.Workspace]; row.Workspace != "" && !placed {
			continue
		}
		v, err := r.integration(row)
		if err != nil {
			return fmt.Errorf("integration %s: %w", row.Slug, err)
		}
		out.Integrations = append(out.Integrations, v)
	}
	return nil
}

func (r *reader) integration(i *store.Integration) (v settings.Integration, err error) {
	c := &i.Configuration
	v = settings.Integration{
		Slug: i.Slug, Workspace: r.workspaces[i.Workspace], Name: i.Name, Description: i.Description, Provider: i.Provider,
		CustomHost: c.CustomHost, Options: maps.Clone(c.Options), Reserved: c.Reserved, Pricing: object(i.Pricing), Tags: filled(i.Tags),
		OnlyModels: !i.AllowAllModels, Implicit: i.Implicit,
	}
	for _, d := range c.Deployments {
		v.Deployed = append(v.Deployed, settings.ModelDeployment{Alias: d.Alias, Name: d.Name, APIVersion: d.APIVersion, Model: d.Model, Default: d.Default})
	}
	held, err := r.secrets(i.Sealed)
	if err != nil {
		return v, err
	}
	place := "integration " + i.Slug
	if !held.Key.Empty() {
		v.APIKey = r.render(place+" api_key", held.Key)
	}
	v.Options = r.rendered(place+" options", v.Options, held.Options)
	v.Headers = r.rendered(place+" custom_headers", nil, held.Headers)
	if v.SecretMappings, err = r.mappings(i.SecretMappings); err != nil {
		return v, err
	}
	if v.Global, err = global(i); err != nil {
		return v, err
	}
	if v.Models, err = r.models(i); err != nil {
		return v, err
	}
	v.Workspaces, err = r.grants(i)
	return v, err
}

func (r *reader) secrets(sealed string) (store.Secrets, error) {
	opened, err := r.open(sealed)
	if err != nil {
		return store.Secrets{}, err
	}
	return store.ParseSecrets(opened)
}

// rendered adds credentials to into.
func (r *reader) rendered(place string, into map[string]string, held map[string]secret.String) map[string]string {
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if into == nil {
			into = make(map[string]string)
		}
		into[name] = r.render(place+" "+name, held[name])
	}
	return filled(into)
}

func (r *reader) mappings(raw json.RawMessage) (out []settings.SecretMapping, err error) {
	var list []credentials.Mapping
	err = json.Unmarshal(raw, &list)
	for _, m := range list {
		out = append(out, settings.SecretMapping{Target: m.Target, Reference: r.references[m.Reference], Key: m.Key, Format: m.Format})
	}
	return out, err
}

// global returns what all workspaces get, nil for nothing.
func global(i *store.Integration) (g *settings.DefaultAccess, err error) {
	g = &settings.DefaultAccess{Enabled: i.GlobalEnabled}
	if g.UsageLimits, err = usages(i.GlobalUsageLimits); err != nil {
		return nil, err
	}
	if g.RateLimits, err = rates(i.GlobalRateLimits); err != nil {
		return nil, err
	}
	if !g.Enabled && g.UsageLimits == nil && g.RateLimits == nil {
		return nil, nil
	}
	return g, nil
}

func (r *reader) models(i *store.Integration) ([]settings.IntegrationModel, error) {
	list := []settings.IntegrationModel{}
	for _, m := range r.state.models[i.ID] {
		v := settings.IntegrationModel{
			Slug: m.Slug, Name: m.Name, Disabled: !m.Enabled, Custom: m.IsCustom, Finetune: m.IsFinetune, BaseModel: m.BaseModel,
			Pricing: object(m.Pricing), CustomHost: m.Configuration.CustomHost,
		}
		held, err := r.secrets(m.Sealed)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Slug, err)
		}
		v.Headers = r.rendered("integration "+i.Slug+" models "+m.Slug+" custom_headers", nil, held.Headers)
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b settings.IntegrationModel) int { return cmp.Compare(a.Slug, b.Slug) })
	return list, nil
}

func (r *reader) grants(i *store.Integration) ([]settings.Grant, error) {
	list, no := []settings.Grant{}, false
	for _, g := range r.state.grants[i.ID] {
		v := settings.Grant{Workspace: r.workspaces[g.Workspace], Disabled: !g.Enabled}
		if g.Enabled && !i.Implicit && !r.provided[[2]string{i.ID, g.Workspace}] {
			v.CreateProvider = &no
		}
		var err error
		if v.UsageLimits, err = usages(g.UsageLimits); err == nil {
			v.RateLimits, err = rates(g.RateLimits)
		}
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", v.Workspace, err)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b settings.Grant) int { return cmp.Compare(a.Workspace, b.Workspace) })
	return list, nil
}

func (r *reader) listProviders(out *settings.Settings) error {
	out.Providers = []settings.Provider{}
	slugs := make(map[string]string, len(r.state.integrations))
	for _, i := range r.state.integrations {
		slugs[i.ID] = i.Slug
	}
	for _, p := range r.state.providers {
		slug, placed := r.workspaces[p.Workspace]
		if !placed || slugs[p.Integration] == "" {
			continue
		}
		v := settings.Provider{
			Slug: p.Slug, Workspace: slug, Name: p.Name, Integration: slugs[p.Integration], Note: p.Note, Tags: filled(p.Tags),
			ExpiresAt: moment(p.ExpiresAt), MadeByGrant: p.MadeByGrant,
		}
		u, err := limits.ReadUsage(p.UsageLimits)
		if err == nil {
			v.UsageLimits = usage(u)
			v.RateLimits, err = rates(p.RateLimits)
		}
		if err != nil {
			return fmt.Errorf("provider %s: %w", p.Slug, err)
		}
		out.Providers = append(out.Providers, v)
	}
	slices.SortFunc(out.Providers, func(a, b settings.Provider) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Slug, b.Slug))
	})
	return nil
}
