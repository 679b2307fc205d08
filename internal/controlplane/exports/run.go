package exports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
)

// Options configure a [Runner]. Durations of zero have the defaults named next to them.
type Options struct {
	DB    *store.DB
	Files blob.Store
	Node  string // identifies this process among all nodes

	// List reads a page of the log and Bodies fills in the bodies of entries. Flush
	// returns when everything recorded so far can be read.
	List   func(ctx context.Context, q logstore.Query) (logstore.Page, error)
	Bodies func(ctx context.Context, entries []*reqlog.Entry) error
	Flush  func(ctx context.Context) error

	Keep    time.Duration // how long files are kept; 7 days
	MaxSize int64         // bytes of one file; 1 GB
	Logger  *slog.Logger  // nil is silent

	Lease time.Duration // how long an export is leased without renewal; 30 s
	Hold  time.Duration // interval of lease renewals, which also notice a stop; 2 s
	Poll  time.Duration // interval of looking for exports started at other nodes; 2 s
	Sweep time.Duration // interval of deleting expired files; 10 min
	Now   func() time.Time
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{{&o.Keep, 7 * 24 * time.Hour}, {&o.Lease, 30 * time.Second}, {&o.Hold, 2 * time.Second},
		{&o.Poll, 2 * time.Second}, {&o.Sweep, 10 * time.Minute}} {
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

// Runner writes started exports, one at a time, and is one of the nodes that do so. It
// also serves the files of links that it has signed.
type Runner struct {
	Options
	wake chan struct{} // holds one token
}

// New returns a runner, which does nothing until [Runner.Run].
func New(o Options) *Runner {
	return &Runner{Options: o.withDefaults(), wake: make(chan struct{}, 1)}
}

// Notify implements Writer. It never blocks.
func (r *Runner) Notify() {
	select {
	case r.wake <- struct{}{}:
	default: // already notified
	}
}

// Run writes exports until ctx ends. Other nodes, or the next start, begin an
// interrupted export again.
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

// next writes one export and reports whether there was one.
func (r *Runner) next(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	c, ok, err := r.DB.ClaimExport(ctx, r.Node, r.Now(), r.Lease)
	if err != nil && ctx.Err() == nil {
		r.Logger.Debug("listing exports failed", "err", err.Error()) // the database is unavailable, which others report
	}
	if !ok {
		return false
	}
	r.work(ctx, c)
	return true
}

// errNotOurs is the cause of stopping work on an export that was stopped or taken over
// by another node.
var errNotOurs = errors.New("the lease of the export is lost")

// work writes an export that this node has leased, and stores how it ended.
func (r *Runner) work(ctx context.Context, c store.ExportLease) {
	if c.File != "" { // of an earlier node that did not finish
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
		r.Logger.Info("export stopped", "export", c.ID)
	case ctx.Err() != nil:
		r.leave(ctx, c)
	default:
		r.Logger.Warn("export failed", "export", c.ID, "err", err.Error())
		c.Status, c.Failure, c.EndedAt = store.ExportFailed, reason(err), r.Now()
		c.File = ""
		r.end(ctx, c)
	}
}

// renewLease renews the lease until ctx ends. It stops the work if the lease is lost or
// may have expired.
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
	if !r.end(ctx, c) { // stopped concurrently, or the database is unavailable and the export begins again
		r.Files.Delete(context.WithoutCancel(ctx), c.File)
		return
	}
	r.Logger.Info("export finished", "export", c.ID, "rows", c.Rows, "bytes", c.Bytes, "took", now.Sub(began).String())
}

// ending is the time limit for storing the end of an export.
const ending = 5 * time.Second

// end stores how an export ended and reports whether this node still held the lease.
func (r *Runner) end(ctx context.Context, c store.ExportLease) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ending)
	defer cancel()
	held, err := r.DB.FinishExport(ctx, c)
	if err != nil {
		r.Logger.Warn("storing the end of an export failed", "export", c.ID, "err", err.Error())
	}
	return held && err == nil
}

func (r *Runner) leave(ctx context.Context, c store.ExportLease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ending)
	defer cancel()
	if err := r.DB.ReleaseExport(ctx, c); err != nil { // the lease expires by itself
		r.Logger.Warn("releasing an export lease failed", "export", c.ID, "err", err.Error())
	}
}

// sweep deletes the files of expired exports.
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
	if f, ok := r.Files.(blob.Folder); ok && err == nil { // files reported by other nodes, or left by a crash
		err = f.DeleteOlder(ctx, now.Add(-r.Keep-time.Hour))
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.Warn("deleting expired export files failed", "err", err.Error())
	}
}

// fileName returns a file name for each attempt: no other has it.
func (r *Runner) fileName(e *store.Export) string {
	return fmt.Sprintf("%s/%s-%s.%s", e.Organisation, e.ID, reqlog.NewID(r.Now()).Span(), e.Format)
}
