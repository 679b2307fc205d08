package provider

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/dialect"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider/health"
)

// Target is a provider with credentials. It is immutable once built and safe
// for concurrent use.
type Target struct {
	*Spec
	Slug string // name of the managed provider; empty if headers set the credentials

	// Base is the address that paths are appended to.
	Base *url.URL

	// Guarded is true if a client or tenant chose the address, so that it must
	// pass the address guard.
	Guarded bool

	// Surplus is what was left out of the address; see [Spec.WithoutSurplus].
	Surplus string

	// account is true if an option sets the account in the address.
	account bool

	Lending MachineIdentity // see Settings

	Key     secret.String
	Options map[string]string

	// Headers are sent with each request and override the client's, except for
	// the header of the credential. Names are in canonical form.
	Headers map[string]secret.String

	// BaseModel is the model that the target's models derive from, for example
	// by fine-tuning: they have its dialects, quirks and prices. Empty means
	// that each model has its own.
	BaseModel string

	// Pricing holds negotiated prices. Nil means those of the price book.
	Pricing *catalog.NegotiatedPricing

	// Models lists the models that requests may name. Nil allows every model.
	Models *ModelList

	// Quota are the limits of what all requests to the managed provider use. The slice is
	// shared.
	Quota  []*quota.Limit
	Health *health.Recent // of the managed provider, to which attempts are added; may be nil

	// urls and credential are the same for every call; see Prepare.
	urls       map[api.Operation]*url.URL
	credential []string
}

// PathsNameModels reports whether the provider takes the model of a request
// from its path, so that a model in the body may be ignored.
func (s *Spec) PathsNameModels() bool {
	if s.PathModels {
		return true
	}
	for _, path := range s.Paths {
		if strings.Contains(path, "{model}") {
			return true
		}
	}
	return false
}

