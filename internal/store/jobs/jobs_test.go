package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// clock is the wall clock and the monotonic clock of a node.
type clock struct {
	mu      sync.Mutex
	wall    time.Time
	elapsed time.Duration
}

func newClock() *clock { return &clock{wall: time.UnixMilli(1_700_000_000_000).UTC()} }

// pass lets time pass.
func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.elapsed = c.wall.Add(d), c.elapsed+d
}

// jump sets the wall clock forward or back.
func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

func (c *clock) since() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

// bench is a database with runners.
type bench struct {
	*clock
	t  *testing.T
	db *store.DB
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{newClock(), t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db")}
}

// runner returns a runner of a kind k with the clock of the bench.
func (b *bench) runner(node string, k jobs.Kind) *jobs.Runner {
	k.Name = "k"
	return jobs.New(jobs.Options{
		DB: b.db, Node: node, Kinds: []jobs.Kind{k}, Poll: time.Millisecond, Grace: time.Millisecond, Now: b.now, Elapsed: b.since,
	})
}

// add queues a job.
func (b *bench) add(kind, id string) {
	b.t.Helper()
	mustAdd(b.t, b.db, store.Job{ID: id, Kind: kind, Subject: id, Organisation: store.DefaultOrganisation, NextAt: b.now(), CreatedAt: b.now()})
}

func mustAdd(t *testing.T, db *store.DB, j store.Job) {
	t.Helper()
	if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.AddJob(t.Context(), j) }); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) job(id string) store.Job {
	b.t.Helper()
	j, err := b.db.Job(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return j
}

// change cancels or requeues a job.
func (b *bench) change(id string, to func(store.Job, time.Time) (store.Job, error)) error {
	return b.db.Update(b.t.Context(), nil, func(tx *store.Tx) error {
		return jobs.Change(b.t.Context(), tx,
			func() (store.Job, error) { return tx.Job(b.t.Context(), id) },
			func(j store.Job) (store.Job, error) { return to(j, b.now()) })
	})
}

func TestAJobIsTriedAgainLaterUntilItIsDead(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	r := b.runner("a", jobs.Kind{Tries: 3, Backoff: time.Minute, Run: func(context.Context, *jobs.Job) error {
		return apierr.New(apierr.Unavailable, "the provider is down").WithCause(errors.New("canary"))
	}})
	for try := int64(1); try <= 3; try++ {
		if n := r.RunDue(t.Context()); n != 1 {
			t.Fatalf("try %d: %d jobs ran", try, n)
		}
		j := b.job("j")
		if j.Tries != try || j.Failure != "the provider is down" || (j.State == store.JobDead) != (try == 3) {
			t.Errorf("try %d: %+v", try, j)
		}
		if n := r.RunDue(t.Context()); n != 0 {
			t.Errorf("try %d: again at once", try)
		}
		b.pass(2 * time.Minute * time.Duration(try))
	}
	if n := r.RunDue(t.Context()); n != 0 {
		t.Error("a dead job was run")
	}
	if err := b.change("j", jobs.Cancel); apierr.From(err).Kind != apierr.Conflict {
		t.Errorf("a dead job was cancelled: %v", err)
	}
	if err := b.change("j", jobs.Requeue); err != nil {
		t.Fatal(err)
	}
	if n := r.RunDue(t.Context()); n != 1 || b.job("j").Tries != 1 {
		t.Errorf("after the retry: %d jobs, %+v", n, b.job("j"))
	}
}

func TestHowAJobEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		run            func(ctx context.Context, j *jobs.Job) error
		state, failure string
	}{
		"well": {func(context.Context, *jobs.Job) error { return nil }, store.JobDone, ""},
		"well, by itself": {func(ctx context.Context, j *jobs.Job) error {
			j.ReportProgress(7, nil)
			return errors.Join(j.Finish(ctx, nil), errors.New("too late"))
		}, store.JobDone, ""},
		"finally": {func(context.Context, *jobs.Job) error { return jobs.Fail("no such file", errors.New("canary")) },
			store.JobFailed, "no such file"},
		"with a secret": {func(context.Context, *jobs.Job) error { return errors.New("canary") },
			store.JobQueued, "internal error; see the gateway's process log"},
		"in panic": {func(context.Context, *jobs.Job) error { panic("canary") },
			store.JobQueued, "internal error; see the gateway's process log"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.add("k", "j")
			b.runner("a", jobs.Kind{Run: tt.run}).RunDue(t.Context())
			if j := b.job("j"); j.State != tt.state || j.Failure != tt.failure || j.Node != "a" {
				t.Errorf("%+v", j)
			}
		})
	}
}

