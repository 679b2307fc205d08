package routing

import (
	"context"
	"math"
	"sync"
	"time"

	"modelgate/internal/pipeline/exchange"
)

// latencyStrategy draws two branches at random and calls the quicker one. It
// compares the moving average of the time to response headers, multiplied by
// the number of open requests. The average rises at once and falls slowly, so
// that a slow branch is avoided while it is slow and found again later.
type latencyStrategy struct {
	picker
	random func() float64 // in [0, 1)
	speeds *speeds
}

// decay is the time in which an old measurement loses most of its weight.
const decay = 10 * time.Second

// Handle calls the better of two branches.
func (f *latencyStrategy) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	return f.callOne(f.usable(r, t), f.choose, func(i int) (*exchange.Response, error) {
		t.Decide(f.branches[i].path, "chosen by latency")
		if r.DryRun {
			return f.branches[i].Handle(ctx, r, t)
		}
		return f.timed(ctx, r, t, i)
	})
}

// timed calls a branch and measures the time.
func (f *latencyStrategy) timed(ctx context.Context, r *exchange.Request, t *exchange.Trail, i int) (*exchange.Response, error) {
	began := time.Now()
	f.speeds.start(i)
	defer f.speeds.leave(i)
	res, err := f.branches[i].Handle(ctx, r, t)
	now := time.Now()
	took := now.Sub(began)
	switch o := outcomeOf(res, err, now); {
	case o.breakerRejected:
		// The branch was not called.
	case o.isFinal():
		f.speeds.atLeast(i, took, now) // unknown how long it would have taken
	case o.success():
		f.speeds.measure(i, took, now)
	default:
		f.speeds.measure(i, max(took, time.Second), now) // a quick error does not mean a quick branch
	}
	return res, err
}

func (f *latencyStrategy) choose(list []int) int {
	if len(list) == 1 {
		return list[0]
	}
	a := int(f.random() * float64(len(list)))
	b := int(f.random() * float64(len(list)-1))
	if b >= a {
		b++
	}
	return f.speeds.better(list[a], list[b], time.Now())
}

// speeds holds the measurements of a node's branches.
type speeds struct {
	mu sync.Mutex
	of []speed // guarded by mu
}

type speed struct {
	average time.Duration
	at      time.Time
	open    int
}

func (s *speeds) start(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[i].open++
}

func (s *speeds) leave(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[i].open--
}

// atLeast records a response that was not waited for.
func (s *speeds) atLeast(i int, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := &s.of[i]; took > v.now(now) {
		v.average, v.at = took, now
	}
}

func (s *speeds) measure(i int, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.of[i]
	if old := v.now(now); took < old {
		w := math.Exp(-float64(now.Sub(v.at)) / float64(decay))
		took = time.Duration(w*float64(old) + (1-w)*float64(took))
	}
	v.average, v.at = took, now
}

// now returns the average at t. Old measurements lose weight.
func (v *speed) now(t time.Time) time.Duration {
	if v.at.IsZero() {
		return 0
	}
	return time.Duration(float64(v.average) * math.Exp(-float64(t.Sub(v.at))/float64(10*decay)))
}

func (s *speeds) better(a, b int, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	cost := func(i int) float64 { return float64(s.of[i].now(now)+time.Millisecond) * float64(s.of[i].open+1) }
	if cost(b) < cost(a) {
		return b
	}
	return a
}
