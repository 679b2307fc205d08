// Package credentials is what integrations, and providers under their old name
// of virtual keys, have in common: a key and settings of a provider's row.
//
// It promises that settings are ones that the row has, that addresses passed the
// guard, that what is secret is stored sealed alone and shown as a mask, and
// that a stored secret does not follow an address to somebody else's host. It
// also gives workspaces their default provider. Rows are kept by store; what a
// request makes of them is left to the snapshot.
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

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/secret"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

// The bounds of what is given, in bytes.
const (
	MaxKey       = 16 << 10 // a key may be a service account
	maxValue     = 2 << 10
	maxHeader    = 4 << 10
	maxLongValue = 16 << 10
)

// Manager checks, seals and masks. It is safe for concurrent use.
type Manager struct {
	secrets   route.Sealer
	checkHost func(string) (*url.URL, error)
}

// New returns a keeper for the routes of d.
func New(d route.Deps) *Manager {
	k := &Manager{d.Secrets, d.CheckHost}
	if k.checkHost == nil {
		k.checkHost = upstream.New(upstream.Options{}).CheckHost
	}
	return k
}

// Fields are settings as a request has them, by any of their names.
type Fields map[string]json.RawMessage

// CredentialInput is what a request says of credentials.
type CredentialInput struct {
	// Path is what the request has before the names of Fields, for errors.
	Path string

	Key    route.Optional[string]
	Fields route.Optional[Fields]

	// Merge leaves the fields as they are that are not given; otherwise those
	// that are given take the place of all.
	Merge bool
}

// Row returns the row that a request means by id. Field is what the request
// calls it.
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

// Apply puts what is given into i, whose provider is set. Without anything given
// i stays as it is. It is called outside of any change.
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
	if err := checkOwned(g.Path+customHeaders, spec, next); err != nil {
		return err
	}
	if err := k.checkAddress(spec, g, &next.Configuration, next.Secrets); err != nil {
		return err
	}
	if kept != "" && k.elsewhere(spec, i.Configuration, before, next) {
		return route.Invalid(kept, "must be sent again with every other secret: stored secrets are not sent to a new address")
	}
	next.Configuration.Masks = masksOf(next.Secrets)
	sealed, err := k.seal(ctx, i.Organisation, next.Secrets)
	if err != nil {
		return err
	}
	i.Configuration, i.Sealed = next.Configuration, sealed
	return nil
}

// Settings are what a provider is reached by and with.
type Settings struct {
	Configuration store.IntegrationSettings
	Secrets       store.Secrets
}

// settings returns what is given over what was there before, and the path of a
// secret of before that is still in it, empty for none.
func settings(spec *provider.Spec, g CredentialInput, was store.IntegrationSettings, before store.Secrets) (next Settings, kept string, err error) {
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
	case len(key) > MaxKey:
		return next, "", route.Invalid("key", "is longer than %d bytes", MaxKey)
	case !strings.HasPrefix(key, "{") && !strings.HasPrefix(key, "-----BEGIN") && strings.ContainsFunc(key, unicode.IsControl):
		return next, "", route.Invalid("key", "has a control character, such as the end of a line")
	default:
		next.Secrets.Key = secret.New(key)
	}
	return next, kept, nil
}

// checkAddress makes a target of the settings, to say now what would be in
// the way of requests, and checks an address that the row did not choose.
func (k *Manager) checkAddress(spec *provider.Spec, g CredentialInput, c *store.IntegrationSettings, s store.Secrets) error {
	if c.CustomHost != "" {
		u, err := k.checkHost(c.CustomHost)
		if err != nil {
			return route.Invalid(g.Path+"custom_host", "is refused: %v", err)
		}
		c.CustomHost = u.String()
	}
	t, err := target(spec, *c, s)
	if err != nil {
		e := *apierr.From(err)
		if e.Param == "custom_host" && c.CustomHost == "" {
			e.Message = "the provider \"" + spec.ID + "\" needs " + g.Path + "custom_host: it has no address of its own"
		}
		e.Param = g.Path + wireName(spec, e.Param)
		return &e
	}
	if t.Guarded && c.CustomHost == "" {
		if _, err := k.checkHost(t.Base.String()); err != nil {
			return route.Invalid(g.Path+wireName(spec, "foundry_url"), "is refused: %v", err)
		}
	}
	return nil
}

func target(spec *provider.Spec, c store.IntegrationSettings, s store.Secrets) (*provider.Target, error) {
	return provider.NewTarget(spec, provider.Settings{Key: s.Key, CustomHost: c.CustomHost, Options: c.TargetOptions(s, "")})
}

// elsewhere reports whether the settings lead to an address of a tenant's choice,
// be it a host or an account at the provider, that they did not lead to before: who may change an integration may not read
// its secrets by having them sent to himself.
func (k *Manager) elsewhere(spec *provider.Spec, was store.IntegrationSettings, before store.Secrets, next Settings) bool {
	to, err := target(spec, next.Configuration, next.Secrets)
	if err != nil || to.OwnAddress() {
		return false
	}
	from, err := target(spec, was, before)
	return err != nil || from.Base.Scheme != to.Base.Scheme || from.Base.Host != to.Base.Host
}

// seal returns the secrets sealed, or nothing where there are none.
func (k *Manager) seal(ctx context.Context, organisation string, s store.Secrets) (string, error) {
	if s.Empty() {
		return "", nil
	}
	return k.sealText(ctx, organisation, s.Text())
}

func (k *Manager) sealText(ctx context.Context, organisation string, text secret.String) (string, error) {
	if k.secrets == nil {
		return "", apierr.New(apierr.Unavailable, "secrets can't be stored: the gateway was started without a master key").WithCode("no_master_key")
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

// openText returns what was sealed; nothing gives nothing.
func (k *Manager) openText(ctx context.Context, organisation, sealed string) (secret.String, error) {
	if sealed == "" {
		return secret.String{}, nil
	}
	if k.secrets == nil {
		return secret.String{}, apierr.New(apierr.Unavailable, "stored secrets can't be changed: the gateway was started without a master key").WithCode("no_master_key")
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

// checkOwned refuses headers that the provider's credential or signature stands
// in. Requests would take no notice of them.
func checkOwned(path string, spec *provider.Spec, s Settings) error {
	for name := range s.Secrets.Headers {
		key := http.CanonicalHeaderKey(name)
		signed := spec.Auth.Method != "" && (key == "Authorization" || key == "Date" || strings.HasPrefix(key, "X-Amz-"))
		if signed || key == spec.Auth.Header && !s.Secrets.Key.Empty() {
			return route.Invalid(path, "must not contain the header %q, which carries the provider's credential", name)
		}
	}
	return nil
}

// checkHeader reports what is wrong with a header that is sent to a provider.
func checkHeader(path, name, value string) error {
	if len(name) > 128 || upstream.Forward(http.Header{}, http.Header{}, []string{name}) != nil || strings.TrimSpace(name) != name {
		return route.Invalid(path, "can't have the header %.130q", name)
	}
	switch http.CanonicalHeaderKey(name) {
	case "Content-Type", "Content-Encoding", "Accept-Encoding", "Expect", "Cookie":
		return route.Invalid(path, "must not contain the header %q, which the gateway sets itself", name)
	}
	if len(value) > maxHeader || strings.ContainsFunc(value, unicode.IsControl) {
		return route.Invalid(path+"."+name, "has at most %d bytes and no control characters", maxHeader)
	}
	return nil
}
