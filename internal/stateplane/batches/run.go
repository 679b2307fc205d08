package batches

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// Runner runs the jobs of batches.
type Runner struct {
	deps *kept.Deps
	// atOnce is how many batches this node runs at a time.
	atOnce int

	polls pollGate
	stall time.Duration // see stallTime
}

// NewRunner returns a runner of the jobs that batches have.
func NewRunner(d *kept.Deps, atOnce int) *Runner {
	return &Runner{deps: d, atOnce: atOnce, stall: stallTime}
}

// Kinds returns the kinds of jobs that batches have.
func (r *Runner) Kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: store.JobBatch, Run: r.run, AtOnce: r.atOnce, Tries: 50, Renew: time.Second, Backoff: time.Second, MaxDelay: time.Minute},
		{Name: store.JobBatchPoll, Run: r.poll, AtOnce: pollsAtOnce, Tries: pollTries, MaxDelay: maxPollDelay},
	}
}

// errCancelling stops the lines of a batch that is cancelled.
var errCancelling = errors.New("the batch is cancelled")

// work is a batch that this node runs.
type work struct {
	*kept.Deps
	job    *jobs.Job
	object store.Object
	details
	lines int

	// begin is the record as it was when the work began, for goroutines that send lines.
	begin struct {
		id string
		details
	}

	done    lineSet          // lines that have a result
	repeats map[int]struct{} // lines that may have been sent before, and are sent again
	waiting map[int]struct{} // lines that were announced before, but not sent
	marks   chan mark        // of lines in progress, to be stored
	twice   map[int]struct{} // lines that may have been sent twice, and are not sent again
	sealed  []store.Object   // the chunks of results that are stored, in their order

	share budgetShare
}

// run runs the batch of a job to its end.
func (r *Runner) run(ctx context.Context, j *jobs.Job) error {
	o, err := r.deps.DB.ObjectByID(ctx, j.Subject)
	switch {
	case apierr.IsNotFound(err):
		return nil // its workspace was deleted
	case err != nil:
		return err
	case vendorbatch.Status(o.State).Ended():
		return nil
	}
	w := &work{Deps: r.deps, job: j, object: o}
	if w.details, err = detailsOf(&o); err != nil {
		return jobs.Fail("the record of the batch is unreadable", err)
	}
	w.begin.id, w.begin.details = o.ID, w.details
	return w.run(ctx)
}

func (w *work) run(ctx context.Context) error {
	file, err := w.DB.ObjectByID(ctx, w.Input)
	if apierr.IsNotFound(err) {
		return w.fail(ctx, &vendorbatch.Errors{Object: "list", Data: []vendorbatch.LineError{{Code: "file_not_found",
			Message: "the input file was deleted"}}})
	}
	if err != nil {
		return err
	}
	if err := w.validate(ctx, &file); err != nil || vendorbatch.Status(w.object.State).Ended() {
		return err
	}
	if err := w.takeOver(ctx); err != nil {
		return err
	}
	w.share.open(w)
	defer w.share.close(w)
	expiry := w.object.CreatedAt.Add(window)
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	left := expiry.Sub(w.Now())
	timer := time.AfterFunc(left, func() { stop(errExpired) })
	defer timer.Stop()
	switch {
	case w.object.State == string(vendorbatch.Cancelling):
		stop(errCancelling)
	case left <= 0:
		stop(errExpired)
	}
	w.watch(stop)
	if err := w.send(ctx, working, &file); err != nil {
		return err
	}
	if ctx.Err() != nil { // the node stops, or has lost the job
		return context.Cause(ctx)
	}
	return w.finish(ctx, &file, context.Cause(working))
}

// errExpired stops the lines of a batch whose time is over.
var errExpired = errors.New("the batch has expired")

// watch stops the work when a renewal of the lease finds the batch cancelled.
func (w *work) watch(stop context.CancelCauseFunc) {
	id := w.object.ID
	w.job.OnRenewal(func(ctx context.Context, tx *store.Tx) error {
		o, err := tx.ObjectByID(ctx, id)
		if apierr.IsNotFound(err) {
			return jobs.ErrLost
		}
		if err == nil && o.State == string(vendorbatch.Cancelling) {
			stop(errCancelling)
		}
		return err
	})
}

// validate checks the input of a batch that has not begun.
func (w *work) validate(ctx context.Context, file *store.Object) error {
	if w.Batch.RequestCounts.Total > 0 {
		w.lines = int(w.Batch.RequestCounts.Total)
		return nil
	}
	if w.object.State == string(vendorbatch.Cancelling) {
		return w.finish(ctx, file, errCancelling)
	}
	in, err := w.Open(ctx, file)
	if err != nil {
		return err
	}
	defer in.Close()
	lines, faults, err := validate(in, w.Batch.Endpoint, w.Limits.BatchLines)
	switch {
	case err != nil:
		return kept.StoreFailed(err)
	case faults != nil:
		return w.fail(ctx, faults)
	}
	return w.change(ctx, func() {
		w.lines, w.Batch.RequestCounts.Total = lines, int64(lines)
		if w.object.State == string(vendorbatch.Validating) {
			move(&w.object, &w.Batch, vendorbatch.InProgress, w.Now())
		}
	}, nil)
}

// fail ends a batch whose input is invalid.
func (w *work) fail(ctx context.Context, faults *vendorbatch.Errors) error {
	return w.end(ctx, func() {
		w.Batch.Errors = faults
		move(&w.object, &w.Batch, vendorbatch.Failed, w.Now())
	}, nil)
}

// changeTries is how often a change reads a batch that a client cancels at the same moment.
const changeTries = 5

// effects are stored together with a change of a batch; nil is none.
type effects func(ctx context.Context, tx *store.Tx) error

