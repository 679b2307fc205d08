// Package credentials handles what integrations and virtual keys (the older form of
// providers) share: a key and the settings of a provider definition.
//
// It guarantees that settings are known to the definition, that addresses pass the
// address guard, that secrets are stored only sealed and shown as masks, and that a
// stored secret is never sent to an address chosen by someone else. It also creates the
// default provider of an integration in a workspace. It does not store rows (see store)
// or apply them to requests (see snapshot).
package credentials

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/guardrail"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

// Limits of credentials, in bytes.
const (
	maxKey       = 16 << 10 // service account documents are keys too
	maxValue     = 2 << 10
	maxHeader    = 4 << 10
	maxLongValue = 16 << 10
)

// Manager checks, seals and masks credentials. It is safe for concurrent use.
type Manager struct {
	secrets   route.Sealer
	checkHost func(string) (*url.URL, error)
	checks    *guardrail.Table // of configs; nil accepts all
}

// New returns a Manager with the dependencies of d.
func New(d route.Deps) *Manager {
	k := &Manager{d.Secrets, d.CheckHost, d.Guardrails}
	if k.checkHost == nil {
		k.checkHost = upstream.New(upstream.Options{}).CheckHost
	}
	return k
}

// Fields are the settings in a request, by any of their accepted names.
type Fields map[string]json.RawMessage

// CredentialInput is the part of a request that changes credentials.
type CredentialInput struct {
	// Path prefixes the names of Fields in errors.
	Path string

	Key    route.Optional[string]
	Fields route.Optional[Fields]

	// Merge keeps fields that are not given. Without it the given fields replace all.
	Merge bool
}

// Row returns the provider definition with the given id. Field is the name of the id in
// the request, for errors.
func Row(field, id string, fields Fields) (*provider.Spec, error) {
	spec, ok := table.Lookup(id)
	if !ok {
		spec, ok = table.Lookup(strings.ToLower(id))
	}
	if !ok {
		return nil, route.Invalid(field, "is not a known provider; use openai-compatible with a custom host")
	}
	if sibling, ok := table.Lookup(spec.SiblingFor(id, func(option string) bool { return has(fields, option) })); ok {
		return sibling, nil
	}
	return spec, nil
}

