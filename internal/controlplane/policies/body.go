package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/api"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
)

// Number is a JSON number as it was sent. The empty string is absent.
type Number string

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] == '"' {
		return errors.New("must be a number")
	}
	*n = Number(b)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) { return json.Marshal(n.number()) }

// Schema implements huma.SchemaProvider.
func (Number) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeNumber} }

func (n Number) number() json.Number {
	if n == "null" {
		return ""
	}
	return json.Number(n)
}

// Values is a string or an array of strings.
type Values policy.Values

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(b []byte) error { return (*policy.Values)(v).UnmarshalJSON(b) }

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) { return policy.Values(v).MarshalJSON() }

// maxValues is the limit of values of a condition.
const maxValues = 100

// Schema implements huma.SchemaProvider.
func (Values) Schema(huma.Registry) *huma.Schema {
	least, most, values := 1, api.MaxMetadataValue, maxValues
	one := &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &most}
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MinItems: &least, MaxItems: &values}}}
}

// Condition is a condition in a request or response.
type Condition struct {
	Key      string  `json:"key" maxLength:"255" doc:"api_key, workspace_id, organisation_id, user, metadata.<field>, endpoint_type, trace_id or session; for the target llm also virtual_key, provider, config, prompt or model; for mcp_tools also mcp_server or tool"`
	Value    Values  `json:"value" doc:"Matches any of these; * matches any value, @provider/* any model of a managed provider, and server/* any tool of a server"`
	Excludes *Values `json:"excludes,omitempty" doc:"Matches none of these"`
}

// Group is a key of group_by.
type Group struct {
	Key string `json:"key" maxLength:"255" doc:"As in conditions"`
}

// Loop are the thresholds of loop detection.
type Loop struct {
	SameCalls int `json:"same_tool_call,omitempty" minimum:"2" maximum:"10000" doc:"Rejects requests whose history contains the same tool call, with the same arguments, this many times; for mcp_tools, the same call in a session within an hour"`
	Stalled   int `json:"context_growth_without_progress,omitempty" minimum:"1" maximum:"10000" doc:"Rejects requests in which this many tool results, up to the last one, repeat earlier ones"`
}

// Common holds the fields that policies of both kinds are created with.
type Common struct {
	Name         string      `json:"name,omitempty" maxLength:"255"`
	Description  string      `json:"description,omitempty" maxLength:"500"`
	Conditions   []Condition `json:"conditions" minItems:"1" maxItems:"20" doc:"All must be met"`
	GroupBy      []Group     `json:"group_by" minItems:"1" maxItems:"10" doc:"Each combination of values has its own counter"`
	Workspace    string      `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug. Required without an API key. If an organisation key leaves it out, the policy applies to all workspaces"`
	Organisation string      `json:"organisation_id,omitempty" maxLength:"255" doc:"Id or slug. Required without an API key"`
	OnStoreDown  string      `json:"on_store_down,omitempty" enum:"open,closed,cached" doc:"While the store of counters fails, open admits requests, closed rejects them, and cached (default) lets each gateway count on its own"`
	Target       string      `json:"target,omitempty" enum:"llm,mcp_tools" doc:"What the policy limits: llm (default) requests to models, mcp_tools messages to tool servers. It cannot be changed"`
	Loop         *Loop       `json:"loop_detection,omitempty"`
}

// RateBody is a new rate-limit policy.
type RateBody struct {
	Common
	Type  string `json:"type" enum:"requests,tokens"`
	Unit  string `json:"unit" enum:"rpm,rph,rpd,rpw" doc:"Per minute, hour, day or week"`
	Value Number `json:"value" doc:"An integer from 1"`
}

// UsageBody is a new usage-limit policy.
type UsageBody struct {
	Common
	Type              string   `json:"type" enum:"cost,tokens,requests,seconds" doc:"cost is in US dollars; requests are those sent to providers; seconds limits the time of a session"`
	CreditLimit       Number   `json:"credit_limit"`
	AlertThreshold    Number   `json:"alert_threshold,omitempty" doc:"Less than credit_limit"`
	AlertPercent      *float64 `json:"alert_threshold_percent,omitempty" minimum:"1" maximum:"99" doc:"alert_threshold in per cent of credit_limit"`
	PeriodicReset     string   `json:"periodic_reset,omitempty" enum:"monthly,weekly" doc:"On the first of the month or on Monday, 00:00 in time_zone"`
	PeriodicResetDays int      `json:"periodic_reset_days,omitempty" minimum:"1" maximum:"365" doc:"Cannot be combined with periodic_reset"`
	NextUsageResetAt  string   `json:"next_usage_reset_at,omitempty" maxLength:"40" doc:"Time of the first reset, in the future, such as 2026-12-31T12:00:00Z or +30d; a day means 00:00 in time_zone"`
	TimeZone          string   `json:"time_zone,omitempty" maxLength:"64" doc:"Time zone of periodic resets, such as Europe/Berlin; defaults to UTC"`
	OnBudgetEnd       string   `json:"on_budget_end,omitempty" enum:"finish,stop" doc:"When the limit is reached, finish (default) lets responses finish; stop ends streams, and rejects other requests whose largest possible use does not fit"`
}

