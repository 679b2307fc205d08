package snapshot

import (
	"maps"
	"slices"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/provider"
	"modelgate/internal/provider/health"
)

// ManagedProvider is a provider with stored credentials, named by @slug in its
// workspace. Input has everything but the target, which [Build] adds.
type ManagedProvider struct {
	Workspace string // id
	Slug      string
	Provider  string // id of a provider definition; in an input also an alias
	Settings  provider.Settings
	// Models are the models that GET /v1/models lists for it. Nil asks the provider.
	Models []string
	// Rules are the rules for single models. Nil has none. Providers of one integration
	// share them.
	Rules *ModelRules

	// Limits are the limits of the provider and of its integration in the
	// workspace.
	Limits []*quota.Limit

	// ExpiresAt is when the provider expires. Zero means never.
	ExpiresAt time.Time

	// Stored providers are from the database. One that cannot be used does not affect
	// others: only its users get the error. If a slug is duplicated, the provider that
	// is not stored is used.
	Stored bool
	// Fault is why a stored provider cannot be used. Nil means that it can.
	Fault *apierr.Error

	// Target is nil if [ManagedProvider.CheckUsable] returns an error. Requests for a
	// model may have another target; see [ManagedProvider.TargetFor].
	Target *provider.Target
	own    map[string]variant
}

// ModelRules are rules for single models, by their name in requests.
type ModelRules struct {
	// Models are the models that requests may name. Nil allows all.
	Models *provider.ModelList
	// Own are settings that replace the provider's for a model.
	Own map[string]provider.Settings
}

// ErrExpired is the fault of an expired provider.
var ErrExpired = apierr.New(apierr.BudgetExhausted, "this provider has expired; set a later expires_at or use another provider").
	WithParam("x-gateway-provider").WithCode("provider_expired")

// CheckUsable returns an error if requests cannot use the provider at now.
func (m *ManagedProvider) CheckUsable(now time.Time) error {
	if m.Fault != nil {
		return m.Fault
	}
	if !m.ExpiresAt.IsZero() && !now.Before(m.ExpiresAt) {
		return ErrExpired
	}
	return nil
}

// ProviderIDs returns the ids of the providers that managed providers use.
func (s *Snapshot) ProviderIDs() []string {
	ids := make(map[string]bool)
	for _, e := range s.managed {
		ids[e.Provider] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// TargetFor returns the target of requests for model. The provider must be usable.
func (m *ManagedProvider) TargetFor(model string) (*provider.Target, error) {
	v, ok := m.own[model]
	switch {
	case !ok:
		return m.Target, nil
	case v.err != nil:
		return nil, broken(m.Slug, v.err)
	}
	t := *v.target
	t.Slug, t.Quota, t.Health = m.Target.Slug, m.Target.Quota, m.Target.Health
	return &t, nil
}

// variant is a target that providers share, without their slug, or an error.
type variant struct {
	target *provider.Target
	err    error
}

// HasProviderBudgets reports whether a managed provider of a workspace has a budget.
func (s *Snapshot) HasProviderBudgets(workspace string) bool {
	for at, m := range s.managed {
		if at.workspace == workspace && quota.HasBudget(m.Limits) {
			return true
		}
	}
	return false
}

func (s *Snapshot) addManaged(m ManagedProvider) error {
	at := scopedName{m.Workspace, m.Slug}
	if _, taken := s.managed[at]; taken {
		if m.Stored {
			return nil
		}
		return apierr.New(apierr.Conflict, "two providers have the slug %q", m.Slug).WithParam("slug")
	}
	if m.Fault == nil {
		if err := s.addTarget(&m); err != nil && !m.Stored {
			return err
		} else if err != nil {
			m.Fault = broken(m.Slug, err)
		}
	}
	s.managed[at] = &m
	s.slugs[m.Workspace] = append(s.slugs[m.Workspace], m.Slug)
	return nil
}

// addTarget creates the target of a managed provider.
func (s *Snapshot) addTarget(m *ManagedProvider) error {
	spec, ok := s.specs[m.Provider]
	if !ok {
		return apierr.New(apierr.Invalid, "provider %q of %q is unknown; `modelgate providers` lists the known ones", m.Provider,
			m.Slug).WithParam("provider")
	}
	settings := m.Settings
	settings.Slug = m.Slug
	t, err := provider.NewTarget(spec, settings)
	if err != nil {
		return err
	}
	m.Target, m.Provider = t.Prepare(), spec.ID
	t.Quota = m.Limits
	t.Health = s.health.Of(health.Key{Workspace: m.Workspace, Slug: m.Slug, Provider: spec.ID})
	if m.Rules != nil {
		t.Models = m.Rules.Models
	}
	m.own = s.variants(spec, m.Rules)
	if _, asked := spec.Paths[api.Models]; !asked && m.Models == nil {
		m.Models = s.listed[spec.ID]
	}
	return nil
}

// variants returns the targets by model for a provider definition and rules. They are
// created once.
func (s *Snapshot) variants(spec *provider.Spec, r *ModelRules) map[string]variant {
	if r == nil || len(r.Own) == 0 {
		return nil
	}
	if made, ok := s.made[r]; ok {
		return made
	}
	made := make(map[string]variant, len(r.Own))
	for model, settings := range r.Own {
		t, err := provider.NewTarget(spec, settings)
		if err == nil {
			t.Prepare().Models = r.Models
		}
		made[model] = variant{t, err}
	}
	s.made[r] = made
	return made
}

// broken returns the error for users of a stored provider with a fault.
func broken(slug string, err error) *apierr.Error {
	return apierr.New(apierr.Invalid, "the provider @%s cannot be used: %s", slug, apierr.From(err).Message).
		WithParam("x-gateway-provider").WithCode("provider_unusable").WithCause(err)
}

// Managed returns the managed provider of a workspace with this slug, written
// without @.
func (s *Snapshot) Managed(workspace, slug string) (*ManagedProvider, bool) {
	m, ok := s.managed[scopedName{workspace, slug}]
	return m, ok
}

// Slugs returns the slugs of a workspace's managed providers in their original order.
// The slice is shared.
func (s *Snapshot) Slugs(workspace string) []string { return s.slugs[workspace] }

// UsesHealth reports whether a managed provider has the memory of this key.
func (s *Snapshot) UsesHealth(k health.Key) bool {
	m, ok := s.managed[scopedName{k.Workspace, k.Slug}]
	return ok && m.Provider == k.Provider
}

// Providers returns the number of managed providers of all workspaces.
func (s *Snapshot) Providers() int { return len(s.managed) }
