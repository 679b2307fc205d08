package exports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"modelgate/internal/blob"
	"modelgate/internal/logstore"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
)

// Options are what a [Runner] works with. Times that are zero have the defaults
// named beside them.
type Options struct {
	DB    *store.DB
	Files blob.Store
	Node  string // tells this process from all others

	// List reads a page of the log and Bodies fills in the bodies of entries.
	// Flush returns when all that was recorded can be read.
	List   func(ctx context.Context, q logstore.Query) (logstore.Page, error)
	Bodies func(ctx context.Context, entries []*reqlog.Entry) error
	Flush  func(ctx context.Context) error

	Keep    time.Duration // how long files are kept; 7 days
	MaxSize int64         // bytes of one file; 1 GB
	Logger  *slog.Logger  // nil is silent

	Lease time.Duration // how long a node may be silent; 30 s
	Hold  time.Duration // between signs of life, and looks whether it was stopped; 2 s
	Poll  time.Duration // between looks for what was started elsewhere; 2 s
	Sweep time.Duration // between looks for files that are to go; 10 min
	Now   func() time.Time
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{{&o.Keep, 7 * 24 * time.Hour}, {&o.Lease, 30 * time.Second}, {&o.Hold, 2 * time.Second}, {&o.Poll, 2 * time.Second}, {&o.Sweep, 10 * time.Minute}} {
		if *d.to <= 0 {
			*d.to = d.def
		}
	}
	if o.MaxSize <= 0 {
		o.MaxSize = 1 << 30
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Runner makes the exports that are started, one at a time, as one of the nodes
// that do so. It also gives files out by links that it has signed.
type Runner struct {
	Options
	wake chan struct{} // holds one token
}

// New returns a runner, which begins with [Runner.Run].
func New(o Options) *Runner {
	return &Runner{Options: o.withDefaults(), wake: make(chan struct{}, 1)}
}

// Notify implements route.Exports. It never waits.
func (r *Runner) Notify() {
	select {
	case r.wake <- struct{}{}:
	default: // it looks already
	}
}

// Run makes exports until ctx ends. What is being made then is left to other
// nodes, or to the next start, which begin it again.
func (r *Runner) Run(ctx context.Context) {
	poll, sweep := time.NewTicker(r.Poll), time.NewTicker(r.Sweep)
	defer poll.Stop()
	defer sweep.Stop()
	r.sweep(ctx)
	for {
		for r.next(ctx) {
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-poll.C:
		case <-sweep.C:
			r.sweep(ctx)
		}
	}
}

// next makes one export, and reports whether there was one.
func (r *Runner) next(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	c, ok, err := r.DB.ClaimExport(ctx, r.Node, r.Now(), r.Lease)
	if err != nil && ctx.Err() == nil {
		r.Logger.Debug("looking for exports", "err", err.Error()) // the database is away, as others tell
	}
	if !ok {
		return false
	}
	r.work(ctx, c)
	return true
}

// errNotOurs ends work on an export that somebody stopped or another node took.
var errNotOurs = errors.New("the export is this node's no more")

// work makes an export that this node has claimed, and stores how it ended.
func (r *Runner) work(ctx context.Context, c store.ExportLease) {
	if c.File != "" { // an earlier node's, which did not end
		r.Files.Delete(ctx, c.File)
	}
	c.File, c.Rows, c.Bytes = r.fileName(&c.Export), 0, 0
	j := &job{Runner: r, claim: c}
	working, stop := context.WithCancelCause(ctx)
	var holding sync.WaitGroup
	holding.Go(func() { r.renewLease(working, j, stop) })
	began := r.Now()
	err := j.make(working)
	lost := errors.Is(context.Cause(working), errNotOurs)
	stop(nil)
	holding.Wait()
	j.reportProgress(&c)
	switch {
	case err == nil:
		r.succeed(ctx, c, j.names, began)
	case lost:
		r.Logger.Info("an export was stopped", "export", c.ID)
	case ctx.Err() != nil:
		r.leave(ctx, c)
	default:
		r.Logger.Warn("an export failed", "export", c.ID, "err", err.Error())
		c.Status, c.Failure, c.EndedAt = store.ExportFailed, reason(err), r.Now()
		c.File = ""
		r.end(ctx, c)
	}
}

// renewLease says that the export goes on until ctx ends. It stops the work when the
// export is this node's no more, or may be another's by now.
func (r *Runner) renewLease(ctx context.Context, j *job, stop context.CancelCauseFunc) {
	until := r.Now().Add(r.Lease)
	tick := time.NewTicker(r.Hold)
	defer tick.Stop()
	for {
		c := j.claim
		j.reportProgress(&c)
		now := r.Now()
		held, err := r.DB.RenewExportLease(ctx, c, now, r.Lease)
		switch {
		case err == nil && !held, err != nil && now.After(until):
			stop(errNotOurs)
			return
		case err == nil:
			until = now.Add(r.Lease)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Runner) succeed(ctx context.Context, c store.ExportLease, fields []string, began time.Time) {
	now := r.Now()
	c.Status, c.Fields, c.LinkKey = store.ExportDone, fields, newLinkKey()
	c.EndedAt, c.ExpiresAt = now, now.Add(r.Keep)
	if !r.end(ctx, c) { // it was stopped in the meantime, or the database is away and it is begun again
		r.Files.Delete(context.WithoutCancel(ctx), c.File)
		return
	}
	r.Logger.Info("an export was made", "export", c.ID, "rows", c.Rows, "bytes", c.Bytes, "took", now.Sub(began).String())
}

// ending is how long storing the end of an export may take.
const ending = 5 * time.Second

// end stores how an export ended, and reports whether that counts.
func (r *Runner) end(ctx context.Context, c store.ExportLease) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ending)
	defer cancel()
	held, err := r.DB.FinishExport(ctx, c)
	if err != nil {
		r.Logger.Warn("the end of an export was not stored", "export", c.ID, "err", err.Error())
	}
	return held && err == nil
}

func (r *Runner) leave(ctx context.Context, c store.ExportLease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ending)
	defer cancel()
	if err := r.DB.ReleaseExport(ctx, c); err != nil { // its lease ends by itself
		r.Logger.Warn("releasing an export lease failed", "export", c.ID, "err", err.Error())
	}
}

// sweep takes away files that are older than they are kept.
func (r *Runner) sweep(ctx context.Context) {
	now := r.Now()
	old, err := r.DB.OldExports(ctx, now)
	for i := range old {
		if err == nil {
			err = r.Files.Delete(ctx, old[i].File)
		}
		if err == nil {
			err = r.DB.ExpireExport(ctx, old[i].ID, now)
		}
	}
	if f, ok := r.Files.(blob.Folder); ok && err == nil { // what other nodes told of, and what a crash left behind
		err = f.DeleteOlder(ctx, now.Add(-r.Keep-time.Hour))
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.Warn("deleting expired export files failed", "err", err.Error())
	}
}

// fileName returns a name for a try to make an export, which no other try has.
func (r *Runner) fileName(e *store.Export) string {
	return fmt.Sprintf("%s/%s-%s.%s", e.Organisation, e.ID, reqlog.NewID(r.Now()).Span(), e.Format)
}
