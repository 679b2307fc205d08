package jobs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// Jobs of the test, their steps, and how many nodes are killed while they run.
const (
	killedJobs  = 60
	killedSteps = 5
	kills       = 8
)

// TestKilledNodesLoseNoJobAndRepeatNoEffect has three processes on one database run jobs,
// each with several effects, while they are killed at random moments. An effect is a job
// of another kind, for a subject that no other has.
func TestKilledNodesLoseNoJobAndRepeatNoEffect(t *testing.T) {
	if dsn := os.Getenv("JOBS_TEST_DSN"); dsn != "" {
		runNode(t, dsn)
		return
	}
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		for i := range killedJobs {
			mustAdd(t, db, store.Job{ID: fmt.Sprintf("j%02d", i), Kind: "k", Subject: fmt.Sprint(i), Organisation: "o", NextAt: time.Now(), CreatedAt: time.Now()})
		}
		nodes := make([]*exec.Cmd, 3)
		for i := range nodes {
			nodes[i] = mustStart(t, dsn)
		}
		for i := range kills {
			want := killedJobs*killedSteps*(i+1)/(kills+2) + mathrand.IntN(killedSteps)
			waittest.Until(t, "progress of the jobs", func() bool { return len(effects(t, db)) >= want })
			n := mathrand.IntN(len(nodes))
			nodes[n].Process.Kill()
			nodes[n].Wait()
			nodes[n] = mustStart(t, dsn)
		}
		waittest.Until(t, "the end of all jobs", func() bool {
			_, n, err := db.Jobs(t.Context(), store.JobQuery{Organisation: "o", Kind: "k", State: store.JobDone}, store.Page{Size: 1})
			return err == nil && n == killedJobs
		})
		times := map[string]int{}
		for _, e := range effects(t, db) {
			name, _, _ := strings.Cut(e.Subject, " ")
			times[name]++
		}
		for name, n := range times {
			if n != 1 {
				t.Errorf("the effect %s happened %d times", name, n)
			}
		}
		if len(times) != killedJobs*killedSteps {
			t.Errorf("%d effects, want %d", len(times), killedJobs*killedSteps)
		}
	})
}

func effects(t *testing.T, db *store.DB) []store.Job {
	t.Helper()
	list, _, err := db.Jobs(t.Context(), store.JobQuery{Organisation: "effects"}, store.Page{Size: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// mustStart starts a process that is a node until it is killed.
func mustStart(t *testing.T, dsn string) *exec.Cmd {
	t.Helper()
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledNodesLoseNoJobAndRepeatNoEffect$")
	node.Env = append(os.Environ(), "JOBS_TEST_DSN="+dsn)
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		node.Process.Kill()
		node.Wait()
	})
	return node
}

// runNode runs jobs until the process is killed. A job has a row for each step that was
// made, and goes on after the last one.
func runNode(t *testing.T, dsn string) {
	db, err := store.Open(t.Context(), dsn, store.Options{Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, j *jobs.Job) error {
		_, made, err := db.Jobs(ctx, store.JobQuery{Organisation: "effects", Kind: "step of " + j.ID}, store.Page{Size: 1})
		for step := made; err == nil && step < killedSteps; step++ {
			effect := func(tx *store.Tx) error {
				name := fmt.Sprintf("%s/%d %s", j.ID, step, rand.Text())
				return tx.AddJob(ctx, store.Job{ID: name, Kind: "step of " + j.ID, Subject: name, Organisation: "effects", NextAt: time.Now(), CreatedAt: time.Now()})
			}
			if step == killedSteps-1 {
				err = j.Finish(ctx, effect)
			} else {
				err = j.Write(ctx, effect)
			}
		}
		return err
	}
	jobs.New(jobs.Options{DB: db, Node: rand.Text(), Poll: 20 * time.Millisecond, Kinds: []jobs.Kind{{
		Name: "k", Run: run, AtOnce: 3, Tries: 100, Lease: 300 * time.Millisecond, Renew: 20 * time.Millisecond, Backoff: 10 * time.Millisecond,
	}}}).Run(t.Context())
}
