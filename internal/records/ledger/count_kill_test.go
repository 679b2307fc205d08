package ledger_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
)

// copied copies a ledger that may lose a segment in the meantime.
func copied(dir, to string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// life is one process in a row of processes that are killed.
type life struct {
	t    *testing.T
	l    *ledger.Ledger
	dir  string
	left string // what it left when it was killed
	dead atomic.Bool
	done map[string]reqlog.Spend // what was settled while it lived
}

// kill ends the process as it is now: nothing that it does later counts.
func (p *life) kill() error {
	if p.dead.Swap(true) {
		return errAway
	}
	thaw := ledger.Freeze(p.l)
	defer thaw()
	if err := copied(p.dir, p.left); err != nil {
		p.t.Error(err)
	}
	return errAway
}

// mustKnow takes in what a ledger holds of attempts: what each came to, or that it
// will be an estimate.
func mustKnow(t *testing.T, dir string, known map[string]reqlog.Spend) {
	t.Helper()
	err := ledger.Each(dir, func(r ledger.Record) {
		switch {
		case r.Intent != nil:
			name := fmt.Sprint(r.Intent.ID, r.Intent.Attempt)
			if _, ok := known[name]; !ok {
				var s reqlog.Spend // an estimate by the size of the request
				tokens := (r.Intent.RequestBytes + 2) / 3
				s.AddSettlement(&reqlog.Settlement{Outcome: reqlog.Estimated, Usage: llm.Usage{Known: true, Estimated: true, Input: tokens}})
				known[name] = s
			}
		case r.Settle != nil:
			var s reqlog.Spend
			s.AddSettlement(r.Settle)
			known[fmt.Sprint(r.Settle.ID, r.Settle.Attempt)] = s
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoCrashMakesCountsDrift kills a process before, within and after a count,
// again and again, while attempts go on for several segments.
func TestNoCrashMakesCountsDrift(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			drift(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func drift(t *testing.T, rnd *rand.Rand) {
	c, dir, known := newCountStore(), t.TempDir(), map[string]reqlog.Spend{}
	for range 12 {
		p := &life{t: t, dir: dir, left: t.TempDir(), done: known}
		p.l = mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 2 * time.Millisecond, SegmentSize: 3 << 10})
		calls, after := rnd.IntN(6), rnd.IntN(2) == 0
		die := func(now bool) error {
			if p.dead.Load() {
				return errAway
			}
			if !now || calls > 0 {
				return nil
			}
			return p.kill()
		}
		c.mu.Lock()
		c.before = func() error { calls--; return die(!after) }
		c.after = func() error { return die(after) }
		c.mu.Unlock()
		p.work(rnd)
		p.kill()
		p.l.Close(closed(t))
		mustKnow(t, p.left, known)
		dir = p.left
	}
	c.mu.Lock()
	c.before, c.after = nil, nil
	c.mu.Unlock()
	l := mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 2 * time.Millisecond})
	waitCounted(t, l)
	mustClose(t, l)
	mustKnow(t, dir, known)
	var want, got reqlog.Spend
	for _, s := range known {
		want.Add(s)
	}
	for s := range maps.Values(c.sums()) {
		got.Add(s)
	}
	if got != want || want.Unpriced == 0 || want.Cost == 0 {
		t.Errorf("counted %+v, want %+v of %d attempts", got, want, len(known))
	}
}

// work notes exchanges until the process is killed, some of which go on for long.
func (p *life) work(rnd *rand.Rand) {
	var open []reqlog.ID
	for range 400 {
		if p.dead.Load() {
			return
		}
		id := reqlog.NewID(time.Now())
		if p.l.RecordIntent(p.t.Context(), intent(id, 1)) != nil {
			continue
		}
		open = append(open, id)
		for len(open) > 0 && rnd.IntN(3) > 0 {
			i := rnd.IntN(len(open))
			s := settlement(open[i], 1)
			p.l.RecordSettlement(s)
			p.l.Record(p.t.Context(), entry(open[i]))
			if !p.dead.Load() {
				var sum reqlog.Spend
				sum.AddSettlement(&s)
				p.done[fmt.Sprint(s.ID, s.Attempt)] = sum
			}
			open = append(open[:i], open[i+1:]...)
		}
		if rnd.IntN(10) == 0 {
			<-time.After(time.Millisecond)
		}
	}
}