// Prepare computes what is the same for every call of a target that serves
// many, and returns t. It must be called before t is shared.
func (t *Target) Prepare() *Target {
	t.credential = t.Auth.value(t.Key)
	if t.Spec.URL != nil || t.PathOf != nil || t.Auth.Query != "" || t.Auth.Sign != nil {
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

// With returns a copy of the target with another credential and other options.
func (t *Target) With(key secret.String, options map[string]string) *Target {
	other := *t
	other.Key, other.Options, other.credential = key, options, nil
	return &other
}

// MachineIdentity says how far a managed provider may use the identity of the
// gateway's machine. A target without a slug may not use it.
type MachineIdentity uint8

// Levels. Providers in the settings file belong to the operator and have the
// first. Providers stored through the API cannot send tokens of the machine to
// a host of their choice. Those of a workspace cannot send them to an account
// of their choice either, which only the organisation may choose.
const (
	MachineIdentityAll        MachineIdentity = iota // everywhere
	MachineIdentityCloudHosts                        // to addresses of the cloud only
	LendOwn                                          // only to those that do not contain an account
	MachineIdentityNone                              // nowhere
)

// Settings turns a spec into a target. The zero value means the spec's own
// address without credentials.
type Settings struct {
	Slug       string
	Key        secret.String
	CustomHost string // replaces the complete base address: scheme, host, path prefix
	Options    map[string]string
	Headers    map[string]secret.String   // sent with each request: see Target
	BaseModel  string                     // see Target
	Terms      *catalog.NegotiatedPricing // see Target

	// Lending says how far the target may use the identity of the gateway's
	// machine.
	Lending MachineIdentity

	// NoAuth sends no credential of any kind, neither signatures nor the
	// machine's identity: the address is not the one that they belong to.
	NoAuth bool
}

// NewTarget returns a target of spec. If an option is missing or an address is
// not an http or https URL, it returns an *apierr.Error of kind Invalid.
func NewTarget(spec *Spec, s Settings) (*Target, error) {
	if spec.Complete != nil {
		own := *spec
		s.Options = maps.Clone(s.Options)
		if err := spec.Complete(&own, &s); err != nil {
			return nil, err
		}
		spec = &own
	}
	t := &Target{Spec: spec, Slug: s.Slug, Key: s.Key, Options: s.Options, Headers: canonical(s.Headers), BaseModel: s.BaseModel,
		Pricing: s.Terms, Lending: s.Lending}
	base := spec.BaseURL
	if s.CustomHost != "" {
		base, t.Guarded = s.CustomHost, true
	}
	if base == "" {
		return nil, apierr.New(apierr.Invalid,
			"provider %q has no built-in address; set x-gateway-custom-host or custom_host", spec.ID).
			WithParam("custom_host")
	}
	if t.Guarded {
		t.Spec = t.Spec.withCustomHost()
	} else {
		var err error
		t.account = t.namesAccount(base)
		if base, err = t.expandBase(base); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, apierr.New(apierr.Invalid,
			"the address of provider %q must be an http or https URL", spec.ID).WithParam("custom_host")
	}
	if t.Base = u; t.Guarded {
		if rest, surplus := t.Spec.WithoutSurplus(u.Path); surplus != "" {
			u.Path, u.RawPath, t.Surplus = rest, "", surplus
		}
	}
	if s.NoAuth {
		bare := *t.Spec
		bare.Auth = Auth{}
		t.Spec, t.Key = &bare, secret.String{}
	}
	return t, t.checkServices()
}

// PathBelow returns the encoded path of u after the target's address. ok is false if u is
// not below it, or nil.
func (t *Target) PathBelow(u *url.URL) (path string, ok bool) {
	if u == nil || u.Scheme != t.Base.Scheme || !strings.EqualFold(u.Host, t.Base.Host) || u.User != nil {
		return "", false
	}
	path, ok = strings.CutPrefix(u.EscapedPath(), t.Base.EscapedPath())
	return path, ok && strings.HasPrefix(path, "/")
}

// Label returns the name of the provider for messages: the slug of a managed one with its
// kind, such as "@team (openai)".
func (t *Target) Label() string {
	if t.Slug == "" {
		return t.ID
	}
	return "@" + t.Slug + " (" + t.ID + ")"
}

// OwnAddress reports whether the address is the provider's own: neither a
// custom host nor one with a customer's account at the provider.
func (t *Target) OwnAddress() bool { return !t.Guarded && !t.account }

// namesAccount reports whether the host of a base address depends on an option
// for an account.
func (s *Spec) namesAccount(base string) bool {
	host, _, _ := strings.Cut(strings.TrimPrefix(base, "https://"), "/")
	return slices.ContainsFunc(s.Options, func(o Option) bool {
		return o.Host == HostAccount && strings.Contains(host, "{"+o.Name+"}")
	})
}

func canonical(headers map[string]secret.String) map[string]secret.String {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]secret.String, len(headers))
	for name, v := range headers {
		out[http.CanonicalHeaderKey(name)] = v
	}
	return out
}

// BaseModelOf returns the model whose dialects, quirks and prices apply to a
// requested model: BaseModel if it is set, otherwise the model itself.
func (t *Target) BaseModelOf(model string) string {
	if t.BaseModel != "" {
		return t.BaseModel
	}
	return model
}

// Price returns the price of requests for model at a time, from the price book
// b. If neither the model nor its base model has a price, that of served is
// used, the response model; served is empty if the provider did not report it.
func (t *Target) Price(b *catalog.PriceBook, model, served string, at time.Time) (*catalog.Price, bool) {
	return t.Pricing.Price(b, t.ID, model, at, t.BaseModelOf(model), served)
}

// DialectFor calls [Spec.DialectFor] for the base model of model.
func (t *Target) DialectFor(d api.Dialect, model string) api.Dialect {
	return t.Spec.DialectFor(d, t.BaseModelOf(model))
}

