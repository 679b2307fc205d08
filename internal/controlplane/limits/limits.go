// Package limits is what budgets and rate limits look like wherever the control
// plane takes them: on keys, workspaces, providers and grants of integrations.
//
// It promises that what is stored is within its bounds and knows when it starts
// again, that an edit forgets no warning that was sent and repeats none, and that
// no reset loses what is counted in the meantime. Times are its caller's. Counting what
// was spent is left to the store, acting on it to budgets, and refusing what is
// over to the data plane.
package limits

import (
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/reqlog"
)

// The kinds of [Budget], and of a [Rate] instead of Cost.
const (
	Cost     = "cost" // US dollars
	Tokens   = "tokens"
	Requests = "requests"
)

// The periods after which a [Budget] starts again, beside a number of days.
const (
	Monthly = "monthly"
	Weekly  = "weekly"
)

// firstWeekday is the day on which weekly budgets start again, at 00:00 UTC.
const firstWeekday = time.Sunday

// BudgetInput is usage_limits as a request has it. Its bounds are checked by the
// route's wrapper, what they leave open by [BudgetInput.Apply].
type BudgetInput struct {
	CreditLimit       *float64 `json:"credit_limit,omitempty" nullable:"true" minimum:"1" maximum:"1000000000000000" doc:"Limit in US dollars, or in tokens (minimum 100). Omit to track usage without a limit."`
	Type              string   `json:"type,omitempty" enum:"cost,tokens" default:"cost"`
	AlertThreshold    *float64 `json:"alert_threshold,omitempty" nullable:"true" minimum:"1" maximum:"1000000000000000" doc:"Less than credit_limit"`
	PeriodicReset     *string  `json:"periodic_reset,omitempty" nullable:"true" enum:"monthly,weekly" doc:"On the first of the month or on Sunday, 00:00 UTC"`
	PeriodicResetDays *int     `json:"periodic_reset_days,omitempty" nullable:"true" minimum:"1" maximum:"365" doc:"In the place of periodic_reset"`
	NextUsageResetAt  *string  `json:"next_usage_reset_at,omitempty" nullable:"true" maxLength:"40" doc:"The first reset, at 00:00 UTC of the day; a day to come, in ISO 8601"`
}

// Budget is a budget as it is stored.
type Budget struct {
	Type              string   `json:"type"`                   // Cost or Tokens
	CreditLimit       *float64 `json:"credit_limit,omitempty"` // nil counts without refusing
	AlertThreshold    *float64 `json:"alert_threshold,omitempty"`
	PeriodicReset     string   `json:"periodic_reset,omitempty"`      // Monthly, Weekly or empty
	PeriodicResetDays int      `json:"periodic_reset_days,omitempty"` // zero for none

	// NextResetAt is when the count starts again; zero is never.
	NextResetAt time.Time `json:"next_usage_reset_at,omitzero"`

	// LastResetAt is when the count started again; zero is never.
	LastResetAt time.Time `json:"last_reset_at,omitzero"`

	// Base is what had been spent in all when the count started, in nano-dollars
	// or tokens: see [Budget.StartCount]. Nil is unknown yet.
	Base *int64 `json:"base,omitempty"`

	// What was told to people since the count started.
	ThresholdSent bool `json:"is_threshold_alerts_sent,omitempty"`
	ExhaustedSent bool `json:"is_exhausted_alerts_sent,omitempty"`
	ExpiredSent   bool `json:"is_expired_alerts_sent,omitempty"`
}