func (b *Common) policy() store.Policy {
	p := store.Policy{Name: b.Name, Description: b.Description, Conditions: conditions(b.Conditions)}
	for _, g := range b.GroupBy {
		p.GroupBy = append(p.GroupBy, g.Key)
	}
	p.Settings.OnStoreDown = b.OnStoreDown
	p.Settings.Target = policy.Target(b.Target).Stored()
	if b.Loop != nil {
		p.Settings.Loop = policy.Loop(*b.Loop)
	}
	return p
}

func (b *RateBody) policy() (store.Policy, error) {
	p := b.Common.policy()
	p.Kind, p.Type, p.Unit, p.Settings.Value = store.RatePolicy, b.Type, b.Unit, b.Value.number()
	return p, check(&p)
}

func (b *UsageBody) policy(now time.Time) (p store.Policy, err error) {
	p = b.Common.policy()
	p.Kind, p.Type = store.UsagePolicy, b.Type
	s := &p.Settings
	s.Value, s.AlertThreshold = b.CreditLimit.number(), b.AlertThreshold.number()
	s.PeriodicReset, s.PeriodicResetDays, s.OnBudgetEnd = b.PeriodicReset, b.PeriodicResetDays, b.OnBudgetEnd
	s.TimeZone = b.TimeZone
	if err := setPercent(s, b.AlertPercent, b.AlertThreshold != ""); err != nil {
		return p, err
	}
	if s.NextReset, err = parseReset(b.NextUsageResetAt, s.TimeZone, now); err != nil {
		return p, err
	}
	return p, check(&p)
}

// setPercent sets the alert threshold in per cent of the credit limit, nil for none. An amount
// that was sent too must be the same.
func setPercent(s *store.PolicySettings, percent *float64, hasAmount bool) error {
	s.AlertPercent = percent
	if percent == nil {
		return nil
	}
	limit, err := s.Value.Float64()
	if err != nil {
		return route.Invalid("credit_limit", "must be a number")
	}
	part := limits.PartOf(limit, *percent)
	if amount, err := s.AlertThreshold.Float64(); hasAmount && (err != nil || amount != part) {
		return route.Invalid("alert_threshold_percent", "differs from alert_threshold; send one of them")
	}
	s.AlertThreshold = json.Number(strconv.FormatFloat(part, 'f', -1, 64))
	return nil
}

// conditions converts conditions of a request.
func conditions(list []Condition) []policy.Condition {
	out := make([]policy.Condition, len(list))
	for i, c := range list {
		out[i] = policy.Condition{Key: c.Key, Value: policy.Values(c.Value)}
		if c.Excludes != nil {
			out[i].Excludes = policy.Values(*c.Excludes)
		}
	}
	return out
}

// Update holds the fields of a policy that can be changed.
type Update struct {
	Name        *string              `json:"name,omitempty" maxLength:"255"`
	Description *string              `json:"description,omitempty" maxLength:"500"`
	Conditions  []Condition          `json:"conditions,omitempty" minItems:"1" maxItems:"20"`
	OnStoreDown string               `json:"on_store_down,omitempty" enum:"open,closed,cached"`
	Loop        route.Optional[Loop] `json:"loop_detection,omitempty" doc:"null removes it"`
}

func (u *Update) apply(p *store.Policy) error {
	if u.Name != nil {
		p.Name = *u.Name
	}
	if u.Description != nil {
		p.Description = *u.Description
	}
	if u.Conditions != nil {
		p.Conditions = conditions(u.Conditions)
	}
	if u.OnStoreDown != "" {
		p.Settings.OnStoreDown = u.OnStoreDown
	}
	p.Settings.Loop = policy.Loop(u.Loop.Or(Loop(p.Settings.Loop)))
	return nil
}

// parseReset parses next_usage_reset_at of a policy with this time zone. Empty is the zero
// time.
func parseReset(text, zone string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return limits.FutureReset("next_usage_reset_at", text, zone, now)
}

const (
	// maxDollars is the largest limit of costs, which are counted in nano-dollars.
	maxDollars = 9_000_000_000
	leastToken = 100 // of a usage limit
)

// check returns an error if a policy is invalid, whatever the schema of the routes has
// checked already.
func check(p *store.Policy) error {
	if err := checkKeys(p); err != nil {
		return err
	}
	if err := checkTools(p); err != nil {
		return err
	}
	field := "value"
	if p.Kind == store.UsagePolicy {
		field = "credit_limit"
	}
	limit, err := checkAmount(field, p.Type, p.Settings.Value.String())
	if err != nil {
		return err
	}
	if rule := p.Rule(nil); (rule.Time || rule.Loop != policy.Loop{}) && rule.OfTarget() {
		return route.Invalid("conditions", "and group_by cannot depend on the provider that a request is sent to when type is seconds or loop_detection is set: both are checked before")
	}
	if p.Kind == store.UsagePolicy {
		return checkUsage(p, limit)
	}
	return nil
}

