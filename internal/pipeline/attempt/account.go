package attempt

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/records/reqlog"
)

// Ledger records attempts. Intend is called before an attempt is sent, and
// Settle once when it has ended. An attempt whose intent failed is neither sent
// nor settled. Both may be called concurrently.
type Ledger interface {
	RecordIntent(ctx context.Context, i reqlog.Intent) error
	RecordSettlement(s reqlog.Settlement)
}

// attemptAccount records one attempt. The zero value records nothing.
type attemptAccount struct {
	open           bool
	ledger         Ledger // nil: only the bill is updated
	bill           *exchange.Bill
	number         uint16 // of the attempt, from 1
	began          time.Time
	attempt        *attempt
	sent           sentRequest
	limits         metering.Reservation
	unsent         bool // nothing of it was written to the provider
	survivesClient bool // see attempt.survivesClient
}

// openAccount reserves what an attempt that is about to be sent may use, and writes its
// intent.
func (a *attempt) openAccount() error {
	bill := a.plan.trail.Bill()
	n := bill.Attempts.Add(1)
	used := &bill.Used
	if a.plan.request.Attempts != nil {
		used = a.plan.request.Attempts
	}
	if a.response.Session == nil { // the turns of a session are not repetitions
		if err := exchange.CountAttempt(used, a.plan.handler.Engine.Bounds.AttemptLimit()); err != nil {
			return err
		}
	}
	acc := &a.account
	*acc = attemptAccount{ledger: a.plan.handler.Engine.Ledger, bill: bill, number: uint16(n),
		began: time.Now(), attempt: a, sent: sentBy(a.plan.request), survivesClient: a.plan.survivesClient()}
	acc.limits = a.reservation(acc.number)
	if err := acc.limits.Reserve(a.plan.timers.context()); err != nil {
		acc.sent.release()
		return err
	}
	if err := acc.recordIntent(); err != nil {
		acc.limits.Settle(quota.Use{})
		acc.sent.release()
		return err
	}
	acc.open = true
	return nil
}

// reservation returns what the attempt may reserve, under a number of an attempt.
func (a *attempt) reservation(number uint16) metering.Reservation {
	return metering.Reservation{Store: a.plan.handler.Engine.Quota, Request: a.plan.request, Record: &a.plan.record, Also: a.plan.also,
		Quota: &a.plan.trail.Bill().Quota, Number: number, By: &a.account}
}

func (a *attemptAccount) recordIntent() error {
	if a.ledger == nil {
		return nil
	}
	of, owner := a.attempt, a.attempt.plan.request.Owner()
	return a.ledger.RecordIntent(of.plan.timers.context(), reqlog.Intent{
		ID: of.plan.request.ID, Attempt: a.number, Time: a.began, Organisation: owner.Organisation,
		Workspace: owner.Workspace, KeyID: owner.KeyID,
		Provider: of.plan.record.Target.ID, Slug: of.plan.record.Target.Slug, Model: of.plan.record.Model, RequestBytes: a.sent.size,
		Counters: a.limits.PolicyCounters(),
	})
}

// refusedHere reports whether the gateway itself refused an attempt: no attempt
// is left, or a limit is reached.
func refusedHere(err error) bool {
	e := apierr.From(err)
	return e.Code == exchange.CodeAttempts || e.Code == exchange.CodeLimits || e.Limit != nil
}

// IntentError returns the error of an attempt that is not sent because its
// intent could not be written.
func IntentError(err error) *apierr.Error {
	reason := "cannot be written"
	if number, ok := errors.AsType[syscall.Errno](err); ok { // without the path
		reason += ": " + number.Error()
	}
	e := apierr.New(apierr.Unavailable, "the request was not sent because the usage ledger %s; try again shortly", reason).
		WithCode("ledger_full").WithCause(err)
	e.RetryAfter = time.Second
	return e
}

// fail settles an attempt without a usable response. If its client abandoned it, the
// provider may have received the request and responded: its input is estimated, unless
// nothing was written.
func (a *attemptAccount) fail(err error) {
	s := reqlog.Settlement{Outcome: reqlog.Failed}
	if a.open && abandonedBy(err) {
		s.Outcome = reqlog.Abandoned
		if !a.unsent {
			a.bill.Quota.Abandon()
		}
		if !a.unsent && a.sent.uses() {
			a.sent.count(a.attempt)
			s.Usage = llm.Usage{Known: true, Estimated: true, Input: a.sent.tokens(a.attempt)}
			s.Cost, s.Price, s.Priced = a.cost(s.Usage, "", catalog.Standard)
		}
	}
	a.settle(s)
}

// abandonedBy reports whether err is the end of an attempt that the client chose, so that
// the provider is not to blame: it disconnected, or the timeout of its request ended.
func abandonedBy(err error) bool {
	e, ok := errors.AsType[*apierr.Error](err)
	return ok && (e.Kind == apierr.ClientGone || e.Kind == apierr.Timeout)
}

