package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// ErrLost is the cause of stopping work on a job that was cancelled or taken over by
// another node.
var ErrLost = errors.New("the lease of the job is lost")

// failure is an error after which a job is not tried again.
type failure struct {
	reason string
	cause  error
}

// Error implements error.
func (f *failure) Error() string { return f.cause.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.cause }

// Fail returns an error after which a job is not tried again. The reason is shown, so it
// must not contain secrets; the cause is only logged.
func Fail(reason string, cause error) error { return &failure{reason, cause} }

// postponement is an error after which a job returns to the queue.
type postponement struct{ pause time.Duration }

// Error implements error.
func (p *postponement) Error() string { return "the job is postponed by " + p.pause.String() }

// Later returns an error after which a job returns to the queue, and is due after a pause of
// at most the kind's MaxDelay. The job has not failed, and has as many tries left as before.
func Later(pause time.Duration) error { return &postponement{pause} }

// delay is an error with the least pause before the next try.
type delay struct {
	error
	pause time.Duration
}

// Unwrap returns the error.
func (d *delay) Unwrap() error { return d.error }

// After returns err with the least pause before the next try, such as one that a server has
// asked for. It is shortened to the kind's MaxDelay.
func After(err error, pause time.Duration) error { return &delay{err, pause} }

// reason returns what is shown of the error of a job.
func reason(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind != apierr.Internal {
		return e.Message
	}
	return "internal error; see the gateway's process log"
}

// Job is a job that this node runs. Its methods are safe for concurrent use.
type Job struct {
	ID      string
	Subject string

	runner *Runner
	kind   *kind
	leased time.Duration // when the claim was sent, by the monotonic clock

	turn chan struct{} // holds the token of the goroutine that stores a transition

	mu       sync.Mutex
	row      store.Job                                     // guarded by mu
	over     bool                                          // it has ended or is lost; guarded by mu
	renewing func(ctx context.Context, tx *store.Tx) error // guarded by mu
}

// OnRenewal sets a function that each renewal runs in its transaction, to store progress
// elsewhere. If it returns ErrLost, the work is stopped.
func (j *Job) OnRenewal(f func(ctx context.Context, tx *store.Tx) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.renewing = f
}

// ReportProgress sets the progress that the next renewal stores; total is nil if unknown.
func (j *Job) ReportProgress(progress int64, total *int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.row.Progress, j.row.Total = progress, total
}

// Renew renews the lease and stores the progress. It returns ErrLost if another node has
// the job or it was cancelled.
func (j *Job) Renew(ctx context.Context) error {
	j.mu.Lock()
	f := j.renewing
	j.mu.Unlock()
	if f == nil {
		return j.Write(ctx, nil)
	}
	return j.Write(ctx, func(tx *store.Tx) error { return f(ctx, tx) })
}

// Write stores effects of the job if this node still has it. Otherwise nothing is
// stored, and it returns ErrLost.
func (j *Job) Write(ctx context.Context, effects func(*store.Tx) error) error {
	return j.move(ctx, func(row store.Job) store.Job { return renew(row, j.runner.Now()) }, effects)
}

// Finish marks the job as done together with its last effects. If this node no longer
// has it, nothing is stored, and it returns ErrLost.
func (j *Job) Finish(ctx context.Context, effects func(*store.Tx) error) error {
	return j.move(ctx, func(row store.Job) store.Job { return end(row, store.JobDone, "", j.runner.Now()) }, effects)
}

// storeTime is the time limit for storing a transition, also after the work was stopped.
const storeTime = 5 * time.Second

// move stores a transition of the running job. Transitions take turns: each begins with
// the row that the one before has stored.
func (j *Job) move(ctx context.Context, to func(store.Job) store.Job, effects func(*store.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	j.turn <- struct{}{}
	defer func() { <-j.turn }()
	was, over := j.current()
	if over {
		return ErrLost
	}
	next := to(was)
	moved, err := j.runner.DB.MoveJob(ctx, was, next, effects)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	next.Progress, next.Total = j.row.Progress, j.row.Total // may have been reported since
	j.row, j.over = next, !moved || next.State != store.JobRunning
	if !moved {
		return ErrLost
	}
	return nil
}

// current returns the row, and whether this node's work on it is over.
func (j *Job) current() (row store.Job, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.row, j.over
}

// keepLease renews the lease until ctx ends. It stops the work if the lease is lost or may
// have expired.
func (j *Job) keepLease(ctx context.Context, stop context.CancelCauseFunc) {
	since := j.leased
	tick := time.NewTicker(j.kind.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := j.runner.Elapsed()
		err := j.Renew(ctx)
		switch {
		case err == nil:
			since = began
		case errors.Is(err, ErrLost), j.runner.Elapsed()-since > j.kind.Lease:
			stop(ErrLost)
			return
		}
	}
}