// RequestTarget calls [Spec.RequestTarget], and adds the base model.
func (t *Target) RequestTarget(model string) dialect.RequestTarget {
	to := t.Spec.RequestTarget(model)
	to.BaseModel = t.BaseModel
	return to
}

// Rule calls [Spec.Rule] for the base model of model.
func (t *Target) Rule(model string) *modeldata.Model { return t.Spec.Rule(t.BaseModelOf(model)) }

// withCustomHost returns the spec for a custom host, which replaces the
// provider's address entirely: operations with an absolute URL are not offered,
// so that the credential is not sent there.
func (s *Spec) withCustomHost() *Spec {
	elsewhere := func(_ api.Operation, path string) bool { return isAbsoluteURL(path) }
	paths := maps.Clone(s.Paths)
	maps.DeleteFunc(paths, elsewhere)
	if len(paths) == len(s.Paths) {
		return s
	}
	other := *s
	other.Paths = paths
	if s.Dialects != nil {
		other.Dialects = func(model string) []api.Dialect {
			spoken := slices.DeleteFunc(slices.Clone(s.Dialects(model)), func(d api.Dialect) bool {
				_, ok := paths[d.ConversationOperation()]
				return !ok
			})
			if len(spoken) == 0 {
				return []api.Dialect{s.Dialect}
			}
			return spoken
		}
	}
	return &other
}

// isAbsoluteURL reports whether path is a URL rather than a path below the base
// address.
func isAbsoluteURL(path string) bool {
	return strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://")
}

// Option returns the value of an option, or its default. The option may also be
// set under its name in config objects, which begins with OptionPrefix.
func (t *Target) Option(name string) string { return t.option(t.Options, name) }

// hostOption matches values of options that are part of a host: they cannot end
// the host name or begin another. A region is a single label, so that it cannot
// name another customer's host in the provider's domain.
var (
	hostOption   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	regionOption = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)
)

// expandBase replaces the placeholders of a base address.
func (t *Target) expandBase(s string) (string, error) {
	return t.fill(s, func(name string) (string, error) {
		v := t.Option(name)
		if v != "" && t.hostPart(name) == HostRegion && !regionOption.MatchString(v) {
			return "", apierr.New(apierr.Invalid, "the option %q of provider %q must be the name of a region: letters, digits and dashes", name,
				t.ID).WithParam(name)
		}
		if v != "" && !hostOption.MatchString(v) {
			return "", apierr.New(apierr.Invalid, "the option %q of provider %q takes letters, digits, dots, dashes and underscores", name,
				t.ID).WithParam(name)
		}
		return v, nil
	})
}

func (s *Spec) hostPart(option string) HostPart {
	for _, o := range s.Options {
		if o.Name == option {
			return o.Host
		}
	}
	return HostNone
}

// expandPath replaces the placeholders of a path. Values are escaped, so that
// they stay in their segment; values in the host of an absolute URL are checked
// like those in a base address.
func (t *Target) expandPath(s, model string) (string, error) {
	if isAbsoluteURL(s) {
		at := strings.IndexByte(s[len("https://"):], '/') + len("https://")
		host, err := t.expandBase(s[:at])
		if err != nil {
			return "", err
		}
		path, err := t.expandPath(s[at:], model)
		return host + path, err
	}
	return t.fill(s, func(name string) (string, error) {
		v := model
		if name != "model" {
			v = t.Option(name)
		} else if v != "" {
			v = t.UpstreamModelName(model)
		}
		if v == "." || v == ".." {
			return "", apierr.New(apierr.Invalid, "%q is no %s", v, name).WithParam(name)
		}
		return escape(v), nil
	})
}

// escape escapes v as one segment of a path, including colons: some hosts read
// a colon at the end of a path as the start of a method, and signatures are
// computed over the escaped form.
func escape(v string) string {
	return strings.ReplaceAll(url.PathEscape(v), ":", "%3A")
}

// fill replaces each {placeholder} of s with its value.
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
