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
func (a *attempt) endpoint(d api.Dialect) endpoint {
	e := endpoint{provider: a.record.Target.ID, credential: maphash.String(credentials, a.record.Target.Key.Reveal()),
		model: a.record.Model, dialect: d}
	if a.record.Target.Base != nil {
		e.host, e.path = a.record.Target.Base.Host, a.record.Target.Base.Path
	}
	return e
}

// conversationDialect returns the dialect of the conversation with the target:
// the one that the provider table prefers, unless its endpoint refused the
// model before. It is empty if there is none.
func (a *attempt) conversationDialect() api.Dialect {
	d := a.record.Target.DialectFor(a.request.Dialect, a.record.Model)
	if a.refusedDialect == "" && a.handler.Engine.refused.isEmpty() {
		return d
	}
	other := a.record.Target.OtherDialect(d)
	switch {
	case other == "", a.refusedDialect != "" && a.refusedDialect != d:
		return d
	case a.refusedDialect == d, a.handler.Engine.refused.refuses(a.endpoint(d), a.request.HasTools):
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
	r, t := first.request, first.trail
	if r.PastDeadline(0) {
		return first, res, nil
	}
	second, err := h.newAttempt(r, t)
	if err != nil {
		return first, res, nil
	}
	second.refusedDialect, t.Outcome = first.wire.dialect, &second.record
	t.Decide(h.Path, "%s does not serve this request in %s, trying %s", first.record.Target.Label(),
		first.wire.dialect, first.record.Target.OtherDialect(first.wire.dialect))
	next, err := second.run(ctx)
	switch {
	case err != nil && apierr.From(err).Status() >= 500, err != nil && ctx.Err() != nil:
		res.Close()
		return nil, nil, err
	case err != nil:
		t.Outcome = &first.record
		return first, res, nil
	case second.wrongEndpoint != provider.NotWrongEndpoint:
		next.Close()
		t.Outcome = &first.record
		return first, res, nil
	}
	if next.Status < 300 {
		refused := first.endpoint(first.wire.dialect)
		refused.tools = first.wrongEndpoint == provider.WrongEndpointForTools
		h.Engine.refused.learn(refused, second.wire.dialect)
	}
	res.Close()
	return second, next, nil
}
