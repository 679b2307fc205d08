package foreign

import (
	"slices"
	"strings"

	"modelgate/internal/provider/table"
	"modelgate/internal/settings"
)

// bifrostOptions are the options of providers by the fields of Bifrost's keys.
var bifrostOptions = []struct{ object, field, option string }{
	{"azure_key_config", "api_version", "api_version"},
	{"azure_key_config", "client_id", "entra_client_id"},
	{"azure_key_config", "client_secret", "entra_client_secret"},
	{"azure_key_config", "tenant_id", "entra_tenant_id"},
	{"bedrock_key_config", "access_key", "access_key_id"},
	{"bedrock_key_config", "secret_key", "secret_access_key"},
	{"bedrock_key_config", "session_token", "session_token"},
	{"bedrock_key_config", "region", "region"},
	{"vertex_key_config", "project_id", "project_id"},
	{"vertex_key_config", "region", "region"},
}

// readBifrost reads a config.json of Bifrost, whose clients name models as provider/model.
// https://docs.getbifrost.ai/deployment-guides/config-json/providers
func (b *builder) readBifrost(root entry) error {
	providers := root.get("providers")
	groups := map[string][]node{}
	slugs := map[string][]string{} // of the keys of a provider
	for _, name := range providers.fields() {
		p := providers.get(name)
		spec, ok := providerOf(name)
		base := p.get("network_config").get("base_url")
		if custom := p.get("custom_provider_config").get("base_provider_type"); custom.exists() {
			spec, ok = providerOf(custom.text())
		}
		if ok && spec.ID == "openai" && base.exists() {
			spec, _ = table.Lookup("openai-compatible")
		}
		if !ok {
			b.note(p.path, Missing, "the gateway does not know the provider; use openai-compatible with its address (docs/providers.md)")
			p.readAll()
			continue
		}
		b.bifrostNetwork(p.get("network_config"))
		keys := p.get("keys").items()
		if len(keys) == 0 {
			keys = []entry{{path: p.path, seen: p.seen}}
		}
		for _, k := range keys {
			a := account{name: k.first("name", "id").text(), spec: spec, key: k.get("value"), base: base, options: map[string]entry{}}
			if !a.key.exists() {
				a.key = k.get("vertex_key_config").get("auth_credentials")
			}
			if e := k.get("azure_key_config").get("endpoint"); e.exists() {
				a.base = e
			}
			for _, o := range bifrostOptions {
				if e := k.get(o.object).get(o.field); e.exists() {
					a.options[o.option] = e
				}
			}
			slug, err := b.open(a)
			if err != nil {
				return err
			}
			if slug != "" {
				slugs[name] = append(slugs[name], slug)
				b.bifrostModels(name, slug, k, groups)
			}
		}
	}
	for name, targets := range groups {
		b.add(name, balance(targets, "loadbalance"))
	}
	return b.bifrostGovernance(root.get("governance"), slugs)
}

func (b *builder) bifrostNetwork(n entry) {
	if e := n.get("default_request_timeout_in_seconds"); e.exists() && b.root.Timeout == 0 {
		sec, _ := e.number()
		b.root.Timeout = int64(sec * 1000)
		b.note(e.path, Changed, "request_timeout of the config, for the models of all providers")
	}
	if e := n.get("max_retries"); e.exists() && b.root.Retry == nil {
		v, _ := e.number()
		b.root.Retry = &retry{int(min(v, 5))}
		b.note(e.path, Changed, "retries of the config, at most 5, for the models of all providers")
	}
}

// bifrostModels adds the targets for the models of a key.
func (b *builder) bifrostModels(name, slug string, k entry, groups map[string][]node) {
	sent := map[string]string{} // model of the provider by that of clients
	for _, m := range k.get("models").items() {
		sent[m.text()] = m.text()
	}
	for _, from := range []entry{k.get("azure_key_config").get("deployments"), k.get("bedrock_key_config").get("deployments"),
		k.get("aliases")} {
		for _, model := range from.fields() {
			sent[model] = from.get(model).text()
		}
	}
	if _, all := sent["*"]; all || len(sent) == 0 {
		delete(sent, "*")
		b.lists(slug, "")
		b.note(k.path, Changed,
			"it serves every model: clients name those without an entry of their own @"+slug+"/model instead of "+name+"/model")
	} else {
		b.note(k.path, Taken, "clients can use its models as before, as "+cut(name, 40)+"/model")
	}
	for model, upstream := range sent {
		if model == "" || upstream == "" {
			continue
		}
		target := node{Provider: "@" + slug, Override: map[string]any{"model": upstream}}
		if w := k.get("weight"); w.exists() {
			v, _ := w.number()
			target.Weight = &v
		}
		b.lists(slug, upstream)
		groups[name+"/"+model] = append(groups[name+"/"+model], target)
	}
}