// checkTools returns an error for what has no effect on messages to tool servers.
func checkTools(p *store.Policy) error {
	switch {
	case !p.Settings.Target.IsTools():
		return nil
	case p.Type == "tokens":
		return route.Invalid("type", "cannot be tokens when target is mcp_tools, whose messages use none")
	case p.Settings.Loop.Stalled > 0:
		return route.Invalid("loop_detection.context_growth_without_progress", "has no effect when target is mcp_tools; leave it out")
	}
	return nil
}

func checkKeys(p *store.Policy) error {
	switch { // null counts as a list for the schema
	case len(p.Conditions) == 0:
		return route.Invalid("conditions", "must be a list of at least one condition")
	case len(p.GroupBy) == 0:
		return route.Invalid("group_by", "must be a list of at least one key")
	}
	for i, c := range p.Conditions {
		field := "conditions[" + strconv.Itoa(i) + "]"
		if err := checkKey(field+".key", c.Key, p); err != nil {
			return err
		}
		if slices.Contains(c.Value.List, "") || len(c.Value.List) == 0 {
			return route.Invalid(field+".value", "must be a string or an array of strings that are not empty")
		}
		if c.Excludes.Array && len(c.Excludes.List) == 0 || slices.Contains(c.Excludes.List, "") {
			return route.Invalid(field+".excludes", "must be a string or an array of strings that are not empty")
		}
	}
	for i, name := range p.GroupBy {
		field := "group_by[" + strconv.Itoa(i) + "].key"
		if err := checkKey(field, name, p); err != nil {
			return err
		}
		if slices.Contains(p.GroupBy[:i], name) {
			return route.Invalid(field, "occurs twice")
		}
	}
	return nil
}

func checkKey(field, name string, p *store.Policy) error {
	target := p.Settings.Target
	switch {
	case !target.HasKey(name):
		return route.Invalid(field, "must be one of %s, or metadata.<field>, for the target %s", strings.Join(target.Keys(), ", "), target.Name())
	case name == policy.KeyEndpoint && p.Kind == store.UsagePolicy:
		return route.Invalid(field, "endpoint_type is only for rate-limit policies")
	}
	return nil
}

// checkAmount parses a limit or threshold. Only whole requests, tokens and seconds are
// counted, so that the fraction of a limit of them has no effect.
func checkAmount(field, typ, text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	n, intErr := strconv.ParseInt(text, 10, 64)
	if typ == "cost" {
		if err != nil || !(v*1e9 >= 1) || v > maxDollars {
			return 0, route.Invalid(field, "must be a number of US dollars above 0, at most %d", maxDollars)
		}
		return v, nil
	}
	if err != nil || v < 1 || v > quota.MaxLimit || intErr == nil && n > quota.MaxLimit { // v is rounded
		return 0, route.Invalid(field, "must be a number from 1 to %d", int64(quota.MaxLimit))
	}
	return v, nil
}

// checkUsage checks the fields of a usage limit.
func checkUsage(p *store.Policy, limit float64) error {
	s := &p.Settings
	rule := p.Rule(nil)
	switch {
	case p.Type == "tokens" && limit < leastToken:
		return route.Invalid("credit_limit", "must be at least %d when type is tokens", leastToken)
	case s.PeriodicReset != "" && s.PeriodicResetDays != 0:
		return route.Invalid("periodic_reset_days", "cannot be combined with periodic_reset; send one of them")
	case p.Type == "seconds":
		return checkTime(p, rule.InSession())
	case s.TimeZone != "" && s.PeriodicReset == "" && s.PeriodicResetDays == 0:
		return route.Invalid("time_zone", "requires periodic_reset or periodic_reset_days")
	case rule.InSession() && s.PeriodicReset == "" && s.PeriodicResetDays == 0:
		return route.Invalid("periodic_reset_days", "is required when group_by has session or trace_id: counters of ended sessions are removed when their period ends")
	case s.OnBudgetEnd != "" && p.Type == "requests":
		return route.Invalid("on_budget_end", "has no effect when type is requests; leave it out")
	}
	if err := limits.CheckZone("time_zone", s.TimeZone); err != nil || s.AlertThreshold == "" {
		return err
	}
	if alert, err := checkAmount("alert_threshold", p.Type, s.AlertThreshold.String()); err != nil || alert >= limit {
		return route.Invalid("alert_threshold", "must be above 0 and less than credit_limit")
	}
	return nil
}

// checkTime checks a limit of the time of sessions, which has no period: the time
// begins with the session.
func checkTime(p *store.Policy, inSession bool) error {
	if !inSession {
		return route.Invalid("group_by", "must have session or trace_id when type is seconds")
	}
	s := &p.Settings
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"periodic_reset", s.PeriodicReset != ""}, {"periodic_reset_days", s.PeriodicResetDays != 0},
		{"next_usage_reset_at", !s.NextReset.IsZero()},
		{"time_zone", s.TimeZone != ""},
		{"alert_threshold", s.AlertThreshold != ""}, {"on_budget_end", s.OnBudgetEnd != ""},
	} {
		if f.set {
			return route.Invalid(f.name, "has no effect when type is seconds; leave it out")
		}
	}
	return nil
}
