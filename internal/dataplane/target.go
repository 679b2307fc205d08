package dataplane

import (
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
)

// providerChoice names a provider and the credentials for it, from headers or a
// config.
type providerChoice struct {
	provider   string // id, alias or @slug
	virtualKey string
	key        secret.String
	customHost string
	options    map[string]string
	harmless   map[string]string // options of the config that managed providers accept too
	model      string            // the requested model; empty if the request names none

	// configured is true if a config chose: the client's own credential is for this
	// provider only if clientKey is true and the config has none.
	configured, clientKey bool
}

// handler returns the handler of the exchange.
func (p *Plane) handler(x *exchange) (pipeline.Handler, error) {
	if x.opts.config != "" {
		return p.configHandler(x)
	}
	t, err := x.target(providerChoice{
		provider:   x.opts.provider,
		virtualKey: x.opts.virtualKey,
		customHost: x.opts.customHost,
		options:    x.opts.options,
		model:      x.Model,
	})
	if err != nil {
		return nil, err
	}
	x.opts.markTaken(t)
	if err := x.checkTarget(t, false, x.opts.strict != nil && *x.opts.strict); err != nil {
		return nil, err
	}
	return x.callOnly(t, pipeline.TargetHandler{
		Timeout: x.opts.attempt,
		Forward: x.opts.forward,
		Lenient: x.opts.strict != nil && !*x.opts.strict,
	})
}

// callOnly returns the handler of a request without a config, which calls t as call says,
// with the hooks of its organisation and workspace.
func (x *exchange) callOnly(t *provider.Target, call pipeline.TargetHandler) (pipeline.Handler, error) {
	x.leaf = [1]pipeline.Leaf{{Target: t, AllowModel: x.allowModel(t)}}
	x.Leaves = x.leaf[:]
	if err := x.resolveGuards([]*pipeline.GuardList{nil}); err != nil {
		return nil, err
	}
	call.Engine, call.Path = x.plane.Engine, "config"
	x.oneLeaf.Init(call)
	return &x.oneLeaf, nil
}

// target returns the target of c for the identity of x, if the egress policies
// allow it.
func (x *exchange) target(c providerChoice) (*provider.Target, error) {
	t, err := x.find(c)
	if err != nil {
		return nil, err
	}
	if err := x.checkAPI(t); err != nil {
		return nil, err
	}
	if err := x.checkEgress(t); err != nil {
		return nil, err
	}
	return t, x.checkIssuedCredentials()
}

// checkEgress returns an error for a target that an egress policy does not
// allow. Requests and dry runs call it for every leaf.
func (x *exchange) checkEgress(t *provider.Target) error {
	r := egress.Request{Managed: t.Slug != ""}
	if t.Guarded {
		r.Host = t.Base
	}
	if x.Operation == api.Proxy {
		r.Method, r.Path = x.Received.Method, x.Received.Path
	}
	if x.Checking.Egress == nil {
		x.Checking.Egress = x.snap.Egress(x.Identity)
	}
	return x.Checking.Egress.Check(r)
}

// find returns the target of c.
func (x *exchange) find(c providerChoice) (*provider.Target, error) {
	if slug, ok := strings.CutPrefix(c.provider, "@"); ok {
		return x.managed(slug, c)
	}
	if c.provider == "" && c.virtualKey != "" {
		return x.managed(strings.TrimPrefix(c.virtualKey, "@"), c)
	}
	if c.provider == "" {
		return nil, x.missingProvider()
	}
	spec, ok := x.snap.Spec(c.provider)
	if ok {
		if id := spec.SiblingFor(c.provider, func(option string) bool { return c.options[option] != "" }); id != "" {
			spec, ok = x.snap.Spec(id)
		}
	}
	if !ok {
		return nil, apierr.New(apierr.Invalid,
			"unknown provider %.60q; run `modelgate providers` for the list, or use openai-compatible with a custom host", c.provider).
			WithParam("x-gateway-provider").WithCode("unknown_provider")
	}
	if !x.Identity.AllowsProvider(spec.ID) {
		return nil, forbidden(spec.ID)
	}
	return x.unmanaged(spec, c)
}

