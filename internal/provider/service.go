package provider

import (
	"net/url"
	"slices"

	"modelgate/internal/base/apierr"
)

// Service is another address of a provider, to which its credential belongs too.
type Service struct {
	Address string // with {option} placeholders

	// Option names the option with an address to use instead, such as a private endpoint.
	// It is required behind a custom host. Empty means that there is none.
	Option string

	// Bucket is true if the service stores files. Headers that are set for model requests
	// are not sent to it.
	Bucket bool

	// Signed is the name of the service in signatures, if it is not that of the provider.
	Signed string
}

// ServiceHost is the service of every provider at the host of its own address, without its
// path.
const ServiceHost = "host"

// At returns the target at another address of the provider, by the name of a service: its
// administration, for example. An empty name returns t. The credential is the same, so a
// custom host has no other services than ServiceHost and those whose address is set.
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
	s, ok := t.Services[service]
	address := t.serviceAddress(&s)
	if !ok || t.Guarded && address == "" {
		return nil, t.noService(service, s.Option)
	}
	other.Spec = t.Spec.at(&s)
	if s.Bucket {
		other.Headers = nil
	}
	var err error
	if address != "" {
		other.Guarded = true
		other.Base, err = parseAddress(address, s.Option)
		return &other, err
	}
	base, err := other.expandBase(s.Address)
	if err != nil {
		return nil, err
	}
	other.Base, err = url.Parse(base)
	return &other, err
}

func (t *Target) noService(service, option string) error {
	if option == "" {
		return apierr.New(apierr.Unsupported, "provider %s has no address for the service %q; a custom host has only its own",
			t.Label(), service)
	}
	return apierr.New(apierr.Unsupported, "provider %s has a custom host, which is not the address of the service %q; set the option %s",
		t.Label(), service, option).WithParam(option)
}

// at returns the spec of requests to a service.
func (s *Spec) at(to *Service) *Spec {
	own := *s
	own.URL = nil // it changes the address of models
	if to.Signed != "" {
		own.Auth.Service = to.Signed
	}
	if !to.Bucket {
		return &own
	}
	own.Header, own.Options = nil, slices.Clone(s.Options)
	for i := range own.Options {
		own.Options[i].Header = ""
	}
	return &own
}

// serviceAddress returns the address of a service that an option sets, empty if none does.
func (t *Target) serviceAddress(s *Service) string {
	if s.Option == "" {
		return ""
	}
	return t.Option(s.Option)
}

// ServiceAddresses returns the addresses of services that options set, by the names of the
// options. They must pass the address guard as custom hosts do.
func (t *Target) ServiceAddresses() map[string]string {
	var all map[string]string
	for _, s := range t.Services {
		if address := t.serviceAddress(&s); address != "" {
			if all == nil {
				all = make(map[string]string)
			}
			all[s.Option] = address
		}
	}
	return all
}

// checkServices returns an error for an address of a service that is not one.
func (t *Target) checkServices() error {
	for option, address := range t.ServiceAddresses() {
		if _, err := parseAddress(address, option); err != nil {
			return err
		}
	}
	return nil
}

// parseAddress parses the address of a service in an option.
func parseAddress(address, option string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, apierr.New(apierr.Invalid, "the option %q must be an http or https URL without a query", option).WithParam(option)
	}
	if u.Path == "/" {
		u.Path = ""
	}
	return u, nil
}
