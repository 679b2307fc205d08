package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/guarding"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/provider"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/records/reqlog"
)

// ToolCall is what a message asks of a server.
type ToolCall struct {
	// Operation is api.ToolCall, ToolPrompt, ToolResource, or Tools for anything else that goes to
	// a server; api.AgentMessage, or Agents for anything else that goes to an agent.
	Operation api.Operation
	Server    *toolserver.Server
	Name      string          // of the tool or prompt, or the URI of the resource, as the server knows it
	Arguments json.RawMessage // nil for none
	Same      json.RawMessage // what two calls have in common that count as a repetition; nil is the arguments
	Aside     []string        // further text that reaches the server, which guardrails read and cannot change
	Size      int64           // of the message, in bytes
}

// ToolRun is a message that may be sent to a server: what it may use is reserved until End.
// It is not safe for concurrent use; those of one request are independent.
type ToolRun struct {
	request   *ToolRequest
	call      ToolCall
	exchange  exchange.Request // of the call
	guard     guarding.ToolGuard
	limits    metering.Reservation
	record    exchange.Attempt
	arguments json.RawMessage
	number    uint16
	began     time.Time
	waiting   atomic.Bool // for the server
	ended     atomic.Bool
}

// ToolEnd is how a message to a server ended.
type ToolEnd struct {
	Status  int  // of the server's HTTP response; zero without one
	Unsent  bool // nothing was written to the server
	IsError bool // the tool reported an error
	// Unfinished means that the server asks for input first. The call costs nothing then; that
	// with the input does.
	Unfinished bool
	Err        error // why there is no answer; nil if there is one
}

// Begin checks a message before it is sent to a server: budgets and rates, the session, the
// guardrails on its arguments, and all limits that apply to it, of which it reserves what the
// call may use. The price of the call is in the ledger before it is sent. An error is an
// *apierr.Error; the message is not sent then. Otherwise the caller calls End once. It is safe
// for concurrent use.
func (t *ToolRequest) Begin(ctx context.Context, c ToolCall) (*ToolRun, error) {
	r := &ToolRun{request: t, call: c}
	if err := r.begin(ctx); err != nil {
		e := apierr.From(err)
		t.fail(c.Operation, func(x *roundTrip) { x.fail(e) })
		return nil, e
	}
	return r, nil
}

// begin makes the checks in the order in which those of requests to models are made.
func (r *ToolRun) begin(ctx context.Context) error {
	t, p := r.request, r.request.plane
	a := &t.trip.admission
	if err := p.authenticateAgain(a); err != nil {
		return err
	}
	r.prepare(a)
	if err := r.checkBudget(ctx, a); err != nil {
		return err
	}
	if p.Engine.Quota != nil {
		if err := t.tools.checkRates(func() error { return metering.CheckRates(&r.exchange, p.Engine.Quota, &t.trip.trail) }); err != nil {
			return err
		}
		if err := metering.CheckSession(ctx, &r.exchange, p.Engine.Quota, &t.trip.trail); err != nil {
			return err
		}
	}
	aside := r.call.Aside
	if r.call.Operation == api.ToolResource {
		aside = append(slices.Clip(aside), r.call.Name)
	}
	var err error
	if r.arguments, err = r.guard.CheckArguments(ctx, r.call.Arguments, aside...); err != nil {
		return err
	}
	return r.open(ctx)
}

// prepare sets what limits and checks read of the message.
func (r *ToolRun) prepare(a *admission) {
	t, c := r.request, &r.call
	r.exchange = a.request
	r.exchange.Operation, r.exchange.Received.Length = c.Operation, c.Size
	r.exchange.Limiting.Facts = t.facts(c)
	r.guard = guarding.ToolGuard{Bounds: &t.plane.Engine.Bounds, Request: &r.exchange, Trail: &t.trip.trail, Guards: t.tools.guards,
		Target: reqlog.ProviderTools + "/" + c.Server.Slug}
	r.record = exchange.Attempt{Target: &provider.Target{Spec: toolSpec, Slug: c.Server.Slug},
		Record: reqlog.Attempt{Provider: reqlog.ProviderTools, Slug: c.Server.Slug}}
}

// toolSpec stands for the provider of messages to tool servers.
var toolSpec = &provider.Spec{ID: reqlog.ProviderTools}

// checkBudget returns an error for a call if a budget of its caller is marked as exhausted.
func (r *ToolRun) checkBudget(ctx context.Context, a *admission) error {
	if !metering.UsesMoney(r.call.Operation) {
		return nil
	}
	err := a.checkBudget()
	if err == nil {
		return nil
	}
	return metering.EarlierLimit(ctx, &r.exchange, r.request.plane.Engine.Quota, &r.request.trip.trail, err)
}

// open reserves what the message may use, and writes its intent.
func (r *ToolRun) open(ctx context.Context) error {
	t, p := r.request, r.request.plane
	bill := t.trip.trail.Bill()
	n := bill.Attempts.Add(1)
	if n > math.MaxUint16 {
		return apierr.New(apierr.RateLimited, "the request has sent %d messages to servers; send another request", math.MaxUint16).
			WithCode(exchange.CodeAttempts)
	}
	r.number, r.began = uint16(n), time.Now()
	r.limits = metering.Reservation{Store: p.Engine.Quota, Request: &r.exchange, Record: &r.record, Quota: &bill.Quota, Number: r.number,
		By: toolPrice{r.call.Operation, r.price()}}
	if err := r.limits.Reserve(ctx); err != nil {
		return err
	}
	if err := r.recordIntent(ctx); err != nil {
		r.limits.Settle(quota.Use{})
		return attempt.IntentError(err)
	}
	t.trip.admission.request.Ticket.Sent()
	bill.Quota.Sent.Add(1)
	r.waiting.Store(true)
	t.begun(r)
	return nil
}

