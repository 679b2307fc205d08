// Package limits defines budgets and rate limits of keys, workspaces, providers and
// grants.
//
// It guarantees that stored limits are valid and have the time of their next reset,
// that an edit neither loses nor repeats a warning, and that a reset loses no spend
// that is counted concurrently. The caller supplies the time. Counting spend
// is the job of store, enforcing budgets of budgets, rejecting requests of dataplane.
package limits

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/base/moment"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Types of a [Budget]. A [Rate] has Requests instead of Cost.
const (
	Cost     = "cost" // US dollars
	Tokens   = "tokens"
	Requests = "requests"
)

// Reset periods of a [Budget], other than a number of days.
const (
	monthly = "monthly"
	weekly  = "weekly"
)

// firstWeekday is the day on which weekly budgets are reset, at 00:00 in their time zone.
const firstWeekday = time.Sunday

// BudgetInput is usage_limits in a request. The route checks its ranges, and
// [BudgetInput.Apply] the rest.
type BudgetInput struct {
	CreditLimit       *float64 `json:"credit_limit,omitempty" nullable:"true" minimum:"1" maximum:"1000000000000000" doc:"Limit in US dollars, or in tokens (minimum 100). Omit to track usage without a limit."`
	Type              string   `json:"type,omitempty" enum:"cost,tokens" default:"cost"`
	AlertThreshold    *float64 `json:"alert_threshold,omitempty" nullable:"true" minimum:"1" maximum:"1000000000000000" doc:"Less than credit_limit"`
	AlertPercent      *float64 `json:"alert_threshold_percent,omitempty" nullable:"true" minimum:"1" maximum:"99" doc:"alert_threshold in per cent of credit_limit"`
	PeriodicReset     *string  `json:"periodic_reset,omitempty" nullable:"true" enum:"monthly,weekly" doc:"On the first of the month or on Sunday, 00:00 in time_zone"`
	PeriodicResetDays *int     `json:"periodic_reset_days,omitempty" nullable:"true" minimum:"1" maximum:"365" doc:"Cannot be combined with periodic_reset"`
	NextUsageResetAt  *string  `json:"next_usage_reset_at,omitempty" nullable:"true" maxLength:"40" doc:"Time of the first reset, in the future, such as 2026-12-31T12:00:00Z or +30d; a day means 00:00 in time_zone"`
	TimeZone          string   `json:"time_zone,omitempty" maxLength:"64" doc:"Time zone of periodic resets, such as Europe/Berlin; defaults to UTC"`
	OnBudgetEnd       string   `json:"on_budget_end,omitempty" enum:"finish,stop" default:"finish" doc:"finish admits requests while anything is left of the budget and lets their responses finish; stop ends streams when the budget is used up, and rejects other requests whose largest possible use does not fit"`
}

// Budget is a stored budget. [Budget.StartCount] sets its Base.
type Budget struct{ quota.Budget }

// Apply returns the budget that in requests, replacing old, which is nil for a new one.
// Field is its name in the request, for errors.
func (in *BudgetInput) Apply(field string, old *Budget, now time.Time) (*Budget, error) {
	if err := in.check(field); err != nil {
		return nil, err
	}
	u := &Budget{quota.Budget{Type: in.Type, CreditLimit: in.CreditLimit, AlertThreshold: in.AlertThreshold, AlertPercent: in.AlertPercent}}
	if in.AlertPercent != nil {
		u.AlertThreshold = new(PartOf(*in.CreditLimit, *in.AlertPercent))
	}
	if u.Type == "" {
		u.Type = Cost
	}
	if in.OnBudgetEnd == quota.Stop {
		u.OnBudgetEnd = quota.Stop
	}
	if u.TimeZone = in.TimeZone; in.PeriodicReset != nil {
		u.PeriodicReset = *in.PeriodicReset
	}
	if in.PeriodicResetDays != nil {
		u.PeriodicResetDays = *in.PeriodicResetDays
	}
	if in.NextUsageResetAt != nil {
		at, err := FutureReset(field+".next_usage_reset_at", *in.NextUsageResetAt, in.TimeZone, now)
		if err != nil {
			return nil, err
		}
		u.NextResetAt = at
	}
	u.inherit(old, now)
	if u.NextResetAt.IsZero() {
		u.NextResetAt = u.next(now)
	}
	return u, nil
}

// PartOf returns a part of a limit in per cent.
func PartOf(limit, percent float64) float64 { return limit * percent / 100 }