// bifrostGovernance reads virtual keys with their budgets and rate limits.
func (b *builder) bifrostGovernance(g entry, slugs map[string][]string) error {
	byID := map[string]entry{}
	for _, section := range []string{"budgets", "rate_limits"} {
		for _, e := range g.get(section).items() {
			byID[section+e.get("id").text()] = e
		}
	}
	for _, v := range g.get("virtual_keys").items() {
		k := settings.Key{Name: v.first("name", "id").text()}
		v.get("id")
		if on := v.get("is_active"); on.exists() && !on.isTrue() {
			k.Disabled = true
		}
		for _, p := range v.get("provider_configs").items() {
			own := slugs[p.get("provider").text()]
			if len(own) == 0 {
				b.note(p.path, Missing, "the provider could not be taken over; the key may not use it")
			}
			k.Providers = append(k.Providers, own...)
			for _, name := range []string{"key_ids", "allowed_models", "weight"} {
				if e := p.get(name); e.exists() {
					e.readAll()
					if list, ok := e.value.([]any); !ok || !slices.Contains(list, any("*")) {
						b.note(e.path, Missing,
							"the key may use every model and credential of the provider; narrow its providers, or the models of an integration (docs/administration.md)")
					}
				}
			}
		}
		if v.get("provider_configs").exists() && len(k.Providers) == 0 {
			b.note(v.path, Missing, "none of its providers could be taken over, so the key was left out")
			continue
		}
		if e := byID["budgets"+v.get("budget_id").text()]; e.exists() {
			k.UsageLimits = b.bifrostBudget(e)
		}
		if e := byID["rate_limits"+v.get("rate_limit_id").text()]; e.exists() {
			k.RateLimits = b.bifrostRates(e)
		}
		b.key(v.get("value"), k)
	}
	return nil
}

// bifrostBudget returns a budget in the periods that the gateway has.
func (b *builder) bifrostBudget(e entry) *settings.Usage {
	limit, ok := e.get("max_limit").number()
	period := e.get("reset_duration").text()
	u := &settings.Usage{CreditLimit: &limit}
	switch period {
	case "1M", "30d":
		u.PeriodicReset = "monthly"
	case "1w", "7d":
		u.PeriodicReset = "weekly"
	case "1d", "24h":
		u.PeriodicResetDays = 1
	case "":
	default:
		ok = false
	}
	if !ok || limit < 1 {
		b.note(e.path, Missing,
			"budgets are of at least a dollar, and are reset daily, weekly, monthly or every few days; set one (docs/limits.md)")
		return nil
	}
	b.note(e.path, Changed, "a budget of each key that names it, which counts from zero")
	return u
}

func (b *builder) bifrostRates(e entry) []settings.Rate {
	var out []settings.Rate
	units := map[string]string{"1s": "rps", "1m": "rpm", "1h": "rph", "1d": "rpd", "1w": "rpw"}
	for _, kind := range []string{"request", "token"} {
		most, ok := e.get(kind + "_max_limit").number()
		every := e.get(kind + "_reset_duration")
		if !ok || most < 1 {
			continue
		}
		unit, ok := units[every.text()]
		if !ok {
			b.note(every.path, Missing, "rate limits are for a second, minute, hour, day or week; set one (docs/limits.md)")
			continue
		}
		out = append(out, settings.Rate{Type: kind + "s", Unit: unit, Value: int64(most)})
		b.note(strings.TrimSuffix(every.path, "_reset_duration"), Changed, "a rate limit of each key that names it")
	}
	return out
}
