package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/logstore"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
)

// Filters say which rows an export has. All that is given has to match.
type Filters struct {
	From time.Time `json:"time_of_generation_min" doc:"ISO 8601 with an offset"`
	To   time.Time `json:"time_of_generation_max" doc:"Later, by at most 366 days; not in the range itself"`
	Size int       `json:"page_size,omitempty" minimum:"1" maximum:"50000" doc:"Rows of the file; 50000 when absent"`
	Page int       `json:"current_page,omitempty" minimum:"0" maximum:"1000000" doc:"So many times page_size newer rows are left out"`

	Workspace string   `json:"workspace_slug,omitempty" maxLength:"255" doc:"As workspace_id; of no meaning for keys of a workspace"`
	Statuses  Words    `json:"status_code,omitzero" doc:"One of these"`
	Slugs     Words    `json:"virtual_keys,omitzero" doc:"Slugs of providers, one of these"`
	Configs   Words    `json:"configs,omitzero" doc:"Ids of configs, one of these"`
	Keys      Words    `json:"api_key_ids,omitzero" doc:"One of these"`
	Models    Words    `json:"ai_org_model,omitzero" doc:"As provider__model, one of these"`
	Prompts   Words    `json:"prompt_slug,omitzero" doc:"One of these"`
	Metadata  Metadata `json:"metadata,omitzero" doc:"Strings by their keys, all of which have to match"`
	TraceID   string   `json:"trace_id,omitempty" maxLength:"255"`
	SpanID    string   `json:"span_id,omitempty" maxLength:"255"`

	TotalMin      *int64 `json:"total_units_min,omitempty" minimum:"0" doc:"Tokens of a request"`
	TotalMax      *int64 `json:"total_units_max,omitempty" minimum:"0"`
	PromptMin     *int64 `json:"prompt_token_min,omitempty" minimum:"0"`
	PromptMax     *int64 `json:"prompt_token_max,omitempty" minimum:"0"`
	CompletionMin *int64 `json:"completion_token_min,omitempty" minimum:"0"`
	CompletionMax *int64 `json:"completion_token_max,omitempty" minimum:"0"`
	CostMin       Cents  `json:"cost_min,omitzero" doc:"US cents of a request, with up to 7 decimals"`
	CostMax       Cents  `json:"cost_max,omitzero"`

	FeedbackMin *float64 `json:"weighted_feedback_min,omitempty" minimum:"-10" maximum:"10" doc:"Average of the feedback of a request's trace, value times weight"`
	FeedbackMax *float64 `json:"weighted_feedback_max,omitempty" minimum:"-10" maximum:"10"`
}

// Words are texts, written as a list or as a text with commas.
type Words struct{ route.JSON }

// Metadata is an object of strings, or a text that holds one.
type Metadata struct{ route.JSON }

// Cents is an amount in US cents, as a number or a text.
type Cents struct{ route.JSON }

// Schema implements huma.SchemaProvider.
func (Words) Schema(huma.Registry) *huma.Schema {
	most, long := 100, 255
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString}, {Type: huma.TypeInteger},
		{Type: huma.TypeArray, MaxItems: &most, Items: &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString, MaxLength: &long}, {Type: huma.TypeInteger}}}},
	}}
}

// Schema implements huma.SchemaProvider.
func (Metadata) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}}}}
}

// Schema implements huma.SchemaProvider.
func (Cents) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeNumber}}}
}

// list returns the texts.
func (w Words) list(field string) ([]string, error) {
	if len(w.JSON) == 0 {
		return nil, nil
	}
	var raw []json.RawMessage
	var parts, out []string
	if json.Unmarshal(w.JSON, &raw) != nil {
		parts = strings.Split(plain(json.RawMessage(w.JSON)), ",")
	}
	for _, r := range raw {
		parts = append(parts, plain(r))
	}
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	if len(out) == 0 || len(out) > 100 {
		return nil, route.Invalid("filters."+field, "names 1 to 100, separated by commas or as a list")
	}
	return out, nil
}

// plain returns what a text says, or the spelling of another value.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(bytes.TrimSpace(raw))
}

func (m Metadata) pairs() (pairs map[string]string, err error) {
	if len(m.JSON) == 0 {
		return nil, nil
	}
	if json.Unmarshal([]byte(plain(json.RawMessage(m.JSON))), &pairs) != nil || pairs == nil || len(pairs) > 64 {
		return nil, route.Invalid("filters.metadata", "takes an object of up to 64 strings, or a text that holds one")
	}
	return pairs, nil
}

var amountForm = regexp.MustCompile(`^([0-9]{1,10})(?:\.([0-9]{1,7}))?$`)

// nano returns the amount in nano-dollars, of which a cent has ten million.
func (c Cents) nano(field string) (*int64, error) {
	const digits = 7
	if len(c.JSON) == 0 {
		return nil, nil
	}
	m := amountForm.FindStringSubmatch(plain(json.RawMessage(c.JSON)))
	if m == nil {
		return nil, route.Invalid("filters."+field, "takes US cents from 0, with up to %d decimals", digits)
	}
	n, err := strconv.ParseInt(m[1]+m[2]+strings.Repeat("0", digits-len(m[2])), 10, 64)
	return &n, err
}

// Bounds of what one export may ask for.
const (
	longestRange = 366 * 24 * time.Hour
	maxRows      = 50_000
)

// wanted are filters that were checked, and nil lists filter nothing.
type wanted struct {
	query                                   logstore.Query // what the log filters by itself
	statuses, slugs, configs, keys, prompts []string
	models                                  []logstore.ServedModel
	span                                    string
	skip, size                              int
}