func (in *BudgetInput) check(field string) error {
	switch {
	case in.AlertPercent != nil && in.CreditLimit == nil:
		return route.Invalid(field+".alert_threshold_percent", "requires a credit_limit")
	case in.AlertPercent != nil && in.AlertThreshold != nil && *in.AlertThreshold != PartOf(*in.CreditLimit, *in.AlertPercent):
		return route.Invalid(field+".alert_threshold_percent", "differs from alert_threshold; send one of them")
	case in.CreditLimit == nil && in.AlertThreshold == nil:
		return route.Invalid(field, "must have a credit_limit or an alert_threshold")
	case in.CreditLimit != nil && in.Type == Tokens && *in.CreditLimit < 100:
		return route.Invalid(field+".credit_limit", "must be at least 100 when type is tokens")
	case in.CreditLimit != nil && in.AlertThreshold != nil && *in.AlertThreshold >= *in.CreditLimit:
		return route.Invalid(field+".alert_threshold", "must be less than credit_limit")
	case in.PeriodicReset != nil && in.PeriodicResetDays != nil:
		return route.Invalid(field+".periodic_reset_days", "cannot be combined with periodic_reset; send one of them")
	case in.TimeZone != "" && in.PeriodicReset == nil && in.PeriodicResetDays == nil:
		return route.Invalid(field+".time_zone", "requires periodic_reset or periodic_reset_days")
	}
	return CheckZone(field+".time_zone", in.TimeZone)
}

// ParseReset parses the time of a reset: an ISO 8601 time, or a day, which begins at
// 00:00 in a time zone.
func ParseReset(text, zone string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.Parse(time.DateOnly, text)
		t = quota.Midnight(t.Year(), t.Month(), t.Day(), quota.Zone(zone))
	}
	return t.UTC().Truncate(time.Millisecond), err
}

// FutureReset is [ParseReset] for a time after now, which may also be relative. Field is its name
// in the request.
func FutureReset(field, text, zone string, now time.Time) (time.Time, error) {
	t, err := ParseReset(text, zone)
	if err != nil {
		t, err = moment.Parse(text, now, quota.Zone(zone))
	}
	if err != nil || !t.After(now) {
		return time.Time{}, route.Invalid(field, route.FutureForm)
	}
	return t.UTC().Truncate(time.Millisecond), nil
}

// inherit copies from old what an edit keeps.
func (u *Budget) inherit(old *Budget, now time.Time) {
	if old == nil {
		return
	}
	if old.Type != u.Type { // dollars and tokens cannot be added up
		u.LastResetAt = now
		return
	}
	u.LastResetAt, u.Base = old.LastResetAt, old.Base
	raised := old.CreditLimit != nil && (u.CreditLimit == nil || *u.CreditLimit > *old.CreditLimit)
	if !raised {
		u.ExhaustedSent = old.ExhaustedSent
		u.ThresholdSent = old.ThresholdSent
	}
	if u.AlertThreshold == nil || old.AlertThreshold != nil && *u.AlertThreshold > *old.AlertThreshold {
		u.ThresholdSent = false
	}
	if u.NextResetAt.IsZero() && u.samePeriod(*old) && old.NextResetAt.After(now) {
		u.NextResetAt = old.NextResetAt
	}
}

func (u Budget) samePeriod(v Budget) bool {
	return u.PeriodicReset == v.PeriodicReset && u.PeriodicResetDays == v.PeriodicResetDays && u.TimeZone == v.TimeZone &&
		(u.PeriodicReset != "" || u.PeriodicResetDays != 0)
}

// next returns the first reset after now, zero for a budget without a period.
func (u Budget) next(now time.Time) time.Time {
	at := quota.Zone(u.TimeZone)
	local := now.In(at)
	year, month, day := local.Date()
	switch {
	case u.PeriodicReset == monthly:
		return quota.Midnight(year, month+1, 1, at).UTC()
	case u.PeriodicReset == weekly:
		day += (int(firstWeekday-local.Weekday())+6)%7 + 1
		return quota.Midnight(year, month, day, at).UTC()
	case u.PeriodicResetDays > 0:
		from := u.NextResetAt.In(at)
		if u.NextResetAt.IsZero() {
			from = quota.Midnight(year, month, day, at)
		}
		for !from.After(now) {
			from = quota.AddDays(from, u.PeriodicResetDays)
		}
		return from.UTC()
	}
	return time.Time{}
}

// Due reports whether a reset is due at now.
func (u *Budget) Due(now time.Time) bool {
	return !u.NextResetAt.IsZero() && !now.Before(u.NextResetAt)
}

// Reset starts a new period at now and rearms the warnings. Several missed resets count
// as one. The caller must call [Budget.StartCount] next.
func (u *Budget) Reset(now time.Time) {
	if u.Due(now) {
		u.NextResetAt = u.next(now)
	}
	u.LastResetAt, u.Base = now, nil
	u.ThresholdSent, u.ExhaustedSent = false, false
}

// StartCount starts the count at the total spend all, unless it has started already.
// Everything spent beyond that counts.
func (u *Budget) StartCount(all reqlog.Spend) {
	if u.Base == nil {
		n := u.of(all)
		u.Base = &n
	}
}

