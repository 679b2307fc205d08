package manifest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var integrationKind = kind[settings.Integration, store.Integration]{
	section: "integrations", name: "integration",
	entries: func(s *settings.Settings) *[]settings.Integration { return &s.Integrations },
	rows:    func(s *state) []store.Integration { return s.integrations },
	key:     func(i *settings.Integration) entryID { return entryID{name: i.Slug} },
	rowKey:  func(_ *state, i *store.Integration) entryID { return entryID{name: i.Slug} },
	read:    (*reader).integration, keep: (*plan).keepIntegration, put: (*plan).integration,
	drop: func(_ *plan, row store.Integration) step {
		return func(ctx context.Context, c *route.Caller) error {
			err := integrations.Archive(ctx, c, row)
			if apierr.IsNotFound(err) { // already removed with its provider
				return nil
			}
			return err
		}
	},
}

// keepIntegration completes want with what the file leaves out: secrets, and without
// pruning also models and workspaces.
func (p *plan) keepIntegration(want, have *settings.Integration) {
	if want.APIKey == "" {
		want.APIKey = have.APIKey
	}
	want.Options = withStoredSecrets(want.Options, have.Options, hidden(have.Options))
	want.Headers = withStoredSecrets(want.Headers, have.Headers, slices.Collect(maps.Keys(have.Headers)))
	models := make(map[string]settings.IntegrationModel)
	for _, m := range have.Models {
		models[m.Slug] = m
	}
	given := slices.Clone(want.Models)
	for i, m := range given {
		given[i].Headers = withStoredSecrets(m.Headers, models[m.Slug].Headers, slices.Collect(maps.Keys(models[m.Slug].Headers)))
	}
	want.Models = merged(p.prune && want.Models != nil, given, have.Models, func(m settings.IntegrationModel) string { return m.Slug })
	want.Workspaces = slices.Clone(want.Workspaces)
	creates := make(map[string]*bool)
	for _, g := range have.Workspaces {
		creates[g.Workspace] = g.CreateProvider
	}
	for i, g := range want.Workspaces { // its provider is compared separately
		want.Workspaces[i].CreateProvider = creates[g.Workspace]
	}
}

// merged returns want, followed by the elements of have that are not in want unless
// whole is set.
func merged[T any](whole bool, want, have []T, name func(T) string) []T {
	out := make(map[string]T, len(want))
	if !whole {
		for _, v := range have {
			out[name(v)] = v
		}
	}
	for _, v := range want {
		out[name(v)] = v
	}
	list := make([]T, 0, len(out))
	for _, n := range slices.Sorted(maps.Keys(out)) {
		list = append(list, out[n])
	}
	return list
}

// hidden returns the names of the options that are credentials.
func hidden(options map[string]string) (list []string) {
	for name := range options {
		if credentials.Hidden(name) {
			list = append(list, name)
		}
	}
	return list
}

func (p *plan) integration(path string, want *settings.Integration, old *store.Integration, changed []string) (step, error) {
	var row store.Integration
	if old == nil {
		var err error
		if row, err = p.newIntegration(path, want); err != nil {
			return nil, err
		}
	} else if row = *old; has(changed, "workspace", "provider", "implicit") {
		return nil, p.file.ErrorAt(path, errors.New("the provider, workspace and purpose of an integration cannot be changed; give it another slug"))
	}
	row.Name, row.Description, row.Tags, row.Pricing = want.Name, want.Description, want.Tags, json.RawMessage(want.Pricing)
	row.AllowAllModels, row.Implicit = !want.OnlyModels, want.Implicit
	if old == nil || has(changed, "api_key", "options", "custom_headers", "custom_host", "deployment_config", "reserved") {
		if err := p.setCredentials(path, want, &row); err != nil {
			return nil, err
		}
	}
	e := &integrations.Entry{Integration: row}
	for _, add := range []func(string, *settings.Integration, *integrations.Entry) error{p.addMappings, p.addModels, p.addGrants} {
		if err := add(path, want, e); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, c *route.Caller) error { return integrations.Put(ctx, c, old, e) }, nil
}

// addMappings sets the secret mappings of e. The references may be new.
func (p *plan) addMappings(path string, want *settings.Integration, e *integrations.Entry) error {
	list := make([]store.SecretMapping, 0, len(want.SecretMappings))
	for i, m := range want.SecretMappings {
		id, ok := p.names.references[m.Reference]
		if !ok {
			return p.missing(fmt.Sprintf("%s.secret_mappings[%d].secret_reference", path, i), "secret reference", m.Reference)
		}
		m.Reference = id
		list = append(list, store.SecretMapping(m))
	}
	e.Integration.SecretMappings = text(list)
	return nil
}

// addGrants adds to e the access of all workspaces and of each.
func (p *plan) addGrants(path string, want *settings.Integration, e *integrations.Entry) error {
	global := want.Global
	if global == nil {
		global = new(settings.DefaultAccess)
	}
	e.Integration.GlobalEnabled, e.Global = global.Enabled, limitsOf(global.UsageLimits, global.RateLimits)
	for i, g := range want.Workspaces {
		id, err := p.workspaceID(fmt.Sprintf("%s.workspaces[%d].workspace", path, i), g.Workspace)
		if err != nil {
			return err
		}
		e.Grants = append(e.Grants, integrations.Grant{ID: id, Enabled: !g.Disabled, Limits: limitsOf(g.UsageLimits, g.RateLimits)})
	}
	return nil
}

// limitsOf returns limits in the form of a request that replaces them.
func limitsOf(usage []settings.Usage, rates []settings.Rate) integrations.Limits {
	return integrations.Limits{UsageLimits: route.Set(inputs(usage)), RateLimits: route.Set(limits.Rates(rates))}
}

