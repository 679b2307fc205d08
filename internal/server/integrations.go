package server

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// addStored adds stored objects to the input of a snapshot. A managed provider that
// cannot be used is added with its fault, which its users receive, so that everything
// else is still published.
func (s *Server) addStored(in *snapshot.Input, p *publication.State) {
	if s.Off[route.UsageLimits] {
		p = unlimited(p)
	}
	in.Revision, in.Deployment = p.Revision, s.deploymentLimits(p)
	in.Keys = append(in.Keys, p.Identities...)
	in.Prompts, in.Partials, in.SavedOnly, in.Egress, in.Limits, in.Exhausted = p.Prompts, p.Partials,
		p.SavedOnly, p.Egress, p.Limits, p.Exhausted
	if !s.Off[route.UsageLimits] && !s.Off[route.Policies] {
		s.policies = policy.Compile(p.Policies, s.policies)
		in.Policies = s.policies
	}
	in.Users = p.Users
	in.Tokens = s.issuers.Tokens(p.Issuers)
	opens := secretOpener{s.ring, p.DataKeys}
	for i := range p.Configs {
		in.Configs = append(in.Configs, opens.config(&p.Configs[i]))
	}
	known := integrationSet{secretValues: secretValues{opens, p.References, s.secrets, s.uses.begin()},
		byID: make(map[string]*integration), lending: s.lending()}
	for i := range p.Providers {
		in.Providers = append(in.Providers, known.entry(&p.Providers[i]))
	}
	in.Partners = s.openPartners(known.secretValues, p.GuardrailCredentials)
	in.Workloads = s.openWorkloads(opens, p.Workloads)
	in.ToolServers, in.ToolBundles, in.WorkspaceTools = s.openToolServers(opens, p.ToolServers), toolBundles(p.ToolBundles), p.Tools
	in.Grants = s.openGrants(opens, p.Grants)
	known.uses.end()
}

// lending returns how far stored providers may use the identity of the gateway's machine.
func (s *Server) lending() provider.MachineIdentity {
	if s.first.References.OwnIdentity {
		return provider.MachineIdentityCloudHosts
	}
	return provider.MachineIdentityNone
}

// integrationSet are the opened integrations of one state.
type integrationSet struct {
	secretValues
	byID    map[string]*integration
	lending provider.MachineIdentity
}

// integration is the part that managed providers of one integration share.
type integration struct {
	settings provider.Settings
	rules    *snapshot.ModelRules
	err      error          // opening its credentials failed
	gap      *missingSecret // a field without a value; nil for none
}

// entry returns a managed provider, with its fault if it cannot be used.
func (k integrationSet) entry(p *publication.Provider) snapshot.ManagedProvider {
	slug := p.Row.Slug
	m := snapshot.ManagedProvider{Workspace: p.Row.Workspace, Slug: slug, Provider: p.Integration.Row.Provider,
		ExpiresAt: p.Row.ExpiresAt, Limits: p.Limits, Stored: true}
	if m.Fault = providerFault(p); m.Fault != nil {
		return m
	}
	if m.Fault = k.closed(p).fault(slug); m.Fault != nil {
		return m
	}
	i := k.of(p.Integration)
	if i.err != nil {
		m.Fault = apierr.New(apierr.Invalid, "the provider @%s cannot be used because its credential cannot be opened; set it again in its integration", slug).
			WithParam("x-gateway-provider").WithCode("provider_unusable").WithCause(i.err)
		return m
	}
	if m.Fault = i.gap.fault(slug); m.Fault != nil {
		return m
	}
	m.Settings, m.Rules = i.settings, i.rules
	if !p.Integration.Row.AllowAllModels {
		m.Models = listed(p.Integration.Models, true)
	}
	return m
}

// listed returns the models that are enabled, or those that are not.
func listed(models []store.IntegrationModel, enabled bool) []string {
	list := []string{}
	for _, m := range models {
		if m.Enabled == enabled {
			list = append(list, m.Slug)
		}
	}
	return list
}

// of returns an integration with its credentials, which are opened once.
func (k integrationSet) of(p *publication.Integration) *integration {
	i, ok := k.byID[p.Row.ID]
	if ok {
		return i
	}
	i = new(integration)
	k.byID[p.Row.ID] = i
	if k.lending == provider.MachineIdentityCloudHosts && p.Row.Workspace != "" {
		k.lending = provider.LendOwn
	}
	opened, err := k.secrets(p.Row.Organisation, p.Row.Sealed)
	if err != nil {
		i.err = err
		return i
	}
	if i.gap = k.fill(p, &opened); i.gap != nil {
		return i
	}
	c := &p.Row.Configuration
	i.settings = k.settingsFor(c, opened, "")
	i.rules = &snapshot.ModelRules{Own: make(map[string]provider.Settings)}
	for _, d := range c.Deployments {
		for _, name := range [...]string{d.Alias, d.Model} {
			if name != "" {
				i.rules.Own[name] = k.settingsFor(c, opened, name)
			}
		}
	}
	for _, model := range p.Models {
		if err := k.model(p, i, opened, model); err != nil {
			i.err = err
			return i
		}
	}
	i.rules.Models = provider.NewModelList(p.Row.AllowAllModels, modelNames(p, true), modelNames(p, false))
	i.setPricing(pricingOf(p))
	return i
}

