package attempt

import (
	"math"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// maxListedTurns is the number of turns of a session that are listed in the log. All are in the
// ledger.
const maxListedTurns = 50

// session is a connection whose protocol the provider has changed. Its attempt is the turn in
// progress, if one is.
type session struct{ turn *attempt }

var _ exchange.Session = session{}

// newSession returns the response of an attempt whose connection has changed its protocol. It has
// no timeouts of its own. The attempt has used nothing: what it reserved is for the first turn,
// which may begin much later or never.
func newSession(a *attempt, out *exchange.Response) *exchange.Response {
	a.plan.timers.stopRequestTimeout()
	a.plan.timers.dog.Pause()
	out.Session = session{a}
	a.account.settleTurn(exchange.Turn{Usage: llm.Usage{Known: true}}, reqlog.Answered)
	return out
}

// BeginTurn implements [exchange.Session].
func (s session) BeginTurn() error {
	a := s.turn
	if a.account.open {
		return nil
	}
	if a.account.number == math.MaxUint16 {
		return apierr.New(apierr.RateLimited, "the session has had %d turns; connect again", math.MaxUint16).WithCode("session_turns")
	}
	err := a.openAccount()
	if err != nil && !refusedHere(err) {
		return IntentError(err)
	}
	return err
}

// EndTurn implements [exchange.Session].
func (s session) EndTurn(t exchange.Turn) error {
	a := s.turn
	goesOn := t.Other && a.account.open // the turn in progress is that of another model
	err := s.BeginTurn()
	if err != nil && !a.account.open {
		a.account.open = refusedHere(err) && a.account.recordIntent() == nil // it has been used nevertheless
	}
	began, handshake := a.account.began, a.plan.record.Paid
	a.account.settleTurn(t, reqlog.Answered)
	if len(a.plan.trail.Attempts) < maxListedTurns {
		listed := a.plan.record
		listed.Record.Start, listed.Record.Took = began.Sub(a.plan.request.Time), time.Since(began)
		a.plan.trail.Add(&listed)
	}
	a.plan.record.Paid = handshake
	switch {
	case err != nil:
		return err
	case goesOn:
		return s.BeginTurn()
	}
	next := a.reservation(a.account.number)
	return next.Check(a.plan.timers.context())
}

// Abandon implements [exchange.Session].
func (s session) Abandon(t exchange.Turn) {
	if s.turn.account.open || s.BeginTurn() == nil {
		s.turn.account.settleTurn(t, reqlog.Abandoned)
	}
}

// settleTurn settles the turn in progress.
func (a *attemptAccount) settleTurn(t exchange.Turn, outcome reqlog.Outcome) {
	s := reqlog.Settlement{Outcome: outcome, Status: a.attempt.response.Status, Usage: t.Usage}
	if t.Other {
		s.Cost, s.Price, s.Priced = a.costBy(t)
	} else {
		s.Cost, s.Price, s.Priced = a.cost(t.Usage, t.Model, catalog.Standard)
	}
	a.settle(s)
}

// costBy returns the cost of a turn by the price of its own model.
func (a *attemptAccount) costBy(t exchange.Turn) (cost catalog.NanoDollars, row string, known bool) {
	p, ok := a.attempt.plan.record.Target.Price(a.attempt.plan.request.Limiting.Prices, t.Model, "", a.began)
	if !ok || t.Model == "" || !t.Usage.Known || !p.Covers(t.Usage) {
		return 0, "", false
	}
	return p.Cost(t.Usage, catalog.Standard), p.Row(), true
}