// compile checks the filters.
func (f *Filters) compile() (*wanted, error) {
	w := &wanted{span: f.SpanID, size: f.Size}
	if w.size == 0 {
		w.size = maxRows
	}
	w.skip = f.Page * w.size
	switch {
	case !f.From.Before(f.To):
		return nil, route.Invalid("filters.time_of_generation_max", "must be later than time_of_generation_min")
	case f.To.Sub(f.From) > longestRange:
		return nil, route.Invalid("filters.time_of_generation_min", "must be at most 366 days before time_of_generation_max")
	case f.From.UnixMilli() < 0 || f.To.Year() > 9999:
		return nil, route.Invalid("filters.time_of_generation_min", "must be later than 1970")
	}
	w.query = logstore.Query{From: f.From, To: f.To, TraceID: f.TraceID}
	var err error
	if w.query.Metadata, err = f.Metadata.pairs(); err != nil {
		return nil, err
	}
	if err := f.lists(w); err != nil {
		return nil, err
	}
	return w, f.bounds(w)
}

// lists reads what takes one of several.
func (f *Filters) lists(w *wanted) (err error) {
	for _, l := range []struct {
		field string
		words Words
		to    *[]string
	}{
		{"status_code", f.Statuses, &w.statuses}, {"virtual_keys", f.Slugs, &w.slugs}, {"configs", f.Configs, &w.configs},
		{"api_key_ids", f.Keys, &w.keys}, {"prompt_slug", f.Prompts, &w.prompts},
	} {
		if *l.to, err = l.words.list(l.field); err != nil {
			return err
		}
	}
	for i, s := range w.slugs {
		w.slugs[i] = strings.TrimPrefix(s, "@")
	}
	for _, s := range w.statuses {
		if n, err := strconv.Atoi(s); err != nil || n < 100 || n > 999 {
			return route.Invalid("filters.status_code", "takes numbers such as 200 and 429, not %.20q", s)
		}
	}
	models, err := f.Models.list("ai_org_model")
	for _, m := range models {
		service, model, ok := strings.Cut(m, "__")
		if !ok {
			return route.Invalid("filters.ai_org_model", "takes provider__model, not %.60q", m)
		}
		w.models = append(w.models, logstore.ServedModel{Service: service, Model: model})
	}
	return err
}

// bounds reads what lies between two numbers.
func (f *Filters) bounds(w *wanted) error {
	least, err := f.CostMin.nano("cost_min")
	if err != nil {
		return err
	}
	most, err := f.CostMax.nano("cost_max")
	if err != nil {
		return err
	}
	for _, b := range []struct {
		field     string
		low, high *int64
		to        *logstore.Bounds
	}{
		{"total_units", f.TotalMin, f.TotalMax, &w.query.Tokens}, {"prompt_token", f.PromptMin, f.PromptMax, &w.query.PromptTokens},
		{"completion_token", f.CompletionMin, f.CompletionMax, &w.query.CompletionTokens}, {"cost", least, most, &w.query.Cost},
	} {
		if b.low != nil && b.high != nil && *b.low > *b.high {
			return route.Invalid("filters."+b.field+"_max", "must not be less than %s_min", b.field)
		}
		*b.to = logstore.Bounds{Min: b.low, Max: b.high}
	}
	if f.FeedbackMin != nil && f.FeedbackMax != nil && *f.FeedbackMin > *f.FeedbackMax {
		return route.Invalid("filters.weighted_feedback_max", "must not be less than weighted_feedback_min")
	}
	w.query.Weighted = logstore.Span{Min: f.FeedbackMin, Max: f.FeedbackMax}
	return nil
}

// within limits the filters to what an export may have: its workspace, and the
// keys that its maker saw.
func (w *wanted) within(row *store.Export) logstore.Scope {
	s := logstore.Scope{Organisation: row.Organisation, Workspace: row.Workspace, Keys: row.Keys}
	if w.keys != nil {
		s.Keys = slices.DeleteFunc(slices.Clone(w.keys), func(id string) bool { return row.Keys != nil && !slices.Contains(row.Keys, id) })
	}
	return s
}

// matches reports whether an entry is wanted that the log has found.
func (w *wanted) matches(e *reqlog.Entry) bool {
	one := func(list []string, v string) bool { return list == nil || slices.Contains(list, v) }
	return one(w.statuses, strconv.Itoa(e.Status)) && one(w.slugs, e.Slug) && one(w.configs, e.Config) && one(w.prompts, e.Prompt.Slug) &&
		(w.span == "" || w.span == e.SpanID) &&
		(w.models == nil || slices.Contains(w.models, logstore.ServedModel{Service: e.Provider, Model: e.Model}))
}

// count returns how many rows there are, about: times are taken to the minute.
func (w *wanted) count(ctx context.Context, row *store.Export, sum func(context.Context, logstore.SumQuery) ([]logstore.Sum, error)) (int64, error) {
	q := logstore.SumQuery{
		Scope: w.within(row), From: w.query.From, To: w.query.To, Models: w.models, TraceID: w.query.TraceID, SpanID: w.span, Metadata: w.query.Metadata,
		Tokens: logstore.Range(w.query.Tokens), Prompt: logstore.Range(w.query.PromptTokens),
		Completion: logstore.Range(w.query.CompletionTokens), Cost: logstore.Range(w.query.Cost),
		Weighted: w.query.Weighted,
		Is:       make(map[logstore.Field][]string),
	}
	for field, list := range map[logstore.Field][]string{
		logstore.ByStatus: w.statuses, logstore.ByProvider: w.slugs, logstore.ByConfig: w.configs, logstore.ByPrompt: w.prompts,
	} {
		if list != nil {
			q.Is[field] = list
		}
	}
	sums, err := sum(ctx, q)
	n := int64(0)
	for i := range sums {
		n += sums[i].Requests
	}
	return min(max(n-int64(w.skip), 0), int64(w.size)), err
}