// TestPausesAreThoseOfTheKind measures each pause by the steps of a clock. A tenth of it may be
// left out.
func TestPausesAreThoseOfTheKind(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	pauses := []time.Duration{time.Minute, 3 * time.Hour, 10 * time.Minute}
	r := b.runner("a", jobs.Kind{Pauses: pauses, Run: func(context.Context, *jobs.Job) error { return errors.New("x") }})
	for try, pause := range pauses {
		r.RunDue(t.Context())
		if n := b.job("j").NextAt.Sub(b.now()); n > pause || n < pause*9/10-time.Millisecond {
			t.Errorf("try %d: due after %v, want %v", try+1, n, pause)
		}
		b.pass(pause*9/10 - time.Second)
		if n := r.RunDue(t.Context()); n != 0 {
			t.Errorf("try %d: again before the end of its pause", try+1)
		}
		b.pass(pause/10 + time.Second)
	}
	if r.RunDue(t.Context()); b.job("j").State != store.JobDead {
		t.Errorf("after the last try: %+v", b.job("j"))
	}
}

func TestAPostponedJobHasNotFailed(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	pause := time.Hour
	r := b.runner("a", jobs.Kind{Tries: 2, MaxDelay: 5 * time.Minute, Run: func(context.Context, *jobs.Job) error { return jobs.Later(pause) }})
	for range 5 {
		if n := r.RunDue(t.Context()); n != 1 {
			t.Fatalf("%d jobs ran", n)
		}
		if j := b.job("j"); j.State != store.JobQueued || j.Tries != 0 || j.Failure != "" || !j.NextAt.Equal(b.now().Add(min(pause, 5*time.Minute))) {
			t.Errorf("%+v at %v", j, b.now())
		}
		if n := r.RunDue(t.Context()); n != 0 {
			t.Error("it was run again at once")
		}
		b.pass(min(pause, 5*time.Minute))
		pause = time.Minute
	}
}

// TestClocksOfNodesMayDiffer postpones a job as long as possible, on a node whose clock is ahead.
func TestClocksOfNodesMayDiffer(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	ran := 0
	k := jobs.Kind{MaxDelay: time.Hour, Run: func(context.Context, *jobs.Job) error { ran++; return jobs.Later(time.Hour) }}
	b.jump(30 * time.Second)
	b.runner("ahead", k).RunDue(t.Context())
	b.jump(-30 * time.Second)
	if n := b.runner("right", k).RunDue(t.Context()); n != 0 || ran != 1 {
		t.Errorf("another node runs %d jobs at once; %d tries", n, ran)
	}
	b.jump(-time.Hour)
	if n := b.runner("right", k).RunDue(t.Context()); n != 1 {
		t.Errorf("with a clock that was wrong by an hour, %d jobs run", n)
	}
}

// hanging is a kind whose jobs do not return before the end of the test.
func hanging(t *testing.T, started chan<- string) jobs.Kind {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return jobs.Kind{Renew: time.Hour, Run: func(_ context.Context, j *jobs.Job) error {
		started <- j.ID
		<-end
		return nil
	}}
}

func TestAJobThatHangsDelaysNoOther(t *testing.T) {
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	started, ran := make(chan string, 9), make(chan string, 9)
	hangs := hanging(t, started)
	hangs.Name = "hanging"
	quick := jobs.Kind{Name: "quick", Run: func(_ context.Context, j *jobs.Job) error { ran <- j.ID; return nil }}
	r := jobs.New(jobs.Options{DB: b.db, Node: "a", Kinds: []jobs.Kind{hangs, quick}, Poll: time.Millisecond, Grace: time.Millisecond, Now: b.now, Elapsed: b.since})
	b.add("hanging", "h")
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	waittest.Receive(t, started, "the job that hangs")
	for i := range 5 {
		b.add("quick", fmt.Sprint(i))
	}
	for range 5 {
		waittest.Receive(t, ran, "a job next to the one that hangs")
	}
	stop()
	waittest.Receive(t, ended, "the end of the runner")
	if j := b.job("h"); j.State != store.JobQueued || j.Tries != 0 {
		t.Errorf("the lease was not released: %+v", j)
	}
}

func TestARunnerThatStopsLeavesItsJobsToOthers(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	ctx, stop := context.WithCancel(t.Context())
	b.runner("a", jobs.Kind{Run: func(ctx context.Context, _ *jobs.Job) error {
		stop()
		<-ctx.Done()
		return ctx.Err()
	}}).RunDue(ctx)
	if j := b.job("j"); j.State != store.JobQueued || j.Tries != 0 || j.Failure != "" {
		t.Errorf("after the stop: %+v", j)
	}
	if n := b.runner("b", jobs.Kind{Run: func(context.Context, *jobs.Job) error { return nil }}).RunDue(t.Context()); n != 1 {
		t.Error("nobody went on with it")
	}
}

func TestACancelledJobNoticesIt(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	var cause, stored error
	b.runner("a", jobs.Kind{Renew: time.Millisecond, Run: func(ctx context.Context, j *jobs.Job) error {
		if err := b.change("j", jobs.Cancel); err != nil {
			return err
		}
		<-ctx.Done()
		cause, stored = context.Cause(ctx), j.Finish(ctx, func(*store.Tx) error { return errors.New("an effect was stored") })
		return ctx.Err()
	}}).RunDue(t.Context())
	if j := b.job("j"); j.State != store.JobCancelled || !errors.Is(cause, jobs.ErrLost) || !errors.Is(stored, jobs.ErrLost) {
		t.Errorf("%+v, stopped by %v, Finish: %v", j, cause, stored)
	}
}

