package server

import (
	"context"
	"maps"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/dataplane"
	"modelgate/internal/provider"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// newCredentialTester returns what tests the credentials of integrations and virtual keys.
func (s *Server) newCredentialTester() *credentials.Tester {
	return credentials.NewTester(s.tryIntegration)
}

// tryIntegration tries an integration with the target that requests for the model would
// have after it was stored.
func (s *Server) tryIntegration(ctx context.Context, t *credentials.Trial) (*dataplane.ProviderTrialResult, error) {
	row := &t.Integration
	values, err := s.trialSecrets(ctx, t)
	if err != nil {
		return nil, err
	}
	mappings, err := row.Mappings()
	if err != nil {
		return nil, err
	}
	known := integrationSet{secretValues: values, byID: make(map[string]*integration), lending: s.lending()}
	i := known.of(&publication.Integration{Row: *row, Mappings: mappings, Models: t.Models})
	if i.err != nil {
		return nil, apierr.New(apierr.Invalid, "the stored credential cannot be opened; set it again").WithParam("integration").WithCause(i.err)
	}
	if fault := i.gap.fault(row.Slug); fault != nil {
		return nil, fault
	}
	settings := i.settings
	if own, ok := i.rules.Own[t.Model]; ok {
		settings = own
	}
	settings.Slug = row.Slug
	spec, ok := s.holder.Load().Spec(row.Provider)
	if !ok {
		return nil, apierr.New(apierr.Invalid, "the provider %q is unknown", row.Provider).WithParam("ai_provider_id")
	}
	target, err := provider.NewTarget(spec, settings)
	if err != nil {
		return nil, err
	}
	target.Models = i.rules.Models
	return s.requests.TryProvider(ctx, &dataplane.ProviderTrial{Target: target, Identity: t.Identity, Model: t.Model}), nil
}

// trialSecrets returns what opens the secrets of a trial, and the references that it maps,
// which must be available to the workspace of the trial.
func (s *Server) trialSecrets(ctx context.Context, t *credentials.Trial) (v secretValues, err error) {
	o, err := s.store.Organisation(ctx, t.Integration.Organisation)
	if err != nil {
		return v, err
	}
	mappings, err := t.Integration.Mappings()
	if err != nil {
		return v, err
	}
	opens := secretOpener{s.ring, map[string]string{o.ID: o.DataKey}}
	v = secretValues{opens, make(map[string]store.SecretReference), s.secrets, s.uses.begin()}
	for _, m := range mappings {
		ref, err := s.store.SecretReference(ctx, o.ID, m.Reference)
		if err == nil && t.Identity.Workspace != "" && !ref.Allows(t.Identity.Workspace) {
			err = apierr.New(apierr.Forbidden, "a secret reference of the integration is not available to this workspace").
				WithParam("secret_mappings")
		}
		if err != nil {
			return v, err
		}
		v.references[m.Reference] = ref
	}
	var used []secretref.Reference
	for _, id := range slices.Sorted(maps.Keys(v.references)) {
		if r, err := v.reference(v.references[id]); err == nil {
			used = append(used, r)
		}
	}
	s.use(used)
	return v, nil
}
