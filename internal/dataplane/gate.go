package dataplane

import (
	"cmp"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/limits/inflight"
)

// codeOverloaded is the error code of a request that the gate refused.
const codeOverloaded = "overloaded"

// enterGate waits until the gateway has room for the request. Its body has not been
// read yet.
func (p *Plane) enterGate(r *http.Request, a *admission) error {
	id := a.request.Identity
	of := inflight.Caller{Organisation: id.Organisation, Key: cmp.Or(id.KeyID, id.UserID, id.Organisation)}
	ticket, err := p.Gate.Enter(r.Context(), of, p.bufferedSize(r, a))
	if err == nil {
		a.request.Ticket, a.request.Memory = ticket, ticket.Bodies()
		return nil
	}
	e := apierr.New(apierr.Unavailable, "the gateway has reached its limit of requests in progress; try again shortly (limits.concurrency)").
		WithCode(codeOverloaded).WithCause(err)
	if bytepool.IsFull(err) {
		e = apierr.BodyMemoryFull(err)
	}
	e.RetryAfter = time.Second
	return e
}

// bufferedSize returns the size of a body that will be in memory, zero if it is
// unknown or the body streams through.
func (p *Plane) bufferedSize(r *http.Request, a *admission) int64 {
	limit := p.MaxJSON
	switch a.route.body {
	case bodyJSON:
	case bodyRaw:
		limit = maxBufferedRaw
	default:
		return 0
	}
	if r.ContentLength > limit {
		return 0
	}
	return max(r.ContentLength, 0)
}
