package dataplane

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline"
	"modelgate/internal/provider"
)

// configHandler returns the handler of an exchange with a config.
func (p *Plane) configHandler(x *exchange) (pipeline.Handler, error) {
	text := strings.TrimSpace(x.opts.config)
	if len(text) > api.MaxConfigHeader {
		return nil, configError("the config is larger than %d bytes", api.MaxConfigHeader)
	}
	saved := !strings.HasPrefix(text, "{")
	if !saved && x.snap.RequiresSavedConfig(x.Identity.Organisation) {
		return nil, apierr.New(apierr.Forbidden, "this organisation does not allow inline configs; save the config and send its id").
			WithParam("x-gateway-config").WithCode("inline_config_blocked")
	}
	if saved {
		stored, ok := x.snap.Config(x.Identity.Workspace, text)
		if !ok && !isConfigID(text) {
			return nil, configError("must be a config object or the id of a saved config")
		}
		if !ok {
			return nil, apierr.New(apierr.NotFound, "config %.60q not found; save it first, or send the config as a JSON object", text).
				WithParam("x-gateway-config").WithCode("unknown_config")
		}
		if stored.Err != nil {
			return nil, stored.Err
		}
		text, x.entry.Config = stored.Text.Reveal(), stored.Ref()
		x.Cache.Config = x.entry.Config
	}
	tree, err := p.tree(x, text)
	if err != nil {
		return nil, err
	}
	if err := x.fillLeaves(tree.Leaves); err != nil {
		return nil, err
	}
	if err := x.resolveLeaves(tree.Leaves, saved); err != nil {
		return nil, err
	}
	if err := x.resolveGuards(tree.Guards); err != nil {
		return nil, err
	}
	x.resolveEmbedders(tree.Embedders)
	x.trail.Explain = x.DryRun || len(tree.Leaves) > 1 || len(x.filled) > 0
	if p.AttemptsTimeout > 0 {
		x.AttemptDeadline = x.entry.Time.Add(p.AttemptsTimeout)
	}
	return tree, nil
}

// isConfigID reports whether text may be the id or slug of a saved config, rather than
// other JSON or text.
func isConfigID(text string) bool {
	other := strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.@", r))
	})
	return text != "" && len(text) <= maxWord && !other && !json.Valid([]byte(text))
}

// resolveLeaves sets the target of each leaf of the config for the request. A
// name that does not exist is an error before anything is sent. A leaf that
// only this request may not use is an error only if no other leaf can serve it.
func (x *exchange) resolveLeaves(leaves []*config.Config, saved bool) error {
	var refusal error // why one of them cannot serve
	left := len(leaves)
	x.Leaves = make([]pipeline.Leaf, left)
	for i, leaf := range leaves {
		out := &x.Leaves[i]
		c := x.choiceFor(leaf)
		if saved && c.configured && x.opts.customHost != "" && c.customHost == x.opts.customHost {
			return errSavedConfigHost(leaf)
		}
		if f := x.filled[leaf.PromptID]; f != nil {
			out.Prompt = &f.PromptEdits
		}
		if out.Target, out.Err = x.target(c); out.Err == nil {
			if !c.configured {
				x.opts.markTaken(out.Target)
			}
			x.noteUnusedOptions(leaf, out.Target, c.configured)
			continue
		}
		if leaf.Passthrough && !c.configured && !x.opts.namesProvider() {
			continue // the others may serve
		}
		if e := apierr.From(out.Err); e.Code != pipeline.CodeModelRefused && e.Kind != apierr.BudgetExhausted {
			return e
		}
		refusal = out.Err
		left--
	}
	if left == 0 {
		return refusal
	}
	for i, leaf := range leaves { // once it is known how the body is read
		if x.Leaves[i].Err == nil {
			x.fit(&x.Leaves[i], leaf)
		}
	}
	return nil
}

// resolveEmbedders sets the targets that embed turns. If one cannot be used, the
// request goes on, and nothing similar is found.
func (x *exchange) resolveEmbedders(list []*config.Embedding) {
	x.Embedders = make([]pipeline.Leaf, len(list))
	for i, e := range list {
		out := &x.Embedders[i]
		out.Target, out.Err = x.target(providerChoice{provider: e.Provider, model: e.Model, configured: true})
	}
}

// errSavedConfigHost returns the error for a request that would send a saved
// config's settings, including its credential, to a host that the request
// names.
func errSavedConfigHost(leaf *config.Config) error {
	return apierr.New(apierr.Invalid,
		"x-gateway-custom-host cannot be combined with %s of a saved config, whose credential is bound to its own host; send an inline config with your own credential instead", leaf.Path).
		WithParam("x-gateway-custom-host").WithCode("custom_host_refused")
}

