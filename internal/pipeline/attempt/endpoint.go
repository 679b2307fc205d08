package attempt

import (
	"context"
	"hash/maphash"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// endpoint is an endpoint of a provider for a model, as seen with one
// credential: what a tenant's provider or account refuses does not affect
// others.
type endpoint struct {
	provider, host, path string
	credential           uint64
	model                string
	dialect              api.Dialect
	tools                bool // for requests with tools only
}

// refusedEndpoints remembers the endpoints that refused a request which the
// other endpoint of the provider then served.
type refusedEndpoints struct{ recentSet[endpoint] }

var credentials = maphash.MakeSeed()

// refuses reports whether e refused requests with or without tools.
func (s *refusedEndpoints) refuses(e endpoint, tools func() bool) bool {
	if s.isEmpty() {
		return false
	}
	if s.has(e) {
		return true
	}
	e.tools = true
	return s.has(e) && tools()
}

// learn remembers that e refused a request which the dialect served fulfilled,
// unless the name of the model is long: clients choose it.
func (s *refusedEndpoints) learn(e endpoint, served api.Dialect) {
	if len(e.model) > exchange.MaxModelName {
		return
	}
	e.model = strings.Clone(e.model) // which may be part of a body
	other := e
	other.dialect = served
	s.add(e, memoryTime, other)
}

// endpoint returns the endpoint that serves dialect d of the attempt's target.
func (p *plan) endpoint(d api.Dialect) endpoint {
	e := endpoint{provider: p.record.Target.ID, credential: maphash.String(credentials, p.record.Target.Key.Reveal()),
		model: p.record.Model, dialect: d}
	if p.record.Target.Base != nil {
		e.host, e.path = p.record.Target.Base.Host, p.record.Target.Base.Path
	}
	return e
}

// conversationDialect returns the dialect of the conversation with the target:
// the one that the provider table prefers, unless its endpoint refused the
// model before. It is empty if there is none.
func (p *plan) conversationDialect() api.Dialect {
	d := p.record.Target.DialectFor(p.request.Dialect, p.record.Model)
	if p.refusedDialect == "" && p.handler.Engine.refused.isEmpty() {
		return d
	}
	other := p.record.Target.OtherDialect(d)
	switch {
	case other == "", p.refusedDialect != "" && p.refusedDialect != d:
		return d
	case p.refusedDialect == d, p.handler.Engine.refused.refuses(p.endpoint(d), p.request.HasTools):
		return other
	}
	return d
}

// tryOtherEndpoint sends the request to the provider's other endpoint if the
// first refused it for that reason, and remembers the refusal if the other one
// serves it. If that cannot serve it either, the result is the first attempt,
// whose error is about the request as the client sent it.
func (h *TargetHandler) tryOtherEndpoint(ctx context.Context, first *attempt, res *exchange.Response) (*attempt,
	*exchange.Response, error) {
	r, t := first.plan.request, first.plan.trail
	if r.PastDeadline(0) {
		return first, res, nil
	}
	second, err := h.newAttempt(r, t)
	if err != nil {
		return first, res, nil
	}
	second.plan.refusedDialect, t.Outcome = first.plan.wire.dialect, &second.plan.record
	t.Decide(h.Path, "%s does not serve this request in %s, trying %s", first.plan.record.Target.Label(),
		first.plan.wire.dialect, first.plan.record.Target.OtherDialect(first.plan.wire.dialect))
	next, err := second.run(ctx)
	switch {
	case err != nil && apierr.From(err).Status() >= 500, err != nil && ctx.Err() != nil:
		res.Close()
		return nil, nil, err
	case err != nil:
		t.Outcome = &first.plan.record
		return first, res, nil
	case second.wrongEndpoint != provider.NotWrongEndpoint:
		next.Close()
		t.Outcome = &first.plan.record
		return first, res, nil
	}
	if next.Status < 300 {
		refused := first.plan.endpoint(first.plan.wire.dialect)
		refused.tools = first.wrongEndpoint == provider.WrongEndpointForTools
		h.Engine.refused.learn(refused, second.plan.wire.dialect)
	}
	res.Close()
	return second, next, nil
}
