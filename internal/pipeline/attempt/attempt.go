package attempt

import (
	"context"
	"errors"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/upstream"
)

// attempt is one try at one target. One goroutine fills it in until there is a
// response or an error; afterwards it is only read.
type attempt struct {
	plan    plan
	account attemptAccount

	response    exchange.Response // of the target; empty until its headers have arrived
	arriving    upstreamBody      // its source
	events      targetStream      // of a stream
	translation *translation      // of a stream, if the client's dialect is not the target's; nil otherwise
	usable      bool              // the response was added to what is remembered of the provider
	cut         *llm.Usage        // of a stream that a limit ended; nil if none did
	// wrongEndpoint is what an error says about the endpoint, and refusedParams are the
	// paths of the optional parameters of the request that it refuses.
	wrongEndpoint provider.WrongEndpoint
	refusedParams []string
}

// newAttempt returns an attempt at the target of the handler's leaf in the
// request.
func (h *TargetHandler) newAttempt(r *exchange.Request, t *exchange.Trail) (*attempt, error) {
	a := new(attempt)
	leaf := &r.Leaves[h.Leaf]
	if leaf.Err != nil {
		return nil, leaf.Err
	}
	for _, n := range leaf.Notes {
		t.Note(n)
	}
	a.plan.handler, a.plan.request, a.plan.trail = h, r, t
	a.plan.record = exchange.Attempt{Target: leaf.Target, Model: leaf.Model, Prompt: r.Prompt, Lenient: h.Lenient,
		NamesRequestedModel: r.NamesRequestedModel(h.ResponseModel)}
	if leaf.Prompt != nil {
		if err := a.plan.applyPrompt(leaf.Prompt); err != nil {
			return nil, err
		}
	}
	if r.Received.Upload != nil && r.Received.Upload.Watch != nil {
		r.Received.Upload.Watch(leaf.AllowModel)
	}
	a.plan.record.Record = reqlog.Attempt{Target: h.Path, Name: h.Name, Provider: a.plan.record.Target.ID, Slug: a.plan.record.Target.Slug}
	if a.plan.record.Target.Base != nil {
		a.plan.record.Record.Host = a.plan.record.Target.Base.Host
	}
	return a, nil
}

// run makes the attempt and adds it to the trail.
func (a *attempt) run(ctx context.Context) (*exchange.Response, error) {
	if a.plan.handler.Engine.Trace != nil {
		a.plan.record.Record.SpanID, a.plan.parent = a.plan.handler.Engine.Trace(a.plan.request.ID,
			a.plan.request.TraceID, a.plan.request.TraceFlags)
	}
	began := time.Now()
	res, err := a.send(ctx)
	a.plan.record.Record.Start, a.plan.record.Record.Took = began.Sub(a.plan.request.Time), time.Since(began)
	if res != nil {
		a.plan.record.Record.Status = res.Status
	}
	if err != nil {
		a.plan.record.Record.Error = apierr.From(err).Message
	}
	a.plan.trail.UpstreamTime += a.plan.record.Record.Took
	a.plan.trail.Add(&a.plan.record)
	return res, err
}

// send plans the wire format and sends the request, or its pieces. The memory
// of a translation is reserved until the response is closed.
func (a *attempt) send(ctx context.Context) (*exchange.Response, error) {
	if err := a.plan.planWire(); err != nil {
		return nil, err
	}
	if a.plan.wire.estimates != nil {
		if err := reserveEstimate(a, ctx); err != nil {
			return nil, err
		}
		return estimateCount(a)
	}
	counted, err := a.plan.reserveTranslation()
	if err != nil {
		return nil, err
	}
	res, err := a.sendAll(ctx)
	switch {
	case counted == nil:
	case err != nil:
		counted.Release()
	default:
		res.After = append(res.After, counted.Release)
	}
	return res, err
}

// sendAll sends the request, split into pieces if the target requires it.
func (a *attempt) sendAll(ctx context.Context) (*exchange.Response, error) {
	pieces, err := a.split()
	if err != nil {
		return nil, err
	}
	if pieces != nil {
		return a.sendSplit(ctx, pieces)
	}
	return a.sendOne(ctx)
}

// sendOne sends one HTTP request to the provider.
func (a *attempt) sendOne(ctx context.Context) (*exchange.Response, error) {
	a.plan.startTimers(ctx)
	req, body, err := a.plan.build()
	if body != nil {
		defer body.Release() // the transport retains it while it reads
	}
	var res *exchange.Response
	if err == nil {
		res, err = a.do(req)
	}
	if err != nil {
		if req != nil && req.Body != nil {
			req.Body.Close() // of a request that was not sent, it still holds the buffer
		}
		a.plan.timers.stop()
		return nil, err
	}
	if res.HasEvent() {
		a.plan.timers.stopRequestTimeout()
	}
	return res, nil
}

// do sends an HTTP request and records it in the ledger. Without a response it
// is settled here, otherwise with the response.
func (a *attempt) do(req *http.Request) (out *exchange.Response, err error) {
	switch err := a.openAccount(); {
	case err != nil && refusedHere(err):
		return nil, err
	case err != nil && a.plan.timers.context().Err() != nil:
		return nil, a.failure(req, err)
	case err != nil:
		return nil, IntentError(err)
	}
	defer func() {
		if out == nil {
			a.account.fail(err)
		}
	}()
	a.plan.request.Ticket.Sent()
	sent := &a.plan.trail.Bill().Quota.Sent
	sent.Add(1)
	if a.plan.record.Target.Health != nil {
		defer func() { observe(a, out, err) }()
	}
	send := a.plan.handler.Engine.Client.Do
	if a.plan.request.Upgrade != nil {
		send = a.plan.handler.Engine.Client.Upgrade
	}
	res, err := send(req, a.plan.record.Target.Guarded)
	if f, ok := errors.AsType[*upstream.Failure](err); ok && f.Unsent {
		a.account.unsent = true
		sent.Add(-1)
	}
	if err != nil {
		return nil, a.failure(req, err)
	}
	if a.plan.request.Operation == api.Proxy {
		if res, err = a.followRedirects(req, res); err != nil {
			return nil, err
		}
	}
	a.plan.record.Target.Health.ReadHeaders(res.Header, res.StatusCode, a.account.began)
	if out, err = a.handleResponse(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	return out, nil
}

// Release implements [exchange.Source].
func (a *attempt) Release() {
	if a.events.pending != nil {
		a.response.Raw.Body.Close() // ends the read, which uses the tap
		a.events.awaitPending()
	}
	a.account.end(&a.response)
	a.response.Raw.Body.Close()
	a.plan.timers.stop()
}

// Pause implements [exchange.Source].
func (a *attempt) Pause() { a.plan.timers.dog.Pause() }

// Resume implements [exchange.Source].
func (a *attempt) Resume() { a.plan.timers.dog.Resume() }

// Cut implements [exchange.Source].
func (a *attempt) Cut() bool { return a.cut != nil }