// of returns the part of all that u counts: nano-dollars or tokens.
func (u *Budget) of(all reqlog.Spend) int64 {
	if u.Type == Tokens {
		return all.Tokens
	}
	return int64(all.Cost)
}

// Used returns the use of u at the total spend all, in dollars or tokens. It is zero
// until the count has started.
func (u *Budget) Used(all reqlog.Spend) float64 {
	if u.Base == nil {
		return 0
	}
	n := float64(max(u.of(all)-*u.Base, 0))
	if u.Type == Tokens {
		return n
	}
	return n / 1e9
}

// DueWarnings marks the warnings that are due at the total spend all, and reports for
// threshold and limit whether a warning must be sent now.
func (u *Budget) DueWarnings(all reqlog.Spend) (threshold, exhausted bool) {
	used := u.Used(all)
	threshold = u.AlertThreshold != nil && used >= *u.AlertThreshold && !u.ThresholdSent
	exhausted = u.Exhausted(used) && !u.ExhaustedSent
	u.ThresholdSent = u.ThresholdSent || threshold
	u.ExhaustedSent = u.ExhaustedSent || exhausted
	return threshold, exhausted
}

// Exhausted reports whether used has reached the limit.
func (u *Budget) Exhausted(used float64) bool { return u.CreditLimit != nil && used >= *u.CreditLimit }

// Relieves reports whether u allows more than before, in which case an exhausted object
// may be usable again. Nil, no budget, allows everything.
func (u *Budget) Relieves(before *Budget) bool {
	switch {
	case before == nil || before.CreditLimit == nil:
		return false
	case u == nil || u.CreditLimit == nil || u.Type != before.Type:
		return true
	}
	return *u.CreditLimit > *before.CreditLimit
}

// Exceeds reports whether u allows more than bound in the same period. Nil, no budget,
// does not, because its use counts against bound too.
func (u *Budget) Exceeds(bound *Budget) bool {
	if u == nil || bound == nil || u.CreditLimit == nil || bound.CreditLimit == nil {
		return false
	}
	same := u.Type == bound.Type && u.PeriodicReset == bound.PeriodicReset && u.PeriodicResetDays == bound.PeriodicResetDays
	return same && *u.CreditLimit > *bound.CreditLimit
}

// BudgetResponse is usage_limits in a response.
type BudgetResponse struct {
	CreditLimit       *float64   `json:"credit_limit"`
	Type              string     `json:"type"`
	AlertThreshold    *float64   `json:"alert_threshold"`
	AlertPercent      *float64   `json:"alert_threshold_percent,omitempty" doc:"If the threshold was set in per cent"`
	PeriodicReset     *string    `json:"periodic_reset"`
	PeriodicResetDays *int       `json:"periodic_reset_days"`
	NextUsageResetAt  route.Time `json:"next_usage_reset_at"`
	CurrentUsage      float64    `json:"current_usage" doc:"Since last_reset_at"`
	Status            string     `json:"status" doc:"active, exhausted or expired"`
	LastResetAt       route.Time `json:"last_reset_at"`
	OnBudgetEnd       string     `json:"on_budget_end" doc:"finish or stop"`
	ThresholdSent     bool       `json:"is_threshold_alerts_sent"`
	ExhaustedSent     bool       `json:"is_exhausted_alerts_sent"`
	ExpiredSent       bool       `json:"is_expired_alerts_sent"`
	TimeZone          string     `json:"time_zone,omitempty"`
}

// Response returns u at the total spend all and with the status of its object. Nil, no
// budget, returns nil.
func (u *Budget) Response(all reqlog.Spend, status string) *BudgetResponse {
	if u == nil {
		return nil
	}
	a := &BudgetResponse{
		CreditLimit: u.CreditLimit, Type: u.Type, AlertThreshold: u.AlertThreshold, AlertPercent: u.AlertPercent,
		NextUsageResetAt: route.Time(u.NextResetAt), CurrentUsage: u.Used(all), Status: status,
		LastResetAt: route.Time(u.LastResetAt), OnBudgetEnd: cmp.Or(u.OnBudgetEnd, "finish"),
		ThresholdSent: u.ThresholdSent, ExhaustedSent: u.ExhaustedSent, ExpiredSent: status == store.Expired, TimeZone: u.TimeZone,
	}
	if u.PeriodicReset != "" {
		a.PeriodicReset = &u.PeriodicReset
	}
	if u.PeriodicResetDays != 0 {
		a.PeriodicResetDays = &u.PeriodicResetDays
	}
	return a
}

// JSON returns u in stored form; nil is null.
func (u *Budget) JSON() json.RawMessage { return encode(u) }

// ReadUsage decodes what [Budget.JSON] wrote; null is nil.
func ReadUsage(raw json.RawMessage) (*Budget, error) {
	var u *Budget
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return nil, fmt.Errorf("reading usage limits: %w", err)
	}
	return u, nil
}

// encode encodes a struct of plain fields, which cannot fail.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
