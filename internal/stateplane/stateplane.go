// Package stateplane serves the objects that outlive a request: files, batches,
// fine-tuning jobs, stored responses and conversations.
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
	"modelgate/internal/jobs"
	"modelgate/internal/stateplane/batches"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/tuning"
	"modelgate/internal/store"
)

// Plane serves requests to objects that outlive them. It is safe for concurrent use.
type Plane struct {
	deps    kept.Deps
	batches *batches.Runner
}

// New returns a plane. A node runs atOnce batches at a time.
func New(d kept.Deps, atOnce int) *Plane {
	p := &Plane{deps: d}
	p.batches = batches.NewRunner(&p.deps, atOnce)
	return p
}

// Kinds returns the kinds of jobs of the plane.
func (p *Plane) Kinds() []jobs.Kind { return p.batches.Kinds() }

// Keep implements [dataplane.Keeper].
func (p *Plane) Keep(w http.ResponseWriter, r *http.Request, k *dataplane.KeptRequest) error {
	q := &kept.Request{Deps: &p.deps, From: k, HTTP: r, W: w}
	family, _, _ := strings.Cut(strings.TrimPrefix(k.Path, "/"), "/")
	switch family {
	case "files":
		return files.Serve(q)
	case "batches":
		return batches.Serve(q)
	case "fine_tuning":
		return tuning.Serve(q)
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
			if err := p.deps.DB.Transact(ctx, func(tx *store.Tx) error { return tx.DeleteObject(ctx, o) }); err != nil && !apierr.IsNotFound(err) {
				return err
			}
			if err := p.deps.DeleteContent(ctx, o); err != nil {
				return err
			}
		}
	}
}
