package jobs

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modelgate/internal/store"
)

// world is a job as the store has it, and what nodes believe of it. Moves have the rules of
// [store.DB.MoveJob].
type world struct {
	row     store.Job
	held    map[string]store.Job // by node: the job as it runs it
	now     time.Time
	kind    Kind
	effects []int64 // tokens of the claims that stored something, in order
	ends    int
}

func (w *world) move(was, next store.Job) bool {
	if w.row.Token != was.Token || w.row.State != was.State || next.Token != was.Token && w.row.Renewals != was.Renewals {
		return false
	}
	if next.Ended() && !was.Ended() {
		w.ends++
	}
	w.row = next
	return true
}

// act lets a node do something with the job that it runs.
func (w *world) act(node, action string) {
	held, runs := w.held[node]
	if !runs {
		return
	}
	next := held
	switch action {
	case "renew":
		next = renew(held, w.now)
	case "release":
		next = release(held, w.now)
	case "retry":
		next = retry(held, &w.kind, errors.New("it failed"), w.now)
	case "done":
		next = end(held, store.JobDone, "", w.now)
	}
	moved := w.move(held, next)
	if moved {
		w.effects = append(w.effects, held.Token)
	}
	if w.held[node] = next; !moved || next.State != store.JobRunning {
		delete(w.held, node)
	}
}

// TestJobsMoveOnlyAlongTheirStates has three nodes and a user act in any order, with clocks
// that jump.
func TestJobsMoveOnlyAlongTheirStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			row:  store.Job{ID: "j", State: store.JobQueued},
			held: map[string]store.Job{}, now: time.UnixMilli(1_700_000_000_000), kind: Kind{Tries: rapid.IntRange(1, 4).Draw(t, "tries")}.withDefaults(),
		}
		begun, requeued := 0, 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			node := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node")
			before := w.row
			action := rapid.SampledFrom([]string{"claim", "claim", "claim", "renew", "release", "retry", "done", "cancel", "requeue", "jump"}).Draw(t, "action")
			switch action {
			case "jump":
				w.now = w.now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, time.Hour, time.Second}).Draw(t, "by"))
			case "claim": // of a queued job, or of a running one: its node may be slow, not dead
				if w.row.Ended() {
					break
				}
				next := claim(w.row, node, w.now, w.kind.Tries)
				if w.move(w.row, next) && next.State == store.JobRunning {
					w.held[node] = next
					begun++
				}
			case "cancel":
				if next, err := Cancel(w.row, w.now); err == nil {
					w.move(w.row, next)
				}
			case "requeue":
				if next, err := Requeue(w.row, w.now); err == nil {
					w.move(w.row, next)
					begun, requeued = 0, requeued+1
				}
			default:
				if _, runs := w.held[node]; runs && action == "release" && w.held[node].Token == w.row.Token && w.row.State == store.JobRunning {
					begun--
				}
				w.act(node, action)
			}
			w.check(t, before, action)
			if begun > w.kind.Tries {
				t.Fatalf("%d tries, %d are allowed", begun, w.kind.Tries)
			}
			if w.ends > requeued+1 {
				t.Fatalf("it ended %d times", w.ends)
			}
		}
	})
}

// check checks the row after an action.
func (w *world) check(t *rapid.T, before store.Job, action string) {
	j := w.row
	from := map[string][]string{
		store.JobQueued:  {store.JobRunning, store.JobCancelled},
		store.JobRunning: {store.JobQueued, store.JobDone, store.JobFailed, store.JobDead, store.JobCancelled},
		store.JobFailed:  {store.JobQueued}, store.JobDead: {store.JobQueued},
	}
	if j.State != before.State && !slices.Contains(from[before.State], j.State) {
		t.Fatalf("%s: from %s to %s", action, before.State, j.State)
	}
	if j.Token < before.Token || j.Tries < 0 || j.Ended() == j.EndedAt.IsZero() || (j.State == store.JobQueued) == j.NextAt.IsZero() && j.Token > 0 {
		t.Fatalf("%s: from %+v to %+v", action, before, j)
	}
	if !slices.IsSorted(w.effects) {
		t.Fatalf("%s: a node stored something after a later claim: %v", action, w.effects)
	}
	if w.row.NextAt.After(w.now.Add(2*time.Hour*40 + w.kind.MaxDelay)) {
		t.Fatalf("%s: due at %v", action, j.NextAt)
	}
}

func TestPausesGrowUpToTheLongest(t *testing.T) {
	k := Kind{Backoff: time.Second, MaxDelay: 10 * time.Second}.withDefaults()
	for tries, longest := range []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		seen := map[time.Duration]bool{}
		for range 100 {
			d := pause(&k, int64(tries))
			if seen[d] = true; d < longest/2 || d > longest {
				t.Errorf("after try %d: %v, want %v to %v", tries, d, longest/2, longest)
			}
		}
		if len(seen) < 50 {
			t.Errorf("after try %d: only %d different pauses of 100", tries, len(seen))
		}
	}
	if d := pause(&k, 1<<40); d > k.MaxDelay || d < k.MaxDelay/2 {
		t.Errorf("after very many tries: %v", d)
	}
}

func TestPauseOfAnErrorIsWithinThatOfTheKind(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	k := Kind{Backoff: 2 * time.Minute, MaxDelay: time.Hour}.withDefaults()
	failed := errors.New("it failed")
	for _, tt := range []struct {
		err         error
		least, most time.Duration
	}{
		{failed, time.Minute, 2 * time.Minute},
		{After(failed, time.Second), time.Minute, 2 * time.Minute},
		{After(failed, 10*time.Minute), 10 * time.Minute, 10 * time.Minute},
		{After(failed, 1000*time.Hour), time.Hour, time.Hour},
		{After(failed, -time.Hour), time.Minute, 2 * time.Minute},
	} {
		j := retry(store.Job{State: store.JobRunning, Tries: 1}, &k, tt.err, now)
		if wait := j.NextAt.Sub(now); j.State != store.JobQueued || wait < tt.least || wait > tt.most {
			t.Errorf("after %#v: %s in %v, want between %v and %v", tt.err, j.State, wait, tt.least, tt.most)
		}
	}
}