// change stores a change of the batch while this node has its job, with further effects. A
// cancellation since the batch was read stays.
func (w *work) change(ctx context.Context, f func(), effects effects) error {
	return w.store(ctx, f, effects, w.job.Write)
}

// end stores a change as change does, together with the end of the job.
func (w *work) end(ctx context.Context, f func(), effects effects) error {
	return w.store(ctx, f, effects, w.job.Finish)
}

// storeTime is the time limit for storing a change, also after the work was stopped.
const storeTime = 10 * time.Second

// store makes and stores a change. If that fails, the batch is as it was before.
func (w *work) store(
	ctx context.Context, f func(), effects effects, write func(context.Context, func(*store.Tx) error) error,
) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	was, object := w.details, w.object
	defer func() {
		if err != nil {
			w.details, w.object = was, object
		}
	}()
	for try := 1; ; try++ {
		f()
		expire(w.Deps, &w.object)
		if err := w.details.keep(&w.object); err != nil {
			return err
		}
		o := w.object
		handed, moved := w.share.change(w)
		err := write(ctx, func(tx *store.Tx) error {
			if effects != nil {
				if err := effects(ctx, tx); err != nil {
					return err
				}
			}
			if moved {
				if err := tx.SetBudgetHolds(ctx, o.ID, w.left(handed)); err != nil {
					return err
				}
			}
			if err := tx.UpdateObject(ctx, &o); err != nil || o.EndedAt.IsZero() {
				return err
			}
			return emitEnd(ctx, tx, &o)
		})
		if err == nil {
			if w.object = o; moved {
				w.share.store(ctx, w, handed)
			}
			return nil
		}
		if apierr.From(err).Kind != apierr.Conflict || try == changeTries {
			return err
		}
		if err := w.reread(ctx); err != nil {
			return err
		}
	}
}

// reread takes over a cancellation that was stored since the batch was read.
func (w *work) reread(ctx context.Context) error {
	now, err := w.DB.ObjectByID(ctx, w.object.ID)
	if err != nil {
		return err
	}
	theirs, err := detailsOf(&now)
	if err != nil {
		return err
	}
	w.object.Version = now.Version
	if now.State == string(vendorbatch.Cancelling) {
		w.object.State, w.Batch.CancellingAt = now.State, theirs.Batch.CancellingAt
	}
	return nil
}

// takeOver reads what earlier nodes have stored of the results, and finds the lines that
// they may have sent without storing a result.
func (w *work) takeOver(ctx context.Context) error {
	if err := w.readChunks(ctx); err != nil {
		return err
	}
	w.twice, w.repeats, w.waiting = make(map[int]struct{}), make(map[int]struct{}), make(map[int]struct{})
	w.marks = make(chan mark)
	for _, n := range w.Waiting {
		w.waiting[n] = struct{}{}
	}
	for _, n := range w.Repeats {
		if !w.done.has(n) {
			w.twice[n] = struct{}{}
		}
	}
	for n := 1; n <= w.Begun; n++ {
		_, twice := w.twice[n]
		_, waiting := w.waiting[n]
		if !twice && !waiting && !w.done.has(n) {
			w.repeats[n] = struct{}{}
		}
	}
	return nil
}

// readChunks reads the chunks of results that are stored.
func (w *work) readChunks(ctx context.Context) error {
	q := store.ObjectQuery{Workspace: w.object.Workspace, Kind: store.ObjectChunk, Parent: w.object.ID, Ascending: true, Limit: 1000}
	for {
		list, more, err := w.DB.Objects(ctx, q)
		if err != nil {
			return err
		}
		for i := range list {
			var c chunk
			if err := json.Unmarshal(list[i].Data, &c); err != nil {
				return err
			}
			w.done.addAll(c.Lines)
		}
		w.sealed = append(w.sealed, list...)
		if !more {
			return nil
		}
		q.After = list[len(list)-1].ID
	}
}

// finish writes the files of results and ends the batch. Cause is why not all lines were
// sent, nil if all were.
func (w *work) finish(ctx context.Context, file *store.Object, cause error) error {
	to := vendorbatch.Completed
	switch {
	case errors.Is(cause, errCancelling), w.object.State == string(vendorbatch.Cancelling):
		to = vendorbatch.Cancelled
	case errors.Is(cause, errExpired):
		to = vendorbatch.Expired
		if err := w.expireUnsent(ctx, file); err != nil {
			return err
		}
	}
	if to == vendorbatch.Completed {
		if err := w.change(ctx, func() {
			if w.object.State == string(vendorbatch.InProgress) {
				move(&w.object, &w.Batch, vendorbatch.Finalizing, w.Now())
			}
		}, nil); err != nil {
			return err
		}
	}
	output, failures, err := w.resultFiles()
	if err != nil {
		return err
	}
	return w.end(ctx, func() {
		end := to
		if w.object.State == string(vendorbatch.Cancelling) && end == vendorbatch.Completed {
			end = vendorbatch.Cancelled
		}
		w.Repeats, w.Waiting = nil, nil
		w.Batch.OutputFileID, w.Batch.ErrorFileID = idOf(output), idOf(failures)
		move(&w.object, &w.Batch, end, w.Now())
	}, func(ctx context.Context, tx *store.Tx) error { return w.replaceChunks(ctx, tx, output, failures) })
}

func idOf(o *store.Object) string {
	if o == nil {
		return ""
	}
	return o.ID
}

// replaceChunks stores the files of results in place of the chunks that they consist of.
func (w *work) replaceChunks(ctx context.Context, tx *store.Tx, files ...*store.Object) error {
	if err := tx.DeleteChildren(ctx, &w.object, store.ObjectChunk); err != nil {
		return err
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		if err := tx.AddObject(ctx, *f); err != nil {
			return err
		}
	}
	return nil
}
