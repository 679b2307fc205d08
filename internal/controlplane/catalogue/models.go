package catalogue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
)

// Model is a model with its price and limits.
type Model struct {
	ID         string   `json:"id" doc:"As requests name it: @slug/model for a model of a provider of the workspace"`
	Model      string   `json:"model" doc:"Name without the provider; with a star at its end, of all models that begin so"`
	Provider   string   `json:"ai_provider_id"`
	Slug       *string  `json:"provider_slug" doc:"Of the workspace's provider; null for the price book"`
	BaseModel  *string  `json:"base_model_slug"`
	Operations []string `json:"operations" doc:"That the provider offers, not all of them for this model"`
	Price      *Price   `json:"price" doc:"Null if unknown, which is not free"`
	Limits     Limits   `json:"limits"`
	Thinks     bool     `json:"thinks" doc:"Whether the model is known to think"`
	Efforts    []string `json:"efforts" doc:"Thinking efforts that it accepts, as far as known"`
	Object     string   `json:"object"`
}

// Limits are what is known of a model's limits.
type Limits struct {
	Output      *int64 `json:"max_output_tokens" doc:"Null if unknown"`
	MinThinking *int64 `json:"min_thinking_tokens" doc:"Least budget for thinking; null if unknown"`
	MaxThinking *int64 `json:"max_thinking_tokens"`
}

// Price is a price in force. Rates are in picodollars for a token: 1,000,000 is a dollar for
// a million.
type Price struct {
	Row       string           `json:"row" doc:"Its name in the log and the ledger"`
	From      route.Time       `json:"from" doc:"Null if always"`
	Free      bool             `json:"free" doc:"Of capacity that has been paid for"`
	Rates     map[string]int64 `json:"rates_pico" doc:"By kind of token; a kind that is missing costs as much as input or output"`
	Above     *int64           `json:"long_above_tokens" doc:"Prompts with more tokens have the rates long_rates_pico"`
	Long      map[string]int64 `json:"long_rates_pico"`
	Request   int64            `json:"request_nano" doc:"For each request, in nanodollars"`
	Tiers     map[string]int   `json:"tiers_percent" doc:"Of the price, in service tiers"`
	Images    map[string]int64 `json:"images_nano" doc:"Of an image by quality and size"`
	Second    *int64           `json:"second_nano" doc:"Of a second of audio"`
	Character *int64           `json:"character_pico" doc:"Of a character to speak"`
}

type modelsInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug; required for organisation keys unless from is book"`
	From      string `query:"from" enum:"providers,book" default:"providers" doc:"providers: models of the workspace's providers that the caller may use, at their negotiated prices. book: the price book in force, for all providers"`
	Provider  string `query:"provider" maxLength:"255" doc:"Id of a provider, or @slug of one of the workspace"`
	Operation string `query:"operation" maxLength:"64" doc:"Returns only models of providers that offer it"`
	Search    string `query:"search" maxLength:"255" doc:"Part of a model's or provider's name, in any case"`
	route.Paging
}

