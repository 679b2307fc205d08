package kept

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// StateDeleting is the state of an object that a job deletes where it is kept.
const StateDeleting = "deleting"

// maxCopies limits the copies of a file: one for each provider, and one in the gateway.
const maxCopies = 1000

// Drop deletes the record of an object. Its copies are deleted by jobs.
func (d *Deps) Drop(ctx context.Context, tx *store.Tx, o *store.Object) error {
	copies, _, err := tx.Objects(ctx, store.ObjectQuery{Workspace: o.Workspace, Kind: store.ObjectCopy, Parent: o.ID, Limit: maxCopies})
	if err != nil {
		return err
	}
	for i := range copies {
		if err := d.Remove(ctx, tx, &copies[i]); err != nil {
			return err
		}
	}
	return tx.DeleteObject(ctx, o)
}

// Remove begins a job that deletes an object where it is kept, and then its record. The caller tells
// the runner of jobs after the transaction.
func (d *Deps) Remove(ctx context.Context, tx *store.Tx, o *store.Object) error {
	if o.State == StateDeleting {
		return nil
	}
	now := d.Now()
	o.State, o.UpdatedAt, o.ExpiresAt = StateDeleting, now, time.Time{}
	if err := tx.UpdateObject(ctx, o); err != nil {
		return err
	}
	return tx.AddJob(ctx, store.Job{
		ID: d.NewID(), Kind: store.JobRemoval, Subject: o.ID, Organisation: o.Organisation, Workspace: o.Workspace, NextAt: now, CreatedAt: now,
	})
}

// DeleteThere deletes an object at its provider, and then its record with its copies. The
// response is the provider's.
func (q *Request) DeleteThere(o *store.Object) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	var res Capture
	q.From.Relay(&res, q.ForwardedTo(o), q.CallTo(o.Provider))
	if res.OK() || IsDeleted(o.Kind, res.Status, res.Body) {
		ctx := context.WithoutCancel(q.HTTP.Context())
		err := q.Change(func(tx *store.Tx) error { return q.Deps.Drop(ctx, tx, o) })
		if err != nil && !apierr.IsNotFound(err) {
			return err
		}
		q.Deps.Queued()
	}
	return res.Send(q.W)
}

// IsDeleted reports whether the response to a request about an object means that its provider
// does not have it any more.
// https://ai.google.dev/api/files#method:-files.get
func IsDeleted(kind string, status int, body []byte) bool {
	if kind == store.ObjectGeminiFile && status == http.StatusForbidden {
		return bytes.Contains(body, []byte("may not exist")) // Google does not tell missing files from those of others
	}
	return status == http.StatusNotFound
}
