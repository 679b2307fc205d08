package analytics

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
)

// Filters are the query parameters that all analytics routes accept. Filters by
// metadata, trace, tokens and cost are evaluated on the entries themselves, not on
// rollups.
type Filters struct {
	From      time.Time `query:"from" doc:"A time such as 2026-11-30T12:00:00Z, or a span before now such as 7d; rounded down to the minute, or to the hour if older than two days. Defaults to 7 days before the end."`
	To        time.Time `query:"to" doc:"End of the range, exclusive. Defaults to now."`
	Workspace string    `query:"workspace" maxLength:"255" doc:"Id or slug; keys of a workspace may name their own only"`
	Statuses  []string  `query:"status" maxItems:"100" doc:"Only these statuses, such as 429, or classes, such as 5xx"`
	Outcomes  []string  `query:"outcome" maxItems:"4" enum:"success,error,cancelled,other" doc:"Only these outcomes"`
	Codes     []string  `query:"error_code" maxItems:"100" doc:"Only these error codes"`
	Caches    []string  `query:"cache_status" maxItems:"6" enum:"HIT,SEMANTIC HIT,MISS,SEMANTIC MISS,REFRESH,DISABLED" doc:"Only these cache statuses"`
	Providers []string  `query:"provider" maxItems:"100" doc:"Provider ids, or slugs or ids of managed providers; @slug is always a slug"`
	Slugs     []string  `query:"virtual_keys" maxItems:"100" doc:"Slugs or ids of managed providers"`
	Targets   []string  `query:"target" maxItems:"100" doc:"Paths of targets in their config, or their names"`
	Configs   []string  `query:"config" maxItems:"100" doc:"Ids or slugs of configs, or their versions such as main@3"`
	Keys      []string  `query:"api_key" maxItems:"100" doc:"Ids of keys"`
	Users     []string  `query:"user" maxItems:"100" doc:"Ids of users, whose keys sent the requests"`
	Models    []string  `query:"ai_org_model" maxItems:"100" doc:"Requested models, written provider__model"`
	Requested []string  `query:"model" maxItems:"100" doc:"Requested models"`
	Upstream  []string  `query:"upstream_model" maxItems:"100" doc:"Models sent to providers"`
	Response  []string  `query:"response_model" maxItems:"100" doc:"Models named in provider responses"`
	Prompts   []string  `query:"prompt" maxItems:"100" doc:"Slugs of prompts, or their versions such as greeting@3"`
	Metadata  string    `query:"metadata" maxLength:"4096" doc:"JSON object with string values; all must match"`
	TraceID   string    `query:"trace_id" maxLength:"255"`
	SpanID    string    `query:"span_id" maxLength:"255"`

	TotalMin      string `query:"total_units_min" doc:"Tokens of a request"`
	TotalMax      string `query:"total_units_max"`
	PromptMin     string `query:"prompt_token_min"`
	PromptMax     string `query:"prompt_token_max"`
	CompletionMin string `query:"completion_token_min"`
	CompletionMax string `query:"completion_token_max"`
	CostMin       string `query:"cost_min" doc:"US cents of a request"`
	CostMax       string `query:"cost_max"`
	NanoMin       string `query:"cost_nano_usd_min" doc:"Nano-dollars of a request"`
	NanoMax       string `query:"cost_nano_usd_max"`

	FeedbackRange
}

// Limits of the time range.
const (
	defaultRange = 7 * 24 * time.Hour
	longestRange = 366 * 24 * time.Hour
)

