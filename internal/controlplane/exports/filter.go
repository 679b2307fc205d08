package exports

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/logstore"
	"modelgate/internal/store"
)

// Filters say which rows an export has. All that is given has to match.
type Filters struct {
	From time.Time `json:"time_of_generation_min" doc:"ISO 8601 with an offset"`
	To   time.Time `json:"time_of_generation_max" doc:"Later, by at most 366 days; not in the range itself"`
	Size int       `json:"page_size,omitempty" minimum:"1" maximum:"50000" doc:"Rows of the file; 50000 when absent"`
	Page int       `json:"current_page,omitempty" minimum:"0" maximum:"1000000" doc:"Page to export; skips page × page_size newer rows"`

	Workspace string     `json:"workspace_slug,omitempty" maxLength:"255" doc:"As workspace_id"`
	Statuses  StringList `json:"status_code,omitzero" doc:"One of these"`
	Outcomes  StringList `json:"outcome,omitzero" doc:"success, error, cancelled or other, one of these"`
	Providers StringList `json:"provider,omitzero" doc:"Provider ids, or slugs or ids of managed providers, one of these; @slug is always a slug"`
	Slugs     StringList `json:"virtual_keys,omitzero" doc:"Slugs or ids of managed providers, one of these"`
	Targets   StringList `json:"target,omitzero" doc:"Paths of targets in their config, one of these"`
	Configs   StringList `json:"configs,omitzero" doc:"Ids or slugs of configs, one of these"`
	Keys      StringList `json:"api_key_ids,omitzero" doc:"One of these"`
	Models    StringList `json:"ai_org_model,omitzero" doc:"As provider__model with the requested model, one of these"`
	Requested StringList `json:"model,omitzero" doc:"Requested models, one of these"`
	Upstream  StringList `json:"upstream_model,omitzero" doc:"Models that providers were sent, one of these"`
	Response  StringList `json:"response_model,omitzero" doc:"Models that providers named, one of these"`
	Prompts   StringList `json:"prompt_slug,omitzero" doc:"One of these"`
	Metadata  Metadata   `json:"metadata,omitzero" doc:"Strings by their keys, all of which have to match"`
	TraceID   string     `json:"trace_id,omitempty" maxLength:"255"`
	SpanID    string     `json:"span_id,omitempty" maxLength:"255"`

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

// StringList are texts, written as a list or as a text with commas.
type StringList struct{ route.JSON }

// Metadata is an object of strings, or a text that holds one.
type Metadata struct{ route.JSON }

// Cents is an amount in US cents, as a number or a text.
type Cents struct{ route.JSON }

// Schema implements huma.SchemaProvider.
func (StringList) Schema(huma.Registry) *huma.Schema {
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
func (w StringList) list(field string) ([]string, error) {
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

// rowFilter are filters that were checked, and nil lists filter nothing.
type rowFilter struct {
	query      logstore.Query              // what the log filters by itself
	is         map[logstore.Field][]string // one of these values
	keys       []string
	models     []logstore.ServedModel
	providers  []logstore.Provider
	span       string
	skip, size int
}

// compile checks the filters.
func (f *Filters) compile() (*rowFilter, error) {
	w := &rowFilter{span: f.SpanID, size: f.Size}
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

// bounds reads what lies between two numbers.
func (f *Filters) bounds(w *rowFilter) error {
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
	w.query.Weighted = logstore.FloatRange{Min: f.FeedbackMin, Max: f.FeedbackMax}
	return nil
}

// within limits the filters to what an export may have: its workspace, and the
// keys that its maker saw.
func (w *rowFilter) within(row *store.Export) logstore.Scope {
	s := logstore.Scope{Organisation: row.Organisation, Workspace: row.Workspace, Keys: row.Keys}
	if w.keys != nil {
		s.Keys = slices.DeleteFunc(slices.Clone(w.keys), func(id string) bool { return row.Keys != nil && !slices.Contains(row.Keys, id) })
	}
	return s
}
