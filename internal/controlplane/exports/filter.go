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
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// Filters select the rows of an export. A row must match all of them.
type Filters struct {
	From time.Time `json:"time_of_generation_min" doc:"A time such as 2026-11-30T12:00:00Z, or a span before now such as 7d; also called from"`
	To   time.Time `json:"time_of_generation_max" doc:"Exclusive; at most 366 days after time_of_generation_min; also called to"`
	Size int       `json:"page_size,omitempty" minimum:"1" maximum:"50000" doc:"Rows of the file; defaults to 50000"`
	Page int       `json:"current_page,omitempty" minimum:"0" maximum:"1000000" doc:"Page to export; skips page × page_size newer rows"`

	Workspace string     `json:"workspace_slug,omitempty" maxLength:"255" doc:"The same as workspace_id"`
	Statuses  StringList `json:"status_code,omitzero" doc:"Only these statuses, such as 429, or classes, such as 5xx"`
	Outcomes  StringList `json:"outcome,omitzero" doc:"Any of success, error, cancelled and other"`
	Codes     StringList `json:"error_code,omitzero" doc:"Only these error codes"`
	Caches    StringList `json:"cache_status,omitzero" doc:"Only these cache statuses, such as HIT"`
	Providers StringList `json:"provider,omitzero" doc:"Provider ids, or slugs or ids of managed providers; @slug is always a slug"`
	Slugs     StringList `json:"virtual_keys,omitzero" doc:"Slugs or ids of managed providers"`
	Targets   StringList `json:"target,omitzero" doc:"Paths of targets in their config, or their names"`
	Configs   StringList `json:"configs,omitzero" doc:"Ids or slugs of configs, or their versions such as main@3"`
	Keys      StringList `json:"api_key_ids,omitzero" doc:"Ids of keys"`
	Models    StringList `json:"ai_org_model,omitzero" doc:"Requested models, written provider__model"`
	Requested StringList `json:"model,omitzero" doc:"Requested models"`
	Upstream  StringList `json:"upstream_model,omitzero" doc:"Models sent to providers"`
	Response  StringList `json:"response_model,omitzero" doc:"Models named in provider responses"`
	Prompts   StringList `json:"prompt_slug,omitzero" doc:"Slugs of prompts, or their versions such as greeting@3"`
	Metadata  Metadata   `json:"metadata,omitzero" doc:"Object with string values; all must match"`
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
	NanoMin       *int64 `json:"cost_nano_usd_min,omitempty" minimum:"0" doc:"Nano-dollars of a request"`
	NanoMax       *int64 `json:"cost_nano_usd_max,omitempty" minimum:"0"`

	FeedbackMin *float64 `json:"weighted_feedback_min,omitempty" minimum:"-10" maximum:"10" doc:"Average feedback of a request's trace, value times weight"`
	FeedbackMax *float64 `json:"weighted_feedback_max,omitempty" minimum:"-10" maximum:"10"`
}

// StringList is a list of strings, given as an array or as a string separated by
// commas.
type StringList struct{ route.JSON }

// Metadata is an object with string values, or a string that contains one.
type Metadata struct{ route.JSON }

// Cents is an amount in US cents, given as a number or a string.
type Cents struct{ route.JSON }

// Schema implements huma.SchemaProvider.
func (StringList) Schema(huma.Registry) *huma.Schema {
	most, long := 100, 255
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString}, {Type: huma.TypeInteger},
		{Type: huma.TypeArray, MaxItems: &most,
			Items: &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString, MaxLength: &long}, {Type: huma.TypeInteger}}}},
	}}
}

// Schema implements huma.SchemaProvider.
func (Metadata) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString},
		{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}}}}
}

// Schema implements huma.SchemaProvider.
func (Cents) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeNumber}}}
}

// list returns the strings, or an error that names field.
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
		return nil, route.Invalid("filters."+field, "must be 1 to 100 values, as an array or separated by commas")
	}
	return out, nil
}

// plain returns the value of a JSON string, or the JSON text of another value.
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
		return nil, route.Invalid("filters.metadata", "must be an object of up to 64 strings, or a string that contains one")
	}
	return pairs, nil
}

var amountForm = regexp.MustCompile(`^([0-9]{1,10})(?:\.([0-9]{1,7}))?$`)

// nano returns the amount in nano-dollars; a cent is ten million.
func (c Cents) nano(field string) (*int64, error) {
	const digits = 7
	if len(c.JSON) == 0 {
		return nil, nil
	}
	m := amountForm.FindStringSubmatch(plain(json.RawMessage(c.JSON)))
	if m == nil {
		return nil, route.Invalid("filters."+field, "must be an amount in US cents from 0, with up to %d decimals", digits)
	}
	n, err := strconv.ParseInt(m[1]+m[2]+strings.Repeat("0", digits-len(m[2])), 10, 64)
	return &n, err
}

// Limits of one export.
const (
	longestRange = 366 * 24 * time.Hour
	maxRows      = 50_000
)

// rowFilter is a set of checked filters. Nil lists filter nothing.
type rowFilter struct {
	query      logstore.Query              // evaluated by the log
	is         map[logstore.Field][]string // allowed values by field
	keys       []string
	models     []logstore.ServedModel
	providers  []logstore.Provider
	span       string
	skip, size int
}

// compile checks the filters and converts them.
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
	if err := f.readLists(w); err != nil {
		return nil, err
	}
	w.query.Is, w.query.Providers = w.is, w.providers
	return w, f.readRanges(w)
}

// readRanges reads the numeric ranges.
func (f *Filters) readRanges(w *rowFilter) error {
	least, err := f.CostMin.nano("cost_min")
	if err != nil {
		return err
	}
	most, err := f.CostMax.nano("cost_max")
	if err != nil {
		return err
	}
	for _, same := range []struct {
		name  string
		cents **int64
		nano  *int64
	}{{"cost_min", &least, f.NanoMin}, {"cost_max", &most, f.NanoMax}} {
		if *same.cents != nil && same.nano != nil {
			return route.Invalid("filters."+same.name, "is the same bound in cents as the one in nano-dollars; set one of them")
		}
		if same.nano != nil {
			*same.cents = same.nano
		}
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

// scope restricts the filters to the workspace of the export and to the keys that its
// creator may see.
func (w *rowFilter) scope(row *store.Export) logstore.Scope {
	s := logstore.Scope{Organisation: row.Organisation, Workspace: row.Workspace, Keys: row.Keys}
	if w.keys != nil {
		s.Keys = slices.DeleteFunc(slices.Clone(w.keys), func(id string) bool { return row.Keys != nil && !slices.Contains(row.Keys, id) })
	}
	return s
}
