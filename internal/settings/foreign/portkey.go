package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"modelgate/config"
	"modelgate/internal/settings"
)

// readPortkey reads a config of Portkey, or an export with lists of configs and virtual keys,
// as its API returns them.
// https://portkey.ai/docs/api-reference/inference-api/config-object
func (b *builder) readPortkey(root entry) error {
	b.prefixes = []string{"x-portkey-"}
	b.note("", Taken, "the headers x-portkey-… are read like x-gateway-… (docs/headers.md)")
	var configs []entry
	for _, list := range []entry{root.get("virtual_keys"), root.get("integrations"), root.get("providers"),
		root.get("configs"), root.get("data"), root} {
		for _, e := range list.items() {
			if e.first("config").exists() {
				configs = append(configs, e)
				continue
			}
			if err := b.portkeyAccount(e); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"object", "total", "success", "has_more"} {
		root.get(name).readAll()
	}
	for _, e := range configs {
		for _, name := range []string{"object", "id", "version_id", "is_default", "status", "owner_id", "updated_by",
			"created_at", "last_updated_at", "organisation_id", "workspace_id"} {
			e.get(name).readAll()
		}
		slug := e.first("slug", "name", "id").text()
		e.get("name")
		body := e.get("config")
		v := body.readAll()
		if text, isText := v.(string); isText {
			var err error
			if v, err = parseJSON([]byte(text)); err != nil {
				b.note(body.path, Missing, "the config is not a JSON object")
				continue
			}
		}
		if err := b.portkeyConfig(body.path, slug, v); err != nil {
			return err
		}
	}
	if m, ok := root.value.(map[string]any); ok && len(configs) == 0 && len(b.providers) == 0 {
		root.seen[""] = true
		for _, name := range root.fields() {
			root.get(name).readAll()
		}
		return b.portkeyConfig("config", configSlug, m)
	}
	return nil
}

// portkeyAccount adds the provider of a virtual key. Its credential is masked in exports, so
// the file refers to a variable.
func (b *builder) portkeyAccount(e entry) error {
	for _, name := range []string{"object", "id", "status", "created_at", "last_updated_at", "reset_usage",
		"workspace_id", "organisation_id", "name", "note", "description"} {
		e.get(name).readAll()
	}
	name := e.first("slug", "name").text()
	id := e.first("ai_provider_id", "ai_provider_name", "ai_provider", "provider").text()
	spec, ok := providerOf(id)
	if name == "" || !ok {
		b.note(e.path, Missing, "the gateway does not know the provider; use openai-compatible with its address (docs/providers.md)")
		e.readAll()
		return nil
	}
	key := e.get("key")
	a := account{name: name, spec: spec, base: e.get("custom_host"), options: map[string]entry{}}
	slug, err := b.open(a)
	if err != nil || slug == "" {
		return err
	}
	i := slices.IndexFunc(b.providers, func(p settings.Provider) bool { return p.Slug == slug })
	if spec.NeedsKey(nil) {
		key.readAll()
		text := key.text()
		if text == "" || strings.ContainsAny(text, "*•") || b.options.Box == nil {
			text = ""
			b.providers[i].APIKey = b.variableFor(slug, key.path)
		}
		if text != "" {
			b.providers[i].APIKey = b.protect(text, slug+"_API_KEY", key.path)
		}
	}
	b.portkeyLimits(e, &b.providers[i])
	b.lists(slug, "")
	outcome, text := Taken, "requests name it @"+slug+" or by x-portkey-virtual-key"
	if slug != name {
		outcome, text = Changed, "its slug is now "+slug
	}
	b.note(e.path, outcome, text)
	return nil
}

// variableFor returns a reference to the variable with the credential of a provider.
func (b *builder) variableFor(slug, path string) string {
	sealed := b.options.Box
	b.options.Box = nil
	defer func() { b.options.Box = sealed }()
	return b.protect("masked", slug+"_API_KEY", path)
}

// portkeyLimits reads limits, which have the form of this gateway.
func (b *builder) portkeyLimits(e entry, p *settings.Provider) {
	read := func(field string, into any, isValid func() bool) bool {
		limits := e.get(field)
		if !limits.exists() {
			return false
		}
		text, err := json.Marshal(limits.readAll())
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil || !isValid() {
			b.note(limits.path, Missing, "limits of another form; set them again (docs/limits.md)")
			return false
		}
		b.note(limits.path, Taken, "limits of the provider, which count from zero")
		return true
	}
	u := new(settings.Usage)
	if read("usage_limits", u, func() bool { return isUsage(u) }) {
		p.UsageLimits = &settings.Usage{Type: u.Type, CreditLimit: u.CreditLimit, AlertThreshold: u.AlertThreshold,
			PeriodicReset: u.PeriodicReset}
	}
	var rates []settings.Rate
	if read("rate_limits", &rates, func() bool { return len(rates) <= 6 && !slices.ContainsFunc(rates, isNotRate) }) {
		p.RateLimits = rates
	}
}

// isUsage reports whether a budget is one that a provider can have.
func isUsage(u *settings.Usage) bool {
	least := 1.0
	if u.Type == "tokens" {
		least = 100
	}
	return slices.Contains([]string{"", "cost", "tokens"}, u.Type) && slices.Contains([]string{"", "monthly", "weekly"},
		u.PeriodicReset) &&
		u.CreditLimit != nil && *u.CreditLimit >= least && *u.CreditLimit < 1e15 &&
		(u.AlertThreshold == nil || *u.AlertThreshold >= 1 && *u.AlertThreshold <= *u.CreditLimit)
}

// isNotRate reports whether no provider can have a rate limit.
func isNotRate(r settings.Rate) bool {
	return r.Type != "requests" && r.Type != "tokens" || !slices.Contains([]string{"rpm", "rph", "rpd"},
		r.Unit) || r.Value < 1 || r.Value > 1<<53
}

// maxRepairs is how often a config is read until nothing of it is unknown.
const maxRepairs = 20

// portkeyConfig adds a config. Properties that the gateway has by another name are renamed, and
// those that it does not have are left out.
func (b *builder) portkeyConfig(path, slug string, v any) error {
	if _, ok := v.(map[string]any); !ok {
		b.note(path, Missing, "the config is not a JSON object")
		return nil
	}
	if slug = strings.Trim(otherSlug.ReplaceAllString(slug, "-"), "-"); slug == "" {
		slug = configSlug
	}
	b.legacyStrategies(v, path, 0)
	for range maxRepairs {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = config.Parse(text)
		if err == nil {
			return b.addPortkey(path, cut64(slug), v)
		}
		faults, ok := errors.AsType[*config.Errors](err)
		if !ok {
			return err
		}
		changed := false
		for _, f := range slices.Backward(faults.Faults) {
			changed = b.repair(v, path, f) || changed
		}
		if !changed {
			b.note(path, Missing, "the config was left out: "+cut(faults.Error(), 300))
			return nil
		}
	}
	b.note(path, Missing, "the config was left out: it has too many properties that the gateway does not know")
	return nil
}

// legacyStrategies turns mode and options, the older form, into a strategy with targets.
func (b *builder) legacyStrategies(v any, path string, depth int) {
	m, ok := v.(map[string]any)
	if !ok || depth > config.MaxDepth {
		return
	}
	if mode, ok := m["mode"].(string); ok && m["strategy"] == nil {
		if mode != "single" || m["options"] != nil || m["targets"] != nil {
			m["strategy"] = map[string]any{"mode": mode}
		}
		delete(m, "mode")
	}
	if options, ok := m["options"]; ok && m["targets"] == nil {
		m["targets"] = options
		delete(m, "options")
		b.note(path+".options", Changed, "named targets")
	}
	targets, _ := m["targets"].([]any)
	for i, t := range targets {
		b.legacyStrategies(t, path+".targets["+strconv.Itoa(i)+"]", depth+1)
	}
}

// repair renames or removes the property of a fault, and reports whether it could.
func (b *builder) repair(root any, path string, f config.FieldError) bool {
	parent, name, ok := locate(root, strings.TrimPrefix(f.Path, "$"))
	if !ok {
		return false
	}
	at := path + strings.TrimPrefix(f.Path, "$")
	own := config.OwnName(name)
	for _, prefix := range []string{"vendora_", "vendorb_", "cloud_", "strict_"} {
		if _, taken := parent[own]; strings.HasPrefix(own, prefix) && own != name && !taken {
			parent[own] = parent[name]
			delete(parent, name)
			b.note(at, Taken, "the property is called "+own)
			return true
		}
	}
	delete(parent, name)
	b.note(at, Missing, "the property was left out: it "+cut(f.Message, 200))
	return true
}

// locate returns the object that has the property at a path such as .targets[0].name.
func locate(v any, path string) (parent map[string]any, name string, ok bool) {
	for path != "" {
		if rest, isIndex := strings.CutPrefix(path, "["); isIndex {
			index, after, _ := strings.Cut(rest, "]")
			list, _ := v.([]any)
			i, err := strconv.Atoi(index)
			if err != nil || i < 0 || i >= len(list) {
				return nil, "", false
			}
			v, path = list[i], after
			continue
		}
		m, _ := v.(map[string]any)
		path = strings.TrimPrefix(path, ".")
		n := strings.IndexAny(path, ".[")
		if n < 0 {
			n = len(path)
		}
		if _, has := m[path[:n]]; !has {
			return parent, name, false
		}
		parent, name = m, path[:n]
		v, path = m[path[:n]], path[n:]
	}
	return parent, name, parent != nil
}

// addPortkey adds a config that the gateway reads, without guardrails that it does not have,
// and with the providers that it names.
func (b *builder) addPortkey(path, slug string, v any) error {
	if err := b.portkeyNodes(v, path, 0); err != nil {
		if errors.Is(err, errUnknownSlug) {
			b.note(path, Missing,
				"the config was left out: it names a virtual key that is not in the file, and whose provider its name does not tell; export virtual keys too")
			return nil
		}
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text, err = config.ReplaceCredentials(text, func(c config.Credential) (string, error) {
		return b.protect(c.Value.Reveal(), slug+"_"+c.Path, path+strings.TrimPrefix(c.Path, "$")), nil
	})
	if err != nil {
		return err
	}
	for base, n := slug, 2; slices.ContainsFunc(b.configs, func(c settings.Config) bool { return c.Slug == slug }); n++ {
		slug = fmt.Sprintf("%s-%d", base, n)
	}
	b.configs = append(b.configs, settings.Config{Slug: slug, Config: text})
	b.note(path, Taken, "clients send x-portkey-config: "+slug+" as before, or x-gateway-config")
	return nil
}

var errUnknownSlug = errors.New("unknown virtual key")

// portkeyNodes prepares a node of a config and its targets.
func (b *builder) portkeyNodes(v any, path string, depth int) error {
	m, ok := v.(map[string]any)
	if !ok || depth > config.MaxDepth {
		return nil
	}
	for _, name := range []string{"input_guardrails", "output_guardrails", "inputGuardrails", "outputGuardrails"} {
		if _, has := m[name]; has {
			delete(m, name)
			b.note(path+"."+name, Missing,
				"requests are NOT checked until you create the guardrails (docs/guardrails.md) and name them in the config")
		}
	}
	for _, name := range []string{"virtual_key", "virtualKey", "provider"} {
		text, _ := m[name].(string)
		slug, managed := strings.CutPrefix(text, "@")
		if text == "" || name == "provider" && !managed {
			continue
		}
		if slices.ContainsFunc(b.providers, func(p settings.Provider) bool { return p.Slug == slug }) {
			continue
		}
		word, _, _ := strings.Cut(slug, "-")
		spec, known := providerOf(slug)
		if !known {
			spec, known = providerOf(word)
		}
		if !known || otherSlug.MatchString(slug) {
			return errUnknownSlug
		}
		made, err := b.open(account{name: slug, spec: spec})
		if err != nil {
			return err
		}
		if made != slug {
			return errUnknownSlug
		}
		b.providers[len(b.providers)-1].APIKey = b.variableFor(slug, cmp.Or(path, "config"))
		b.lists(slug, "")
		b.note(path+"."+name, Changed,
			"the file does not say which provider it is: "+spec.ID+" was guessed from its name; correct it if it is another")
	}
	targets, _ := m["targets"].([]any)
	for i, t := range targets {
		if err := b.portkeyNodes(t, path+".targets["+strconv.Itoa(i)+"]", depth+1); err != nil {
			return err
		}
	}
	return nil
}
