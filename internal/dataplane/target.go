package dataplane

import (
	"cmp"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/guarding"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// resolver finds the targets of an admission's request: the provider of each
// leaf of its config, with the prompts, the guardrails and the checks that belong
// to them.
type resolver struct {
	admission *admission
	reach     *upstream.Client // checks custom hosts
	guards    guardScope

	oneLeaf pipeline.OneLeaf // Routing of a request without a config
	leaf    [1]exchange.Leaf // its Leaves

	filled map[string]*promptResult // the prompts of the config, by their references
	trees  []*cachedTree            // compiled configs in use
}

// providerChoice names a provider and the credentials for it, from headers or a
// config.
type providerChoice struct {
	provider   string // id, alias or @slug
	virtualKey string
	key        secret.String
	customHost string
	options    map[string]string
	given      map[string]string // options of the config
	harmless   map[string]string // those that managed providers accept too
	model      string            // that attempts ask for; empty if nothing names one

	// configured is true if a config chose: the client's own credential is for this
	// provider only if clientKey is true and the config has none.
	configured, clientKey bool
}

// handler returns the handler of the request.
func (rs *resolver) handler() (exchange.Handler, error) {
	if rs.admission.opts.config != "" {
		return rs.configHandler()
	}
	t, err := rs.target(providerChoice{
		provider:   rs.admission.opts.provider,
		virtualKey: rs.admission.opts.virtualKey,
		customHost: rs.admission.opts.customHost,
		options:    rs.admission.opts.options,
		model:      rs.admission.request.Model,
	})
	if err == nil && rs.admission.call != nil {
		t, err = rs.atService(t, rs.admission.call.Service)
	}
	if err != nil {
		return nil, err
	}
	rs.admission.opts.markTaken(t)
	leaf := exchange.Leaf{Target: t, Model: rs.admission.request.Model}
	if err := rs.checkLeaf(&leaf, rs.admission.opts.strict != nil && *rs.admission.opts.strict); err != nil {
		return nil, err
	}
	return rs.callOnly(leaf, attempt.TargetHandler{
		Timeout: rs.admission.opts.attempt,
		Forward: rs.admission.opts.forward,
		Lenient: rs.admission.opts.strict != nil && !*rs.admission.opts.strict,
	})
}

// atService returns the target at another address of its provider, if the egress policies allow
// it.
func (rs *resolver) atService(t *provider.Target, service string) (*provider.Target, error) {
	at, err := t.At(service)
	if err != nil || service == "" {
		return at, err
	}
	return at, rs.checkEgress(at)
}

// callOnly returns the handler of a request without a config, which calls its only leaf as
// call says, with the hooks of its organisation and workspace.
func (rs *resolver) callOnly(leaf exchange.Leaf, call attempt.TargetHandler) (exchange.Handler, error) {
	rs.placeLeaf(&leaf)
	rs.leaf = [1]exchange.Leaf{leaf}
	rs.admission.request.Leaves = rs.leaf[:]
	if err := rs.resolveGuards([]*guarding.List{nil}); err != nil {
		return nil, err
	}
	call.Engine, call.Path = rs.admission.plane.Engine, "config"
	rs.oneLeaf.Init(call)
	return &rs.oneLeaf, nil
}

// placeLeaf moves the target of a leaf into the region of its model, on pass-through of the
// model in the path, and sets which models the target accepts in a form.
func (rs *resolver) placeLeaf(leaf *exchange.Leaf) {
	model := leaf.Model
	if rs.admission.request.Operation == api.Proxy && leaf.Target.RegionOf != nil {
		model = cmp.Or(rs.admission.request.ModelInPath(leaf.Target), model)
	}
	leaf.Target = leaf.Target.InRegionOf(model)
	leaf.AllowModel = rs.allowModel(leaf.Target)
}

// target returns the target of c for the identity of the request, if the egress policies
// allow it.
func (rs *resolver) target(c providerChoice) (*provider.Target, error) {
	t, err := rs.find(c)
	if err != nil {
		return nil, err
	}
	if err := rs.checkAPI(t); err != nil {
		return nil, err
	}
	if err := rs.checkEgress(t); err != nil {
		return nil, err
	}
	return t, rs.checkIssuedCredentials()
}

// checkEgress returns an error for a target that an egress policy does not
// allow. Requests and dry runs call it for every leaf.
func (rs *resolver) checkEgress(t *provider.Target) error {
	r := egress.Request{Managed: t.Slug != ""}
	if t.Guarded {
		r.Host = t.Base
	}
	if rs.admission.request.Operation == api.Proxy {
		r.Method, r.Path = rs.admission.request.Received.Method, rs.admission.request.Received.Path
	}
	if rs.admission.request.Checking.Egress == nil {
		rs.admission.request.Checking.Egress = rs.admission.snap.Egress(rs.admission.request.Identity)
	}
	return rs.admission.request.Checking.Egress.Check(r)
}

// find returns the target of c.
func (rs *resolver) find(c providerChoice) (*provider.Target, error) {
	if slug, ok := strings.CutPrefix(c.provider, "@"); ok {
		return rs.managed(slug, c)
	}
	if c.provider == "" && c.virtualKey != "" {
		return rs.managed(strings.TrimPrefix(c.virtualKey, "@"), c)
	}
	if c.provider == "" {
		return nil, rs.missingProvider()
	}
	spec, ok := rs.admission.snap.Spec(c.provider)
	if ok {
		if id := spec.SiblingFor(c.provider, func(option string) bool { return c.options[option] != "" }); id != "" {
			spec, ok = rs.admission.snap.Spec(id)
		}
	}
	if !ok {
		return nil, apierr.New(apierr.Invalid,
			"unknown provider %.60q; run `modelgate providers` for the list, or use openai-compatible with a custom host", c.provider).
			WithParam("x-gateway-provider").WithCode("unknown_provider")
	}
	if !rs.admission.request.Identity.AllowsProvider(spec.ID) {
		return nil, forbidden(spec.ID)
	}
	return rs.unmanaged(spec, c)
}

func forbidden(name string) error {
	return apierr.New(apierr.Forbidden, "this gateway key is not allowed to use the provider %q", name).WithCode("provider_not_allowed")
}

// managed returns the managed provider with this slug. Its stored credential
// belongs to its own address: a request cannot send it elsewhere.
func (rs *resolver) managed(slug string, c providerChoice) (*provider.Target, error) {
	entry, ok := rs.admission.snap.Managed(rs.admission.request.Identity.Workspace, slug)
	if !ok {
		return nil, apierr.New(apierr.NotFound, "managed provider %.60q not found; GET /v1/models lists the providers of this key", slug).
			WithParam("x-gateway-provider").WithCode("unknown_slug")
	}
	if !rs.admission.request.Identity.AllowsProvider(slug) && !rs.admission.request.Identity.AllowsProvider(entry.Provider) {
		return nil, forbidden("@" + slug)
	}
	if err := entry.CheckUsable(rs.admission.entry.Time); err != nil {
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
	if call := rs.admission.call; call != nil && call.ModelsChecked && t.Models != nil {
		all := *t
		all.Models = nil
		return &all, nil
	}
	return t, rs.checkModels(t, c.model)
}

// unmanaged returns the target of a provider with the caller's own credential.
func (rs *resolver) unmanaged(spec *provider.Spec, c providerChoice) (*provider.Target, error) {
	if c.key.Empty() && (!c.configured || c.clientKey && (c.customHost != "" || spec.NeedsKey(c.options))) {
		c.key = rs.clientKey(&spec.Auth)
	}
	if spec.NeedsKey(c.options) && c.key.Empty() && c.customHost == "" {
		return nil, apierr.New(apierr.Invalid,
			"missing credential for provider %q; send `Authorization: Bearer <key>` or use a managed provider (@slug)", spec.ID).
			WithParam("authorization").WithCode("missing_credential")
	}
	// The address of a provider without placeholders is the same for all
	// callers.
	if bare, ok := rs.admission.snap.TargetWithoutCredentials(spec); ok && c.customHost == "" && !strings.Contains(spec.BaseURL, "{") {
		return bare.With(c.key, c.options), nil
	}
	if c.customHost != "" {
		base, err := rs.reach.CheckHost(c.customHost)
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
func (rs *resolver) clientKey(a *provider.Auth) secret.String {
	if !rs.admission.ownKey {
		return secret.String{}
	}
	key := rs.sentKey(a)
	if rs.admission.snap.IsCredential(key, rs.admission.entry.Time) {
		return secret.String{}
	}
	return secret.New(key)
}

func (rs *resolver) sentKey(a *provider.Auth) string {
	if v := rs.admission.request.Received.Header["Authorization"]; len(v) == 1 {
		token := snapshot.Bearer(rs.admission.request.Received.Header)
		if token != "" && (a.Header != "Authorization" || a.Scheme != "" || rs.admission.snap.IsCredential(token, rs.admission.entry.Time)) {
			return token
		}
		if strings.EqualFold(strings.TrimSpace(v[0]), "bearer") { // the token of an unset variable
			return ""
		}
		return v[0] // used unchanged
	}
	if v := rs.admission.request.Received.Header[a.Header]; len(v) == 1 {
		return v[0]
	}
	return ""
}