func has(fields Fields, name string) bool {
	raw, ok := fields[name]
	return ok && !isNull(raw)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// Apply changes the credentials of i, whose provider must be set, as requested by g. An
// empty g changes nothing. It must not be called in a transaction.
func (k *Manager) Apply(ctx context.Context, i *store.Integration, g CredentialInput) error {
	if !g.Key.Set && !g.Fields.Set {
		return nil
	}
	spec, err := Row("ai_provider_id", i.Provider, nil)
	if err != nil {
		return err
	}
	before, err := k.open(ctx, i.Organisation, i.Sealed)
	if err != nil {
		return err
	}
	next, kept, err := settings(spec, g, i.Configuration, before)
	if err != nil {
		return err
	}
	if err := checkCredentialHeaders(g.Path+customHeaders, spec, next); err != nil {
		return err
	}
	if err := k.checkAddress(spec, g, &next.Configuration, next.Secrets); err != nil {
		return err
	}
	if kept != "" && k.isNewDestination(spec, i.Configuration, before, next) {
		return route.Invalid(kept, "must be set again together with every other secret; stored secrets are not sent to a new address")
	}
	next.Configuration.Masks = masksOf(next.Secrets)
	sealed, err := k.seal(ctx, i.Organisation, next.Secrets)
	if err != nil {
		return err
	}
	i.Configuration, i.Sealed = next.Configuration, sealed
	return nil
}

// Settings are the address, options and secrets of a provider.
type Settings struct {
	Configuration store.IntegrationSettings
	Secrets       store.Secrets
}

// settings merges the request over the stored values. Kept is the path of a stored
// secret that is still used, empty if there is none.
func settings(spec *provider.Spec, g CredentialInput, was store.IntegrationSettings,
	before store.Secrets) (next Settings, kept string, err error) {
	r := reader{spec: spec, path: g.Path, merge: g.Merge, was: was, before: before}
	if g.Fields.Set {
		if err := r.read(g.Fields.Value); err != nil {
			return next, "", err
		}
		next, kept = r.out, r.kept
	} else {
		next.Configuration = was
		next.Secrets.Options, next.Secrets.Headers = maps.Clone(before.Options), maps.Clone(before.Headers)
		if names := slices.Sorted(maps.Keys(before.Options)); len(names) > 0 {
			kept = g.Path + names[0]
		}
		if len(before.Headers) > 0 {
			kept = g.Path + customHeaders
		}
	}
	key := strings.TrimSpace(g.Key.Value)
	stored, err := store.KeepsSecret(key, was.Masks.Key)
	switch {
	case !g.Key.Set || stored:
		if next.Secrets.Key = before.Key; !before.Key.Empty() {
			kept = "key"
		}
	case err != nil:
		return next, "", route.Invalid("key", "%v", err)
	case len(key) > maxKey:
		return next, "", route.Invalid("key", "is longer than %d bytes", maxKey)
	case !strings.HasPrefix(key, "{") && !strings.HasPrefix(key, "-----BEGIN") && strings.ContainsFunc(key, unicode.IsControl):
		return next, "", route.Invalid("key", "has a control character, such as the end of a line")
	default:
		next.Secrets.Key = secret.New(key)
	}
	return next, kept, nil
}

// checkAddress builds a target from the settings, to report now an error that requests
// would meet, and checks an address that is not the definition's own.
func (k *Manager) checkAddress(spec *provider.Spec, g CredentialInput, c *store.IntegrationSettings, s store.Secrets) error {
	if c.CustomHost != "" {
		u, err := k.checkHost(c.CustomHost)
		if err != nil {
			return route.Invalid(g.Path+"custom_host", "names an address that is not allowed: %v", err)
		}
		c.CustomHost = u.String()
	}
	t, err := target(spec, *c, s)
	if err != nil {
		e := *apierr.From(err)
		if e.Param == "custom_host" && c.CustomHost == "" {
			e.Message = "the provider \"" + spec.ID + "\" needs " + g.Path + "custom_host: it has no built-in address"
		}
		e.Param = g.Path + wireName(spec, e.Param)
		return &e
	}
	for option, address := range t.ServiceAddresses() {
		if _, err := k.checkHost(address); err != nil {
			return route.Invalid(g.Path+wireName(spec, option), "names an address that is not allowed: %v", err)
		}
	}
	if t.Guarded && c.CustomHost == "" {
		if _, err := k.checkHost(t.Base.String()); err != nil {
			return route.Invalid(g.Path+wireName(spec, "foundry_url"), "names an address that is not allowed: %v", err)
		}
	}
	return nil
}

func target(spec *provider.Spec, c store.IntegrationSettings, s store.Secrets) (*provider.Target, error) {
	return provider.NewTarget(spec, provider.Settings{Key: s.Key, CustomHost: c.CustomHost, Options: c.TargetOptions(s, "")})
}

// isNewDestination reports whether the settings now lead to an address, a host or an account
// at the provider, that the tenant chose and that they did not lead to before. A user
// who may change an integration must not obtain its secrets by redirecting them.
func (k *Manager) isNewDestination(spec *provider.Spec, was store.IntegrationSettings, before store.Secrets, next Settings) bool {
	to, err := target(spec, next.Configuration, next.Secrets)
	if err != nil {
		return false
	}
	from, wrong := target(spec, was, before)
	for option, address := range to.ServiceAddresses() {
		if wrong != nil || from.Option(option) != address {
			return true
		}
	}
	if to.OwnAddress() {
		return false
	}
	return wrong != nil || from.Base.Scheme != to.Base.Scheme || from.Base.Host != to.Base.Host
}

// seal returns the sealed secrets, or an empty string if there are none.
func (k *Manager) seal(ctx context.Context, organisation string, s store.Secrets) (string, error) {
	if s.Empty() {
		return "", nil
	}
	return k.sealText(ctx, organisation, s.Text())
}

func (k *Manager) sealText(ctx context.Context, organisation string, text secret.String) (string, error) {
	if k.secrets == nil {
		return "", apierr.New(apierr.Unavailable,
			"secrets cannot be stored because the gateway was started without a master key").WithCode("no_master_key")
	}
	return k.secrets.Seal(ctx, organisation, text)
}

func (k *Manager) open(ctx context.Context, organisation, sealed string) (store.Secrets, error) {
	opened, err := k.openText(ctx, organisation, sealed)
	if err != nil {
		return store.Secrets{}, err
	}
	return store.ParseSecrets(opened)
}

// openText returns the opened text, empty for an empty seal.
func (k *Manager) openText(ctx context.Context, organisation, sealed string) (secret.String, error) {
	if sealed == "" {
		return secret.String{}, nil
	}
	if k.secrets == nil {
		return secret.String{}, apierr.New(apierr.Unavailable, "stored secrets cannot be changed because the gateway was started without a master key").WithCode("no_master_key")
	}
	return k.secrets.Open(ctx, organisation, sealed)
}

func masksOf(s store.Secrets) store.Masks {
	m := store.Masks{Options: masked(s.Options), Headers: masked(s.Headers)}
	if !s.Key.Empty() {
		m.Key = store.Mask(s.Key)
	}
	return m
}

func masked(secrets map[string]secret.String) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, s := range secrets {
		out[name] = store.Mask(s)
	}
	return out
}

// checkCredentialHeaders refuses headers that carry the provider's credential or signature;
// requests would overwrite them.
func checkCredentialHeaders(path string, spec *provider.Spec, s Settings) error {
	for name := range s.Secrets.Headers {
		key := http.CanonicalHeaderKey(name)
		signed := spec.Auth.Method != "" && (key == "Authorization" || key == "Date" || strings.HasPrefix(key, "X-Amz-"))
		if signed || key == spec.Auth.Header && !s.Secrets.Key.Empty() {
			return route.Invalid(path, "must not contain the header %q, which carries the provider's credential", name)
		}
	}
	return nil
}

// CheckHeader checks a header that is sent to a provider or a tool server. Path is the field
// that has it.
func CheckHeader(path, name, value string) error {
	if len(name) > 128 || upstream.Forward(http.Header{}, http.Header{}, []string{name}) != nil || strings.TrimSpace(name) != name {
		return route.Invalid(path, "must not contain the header %.130q", name)
	}
	switch http.CanonicalHeaderKey(name) {
	case "Content-Type", "Content-Encoding", "Accept-Encoding", "Expect", "Cookie":
		return route.Invalid(path, "must not contain the header %q, which the gateway sets itself", name)
	}
	if len(value) > maxHeader || strings.ContainsFunc(value, unicode.IsControl) {
		return route.Invalid(path+"."+name, "must be at most %d bytes long, without control characters", maxHeader)
	}
	return nil
}
