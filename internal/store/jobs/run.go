package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"modelgate/internal/store"
)

// errHangs is the error of a job that did not return when the runner stopped.
var errHangs = errors.New("the job did not return in time")

// runJob runs a job that this node has claimed, and stores how it ended.
func (r *Runner) runJob(ctx context.Context, j *Job) {
	defer func() {
		j.kind.free <- struct{}{}
		r.Notify()
	}()
	began := r.Elapsed()
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var lease sync.WaitGroup
	lease.Go(func() { j.keepLease(working, stop) })
	err := r.await(ctx, func() error { return j.kind.Run(working, j) })
	isLost := errors.Is(context.Cause(working), ErrLost)
	stop(nil)
	lease.Wait()
	r.endJob(ctx, j, isLost, err)
	row, _ := j.current()
	if row.State == store.JobRunning { // nothing could be stored
		row.State = "lost"
	}
	r.Ended(j.kind.Name, row.State, r.Elapsed()-began)
}

// await returns the error of work, or errHangs if it does not return soon after ctx ends.
func (r *Runner) await(ctx context.Context, work func() error) error {
	result := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				result <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		result <- work()
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(r.Grace)
	defer grace.Stop()
	select {
	case err := <-result:
		return err
	case <-grace.C:
		return errHangs
	}
}

// endJob stores how the work on a job ended, unless that is stored or the job is another
// node's.
func (r *Runner) endJob(ctx context.Context, j *Job, isLost bool, err error) {
	if _, over := j.current(); over {
		return
	}
	now := r.Now()
	final, isFinal := errors.AsType[*failure](err)
	later, isPostponed := errors.AsType[*postponement](err)
	stored := j.move(ctx, func(row store.Job) store.Job {
		switch {
		case err == nil:
			return end(row, store.JobDone, "", now)
		case isLost, ctx.Err() != nil:
			return release(row, now)
		case isPostponed:
			return release(row, now.Add(min(later.pause, j.kind.MaxDelay)))
		case isFinal:
			return end(row, store.JobFailed, final.reason, now)
		}
		return retry(row, &j.kind.Kind, err, now)
	}, nil)
	row, _ := j.current()
	log := r.Logger.With("kind", j.kind.Name, "job", j.ID, "subject", j.Subject)
	switch {
	case errors.Is(stored, ErrLost): // cancelled, or another node's
	case stored != nil: // the lease expires, and the job is run again
		log.Warn("storing the state of a job failed", "err", stored.Error())
	case err != nil && !isPostponed && !isLost && ctx.Err() == nil:
		log.Warn("job failed", "state", row.State, "err", err.Error())
	case errors.Is(err, errHangs):
		log.Warn("job hangs; its lease is released")
	}
}
