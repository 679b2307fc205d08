package pipeline

import (
	"context"
	"sync/atomic"
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
	Intend(ctx context.Context, i reqlog.Intent) error
	Settle(s reqlog.Settlement)
}

// account is that of one attempt. The zero value keeps none.
type account struct {
	ledger   Ledger
	id       reqlog.ID
	attempt  uint16
	provider string
	model    string
	prices   *catalog.Book
}

// intend opens the account of an attempt that is about to be sent.
func (l *Leaf) intend(ctx context.Context, x *Exchange) (account, error) {
	if l.Ledger == nil {
		return account{}, nil
	}
	a := account{ledger: l.Ledger, id: x.Entry.ID, attempt: uint16(x.counter().Add(1)), provider: l.Target.ID, model: x.Sent, prices: x.Prices}
	i := reqlog.Intent{
		ID: a.id, Attempt: a.attempt, Time: time.Now(), Organisation: x.Entry.Organisation, Workspace: x.Entry.Workspace, KeyID: x.Entry.KeyID,
		Provider: a.provider, Slug: l.Target.Slug, Model: a.model, RequestBytes: x.Length,
	}
	if x.Body != nil {
		i.RequestBytes = int64(x.Body.Len())
	}
	if err := l.Ledger.Intend(ctx, i); err != nil {
		return account{}, err
	}
	return a, nil
}

// unaccounted says why an attempt is not sent that could not be accounted for.
func unaccounted(err error) *apierr.Error {
	e := apierr.New(apierr.Unavailable, "the gateway can't keep account of the request now, so it was not sent; try again shortly").
		WithCode("ledger_full").WithCause(err)
	e.RetryAfter = time.Second
	return e
}

// fail settles an attempt that gave no answer that may be handed on.
func (a *account) fail(err error) {
	outcome := reqlog.Failed
	if err != nil && apierr.From(err).Kind == apierr.ClientGone {
		outcome = reqlog.Abandoned
	}
	a.settle(reqlog.Settlement{Outcome: outcome})
}

// end settles the attempt behind r by what was seen of its answer.
func (a *account) end(r *Response) {
	if a.ledger == nil {
		return
	}
	seen := r.Tap.Seen()
	s := reqlog.Settlement{Outcome: reqlog.Answered, Status: r.Raw.StatusCode, Usage: seen.Usage}
	switch {
	case s.Status >= 400:
		s.Outcome = reqlog.Refused
	case !seen.Finished && !seen.Terminated && r.Bytes == nil && r.Raw.Request.Context().Err() != nil:
		s.Outcome = reqlog.Abandoned
	}
	if !s.Usage.Known {
		s.Usage = llm.Usage{}
	}
	s.Cost, s.Price, s.Priced = a.cost(s.Usage)
	a.settle(s)
}

// cost returns what was used costs, and the row of the book that says so. It is
// not known where the usage or the price is not.
func (a *account) cost(u llm.Usage) (cost catalog.NanoDollars, row string, known bool) {
	if !u.Known {
		return 0, "", false
	}
	p, ok := a.prices.Price(a.provider, a.model)
	if !ok {
		return 0, "", false
	}
	return p.Cost(u.Prompt(), u.Completion()), p.Provider + "/" + p.Model, true
}

// settle closes the account. Further calls do nothing.
func (a *account) settle(s reqlog.Settlement) {
	if a.ledger == nil {
		return
	}
	s.ID, s.Attempt, s.Time = a.id, a.attempt, time.Now()
	a.ledger.Settle(s)
	a.ledger = nil
}

// counter counts the attempts of an exchange, those of its forks too.
func (x *Exchange) counter() *atomic.Uint32 {
	if x.attempts == nil {
		x.attempts = &x.made
	}
	return x.attempts
}
