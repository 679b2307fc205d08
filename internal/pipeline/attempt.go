package pipeline

import (
	"context"
	"errors"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/upstream"
)

// Attempt is one try at one target. One goroutine fills it in until there is a
// response or an error; afterwards it is only read.
type Attempt struct {
	Record reqlog.Attempt // for the log entry
	Target *provider.Target
	Model  string                // as sent to the provider
	Params []dialect.ParamChange // of the request's parameters
	also   []string              // further models that the sent request names
	Prompt reqlog.Prompt         // the saved prompt that produced the body; zero if none

	handler  *TargetHandler
	request  *Request
	trail    *Trail
	prompted []jsonedit.Edit // of the saved prompt
	refused  api.Dialect     // in which the target refused the request; empty if in none
	without  []string        // paths of the optional parameters that the target refused
	wire     wirePlan
	timers   attemptTimers
	parent   string // the traceparent sent to the provider; empty if none
	call     provider.Call
	response Response // of the target; empty until its headers have arrived
}

// Lenient reports whether the response may exceed the client's dialect.
func (a *Attempt) Lenient() bool { return a.handler.Lenient }

// newAttempt returns an attempt at the target of the handler's leaf in the
// request.
func (h *TargetHandler) newAttempt(r *Request, t *Trail) (*Attempt, error) {
	a := t.newAttempt()
	leaf := &r.Leaves[h.leaf]
	if leaf.Err != nil {
		return nil, leaf.Err
	}
	for _, n := range leaf.Notes {
		t.Note(n)
	}
	a.Target, a.Prompt, a.handler, a.request, a.trail = leaf.Target, r.Prompt, h, r, t
	model := h.params.model
	if leaf.Prompt != nil {
		made, err := a.applyPrompt(leaf.Prompt)
		if err != nil {
			return nil, err
		}
		if model == "" {
			model = made
		}
	}
	if r.Received.Upload != nil && r.Received.Upload.Watch != nil {
		r.Received.Upload.Watch(leaf.AllowModel)
	}
	if a.Model = model; model == "" {
		if a.Model = r.Model; r.Model == "" {
			a.Model = h.params.defaultModel
		}
	}
	a.Target = a.Target.InRegionOf(a.namedModel())
	a.Record = reqlog.Attempt{Target: h.Path, Provider: a.Target.ID, Slug: a.Target.Slug}
	if a.Target.Base != nil {
		a.Record.Host = a.Target.Base.Host
	}
	return a, nil
}

// applyPrompt applies the target's saved prompt to the request, before the parameters of
// the config. It returns the prompt's model.
func (a *Attempt) applyPrompt(p *PromptEdits) (model string, err error) {
	if p.Err != nil {
		return "", p.Err
	}
	if p.Edits == nil {
		a.trail.Note(dialect.ParamChange{Name: "prompt_id", Outcome: dialect.Ignored})
		return "", nil
	}
	before := a.request.Prompt
	if last := a.trail.Outcome; last != nil {
		before = last.Prompt
	}
	if a.Prompt = p.Prompt; p.Prompt != before { // otherwise it is another attempt
		a.trail.decide(a.handler.Path, "the saved prompt %s makes the request, in its version %d", p.Prompt.Slug, p.Prompt.Version)
	}
	a.prompted = p.Edits
	return p.Model, nil
}

// run makes the attempt and adds it to the trail.
func (a *Attempt) run(ctx context.Context) (*Response, error) {
	if a.handler.Trace != nil {
		a.Record.SpanID, a.parent = a.handler.Trace(a.request.ID, a.request.TraceID, a.request.TraceFlags)
	}
	began := time.Now()
	res, err := a.send(ctx)
	a.Record.Start, a.Record.Took = began.Sub(a.request.Time), time.Since(began)
	if res != nil {
		a.Record.Status = res.Status
	}
	if err != nil {
		a.Record.Error = apierr.From(err).Message
	}
	a.trail.UpstreamTime += a.Record.Took
	a.trail.add(a)
	return res, err
}

// send plans the wire format and sends the request, or its pieces. The memory
// of a translation is reserved until the response is closed.
func (a *Attempt) send(ctx context.Context) (*Response, error) {
	if err := a.planWire(); err != nil {
		return nil, err
	}
	if a.wire.estimates != nil {
		if err := a.reserveEstimate(ctx); err != nil {
			return nil, err
		}
		return a.estimateCount()
	}
	counted, err := a.reserveTranslation()
	if err != nil {
		return nil, err
	}
	res, err := a.sendAll(ctx)
	switch {
	case counted == nil:
	case err != nil:
		counted.Release()
	default:
		res.after = append(res.after, counted.Release)
	}
	return res, err
}

// sendAll sends the request, split into pieces if the target requires it.
func (a *Attempt) sendAll(ctx context.Context) (*Response, error) {
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
func (a *Attempt) sendOne(ctx context.Context) (*Response, error) {
	a.startTimers(ctx)
	req, body, err := a.build()
	if body != nil {
		defer body.Release() // the transport retains it while it reads
	}
	var res *Response
	if err == nil {
		res, err = a.do(req)
	}
	if err != nil {
		if req != nil && req.Body != nil {
			req.Body.Close() // of a request that was not sent, it still holds the buffer
		}
		a.timers.stop()
		return nil, err
	}
	if res.HasEvent() {
		a.timers.stopRequestTimeout()
	}
	return res, nil
}

// do sends an HTTP request and records it in the ledger. Without a response it
// is settled here, otherwise with the response.
func (a *Attempt) do(req *http.Request) (out *Response, err error) {
	acc, err := a.openAccount()
	switch {
	case err != nil && refusedHere(err):
		return nil, err
	case err != nil && a.timers.context().Err() != nil:
		return nil, a.failure(req, err)
	case err != nil:
		return nil, intentError(err)
	}
	a.response.account = acc
	defer func() {
		if out == nil {
			a.response.account.fail(err)
		}
	}()
	a.request.Ticket.Sent()
	sent := &a.trail.bill().quota.sent
	sent.Add(1)
	res, err := a.handler.Client.Do(req, a.Target.Guarded)
	if f, ok := errors.AsType[*upstream.Failure](err); ok && f.Unsent {
		a.response.account.unsent = true
		sent.Add(-1)
	}
	if err != nil {
		return nil, a.failure(req, err)
	}
	if a.request.Operation == api.Proxy {
		if res, err = a.followRedirects(req, res); err != nil {
			return nil, err
		}
	}
	if out, err = a.handleResponse(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	return out, nil
}