func (o Routes) listModels(ctx context.Context, c *route.Caller, in *modelsInput) (*route.List[Model], error) {
	if err := checkOperation(in.Operation); err != nil {
		return nil, err
	}
	l := lister{modelsInput: in, now: c.Now}
	if o.Snapshot != nil {
		l.snap = o.Snapshot()
	}
	if in.From == "book" {
		if strings.HasPrefix(in.Provider, "@") {
			return nil, route.Invalid("provider", "must be the id of a provider for the price book")
		}
		return l.page(l.book())
	}
	w, err := c.InWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	id, err := c.IdentityIn(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	found, err := l.ofProviders(id)
	if err != nil {
		return nil, err
	}
	return l.page(found)
}

// lister lists the models that a request selects.
type lister struct {
	*modelsInput
	snap *snapshot.Snapshot // nil has no models
	now  time.Time
}

// candidate is a model that matches, before its price is looked up.
type candidate struct {
	name  string
	spec  *provider.Spec
	entry *snapshot.ManagedProvider // nil for the price book
	price *catalog.Price            // of the price book
}

// page returns the page that the request selects.
func (l *lister) page(list []candidate) (*route.List[Model], error) {
	cut := route.Cut(list, l.Page, l.Size)
	return route.Listing(cut, len(list), nil, l.show)
}

// selects reports whether the request selects a model.
func (l *lister) selects(spec *provider.Spec, slug, model string) bool {
	if _, offered := spec.Paths[api.Operation(l.Operation)]; l.Operation != "" && !offered {
		return false
	}
	return matches(l.Search, model, slug, spec.ID, spec.Name)
}

// book returns the rows of the price book in force.
func (l *lister) book() (list []candidate) {
	if l.snap == nil {
		return nil
	}
	for _, id := range l.snap.Prices.Providers() {
		spec, ok := l.snap.Spec(id)
		if !ok || l.Provider != "" && !l.names(spec) {
			continue
		}
		for _, row := range l.snap.Prices.InForce(id, l.now) {
			if l.selects(spec, "", row.Model) {
				list = append(list, candidate{name: row.Model, spec: spec, price: row.Price})
			}
		}
	}
	return list
}

// names reports whether the request names a provider by its id or an alias.
func (l *lister) names(spec *provider.Spec) bool {
	named, ok := l.snap.Spec(l.Provider)
	return ok && named.ID == spec.ID
}

// ofProviders returns the models of the providers of a workspace that the identity may use.
func (l *lister) ofProviders(id *access.Identity) (list []candidate, err error) {
	if l.snap == nil {
		return nil, nil
	}
	policies, slugs := l.snap.Egress(id), slices.Sorted(slices.Values(l.snap.Slugs(id.Workspace)))
	seen := false
	for _, slug := range slugs {
		entry, _ := l.snap.Managed(id.Workspace, slug)
		if !id.AllowsProvider(slug) && !id.AllowsProvider(entry.Provider) || !l.namesEntry(entry) {
			continue
		}
		seen = true
		if entry.CheckUsable(l.now) != nil || policies.Check(egressOf(entry.Target)) != nil {
			continue
		}
		for _, model := range l.modelsOf(entry) {
			if l.selects(entry.Target.Spec, slug, model) && entry.Target.Models.Allows(model) {
				list = append(list, candidate{name: model, spec: entry.Target.Spec, entry: entry})
			}
		}
	}
	if strings.HasPrefix(l.Provider, "@") && !seen {
		return nil, route.NotFound("provider", "provider", l.Provider)
	}
	return list, nil
}

func egressOf(t *provider.Target) egress.Request {
	r := egress.Request{Managed: true}
	if t.Guarded {
		r.Host = t.Base
	}
	return r
}

// namesEntry reports whether the request selects a managed provider, by @slug or by the id
// of its kind.
func (l *lister) namesEntry(entry *snapshot.ManagedProvider) bool {
	if slug, ok := strings.CutPrefix(l.Provider, "@"); ok {
		return slug == entry.Slug
	}
	if l.Provider == "" {
		return true
	}
	spec, ok := l.snap.Spec(entry.Provider)
	return ok && l.names(spec)
}

// modelsOf returns the models that are known of a managed provider: those of its
// integration, otherwise those with a price.
func (l *lister) modelsOf(entry *snapshot.ManagedProvider) []string {
	if entry.Models != nil {
		return slices.Compact(slices.Sorted(slices.Values(entry.Models)))
	}
	names := make(map[string]bool)
	for _, row := range l.snap.Prices.InForce(entry.Provider, l.now) {
		if !strings.HasSuffix(row.Model, "*") {
			names[row.Model] = true
		}
	}
	if entry.Rules != nil {
		for model := range entry.Rules.Own {
			names[model] = true
		}
	}
	if p := entry.Target.Pricing; p != nil {
		for model := range p.Own {
			names[model] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// show returns a model for a response.
func (l *lister) show(m candidate) Model {
	out := Model{ID: m.name, Model: m.name, Provider: m.spec.ID, Operations: operations(m.spec), Efforts: []string{},
		Object: "catalogue.model"}
	base := m.name
	if m.entry != nil {
		out.ID, out.Slug = "@"+m.entry.Slug+"/"+m.name, &m.entry.Slug
		if t, err := m.entry.TargetFor(m.name); err == nil {
			m.price, _ = t.Price(l.snap.Prices, m.name, "", l.now)
			out.BaseModel, base = route.OrNull(t.BaseModel), t.BaseModelOf(m.name)
		}
	}
	if m.price != nil {
		out.Price = showPrice(m.price)
	}
	known := m.spec.Rule(strings.TrimSuffix(base, "*"))
	out.Limits = Limits{positive(known.MaxOutput), positive(known.MinBudget), positive(known.MaxBudget)}
	out.Thinks = known.Thinks()
	out.Efforts = append(out.Efforts, known.Efforts...)
	return out
}

func operations(spec *provider.Spec) []string {
	i, ok := slices.BinarySearchFunc(providers(), spec.ID, func(p Provider, id string) int { return cmp.Compare(p.ID, id) })
	if !ok { // a definition in addition to the table
		return []string{}
	}
	return providers()[i].Operations
}

// positive returns n, nil for zero, which is unknown.
func positive[N ~int64](n N) *int64 {
	if n == 0 {
		return nil
	}
	v := int64(n)
	return &v
}

// kinds are the names of kinds of tokens, as in settings.
var kinds = map[catalog.Kind]string{
	catalog.Input: "input", catalog.CachedInput: "cached_input", catalog.CacheWrite5m: "cache_write", catalog.CacheWrite1h: "cache_write_1h",
	catalog.InputAudio: "input_audio", catalog.InputImage: "input_image", catalog.Output: "output", catalog.Reasoning: "reasoning",
	catalog.OutputAudio: "output_audio", catalog.OutputImage: "output_image",
}

// showPrice returns a price for a response.
func showPrice(p *catalog.Price) *Price {
	out := &Price{Row: p.Row(), From: route.Time(p.From), Free: p.Free(), Rates: showRates(p, &p.Rates), Above: positive(p.Above),
		Long: map[string]int64{}, Request: int64(p.Request), Tiers: map[string]int{}, Images: map[string]int64{}}
	if p.Above > 0 {
		out.Long = showRates(p, &p.Long)
	}
	for name, percent := range map[string]int{"batch": p.Batch, "flex": cmp.Or(p.Flex, p.Batch), "priority": p.Priority} {
		if percent > 0 {
			out.Tiers[name] = percent
		}
	}
	if p.Units != nil {
		for name, price := range p.Units.Images {
			out.Images[name] = int64(price)
		}
		out.Second, out.Character = positive(p.Units.Second), positive(p.Units.Character)
	}
	return out
}

// showRates returns the rates that are known and have a kind of their own.
func showRates(p *catalog.Price, rates *catalog.Rates) map[string]int64 {
	out := make(map[string]int64)
	for kind, name := range kinds {
		input := kind <= catalog.InputImage
		if input && p.NoInput || !input && p.NoOutput {
			continue
		}
		if kind == catalog.Input || kind == catalog.Output || rates.HasRate(kind) {
			out[name] = int64(rates[kind])
		}
	}
	return out
}
