package dataplane

import (
	"context"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline"
	"modelgate/internal/records/reqlog"
)

// guardScope says which guardrails apply to an exchange.
type guardScope uint8

const (
	allGuards     guardScope = iota // of the organisation, the workspace and the config
	defaultGuards                   // of the organisation and the workspace: calls of checks in configs
	noGuards                        // calls of checks in saved guardrails
)

// admitChecks admits what hooks may send: requests to hosts that the egress policies
// of x allow, and requests to the models of their checks. A model that cannot be asked
// is an error of its check.
func (x *exchange) admitChecks(lists ...[]*guardrail.Hook) {
	if x.DryRun {
		return
	}
	if x.Checking.Egress == nil {
		x.Checking.Egress = x.snap.Egress(x.Identity)
	}
	for _, hooks := range lists {
		for _, h := range hooks {
			for _, c := range h.Checks {
				if m := c.Model(); m != nil && !c.Disabled && x.Checking.CheckCalls[m] == nil {
					if x.Checking.CheckCalls == nil {
						x.Checking.CheckCalls = make(map[*guardrail.Model]*pipeline.CheckCall)
					}
					x.Checking.CheckCalls[m] = x.admitCheckCall(m)
				}
			}
		}
	}
}

// admitCheckCall admits the request of a check of x to its model. It has the tenant,
// the limits and the egress policies of x, and neither its headers nor its guardrails.
// A check of a saved guardrail may use providers that the key may not: those who save
// guardrails choose them, and a limited key must not escape a check. Any other check
// may do no more than its request, so its text passes the guardrails that bind every
// request, which ends the recursion: theirs are saved.
func (x *exchange) admitCheckCall(m *guardrail.Model) *pipeline.CheckCall {
	path := "/chat/completions"
	if m.Moderation {
		path = "/moderations"
	}
	r := unifiedRoutes["POST "+api.BasePath+path]
	id, guards := x.Identity, defaultGuards
	if m.Saved {
		own := *id
		own.Providers, id, guards = nil, &own, noGuards
	} else if !id.Allows(r.scope) {
		return &pipeline.CheckCall{Err: apierr.New(apierr.Forbidden, "this gateway key lacks the scope %q", r.scope)}
	}
	y := &exchange{plane: x.plane, admission: admission{snap: x.snap, reach: x.reach, remote: x.remote, id: x.id, route: r, guards: guards}}
	y.entry = reqlog.Entry{ID: x.entry.ID, Time: x.entry.Time}
	y.Request = x.Derive(x.plane.Clients[api.DialectChat], r.op, path, m.Name)
	y.Identity = id
	err := y.routeCheckCall(m)
	x.trees = append(x.trees, y.trees...)
	if err != nil {
		return &pipeline.CheckCall{Err: err}
	}
	call := &pipeline.CheckCall{Request: y.Request, Pool: x.plane.Engine.Pool}
	call.Request.Received.Doc = nil
	if !y.AttemptDeadline.IsZero() {
		call.Timeout = y.AttemptDeadline.Sub(y.entry.Time)
	}
	return call
}

// routeCheckCall chooses the handler of the requests to the model of a check. Their
// texts do not decide about it, so the body that is validated has others.
func (x *exchange) routeCheckCall(m *guardrail.Model) error {
	if err := x.doc.Scan(m.Body(guardrail.ModelCall{System: "s", Texts: []string{"t"}})); err != nil {
		return err
	}
	x.Received.Doc = &x.doc
	if err := x.checkBody(); err != nil {
		return err
	}
	if m.Config != "" {
		x.opts.config = m.Config
		var err error
		x.Routing, err = x.plane.configHandler(x)
		return err
	}
	t, err := x.target(providerChoice{provider: "@" + m.Slug, model: m.Name, configured: true})
	if err != nil {
		return err
	}
	x.Routing, err = x.callOnly(t, pipeline.TargetHandler{})
	return err
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
	x.Request = pipeline.Request{ID: x.entry.ID, Time: now, TraceID: x.id, Identity: t.Identity, Metadata: t.Metadata, Memory: p.Engine.Pool.Organisation(t.Identity.Organisation)}
	x.Received = pipeline.Received{HeaderPrefixes: x.snap.HeaderPrefixes, RequestedModel: t.Model}
	x.Limiting = pipeline.Limiting{Limits: x.limits(), Policies: x.snap.Policies, Facts: x.facts(), Prices: x.snap.Prices}
	x.admitChecks(t.Hooks)
	defer p.releaseTrees(x)
	t.Egress, t.CheckCalls, t.Trail, t.Memory, t.Engine = x.Checking.Egress, x.Checking.CheckCalls, &x.trail, x.Memory, p.Engine
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
