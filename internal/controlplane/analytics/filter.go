package analytics

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/logstore"
)

// Filters are what every route of the family takes. Those of metadata, traces,
// tokens and cost are answered from the entries themselves.
type Filters struct {
	From        time.Time `query:"time_of_generation_min" doc:"ISO 8601 with an offset; taken to the minute, or to the hour for what is older than two days. Without it 7 days before the end"`
	To          time.Time `query:"time_of_generation_max" doc:"Not in the range itself. Without it now"`
	WorkspaceID string    `query:"workspace_id" maxLength:"255" doc:"Id or slug; of no meaning for keys of a workspace"`
	Workspace   string    `query:"workspace_slug" maxLength:"255" doc:"The same"`
	Statuses    []int     `query:"status_code" maxItems:"100" doc:"One of these"`
	Slugs       []string  `query:"virtual_keys" maxItems:"100" doc:"Slugs of providers, one of these"`
	Configs     []string  `query:"configs" maxItems:"100" doc:"Ids or slugs of configs, one of these"`
	Keys        []string  `query:"api_key_ids" maxItems:"100" doc:"One of these"`
	Models      []string  `query:"ai_org_model" maxItems:"100" doc:"As provider__model, one of these"`
	Prompts     []string  `query:"prompt_slug" maxItems:"100" doc:"One of these"`
	Metadata    string    `query:"metadata" maxLength:"4096" doc:"A JSON object of strings, all of which have to match"`
	TraceID     string    `query:"trace_id" maxLength:"255"`
	SpanID      string    `query:"span_id" maxLength:"255"`

	TotalMin      string `query:"total_units_min" pattern:"^[0-9]{1,15}$" doc:"Tokens of a request"`
	TotalMax      string `query:"total_units_max" pattern:"^[0-9]{1,15}$"`
	PromptMin     string `query:"prompt_token_min" pattern:"^[0-9]{1,15}$"`
	PromptMax     string `query:"prompt_token_max" pattern:"^[0-9]{1,15}$"`
	CompletionMin string `query:"completion_token_min" pattern:"^[0-9]{1,15}$"`
	CompletionMax string `query:"completion_token_max" pattern:"^[0-9]{1,15}$"`
	CostMin       string `query:"cost_min" pattern:"^[0-9]{1,10}([.][0-9]{1,7})?$" doc:"US cents of a request"`
	CostMax       string `query:"cost_max" pattern:"^[0-9]{1,10}([.][0-9]{1,7})?$"`

	Weighted
}

// Bounds of the range of time.
const (
	defaultRange = 7 * 24 * time.Hour
	longestRange = 366 * 24 * time.Hour
)

// apply puts the filters into q.
func (f *Filters) apply(q *logstore.SumQuery, now time.Time) error {
	if err := f.span(now); err != nil {
		return err
	}
	q.From, q.To = f.From, f.To
	q.TraceID, q.SpanID = f.TraceID, f.SpanID
	statuses := make([]string, len(f.Statuses))
	for i, s := range f.Statuses {
		statuses[i] = strconv.Itoa(s)
	}
	for field, list := range map[logstore.Field][]string{
		logstore.ByStatus: statuses, logstore.ByProvider: trimmed(f.Slugs), logstore.ByKey: f.Keys, logstore.ByPrompt: f.Prompts,
	} {
		if len(list) > 0 {
			is(q, field, list)
		}
	}
	for _, m := range f.Models {
		service, model, ok := strings.Cut(m, "__")
		if !ok {
			return route.Invalid("ai_org_model", "takes provider__model, not %.60q", m)
		}
		q.Models = append(q.Models, logstore.ServedModel{Service: service, Model: model})
	}
	if f.Metadata != "" && (json.Unmarshal([]byte(f.Metadata), &q.Metadata) != nil || q.Metadata == nil) {
		return route.Invalid("metadata", "takes a JSON object of strings")
	}
	q.Tokens = between(f.TotalMin, f.TotalMax, 0)
	q.Prompt = between(f.PromptMin, f.PromptMax, 0)
	q.Completion = between(f.CompletionMin, f.CompletionMax, 0)
	q.Cost = between(f.CostMin, f.CostMax, 7) // a cent is 10^7 nano-dollars
	var err error
	q.Weighted, err = f.Weighted.span()
	return err
}

// is has q ask for one of list, besides what it asked for.
func is(q *logstore.SumQuery, field logstore.Field, list []string) {
	if q.Is == nil {
		q.Is = make(map[logstore.Field][]string)
	}
	q.Is[field] = list
}

// trimmed returns slugs without the at sign that they may be written with.
func trimmed(slugs []string) []string {
	out := make([]string, len(slugs))
	for i, s := range slugs {
		out[i] = strings.TrimPrefix(s, "@")
	}
	return out
}

// span fills in the range of time and checks it.
func (f *Filters) span(now time.Time) error {
	if f.To.IsZero() {
		f.To = now
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-defaultRange)
	}
	switch {
	case !f.From.Before(f.To):
		return route.Invalid("time_of_generation_max", "must be later than time_of_generation_min")
	case f.To.Sub(f.From) > longestRange:
		return route.Invalid("time_of_generation_min", "must be at most 366 days before time_of_generation_max")
	}
	return nil
}

// between returns the range of two numbers, which were checked and have at most
// so many decimals, in units of the last of these.
func between(low, high string, decimals int) (r logstore.Range) {
	for _, side := range []struct {
		text string
		end  **int64
	}{{low, &r.Min}, {high, &r.Max}} {
		if side.text == "" {
			continue
		}
		whole, part, _ := strings.Cut(side.text, ".")
		n, err := strconv.ParseInt(whole+part+strings.Repeat("0", decimals-len(part)), 10, 64)
		if err != nil {
			n = math.MaxInt64
		}
		*side.end = &n
	}
	return r
}
