package provider

import (
	"net/url"

	"modelgate/internal/base/apierr"
)

// ServiceHost is the service of every provider at the host of its own address, without its
// path.
const ServiceHost = "host"

// At returns the target at another address of the provider, by the name of a service: its
// administration, for example. An empty name returns t. The credential is the same, so a
// custom host has no other services than ServiceHost.
func (t *Target) At(service string) (*Target, error) {
	if service == "" {
		return t, nil
	}
	other := *t
	other.urls = nil
	if service == ServiceHost {
		other.Base = &url.URL{Scheme: t.Base.Scheme, Host: t.Base.Host}
		return &other, nil
	}
	address, ok := t.Services[service]
	if !ok || t.Guarded {
		return nil, apierr.New(apierr.Unsupported, "provider %s has no address for the service %q; a custom host has only its own",
			t.Label(), service)
	}
	base, err := other.expandBase(address)
	if err != nil {
		return nil, err
	}
	other.Base, err = url.Parse(base)
	return &other, err
}