// settingsFor returns the provider settings for requests for model; the empty model has
// the settings of all models without their own.
func (k integrationSet) settingsFor(c *store.IntegrationSettings, opened store.Secrets, model string) provider.Settings {
	s := provider.Settings{Key: opened.Key, CustomHost: c.CustomHost, Options: c.TargetOptions(opened, model),
		Headers: opened.Headers, Lending: k.lending}
	if d, ok := c.Deployment(model); ok {
		s.BaseModel = d.Model
	}
	return s
}

// model adds the settings of one model.
func (k integrationSet) model(p *publication.Integration, i *integration, opened store.Secrets, m store.IntegrationModel) error {
	host := m.Configuration.CustomHost
	if m.BaseModel == "" && host == "" && m.Sealed == "" {
		return nil
	}
	own, err := k.secrets(p.Row.Organisation, m.Sealed)
	if err != nil {
		return err
	}
	s := k.settingsFor(&p.Row.Configuration, opened, m.Slug)
	s.BaseModel = cmp.Or(m.BaseModel, s.BaseModel)
	if host != "" && isOtherHost(p.Row.Provider, s, host) {
		// The integration's credentials belong to its own address.
		s = provider.Settings{Options: p.Row.Configuration.TargetOptions(store.Secrets{}, m.Slug), BaseModel: s.BaseModel, NoAuth: true}
	}
	s.CustomHost = cmp.Or(host, s.CustomHost)
	if len(own.Headers) > 0 {
		s.Headers = maps.Clone(s.Headers)
		if s.Headers == nil {
			s.Headers = make(map[string]secret.String, len(own.Headers))
		}
		for name, v := range own.Headers {
			maps.DeleteFunc(s.Headers, func(other string, _ secret.String) bool { return strings.EqualFold(other, name) })
			s.Headers[name] = v
		}
	}
	i.rules.Own[m.Slug] = s
	return nil
}

// isOtherHost reports whether an address has another host than the settings.
func isOtherHost(id string, s provider.Settings, address string) bool {
	spec, ok := table.Lookup(id)
	if !ok {
		return true
	}
	from, err := provider.NewTarget(spec, s)
	to, err2 := url.Parse(address)
	return err != nil || err2 != nil || from.Base.Scheme != to.Scheme || from.Base.Host != to.Host
}

// modelNames returns the requested names of models that are enabled, or of those that
// are not: their slugs, and aliases of their deployments.
func modelNames(p *publication.Integration, enabled bool) []string {
	models := listed(p.Models, enabled)
	list := slices.Clip(models)
	for _, d := range p.Row.Configuration.Deployments {
		if d.Alias != "" && slices.Contains(models, d.Model) {
			list = append(list, d.Alias)
		}
	}
	return list
}

// providerFault returns why a managed provider cannot be used according to its row.
func providerFault(p *publication.Provider) *apierr.Error {
	switch {
	case p.Withdrawn:
		return apierr.New(apierr.Forbidden, "this workspace no longer has the integration of the provider @%s", p.Row.Slug).
			WithParam("x-gateway-provider").WithCode("provider_withdrawn")
	case p.Row.Status == store.Exhausted:
		terms := ""
		if l := quota.FindBudget(p.Limits, "provider"); l != nil {
			terms = ": " + l.Terms()
		}
		return apierr.New(apierr.BudgetExhausted, "the budget of the provider @%s is exhausted%s; raise it or wait for the next reset", p.Row.Slug, terms).
			WithParam("x-gateway-provider").WithCode("provider_exhausted").WithCause(&quota.Exhausted{Target: p.Limits})
	case p.Row.Status == store.Expired:
		return snapshot.ErrExpired
	}
	return nil
}

// secretOpener opens the stored credentials of one state.
type secretOpener struct {
	ring *datakey.Keyring
	keys map[string]string // wrapped, by organisation
}

func (o secretOpener) secrets(organisation, sealed string) (store.Secrets, error) {
	if sealed == "" {
		return store.Secrets{}, nil
	}
	opened, err := o.ring.OpenWith(organisation, o.keys[organisation], sealed)
	if err != nil {
		return store.Secrets{}, err
	}
	return store.ParseSecrets(opened)
}
