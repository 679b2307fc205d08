package server

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/provider/auth"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/settings"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/upstream"
)

// Time limits for reading external secrets at the start and before publishing a change.
// Values that arrive later are published then.
const (
	startPatience  = 3 * time.Second
	changePatience = 100 * time.Millisecond
)

// openReferences opens the cache of external secrets.
func (s *Server) openReferences(set *settings.Settings) {
	shared := s.upstreamOptions(set)
	s.references = secretref.New(secretref.Options{
		Environment: set.References.Environment, Files: set.References.Files, OwnIdentity: set.References.OwnIdentity,
		Vaults: set.References.Vaults,
		Client: s.engine.Client, CheckHost: s.engine.Client.CheckHost,
		ClientWith: func(roots *x509.CertPool) auth.Doer {
			own := shared
			own.RootCAs = roots
			return upstream.New(own)
		},
	})
	s.renewed = make(chan struct{}, 1)
	s.secrets = secretref.NewCache(s.references, secretref.CacheOptions{
		Age: set.References.Refresh.Or(secretref.DefaultAge), Logger: s.Logger,
		Changed: s.renewSnapshot,
	})
	s.metrics.registerSecrets(s.secrets)
}

// registerSecrets registers the metrics of external secrets.
func (m *metrics) registerSecrets(c *secretref.Cache) {
	m.registry.MustRegister(
		gaugeFunc("modelgate_secrets_stale", "External secrets served with their last value because they cannot be read.",
			func() float64 { return float64(c.Stats().Stale) }),
		gaugeFunc("modelgate_secrets_unresolved", "External secrets without a value; providers that use them are unavailable.",
			func() float64 { return float64(c.Stats().Failed) }),
		counterFunc("modelgate_secret_failures_total", "Failed reads of external secrets.",
			func() float64 { return float64(c.Stats().Failures) }),
	)
}

// renewSnapshot requests a snapshot with the secrets and guardrails as they are now.
func (s *Server) renewSnapshot() {
	select {
	case s.renewed <- struct{}{}:
	default: // already requested
	}
}

// renew publishes external secrets that have changed, and guardrails that were compiled
// late, until ctx ends.
func (s *Server) renew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.renewed:
		}
		if err := s.publish(nil, nil); err != nil {
			s.Logger.Error("rotated secret or compiled guardrail not applied; keeping the previous snapshot", "err", err.Error())
		}
	}
}

// referred returns the references that a state uses.
func (s *Server) referred(p *publication.State) (list []secretref.Reference) {
	open := secretOpener{s.ring, p.DataKeys}
	seen := make(map[string]bool)
	add := func(mappings []store.SecretMapping) {
		for _, m := range mappings {
			ref, ok := p.References[m.Reference]
			if !ok || seen[m.Reference] {
				continue
			}
			seen[m.Reference] = true
			if r, err := open.reference(ref); err == nil {
				list = append(list, r)
			}
		}
	}
	for i := range p.Providers {
		add(p.Providers[i].Integration.Mappings)
	}
	for i := range p.GuardrailCredentials {
		add(p.GuardrailCredentials[i].Mappings)
	}
	return list
}

// reference opens the credentials of a reference.
func (o secretOpener) reference(s store.SecretReference) (secretref.Reference, error) {
	var opened secret.String
	if s.Sealed != "" {
		var err error
		if opened, err = o.ring.OpenWith(s.Organisation, o.keys[s.Organisation], s.Sealed); err != nil {
			return secretref.Reference{}, err
		}
	}
	return credentials.Reference(s, opened)
}

// use starts reading the references that are new in a state, and waits a little for
// them.
func (s *Server) use(list []secretref.Reference) {
	patience := changePatience
	if s.holder.Load() == nil {
		patience = startPatience
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.secrets.Add(ctx, list)
}

// secretValues are the values of the references of one state.
type secretValues struct {
	secretOpener
	references map[string]store.SecretReference
	values     *secretref.Cache
	uses       *usePass
}

// missingSecret is a mapped field without a value, and the reason.
type missingSecret struct {
	target    string // the mapped field
	reference string // slug of the reference, which users of the provider must not learn
	err       error
}

// fill sets the mapped fields of an integration. It returns the first missing value, or
// nil.
func (m secretValues) fill(i *publication.Integration, into *store.Secrets) *missingSecret {
	if len(i.Mappings) == 0 {
		return nil
	}
	to, err := credentials.Destination(i.Row.Provider, i.Row.Configuration)
	if err != nil {
		return &missingSecret{i.Mappings[0].Target, i.Mappings[0].Reference, err}
	}
	user := secretUser{i.Row.Provider, i.Row.Workspace}
	for _, mapping := range i.Mappings {
		s, ok := m.references[mapping.Reference]
		if !ok || s.Organisation != i.Row.Organisation {
			return &missingSecret{mapping.Target, mapping.Reference, apierr.New(apierr.Unavailable, "it no longer exists")}
		}
		use := secretUse{s.ID, i.Row.ID, mapping.Target, to.Base.Host}
		if err := credentials.CheckDestination(s, to); err != nil {
			m.uses.note(s, user, use, secret.String{}, err)
			return &missingSecret{mapping.Target, s.Slug, err}
		}
		ref, err := m.reference(s)
		if err != nil {
			return &missingSecret{mapping.Target, s.Slug,
				apierr.New(apierr.Unavailable, "its own credential cannot be opened; set it again").WithCause(err)}
		}
		ref.Key, ref.Format = cmp.Or(mapping.Key, ref.Key), mapping.Format
		v, err := m.values.Value(ref)
		if err == nil {
			err = credentials.Fill(into, i.Row.Provider, mapping.Target, v)
		}
		m.uses.note(s, user, use, v, err)
		if err != nil {
			return &missingSecret{mapping.Target, s.Slug, err}
		}
	}
	return nil
}

// closed returns a missing value if the provider's workspace may not use a reference,
// otherwise nil. Other workspaces with the same integration may.
func (m secretValues) closed(p *publication.Provider) *missingSecret {
	for _, mapping := range p.Integration.Mappings {
		if s, ok := m.references[mapping.Reference]; ok && !s.Allows(p.Row.Workspace) {
			return &missingSecret{mapping.Target, s.Slug, apierr.New(apierr.Forbidden, "it is not available to this workspace")}
		}
	}
	return nil
}

// fault returns the error for users of a managed provider with a missing value, nil for
// none.
func (g *missingSecret) fault(slug string) *apierr.Error {
	if g == nil {
		return nil
	}
	e := apierr.From(g.err)
	return apierr.New(apierr.Unavailable, "the provider @%s cannot be used because the secret reference of %.60s has no value: %s", slug, g.target, e.Message).
		WithParam("x-gateway-provider").WithCode(cmp.Or(e.Code, "secret_unavailable")).WithCause(fmt.Errorf("secret reference %s: %w",
		g.reference, g.err))
}
