// Package batches serves batches, and runs those that the gateway runs itself.
//
// A batch of a managed provider with a batch API is created there, and its record follows
// the provider's state. Any other batch is run by a job: each line is a request for the key
// that created the batch, with everything that a client's request has. It guarantees one
// result for each line, even if nodes are killed, and that a batch leaves an end state
// never again.
package batches

import (
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// Serve serves a request below /batches.
func Serve(q *kept.Request) error {
	rest := strings.TrimPrefix(q.From.Path, "/batches")
	id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch q.HTTP.Method + " " + action {
	case "POST ":
		if rest == "" {
			return create(q)
		}
	case "GET ":
		if rest == "" {
			return list(q)
		}
		return withBatch(q, id, get)
	case "POST cancel":
		return withBatch(q, id, cancel)
	case "GET output":
		return withBatch(q, id, output)
	}
	return kept.NoRoute(q)
}

// withBatch serves a request to a batch of the workspace.
func withBatch(q *kept.Request, id string, serve func(*kept.Request, *store.Object) error) error {
	o, err := q.Find(store.ObjectBatch, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectBatch)
	case err != nil:
		return err
	case !isManaged(&o) && !hasBatches(q, &o):
		q.From.Relay(q.W, q.ForwardedTo(&o), q.CallTo(o.Provider))
		return nil
	}
	return serve(q, &o)
}

// hasBatches reports whether the gateway knows batches of the provider of an object. One
// that was removed is reported when it is asked.
func hasBatches(q *kept.Request, o *store.Object) bool {
	target, _, err := q.Target(o.Provider)
	if err != nil {
		return true
	}
	_, ok := vendorbatch.For(target.ID)
	return ok
}

// list lists the batches of the workspace.
func list(q *kept.Request) error {
	if q.MayPass() && q.Names() {
		return q.Pass(store.ObjectBatch)
	}
	p, err := kept.ParsePage(q.HTTP.URL.Query(), 100, 20)
	if err != nil {
		return err
	}
	found, more, err := q.List(store.ObjectBatch, "", p)
	if err != nil {
		return err
	}
	l, err := kept.NewList(found, more, show)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, l)
}

func get(q *kept.Request, o *store.Object) error {
	if err := refresh(q, o); err != nil {
		return err
	}
	b, err := show(o)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, b)
}

// cancelTries is how often a cancellation reads a batch that changes at the same moment.
const cancelTries = 5

// cancel cancels a batch. Cancelling it again changes nothing.
func cancel(q *kept.Request, o *store.Object) error {
	for try := 1; ; try++ {
		status := vendorbatch.Status(o.State)
		switch {
		case status.Ended():
			return apierr.New(apierr.Conflict, "the batch is %s and can no longer be cancelled", o.State).WithParam("id").WithCode("batch_ended")
		case status == vendorbatch.Cancelling:
			return get(q, o)
		case !isManaged(o):
			return cancelThere(q, o)
		}
		d, err := detailsOf(o)
		if err != nil {
			return err
		}
		move(o, &d.Batch, vendorbatch.Cancelling, q.Deps.Now())
		if err := d.keep(o); err != nil {
			return err
		}
		err = q.Change(func(tx *store.Tx) error { return tx.UpdateObject(q.HTTP.Context(), o) })
		if err == nil {
			q.Deps.Queued()
			return get(q, o)
		}
		if apierr.From(err).Kind != apierr.Conflict || try == cancelTries {
			return err
		}
		if *o, err = q.Find(store.ObjectBatch, o.ID); err != nil {
			return err
		}
	}
}

// output serves the results of a batch that has ended: those of requests that succeeded,
// then those that failed.
func output(q *kept.Request, o *store.Object) error {
	if err := refresh(q, o); err != nil {
		return err
	}
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	if !vendorbatch.Status(o.State).Ended() {
		return apierr.New(apierr.Conflict, "the batch is %s; its results are there when it has ended",
			o.State).WithParam("id").WithCode("batch_not_ended")
	}
	q.W.Header().Set("Content-Type", "application/jsonl")
	for _, id := range [...]string{d.Batch.OutputFileID, d.Batch.ErrorFileID} {
		if id == "" {
			continue
		}
		file, err := q.Find(store.ObjectFile, id)
		if err != nil {
			return err
		}
		if err := q.CopyFile(&file); err != nil {
			return err
		}
	}
	q.W.WriteHeader(http.StatusOK) // there may be no results
	return nil
}
