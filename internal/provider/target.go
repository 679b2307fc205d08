package provider

import (
	"fmt"
	"net/url"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/secret"
)

// Target is a provider with someone's credentials. It is immutable once built
// and safe for concurrent use.
type Target struct {
	*Spec
	Slug string // name of the managed provider; empty when headers gave the credentials

	// Base is the address that paths are appended to.
	Base *url.URL

	// Guarded is true when a client or tenant chose the address, so that it
	// must pass the private-address guard.
	Guarded bool

	Key     secret.String
	Options map[string]string
}

// Settings is what turns a spec into a target. The zero value asks for the
// spec's own address without credentials.
type Settings struct {
	Slug       string
	Key        secret.String
	CustomHost string // replaces the base address as a whole: scheme, host, path prefix
	Options    map[string]string
}

// NewTarget returns a target of spec. A missing option or an address that is
// not an http or https URL is an *apierr.Error of kind Invalid.
func NewTarget(spec *Spec, s Settings) (*Target, error) {
	t := &Target{Spec: spec, Slug: s.Slug, Key: s.Key, Options: s.Options}
	base := spec.BaseURL
	if s.CustomHost != "" {
		base, t.Guarded = s.CustomHost, true
	}
	if base == "" {
		return nil, apierr.New(apierr.Invalid,
			"provider %q has no address of its own; give one in x-gateway-custom-host or custom_host", spec.ID).
			WithParam("custom_host")
	}
	base, err := t.expand(base, "")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, apierr.New(apierr.Invalid,
			"the address of provider %q must be an http or https URL", spec.ID).WithParam("custom_host")
	}
	t.Base = u
	return t, nil
}

// Option returns the value of a setting, or the row's default for it.
func (t *Target) Option(name string) string {
	if v, ok := t.Options[name]; ok {
		return v
	}
	for _, o := range t.Spec.Options {
		if o.Name == name {
			return o.Default
		}
	}
	return ""
}

// expand fills the {placeholders} of s. Option values are escaped as path
// segments, so that they can't change the host or leave their place.
func (t *Target) expand(s, model string) (string, error) {
	if !strings.Contains(s, "{") {
		return s, nil
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("row %s: placeholder without } in %q", t.ID, s)
		}
		value := t.Option(name)
		if name == "model" {
			value = model
		}
		if value == "" {
			return "", apierr.New(apierr.Invalid, "provider %q needs the option %q", t.ID, name).WithParam(name)
		}
		b.WriteString(url.PathEscape(value))
		s = after
	}
}
