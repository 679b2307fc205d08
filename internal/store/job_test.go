package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func queued(id string) store.Job {
	return store.Job{
		ID: id, Kind: "k", Subject: "of " + id, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
		State: store.JobQueued, NextAt: exportTime, CreatedAt: exportTime,
	}
}

func mustAdd(t *testing.T, db *store.DB, j store.Job) {
	t.Helper()
	if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.AddJob(t.Context(), j) }); err != nil {
		t.Fatal(err)
	}
}

// claimed returns j as a node claims it.
func claimed(j store.Job, node string) store.Job {
	j.State, j.Node, j.StartedAt, j.RenewedAt, j.NextAt = store.JobRunning, node, exportTime, exportTime, time.Time{}
	j.Token++
	j.Tries++
	j.Renewals = 0
	return j
}

func TestJobsAreStored(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		j, later := queued("j"), queued("later")
		later.NextAt = exportTime.Add(time.Hour)
		mustAdd(t, db, j)
		mustAdd(t, db, later)
		same := queued("same")
		same.Subject = j.Subject
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.AddJob(t.Context(), same) }); apierr.From(err).Kind != apierr.Conflict {
			t.Errorf("a second job for a subject: %v", err)
		}
		total := int64(9)
		next := claimed(j, "a")
		next.Progress, next.Total, next.Failure = 3, &total, "why"
		if moved, err := db.MoveJob(t.Context(), j, next, nil); !moved || err != nil {
			t.Fatal(moved, err)
		}
		for name, read := range map[string]func() (store.Job, error){
			"Job":   func() (store.Job, error) { return db.Job(t.Context(), "j") },
			"JobOf": func() (store.Job, error) { return db.JobOf(t.Context(), "k", "of j") },
		} {
			got, err := read()
			if diff := cmp.Diff(next, got); diff != "" || err != nil {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
		}
		for _, tt := range []struct {
			q    store.JobQuery
			want int
		}{
			{store.JobQuery{Organisation: store.DefaultOrganisation}, 2},
			{store.JobQuery{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Kind: "k", State: store.JobRunning}, 1},
			{store.JobQuery{Organisation: store.DefaultOrganisation, State: store.JobDead}, 0},
			{store.JobQuery{Organisation: store.DefaultOrganisation, Kind: "other"}, 0},
			{store.JobQuery{Organisation: store.DefaultOrganisation, Workspace: "w"}, 0},
			{store.JobQuery{Organisation: "o"}, 0},
		} {
			list, n, err := db.Jobs(t.Context(), tt.q, store.Page{Size: 1})
			if err != nil || n != tt.want || len(list) != min(1, tt.want) {
				t.Errorf("Jobs(%+v) = %d of %d, %v; want %d", tt.q, len(list), n, err, tt.want)
			}
		}
		counts, err := db.CountJobs(t.Context())
		want := map[string]store.JobCount{
			store.JobRunning: {Kind: "k", State: store.JobRunning, Count: 1},
			store.JobQueued:  {Kind: "k", State: store.JobQueued, Count: 1, Due: later.NextAt},
		}
		got := map[string]store.JobCount{}
		for _, c := range counts {
			got[c.State] = c
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("CountJobs: %v\n%s", err, diff)
		}
	})
}

func TestJobsAreDueByTheirTimeUnlessAClockWasWrong(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustAdd(t, db, queued("j"))
		for _, tt := range []struct {
			now  time.Duration // after the time of the job
			want int
		}{{0, 1}, {time.Hour, 1}, {-time.Second, 0}, {-10 * time.Minute, 0}, {-time.Hour, 1}} {
			now := exportTime.Add(tt.now)
			if due, err := db.DueJobs(t.Context(), store.DueQuery{Kind: "k", Now: now, Latest: now.Add(10 * time.Minute), Limit: 5}); len(due) != tt.want || err != nil {
				t.Errorf("%v after it is due: %d jobs, %v; want %d", tt.now, len(due), err, tt.want)
			}
		}
		if due, err := db.DueJobs(t.Context(), store.DueQuery{Kind: "other", Now: exportTime, Latest: exportTime, Limit: 5}); len(due) != 0 || err != nil {
			t.Errorf("of another kind: %v, %v", due, err)
		}
	})
}

