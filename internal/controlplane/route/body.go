package route

import (
	"context"
	"errors"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
)

// maxBody is the limit of a request body, in bytes.
const maxBody = 4 << 20

// maxOpenBody is the limit of a body of an unauthenticated request, in bytes.
const maxOpenBody = 64 << 10

func (r *Route) maxBody() int64 {
	switch {
	case r.MaxBody > 0:
		return r.MaxBody
	case r.Open:
		return maxOpenBody
	}
	return maxBody
}

// checkBody returns an error for a body that no handler accepts.
func (a *API) checkBody(r *http.Request, route *Route, c *Caller) error {
	if err := checkText(r, c.body); err != nil {
		return err
	}
	if !route.UncheckedBody {
		if err := checkDuplicates(c.body); err != nil {
			return err
		}
	}
	if err := checkNulls(c.body, route.keptByNull); err != nil || route.Open || route.Data || route.protocol != nil {
		return err
	}
	if err := a.Off.checkBody(c.Identity, c.body); err != nil {
		return err
	}
	if err := route.normaliseFilters(r, c); err != nil {
		return err
	}
	return route.normaliseBudgets(r, c)
}

// bodyCopies is the number of copies of a body in memory while its route runs: as read,
// as copied by huma, and decoded.
const bodyCopies = 3

// readBody reads the body into a buffer that the caller must release. The buffer and
// the copies count against the share of the caller's organisation in the body memory.
func (a *API) readBody(r *http.Request, route *Route, c *Caller) (*bytepool.Buffer, error) {
	limit, share := route.maxBody(), a.Bodies.Keyless()
	if !route.Open {
		share = a.Bodies.Organisation(c.Identity.Organisation)
	}
	body, err := a.Bodies.ReadShare(r.Body, r.ContentLength, limit, share)
	if err == nil {
		if err = body.Reserve((bodyCopies - 1) * body.Len()); err == nil {
			return body, nil
		}
		body.Release()
	}
	switch {
	case errors.Is(err, bytepool.ErrTooLarge):
		return nil, apierr.New(apierr.TooLarge, "the request body is larger than %d bytes", limit)
	case bytepool.IsFull(err):
		return nil, apierr.BodyMemoryFull(err)
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return nil, e
	}
	return nil, apierr.New(apierr.Invalid, "the request body ended early").WithCause(err)
}

// inTime returns r with the time limit of a handler. Reading the body has a limit of
// its own.
func (a *API) inTime(r *http.Request) (*http.Request, context.CancelFunc) {
	if a.Time <= 0 {
		return r, func() {}
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.Time)
	return r.WithContext(ctx), cancel
}

func (a *API) admitInTime(r *http.Request, route *Route, c *Caller) error {
	r, cancel := a.inTime(r)
	defer cancel()
	return a.admit(r, route, c)
}
