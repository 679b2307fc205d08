package kept

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// States of an object whose provider has not described it.
const (
	StateCreating = "creating" // the provider is being asked
	StateUnknown  = "unknown"  // the provider may have created it, but has not said so
)

// Create asks a provider to create an object. Its record is stored before the provider is
// asked, and completed by read from the provider's response. A refused object has no
// record; one that the provider may have created without saying so is unknown. The response
// is the provider's, or the gateway's error. An object of the client's own account has no
// record.
func (q *Request) Create(o *store.Object, r *http.Request, read func(body []byte) error) (*Capture, error) {
	return q.CreateBy(o, r, func(c *Capture) error { return read(c.Body) })
}

// CreateBy is [Request.Create] for an object that the complete response describes.
func (q *Request) CreateBy(o *store.Object, r *http.Request, read func(c *Capture) error) (*Capture, error) {
	ctx := q.HTTP.Context()
	o.State = StateCreating
	if err := q.Change(func(tx *store.Tx) error { return q.Add(ctx, tx, *o) }); err != nil {
		return nil, err
	}
	res, call := new(Capture), q.CallTo(o.Provider)
	q.From.Relay(res, r, call)
	if call.Result.Slug != "" {
		o.Provider = "@" + call.Result.Slug
	}
	switch {
	case res.OK() && !call.Result.Broken && o.Provider != "":
		if err := read(res); err != nil { // the client gets what the provider sent
			return res, q.markUnknown(o)
		}
		return res, q.settleCreated(o)
	case call.Result.Sent && o.Provider != "" && mayHaveCreated(res, call.Result.Broken):
		return res, q.markUnknown(o)
	}
	return res, q.forget(o)
}

// mayHaveCreated reports whether a response leaves open what the provider did.
func mayHaveCreated(res *Capture, broken bool) bool {
	return broken || res.TooLong || res.OK() || res.Status >= 500 || res.Status == http.StatusRequestTimeout
}

// settleCreated stores the record of an object that its provider has described.
func (q *Request) settleCreated(o *store.Object) error {
	err := q.Change(func(tx *store.Tx) error { return tx.UpdateObject(context.WithoutCancel(q.HTTP.Context()), o) })
	if err != nil && apierr.From(err).Kind == apierr.Conflict { // the provider repeated an earlier response, whose record exists
		return q.forget(o)
	}
	return err
}

// markUnknown stores that the provider may have created an object.
func (q *Request) markUnknown(o *store.Object) error {
	o.State = StateUnknown
	q.Deps.Logger.Warn("a provider may have created an object without saying so", "kind", o.Kind, "object", o.ID, "provider", o.Provider)
	return q.Change(func(tx *store.Tx) error { return tx.UpdateObject(context.WithoutCancel(q.HTTP.Context()), o) })
}

// forget deletes the record of an object that was not created.
func (q *Request) forget(o *store.Object) error {
	err := q.Change(func(tx *store.Tx) error { return tx.DeleteObject(context.WithoutCancel(q.HTTP.Context()), o) })
	if apierr.IsNotFound(err) {
		return nil
	}
	return err
}
