package batches

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// Limits of following batches of providers. A batch is asked for at intervals of a tenth of
// its age.
const (
	pollsAtOnce   = 128 // of a node; see pollGate
	pollTries     = 300
	leastPollWait = 5 * time.Second
	mostPollWait  = 5 * time.Minute
	maxPollDelay  = 10 * time.Minute
	pollTime      = time.Minute // for one answer of a provider
	// findTime is how long a batch without an answer is looked for at its provider.
	findTime = 24 * time.Hour
	// stallTime is how long the download of results may wait for its provider to go on.
	stallTime = time.Minute
)

// follow queues the job that follows a batch of a provider to its end.
func follow(q *kept.Request, o *store.Object) error {
	err := q.Change(func(tx *store.Tx) error {
		return tx.AddJob(context.WithoutCancel(q.HTTP.Context()), jobOf(q.Deps, o, store.JobBatchPoll, q.Deps.Now().Add(leastPollWait)))
	})
	q.Deps.Queued()
	return err
}

// hasten makes the job of a batch due now.
func hasten(q *kept.Request, o *store.Object) {
	err := q.Change(func(tx *store.Tx) error {
		return tx.HastenJob(q.HTTP.Context(), store.JobBatchPoll, o.ID, q.Deps.Now())
	})
	if err != nil { // it is run later
		q.Deps.Logger.Debug("a job was not made due", "batch", o.ID, "err", err.Error())
	}
	q.Deps.Queued()
}

// followed is a batch of a provider whose job this node runs.
type followed struct {
	*kept.Deps
	job    *jobs.Job
	object store.Object
	details
	target *provider.Target
	vendor *vendorbatch.Vendor
	caller *caller
	stall  time.Duration // see stallTime
}