// Apply returns the budget that in asks for instead of old, which is nil
// for a new one. Field is what the request calls it, for errors.
func (in *BudgetInput) Apply(field string, old *Budget, now time.Time) (*Budget, error) {
	if err := in.check(field); err != nil {
		return nil, err
	}
	u := &Budget{Type: in.Type, CreditLimit: in.CreditLimit, AlertThreshold: in.AlertThreshold}
	if u.Type == "" {
		u.Type = Cost
	}
	if in.PeriodicReset != nil {
		u.PeriodicReset = *in.PeriodicReset
	}
	if in.PeriodicResetDays != nil {
		u.PeriodicResetDays = *in.PeriodicResetDays
	}
	if in.NextUsageResetAt != nil {
		day, err := parseDay(*in.NextUsageResetAt)
		if err != nil || !day.After(now) {
			return nil, route.Invalid(field+".next_usage_reset_at", "is not a day to come in ISO 8601")
		}
		u.NextResetAt = day
	}
	u.inherit(old, now)
	if u.NextResetAt.IsZero() {
		u.NextResetAt = u.next(now)
	}
	return u, nil
}

func (in *BudgetInput) check(field string) error {
	switch {
	case in.CreditLimit == nil && in.AlertThreshold == nil:
		return route.Invalid(field, "needs a credit_limit or an alert_threshold")
	case in.CreditLimit != nil && in.Type == Tokens && *in.CreditLimit < 100:
		return route.Invalid(field+".credit_limit", "must be at least 100 when type is tokens")
	case in.CreditLimit != nil && in.AlertThreshold != nil && *in.AlertThreshold >= *in.CreditLimit:
		return route.Invalid(field+".alert_threshold", "must be less than credit_limit")
	case in.PeriodicReset != nil && in.PeriodicResetDays != nil:
		return route.Invalid(field+".periodic_reset_days", "cannot be combined with periodic_reset; send one of them")
	}
	return nil
}

// parseDay reads a moment or a day of ISO 8601 and returns the start of its day.
func parseDay(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.Parse(time.DateOnly, text)
	}
	return midnight(t), err
}

func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// inherit takes over from old what an edit does not change.
func (u *Budget) inherit(old *Budget, now time.Time) {
	if old == nil {
		return
	}
	if old.Type != u.Type { // dollars are not counted on as tokens
		u.LastResetAt = now
		return
	}
	u.LastResetAt, u.Base = old.LastResetAt, old.Base
	u.ExpiredSent = old.ExpiredSent
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
	return u.PeriodicReset == v.PeriodicReset && u.PeriodicResetDays == v.PeriodicResetDays &&
		(u.PeriodicReset != "" || u.PeriodicResetDays != 0)
}

