// Package jobs runs work in the background, on any of several nodes.
//
// It guarantees that a job is run by one node at a time: a node leases it, renews the
// lease while it works, and another takes over when the lease is not renewed. A node that
// has lost its lease cannot store anything, because every effect is written together with
// the token of its claim. A job that fails is tried again after a pause; after its last
// try it is dead, which operators see. Leases are measured by the monotonic clock of each
// node, so clocks that differ or jump neither end nor double work.
//
// It does not know what jobs do: kinds are registered with a function. It does not keep
// states (see store).
package jobs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"modelgate/internal/store"
)

// Kind is a kind of jobs. Values of zero have the defaults named next to them.
type Kind struct {
	Name string

	// Run does the work of a job. It must return soon after ctx ends. If it returns nil
	// and has not called [Job.Finish], the job is done. An error of [Fail] is final, and one
	// of [Later] postpones the job; after another one it is tried again.
	Run func(ctx context.Context, j *Job) error

	AtOnce int // jobs of the kind that a node runs at a time; 1
	// PerOrganisation is how many jobs of an organisation all nodes run at a time, about: nodes
	// that claim at the same moment do not see each other. Organisations take turns then. Zero is
	// any number, in the order in which they are due.
	PerOrganisation int
	Tries           int           // after which a job is dead; 5
	Lease           time.Duration // after which others take over if it is not renewed; 30 s
	Renew           time.Duration // interval of renewals, which also notice a cancellation; 2 s

	Backoff  time.Duration // longest pause after the first try, doubled with each; 5 s
	MaxDelay time.Duration // longest time until a queued job is due; 10 min

	// Pauses are the longest pauses after each try, instead of those of Backoff. A job has
	// one more try than there are pauses, and MaxDelay is the longest of them at least. Nil
	// means Backoff.
	Pauses []time.Duration
}

func (k Kind) withDefaults() Kind {
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{{&k.Lease, 30 * time.Second}, {&k.Renew, 2 * time.Second}, {&k.Backoff, 5 * time.Second}, {&k.MaxDelay, 10 * time.Minute}} {
		if *d.to <= 0 {
			*d.to = d.def
		}
	}
	if k.Pauses != nil {
		k.Tries, k.MaxDelay = len(k.Pauses)+1, max(k.MaxDelay, slices.Max(k.Pauses))
	}
	k.AtOnce = max(k.AtOnce, 1)
	if k.Tries <= 0 {
		k.Tries = 5
	}
	return k
}

// Options configure a [Runner].
type Options struct {
	DB     *store.DB
	Node   string // identifies this process among all nodes
	Kinds  []Kind
	Logger *slog.Logger // nil is silent

	Poll  time.Duration // interval of looking for jobs; 2 s
	Grace time.Duration // for jobs to return when the runner stops; 5 s

	// Ended is called after each run of a job with its kind, the state that it left the job in,
	// or "lost" if the job is another node's, and how long it took. Nil is not called.
	Ended func(kind, state string, took time.Duration)

	Now func() time.Time // time.Now

	// Elapsed is a monotonic clock. If nil, it follows Now, which does not jump if it is
	// time.Now.
	Elapsed func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Elapsed == nil {
		now, start := o.Now, o.Now()
		o.Elapsed = func() time.Duration { return now().Sub(start) }
	}
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ended == nil {
		o.Ended = func(string, string, time.Duration) {}
	}
	return o
}

// Runner runs jobs, and is one of the nodes that do so.
type Runner struct {
	Options
	kinds []*kind
	wake  chan struct{} // holds one token
	work  sync.WaitGroup
}

// kind is a kind with what the runner knows of its jobs.
type kind struct {
	Kind
	free chan struct{} // a token for each job that may be started

	// seen are the running jobs, by id, as they were when they last changed. Only the
	// loop of the runner uses it.
	seen map[string]sighting
}

// sighting is a claim at a point of its lease, and when the node first saw it there.
type sighting struct {
	token, renewals int64
	at              time.Duration
}

