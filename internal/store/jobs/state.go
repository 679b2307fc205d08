package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// The functions of this file are the transitions of a job:
//
//	queued ─claim→ running ─end→ done, failed, dead or cancelled
//	       ←release, retry─        ─requeue→ queued
//
// Each returns the job after the transition. It is stored only if the job is still as it
// was before.

// abandoned is the failure of a job that killed each node that ran it.
const abandoned = "it was begun several times and the gateway ended each time"

// claim returns a job as a node runs it, or dead if the nodes that ran it before used up
// its tries without an end.
func claim(j store.Job, node string, now time.Time, tries int) store.Job {
	if j.State == store.JobRunning && j.Tries >= int64(tries) {
		return end(j, store.JobDead, abandoned, now)
	}
	j.State, j.Node, j.StartedAt, j.RenewedAt = store.JobRunning, node, now, now
	j.Token++
	j.Tries++
	j.Renewals, j.Progress, j.NextAt = 0, 0, time.Time{}
	return j
}

func renew(j store.Job, now time.Time) store.Job {
	j.Renewals++
	j.RenewedAt = now
	return j
}

// release returns a job that its node returns to the queue without having failed. It is
// due at a time.
func release(j store.Job, at time.Time) store.Job {
	j.State, j.NextAt, j.Progress = store.JobQueued, at, 0
	j.Tries--
	return j
}

// retry returns a job after a try that failed: queued for another one, or dead after the
// last.
func retry(j store.Job, k *Kind, err error, now time.Time) store.Job {
	if j.Tries >= int64(k.Tries) {
		return end(j, store.JobDead, reason(err), now)
	}
	wait := pause(k, j.Tries)
	if d, ok := errors.AsType[*delay](err); ok {
		wait = max(wait, min(d.pause, k.MaxDelay))
	}
	j.State, j.Failure, j.NextAt = store.JobQueued, reason(err), now.Add(wait)
	return j
}

// pause returns how long to wait after a try: as long as the kind says, or twice as long as
// after the one before, up to MaxDelay. A random part of it is left out, so that jobs that
// failed together are not tried together.
func pause(k *Kind, tries int64) time.Duration {
	if n := int(tries) - 1; n >= 0 && n < len(k.Pauses) {
		return k.Pauses[n] - rand.N(k.Pauses[n]/10+1)
	}
	d := k.Backoff
	for ; tries > 1 && d < k.MaxDelay; tries-- {
		d *= 2
	}
	d = min(d, k.MaxDelay)
	return d/2 + rand.N(d/2+1)
}

func end(j store.Job, state, failure string, now time.Time) store.Job {
	j.State, j.Failure, j.EndedAt, j.NextAt = state, failure, now, time.Time{}
	return j
}

// Cancel returns a job as cancelled, or an *apierr.Error if it has ended. The node that
// runs it notices at its next renewal.
func Cancel(j store.Job, now time.Time) (store.Job, error) {
	if j.Ended() {
		return j, apierr.New(apierr.Conflict, "the job is in the state %s; only a queued or running job can be cancelled", j.State)
	}
	return end(j, store.JobCancelled, "", now), nil
}

// Requeue returns a failed or dead job as queued, with all its tries, or an
// *apierr.Error for another one.
func Requeue(j store.Job, now time.Time) (store.Job, error) {
	if j.State != store.JobFailed && j.State != store.JobDead {
		return j, apierr.New(apierr.Conflict, "the job is in the state %s; only a failed or dead job can be retried", j.State)
	}
	j.State, j.NextAt, j.EndedAt, j.Tries, j.Progress = store.JobQueued, now, time.Time{}, 0, 0
	return j, nil
}

// changeTries is how often [Change] reads a job that nodes change at the same moment.
const changeTries = 5

// Change reads a job and stores a transition of it, [Cancel] or [Requeue], in the
// transaction of a request.
func Change(ctx context.Context, tx *store.Tx, read func() (store.Job, error), transition func(store.Job) (store.Job, error)) error {
	for try := 1; ; try++ {
		was, err := read()
		if err != nil {
			return err
		}
		next, err := transition(was)
		if err != nil {
			return err
		}
		err = tx.MoveJob(ctx, was, next)
		if !errors.Is(err, store.ErrJobMoved) || try == changeTries {
			return err
		}
	}
}
