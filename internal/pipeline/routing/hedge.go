package routing

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
)

// hedge starts another branch if the previous one has no response after a
// delay, and uses the first success. The other branches are cancelled and stay
// in the record. It is an extension of the specification, disabled by default.
type hedge struct {
	*config.Hedge
	limit int // of the attempts of a request
}

// usable reports whether the request may be sent several times in parallel.
func (h hedge) usable(r *exchange.Request) bool {
	return h.Hedge != nil && r.Received.Upload == nil && !r.DryRun
}

// runner is one branch in the race.
type runner struct {
	b      *Branch
	trail  *exchange.Trail // its own; joined with the request's when it has ended
	only   chan struct{}   // its trail's OnlyBranch; nil once it is closed
	cancel context.CancelFunc
	res    *exchange.Response
	err    error
}

// race runs branches in the given order until the outcome of one does not
// trigger a fallback.
func (h hedge) race(ctx context.Context, r *exchange.Request, t *exchange.Trail, order []*Branch,
	codes func(*Branch) []int) (*exchange.Response, error) {
	s := &raceState{ctx: ctx, request: r, trail: t, order: order, limit: h.limit, ended: make(chan *runner, len(order))}
	slow := time.NewTimer(h.Delay)
	defer slow.Stop()
	s.start(0)
	further := 0 // branches started because others were slow
	outer := t.OnlyBranch
	for {
		if outer == nil && len(s.running) == 1 && !s.more() {
			s.running[0].announceOnly()
		}
		select {
		case <-outer:
			outer = nil
		case <-slow.C:
			if further < max(h.Max, 1) && s.more() && s.attemptLeft() {
				t.Decide(s.order[s.next].path, "no response within %v, another target is started", h.Delay)
				further++
				s.start(h.Delay)
				slow.Reset(h.Delay)
			}
		case one := <-s.ended:
			s.running = slices.DeleteFunc(s.running, func(o *runner) bool { return o == one })
			o := outcomeOf(one.res, one.err, time.Now())
			waits := o.spent && len(s.running) > 0 // an attempt in progress may still succeed
			if !waits && !o.triggersFallback(codes(one.b)) || len(s.running) == 0 && !s.more() {
				return s.won(one)
			}
			t.Decide(one.b.path, "ended in %d", o.status)
			one.close()
			s.trail.Join(one.trail)
			if len(s.running) == 0 {
				s.start(0)
				slow.Reset(h.Delay)
			}
		}
	}
}

// raceState is a race in progress. Only its own goroutine changes it; runners
// report through ended.
type raceState struct {
	ctx     context.Context
	request *exchange.Request
	trail   *exchange.Trail
	order   []*Branch
	limit   int // of the attempts of the request
	next    int
	waited  time.Duration // for providers, when the last branch was started
	running []*runner
	ended   chan *runner
	wg      sync.WaitGroup
}

// more reports whether another branch may be started.
func (s *raceState) more() bool { return s.next < len(s.order) && !s.request.PastDeadline(0) }

// attemptLeft reports whether another branch could send anything. After a
// failure the next branch is started anyway: its error tells the client that no
// attempt is left.
func (s *raceState) attemptLeft() bool { return int(s.trail.Bill().Attempts.Load()) < s.limit }

// start runs the next branch in a goroutine, since one goroutine cannot wait
// for two responses. The gateway has waited since the start of the one before it.
func (s *raceState) start(wait time.Duration) {
	ctx, cancel := context.WithCancel(s.ctx)
	one := &runner{b: s.order[s.next], trail: s.trail.Child(), only: make(chan struct{}), cancel: cancel}
	s.waited = max(s.trail.UpstreamTime, s.waited+wait)
	one.trail.UpstreamTime, one.trail.OnlyBranch = s.waited, one.only
	s.next++
	s.running = append(s.running, one)
	s.wg.Go(func() {
		defer func() { s.ended <- one }()
		one.run(ctx, s.request)
	})
}

// announceOnly signals the branch that no other is left. Only the goroutine of the
// race calls it.
func (one *runner) announceOnly() {
	if one.only != nil {
		close(one.only)
		one.only = nil
	}
}

// run calls the branch. A panic becomes an error of the branch, since no caller
// in this goroutine recovers it.
func (one *runner) run(ctx context.Context, r *exchange.Request) {
	defer func() {
		if v := recover(); v != nil {
			one.err = fmt.Errorf("panic of type %T: %s", v, debug.Stack())
		}
	}()
	one.res, one.err = one.b.Handle(ctx, r, one.trail)
}

// won returns the winner's response. The losers are cancelled now, but waited
// for when the response is closed, so that the client does not wait for them
// and the record contains them all.
func (s *raceState) won(winner *runner) (*exchange.Response, error) {
	losers := s.running
	for _, l := range losers {
		l.cancel()
	}
	s.trail.Follow(winner.trail)
	finish := func() {
		winner.cancel()
		s.wg.Wait()
		s.trail.Follow(winner.trail)
		for _, l := range losers {
			l.lose()
			l.close()
			s.trail.Join(l.trail)
		}
	}
	if winner.res == nil {
		finish()
		return nil, winner.err
	}
	winner.res.After = append(winner.res.After, finish)
	return winner.res, winner.err
}

// lose marks the last attempt as cancelled because another was quicker. Earlier
// ones ended by themselves.
func (one *runner) lose() {
	n := len(one.trail.Attempts)
	if n == 0 || one.err == nil || apierr.From(one.err).Kind != apierr.ClientGone {
		return
	}
	if last := &one.trail.Attempts[n-1].Record; last.Status == 0 {
		last.Error = "cancelled: another target responded first"
	}
}

func (one *runner) close() {
	if one.res != nil {
		one.res.Close()
	}
	one.cancel()
}