// New returns a runner, which does nothing until [Runner.Run].
func New(o Options) *Runner {
	r := &Runner{Options: o.withDefaults(), wake: make(chan struct{}, 1)}
	for _, k := range o.Kinds {
		k = k.withDefaults()
		free := make(chan struct{}, k.AtOnce)
		for range k.AtOnce {
			free <- struct{}{}
		}
		r.kinds = append(r.kinds, &kind{Kind: k, free: free, seen: make(map[string]sighting)})
	}
	return r
}

// Notify makes the runner look for jobs that are due. It never blocks.
func (r *Runner) Notify() {
	select {
	case r.wake <- struct{}{}:
	default: // already notified
	}
}

// Run runs jobs until ctx ends, then returns what it runs to the queue for other nodes
// or the next start. Waiting jobs have no goroutine, and a job that hangs holds only its
// own place.
func (r *Runner) Run(ctx context.Context) {
	poll := time.NewTicker(r.Poll)
	defer poll.Stop()
	defer r.work.Wait()
	for {
		r.start(ctx)
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-poll.C:
		}
	}
}

// RunDue runs what is due now, waits for its end, and returns the number of jobs that it
// ran.
func (r *Runner) RunDue(ctx context.Context) int {
	n := r.start(ctx)
	r.work.Wait()
	return n
}

// start claims and starts what is due and has a free place, and returns the number of
// jobs.
func (r *Runner) start(ctx context.Context) (started int) {
	for _, k := range r.kinds {
		n, err := r.startKind(ctx, k)
		if started += n; err != nil && ctx.Err() == nil {
			r.Logger.Debug("listing jobs failed", "kind", k.Name, "err", err.Error()) // the database is unavailable, which others report
		}
	}
	return started
}

// clockError is how much later than MaxDelay a queued job may be: it may have been postponed after
// this node has read its clock, or by a node whose clock is ahead.
const clockError = time.Minute

func (r *Runner) startKind(ctx context.Context, k *kind) (started int, err error) {
	abandoned, err := r.findAbandoned(ctx, k)
	if err != nil {
		return 0, err
	}
	now := r.Now()
	due, err := r.DB.DueJobs(ctx, store.DueQuery{Kind: k.Name, Now: now, Latest: now.Add(k.MaxDelay + clockError),
		Limit: k.AtOnce, PerOrganisation: k.PerOrganisation})
	if err != nil {
		return 0, err
	}
	for _, was := range append(abandoned, due...) {
		if ctx.Err() != nil || len(k.free) == 0 {
			return started, nil
		}
		next, sent := claim(was, r.Node, now, k.Tries), r.Elapsed()
		moved, err := r.DB.MoveJob(ctx, was, next, nil)
		if err != nil {
			return started, err
		}
		switch {
		case moved && next.State == store.JobDead:
			r.Logger.Warn("job is dead", "kind", k.Name, "job", next.ID, "subject", next.Subject, "err", next.Failure)
		case moved:
			started++
			<-k.free // only this loop takes tokens
			j := &Job{ID: next.ID, Subject: next.Subject, runner: r, kind: k, leased: sent, turn: make(chan struct{}, 1), row: next}
			r.work.Go(func() { r.runJob(ctx, j) })
		}
	}
	return started, nil
}

// findAbandoned returns the running jobs whose leases were not renewed for their time,
// as far as this node has seen.
func (r *Runner) findAbandoned(ctx context.Context, k *kind) (abandoned []store.Job, err error) {
	list, err := r.DB.RunningJobs(ctx, k.Name)
	if err != nil {
		return nil, err
	}
	now, seen := r.Elapsed(), make(map[string]sighting, len(list))
	for _, j := range list {
		s, known := k.seen[j.ID]
		if !known || s.token != j.Token || s.renewals != j.Renewals {
			s = sighting{j.Token, j.Renewals, now}
		}
		seen[j.ID] = s
		if now-s.at > k.Lease {
			abandoned = append(abandoned, j)
		}
	}
	k.seen = seen
	return abandoned, nil
}
