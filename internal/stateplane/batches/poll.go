package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// Limits of following batches of providers. A batch is asked for at intervals of a tenth of
// its age.
const (
	pollsAtOnce   = 8
	pollTries     = 300
	leastPollWait = 5 * time.Second
	mostPollWait  = 5 * time.Minute
	maxPollDelay  = 10 * time.Minute
	pollTime      = time.Minute // for one answer of a provider
	// findTime is how long a batch without an answer is looked for at its provider.
	findTime = 24 * time.Hour
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
	if f.target, _, err = r.deps.Target(f.object.Workspace, f.object.Provider); err != nil {
		return err
	}
	vendor, ok := vendorbatch.For(f.target.ID)
	if !ok {
		return jobs.Fail("the provider has no batches that the gateway knows", nil)
	}
	f.vendor, f.caller = vendor, jobCaller(r.deps, &f.object, &f.details)
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
	b, err := f.vendor.Find(ctx, f.caller, f.input(ctx, nil))
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

// input returns what the batch was created from; file may be nil.
func (f *followed) input(ctx context.Context, file *store.Object) *vendorbatch.Input {
	in := inputOf(ctx, f.Deps, &f.details, file, f.target)
	in.OwnID = f.object.ID
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
	results, err := f.fetch(ctx, b)
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
	if f.Input != "" && b.InputFileID != "" && !f.InputIsTheirs {
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

// results are what has been read of the results of a batch.
type results struct {
	files             []store.Object
	output, failures  string // ids of the files
	blobs             []kept.Blob
	usage             vendorbatch.Usage
	succeeded, failed int64
	total             llm.Usage
	cost              catalog.NanoDollars
	priced            bool // every line that used something has a price
	price             string
	model             string

	// byModel is what was used by the models that the lines ask for. Nil if no policies
	// count it.
	byModel map[string]*reqlog.Spend
}

// fetch reads the results of a batch. Files that its provider keeps get a record, others
// become files of the gateway.
func (f *followed) fetch(ctx context.Context, b *vendorbatch.Batch) (*results, error) {
	x := &results{priced: true, model: b.Model}
	theirs := kept.Speaks(f.target, api.Files) && (b.OutputFileID != "" || b.ErrorFileID != "")
	var output, failures *blobWriter
	if theirs {
		for _, id := range [...]string{b.OutputFileID, b.ErrorFileID} {
			if id != "" {
				x.files = append(x.files, f.fileRecord(id))
			}
		}
	} else {
		output, failures = f.newBlob(ctx, "output"), f.newBlob(ctx, "error")
	}
	var input *store.Object
	if o, err := f.DB.ObjectByID(ctx, f.Input); err == nil {
		input = &o
	}
	in := f.input(ctx, input)
	asked, err := f.requestedModels(in)
	if err != nil {
		return nil, err
	}
	var line []byte
	var failed error
	for r, err := range f.vendor.Results(ctx, f.caller, b, in) {
		if err != nil {
			failed = err
			break
		}
		f.countFor(x, asked, &r, f.add(x, &r))
		if theirs {
			continue
		}
		line = append(r.Append(line[:0]), '\n')
		to := output
		if r.Failed() {
			to = failures
		}
		if _, failed = to.Write(line); failed != nil {
			break
		}
	}
	if !theirs {
		failed = errors.Join(failed, f.closeBlobs(ctx, x, output, failures, failed))
	}
	return x, failed
}

// add counts a result and what it cost. It returns what the result is settled with.
func (f *followed) add(x *results, r *vendorbatch.Result) (s reqlog.Settlement) {
	s = reqlog.Settlement{Outcome: reqlog.Answered, Usage: r.Usage}
	if r.Failed() {
		x.failed++
	} else {
		x.succeeded++
	}
	if !r.Usage.Known {
		x.priced = x.priced && r.Failed()
		if r.Failed() {
			s.Outcome = reqlog.Refused
		}
		return s
	}
	x.usage.Add(r.Usage)
	x.total = sumUsage(x.total, r.Usage)
	model := r.Model
	if model == "" {
		model = x.model
	}
	x.model = model
	p, ok := f.target.Price(f.Prices(), model, "", f.object.CreatedAt)
	tier := catalog.Batch
	if !ok || !p.Covers(r.Usage) || !p.Has(tier) {
		x.priced = false
		return s
	}
	s.Cost, s.Price, s.Priced = p.Cost(r.Usage, tier), p.Row()+" "+tier.String(), true
	x.cost, x.price = x.cost+s.Cost, s.Price
	return s
}

// fileRecord returns the record of a file of results that the provider keeps.
func (f *followed) fileRecord(id string) store.Object {
	now := f.Now()
	shown, _ := json.Marshal(map[string]any{ // of strings and numbers
		"id": id, "object": "file", "purpose": "batch_output", "filename": id + ".jsonl",
		"bytes": 0, "created_at": now.Unix(), "status": files.StateProcessed,
	})
	data, _ := json.Marshal(files.Details{Filename: id + ".jsonl", Shown: shown})
	o := store.Object{
		ID: f.ObjectID("gw_file_"), Kind: store.ObjectFile,
		Organisation: f.object.Organisation, Workspace: f.object.Workspace, KeyID: f.object.KeyID,
		Provider: f.object.Provider, ProviderID: id, State: files.StateProcessed, Label: "batch_output",
		Data: data, CreatedAt: now, UpdatedAt: now,
	}
	if f.OutputLife > 0 {
		o.ExpiresAt = f.object.CreatedAt.Add(time.Duration(f.OutputLife) * time.Second)
	}
	return o
}

// blobWriter writes a file of the gateway while it is made.
type blobWriter struct {
	*io.PipeWriter
	name string // of the blob
	kind string // output or error
	done chan struct{}
	size int64 // set before done is closed, as is err
	err  error
}

// newBlob begins a file of results.
func (f *followed) newBlob(ctx context.Context, kind string) *blobWriter {
	in, out := io.Pipe()
	w := &blobWriter{PipeWriter: out, kind: kind, done: make(chan struct{}), name: fmt.Sprintf("%s/%s/%s-%s", f.object.Organisation,
		f.object.ID, kind, f.NewID())}
	go func() {
		defer close(w.done)
		w.size, w.err = f.Contents.Put(ctx, f.object.Organisation, w.name, in)
		in.CloseWithError(w.err)
	}()
	return w
}

// closeBlobs ends the files of results: with records if reading did not fail.
func (f *followed) closeBlobs(ctx context.Context, x *results, output, failures *blobWriter, failed error) (err error) {
	for _, w := range [...]*blobWriter{output, failures} {
		w.CloseWithError(failed) // nil is the end of the file
		<-w.done
		if w.err != nil {
			err = errors.Join(err, kept.StoreFailed(w.err))
			continue
		}
		b := kept.Blob{Name: w.name, Size: w.size}
		if x.blobs = append(x.blobs, b); w.size == 0 {
			continue
		}
		o, made := f.resultFile(w.kind, b)
		if err = errors.Join(err, made); made == nil {
			x.files = append(x.files, *o)
			if w == output {
				x.output = o.ID
			} else {
				x.failures = o.ID
			}
		}
	}
	if failed != nil || err != nil {
		f.DeleteBlobs(ctx, x.blobs)
	}
	return err
}

// resultFile returns the record of a file of results of the gateway.
func (f *followed) resultFile(kind string, b kept.Blob) (*store.Object, error) {
	w := &work{Deps: f.Deps, object: f.object, details: f.details}
	return w.resultFile([]kept.Blob{b}, kind)
}
