package pipeline

import (
	"cmp"
	"context"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/catalog"
	"modelgate/internal/llm"
	"modelgate/internal/reqlog"
)

// Ledger keeps account of attempts. Intend is called before an attempt is sent,
// and Settle once when it has ended; an attempt whose intent gave an error is
// not sent, and not settled. Both are called by many requests at once.
type Ledger interface {
	RecordIntent(ctx context.Context, i reqlog.Intent) error
	RecordSettlement(s reqlog.Settlement)
}

// attemptAccount is that of one attempt. The zero value keeps none.
type attemptAccount struct {
	open   bool
	ledger Ledger // nil keeps the bill alone
	bill   *bill
	number uint16 // of the attempt, from 1
	began  time.Time
	of     *Attempt
	sent   sentRequest
}

// openAccount opens the account of an attempt that is about to be sent.
func (a *Attempt) openAccount() (attemptAccount, error) {
	bill := a.trail.bill()
	n := bill.attempts.Add(1)
	if limit := a.handler.AttemptLimit(); int64(n) > int64(limit) {
		return attemptAccount{}, errAttempts(limit)
	}
	acc := attemptAccount{open: true, ledger: a.handler.Ledger, bill: bill, number: uint16(n), began: time.Now(), of: a, sent: sentBy(a.request)}
	if acc.ledger == nil {
		return acc, nil
	}
	owner := a.request.owner()
	i := reqlog.Intent{
		ID: a.request.ID, Attempt: acc.number, Time: acc.began, Organisation: owner.Organisation, Workspace: owner.Workspace, KeyID: owner.KeyID,
		Provider: a.Target.ID, Slug: a.Target.Slug, Model: a.Model, RequestBytes: acc.sent.size,
	}
	if err := acc.ledger.RecordIntent(a.timers.context(), i); err != nil {
		acc.sent.release()
		return attemptAccount{}, err
	}
	return acc, nil
}

// DefaultAttempts is how many attempts a request may make where an engine does
// not say it.
const DefaultAttempts = 32

// AttemptLimit returns how many attempts one request may make.
func (e *Engine) AttemptLimit() int {
	if e == nil { // of a tree that calls nobody
		return DefaultAttempts
	}
	return cmp.Or(e.MaxAttempts, DefaultAttempts)
}

// codeAttempts is the code of errors about the limit of attempts.
const codeAttempts = "attempts_exhausted"

// errAttempts is the error of a request that has made all the attempts it may.
// It ends retries, fallbacks and hedges, and says nothing about a provider.
func errAttempts(limit int) *apierr.Error {
	return apierr.New(apierr.Unavailable,
		"the request has made the %d attempts at providers that one request may make, and none of them served it; use fewer retries and fallbacks, or raise limits.attempts in the gateway's settings", limit).
		WithCode(codeAttempts)
}

// intentError says why an attempt is not sent that could not be accounted for.
func intentError(err error) *apierr.Error {
	e := apierr.New(apierr.Unavailable, "the request was not sent because the usage ledger is unavailable; try again shortly").
		WithCode("ledger_full").WithCause(err)
	e.RetryAfter = time.Second
	return e
}

// fail settles an attempt that gave no answer that may be handed on. The provider
// of one that the client left has the request, and may have answered it: its input
// is estimated.
func (a *attemptAccount) fail(err error) {
	s := reqlog.Settlement{Outcome: reqlog.Failed}
	if err != nil && apierr.From(err).Kind == apierr.ClientGone {
		s.Outcome = reqlog.Abandoned
		if a.open && a.sent.uses() {
			s.Usage = llm.Usage{Known: true, Estimated: true, Input: a.sent.tokens()}
			s.Cost, s.Price, s.Priced = a.cost(s.Usage, "", catalog.Standard)
		}
	}
	a.settle(s)
}

// end settles the attempt behind r by what was seen of its answer.
func (a *attemptAccount) end(r *Response) {
	if !a.open {
		return
	}
	seen := r.Tap.Info()
	s := reqlog.Settlement{Outcome: reqlog.Answered, Status: r.Raw.StatusCode, Usage: r.Usage()}
	switch {
	case s.Status >= 400:
		s.Outcome = reqlog.Refused
	case !seen.Finished && !seen.Terminated && r.Bytes == nil && r.Raw.Request.Context().Err() != nil:
		s.Outcome = reqlog.Abandoned
	}
	s.Cost, s.Price, s.Priced = a.cost(s.Usage, seen.Model, catalog.TierOf(a.of.Target.Tiers, a.tier(r)))
	a.settle(s)
}

// tier returns the provider's word for the tier in which r was served: that of the
// body, else that of its header.
func (a *attemptAccount) tier(r *Response) string {
	return cmp.Or(r.Tap.Info().Tier, r.Raw.Header.Get(a.of.Target.TierHeader))
}

// cost returns what was used costs, and the row of the book that says so. It is
// unknown where the price is not, or else the usage is not: where capacity is
// paid for already, that is no matter.
func (a *attemptAccount) cost(u llm.Usage, served string, t catalog.Tier) (cost catalog.NanoDollars, row string, known bool) {
	p, ok := a.of.Target.Price(a.of.request.Prices, a.of.Model, served, a.began)
	if !ok || !u.Known && !p.Free() || !p.Has(t) {
		return 0, "", false
	}
	row = p.Row()
	if t != catalog.Standard && !p.Free() {
		row += " " + t.String()
	}
	return p.Cost(u, t), row, true
}

// settle closes the account. Further calls do nothing.
func (a *attemptAccount) settle(s reqlog.Settlement) {
	if !a.open {
		return
	}
	a.open = false
	a.sent.release()
	s.ID, s.Attempt, s.Time = a.of.request.ID, a.number, time.Now()
	a.bill.add(&s)
	if a.ledger != nil {
		a.ledger.RecordSettlement(s)
	}
}
