package quota

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxLimit is the largest limit, 2^53: the largest up to which JSON clients and Redis
// count in ones.
const MaxLimit = 1 << 53

// Rate is a rate limit as it is stored, sent and shown.
type Rate struct {
	Type  string `json:"type" enum:"requests,tokens"`
	Unit  string `json:"unit" enum:"rps,rpm,rph,rpd,rpw,concurrent" doc:"Per second, minute, hour, day or week, in UTC; weeks begin on Monday. Second and week only for keys. Or, of requests, at a time"`
	Value int64  `json:"value" minimum:"1" maximum:"9007199254740992"`
}

// UnitConcurrent is the unit of a limit of requests in progress.
const UnitConcurrent = "concurrent"

// windows are the windows of the units of a [Rate].
var windows = map[string]time.Duration{"rps": time.Second, "rpm": time.Minute, "rph": time.Hour, "rpd": day, "rpw": 7 * day}

// unitNames are the units in messages.
var unitNames = map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", day: "day", 7 * day: "week"}

// Window returns the window of a unit, zero for an unknown one.
func Window(unit string) time.Duration { return windows[unit] }

// limit returns the limit of h.
func (r Rate) Limit(h Holder) *Limit {
	l := &Limit{Counter: h.Kind + "/" + h.ID + "/" + r.Type + "/" + r.Unit, Max: r.Value, Window: windows[r.Unit], Holder: h}
	switch {
	case r.Unit == UnitConcurrent:
		l.Measure = Concurrent
	case r.Type == Tokens.String():
		l.Measure = Tokens
	}
	return l
}

// Budget is a budget as it is stored.
type Budget struct {
	Type              string   `json:"type"`                   // "cost" or "tokens"
	CreditLimit       *float64 `json:"credit_limit,omitempty"` // dollars or tokens; nil counts without a limit
	AlertThreshold    *float64 `json:"alert_threshold,omitempty"`
	AlertPercent      *float64 `json:"alert_threshold_percent,omitempty"` // of CreditLimit, from which AlertThreshold was calculated
	PeriodicReset     string   `json:"periodic_reset,omitempty"`          // "monthly", "weekly" or empty
	PeriodicResetDays int      `json:"periodic_reset_days,omitempty"`     // zero for none
	TimeZone          string   `json:"time_zone,omitempty"`               // IANA name of the time zone of resets; empty is UTC
	OnBudgetEnd       string   `json:"on_budget_end,omitempty"`           // "stop", or empty for finish

	// NextResetAt is the time of the next reset; zero is never.
	NextResetAt time.Time `json:"next_usage_reset_at,omitzero"`

	// LastResetAt is the time of the last reset; zero is never.
	LastResetAt time.Time `json:"last_reset_at,omitzero"`

	// Base is the total spend at the start of the period, in nano-dollars or tokens.
	// Nil means that it is not yet known.
	Base *int64 `json:"base,omitempty"`

	// Warnings sent since the last reset.
	ThresholdSent bool `json:"is_threshold_alerts_sent,omitempty"`
	ExhaustedSent bool `json:"is_exhausted_alerts_sent,omitempty"`
}

// Stop is the value of OnBudgetEnd of a budget that is never exceeded.
const Stop = "stop"

// Counter returns the name of the counter of b, a budget of h.
func (b *Budget) Counter(h Holder) string {
	period := b.PeriodicReset
	if b.PeriodicResetDays != 0 {
		period = strconv.Itoa(b.PeriodicResetDays)
	}
	return h.Kind + "/" + h.ID + "/" + b.Type + "/" + period
}

// limit returns the limit of h, nil for a budget without one. Cost and tokens
// are what the ledger has counted for h, of all time.
func (b *Budget) limit(h Holder, cost, tokens int64) *Limit {
	if b.CreditLimit == nil {
		return nil
	}
	l := &Limit{Counter: b.Counter(h), Measure: Cost, Counted: cost, Holder: h, Resets: b.NextResetAt, Stop: b.OnBudgetEnd == Stop}
	limit := *b.CreditLimit * nanos
	if b.Type == Tokens.String() {
		l.Measure, l.Counted, limit = Tokens, tokens, *b.CreditLimit
	}
	l.Base = l.Counted
	if b.Base != nil {
		l.Base = *b.Base
	}
	l.Max = math.MaxInt64
	if limit < float64(math.MaxInt64-l.Base) {
		l.Max = l.Base + int64(math.Round(limit))
	}
	return l
}