func (p *plan) newIntegration(path string, want *settings.Integration) (store.Integration, error) {
	spec, err := credentials.Row("provider", want.Provider, nil)
	if err != nil {
		return store.Integration{}, err
	}
	workspace, err := p.place(path, want.Workspace)
	return store.Integration{
		ID: p.names.integrations[want.Slug], Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug, Provider: spec.ID,
	}, err
}

// setCredentials sets the settings and credentials of row. Secrets that the file leaves
// out are passed as masks, which keep the stored ones.
func (p *plan) setCredentials(path string, want *settings.Integration, row *store.Integration) error {
	masks := row.Configuration.Masks
	options, err := p.revealed(path+".options", masks.Options, want.Options, credentials.Hidden)
	if err != nil {
		return err
	}
	headers, err := p.revealed(path+".custom_headers", masks.Headers, want.Headers, always)
	if err != nil {
		return err
	}
	fields := make(map[string]any)
	for name, v := range options {
		fields[name] = v
	}
	for name, v := range map[string]any{"custom_host": want.CustomHost, "skip_ptu_cost_attribution": want.Reserved,
		"deployment_config": want.Deployed, "custom_headers": headers} {
		if !reflect.ValueOf(v).IsZero() {
			fields[name] = v
		}
	}
	given := credentials.CredentialInput{Path: "options."}
	given.Fields.Set = true
	if err := json.Unmarshal(text(fields), &given.Fields.Value); err != nil {
		return err
	}
	if want.APIKey != "" {
		key, err := p.opened(path+".api_key", want.APIKey, true)
		if err != nil {
			return err
		}
		given.Key = route.Optional[string]{Set: true, Value: key}
	}
	return p.keeper.Apply(p.ctx, row, given)
}

func always(string) bool { return true }

// revealed returns fields with their credentials opened, plus masks for the credentials
// that are not in fields. Hidden reports which fields are credentials.
func (p *plan) revealed(path string, masks, fields map[string]string, hidden func(string) bool) (map[string]string, error) {
	out := maps.Clone(masks)
	for name, v := range fields {
		opened, err := p.opened(path+"."+name, v, hidden(name))
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = opened
	}
	return filled(out), nil
}

// opened returns the value of a field, which is sealed if it is a credential.
func (p *plan) opened(path, v string, credential bool) (string, error) {
	sealed := secret.IsSealed(v)
	if credential != sealed {
		return "", p.file.ErrorAt(path, secretSpellingError(sealed))
	}
	if !sealed {
		return v, nil
	}
	s, err := p.Box.Open(v)
	return s.Reveal(), err
}

// addModels adds to e the models that the file adds, changes and removes.
func (p *plan) addModels(path string, want *settings.Integration, e *integrations.Entry) (err error) {
	row, before := &e.Integration, make(map[string]store.IntegrationModel)
	for _, m := range p.state.models[row.ID] {
		before[m.Slug] = m
	}
	for i := range want.Models {
		v := &want.Models[i]
		m, at := before[v.Slug], fmt.Sprintf("%s.models[%d]", path, i)
		delete(before, v.Slug)
		m.Integration, m.Slug, m.Name, m.Enabled, m.IsCustom, m.IsFinetune = row.ID, v.Slug, v.Name, !v.Disabled, v.Custom, v.Finetune
		m.BaseModel = v.BaseModel
		if m.Pricing, err = integrations.Pricing("pricing_config", json.RawMessage(v.Pricing)); err != nil {
			return p.fault(at, err)
		}
		headers, err := p.revealed(at+".custom_headers", m.Configuration.Masks.Headers, v.Headers, always)
		if err != nil {
			return err
		}
		own := text(map[string]any{"custom_host": v.CustomHost, "custom_headers": headers})
		if err := p.keeper.ApplyModel(p.ctx, row.Organisation, at, &m, own); err != nil {
			return p.fault(at, err)
		}
		e.Models = append(e.Models, m)
	}
	if p.prune && want.Models != nil {
		e.Removed = slices.Collect(maps.Keys(before))
	}
	return nil
}

func (r *reader) integration(i *store.Integration) (v settings.Integration, ok bool, err error) {
	place, ok := r.place(i.Workspace)
	if !ok {
		return v, false, nil
	}
	c := &i.Configuration
	v = settings.Integration{
		Slug: i.Slug, Workspace: place, Name: i.Name, Description: i.Description, Provider: i.Provider,
		CustomHost: c.CustomHost, Options: maps.Clone(c.Options), Reserved: c.Reserved, Pricing: object(i.Pricing), Tags: filled(i.Tags),
		OnlyModels: !i.AllowAllModels, Implicit: i.Implicit,
	}
	for _, d := range c.Deployments {
		v.Deployed = append(v.Deployed, settings.ModelDeployment(d))
	}
	held, err := r.secrets(i.Sealed)
	if err != nil {
		return v, ok, err
	}
	path := "integration " + i.Slug
	if !held.Key.Empty() {
		v.APIKey = r.render(path+" api_key", held.Key)
	}
	v.Options = r.rendered(path+" options", v.Options, held.Options)
	v.Headers = r.rendered(path+" custom_headers", nil, held.Headers)
	if v.SecretMappings, err = r.mappings(i.SecretMappings); err != nil {
		return v, ok, err
	}
	if v.Global, err = global(i); err != nil {
		return v, ok, err
	}
	if v.Models, err = r.models(i); err != nil {
		return v, ok, err
	}
	v.Workspaces, err = r.grants(i)
	return v, ok, err
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
	var list []store.SecretMapping
	err = json.Unmarshal(raw, &list)
	for _, m := range list {
		m.Reference = r.references[m.Reference]
		out = append(out, settings.SecretMapping(m))
	}
	return out, err
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
