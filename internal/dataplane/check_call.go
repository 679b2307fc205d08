package dataplane

import (
	"context"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/guarding"
	"modelgate/internal/pipeline/metering"
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
// of the request allow, and requests to the models of their checks. A model that cannot be asked
// is an error of its check.
func (rs *resolver) admitChecks(lists ...[]*guardrail.Hook) {
	if rs.admission.request.DryRun {
		return
	}
	if rs.admission.request.Checking.Egress == nil {
		rs.admission.request.Checking.Egress = rs.admission.snap.Egress(rs.admission.request.Identity)
	}
	for _, hooks := range lists {
		for _, h := range hooks {
			for _, c := range h.Checks {
				if m := c.Model(); m != nil && !c.Disabled && rs.admission.request.Checking.CheckCalls[m] == nil {
					if rs.admission.request.Checking.CheckCalls == nil {
						rs.admission.request.Checking.CheckCalls = make(map[*guardrail.Model]*exchange.CheckCall)
					}
					rs.admission.request.Checking.CheckCalls[m] = rs.admitCheckCall(m)
				}
			}
		}
	}
}

// admitCheckCall admits the request of a check to its model. It has the tenant, the
// limits and the egress policies of the client's request, and neither its headers nor its
// guardrails.
// A check of a saved guardrail may use providers that the key may not: those who save
// guardrails choose them, and a limited key must not escape a check. Any other check
// may do no more than its request, so its text passes the guardrails that bind every
// request, which ends the recursion: theirs are saved.
func (rs *resolver) admitCheckCall(m *guardrail.Model) *exchange.CheckCall {
	path := "/chat/completions"
	if m.Moderation {
		path = "/moderations"
	}
	r := unifiedRoutes["POST "+api.BasePath+path]
	id, guards := rs.admission.request.Identity, defaultGuards
	if m.Saved {
		own := *id
		own.Providers, id, guards = nil, &own, noGuards
	} else if !id.Allows(r.scope) {
		return &exchange.CheckCall{Err: apierr.New(apierr.Forbidden, "this gateway key lacks the scope %q", r.scope)}
	}
	a := rs.admission
	of := &admission{
		plane: a.plane, snap: a.snap, id: a.id, remote: a.remote, route: r,
		entry: &reqlog.Entry{ID: a.entry.ID, Time: a.entry.Time}, trail: new(exchange.Trail),
		request: a.request.Derive(a.plane.Clients[api.DialectChat], r.op, path, m.Name),
	}
	of.request.Identity = id
	targets := &resolver{admission: of, reach: rs.reach, guards: guards}
	err := targets.routeCheckCall(m)
	rs.trees = append(rs.trees, targets.trees...)
	if err != nil {
		return &exchange.CheckCall{Err: err}
	}
	call := &exchange.CheckCall{Request: of.request, Pool: a.plane.Engine.Bounds.Pool}
	call.Request.Received.Doc = nil
	if deadline := of.request.AttemptDeadline; !deadline.IsZero() {
		call.Timeout = deadline.Sub(of.entry.Time)
	}
	return call
}

// routeCheckCall chooses the handler of the requests to the model of a check. Their
// texts do not decide about it, so the body that is validated has others.
func (rs *resolver) routeCheckCall(m *guardrail.Model) error {
	a := rs.admission
	if err := a.doc.Scan(m.Body(guardrail.ModelCall{System: "s", Texts: []string{"t"}})); err != nil {
		return err
	}
	a.request.Received.Doc = &a.doc
	if err := a.checkBody(); err != nil {
		return err
	}
	if m.Config != "" {
		a.opts.config = m.Config
		var err error
		a.request.Routing, err = rs.configHandler()
		return err
	}
	t, err := rs.target(providerChoice{provider: "@" + m.Slug, model: m.Name, configured: true})
	if err != nil {
		return err
	}
	a.request.Routing, err = rs.callOnly(exchange.Leaf{Target: t, Model: m.Name}, attempt.TargetHandler{})
	return err
}

// TestGuardrail runs hooks on text that nobody sent. What its checks ask of models is
// recorded and paid as a request of the identity of t.
func (p *Plane) TestGuardrail(ctx context.Context, t *guarding.Trial) (*guarding.TrialResult, error) {
	now := time.Now()
	x := p.newRoundTrip(reqlog.Entry{
		ID: reqlog.NewID(now), Time: now, Input: reqlog.Input{Method: http.MethodPost, Path: api.BasePath + "/guardrails/test"},
		Origin: reqlog.Origin{CacheStatus: "DISABLED"},
	})
	a := &x.admission
	x.entry.TraceID = a.id
	a.setIdentity(t.Identity)
	a.request = exchange.Request{
		ID: x.entry.ID, Time: now, TraceID: a.id, Identity: t.Identity, Metadata: t.Metadata,
		Memory:   p.Engine.Bounds.Pool.Organisation(t.Identity.Organisation),
		Received: exchange.Received{HeaderPrefixes: a.snap.HeaderPrefixes, RequestedModel: t.Model},
	}
	a.request.Limiting = exchange.Limiting{Limits: a.limits(), Policies: a.snap.Policies, Facts: a.facts(), Prices: a.snap.Prices}
	x.targets.admitChecks(t.Hooks)
	defer x.targets.releaseTrees()
	t.Egress, t.CheckCalls = a.request.Checking.Egress, a.request.Checking.CheckCalls
	t.Trail, t.Memory, t.Bounds = &x.trail, a.request.Memory, &p.Engine.Bounds
	res, err := t.Run(ctx)
	guarding.ChecksOf(&x.trail).Await() // guardrails on the calls of checks may run in the background
	if !guarding.ChecksOf(&x.trail).HasCalls() {
		return res, err
	}
	e := &x.entry
	if e.Level = level(a); e.Level == reqlog.LevelFull {
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
func (p *Plane) endChecks(x *roundTrip) {
	if store := p.Engine.Quota; store != nil {
		metering.CountRequest(&x.trail, store, nil, nil)
		metering.EndRequest(&x.trail, store)
	}
	guarding.RecordChecks(&x.trail, &x.entry)
}
