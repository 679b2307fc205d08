package provider

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"modelgate/api"
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

	// urls and credential are what is the same for every call; see Prepare.
	urls       map[api.Operation]*url.URL
	credential []string
}

// Prepare computes once what is the same for every call of a target that
// serves many, and returns t. It is for the target's maker, before t is shared.
func (t *Target) Prepare() *Target {
	t.credential = t.Auth.value(t.Key)
	if t.Spec.URL != nil || t.Auth.Query != "" || t.Auth.Sign != nil {
		return t // these change the address of each call
	}
	t.urls = make(map[api.Operation]*url.URL, len(t.Paths))
	for op, path := range t.Paths {
		if strings.Contains(path, "{") {
			continue
		}
		if u, err := t.join(path, ""); err == nil {
			t.urls[op] = u
		}
	}
	return t
}

// With returns the same target for another credential and other options.
func (t *Target) With(key secret.String, options map[string]string) *Target {
	other := *t
	other.Key, other.Options, other.credential = key, options, nil
	return &other
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
	if !t.Guarded {
		var err error
		if base, err = t.expandBase(base); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, apierr.New(apierr.Invalid,
			"the address of provider %q must be an http or https URL", spec.ID).WithParam("custom_host")
	}
	t.Base = u
	return t, nil
}

// Option returns the value of a setting, or the row's default for it. A
// setting may also stand under its name in config objects, which begins with
// the row's OptionPrefix.
func (t *Target) Option(name string) string {
	if v, ok := t.Options[name]; ok {
		return v
	}
	if t.OptionPrefix != "" {
		if v, ok := t.Options[t.OptionPrefix+name]; ok {
			return v
		}
	}
	for _, o := range t.Spec.Options {
		if o.Name == name {
			return o.Default
		}
	}
	return ""
}

// hostOption is what an option may be that stands in an address: nothing that
// could end the host name or begin another.
var hostOption = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// expandBase fills the placeholders of a base address.
func (t *Target) expandBase(s string) (string, error) {
	return t.fill(s, func(name string) (string, error) {
		v := t.Option(name)
		if v != "" && !hostOption.MatchString(v) {
			return "", apierr.New(apierr.Invalid, "the option %q of provider %q takes letters, digits, dots, dashes and underscores", name, t.ID).WithParam(name)
		}
		return v, nil
	})
}

// expandPath fills the placeholders of a path. Values are escaped, so that
// they stay in their segment.
func (t *Target) expandPath(s, model string) (string, error) {
	return t.fill(s, func(name string) (string, error) {
		v := model
		if name != "model" {
			v = t.Option(name)
		}
		if v == "." || v == ".." {
			return "", apierr.New(apierr.Invalid, "%q is no %s", v, name).WithParam(name)
		}
		return url.PathEscape(v), nil
	})
}

// fill replaces each {placeholder} of s by its value.
func (t *Target) fill(s string, value func(name string) (string, error)) (string, error) {
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
		v, err := value(name)
		if err != nil {
			return "", err
		}
		if v == "" {
			return "", apierr.New(apierr.Invalid, "provider %q needs the option %q", t.ID, name).WithParam(name)
		}
		b.WriteString(v)
		s = after
	}
}
