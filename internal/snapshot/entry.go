package snapshot

import (
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/provider"
)

// ManagedProvider is a provider entry with stored credentials, used as @slug in its
// workspace.
type ManagedProvider struct {
	Workspace string // id
	Slug      string
	Provider  string // id of a row
	Settings  provider.Settings
	// Models are what GET /v1/models lists for it. Nil asks the provider.
	Models []string
	// Rules say what holds for single models. Nil says nothing. Entries of one
	// integration share theirs.
	Rules *ModelRules

	// ExpiresAt ends the entry. Zero means never.
	ExpiresAt time.Time

	// Stored entries are the database's. Such an entry that can't be used does
	// not are in the way of the others: only its users get the error. Where a slug
	// is given twice, the entry that is not stored counts.
	Stored bool
	// Fault is why a stored entry can't be used. Nil means that it can.
	Fault *apierr.Error
}

// ModelRules are what entries have for single models, by the name that requests use.
type ModelRules struct {
	// Models are those that requests may name. Nil allows every model.
	Models *provider.ModelList
	// Own are settings instead of the entry's.
	Own map[string]provider.Settings
}

// ErrExpired is the fault of an entry whose time is over.
var ErrExpired = apierr.New(apierr.BudgetExhausted, "this provider has expired; set a later expires_at or use another provider").
	WithParam("x-gateway-provider").WithCode("provider_expired")

// ProviderEntry is a managed provider of a snapshot.
type ProviderEntry struct {
	// Target is nil for an entry that is not [ProviderEntry.CheckUsable]. Requests for one
	// model may have another: see [ProviderEntry.TargetFor].
	Target   *provider.Target
	Provider string // id of its row

	models  []string
	listed  bool
	own     map[string]variant
	expires time.Time
	fault   *apierr.Error
}

// CheckUsable returns why requests can't use the entry at now, or nil.
func (e *ProviderEntry) CheckUsable(now time.Time) error {
	if e.fault != nil {
		return e.fault
	}
	if !e.expires.IsZero() && !now.Before(e.expires) {
		return ErrExpired
	}
	return nil
}

// Models returns the models that are listed for the entry, and false where the
// provider itself is to be asked.
func (e *ProviderEntry) Models() ([]string, bool) { return e.models, e.listed }

// TargetFor returns the target of requests for model. The entry has to be usable.
func (e *ProviderEntry) TargetFor(model string) (*provider.Target, error) {
	v, ok := e.own[model]
	switch {
	case !ok:
		return e.Target, nil
	case v.err != nil:
		return nil, broken(e.Target.Slug, v.err)
	}
	t := *v.target
	t.Slug = e.Target.Slug
	return &t, nil
}

// variant is a target that entries share, without their slug, or why there is
// none.
type variant struct {
	target *provider.Target
	err    error
}

func (s *Snapshot) addManaged(m ManagedProvider) error {
	at := scopedName{m.Workspace, m.Slug}
	if _, taken := s.entries[at]; taken {
		if m.Stored {
			return nil
		}
		return apierr.New(apierr.Conflict, "two provider entries have the slug %q", m.Slug).WithParam("slug")
	}
	e := &ProviderEntry{Provider: m.Provider, models: m.Models, listed: m.Models != nil, expires: m.ExpiresAt, fault: m.Fault}
	if e.fault == nil {
		if err := s.newTarget(e, m); err != nil && !m.Stored {
			return err
		} else if err != nil {
			e.fault = broken(m.Slug, err)
		}
	}
	s.entries[at] = e
	s.slugs[m.Workspace] = append(s.slugs[m.Workspace], m.Slug)
	return nil
}

// newTarget makes the target of an entry.
func (s *Snapshot) newTarget(e *ProviderEntry, m ManagedProvider) error {
	spec, ok := s.specs[m.Provider]
	if !ok {
		return apierr.New(apierr.Invalid, "provider %q of entry %q is not in the table; `modelgate providers` lists them", m.Provider, m.Slug).WithParam("provider")
	}
	settings := m.Settings
	settings.Slug = m.Slug
	t, err := provider.NewTarget(spec, settings)
	if err != nil {
		return err
	}
	e.Target, e.Provider = t.Prepare(), spec.ID
	if m.Rules != nil {
		t.Models = m.Rules.Models
	}
	e.own = s.variants(spec, m.Rules)
	return nil
}

// variants returns the targets that rules make of a row, which are made once.
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

// broken is what users of a stored entry are told of a fault.
func broken(slug string, err error) *apierr.Error {
	return apierr.New(apierr.Invalid, "the provider entry @%s can't be used: %s", slug, apierr.From(err).Message).
		WithParam("x-gateway-provider").WithCode("provider_unusable").WithCause(err)
}

// Managed returns the managed provider of a workspace with this slug, written
// without @.
func (s *Snapshot) Managed(workspace, slug string) (*ProviderEntry, bool) {
	e, ok := s.entries[scopedName{workspace, slug}]
	return e, ok
}

// Slugs returns the slugs of a workspace's managed providers in the order they
// were given. The slice is shared.
func (s *Snapshot) Slugs(workspace string) []string { return s.slugs[workspace] }

// Providers returns the number of managed providers of all workspaces.
func (s *Snapshot) Providers() int { return len(s.entries) }