// end settles the attempt of r with what has been read of its response.
func (a *attemptAccount) end(r *exchange.Response) {
	if !a.open {
		return
	}
	if a.attempt.response.Session != nil { // a turn without output
		a.settleTurn(exchange.Turn{Usage: llm.Usage{Known: true}}, reqlog.Answered)
		return
	}
	if t := a.attempt.translation; t != nil && r.Raw.Request.Context().Err() == nil { // not of a hedge that lost
		a.bill.AddChanges(t.lost.changes())
	}
	seen := r.Tap.Info()
	s := reqlog.Settlement{Outcome: reqlog.Answered, Status: r.Raw.StatusCode, Usage: r.Usage()}
	switch {
	case s.Status >= 400:
		s.Outcome = reqlog.Refused
	case !seen.Finished && !seen.Terminated && r.Bytes == nil && r.Raw.Request.Context().Err() != nil:
		s.Outcome = reqlog.Abandoned
	}
	s.Cost, s.Price, s.Priced = a.cost(s.Usage, seen.Model, catalog.TierOf(a.attempt.plan.record.Target.Tiers, a.tier(r)))
	if (!s.Priced || s.Usage.Estimated) && s.Outcome != reqlog.Refused {
		if cost, row, known := a.unitCost(r); known {
			s.Cost, s.Price, s.Priced = cost, row, true
		}
	}
	a.countCached(s.Usage, seen.Model, catalog.TierOf(a.attempt.plan.record.Target.Tiers, a.tier(r)))
	a.settle(s)
}

// tier returns the provider's name of the tier that served r, from the body or
// otherwise from a header.
func (a *attemptAccount) tier(r *exchange.Response) string {
	return cmp.Or(r.Tap.Info().Tier, r.Raw.Header.Get(a.attempt.plan.record.Target.TierHeader))
}

// cost returns the cost of u and the name of its price. The cost is unknown if
// the price or the usage is unknown, except for reserved capacity, which is
// free.
func (a *attemptAccount) cost(u llm.Usage, served string, t catalog.Tier) (cost catalog.NanoDollars, row string, known bool) {
	p, cost, known := a.price(served, func(p *catalog.Price) (catalog.NanoDollars, bool) {
		if !u.Known && !p.Free() || !p.Has(t) || !p.Covers(u) {
			return 0, false
		}
		return p.Cost(u, t), true
	})
	if !known || cost < a.assumedCost(u) && a.namesUnpriced(served) {
		return 0, "", false
	}
	row = p.Row()
	if t != catalog.Standard && !p.Free() {
		row += " " + t.String()
	}
	return cost, row, true
}

// price returns the price that applies to the attempt and the cost by it: that of its
// model, or of the model that served it if it names several. If that is unknown, the
// dearest of them counts. It is false if no cost is known.
func (a *attemptAccount) price(served string, costOf func(*catalog.Price) (catalog.NanoDollars, bool)) (price *catalog.Price,
	cost catalog.NanoDollars, known bool) {
	of := a.attempt
	if len(of.plan.also) > 0 && served != "" {
		if p, ok := of.plan.record.Target.Price(of.plan.request.Limiting.Prices, served, "", a.began); ok {
			cost, known = costOf(p)
			return p, cost, known
		}
		served = ""
	}
	for _, model := range append([]string{of.plan.pricedModel()}, of.plan.also...) {
		p, ok := of.plan.record.Target.Price(of.plan.request.Limiting.Prices, model, served, a.began)
		if !ok {
			continue
		}
		if c, ok := costOf(p); ok && (!known || c > cost) {
			price, cost, known = p, c, true
		}
	}
	return price, cost, known
}

// namesUnpriced reports whether a model without a price may have served the attempt, which
// names several.
func (a *attemptAccount) namesUnpriced(served string) bool {
	of := a.attempt
	has := func(model string) bool {
		_, ok := of.plan.record.Target.Price(of.plan.request.Limiting.Prices, model, "", a.began)
		return ok
	}
	if len(of.plan.also) == 0 || served != "" && has(served) {
		return false
	}
	return !has(of.plan.pricedModel()) || slices.ContainsFunc(of.plan.also, func(m string) bool { return !has(m) })
}

// assumedCost returns the cost of u by a model without a price.
func (a *attemptAccount) assumedCost(u llm.Usage) catalog.NanoDollars {
	return catalog.NanoDollars(metering.UseOf(&reqlog.Settlement{Outcome: reqlog.Answered, Usage: u}).Cost)
}

// settle writes the settlement. Further calls do nothing.
func (a *attemptAccount) settle(s reqlog.Settlement) {
	if !a.open {
		return
	}
	a.open = false
	a.sent.release()
	s.ID, s.Attempt, s.Time = a.attempt.plan.request.ID, a.number, time.Now()
	a.attempt.plan.record.Paid = exchange.SettledCost{Cost: s.Cost, Known: s.Priced}
	a.bill.Add(&s)
	use := metering.UseOf(&s)
	if a.unsent {
		use.Requests = 0
	}
	a.limits.Settle(use) // before the ledger, whose count corrects the counters
	if a.ledger != nil {
		a.ledger.RecordSettlement(s)
	}
}
