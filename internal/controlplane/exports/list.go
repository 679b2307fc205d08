package exports

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// listed are the filters by values of a field of entries.
var listed = []struct {
	name  string
	words func(f *Filters) StringList
	field logstore.Field
}{
	{"status_code", func(f *Filters) StringList { return f.Statuses }, logstore.ByStatus},
	{"outcome", func(f *Filters) StringList { return f.Outcomes }, logstore.ByOutcome},
	{"error_code", func(f *Filters) StringList { return f.Codes }, logstore.ByErrorCode},
	{"cache_status", func(f *Filters) StringList { return f.Caches }, logstore.ByCache},
	{"virtual_keys", func(f *Filters) StringList { return f.Slugs }, logstore.ByProvider},
	{"configs", func(f *Filters) StringList { return f.Configs }, logstore.ByConfig},
	{"prompt_slug", func(f *Filters) StringList { return f.Prompts }, logstore.ByPrompt},
	{"target", func(f *Filters) StringList { return f.Targets }, logstore.ByTarget},
	{"model", func(f *Filters) StringList { return f.Requested }, logstore.ByModel},
	{"upstream_model", func(f *Filters) StringList { return f.Upstream }, logstore.ByUpstreamModel},
	{"response_model", func(f *Filters) StringList { return f.Response }, logstore.ByResponseModel},
}

// resolve replaces the names of providers and configs by slugs and ids, as entries have
// them, and checks keys and prompts. The export then has the same rows whenever it is written.
func (f *Filters) resolve(ctx context.Context, names route.LogNames) error {
	for _, r := range []struct {
		name  string
		words *StringList
		find  func(list []string) ([]string, error)
	}{
		{"configs", &f.Configs, func(list []string) ([]string, error) { return names.Configs(ctx, "filters.configs", list) }},
		{"api_key_ids", &f.Keys, func(list []string) ([]string, error) { return list, names.CheckKeys(ctx, "filters.api_key_ids", list) }},
		{"prompt_slug", &f.Prompts, func(list []string) ([]string, error) {
			return list, names.CheckPrompts(ctx, "filters.prompt_slug", list)
		}},
		{"error_code", &f.Codes, func(list []string) ([]string, error) {
			return list, names.CheckErrorCodes(ctx, "filters.error_code", list)
		}},
		{"virtual_keys", &f.Slugs, func(list []string) (slugs []string, err error) {
			for _, ref := range list {
				slug, err := names.Slug(ctx, "filters.virtual_keys", ref)
				if err != nil {
					return nil, err
				}
				slugs = append(slugs, slug)
			}
			return slugs, nil
		}},
		{"provider", &f.Providers, func(list []string) (refs []string, err error) {
			found, err := names.Providers(ctx, "filters.provider", list)
			for _, p := range found {
				ref := p.Service
				if p.Slug != "" {
					ref = "@" + p.Slug
				}
				refs = append(refs, ref)
			}
			return refs, err
		}},
	} {
		list, err := r.words.list(r.name)
		if err != nil {
			return err
		}
		if list == nil {
			continue
		}
		if list, err = r.find(list); err != nil {
			return err
		}
		if r.words.JSON, err = json.Marshal(list); err != nil {
			return err
		}
	}
	return nil
}

// readLists reads the filters with lists of values. Providers are already resolved.
func (f *Filters) readLists(w *rowFilter) (err error) {
	w.is = make(map[logstore.Field][]string)
	for _, l := range listed {
		list, err := l.words(f).list(l.name)
		if err != nil {
			return err
		}
		if list != nil {
			w.is[l.field] = list
		}
	}
	if list, ok := w.is[logstore.ByStatus]; ok {
		if w.is[logstore.ByStatus], err = route.ExpandStatuses("filters.status_code", list); err != nil {
			return err
		}
	}
	for _, s := range w.is[logstore.ByCache] {
		if !slices.Contains(reqlog.CacheStatuses, s) {
			return route.Invalid("filters.cache_status", "must be one or more of %s, not %.40q", strings.Join(reqlog.CacheStatuses, ", "), s)
		}
	}
	for _, s := range w.is[logstore.ByOutcome] {
		if _, ok := reqlog.ParseOutcome(s); !ok {
			return route.Invalid("filters.outcome", "must be success, error, cancelled or other, not %.20q", s)
		}
	}
	if w.keys, err = f.Keys.list("api_key_ids"); err != nil {
		return err
	}
	if err := route.CheckKeyIDs("filters.api_key_ids", w.keys); err != nil {
		return err
	}
	models, err := f.Models.list("ai_org_model")
	if err != nil {
		return err
	}
	for _, text := range models {
		m, err := route.ProviderModel("filters.ai_org_model", text)
		if err != nil {
			return err
		}
		w.models = append(w.models, m)
	}
	refs, err := f.Providers.list("provider")
	for _, ref := range refs {
		p := logstore.Provider{Service: ref}
		if slug, ok := strings.CutPrefix(ref, "@"); ok {
			p = logstore.Provider{Slug: slug}
		}
		w.providers = append(w.providers, p)
	}
	return err
}

// matches reports whether an entry found by the log matches the filters that the log
// does not evaluate.
func (w *rowFilter) matches(e *reqlog.Entry) bool {
	return (w.span == "" || w.span == e.SpanID) &&
		(w.models == nil || slices.Contains(w.models, logstore.ServedModel{Service: e.Provider, Model: e.Model}))
}

// count returns the approximate number of rows; times are rounded to the minute.
func (w *rowFilter) count(ctx context.Context, row *store.Export,
	sum func(context.Context, logstore.GroupQuery) ([]logstore.Group, error)) (int64, error) {
	q := logstore.GroupQuery{
		Scope: w.scope(row), From: w.query.From, To: w.query.To, Models: w.models, Providers: w.providers, Is: w.is,
		TraceID: w.query.TraceID, SpanID: w.span, Metadata: w.query.Metadata,
		Tokens: logstore.IntRange(w.query.Tokens), Prompt: logstore.IntRange(w.query.PromptTokens),
		Completion: logstore.IntRange(w.query.CompletionTokens), Cost: logstore.IntRange(w.query.Cost),
		Weighted: w.query.Weighted,
	}
	sums, err := sum(ctx, q)
	n := int64(0)
	for i := range sums {
		n += sums[i].Requests
	}
	return min(max(n-int64(w.skip), 0), int64(w.size)), err
}
