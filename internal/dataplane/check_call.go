package dataplane

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/jsonedit"
	"modelgate/internal/pipeline"
	"modelgate/internal/reqlog"
)

// guardScope says which guardrails apply to an exchange.
type guardScope uint8

const (
	allGuards     guardScope = iota // of the organisation, the workspace and the config
	defaultGuards                   // of the organisation and the workspace: calls of checks in configs
	noGuards                        // calls of checks in saved guardrails
)

// openCheckCall returns the request that a check of x sends to a model. It has the
// tenant, the limits and the egress policies of x, and neither its headers nor its
// guardrails. A check of a saved guardrail may use providers that the key may not:
// those who save guardrails choose them, and a limited key must not escape a check.
// Any other check may do no more than its request, so its text passes the guardrails
// that bind every request, which ends the recursion: theirs are saved.
func (x *exchange) openCheckCall(call guardrail.ModelCall) (pipeline.CheckCall, error) {
	p := x.plane
	path := "/chat/completions"
	if call.Moderation {
		path = "/moderations"
	}
	r := unifiedRoutes["POST "+api.BasePath+path]
	y := &exchange{plane: p, admission: admission{snap: x.snap, reach: x.reach, remote: x.remote, id: x.id, route: r, guards: defaultGuards}}
	y.entry = reqlog.Entry{ID: x.entry.ID, Time: time.Now()} // from which the time for its attempts counts
	id := x.Identity
	if call.Saved {
		own := *id
		own.Providers, id, y.guards = nil, &own, noGuards
	} else if !id.Allows(r.scope) {
		return pipeline.CheckCall{}, apierr.New(apierr.Forbidden, "this gateway key lacks the scope %q", r.scope)
	}
	y.Request = x.Derive(p.Clients[api.DialectChat], r.op, path, call.Model)
	y.Identity = id
	body := callBody(call)
	buf, err := p.Engine.Pool.ReadAll(bytes.NewReader(body), int64(len(body)), int64(len(body)))
	if err != nil {
		return pipeline.CheckCall{}, bodyError(err, int64(len(body)))
	}
	release := func() {
		p.releaseTrees(y)
		y.releaseBody()
	}
	if err = y.SetBody(buf, &y.doc); err == nil {
		err = y.routeCheckCall(call)
	}
	if err != nil {
		release()
		return pipeline.CheckCall{}, err
	}
	return pipeline.CheckCall{Request: &y.Request, Release: release}, nil
}

// routeCheckCall chooses the handler of a request of a check.
func (x *exchange) routeCheckCall(call guardrail.ModelCall) error {
	if err := x.checkBody(); err != nil {
		return err
	}
	if call.Config != "" {
		x.opts.config = call.Config
		var err error
		x.Routing, err = x.plane.configHandler(x)
		return err
	}
	t, err := x.target(providerChoice{provider: "@" + call.Slug, model: call.Model, configured: true})
	if err != nil {
		return err
	}
	x.single = pipeline.TargetHandler{Engine: x.plane.Engine, Target: t, Path: "config"}
	x.Routing, err = x.guardSingle(&x.single)
	return err
}

// callBody returns the body of a request of a check. Rows of providers rename the
// limit of the reply where they must.
func callBody(call guardrail.ModelCall) []byte {
	var b jsonedit.Builder
	b.Open('{')
	if call.Model != "" {
		b.Name("model")
		b.String(call.Model)
	}
	if call.Moderation {
		b.Name("input")
		b.Open('[')
		for _, t := range call.Texts {
			b.String(t)
		}
		b.Close(']')
		b.Close('}')
		return b.Bytes()
	}
	b.Name("messages")
	b.Open('[')
	for _, m := range [...][2]string{{"system", call.System}, {"user", call.Texts[0]}} {
		b.Open('{')
		b.Name("role")
		b.String(m[0])
		b.Name("content")
		b.String(m[1])
		b.Close('}')
	}
	b.Close(']')
	b.Name("max_completion_tokens")
	b.Int(int64(call.MaxTokens))
	if call.Schema != nil {
		b.Name("response_format")
		b.Raw(slices.Concat([]byte(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`), call.Schema, []byte(`}}`)))
	}
	b.Close('}')
	return b.Bytes()
}

// TestGuardrail runs hooks on text that nobody sent. What its checks ask of models is
// recorded and paid as a request of the identity of t.
func (p *Plane) TestGuardrail(ctx context.Context, t *pipeline.Trial) (*pipeline.TrialResult, error) {
	now := time.Now()
	x := &exchange{plane: p, admission: admission{snap: p.Snapshot.Load(), reach: p.Engine.Client}}
	x.entry = reqlog.Entry{
		ID: reqlog.NewID(now), Time: now, Input: reqlog.Input{Method: http.MethodPost, Path: api.BasePath + "/guardrails/test"}, Origin: reqlog.Origin{CacheStatus: "DISABLED"},
	}
	x.id = x.entry.ID.String()
	x.entry.TraceID = x.id
	x.setIdentity(t.Identity)
	x.Request = pipeline.Request{ID: x.entry.ID, Time: now, TraceID: x.id, Identity: t.Identity, Metadata: t.Metadata}
	x.Received = pipeline.Received{HeaderPrefixes: x.snap.HeaderPrefixes, RequestedModel: t.Model}
	x.Limiting = pipeline.Limiting{Limits: x.limits(), Policies: x.snap.Policies, Facts: x.facts(), Prices: x.snap.Prices}
	t.OpenCheckCall, t.Trail = x.openCheckCall, &x.trail
	res, err := t.Run(ctx)
	x.trail.Checks().Await() // guardrails on the calls of checks may run in the background
	if !x.trail.Checks().HasCalls() {
		return res, err
	}
	e := &x.entry
	if e.Level = x.level(); e.Level == reqlog.LevelFull {
		e.Level = reqlog.LevelMetadata
	}
	e.Operation, e.Status, e.Metadata, e.Total = api.GuardrailTest, http.StatusOK, t.Metadata, time.Since(now)
	if err != nil {
		e.Status = apierr.From(err).Status()
	}
	p.endChecks(x)
	p.Recorder.Record(context.WithoutCancel(ctx), e)
	return res, err
}

// endChecks records what the checks of an exchange did, after all of them have ended,
// and settles what their calls have reserved of limits.
func (p *Plane) endChecks(x *exchange) {
	if store := p.Engine.Quota; store != nil {
		x.trail.CountRequest(store, nil, nil)
		x.trail.EndRequest(store)
	}
	x.trail.RecordChecks(&x.entry)
}
