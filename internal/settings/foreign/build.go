package foreign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/table"
	"modelgate/internal/settings"
	"modelgate/internal/upstream"
)

// configSlug is the slug of the config that routes by names of models.
const configSlug = "imported"

// builder collects the objects of the file.
type builder struct {
	options Options
	report  Report

	providers []settings.Provider
	secrets   map[string]map[string]string // secret options of providers, by slug
	known     map[string]string            // slug by the content of a provider
	all       map[string]bool              // slugs of providers that serve any model
	keys      []settings.Key
	configs   []settings.Config
	prefixes  []string // of headers
	trusted   []string

	routes map[string]node // by model name
	rest   *node           // of models without a route; nil takes the provider from the request
	root   node            // properties of the config itself
	rules  []condition     // of names that match a pattern
}

func newBuilder(format string, o Options) *builder {
	return &builder{options: o, secrets: map[string]map[string]string{}, known: map[string]string{}, all: map[string]bool{},
		routes: map[string]node{}, report: Report{Source: format, Models: []string{}, Notes: []Note{}, Variables: []Variable{}}}
}

var (
	otherSlug    = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	otherName    = regexp.MustCompile(`[^A-Z0-9]+`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// slugOf returns a slug for a name that no provider has yet.
func (b *builder) slugOf(name string) string {
	base := cmp.Or(cut64(strings.Trim(otherSlug.ReplaceAllString(name, "-"), "-")), "provider")
	slug := base
	for n := 2; slices.ContainsFunc(b.providers, func(p settings.Provider) bool { return p.Slug == slug }); n++ {
		slug = fmt.Sprintf("%s-%d", base, n)
	}
	return slug
}

func cut64(s string) string { return s[:min(len(s), 64)] }

// maxProviders is the most providers of a file.
const maxProviders = 1000

var errProviders = fmt.Errorf("the file has more than %d providers with different credentials; divide it", maxProviders)

// addProvider returns the slug of a provider with these settings, which has one already if
// another model uses the same. The names are of its slug.
func (b *builder) addProvider(name string, p settings.Provider, secrets map[string]string) (string, error) {
	content, err := json.Marshal(struct {
		P settings.Provider
		S map[string]string
	}{p, secrets})
	if err != nil {
		return "", err
	}
	if slug, ok := b.known[string(content)]; ok {
		return slug, nil
	}
	if len(b.providers) == maxProviders {
		return "", errProviders
	}
	p.Slug = b.slugOf(name)
	b.known[string(content)] = p.Slug
	b.providers = append(b.providers, p)
	if len(secrets) > 0 {
		b.secrets[p.Slug] = secrets
	}
	return p.Slug, nil
}

// lists adds a model to those that GET /v1/models lists for a provider. An empty model means
// that the provider serves others too.
func (b *builder) lists(slug, model string) {
	if model == "" {
		b.all[slug] = true
		return
	}
	i := slices.IndexFunc(b.providers, func(p settings.Provider) bool { return p.Slug == slug })
	if !slices.Contains(b.providers[i].Models, model) {
		b.providers[i].Models = append(b.providers[i].Models, model)
	}
}

// credential returns what the file has for a credential of the source: a reference to a
// variable, or the sealed value. Name is of the variable if the source refers to none.
func (b *builder) credential(e entry, name string) string {
	if ref := reference(e.text()); ref != "" {
		return b.variable(ref, "")
	}
	text := e.text()
	if m, ok := e.readAll().(map[string]any); ok { // a service account
		j, err := json.Marshal(m)
		if err != nil {
			return ""
		}
		text = string(j)
	}
	return b.protect(text, name, e.path)
}

// protect returns what the file has for a credential in plain text.
func (b *builder) protect(text, name, path string) string {
	switch {
	case text == "":
		return ""
	case b.options.Box != nil:
		return b.options.Box.Seal(secret.New(text))
	}
	name = strings.Trim(otherName.ReplaceAllString(strings.ToUpper(name), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "IMPORTED_" + name
	}
	name = cut64(name)
	for base, n := name, 2; b.hasVariable(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return b.variable(name, path)
}

func (b *builder) hasVariable(name string) bool {
	return slices.ContainsFunc(b.report.Variables, func(v Variable) bool { return v.Name == name })
}

// variable returns a reference to a variable and lists it.
func (b *builder) variable(name, from string) string {
	if !b.hasVariable(name) {
		b.report.Variables = append(b.report.Variables, Variable{name, cut(from, 200)})
	}
	return "${" + name + "}"
}

// reference returns the variable that a value of LiteLLM or Bifrost refers to, if any.
func reference(text string) string {
	for _, prefix := range []string{"os.environ/", "env."} {
		if name, ok := strings.CutPrefix(text, prefix); ok && variableForm.MatchString(name) {
			return name
		}
	}
	return ""
}

// plain returns a setting that is not a credential. One in a variable is read from the
// environment, because the file can refer only to credentials.
func (b *builder) plain(e entry) string {
	name := reference(e.text())
	if name == "" {
		return e.text()
	}
	v, ok := b.environment(name)
	if !ok {
		b.note(e.path, Missing, "the file cannot refer to a variable here; set "+name+" and import again")
	}
	return v
}

// address returns the custom host for a base address of the source, and false if no provider
// can have it. Empty is the provider's own address.
func (b *builder) address(path, raw, providerID string) (string, bool) {
	raw = strings.TrimRight(strings.TrimSpace(raw), "/")
	if raw == "" {
		return "", true
	}
	spec, _ := table.Lookup(providerID)
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || spec == nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		b.note(path, Missing, "the address is not one that the gateway accepts (docs/settings.md#providers); provider left out")
		return "", false
	}
	own, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(spec.BaseURL))
	if err == nil && u.Path == "" && own.Path != "" {
		u.Path = own.Path // others append the version themselves
	} else if spec.ID == "openai-compatible" && u.Path == "" {
		u.Path = "/v1"
	}
	if u.String() == spec.BaseURL {
		return "", true
	}
	host := u.String()
	if _, err := upstream.New(upstream.Options{}).CheckHost(host); err == nil && strings.Contains(u.Hostname(), ".") {
		return host, true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	private := err == nil && (addr.IsPrivate() || addr.IsLoopback())
	if err != nil {
		private = !strings.Contains(strings.TrimSuffix(u.Hostname(), ".localhost"), ".") // a name within a network
	}
	trusted := upstream.New(upstream.Options{TrustedHosts: []string{u.Host}})
	if _, err := trusted.CheckHost(host); err != nil || !private {
		b.note(path, Missing, "the address guard refuses this address (docs/operations.md#security); provider left out")
		return "", false
	}
	if !slices.Contains(b.trusted, u.Host) {
		b.trusted = append(b.trusted, u.Host)
		b.note(path, Changed, "the address is private, so the file lists it in upstream.trusted_hosts")
	}
	return host, true
}

// key adds a gateway key by its hash, so that clients can keep theirs.
func (b *builder) key(e entry, k settings.Key) {
	value := e.text()
	if name := reference(value); name != "" {
		v, ok := b.environment(name)
		if !ok {
			b.note(e.path, Missing,
				"set "+name+" and import again, so that clients can keep this key; or create one with modelgate keys create")
			return
		}
		value = v
	}
	k.SHA256 = access.HashKey(value).String()
	switch {
	case len(value) < 16:
		b.note(e.path, Missing,
			"the key is shorter than 16 bytes; create another with modelgate keys create, and set config "+configSlug+" for it")
	case slices.ContainsFunc(b.keys, func(other settings.Key) bool { return other.SHA256 == k.SHA256 }):
		b.note(e.path, Missing, "another entry has the same key")
	default:
		k.Name, k.Scopes = cut64(k.Name), []string{"completions.write", "models.list"}
		b.keys = append(b.keys, k)
		b.note(e.path, Taken, "clients can keep this key for requests; the file has its hash")
	}
}

// add routes requests for a model to a target.
func (b *builder) add(model string, n node) {
	b.routes[model] = n
}

// otherTarget is the name of the target for models without a route.
const otherTarget = "other models"

// finish writes the file.
func (b *builder) finish() ([]byte, error) {
	if len(b.providers)+len(b.configs) == 0 {
		return nil, errors.New("nothing of it can be imported: it names no provider that the gateway has" + b.firstNote())
	}
	if len(b.routes)+len(b.rules) > 0 || b.rest != nil {
		if err := b.addConfig(); err != nil {
			return nil, err
		}
	}
	out := settings.Settings{Version: 1, Keys: b.keys, Configs: b.configs}
	out.Upstream.TrustedHosts, out.Compat.HeaderPrefixes = b.trusted, b.prefixes
	for _, p := range b.providers {
		if b.all[p.Slug] {
			p.Models = nil
		}
		slices.Sort(p.Models)
		if b.secrets[p.Slug] == nil {
			out.Providers = append(out.Providers, p)
			continue
		}
		options := maps.Clone(b.secrets[p.Slug])
		maps.Copy(options, p.Options)
		out.Integrations = append(out.Integrations, settings.Integration{Slug: p.Slug, Provider: p.Provider, APIKey: p.APIKey,
			CustomHost: p.CustomHost, Options: options, Workspaces: []settings.Grant{{Workspace: "default"}}})
		out.Providers = append(out.Providers, settings.Provider{Slug: p.Slug, Integration: p.Slug, RateLimits: p.RateLimits,
			UsageLimits: p.UsageLimits})
	}
	b.report.Apply = out.HasState()
	if b.report.Apply && len(b.trusted) > 0 {
		b.note("", Changed, "modelgate apply skips upstream.trusted_hosts: write "+strings.Join(b.trusted, ", ")+
			" into the settings of the gateway")
	}
	if b.report.Apply && len(b.prefixes) > 0 {
		b.note("", Changed, "modelgate apply skips compat.header_prefixes: write "+strings.Join(b.prefixes, ", ")+
			" into the settings of the gateway")
	}
	slices.SortFunc(b.report.Variables, func(x, y Variable) int { return strings.Compare(x.Name, y.Name) })
	var file bytes.Buffer
	err := out.WriteSections(&file)
	return file.Bytes(), err
}

func (b *builder) firstNote() string {
	if len(b.report.Notes) == 0 {
		return ""
	}
	return " (" + b.report.Notes[0].Setting + ": " + b.report.Notes[0].Text + ")"
}

// addConfig adds the config that routes by names of models, and lets keys use it.
func (b *builder) addConfig() error {
	root := b.root
	root.Strategy = &strategy{Mode: "conditional", Default: otherTarget}
	for _, model := range slices.Sorted(maps.Keys(b.routes)) {
		target := b.routes[model]
		target.Name = model
		root.Strategy.Conditions = append(root.Strategy.Conditions, condition{map[string]any{"params.model": model}, model})
		root.Targets = append(root.Targets, target)
		b.report.Models = append(b.report.Models, model)
	}
	if slices.Contains(b.report.Models, otherTarget) {
		return fmt.Errorf("a model is named %q, which is the name of a target of the import; rename it", otherTarget)
	}
	for _, r := range b.rules {
		root.Strategy.Conditions = append(root.Strategy.Conditions, r)
		root.Targets = append(root.Targets, node{Name: r.Then, Provider: "@" + r.Then})
	}
	rest := node{Passthrough: true}
	if b.rest != nil {
		rest = *b.rest
	}
	rest.Name = otherTarget
	root.Targets = append(root.Targets, rest)
	if n := len(root.Targets); n > config.MaxConditionalTargets {
		return fmt.Errorf("the file has %d names of models; a config routes %d: divide it", n-1, config.MaxConditionalTargets-1)
	}
	text, err := json.Marshal(root)
	if err != nil {
		return err
	}
	if _, err := config.Parse(text); err != nil {
		return fmt.Errorf("the routes do not fit into one config: %w", err)
	}
	b.configs = append(b.configs, settings.Config{Slug: configSlug, Config: text})
	for i := range b.keys {
		b.keys[i].Config = configSlug
	}
	if len(b.keys) == 0 {
		b.note("keys", Changed, "create a key with modelgate keys create and add its hash to keys with config: "+configSlug+
			"; or clients send x-gateway-config: "+configSlug)
	}
	return nil
}
