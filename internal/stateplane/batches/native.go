package batches

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/stateplane/vendorcall"
	"modelgate/internal/store"
)

// CheckNative returns an error if batches must fit into the budgets of the key: what a batch
// in the protocol of its provider costs cannot be estimated.
func CheckNative(q *kept.Request) error {
	b := &q.Deps.Budgets
	if b.Counters == nil || !b.MayBind(q.From.Identity) || !q.Deps.Limits.StrictBudgets {
		return nil
	}
	return apierr.New(apierr.Invalid, "a budget binds this key, and the batch can't be estimated in this protocol; create it with POST /v1/batches from a file of the gateway").
		WithCode("batch_not_estimated")
}

// PrepareNative makes o the record of a batch that the request creates in the protocol of its
// provider, and that is followed as one of an endpoint and a model.
func PrepareNative(q *kept.Request, o *store.Object, endpoint, model string) error {
	o.Label = endpoint
	d := (&input{Endpoint: endpoint, CompletionWindow: windowDay, Model: model}).details(q, &store.Object{})
	d.InputIsTheirs, d.Shown = true, json.RawMessage("{}")
	return d.keep(o)
}

// DescribeNative stores how the provider of a batch describes it. Its state is that of the
// job, which settles it first.
func DescribeNative(o *store.Object, shown json.RawMessage) error {
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	d.Shown = shown
	if o.State == kept.StateCreating {
		o.State = string(vendorbatch.Validating)
	}
	return d.keep(o)
}

// Native is what a record has of a batch in the protocol of its provider.
type Native struct {
	Shown   json.RawMessage // as its provider described it
	Settled bool            // its costs are recorded
	Dropped bool            // its client has deleted it
}

// NativeOf returns what a record has.
func NativeOf(o *store.Object) (Native, error) {
	d, err := detailsOf(o)
	return Native{d.Shown, d.Settled, d.Dropped}, err
}

// FollowNative begins to follow a batch that was created.
func FollowNative(q *kept.Request, o *store.Object) error { return follow(q, o) }

// HastenNative makes the job of a batch that has ended settle it now.
func HastenNative(q *kept.Request, o *store.Object) { hasten(q, o) }

// DropNative hides a batch that is not settled. Its job deletes it at its provider, once it
// has read what it cost. The error is a conflict if the record has just changed.
func DropNative(q *kept.Request, o *store.Object) error {
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	d.Dropped = true
	if err := d.keep(o); err != nil {
		return err
	}
	err = q.Change(func(tx *store.Tx) error { return tx.UpdateObject(context.WithoutCancel(q.HTTP.Context()), o) })
	if err == nil {
		hasten(q, o)
	}
	return err
}

// drop deletes a batch that its client has deleted, at its provider and here. If that fails,
// its record expires, and its provider deletes it in time.
func (f *followed) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollTime)
	defer cancel()
	path := "/v1beta/" + f.object.ProviderID
	if f.object.Kind == store.ObjectAnthropicBatch {
		path = "/messages/batches/" + url.PathEscape(f.object.ProviderID)
	}
	res, err := f.caller.Call(ctx, &vendorcall.Request{Method: http.MethodDelete, Path: path})
	if err == nil {
		err = res.Body.Close()
	}
	if err == nil && res.Status >= http.StatusBadRequest && res.Status != http.StatusNotFound {
		err = fmt.Errorf("the status is %d", res.Status)
	}
	if err != nil {
		f.Logger.Warn("deleting a batch at its provider failed", "batch", f.object.ID, "provider", f.object.Provider, "err", err.Error())
	}
	o, err := f.DB.ObjectByID(ctx, f.object.ID)
	if err == nil {
		err = f.DB.Transact(ctx, func(tx *store.Tx) error { return tx.DeleteObject(ctx, &o) })
	}
	if err != nil && !apierr.IsNotFound(err) {
		f.Logger.Warn("deleting the record of a batch failed", "batch", f.object.ID, "err", err.Error())
	}
}