// nanos are the nano-dollars of a dollar.
const nanos = 1e9

// ParseBudgets decodes stored budgets: an array, one object, or null.
func ParseBudgets(raw []byte) (list []Budget, err error) {
	switch {
	case len(raw) == 0:
		return nil, nil
	case raw[0] == '[':
		err = json.Unmarshal(raw, &list)
	default:
		var one *Budget
		if err = json.Unmarshal(raw, &one); one != nil {
			list = []Budget{*one}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading usage limits: %w", err)
	}
	return list, nil
}

// ParseLimits returns the limits of h from its stored rate limits and budgets,
// rates first. Cost and tokens are what the ledger has counted for h.
func ParseLimits(h Holder, rates, budgets []byte, cost, tokens int64) (list []*Limit, err error) {
	if len(rates) > len("[]") {
		var stored []Rate
		if err := json.Unmarshal(rates, &stored); err != nil {
			return nil, fmt.Errorf("reading rate limits: %w", err)
		}
		for _, r := range stored {
			list = append(list, r.Limit(h))
		}
	}
	stored, err := ParseBudgets(budgets)
	for i := range stored {
		if l := stored[i].limit(h, cost, tokens); l != nil {
			list = append(list, l)
		}
	}
	return list, err
}

// String describes a limit: "100 requests per minute", "budget of $10 per month".
func (l *Limit) String() string {
	amount := l.Amount(l.Max - l.Base)
	if l.Measure == Concurrent {
		return amount + " at a time"
	}
	if l.Window != 0 {
		return amount + " per " + unitNames[l.Window]
	}
	return "budget of " + amount
}

// Unit returns the unit of a rate limit as in [Rate]; empty for a budget.
func (l *Limit) Unit() string {
	if l.Measure == Concurrent {
		return UnitConcurrent
	}
	for unit, w := range windows {
		if w == l.Window {
			return unit
		}
	}
	return ""
}

// OvershootUnits returns the overshoot of s like [Limit.Units], nil if it is unknown.
func (l *Limit) OvershootUnits(s State) *float64 {
	if s.Overshoot == unknownOvershoot {
		return nil
	}
	n := l.Units(s.Overshoot)
	return &n
}

// Units returns n of what l counts in dollars, tokens or requests.
func (l *Limit) Units(n int64) float64 {
	if l.Measure == Cost {
		return float64(n) / nanos
	}
	return float64(n)
}

// Amount returns n of what l counts, for messages.
func (l *Limit) Amount(n int64) string {
	if l.Measure == Cost {
		return "$" + strconv.FormatFloat(float64(n)/nanos, 'f', -1, 64)
	}
	if n == 1 {
		return "1 " + strings.TrimSuffix(l.Measure.String(), "s")
	}
	return strconv.FormatInt(n, 10) + " " + l.Measure.String()
}

// Terms returns the amount of a budget and when it is reset, for messages.
func (l *Limit) Terms() string {
	if l.Resets.IsZero() {
		return l.Amount(l.Max-l.Base) + " without a reset"
	}
	return l.Amount(l.Max-l.Base) + " until " + l.Resets.UTC().Format(time.RFC3339)
}

// IsBudget reports whether l is a budget, not a rate limit or one of requests in progress.
func (l *Limit) IsBudget() bool { return l.Window == 0 && l.Measure != Concurrent }

// HasBudget reports whether one of limits is a budget.
func HasBudget(limits []*Limit) bool { return slices.ContainsFunc(limits, (*Limit).IsBudget) }

// FindBudget returns the budget of the first holder of a kind among limits, nil if none has
// one.
func FindBudget(limits []*Limit, kind string) *Limit {
	for _, l := range limits {
		if l.Holder.Kind == kind && l.IsBudget() {
			return l
		}
	}
	return nil
}
