package calls

import (
	"context"
	"errors"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

const (
	// callsAtOnce is the number of calls that a node follows.
	callsAtOnce = 1000
	// maxFailures is how often in a row a connection to a call may fail before the call ends.
	maxFailures = 5
	// firstPause is the pause after the first failure, doubled with each.
	firstPause = 200 * time.Millisecond
)

// Kind returns the kind of jobs that follow calls.
func (k *Keeper) Kind() jobs.Kind {
	return jobs.Kind{Name: store.JobCall, Run: k.run, AtOnce: callsAtOnce, Lease: 15 * time.Second, MaxDelay: time.Minute}
}

// actor returns who ends a call: its workspace, since the key may have been deleted.
func actor(o *store.Object) *access.Identity {
	return &access.Identity{KeyID: o.KeyID, Organisation: o.Organisation, Workspace: o.Workspace, Name: "calls",
		Scopes: []access.Scope{access.ScopeCompletions}}
}

// run counts what a call uses until it ends, and ends it when its key may not go on. If the
// node stops, another goes on.
func (k *Keeper) run(ctx context.Context, j *jobs.Job) error {
	db := k.deps.DB
	o, err := db.ObjectByID(ctx, j.Subject)
	if apierr.IsNotFound(err) {
		return nil // deleted
	}
	if err != nil {
		return db.ClientError(err)
	}
	if o.State != stateInProgress {
		return nil
	}
	d, err := detailsOf(&o)
	if err != nil {
		return err
	}
	reason, err := k.follow(ctx, &o, &d)
	if errors.Is(err, jobs.ErrLost) {
		return errors.Join(err, k.endCancelled(context.WithoutCancel(ctx), &o))
	}
	if err != nil {
		return err
	}
	if reason != "" {
		k.deps.Logger.Info("a call is ended", "call", o.ID, "provider", o.Provider, "reason", reason)
		if err := k.hangUp(ctx, &o); err != nil {
			return err // tried again
		}
	}
	err = k.end(ctx, &o, reason)
	if e := apierr.From(err); err != nil && (e.Kind == apierr.Conflict || e.Kind == apierr.NotFound) {
		return nil // its end was stored by a request, or its record was deleted
	}
	return err
}

// endCancelled ends the call of a job that an operator has cancelled: nobody would count what it
// uses. A job that another node has taken over goes on there.
func (k *Keeper) endCancelled(ctx context.Context, o *store.Object) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	j, err := k.deps.DB.JobOf(ctx, store.JobCall, o.ID)
	if err != nil || j.State != store.JobCancelled {
		return err
	}
	if err := k.hangUp(ctx, o); err != nil {
		return err
	}
	return k.end(ctx, o, "its job was cancelled")
}

// endTime is the time limit of ending a call whose job was cancelled.
const endTime = 10 * time.Second

// errOver is the error of a connection to a call that has ended.
var errOver = errors.New("the call has ended")

// follow counts what a call uses until the call ends, or returns why it must end. An error is
// that of a node that stops.
func (k *Keeper) follow(ctx context.Context, o *store.Object, d *details) (reason string, err error) {
	for failures := 0; ; {
		began := k.deps.Now()
		reason, err := k.connect(ctx, o, d)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case errors.Is(err, errOver):
			return "", nil
		case reason != "":
			return reason, nil
		}
		if failures++; err == nil && k.deps.Now().Sub(began) > time.Minute {
			failures = 1
		}
		if failures >= maxFailures {
			return "the connection that counts what the call uses could not be opened", nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(firstPause << (failures - 1)):
		}
	}
}

// connect opens a connection to a call and counts what the call uses until the connection
// ends. A reason is why the call must end.
func (k *Keeper) connect(ctx context.Context, o *store.Object, d *details) (reason string, err error) {
	hash, err := access.ParseHash(d.Key)
	if err != nil {
		return "", err
	}
	id, err := k.deps.KeyOwner(hash, k.deps.Now())
	if err != nil {
		return apierr.From(err).Message, nil
	}
	r, err := dataplane.NewFollow(ctx, roots[d.Root], o.Provider, o.ProviderID)
	if err != nil {
		return "", err
	}
	follow := &dataplane.Follow{Model: d.Model, Check: func() error {
		_, err := k.deps.KeyOwner(hash, k.deps.Now())
		return err
	}}
	var res kept.Capture
	call := &dataplane.Call{Identity: id, Metered: true, Follow: follow}
	k.deps.Call(&res, r, call)
	return outcome(call)
}

// outcome returns what the end of a connection says of its call.
func outcome(c *dataplane.Call) (reason string, err error) {
	switch {
	case c.Follow.Result.Err != nil:
		return apierr.From(c.Follow.Result.Err).Message, nil
	case c.Result.Status == http.StatusSwitchingProtocols:
		return "", nil
	case c.Result.Status == http.StatusNotFound && c.Result.Sent, c.Result.Status == http.StatusGone:
		return "", errOver
	case c.Result.Status == http.StatusPreconditionFailed, c.Result.Status == http.StatusTooManyRequests && !c.Result.Sent,
		c.Result.Status == http.StatusForbidden && !c.Result.Sent:
		return "a limit of the gateway is reached: " + c.Result.ErrorCode, nil
	}
	return "", apierr.New(apierr.UpstreamFailed, "the connection to the call was answered with status %d", c.Result.Status)
}