// price returns what the message costs.
func (r *ToolRun) price() catalog.NanoDollars {
	if !r.call.Operation.IsCall() {
		return 0
	}
	return r.call.Server.Price(r.call.Name)
}

func (r *ToolRun) recordIntent(ctx context.Context) error {
	ledger := r.request.plane.Engine.Ledger
	if ledger == nil {
		return nil
	}
	id, name := r.request.Identity, truncate(r.call.Name)
	if r.call.Operation == api.ToolResource { // chosen by the client
		name = ""
	}
	return ledger.RecordIntent(ctx, reqlog.Intent{
		ID: r.exchange.ID, Attempt: r.number, Time: r.began, Organisation: id.Organisation, Workspace: id.Workspace, KeyID: id.KeyID,
		Provider: reqlog.ProviderTools, Slug: r.call.Server.Slug, Model: name, RequestBytes: r.call.Size,
		Flat: true, Price: r.price(), Counters: r.limits.PolicyCounters(),
	})
}

// Arguments returns the arguments as guardrails changed them: the same slice if they did not.
func (r *ToolRun) Arguments() json.RawMessage { return r.arguments }

// ChecksResult reports whether [ToolRun.CheckResult] may deny or change a result, so that
// nothing of it may pass before.
func (r *ToolRun) ChecksResult() bool { return r.guard.ActsOnResults() }

// CheckResult runs the guardrails on the result object of the message, and returns it as they
// changed it: the same slice if they did not. It is called for every result, also if
// ChecksResult is false. An error is an *apierr.Error, the denial.
func (r *ToolRun) CheckResult(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	r.request.answered(r)
	checked, err := r.guard.CheckResult(ctx, result)
	if err != nil {
		e := apierr.From(err)
		r.request.fail(r.call.Operation, func(x *roundTrip) { x.fail(e) })
		return nil, e
	}
	return checked, nil
}

// End settles what the message has used and records it. Further calls do nothing.
func (r *ToolRun) End(e ToolEnd) {
	if r.ended.Swap(true) {
		return
	}
	failure, _ := errors.AsType[*peer.Failure](e.Err)
	if failure != nil {
		e.Unsent = e.Unsent || failure.Unsent
		if e.Status == 0 {
			e.Status = failure.Status
		}
	}
	s := r.settlement(&e, failure)
	bill := r.request.trip.trail.Bill()
	if s.Outcome == reqlog.Abandoned {
		bill.Quota.Abandon()
	}
	r.limits.Settle(metering.UseOf(&s)) // before the ledger, whose count corrects the counters
	if ledger := r.request.plane.Engine.Ledger; ledger != nil {
		ledger.RecordSettlement(s)
	}
	bill.Add(&s)
	r.record.Record.Status, r.record.Record.Start = e.Status, r.began.Sub(r.exchange.Time)
	if e.Err != nil {
		r.record.Record.Error = truncate(toolFailureText(e.Err, failure))
	}
	r.request.ended(r, &e, &s)
}

// settlement returns the settlement of the message. A call that the server may have carried
// out costs its price, whatever the tool reports, also if nobody waited for the result. One
// that was not sent, or that the server failed, costs nothing.
func (r *ToolRun) settlement(e *ToolEnd, failure *peer.Failure) reqlog.Settlement {
	s := reqlog.Settlement{ID: r.exchange.ID, Attempt: r.number, Time: time.Now(), Status: e.Status, Outcome: reqlog.Answered,
		Usage: llm.Usage{Known: true}}
	switch {
	case e.Unsent:
		s.Outcome = reqlog.Failed
	case e.Status >= 400:
		s.Outcome = reqlog.Refused
	case e.Err != nil && isAbandoned(e.Err, failure):
		s.Outcome = reqlog.Abandoned
	case e.Err != nil:
		s.Outcome = reqlog.Failed
	}
	s.Priced = true
	if !e.Unfinished && (s.Outcome == reqlog.Answered || s.Outcome == reqlog.Abandoned) {
		s.Cost = r.price()
	}
	if s.Cost > 0 {
		s.Price = reqlog.ProviderTools + "/" + r.call.Server.Slug
	}
	return s
}

// isAbandoned reports whether nobody waited for the result of a message, or no longer, so that
// the server may have carried it out.
func isAbandoned(err error, failure *peer.Failure) bool {
	if failure != nil && (failure.Kind == peer.Cancelled || failure.Kind == peer.TimedOut) {
		return true
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e.Kind == apierr.ClientGone || e.Kind == apierr.Timeout || e.Kind == apierr.UpstreamTimeout
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// toolFailureText returns what records may say of an error.
func toolFailureText(err error, failure *peer.Failure) string {
	if failure != nil {
		return failure.Reason
	}
	return apierr.From(err).Message
}

// toolPrice is what limits know of a message: the price of its call.
type toolPrice struct {
	op    api.Operation
	price catalog.NanoDollars
}

var _ metering.Attempt = toolPrice{}

// Uses implements [metering.Attempt].
func (p toolPrice) Uses(m quota.Measure) bool { return m == quota.Cost && metering.UsesMoney(p.op) }

// EndsEarly implements [metering.Attempt].
func (toolPrice) EndsEarly() bool { return false }

// Extension implements [metering.Attempt].
func (toolPrice) Extension() quota.Use { return quota.Use{} }

// Estimate implements [metering.Attempt].
func (p toolPrice) Estimate() metering.Estimate {
	u := quota.Use{Cost: int64(p.price)}
	return metering.Estimate{Least: u, Most: u}
}