// tree returns the compiled config. The options of the headers that change its
// root are part of its key. The state of its targets does not depend on them,
// except for the provider that the request chooses.
func (p *Plane) tree(x *exchange, text string) (*pipeline.Tree, error) {
	key := treeKey{
		text: text, workspace: x.Identity.Workspace, timeout: x.opts.rootTimeout(), forward: strings.Join(x.opts.forward, ","),
		customHost: x.opts.customHost, noCode: x.compilation().NoCode,
	}
	if x.opts.strict != nil {
		key.strict, key.isSet = *x.opts.strict, true
	}
	t, err := p.compiled(x, key)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(t.Leaves, providerFromRequest) {
		if err := x.chooseProvider(); err != nil {
			return nil, err
		}
		key.chosen = x.providerKey()
	}
	if sent := x.Received.Header["Authorization"]; x.ownKey && len(sent) > 0 && slices.ContainsFunc(t.Leaves, needsClientKey) {
		sum := sha256.Sum256([]byte(sent[0]))
		key.chosen += hex.EncodeToString(sum[:8])
	}
	if key.chosen == "" {
		return t, nil
	}
	return p.compiled(x, key)
}

func (p *Plane) compiled(x *exchange, key treeKey) (*pipeline.Tree, error) {
	k := p.trees.get(key)
	if k == nil {
		var err error
		if k, err = p.trees.make(key, func() (int, func() *pipeline.Tree, error) { return p.parse(x, key) }); err != nil {
			return nil, err
		}
	}
	x.trees = append(x.trees, k)
	return k.tree, nil
}

// compilation says how the checks of a config are compiled. An inline config may be that
// of anyone who may send requests, so code in it needs a key that may create guardrails.
func (x *exchange) compilation() guardrail.Compilation {
	saved := x.entry.Config != ""
	return guardrail.Compilation{Organisation: x.Identity.Organisation, NoCode: !saved && !x.Identity.May(access.ScopeGuardrailsCreate), Admitted: saved}
}

// parse parses the config of key. It returns its size and the function that
// compiles it.
func (p *Plane) parse(x *exchange, key treeKey) (int, func() *pipeline.Tree, error) {
	root, err := config.Parse([]byte(key.text))
	if err != nil {
		return 0, nil, apierr.New(apierr.Invalid, "%v", err).WithParam("x-gateway-config").WithCode("AB01")
	}
	if p.Guardrails != nil {
		if err := pipeline.CheckGuards(root, p.Guardrails.For(x.compilation())); err != nil {
			return 0, nil, apierr.New(apierr.Invalid, "%v", err).WithParam("x-gateway-config").WithCode("AB01")
		}
	}
	return root.Size(), func() *pipeline.Tree {
		state := sha256.Sum256([]byte(pipeline.Key(root) + " " + key.workspace + " " + key.customHost + " " + key.chosen))
		return p.compiler.Compile(x.opts.applyTo(root), hex.EncodeToString(state[:16]))
	}, nil
}