// TestClockJumpsNeitherEndNorDoubleWork runs a job while the wall clocks of the nodes are
// set forward and back, and differ by as much.
func TestClockJumpsNeitherEndNorDoubleWork(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		b := newBench(t)
		b.add("k", "j")
		started, goOn, ran := make(chan string, 9), make(chan struct{}), 0
		kind := jobs.Kind{Renew: time.Millisecond, Run: func(ctx context.Context, j *jobs.Job) error {
			ran++
			started <- j.ID
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-goOn:
				return nil
			}
		}}
		ended := make(chan struct{})
		first, second := b.runner("a", kind), b.runner("b", kind)
		second.Now = func() time.Time { return b.now().Add(jump) }
		go func() { first.RunDue(t.Context()); close(ended) }()
		waittest.Receive(t, started, "the job")
		for range 3 {
			second.RunDue(t.Context()) // sees it running
			b.jump(jump)
			renewals := b.job("j").Renewals
			waittest.Until(t, "a renewal", func() bool { return b.job("j").Renewals > renewals })
		}
		if n := second.RunDue(t.Context()); n != 0 {
			t.Errorf("%v: taken over while it ran", jump)
		}
		close(goOn)
		waittest.Receive(t, ended, "the end of the job")
		if j := b.job("j"); j.State != store.JobDone || j.Tries != 1 || ran != 1 {
			t.Errorf("%v: it ran %d times: %+v", jump, ran, j)
		}
	}
}

func TestAJobWaitsNoLongerThanItsPauseWhenTheClockIsSetBack(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	r := b.runner("a", jobs.Kind{Run: func(context.Context, *jobs.Job) error { return errors.New("x") }})
	r.RunDue(t.Context())
	b.jump(-time.Hour)
	if n := r.RunDue(t.Context()); n != 1 {
		t.Error("it waits for an hour")
	}
}

func TestANodeThatIsSilentForItsLeaseIsTakenOver(t *testing.T) {
	b := newBench(t)
	b.add("k", "j")
	started := make(chan string, 9)
	ctx, kill := context.WithCancel(t.Context())
	silent := b.runner("a", hanging(t, started))
	ended := make(chan struct{})
	go func() { silent.RunDue(ctx); close(ended) }()
	waittest.Receive(t, started, "the job")
	other := b.runner("b", jobs.Kind{Tries: 2, Run: func(context.Context, *jobs.Job) error { return nil }})
	for range 2 {
		if n := other.RunDue(t.Context()); n != 0 {
			t.Error("taken over while its lease lasts")
		}
		b.pass(15 * time.Second)
	}
	b.pass(time.Second)
	if n := other.RunDue(t.Context()); n != 1 {
		t.Error("not taken over")
	}
	kill()
	waittest.Receive(t, ended, "the end of the silent node")
	if j := b.job("j"); j.State != store.JobDone || j.Node != "b" || j.Token != 2 {
		t.Errorf("%+v", j)
	}
}

func TestAJobThatNoNodeSurvivesIsDead(t *testing.T) {
	b := newBench(t)
	draft := store.Export{
		ID: "e", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Format: "csv", Filters: []byte(`{}`),
		Status: store.ExportRunning, CreatedAt: b.now(), UpdatedAt: b.now(), StartedAt: b.now(),
	}
	if err := b.db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.CreateExport(t.Context(), draft) }); err != nil {
		t.Fatal(err)
	}
	last := store.Job{ID: "j", Kind: store.JobExport, Subject: "e", Organisation: store.DefaultOrganisation, NextAt: b.now(), CreatedAt: b.now()}
	mustAdd(t, b.db, last)
	last.State = store.JobQueued
	claimed := last
	claimed.State, claimed.Node, claimed.Tries, claimed.Token = store.JobRunning, "killed", 2, 2
	if moved, err := b.db.MoveJob(t.Context(), last, claimed, nil); !moved || err != nil {
		t.Fatal(moved, err)
	}
	r := jobs.New(jobs.Options{DB: b.db, Node: "a", Now: b.now, Elapsed: b.since,
		Kinds: []jobs.Kind{{Name: store.JobExport, Tries: 2, Run: func(context.Context, *jobs.Job) error { return nil }}}})
	r.RunDue(t.Context())
	b.pass(31 * time.Second)
	if n := r.RunDue(t.Context()); n != 0 || b.job("j").State != store.JobDead {
		t.Errorf("%d jobs ran: %+v", n, b.job("j"))
	}
	e, err := b.db.Export(t.Context(), "e")
	if err != nil || e.Status != store.ExportFailed || !strings.Contains(e.Failure, "begun several times") {
		t.Errorf("%+v, %v", e, err)
	}
}
