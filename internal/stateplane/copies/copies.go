// Package copies copies files between providers and the gateway.
//
// A file that a request uses at another provider than its own is copied there once: the
// copy has a record that is linked to the file, is used by later requests, and is deleted
// with the file. Nothing holds a file in memory.
package copies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Copy is a file that a request needs at another place than its own.
type Copy struct {
	Deps     *kept.Deps
	Identity *access.Identity // of the request, which pays for the calls
	Nested   bool             // see [dataplane.Call]
	TraceID  string

	File    *store.Object
	Param   string // of the request that names the file
	Name    string // of the file as the request has it
	Purpose string // that the copy has, in the protocol of OpenAI
}

// Times of copying.
const (
	copyTime = 10 * time.Minute       // after which a copy that is not complete is made again
	pollTime = 200 * time.Millisecond // of waiting for a copy that another request makes
	lastTime = 10 * time.Minute       // before its expiry, in which a copy is not used any more
)

// At returns the copy of the file at a managed provider, "@" and its slug. The state of the
// record says that it is complete.
func (w *Copy) At(ctx context.Context, name string) (*store.Object, error) {
	target, integration, err := w.Deps.Target(w.Identity.Workspace, name)
	if err != nil {
		return nil, err
	}
	to := protocolOf(target)
	if to == nil {
		return nil, w.refuse(name, "which takes no files")
	}
	return w.find(ctx, name, func(ctx context.Context, o *store.Object) error {
		o.Integration = integration
		return w.send(ctx, o, to)
	})
}

// Here returns the copy of the file in the gateway.
func (w *Copy) Here(ctx context.Context) (*store.Object, error) { return w.find(ctx, "", w.keep) }

// find returns the copy at a provider, empty for the gateway, and has it made if there is
// none. Of requests at the same time one makes it, and the others wait.
func (w *Copy) find(ctx context.Context, name string, fill func(ctx context.Context, o *store.Object) error) (*store.Object, error) {
	d, id := w.Deps, w.id(name)
	if err := w.checkSize(name); err != nil {
		return nil, err
	}
	for {
		o, err := d.DB.ObjectByID(ctx, id)
		switch {
		case apierr.IsNotFound(err):
			made, err := w.begin(ctx, id, name)
			if err != nil && apierr.From(err).Kind == apierr.Conflict {
				continue // another request has begun it
			}
			if err != nil {
				return nil, err
			}
			return made, w.complete(context.WithoutCancel(ctx), made, fill)
		case err != nil:
			return nil, d.DB.ClientError(err)
		case isUsable(&o, d.Now()):
			return &o, nil
		case o.State != kept.StateCreating || d.Now().Sub(o.CreatedAt) > copyTime:
			err := d.DB.Transact(ctx, func(tx *store.Tx) error { return tx.DeleteObject(ctx, &o) })
			if err != nil && !apierr.IsNotFound(err) {
				return nil, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollTime):
		}
	}
}

// id returns the id of the record: it makes a copy unique among all nodes.
func (w *Copy) id(name string) string {
	sum := sha256.Sum256([]byte(w.File.ID + "\x00" + name + "\x00" + w.Purpose))
	return "gw_copy_" + hex.EncodeToString(sum[:16])
}

// isUsable reports whether a copy is complete, and stays for some time.
func isUsable(o *store.Object, now time.Time) bool {
	return o.State == files.StateProcessed && (o.ExpiresAt.IsZero() || now.Add(lastTime).Before(o.ExpiresAt))
}

// begin stores the record of a copy that is not complete. The limit of objects does not
// apply: a file has few copies.
func (w *Copy) begin(ctx context.Context, id, name string) (*store.Object, error) {
	now := w.Deps.Now()
	o := &store.Object{
		ID: id, Kind: store.ObjectCopy, Organisation: w.File.Organisation, Workspace: w.File.Workspace, KeyID: w.Identity.KeyID,
		Provider: name, Parent: w.File.ID, State: kept.StateCreating, Label: w.Purpose, Data: json.RawMessage(`{}`),
		CreatedAt: now, UpdatedAt: now,
	}
	return o, w.Deps.DB.Transact(ctx, func(tx *store.Tx) error { return tx.AddObject(ctx, *o) })
}

// complete makes a copy. Of one that fails no record is left. If its file was deleted in the
// meantime, so is the copy.
func (w *Copy) complete(ctx context.Context, o *store.Object, fill func(ctx context.Context, o *store.Object) error) error {
	d := w.Deps
	failed := fill(ctx, o)
	if failed != nil {
		err := d.DB.Transact(ctx, func(tx *store.Tx) error { return tx.DeleteObject(ctx, o) })
		if err != nil && !apierr.IsNotFound(err) {
			d.Logger.Warn("deleting the record of a copy failed", "object", o.ID, "err", err.Error())
		}
		return failed
	}
	o.State, o.UpdatedAt = files.StateProcessed, d.Now()
	err := d.DB.Transact(ctx, func(tx *store.Tx) error {
		if err := tx.UpdateObject(ctx, o); err != nil {
			return err
		}
		_, err := tx.ObjectByID(ctx, w.File.ID)
		if apierr.IsNotFound(err) {
			return d.Remove(ctx, tx, o)
		}
		return err
	})
	if err == nil && o.State == kept.StateDeleting {
		d.Queued()
		return kept.NotFound(store.ObjectFile, w.Param)
	}
	return err
}

// checkSize returns an error for a file that is too large to be copied.
func (w *Copy) checkSize(name string) error {
	d, err := files.DetailsOf(w.File)
	if err != nil {
		return err
	}
	if d.Bytes > w.Deps.Limits.CopyBytes {
		return w.tooLarge(name)
	}
	return nil
}

func (w *Copy) tooLarge(name string) error {
	return apierr.New(apierr.Invalid, "the file %.80s is at %s, and the request goes to %s: it is larger than the %d bytes up to which the gateway copies files (files.copy_limit); upload it to %s",
		w.Name, place(w.File.Provider), place(name), w.Deps.Limits.CopyBytes, place(name)).WithParam(w.Param).WithCode("file_of_another_provider")
}

// refuse returns the error for a file that cannot be copied.
func (w *Copy) refuse(name, why string) error {
	return apierr.New(apierr.Invalid, "the file %.80s is at %s, and the request goes to %s, %s; send the request to the first, or upload the file to the second",
		w.Name, place(w.File.Provider), place(name), why).WithParam(w.Param).WithCode("file_of_another_provider")
}

// place returns what messages call the place of a file.
func place(name string) string {
	if name == "" {
		return "the gateway"
	}
	return name
}