// providerKey returns a hash of the provider, its options and the client's
// credential. It keeps the breaker state of different clients apart.
func (x *exchange) providerKey() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", x.opts.provider, x.opts.virtualKey)
	if len(x.opts.options) > 0 {
		for _, name := range slices.Sorted(maps.Keys(x.opts.options)) {
			fmt.Fprintf(h, " %s %q", name, x.opts.options[name])
		}
	}
	if spec, ok := x.snap.Spec(x.opts.provider); ok {
		fmt.Fprintf(h, " %x", sha256.Sum256([]byte(x.clientKey(&spec.Auth).Reveal())))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// applyTo sets the options that override every config in its root, from which
// targets inherit them.
func (w *requestOptions) applyTo(root *config.Config) *config.Config {
	c := *root
	if limit := w.rootTimeout(); limit != 0 {
		c.RequestTimeout = max(limit, 0)
	}
	if w.forward != nil {
		c.ForwardHeaders = w.forward
	}
	if w.customHost != "" {
		c.CustomHost = w.customHost
	}
	if w.strict != nil {
		c.Strict = w.strict
	}
	return &c
}

// rootTimeout returns the timeout of attempts that replaces that of a config's root. It
// is negative for none, since a request with its own deadline needs no other, and zero
// if the config decides.
func (w *requestOptions) rootTimeout() time.Duration {
	if w.attempt == 0 && w.timeout > 0 {
		return -1
	}
	return w.attempt
}

func configError(format string, args ...any) error {
	return apierr.New(apierr.Invalid, "AB01: "+format, args...).WithParam("x-gateway-config").WithCode("AB01")
}

// choiceFor returns the provider of a leaf. A root without a provider takes
// provider and credential from the headers; a node with a provider takes
// neither.
func (x *exchange) choiceFor(leaf *config.Config) providerChoice {
	c := providerChoice{
		provider:   leaf.Provider,
		virtualKey: leaf.VirtualKey,
		key:        secret.New(leaf.APIKey.Reveal()),
		customHost: leaf.CustomHost,
		options:    x.options(leaf),
		model:      x.modelOf(leaf),
		configured: true,
	}
	c.clientKey, c.harmless = x.takesClientKey(leaf), harmlessOnly(c.options)
	if slug := x.filledProvider(leaf); slug != "" {
		c.provider = "@" + slug
	} else if providerFromRequest(leaf) {
		// A credential in the config is for the provider in the config.
		c.provider, c.virtualKey, c.configured = x.opts.provider, x.opts.virtualKey, false
		c.key, c.options = secret.String{}, x.optionsOfRequest(c.options)
	}
	return c
}

// optionsOfRequest returns the options of a provider that the request names: those of its
// headers and those of the config, which win. A saved config sets only harmless ones: it
// must not decide where the client's credential is sent.
func (x *exchange) optionsOfRequest(configured map[string]string) map[string]string {
	if len(configured) == 0 {
		return x.opts.options
	}
	all := make(map[string]string, len(configured)+len(x.opts.options))
	maps.Copy(all, x.opts.options)
	for name, value := range configured {
		if x.entry.Config == "" || config.IsHarmless(name) {
			all[name] = value
		}
	}
	return all
}

// noteUnusedOptions announces the options of a leaf that have no effect on its target,
// because the target is managed or the request names it.
func (x *exchange) noteUnusedOptions(leaf *config.Config, t *provider.Target, configured bool) {
	managed := t.Slug != ""
	if configured && !managed {
		return
	}
	list := x.options(leaf)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if !t.Spec.Takes(name) || !config.IsHarmless(name) && (managed || x.entry.Config != "") {
			x.noteIgnored(name)
		}
	}
}

// harmlessOnly returns the options that managed providers accept, nil if there are none.
func harmlessOnly(options map[string]string) map[string]string {
	var out map[string]string
	for name, value := range options {
		if config.IsHarmless(name) {
			if out == nil {
				out = make(map[string]string, 1)
			}
			out[name] = value
		}
	}
	return out
}

// takesClientKey reports whether a provider that the config names without a credential
// gets the client's. A host gets it only if the request itself names it: the authors of
// saved configs must not learn the credentials of others.
func (x *exchange) takesClientKey(leaf *config.Config) bool {
	return needsClientKey(leaf) && (leaf.CustomHost == "" || x.entry.Config == "")
}

// needsClientKey reports whether a leaf names a provider without a credential.
func needsClientKey(leaf *config.Config) bool {
	return leaf.Provider != "" && !strings.HasPrefix(leaf.Provider, "@") && leaf.VirtualKey == "" && leaf.APIKey.Reveal() == ""
}

// providerFromRequest reports whether the request chooses the provider of a
// leaf.
func providerFromRequest(leaf *config.Config) bool {
	return (leaf.Path == "config" || leaf.Passthrough) && leaf.Provider == "" && leaf.VirtualKey == ""
}

// options returns the provider options in the leaf.
func (x *exchange) options(leaf *config.Config) map[string]string {
	o := maps.Clone(map[string]string(leaf.Options))
	d := x.deployment(leaf)
	for name, value := range map[string]string{
		"cloud_b_service_account_json": leaf.ServiceAccount.Reveal(),

		"resource_name": leaf.ResourceName,
		"deployment_id": d.DeploymentID,
		"api_version":   d.APIVersion,
	} {
		if value == "" {
			continue
		}
		if o == nil {
			o = make(map[string]string, 3)
		}
		o[name] = value
	}
	return o
}

// deployment returns the deployment for the request's model: the one with this
// alias, otherwise the default one, otherwise the one in the leaf itself.
func (x *exchange) deployment(leaf *config.Config) config.Deployment {
	model := x.modelOf(leaf)
	chosen := config.Deployment{DeploymentID: leaf.DeploymentID, APIVersion: leaf.APIVersion}
	for _, d := range leaf.Deployments {
		if d.Alias == model {
			return d
		}
		if d.Default {
			chosen = d
		}
	}
	return chosen
}

// modelOf returns the model in a leaf.
func (x *exchange) modelOf(leaf *config.Config) string {
	if m, ok := leaf.OverrideParams.Text("model"); ok && m != "" {
		return m
	}
	if m := x.filledModel(leaf); m != "" {
		return m
	}
	if x.Model != "" {
		return x.Model
	}
	m, _ := leaf.DefaultParams.Text("model")
	return m
}