func forbidden(name string) error {
	return apierr.New(apierr.Forbidden, "this gateway key is not allowed to use the provider %q", name).WithCode("provider_not_allowed")
}

// managed returns the managed provider with this slug. Its stored credential
// belongs to its own address: a request cannot send it elsewhere.
func (x *exchange) managed(slug string, c providerChoice) (*provider.Target, error) {
	entry, ok := x.snap.Managed(x.Identity.Workspace, slug)
	if !ok {
		return nil, apierr.New(apierr.NotFound, "managed provider %.60q not found; GET /v1/models lists the providers of this key", slug).
			WithParam("x-gateway-provider").WithCode("unknown_slug")
	}
	if !x.Identity.AllowsProvider(slug) && !x.Identity.AllowsProvider(entry.Provider) {
		return nil, forbidden("@" + slug)
	}
	if err := entry.CheckUsable(x.entry.Time); err != nil {
		return nil, err
	}
	if c.customHost != "" {
		return nil, apierr.New(apierr.Invalid,
			"the stored credential of @%s is bound to its own host; to use a custom host, send a provider id and your own credential", slug).
			WithParam("x-gateway-custom-host").WithCode("custom_host_refused")
	}
	t, err := entry.TargetFor(c.model)
	if err != nil {
		return nil, err
	}
	if len(c.harmless) > 0 {
		t = t.WithOptions(c.harmless)
	}
	return t, x.checkModels(t, c.model)
}

// unmanaged returns the target of a provider with the caller's own credential.
func (x *exchange) unmanaged(spec *provider.Spec, c providerChoice) (*provider.Target, error) {
	if c.key.Empty() && (!c.configured || c.clientKey && (c.customHost != "" || spec.NeedsKey(c.options))) {
		c.key = x.clientKey(&spec.Auth)
	}
	if spec.NeedsKey(c.options) && c.key.Empty() && c.customHost == "" {
		return nil, apierr.New(apierr.Invalid,
			"missing credential for provider %q; send `Authorization: Bearer <key>` or use a managed provider (@slug)", spec.ID).
			WithParam("authorization").WithCode("missing_credential")
	}
	// The address of a provider without placeholders is the same for all
	// callers.
	if bare, ok := x.snap.TargetWithoutCredentials(spec); ok && c.customHost == "" && !strings.Contains(spec.BaseURL, "{") {
		return bare.With(c.key, c.options), nil
	}
	if c.customHost != "" {
		base, err := x.reach.CheckHost(c.customHost)
		if err != nil {
			return nil, apierr.New(apierr.Invalid, "%v", err).WithParam("x-gateway-custom-host").WithCode("custom_host_refused")
		}
		c.customHost = base.String()
	}
	return provider.NewTarget(spec, provider.Settings{Key: c.key, CustomHost: c.customHost, Options: c.options})
}

// clientKey returns the credential that the client sent for the provider: the
// bearer token, or the header of the provider's own authentication. A gateway
// key is never used, in whichever header it is.
func (x *exchange) clientKey(a *provider.Auth) secret.String {
	if !x.ownKey {
		return secret.String{}
	}
	key := x.sentKey(a)
	if x.snap.IsCredential(key, x.entry.Time) {
		return secret.String{}
	}
	return secret.New(key)
}

func (x *exchange) sentKey(a *provider.Auth) string {
	if v := x.Received.Header["Authorization"]; len(v) == 1 {
		token := snapshot.Bearer(x.Received.Header)
		if token != "" && (a.Header != "Authorization" || a.Scheme != "" || x.snap.IsCredential(token, x.entry.Time)) {
			return token
		}
		if strings.EqualFold(strings.TrimSpace(v[0]), "bearer") { // the token of an unset variable
			return ""
		}
		return v[0] // used unchanged
	}
	if v := x.Received.Header[a.Header]; len(v) == 1 {
		return v[0]
	}
	return ""
}