// next returns the first reset after now, zero for a budget without a period.
func (u Budget) next(now time.Time) time.Time {
	today := midnight(now)
	switch {
	case u.PeriodicReset == Monthly:
		return time.Date(today.Year(), today.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	case u.PeriodicReset == Weekly:
		days := (int(firstWeekday-today.Weekday())+6)%7 + 1
		return today.AddDate(0, 0, days)
	case u.PeriodicResetDays > 0:
		from := u.NextResetAt
		if from.IsZero() {
			from = today
		}
		for !from.After(now) {
			from = from.AddDate(0, 0, u.PeriodicResetDays)
		}
		return from
	}
	return time.Time{}
}

// Due reports whether the count is to start again at now.
func (u *Budget) Due(now time.Time) bool {
	return !u.NextResetAt.IsZero() && !now.Before(u.NextResetAt)
}

// Reset starts the count again at now and makes the warnings possible again. Of
// resets that were missed, one is made. [Budget.StartCount] has to follow.
func (u *Budget) Reset(now time.Time) {
	if u.Due(now) {
		u.NextResetAt = u.next(now)
	}
	u.LastResetAt, u.Base = now, nil
	u.ThresholdSent, u.ExhaustedSent = false, false
}

// StartCount makes the count start at all, which is what was spent until now, unless
// it has started already. What is spent from then on counts, whenever that is.
func (u *Budget) StartCount(all reqlog.Spend) {
	if u.Base == nil {
		n := u.of(all)
		u.Base = &n
	}
}

// of returns what u counts of all: nano-dollars or tokens.
func (u *Budget) of(all reqlog.Spend) int64 {
	if u.Type == Tokens {
		return all.Tokens
	}
	return int64(all.Cost)
}

// Used returns what was used of u when all was spent, in dollars or tokens. A
// count that has not started is at zero.
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

// DueWarnings notes which warnings are due when all was spent, and returns whether
// those of the threshold and of the limit are to be sent now.
func (u *Budget) DueWarnings(all reqlog.Spend) (threshold, exhausted bool) {
	used := u.Used(all)
	threshold = u.AlertThreshold != nil && used >= *u.AlertThreshold && !u.ThresholdSent
	exhausted = u.Exhausted(used) && !u.ExhaustedSent
	u.ThresholdSent = u.ThresholdSent || threshold
	u.ExhaustedSent = u.ExhaustedSent || exhausted
	return threshold, exhausted
}

// Exhausted reports whether what was used since the last reset is all there is.
func (u *Budget) Exhausted(used float64) bool { return u.CreditLimit != nil && used >= *u.CreditLimit }

// Relieves reports whether u leaves more to use than before, so that what was
// exhausted is worth another look. Nil, for no budget, leaves everything.
func (u *Budget) Relieves(before *Budget) bool {
	switch {
	case before == nil || before.CreditLimit == nil:
		return false
	case u == nil || u.CreditLimit == nil || u.Type != before.Type:
		return true
	}
	return *u.CreditLimit > *before.CreditLimit
}

// Exceeds reports whether u lets more be used than bound in the same period. Nil,
// for no budget, never does: what is used counts against the bound too.
func (u *Budget) Exceeds(bound *Budget) bool {
	if u == nil || bound == nil || u.CreditLimit == nil || bound.CreditLimit == nil {
		return false
	}
	same := u.Type == bound.Type && u.PeriodicReset == bound.PeriodicReset && u.PeriodicResetDays == bound.PeriodicResetDays
	return same && *u.CreditLimit > *bound.CreditLimit
}

// BudgetResponse is usage_limits as an answer has it.
type BudgetResponse struct {
	CreditLimit       *float64   `json:"credit_limit"`
	Type              string     `json:"type"`
	AlertThreshold    *float64   `json:"alert_threshold"`
	PeriodicReset     *string    `json:"periodic_reset"`
	PeriodicResetDays *int       `json:"periodic_reset_days"`
	NextUsageResetAt  route.Time `json:"next_usage_reset_at"`
	CurrentUsage      float64    `json:"current_usage" doc:"Since last_reset_at"`
	Status            string     `json:"status" doc:"active, exhausted or expired"`
	LastResetAt       route.Time `json:"last_reset_at"`
	ThresholdSent     bool       `json:"is_threshold_alerts_sent"`
	ExhaustedSent     bool       `json:"is_exhausted_alerts_sent"`
	ExpiredSent       bool       `json:"is_expired_alerts_sent"`
}

// Response returns u as it is when all was spent, with the state of what it belongs
// to. Nil, for no budget, is answered with nil.
func (u *Budget) Response(all reqlog.Spend, status string) *BudgetResponse {
	if u == nil {
		return nil
	}
	a := &BudgetResponse{
		CreditLimit: u.CreditLimit, Type: u.Type, AlertThreshold: u.AlertThreshold,
		NextUsageResetAt: route.Time(u.NextResetAt), CurrentUsage: u.Used(all), Status: status, LastResetAt: route.Time(u.LastResetAt),
		ThresholdSent: u.ThresholdSent, ExhaustedSent: u.ExhaustedSent, ExpiredSent: u.ExpiredSent,
	}
	if u.PeriodicReset != "" {
		a.PeriodicReset = &u.PeriodicReset
	}
	if u.PeriodicResetDays != 0 {
		a.PeriodicResetDays = &u.PeriodicResetDays
	}
	return a
}

// JSON returns u as it is stored; nil is null.
func (u *Budget) JSON() json.RawMessage { return encode(u) }

// ReadUsage reads what [Budget.JSON] wrote; null is nil.
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

// encode writes what is made of plain fields alone, which never fails.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
