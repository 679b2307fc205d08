package foreign

import (
	"regexp"
	"slices"
	"strings"

	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/settings"
)

// defaultParams are parameters of requests that LiteLLM sets for a model if the request lacks
// them, as default_params does.
var defaultParams = []string{"temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "seed", "stop", "presence_penalty",
	"frequency_penalty", "reasoning_effort", "n", "parallel_tool_calls", "dimensions"}

// litellmOptions are the options of providers by LiteLLM's parameters.
var litellmOptions = map[string]string{
	"api_version": "api_version", "aws_region_name": "region", "aws_access_key_id": "access_key_id",
	"aws_secret_access_key": "secret_access_key", "aws_session_token": "session_token", "aws_role_name": "role_arn",
	"vertex_project": "project_id", "vertex_location": "region", "tenant_id": "entra_tenant_id", "client_id": "entra_client_id",
	"client_secret": "entra_client_secret", "azure_ad_token": "ad_token",
}

// readLiteLLM reads a config.yaml of the LiteLLM proxy.
// https://docs.litellm.ai/docs/proxy/configs
func (b *builder) readLiteLLM(root entry) error {
	router, global, general := root.get("router_settings"), root.get("litellm_settings"), root.get("general_settings")
	mode := b.litellmMode(router.get("routing_strategy"))
	groups := map[string][]node{}
	var order []string
	for _, m := range root.get("model_list").items() {
		name := m.get("model_name").text()
		target, ok, err := b.litellmTarget(m, name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if name == "*" {
			b.rest = &target
			b.note(m.path, Taken, "serves the models without an entry of their own")
			continue
		}
		if groups[name] == nil {
			order = append(order, name)
		}
		groups[name] = append(groups[name], target)
		b.note(m.path, Taken, "clients can use the name as before")
	}
	chains := b.litellmFallbacks(router, global)
	for _, name := range order {
		nodes := []node{balance(slices.Clone(groups[name]), mode)}
		for _, other := range append(chains[name], chains["*"]...) {
			if other != name && groups[other] != nil {
				nodes = append(nodes, balance(slices.Clone(groups[other]), mode))
			}
		}
		b.add(name, fallback(nodes))
	}
	aliases := router.get("model_group_alias")
	for _, alias := range aliases.fields() {
		e := aliases.get(alias)
		to := e
		if e.fields() != nil {
			to = e.get("model")
		}
		if n, ok := b.routes[to.text()]; ok && alias != otherTarget {
			b.add(alias, n)
			b.note(e.path, Taken, "clients can use the name as before")
			continue
		}
		b.note(e.path, Missing, "it names a model that could not be taken over")
	}
	b.litellmRouter(router, global)
	if key := general.get("master_key"); key.exists() {
		b.key(key, settings.Key{Name: "imported master key"})
	}
	vars := root.get("environment_variables")
	for _, name := range vars.fields() {
		e := vars.get(name)
		if variableForm.MatchString(name) {
			b.note(e.path, Changed, "the gateway reads no variables from its file: set it in its environment if the file refers to it")
		}
	}
	return nil
}

// litellmTarget returns the target of a deployment, and false with a note if there is none.
func (b *builder) litellmTarget(m entry, name string) (target node, ok bool, err error) {
	p := m.get("litellm_params")
	model := p.get("model").text()
	if name == "" || model == "" {
		b.note(m.path, Missing, "it has no model_name or no litellm_params.model")
		return node{}, false, nil
	}
	prefix, rest, found := strings.Cut(model, "/")
	custom := p.get("custom_llm_provider").text()
	spec, known := providerOf(prefix)
	switch {
	case custom != "":
		if spec, known = providerOf(custom); found && prefix == custom {
			model = rest
		}
	case found && known:
		model = rest
	default:
		spec, known = familyOf(model)
		if !known && p.first("api_base", "base_url").exists() {
			spec, known = table.Lookup("openai-compatible")
		}
	}
	if !known {
		b.note(m.path, Missing, "the gateway does not know the provider; use openai-compatible with its address (docs/providers.md)")
		return node{}, false, nil
	}
	base := p.first("api_base", "base_url")
	if spec.ID == "openai" && base.exists() {
		spec, _ = table.Lookup("openai-compatible")
	}
	if strings.Contains(name, "*") && name != "*" || strings.Contains(model, "*") && (name != "*" || model != "*") {
		b.note(m.path, Missing, "patterns do not rename models: clients name them @"+spec.ID+"/model, or give each an entry")
		return node{}, false, nil
	}
	a := account{spec: spec, key: p.get("api_key"), base: base, options: map[string]entry{}}
	if v := p.first("vertex_credentials"); v.exists() {
		a.key = v
	}
	for theirs, ours := range litellmOptions {
		if _, takes := spec.FindOption(ours); takes {
			a.options[ours] = p.get(theirs)
		}
	}
	if !a.key.exists() && len(a.options) == 0 && spec.Env != "" && spec.BaseURL != "" {
		a.key = entry{value: "os.environ/" + spec.Env, path: p.path, seen: p.seen} // LiteLLM reads it there too
	}
	slug, err := b.open(a)
	if err != nil || slug == "" {
		return node{}, false, err
	}
	target = node{Provider: "@" + slug}
	if model != "*" {
		target.Override = map[string]any{"model": model}
		b.lists(slug, model)
	} else {
		b.lists(slug, "")
	}
	for _, name := range defaultParams {
		if v := p.get(name); v.exists() {
			if target.Default == nil {
				target.Default = map[string]any{}
			}
			target.Default[name] = v.readAll()
		}
	}
	if s, ok := p.first("timeout", "request_timeout").number(); ok {
		target.Timeout = int64(s * 1000)
	}
	for _, name := range []string{"weight", "rpm", "tpm"} { // as LiteLLM's shuffle weighs deployments
		e := p.get(name)
		if w, ok := e.number(); ok && target.Weight == nil {
			target.Weight = &w
			if name != "weight" {
				b.note(e.path, Changed, "used as the weight; to limit requests, set rate limits of the provider (docs/limits.md)")
			}
		}
	}
	return target, true, nil
}

func (b *builder) litellmMode(e entry) string {
	switch e.text() {
	case "", "simple-shuffle":
		return "loadbalance"
	case "latency-based-routing":
		return "latency"
	case "cost-based-routing":
		return "cost"
	}
	b.note(e.path, Changed, "loadbalance by weight; the gateway does not balance by use")
	return "loadbalance"
}

// litellmFallbacks returns the models to try after each. The star is of all models.
func (b *builder) litellmFallbacks(sections ...entry) map[string][]string {
	out := map[string][]string{}
	for _, s := range sections {
		for _, list := range s.get("fallbacks").items() {
			for _, name := range list.fields() {
				for _, to := range list.get(name).items() {
					out[name] = append(out[name], to.text())
				}
				b.note(list.path, Taken, "a fallback of the model, for every failure")
			}
		}
		for _, to := range s.get("default_fallbacks").items() {
			out["*"] = append(out["*"], to.text())
		}
	}
	for name := range out {
		slices.Sort(out[name][len(out[name]):])
		out[name] = slices.Compact(out[name])
	}
	return out
}

// litellmRouter reads retries, times, cooldowns and the cache.
func (b *builder) litellmRouter(router, global entry) {
	for _, s := range []entry{global, router} { // the router's take precedence
		if e := s.get("num_retries"); e.exists() {
			n, _ := e.number()
			b.root.Retry = &retry{int(min(n, 5))}
			b.note(e.path, Changed, "at most 5 retries, each at the same deployment; another one follows as a fallback")
		}
		for _, name := range []string{"request_timeout", "timeout"} {
			e := s.get(name)
			if sec, ok := e.number(); ok {
				b.root.Timeout = int64(sec * 1000)
				b.note(e.path, Taken, "request_timeout of the config, for each attempt")
			}
		}
		fails, cooldown := s.get("allowed_fails"), s.get("cooldown_time")
		if n, ok := fails.number(); ok {
			sec, _ := cooldown.number()
			b.root.Breaker = &breaker{int64(n) + 1, max(int64(sec*1000), 30000)}
			b.note(fails.path, Changed, "a circuit breaker (docs/routing.md#circuit-breaker), with a cooldown of at least 30 seconds")
		}
		params := s.get("cache_params")
		if e := s.get("cache"); e.isTrue() {
			b.root.Cache = &cache{Mode: "simple"}
			if sec, ok := params.get("ttl").number(); ok && sec >= 1 {
				b.root.Cache.MaxAge = int64(sec)
			}
			b.note(e.path, Changed, "cache of the config; its store is cache.store of the settings (docs/cache.md)")
		}
		if e := s.get("drop_params"); e.exists() {
			b.note(e.path, Changed, "the gateway always leaves out parameters that a provider lacks, and names them in x-gateway-params")
		}
	}
}

// familyOf returns the provider that alone has models of such a name.
func familyOf(model string) (spec *provider.Spec, known bool) {
	for _, f := range families {
		if regexp.MustCompile(f.pattern).MatchString(model) {
			return table.Lookup(f.provider)
		}
	}
	return nil, false
}
