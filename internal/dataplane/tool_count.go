package dataplane

import (
	"context"
	"io"
	"net/http"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/provider/toolserver"
)

// Count counts a message that the gateway answers itself, such as a list, in the limits of
// requests of its caller, and reserves a place in those of requests in progress. An error is an
// *apierr.Error: a limit is reached, and the message is not answered. It is called once at most.
func (t *ToolRequest) Count(ctx context.Context) error {
	p := t.plane
	if p.Engine.Quota == nil {
		return nil
	}
	r := &ToolRun{request: t, call: ToolCall{Operation: api.Tools, Server: new(toolserver.Server)}}
	r.prepare(&t.trip.admission)
	q := &t.trip.trail.Bill().Quota
	limits := metering.Reservation{Store: p.Engine.Quota, Request: &r.exchange, Record: &r.record, Quota: q,
		Local: true, By: toolPrice{op: api.Tools}}
	if err := limits.Reserve(ctx); err != nil {
		return apierr.From(err)
	}
	limits.Settle(quota.Use{Requests: 1})
	q.Sent.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools.counts = true
	return nil
}

// ReadMessage reads the body of the request. It counts as memory of the organisation's bodies until
// release is called, which is not nil. An error is an *apierr.Error.
func (t *ToolRequest) ReadMessage(r *http.Request) (body []byte, release func(), err error) {
	var held []func()
	release = func() {
		for _, f := range held {
			f()
		}
	}
	memory := t.trip.admission.request.Memory
	hold := func(n int) error {
		if memory == nil {
			return nil
		}
		f, err := memory.Hold(n)
		if err != nil {
			return apierr.BodyMemoryFull(err)
		}
		held = append(held, f)
		return nil
	}
	size := int64(firstToolRead)
	if n := r.ContentLength; n >= 0 {
		size = min(n+1, size) // one more to see the end
	}
	for {
		if err := hold(int(size) - cap(body)); err != nil {
			return nil, release, err
		}
		body = append(make([]byte, 0, size), body...)
		for len(body) < cap(body) {
			n, err := r.Body.Read(body[len(body):cap(body)])
			body = body[:len(body)+n]
			if err == io.EOF {
				return body, release, nil
			}
			if err != nil {
				return nil, release, err
			}
		}
		size *= 2
	}
}

// firstToolRead is the room for a message in bytes, at first: what a client announces may never come.
const firstToolRead = 64 << 10
