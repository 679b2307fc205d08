package stateplane

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/stateplane/copies"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// removalPauses are the pauses after the tries to delete an object at its provider. After
// the last one, the job shows what the provider said.
var removalPauses = []time.Duration{
	10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// removals returns the kind of jobs that delete objects where they are kept.
func (p *Plane) removals() jobs.Kind {
	return jobs.Kind{Name: store.JobRemoval, Run: p.remove, AtOnce: 4, Pauses: removalPauses}
}

// remove deletes an object where it is kept, and its record.
func (p *Plane) remove(ctx context.Context, j *jobs.Job) error {
	o, err := p.deps.DB.ObjectByID(ctx, j.Subject)
	switch {
	case apierr.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case o.ProviderID == "":
		err = p.deps.DeleteContent(ctx, &o)
	default:
		err = p.deleteThere(ctx, &o)
	}
	if err != nil {
		return err
	}
	return j.Finish(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteObject(ctx, &o); !apierr.IsNotFound(err) {
			return err
		}
		return nil
	})
}

// deleteThere deletes an object at its provider, for its workspace: the key that created it
// may have been deleted since.
func (p *Plane) deleteThere(ctx context.Context, o *store.Object) error {
	target, _, err := p.deps.Target(o.Workspace, o.Provider)
	if err != nil {
		return err
	}
	r, kind, err := deletion(ctx, target, o)
	if err != nil {
		return err
	}
	var res kept.Capture
	call := &dataplane.Call{Manages: true, Identity: &access.Identity{
		KeyID: o.KeyID, Organisation: o.Organisation, Workspace: o.Workspace, Name: "removals", Scopes: []access.Scope{access.ScopeCompletions},
	}}
	p.deps.Call(&res, r, call)
	if !res.OK() && !kept.IsDeleted(kind, res.Status, res.Body) || call.Result.Broken {
		return apierr.New(apierr.UpstreamFailed, "%s answered with status %d to the deletion of %.100s", o.Provider, res.Status, o.ProviderID).
			WithCode("upstream_error")
	}
	return nil
}

// deletion returns the request that deletes an object at its provider, and the kind that the
// object has there.
func deletion(ctx context.Context, t *provider.Target, o *store.Object) (r *http.Request, kind string, err error) {
	switch o.Kind {
	case store.ObjectResponse, store.ObjectConversation:
		out := kept.Outgoing{Provider: o.Provider, Method: http.MethodDelete, Path: "/" + o.Kind + "s/" + url.PathEscape(o.ProviderID)}
		r, err = out.Request(ctx)
		return r, o.Kind, err
	}
	return copies.Deletion(ctx, t, o)
}
