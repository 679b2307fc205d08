package credentials

import (
	"context"
	"net/url"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/store"
)

// Error codes of a secret reference used for a provider or host that it does not allow.
const (
	codeHost     = "secret_host_refused"
	codeProvider = "secret_provider_refused"
)

// CheckDestination returns an error if the secret of s may not be sent to t. A
// reference lists the providers and hosts it may be sent to; only a caller who may
// update the reference decides that. Without hosts it may be sent to the providers' own
// addresses that do not contain a customer's account. It is called when a mapping is
// saved and each time its value is used.
func CheckDestination(s store.SecretReference, t *provider.Target) error {
	if len(s.Providers) > 0 && !slices.Contains(s.Providers, t.ID) {
		return apierr.New(apierr.Forbidden,
			"the secret reference %.60q may not be sent to the provider %q; a caller with the scope secret_references.update can list it in allowed_providers", s.Slug, t.ID).
			WithParam("secret_mappings").WithCode(codeProvider)
	}
	for _, address := range t.ServiceAddresses() {
		if u, err := url.Parse(address); err != nil || !egress.Hosts(s.Hosts).Allow(u) {
			return newHostError(s, u)
		}
	}
	if t.OwnAddress() || egress.Hosts(s.Hosts).Allow(t.Base) {
		return nil
	}
	return newHostError(s, t.Base)
}

// Destination returns the target that a provider's settings lead to, without
// credentials.
func Destination(id string, c store.IntegrationSettings) (*provider.Target, error) {
	spec, err := Row("ai_provider_id", id, nil)
	if err != nil {
		return nil, err
	}
	return target(spec, c, store.Secrets{})
}

// CheckMappings returns an error if a reference mapped in i was removed concurrently or
// may not be sent to i's address. It is called in the transaction that stores i.
func CheckMappings(ctx context.Context, q store.Queries, i *store.Integration) error {
	list, err := i.Mappings()
	if err != nil || len(list) == 0 {
		return err
	}
	t, err := Destination(i.Provider, i.Configuration)
	if err != nil {
		return err
	}
	for n, m := range list {
		s, err := q.SecretReference(ctx, i.Organisation, m.Reference)
		if apierr.IsNotFound(err) {
			err = route.Missing("secret_mappings", "secret reference", m.Reference)
		} else if err == nil {
			err = CheckDestination(s, t)
		}
		if err != nil {
			return &MappingError{n, err}
		}
	}
	return nil
}

// MappingError is the error of one of several secret mappings.
type MappingError struct {
	Index int
	Err   error
}

// Error returns the message of the error that e wraps.
func (e *MappingError) Error() string { return e.Err.Error() }

// Unwrap returns the error that e wraps.
func (e *MappingError) Unwrap() error { return e.Err }