// TestOrganisationsTakeTurns has one organisation with many jobs, which were due first, and others
// with few.
func TestOrganisationsTakeTurns(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		due := func(limit, each int) (ids string) {
			t.Helper()
			list, err := db.DueJobs(t.Context(), store.DueQuery{Kind: "k", Now: exportTime.Add(time.Hour), Latest: exportTime.Add(2 * time.Hour),
				Limit: limit, PerOrganisation: each})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range list {
				ids += j.ID + " "
			}
			return ids
		}
		for i, id := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
			j := queued(id)
			j.Organisation, j.NextAt = id[:1], exportTime.Add(time.Duration(i)*time.Second)
			mustAdd(t, db, j)
		}
		other := queued("z1")
		other.Kind, other.Organisation = "other", "a"
		mustAdd(t, db, other)
		for _, tt := range []struct {
			limit, each int
			want        string
		}{{10, 0, "a1 a2 a3 a4 b1 b2 c1 "}, {10, 4, "a1 b1 c1 a2 b2 a3 a4 "}, {10, 2, "a1 b1 c1 a2 b2 "}, {2, 2, "a1 b1 "}} {
			if got := due(tt.limit, tt.each); got != tt.want {
				t.Errorf("%d jobs, %d of each: %s, want %s", tt.limit, tt.each, got, tt.want)
			}
		}
		for _, id := range []string{"a1", "a2", "z1"} {
			j, err := db.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if moved, err := db.MoveJob(t.Context(), j, claimed(j, "node"), nil); !moved || err != nil {
				t.Fatalf("claiming %s: %t, %v", id, moved, err)
			}
		}
		if got := due(10, 3); got != "b1 c1 b2 a3 " {
			t.Errorf("while two run: %s", got)
		}
		if got := due(10, 2); got != "b1 c1 b2 " {
			t.Errorf("while as many run as may: %s", got)
		}
		for i, id := range []string{"b1", "a1", "a2"} {
			j, err := db.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			ended := j
			ended.State, ended.StartedAt, ended.EndedAt = store.JobDone, exportTime.Add(time.Duration(i)*time.Minute), exportTime.Add(time.Hour)
			if moved, err := db.MoveJob(t.Context(), j, ended, nil); !moved || err != nil {
				t.Fatalf("ending %s: %t, %v", id, moved, err)
			}
		}
		if got := due(10, 1); got != "c1 b2 a3 " {
			t.Errorf("after each had others: %s, want first those of which none was begun for the longest time", got)
		}
	})
}

func TestAJobIsClaimedOnce(t *testing.T) {
	const jobs, workers = 50, 8
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		nodes := []*store.DB{open(), open(), open(), open()}
		for i := range jobs {
			mustAdd(t, nodes[0], queued(fmt.Sprintf("j%02d", i)))
		}
		var mu sync.Mutex
		claims := make(map[string]int)
		var work sync.WaitGroup
		for i := range workers {
			db := nodes[i%len(nodes)]
			work.Go(func() {
				due, err := db.DueJobs(t.Context(), store.DueQuery{Kind: "k", Now: exportTime, Latest: exportTime, Limit: jobs})
				if err != nil {
					t.Error(err)
					return
				}
				for _, j := range due {
					moved, err := db.MoveJob(t.Context(), j, claimed(j, fmt.Sprintf("node-%d", i)), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if moved {
						mu.Lock()
						claims[j.ID]++
						mu.Unlock()
					}
				}
			})
		}
		work.Wait()
		for id, n := range claims {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
		if len(claims) != jobs {
			t.Errorf("%d of %d were claimed", len(claims), jobs)
		}
	})
}

func TestEffectsOfAnOlderClaimAreRefused(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		j := queued("j")
		mustAdd(t, db, j)
		effects := 0
		move := func(was, next store.Job) bool {
			t.Helper()
			moved, err := db.MoveJob(t.Context(), was, next, func(tx *store.Tx) error {
				effects++
				return tx.AddJob(t.Context(), queued(fmt.Sprintf("effect %d", effects)))
			})
			if err != nil {
				t.Fatal(err)
			}
			return moved
		}
		renewed := func(j store.Job) store.Job { j.Renewals++; return j }
		first := claimed(j, "a")
		if !move(j, first) || !move(first, renewed(first)) {
			t.Fatal("the claim of a free job was refused")
		}
		if move(first, claimed(first, "b")) {
			t.Error("taken over by a node that had not seen its renewal")
		}
		second := claimed(renewed(first), "b")
		if !move(renewed(first), second) {
			t.Fatal("not taken over")
		}
		done := renewed(first)
		done.State = store.JobDone
		if move(renewed(first), renewed(renewed(first))) || move(renewed(first), done) {
			t.Error("an effect with an older token was stored")
		}
		cancelled := second
		cancelled.State = store.JobCancelled
		if !move(renewed(second), cancelled) {
			t.Error("a cancellation depends on renewals")
		}
		if move(second, renewed(second)) {
			t.Error("an effect of a cancelled job was stored")
		}
		if _, n, err := db.Jobs(t.Context(), store.JobQuery{Organisation: store.DefaultOrganisation}, store.Page{Size: 1}); n != 5 || err != nil {
			t.Errorf("%d jobs, %v; want 4 effects and the job", n-1, err)
		}
	})
}
