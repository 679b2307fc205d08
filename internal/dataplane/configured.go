package dataplane

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// configHandler returns the handler of a request with a config.
func (rs *resolver) configHandler() (exchange.Handler, error) {
	text := strings.TrimSpace(rs.admission.opts.config)
	if len(text) > api.MaxConfigHeader {
		return nil, configError("the config is larger than %d bytes", api.MaxConfigHeader)
	}
	saved := !strings.HasPrefix(text, "{")
	if !saved && rs.admission.snap.RequiresSavedConfig(rs.admission.request.Identity.Organisation) {
		return nil, apierr.New(apierr.Forbidden, "this organisation does not allow inline configs; save the config and send its id").
			WithParam("x-gateway-config").WithCode("inline_config_blocked")
	}
	if saved {
		stored, ok := rs.admission.snap.Config(rs.admission.request.Identity.Workspace, text)
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
		text, rs.admission.entry.Config = stored.Text.Reveal(), stored.Ref()
		rs.admission.entry.ConfigVersion = stored.Version
		rs.admission.request.Cache.Config = rs.admission.entry.Config
	}
	tree, err := rs.tree(text)
	if err != nil {
		return nil, err
	}
	if err := rs.fillLeaves(tree.Leaves); err != nil {
		return nil, err
	}
	if err := rs.resolveLeaves(tree.Leaves, saved); err != nil {
		return nil, err
	}
	if err := rs.resolveGuards(tree.Guards); err != nil {
		return nil, err
	}
	rs.resolveEmbedders(tree.Embedders)
	rs.admission.trail.Explain = rs.admission.request.DryRun || len(tree.Leaves) > 1 || len(rs.filled) > 0
	if limit := rs.admission.plane.AttemptsTimeout; limit > 0 {
		rs.admission.request.AttemptDeadline = rs.admission.entry.Time.Add(limit)
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
func (rs *resolver) resolveLeaves(leaves []*config.Config, saved bool) error {
	var refusal error // why one of them cannot serve
	left := len(leaves)
	rs.admission.request.Leaves = make([]exchange.Leaf, left)
	for i, leaf := range leaves {
		out := &rs.admission.request.Leaves[i]
		c := rs.choiceFor(leaf)
		if saved && c.configured && rs.admission.opts.customHost != "" && c.customHost == rs.admission.opts.customHost {
			return errSavedConfigHost(leaf)
		}
		if f := rs.filled[leaf.PromptID]; f != nil {
			out.Prompt = &f.PromptEdits
		}
		out.Model = c.model
		if out.Target, out.Err = rs.target(c); out.Err == nil {
			if !c.configured {
				rs.admission.opts.markTaken(out.Target)
			}
			rs.noteUnusedOptions(out.Target, &c)
			continue
		}
		if leaf.Passthrough && !c.configured && !rs.admission.opts.namesProvider() {
			continue // the others may serve
		}
		if e := apierr.From(out.Err); e.Code != provider.CodeModelRefused && e.Kind != apierr.BudgetExhausted {
			return e
		}
		refusal = out.Err
		left--
	}
	if left == 0 {
		return refusal
	}
	for i, leaf := range leaves { // once it is known how the body is read
		if rs.admission.request.Leaves[i].Err == nil {
			rs.completeLeaf(&rs.admission.request.Leaves[i], leaf)
		}
	}
	return nil
}

// resolveEmbedders sets the targets that embed turns. If one cannot be used, the
// request goes on, and nothing similar is found.
func (rs *resolver) resolveEmbedders(list []*config.Embedding) {
	rs.admission.request.Embedders = make([]exchange.Leaf, len(list))
	for i, e := range list {
		t, err := rs.target(providerChoice{provider: e.Provider, model: e.Model, configured: true})
		if err == nil {
			t = t.InRegionOf(e.Model)
		}
		rs.admission.request.Embedders[i] = exchange.Leaf{Target: t, Model: e.Model, Err: err}
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

func configError(format string, args ...any) error {
	return apierr.New(apierr.Invalid, "AB01: "+format, args...).WithParam("x-gateway-config").WithCode("AB01")
}

// choiceFor returns the provider of a leaf. A root without a provider takes
// provider and credential from the headers; a node with a provider takes
// neither.
func (rs *resolver) choiceFor(leaf *config.Config) providerChoice {
	c := providerChoice{
		provider:   leaf.Provider,
		virtualKey: leaf.VirtualKey,
		key:        secret.New(leaf.APIKey.Reveal()),
		customHost: leaf.CustomHost,
		model:      rs.modelOf(leaf),
		configured: true,
	}
	c.given = optionsOf(leaf, c.model)
	c.options, c.clientKey, c.harmless = c.given, rs.takesClientKey(leaf), harmlessOnly(c.given)
	if slug := rs.filledProvider(leaf); slug != "" {
		c.provider = "@" + slug
	} else if providerFromRequest(leaf) {
		// A credential in the config is for the provider in the config.
		c.provider, c.virtualKey, c.configured = rs.admission.opts.provider, rs.admission.opts.virtualKey, false
		c.key, c.options = secret.String{}, rs.optionsOfRequest(c.given)
	}
	return c
}

// optionsOfRequest returns the options of a provider that the request names: those of its
// headers and those of the config, which win. A saved config sets only harmless ones: it
// must not decide where the client's credential is sent.
func (rs *resolver) optionsOfRequest(configured map[string]string) map[string]string {
	if len(configured) == 0 {
		return rs.admission.opts.options
	}
	all := make(map[string]string, len(configured)+len(rs.admission.opts.options))
	maps.Copy(all, rs.admission.opts.options)
	for name, value := range configured {
		if rs.admission.entry.Config == "" || config.IsHarmless(name) {
			all[name] = value
		}
	}
	return all
}

// noteUnusedOptions announces the options of a config that have no effect on its target,
// because the target is managed or the request names it.
func (rs *resolver) noteUnusedOptions(t *provider.Target, c *providerChoice) {
	managed := t.Slug != ""
	if c.configured && !managed || len(c.given) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.given)) {
		if !t.Spec.Takes(name) || !config.IsHarmless(name) && (managed || rs.admission.entry.Config != "") {
			rs.admission.noteIgnored(name)
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
func (rs *resolver) takesClientKey(leaf *config.Config) bool {
	return needsClientKey(leaf) && (leaf.CustomHost == "" || rs.admission.entry.Config == "")
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

// optionsOf returns the provider options in the leaf for requests for model.
func optionsOf(leaf *config.Config, model string) map[string]string {
	o := maps.Clone(map[string]string(leaf.Options))
	d := deploymentOf(leaf, model)
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

// deploymentOf returns the deployment for a model: the one with this alias, otherwise the
// default one, otherwise the one in the leaf itself.
func deploymentOf(leaf *config.Config, model string) config.Deployment {
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

// modelOf returns the model that attempts at a leaf ask for: the one that its config sets,
// else that of its saved prompt, else the requested one, else the config's default.
func (rs *resolver) modelOf(leaf *config.Config) string {
	override, _ := leaf.OverrideParams.Text("model")
	standard, _ := leaf.DefaultParams.Text("model")
	return cmp.Or(override, rs.filledModel(leaf), rs.admission.request.Model, standard)
}
