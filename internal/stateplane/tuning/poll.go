package tuning

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendortune"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// Limits of following fine-tuning jobs. A job is asked for at intervals of a tenth of its age.
const (
	pollsAtOnce   = 4
	pollTries     = 300
	leastPollWait = 10 * time.Second
	mostPollWait  = 10 * time.Minute
	maxPollDelay  = 20 * time.Minute
	pollTime      = time.Minute // for the answers of a provider
	// createTime is the time for creating a job. After it, a node that was to do that has
	// ended, and the job is looked for.
	createTime = 10 * time.Minute
	// findTime is how long a job without an answer is looked for at its provider.
	findTime = 24 * time.Hour
)

// Runner follows the fine-tuning jobs of providers to their end, and records what they cost.
type Runner struct{ deps *kept.Deps }

// NewRunner returns a runner of the jobs that fine-tuning has.
func NewRunner(d *kept.Deps) *Runner { return &Runner{d} }

// Kind returns the kind of jobs that fine-tuning has.
func (r *Runner) Kind() jobs.Kind {
	return jobs.Kind{Name: store.JobTuning, Run: r.poll, AtOnce: pollsAtOnce, Tries: pollTries, MaxDelay: maxPollDelay}
}

// jobOf returns the job that follows a fine-tuning job.
func jobOf(d *kept.Deps, o *store.Object) store.Job {
	return store.Job{
		ID: d.NewID(), Kind: store.JobTuning, Subject: o.ID, Organisation: o.Organisation, Workspace: o.Workspace,
		NextAt: d.Now().Add(createTime), CreatedAt: d.Now(),
	}
}

// hasten makes the job of a fine-tuning job due after a pause. Without it, it is run later.
func hasten(d *kept.Deps, ctx context.Context, o *store.Object, pause time.Duration) {
	err := d.DB.Transact(ctx, func(tx *store.Tx) error { return tx.HastenJob(ctx, store.JobTuning, o.ID, d.Now().Add(pause)) })
	if err != nil {
		d.Logger.Debug("a job was not made due", "job", o.ID, "err", err.Error())
	}
	d.Queued()
}

// poll asks the provider of a fine-tuning job for its state, and settles it when it has ended.
func (r *Runner) poll(ctx context.Context, j *jobs.Job) error {
	o, err := r.deps.DB.ObjectByID(ctx, j.Subject)
	if apierr.IsNotFound(err) { // its create was refused, or its workspace deleted
		return nil
	}
	if err != nil {
		return err
	}
	d, err := detailsOf(&o)
	if err != nil {
		return jobs.Fail("the record of the fine-tuning job is unreadable", err)
	}
	h := r.handler(ctx, &o, &d)
	err = h.update(&o)
	switch lost := o.ProviderID == ""; {
	case lost && apierr.IsNotFound(err): // the provider has not created it
		return nil
	case lost && err != nil && r.deps.Now().Sub(o.CreatedAt) < findTime:
		return jobs.Later(r.wait(&o))
	case lost && err != nil:
		r.deps.Logger.Warn("a fine-tuning job whose creation was not answered is not found at its provider", "job", o.ID, "provider", o.Provider)
		return nil
	case err != nil:
		return err
	}
	if d, err = detailsOf(&o); err != nil {
		return err
	}
	job, err := shownJob(&d)
	if err != nil {
		return err
	}
	if !isFinal(job) && (o.EndedAt.IsZero() || r.deps.Now().Sub(o.EndedAt) <= finalAfter) {
		return jobs.Later(r.wait(&o))
	}
	return r.settle(ctx, j, h, &o)
}

// handler returns a handler that acts for the workspace of a job: the key that created it may
// have been deleted since.
func (r *Runner) handler(ctx context.Context, o *store.Object, d *details) *handler {
	id := &access.Identity{
		KeyID: o.KeyID, Organisation: o.Organisation, Workspace: o.Workspace, Name: "fine-tuning",
		Scopes: []access.Scope{access.ScopeCompletions},
	}
	q := &kept.Request{
		Deps: r.deps, From: &dataplane.KeptRequest{Identity: id, Operation: api.FineTuning, TraceID: d.TraceID},
		HTTP: (&http.Request{}).WithContext(ctx),
	}
	return &handler{q: q, ask: func(w http.ResponseWriter, r *http.Request, service string) dataplane.CallResult {
		c := &dataplane.Call{Identity: id, Service: service, Manages: true}
		q.Deps.Call(w, r, c)
		return c.Result
	}}
}

// update asks the provider for the state of a job, or looks for one that was created without an
// answer.
func (h *handler) update(o *store.Object) error {
	ctx, cancel := context.WithTimeout(h.q.HTTP.Context(), pollTime)
	defer cancel()
	bounded := *h
	q := *h.q
	q.HTTP = h.q.HTTP.WithContext(ctx)
	bounded.q = &q
	if o.ProviderID == "" {
		return bounded.reconcile(o)
	}
	return bounded.refresh(o)
}

// wait returns the time until the next question.
func (r *Runner) wait(o *store.Object) time.Duration {
	d := min(max(r.deps.Now().Sub(o.CreatedAt)/10, leastPollWait), mostPollWait)
	return d - rand.N(d/4)
}

// isFinal reports whether neither the state of a job nor what it used will change. Until
// [finalAfter] some vendors correct others.
func isFinal(job *vendortune.Job) bool {
	return job.Status == vendortune.Succeeded && job.TrainedTokens != nil
}

// settle records what a job cost: its entry in the log, and the spending of its owners together
// with the end of the job that follows it, so that it is spent once.
func (r *Runner) settle(ctx context.Context, j *jobs.Job, h *handler, o *store.Object) error {
	target, _, err := h.q.Target(o.Provider)
	if err != nil {
		return err
	}
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	job, err := shownJob(&d)
	if err != nil {
		return err
	}
	bill := r.bill(o, job, target)
	r.deps.Record(ctx, r.entry(o, &d, bill, job, target))
	owner := reqlog.SpendOwner{Organisation: o.Organisation, Workspace: o.Workspace, KeyID: o.KeyID, Slug: target.Slug}
	var spend reqlog.Spend
	spend.AddSettlement(bill)
	var raised map[store.BudgetRef]reqlog.Spend
	err = j.Finish(ctx, func(tx *store.Tx) (err error) {
		raised, err = tx.AddSpendOf(ctx, owner, spend, nil)
		return err
	})
	if err == nil {
		r.deps.Spent(ctx, raised)
	}
	return err
}
