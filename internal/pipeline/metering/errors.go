package metering

import (
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

// limitError returns the error of a reservation that was refused. A refusal by
// rate limits names the one that is reset last: until then, all of them are
// not free.
func limitError(r *exchange.Request, claims []quota.Claim, v quota.Verdict, now time.Time) error {
	at := v.Refused
	if l := claims[at].Limit; l.Holder.Kind == policy.SessionHolder {
		e := apierr.From(r.Limiting.Policies.SessionError(l, v.States[at], now))
		e.Limit = &apierr.RateLimit{Measure: l.Measure.String(), Shared: l.PerAttempt}
		return e
	}
	if l := claims[at].Limit; l.Holder.Kind == policy.LoopHolder {
		return apierr.From(policy.LoopError(l, r.Limiting.Facts.Tool))
	}
	if l := claims[at].Limit; l.Measure == quota.Concurrent {
		e := apierr.New(apierr.RateLimited, "%s has reached its limit of requests in progress, %s; try again when one has ended", holderName(l), l)
		e.RetryAfter = time.Second
		return shareable(l, e)
	}
	if c := claims[at]; c.Limit.Window == 0 {
		if left := v.States[at].Left(c.Limit); r.Operation.IsTools() && left > 0 {
			return shareable(c.Limit, apierr.New(apierr.BudgetExhausted, "the budget of %s has %s left and the call costs %s; raise the budget or wait for the next reset",
				holderName(c.Limit), c.Limit.Amount(left), c.Limit.Amount(c.Least)))
		}
		return budgetError(c, v.States[at])
	}
	for i := at + 1; i < len(claims); i++ {
		l := claims[i].Limit
		if l.Window != 0 && v.States[i].Left(l) < claims[i].Least && v.States[i].Reset.After(v.States[at].Reset) {
			at = i
		}
	}
	l, s := claims[at].Limit, v.States[at]
	wait := max(s.Reset.Sub(now), time.Millisecond)
	e := apierr.New(apierr.RateLimited, "the rate limit of %s is reached: %s; try again in %s", holderName(l), l, roundWait(wait)).
		WithParam(holderParam(l))
	e.RetryAfter = wait
	e.Limit = &apierr.RateLimit{Measure: l.Measure.String(), Limit: l.Max, Remaining: s.Left(l), Reset: s.Reset, Shared: l.PerAttempt}
	return e
}

func budgetError(c quota.Claim, s quota.State) *apierr.Error {
	l := c.Limit
	left := s.Left(l)
	if left == 0 && s.Held == 0 {
		return budgetExhausted(l)
	}
	if left == 0 {
		return shareable(l, apierr.New(apierr.BudgetExhausted, "the budget of %s is exhausted: requests in progress have reserved the remaining %s; try again when they have ended, or raise it", holderName(l), l.Amount(l.Max-l.Base)))
	}
	what, advice := "request may use", "set a lower limit of output tokens"
	if c.Least < c.Amount { // a stream, which the gateway can end
		what, advice = "input of the request uses about", "shorten it"
	}
	return shareable(l, apierr.New(apierr.BudgetExhausted, "the budget of %s has %s left and the %s %s; %s, raise the budget or wait for the next reset",
		holderName(l), l.Amount(left), what, l.Amount(c.Least), advice))
}

func budgetExhausted(l *quota.Limit) *apierr.Error {
	return shareable(l, apierr.New(apierr.BudgetExhausted, "the budget of %s is exhausted: %s; raise it or wait for the next reset",
		holderName(l), l.Terms()))
}

func shareable(l *quota.Limit, e *apierr.Error) *apierr.Error {
	e.Limit = &apierr.RateLimit{Measure: l.Measure.String(), Shared: l.PerAttempt}
	return e.WithParam(holderParam(l))
}

// holderName names the holder of l in messages.
func holderName(l *quota.Limit) string {
	switch l.Holder.Kind {
	case "key":
		return "this gateway key"
	case "workspace":
		return "this key's workspace"
	case "user":
		return "this key's user"
	case "provider":
		return "the provider " + l.Holder.Name
	case "grant":
		return "the integration " + l.Holder.Name + " in this workspace"
	}
	return "the " + l.Holder.Kind + " " + l.Holder.Name
}

func holderParam(l *quota.Limit) string {
	if l.PerAttempt {
		return "x-gateway-provider"
	}
	return "x-gateway-api-key"
}

func limitsUnavailable(err error) *apierr.Error {
	e := apierr.New(apierr.Unavailable, "the limits of this request cannot be checked; try again shortly").
		WithCode(exchange.CodeLimits).WithCause(err)
	e.RetryAfter = time.Second
	return e
}

// roundWait rounds a wait for people.
func roundWait(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// BudgetError returns the error of a request whose key, user or workspace is marked as
// having used up its budget. limits are those of the request, and kind is the kind of the
// holder.
func BudgetError(limits []*quota.Limit, kind string) error {
	terms := ""
	if l := quota.FindBudget(limits, kind); l != nil {
		terms = ": " + l.Terms()
	}
	holder := holderName(&quota.Limit{Holder: quota.Holder{Kind: kind}})
	return apierr.New(apierr.BudgetExhausted, "the budget of %s is exhausted%s; raise it or wait for the next reset", holder, terms).
		WithParam("x-gateway-api-key").WithCause(&quota.Exhausted{Kind: kind})
}
