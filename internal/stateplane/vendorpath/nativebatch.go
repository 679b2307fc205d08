package vendorpath

import (
	"encoding/json"
	"net/http"
	"net/url"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/stateplane/batches"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// nativeBatches are the batches of a protocol. Their jobs follow them and settle them once.
type nativeBatches struct {
	kind, prefix string // of records and their ids
	dialect      api.Dialect
	path         string // what is before the id of a batch

	// adopt puts a batch into its record, as its provider describes it.
	adopt func(o *store.Object, body []byte) error
	// see stores what a provider says of a batch, and hastens the job of one that has ended.
	see func(q *kept.Request, o *store.Object, body []byte) error
	// ended reports whether a description is that of a batch that has ended.
	ended func(shown json.RawMessage) bool
}

// nativeInput is what a new batch is followed as. Model is empty if each request names its own.
type nativeInput struct{ endpoint, model string }

// find is [find] for batches. One that was deleted is unknown.
func (b *nativeBatches) find(q *kept.Request, id string) (o store.Object, passed bool, err error) {
	if o, passed, err = find(q, b.kind, id); passed || err != nil {
		return o, passed, err
	}
	n, err := batches.NativeOf(&o)
	if err == nil && n.Dropped {
		err = kept.NotFound(b.kind, "id")
	}
	return o, false, err
}

// create asks a provider to create a batch by r, and begins to follow it; an empty provider is
// the one that the request leads to.
func (b *nativeBatches) create(q *kept.Request, at string, r *http.Request, in *nativeInput) error {
	o := q.NewObject(b.kind, b.prefix)
	if o.Provider = at; at != "" {
		_, integration, err := q.Target(at)
		if err != nil {
			return err
		}
		o.Integration = integration
	}
	if err := batches.PrepareNative(q, &o, in.endpoint, in.model); err != nil {
		return err
	}
	call := q.CallTo(at)
	b.admit(call, in.model)
	res, err := q.CreateBy(&o, r, call, func(c *kept.Capture) error { return b.adopt(&o, c.Body) })
	if err != nil {
		return err
	}
	if o.ProviderID != "" || o.State == kept.StateUnknown {
		if err := batches.FollowNative(q, &o); err != nil {
			return err
		}
	}
	return res.Send(q.W)
}

// admit makes a call refuse targets that a batch could not be followed at, and those whose list
// of models lacks its model. An empty model is on all lists.
func (b *nativeBatches) admit(c *dataplane.Call, model string) {
	before := c.Admit
	c.Admit = func(targets []exchange.Leaf) error {
		if before != nil {
			if err := before(targets); err != nil {
				return err
			}
		}
		for i := range targets {
			t := targets[i].Target
			if t == nil || t.Slug == "" {
				continue
			}
			if v, ok := vendorbatch.For(t.ID); !ok || !v.Speaks(b.dialect) {
				return apierr.New(apierr.Unsupported, "the gateway knows no batches of the provider @%s in this protocol; choose another provider", t.Slug).
					WithParam("x-gateway-provider").WithCode("unsupported_operation")
			}
			if model == "" {
				continue
			}
			if err := t.CheckModel(model); err != nil {
				return err
			}
		}
		return nil
	}
}

// show asks the provider of a batch for it, by the client's own request, which may also cancel
// it.
func (b *nativeBatches) show(q *kept.Request, o *store.Object) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	var res kept.Capture
	q.From.Relay(&res, q.ForwardedTo(o), q.CallTo(o.Provider))
	if res.OK() {
		if err := b.see(q, o, res.Body); err != nil {
			return err
		}
	}
	return res.Send(q.W)
}

// refresh asks the provider of a batch for its state, and returns its description. A provider
// that does not answer leaves it as it is. Status is that of its response.
func (b *nativeBatches) refresh(q *kept.Request, o *store.Object) (shown json.RawMessage, status int, err error) {
	r := q.Forwarded(o.Provider)
	id := o.ProviderID
	if b.dialect != api.DialectGemini { // there it is a path
		id = url.PathEscape(id)
	}
	r.RequestURI, r.Method, r.Body, r.ContentLength = b.path+id, http.MethodGet, http.NoBody, 0
	var res kept.Capture
	q.From.Ask(&res, r, q.CallTo(o.Provider))
	if res.OK() {
		if err := b.see(q, o, res.Body); err != nil {
			return nil, res.Status, err
		}
	}
	n, err := batches.NativeOf(o)
	return n.Shown, res.Status, err
}

// maxRefreshed limits the batches of a list whose provider is asked for their state. Others
// are listed as they were last seen.
const maxRefreshed = 20

// listedBatch is a batch of a list.
type listedBatch struct {
	id    string // the provider's
	shown json.RawMessage
}

// list returns the batches of a page, without those that were deleted.
func (b *nativeBatches) list(q *kept.Request, page []store.Object) (out []listedBatch, err error) {
	asked := 0
	for i := range page {
		o := &page[i]
		n, err := batches.NativeOf(o)
		if err != nil {
			return nil, err
		}
		if n.Dropped {
			continue
		}
		if !b.ended(n.Shown) && asked < maxRefreshed {
			asked++
			if n.Shown, _, err = b.refresh(q, o); err != nil {
				return nil, err
			}
		}
		out = append(out, listedBatch{o.ProviderID, n.Shown})
	}
	return out, nil
}

// dropTries is how often a deletion reads a batch that changes at the same moment.
const dropTries = 5

// drop deletes a batch. One whose costs are not recorded yet is hidden until they are, and the
// response is gone.
func (b *nativeBatches) drop(q *kept.Request, o *store.Object, gone any) error {
	id := o.ProviderID
	for try := 1; ; try++ {
		n, err := batches.NativeOf(o)
		if err != nil {
			return err
		}
		if n.Settled {
			return q.DeleteThere(o)
		}
		err = batches.DropNative(q, o)
		if err == nil {
			return q.JSON(http.StatusOK, gone)
		}
		if apierr.From(err).Kind != apierr.Conflict || try == dropTries {
			return err
		}
		if *o, _, err = b.find(q, id); err != nil {
			return err
		}
	}
}