// poll asks the provider of a batch for its state, and settles the batch when it has ended.
func (r *Runner) poll(ctx context.Context, j *jobs.Job) error {
	f := &followed{Deps: r.deps, job: j}
	var err error
	switch f.object, err = r.deps.DB.ObjectByID(ctx, j.Subject); {
	case apierr.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if f.details, err = detailsOf(&f.object); err != nil {
		return jobs.Fail("the record of the batch is unreadable", err)
	}
	if f.Settled {
		return nil
	}
	leave, ok := r.polls.enter(&f.object)
	if !ok { // its provider is busy, or hangs
		return jobs.Later(f.wait()/4 + rand.N(f.wait()/4))
	}
	defer leave()
	if f.target, _, err = r.deps.Target(f.object.Workspace, f.object.Provider); err != nil {
		return err
	}
	vendor, ok := vendorbatch.For(f.target.ID)
	if !ok {
		return jobs.Fail("the provider has no batches that the gateway knows", nil)
	}
	f.vendor, f.caller, f.stall = vendor, jobCaller(r.deps, &f.object, &f.details), r.stall
	b, err := f.read(ctx)
	if err != nil || b == nil {
		return err
	}
	if b.Status.Ended() {
		return f.finish(ctx, b)
	}
	if err := adopt(f.Deps, &f.object, &f.details, b); err != nil {
		return err
	}
	err = j.Write(ctx, func(tx *store.Tx) error { return tx.UpdateObject(ctx, &f.object) })
	if err != nil && apierr.From(err).Kind != apierr.Conflict { // a request has just written the same
		return err
	}
	return jobs.Later(f.wait())
}

// read asks the provider for the batch, or looks for one that was created without an
// answer. Nil means that the batch is over without one.
func (f *followed) read(ctx context.Context) (*vendorbatch.Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	if f.object.ProviderID != "" {
		return f.vendor.Get(ctx, f.caller, f.object.ProviderID)
	}
	in := f.input(ctx, nil)
	if f.InputIsTheirs && kept.Speaks(f.target, api.Batches) {
		in.Relayed = f.relayed(ctx)
	}
	b, err := f.vendor.Find(ctx, f.caller, in)
	switch {
	case err == nil:
		return b, nil
	case f.Now().Sub(f.object.CreatedAt) < findTime && !errors.Is(err, vendorbatch.ErrUnsupported):
		return nil, jobs.Later(f.wait())
	}
	f.Logger.Warn("a batch whose creation was not answered is not found at its provider", "batch", f.object.ID, "provider", f.object.Provider)
	faults := &vendorbatch.Errors{Object: "list", Data: []vendorbatch.LineError{{Code: "unknown",
		Message: "the provider did not answer the creation of the batch, and does not list it"}}}
	f.Batch.Errors, f.Settled = faults, true
	move(&f.object, &f.Batch, vendorbatch.Failed, f.Now())
	if err := f.details.keep(&f.object); err != nil {
		return nil, err
	}
	err = f.job.Finish(ctx, func(tx *store.Tx) error {
		if err := tx.SetBudgetHolds(ctx, f.object.ID, nil); err != nil {
			return err
		}
		return tx.UpdateObject(ctx, &f.object)
	})
	reloadHolds(ctx, f.Deps)
	return nil, err
}

// clockSlack is how much the clocks of the gateway and a provider may differ.
const clockSlack = time.Minute

// relayed returns what a batch is recognised by whose creation was the client's own request.
func (f *followed) relayed(ctx context.Context) *vendorbatch.Relayed {
	created := f.object.CreatedAt
	r := &vendorbatch.Relayed{
		FileID: f.Batch.InputFileID, Endpoint: f.Batch.Endpoint, From: created.Add(-clockSlack), Until: created.Add(createTime + clockSlack),
		IsTaken: func(ctx context.Context, id string) (bool, error) {
			_, err := f.DB.Object(ctx, f.object.Workspace, store.ObjectBatch, id)
			if apierr.IsNotFound(err) {
				return false, nil
			}
			return true, err
		},
	}
	if file, err := f.DB.ObjectByID(ctx, f.Input); err == nil && file.ProviderID != "" { // the client may have deleted it
		r.FileID = file.ProviderID
	}
	return r
}

// input returns what the batch was created from; file may be nil.
func (f *followed) input(ctx context.Context, file *store.Object) *vendorbatch.Input {
	in := inputOf(ctx, f.Deps, &f.details, file, f.target)
	in.OwnID, in.Keyless = f.object.ID, f.Shown != nil
	return in
}

// wait returns the time until the next question.
func (f *followed) wait() time.Duration {
	d := min(max(f.Now().Sub(f.object.CreatedAt)/10, leastPollWait), mostPollWait)
	return d - rand.N(d/4)
}

// finish fetches the results of a batch that has ended, and settles it: its state, its
// files, what it cost and the end of its job are stored together, once.
func (f *followed) finish(ctx context.Context, b *vendorbatch.Batch) error {
	results, err := f.fetchWatched(ctx, b)
	if err != nil {
		return err
	}
	bill := f.bill(b, results)
	f.Record(ctx, f.entry(b, bill))
	owner := reqlog.SpendOwner{Organisation: f.object.Organisation, Workspace: f.object.Workspace, KeyID: f.object.KeyID, Slug: f.target.Slug}
	var spend reqlog.Spend
	spend.AddSettlement(bill)
	counters := f.policyCounters(results)
	var raised map[store.BudgetRef]reqlog.Spend
	for try := 1; ; try++ {
		if err := f.adoptEnd(b, results); err != nil {
			return err
		}
		expire(f.Deps, &f.object)
		o := f.object
		err = f.job.Finish(ctx, func(tx *store.Tx) error {
			for _, file := range results.files {
				if err := tx.AddObject(ctx, file); err != nil {
					return err
				}
			}
			if err := tx.UpdateObject(ctx, &o); err != nil {
				return err
			}
			if err := emitEnd(ctx, tx, &o); err != nil {
				return err
			}
			var err error
			if raised, err = tx.AddSpendOf(ctx, owner, spend, counters); err != nil {
				return err
			}
			return tx.SetBudgetHolds(ctx, o.ID, nil)
		})
		if err == nil || apierr.From(err).Kind != apierr.Conflict || try == changeTries {
			break
		}
		if f.object, err = f.DB.ObjectByID(ctx, f.object.ID); err != nil {
			return err
		}
		if f.details, err = detailsOf(&f.object); err != nil {
			return err
		}
	}
	if err != nil {
		if errors.Is(err, jobs.ErrLost) || apierr.From(err).Kind == apierr.Conflict { // after others, it may have been stored
			f.DeleteBlobs(ctx, results.blobs)
		}
		return err
	}
	f.Spent(ctx, raised)
	reloadHolds(ctx, f.Deps)
	if f.Dropped {
		f.drop(ctx)
		return nil
	}
	if f.Input != "" && b.InputFileID != "" && !f.InputIsTheirs {
		ctx, cancel := context.WithTimeout(ctx, pollTime)
		defer cancel()
		if err := f.vendor.DeleteInput(ctx, f.caller, b); err != nil { // it stays there, as after a batch made without the gateway
			f.Logger.Warn("deleting the input of a batch at its provider failed", "batch", f.object.ID, "provider", f.object.Provider, "err",
				err.Error())
		}
	}
	return nil
}

// adoptEnd puts the end of a batch into its record.
func (f *followed) adoptEnd(b *vendorbatch.Batch, results *results) error {
	end := *b
	if results.output != "" || results.failures != "" {
		end.OutputFileID, end.ErrorFileID = results.output, results.failures
	}
	if end.Usage == nil && results.usage.TotalTokens > 0 {
		end.Usage = &results.usage
	}
	if end.RequestCounts.Completed+end.RequestCounts.Failed == 0 {
		end.RequestCounts.Completed, end.RequestCounts.Failed = results.succeeded, results.failed
	}
	f.Settled = true
	return adopt(f.Deps, &f.object, &f.details, &end)
}
