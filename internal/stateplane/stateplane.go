// Package stateplane serves the objects that outlive a request: files, batches,
// fine-tuning jobs, stored responses, conversations and realtime calls.
//
// It connects the families below it, and deletes what has expired. The data plane admits
// the requests and records them.
package stateplane

import (
	"context"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/stateplane/batches"
	"modelgate/internal/stateplane/calls"
	"modelgate/internal/stateplane/copies"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/responses"
	"modelgate/internal/stateplane/tuning"
	"modelgate/internal/stateplane/vendorpath"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// Plane serves requests to objects that outlive them. It is safe for concurrent use.
type Plane struct {
	deps      kept.Deps
	options   Options
	batches   *batches.Runner
	responses *responses.Keeper
	calls     *calls.Keeper
}

// Options configure the families of a [Plane].
type Options struct {
	BatchesAtOnce   int // that a node runs
	Responses       responses.Options
	ResponsesAtOnce int // that a node makes in the background
	MeterCalls      bool

	// KeepDeleted is how long what a deleted workspace has is kept: until then the
	// workspace can be restored with it.
	KeepDeleted time.Duration
}

// New returns a plane.
func New(d kept.Deps, o Options) *Plane {
	p := &Plane{deps: d, options: o}
	p.batches = batches.NewRunner(&p.deps, o.BatchesAtOnce)
	p.responses = responses.New(&p.deps, o.Responses)
	p.calls = calls.New(&p.deps, o.MeterCalls)
	return p
}

// Responses returns what keeps responses.
func (p *Plane) Responses() *responses.Keeper { return p.responses }

// Files returns what knows the files in bodies of requests.
func (p *Plane) Files() copies.Resolver { return copies.Resolver{Deps: &p.deps} }

// Kinds returns the kinds of the plane's jobs.
func (p *Plane) Kinds() []jobs.Kind {
	return append(p.batches.Kinds(), p.responses.Kind(p.options.ResponsesAtOnce), p.calls.Kind(),
		tuning.NewRunner(&p.deps).Kind(), p.removals())
}

// FindCall implements [dataplane.Keeper].
func (p *Plane) FindCall(ctx context.Context, workspace, id string) (dataplane.KeptCall, error) {
	return p.calls.Find(ctx, workspace, id)
}

// PassesUnrecorded implements [dataplane.Keeper].
func (p *Plane) PassesUnrecorded() bool { return p.deps.Limits.Unrecorded }

// Keep implements [dataplane.Keeper].
func (p *Plane) Keep(w http.ResponseWriter, r *http.Request, k *dataplane.KeptRequest) error {
	q := &kept.Request{Deps: &p.deps, From: k, HTTP: r, W: w}
	if served, err := vendorpath.Serve(q); served {
		return err
	}
	family, _, _ := strings.Cut(strings.TrimPrefix(k.Path, "/"), "/")
	switch family {
	case "files":
		return files.Serve(q)
	case "uploads":
		return files.ServeUploads(q)
	case "batches":
		return batches.Serve(q)
	case "fine_tuning":
		return tuning.Serve(q)
	case "responses", "conversations":
		return p.responses.Serve(q)
	case "realtime":
		return p.calls.Serve(q)
	}
	return q.Through()
}

// sweepEvery is the interval of deleting what has expired.
const sweepEvery = time.Minute

// orphansEvery is the interval of looking for content without a record.
const orphansEvery = time.Hour

// Run deletes what has expired until ctx ends.
func (p *Plane) Run(ctx context.Context) {
	orphans := time.Now()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := p.Sweep(ctx); err != nil && ctx.Err() == nil {
			p.deps.Logger.Warn("deleting expired objects failed", "err", err.Error())
		}
		if now := time.Now(); now.Sub(orphans) > orphansEvery {
			orphans = now
			if err := p.SweepWorkspaces(ctx); err != nil && ctx.Err() == nil {
				p.deps.Logger.Warn("deleting the objects of deleted workspaces failed", "err", err.Error())
			}
			if err := p.SweepOrphans(ctx); err != nil && ctx.Err() == nil {
				p.deps.Logger.Warn("deleting content without a record failed", "err", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepAtOnce is how many objects a sweep reads at a time.
const sweepAtOnce = 100

// Sweep deletes the objects that have expired by now, with their contents. Objects at
// providers expire there.
func (p *Plane) Sweep(ctx context.Context) error {
	for {
		list, err := p.deps.DB.ExpiredObjects(ctx, p.deps.Now(), sweepAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			o := &list[i]
			if err := p.deps.DB.Transact(ctx, func(tx *store.Tx) error { return p.expire(ctx, tx, o) }); err != nil && !apierr.IsNotFound(err) {
				return err
			}
			if o.State == kept.StateDeleting {
				p.deps.Queued()
				continue
			}
			if err := p.deps.DeleteContent(ctx, o); err != nil {
				return err
			}
		}
	}
}

// providerLife is how long providers keep responses and conversations by themselves.
// https://platform.openai.com/docs/guides/your-data
const providerLife = 30 * 24 * time.Hour

// expire deletes an object whose time is over. A response that its provider would keep
// longer is deleted there first.
func (p *Plane) expire(ctx context.Context, tx *store.Tx, o *store.Object) error {
	isResponse := o.Kind == store.ObjectResponse || o.Kind == store.ObjectConversation
	if isResponse && o.ProviderID != "" && p.deps.Now().Sub(o.CreatedAt) < providerLife {
		return p.deps.Remove(ctx, tx, o)
	}
	return p.deps.Drop(ctx, tx, o)
}
