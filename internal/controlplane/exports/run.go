package exports

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
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

	Sweep time.Duration // interval of deleting expired files; 10 min
	Now   func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Keep <= 0 {
		o.Keep = 7 * 24 * time.Hour
	}
	if o.Sweep <= 0 {
		o.Sweep = 10 * time.Minute
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

// Runner writes exports as jobs, deletes expired files, and serves the files of links
// that it has signed.
type Runner struct{ Options }

// New returns a runner, whose jobs a [jobs.Runner] runs.
func New(o Options) *Runner { return &Runner{o.withDefaults()} }

// anyNumber of exports of an organisation may run on all nodes.
const anyNumber = 1_000_000

// Kind returns the kind of jobs that write exports, one at a time. Organisations take turns, so
// that none waits for the many exports of another's schedules. An interrupted export begins again.
func (r *Runner) Kind() jobs.Kind {
	return jobs.Kind{Name: store.JobExport, Run: r.export, PerOrganisation: anyNumber}
}

// Run deletes expired files until ctx ends.
func (r *Runner) Run(ctx context.Context) {
	sweep := time.NewTicker(r.Sweep)
	defer sweep.Stop()
	for {
		r.sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
		}
	}
}

// export writes the export of a job. An error of writing it is final: its creator reads
// the reason and drafts another one.
func (r *Runner) export(ctx context.Context, lease *jobs.Job) error {
	e, err := r.DB.Export(ctx, lease.Subject)
	if err != nil {
		return r.DB.ClientError(err)
	}
	if e.Status != store.ExportRunning { // a node of an earlier version has stopped or finished it
		return nil
	}
	if e.File != "" { // of an earlier node that did not finish
		r.Files.Delete(ctx, e.File)
	}
	e.File = r.fileName(&e)
	f := &file{Runner: r, export: e, lease: lease}
	lease.OnRenewal(f.report)
	if err := lease.Renew(ctx); err != nil {
		return err
	}
	began := r.Now()
	if err := f.make(ctx); err != nil {
		return jobs.Fail(reason(err), err)
	}
	if err := r.finish(ctx, f); err != nil { // stopped concurrently, or the database is unavailable and the export begins again
		r.Files.Delete(context.WithoutCancel(ctx), e.File)
		return err
	}
	r.Logger.Info("export finished", "export", e.ID, "rows", f.rows.Load(), "bytes", f.bytes.Load(), "took", r.Now().Sub(began).String())
	return nil
}

// adoptionLease keeps nodes of earlier versions from claiming an export between two
// reports.
const adoptionLease = 30 * time.Second

// report stores the progress.
func (f *file) report(ctx context.Context, tx *store.Tx) error {
	e := f.export
	e.Rows, e.Bytes = f.rows.Load(), f.bytes.Load()
	f.lease.ReportProgress(e.Rows, e.Expected)
	err := tx.ReportExport(ctx, e, f.Node, f.Now().Add(adoptionLease))
	if apierr.IsNotFound(err) {
		return jobs.ErrLost
	}
	return err
}

// finish stores the end of the export.
func (r *Runner) finish(ctx context.Context, f *file) error {
	e := f.export
	now := r.Now()
	e.Rows, e.Bytes, e.Fields, e.LinkKey = f.rows.Load(), f.bytes.Load(), f.names, newLinkKey()
	e.EndedAt, e.ExpiresAt = now, now.Add(r.Keep)
	f.lease.ReportProgress(e.Rows, e.Expected)
	return f.lease.Finish(ctx, func(tx *store.Tx) error { return tx.FinishExport(ctx, e) })
}

// sweep deletes the files of expired exports, and queues exports that nodes of an earlier
// version have started.
func (r *Runner) sweep(ctx context.Context) {
	now := r.Now()
	err := r.DB.AdoptExports(ctx, now)
	if err != nil && ctx.Err() == nil {
		r.Logger.Warn("queueing exports of earlier versions failed", "err", err.Error())
	}
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