// apply adds the filters to q.
func (f *Filters) apply(q *logstore.GroupQuery, now time.Time) error {
	if err := f.span(now); err != nil {
		return err
	}
	q.From, q.To = f.From, f.To
	q.TraceID, q.SpanID = f.TraceID, f.SpanID
	statuses, err := route.ExpandStatuses("status", f.Statuses)
	if err != nil {
		return err
	}
	for field, list := range map[logstore.Field][]string{
		logstore.ByStatus: statuses, logstore.ByOutcome: f.Outcomes, logstore.ByKey: f.Keys,
		logstore.ByErrorCode: f.Codes, logstore.ByCache: f.Caches,
		logstore.ByPrompt: f.Prompts, logstore.ByTarget: f.Targets,
		logstore.ByModel: f.Requested, logstore.ByUpstreamModel: f.Upstream, logstore.ByResponseModel: f.Response,
	} {
		if len(list) > 0 {
			addFilter(q, field, list)
		}
	}
	for _, m := range f.Models {
		served, err := route.ProviderModel("ai_org_model", m)
		if err != nil {
			return err
		}
		q.Models = append(q.Models, served)
	}
	if err := route.CheckKeyIDs("api_key", f.Keys); err != nil {
		return err
	}
	if f.Metadata != "" && (json.Unmarshal([]byte(f.Metadata), &q.Metadata) != nil || q.Metadata == nil) {
		return route.Invalid("metadata", "must be a JSON object with string values")
	}
	if q.Weighted, err = f.FeedbackRange.span(); err != nil {
		return err
	}
	return f.bound(q)
}

// bound adds the ranges of tokens and cost to q. They are checked here because
// declaring them would keep eight compiled expressions for each route.
func (f *Filters) bound(q *logstore.GroupQuery) error {
	for _, same := range [...][3]string{{"cost_min", f.CostMin, f.NanoMin}, {"cost_max", f.CostMax, f.NanoMax}} {
		if same[1] != "" && same[2] != "" {
			return route.Invalid(same[0], "is the same bound in cents as the one in nano-dollars; set one of them")
		}
	}
	for _, b := range []struct {
		name, text string
		decimals   int
		end        **int64
	}{
		{"total_units_min", f.TotalMin, 0, &q.Tokens.Min}, {"total_units_max", f.TotalMax, 0, &q.Tokens.Max},
		{"prompt_token_min", f.PromptMin, 0, &q.Prompt.Min}, {"prompt_token_max", f.PromptMax, 0, &q.Prompt.Max},
		{"completion_token_min", f.CompletionMin, 0, &q.Completion.Min}, {"completion_token_max", f.CompletionMax, 0, &q.Completion.Max},
		{"cost_min", f.CostMin, centDecimals, &q.Cost.Min}, {"cost_max", f.CostMax, centDecimals, &q.Cost.Max},
		{"cost_nano_usd_min", f.NanoMin, 0, &q.Cost.Min}, {"cost_nano_usd_max", f.NanoMax, 0, &q.Cost.Max},
	} {
		if b.text == "" {
			continue
		}
		n, ok := decimal(b.text, b.decimals)
		if !ok {
			return route.Invalid(b.name, "must be a number from 0 with up to %d decimals, not %.40q", b.decimals, b.text)
		}
		*b.end = &n
	}
	for _, r := range []struct {
		name string
		logstore.IntRange
	}{{"total_units", q.Tokens}, {"prompt_token", q.Prompt}, {"completion_token", q.Completion}, {"cost", q.Cost}} {
		if r.Min != nil && r.Max != nil && *r.Min > *r.Max {
			return route.Invalid(r.name+"_max", "must not be less than %s_min", r.name)
		}
	}
	return nil
}

// addFilter restricts q to entries whose field has one of the values in list; an empty one
// has none.
func addFilter(q *logstore.GroupQuery, field logstore.Field, list []string) {
	if q.Is == nil {
		q.Is = make(map[logstore.Field][]string)
	}
	q.Is[field] = list
}

// span sets the defaults of the time range and checks it.
func (f *Filters) span(now time.Time) error {
	if f.To.IsZero() {
		f.To = now
	}
	if f.From.IsZero() {
		f.From = f.To.Add(-defaultRange)
	}
	switch {
	case !f.From.Before(f.To):
		return route.Invalid("to", "must be later than from")
	case f.To.Sub(f.From) > longestRange:
		return route.Invalid("from", "must be at most 366 days before to")
	}
	return nil
}

// centDecimals is the number of decimals of a cent that nano-dollars can represent.
const centDecimals = 7

// decimal parses a number with up to decimals digits after the point and returns it in
// units of the last digit.
func decimal(text string, decimals int) (n int64, ok bool) {
	const most = 17 // digits, so that nothing overflows
	integer, part, dotted := strings.Cut(text, ".")
	digits := integer + part + strings.Repeat("0", max(decimals-len(part), 0))
	if integer == "" || dotted != (part != "") || len(part) > decimals || len(digits) > most || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}
