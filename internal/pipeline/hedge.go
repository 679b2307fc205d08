package pipeline

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"modelgate/config"
	"modelgate/internal/apierr"
)

// hedge starts a further branch when the one before it is slow to begin, and
// takes the first that succeeds. The others are cancelled and stay in the
// record. It is an extension of the specification, off unless a config asks.
type hedge struct {
	*config.Hedge
	limit int // of the attempts of an exchange
}

// usable reports whether the exchange may be sent more than once at a time.
func (h hedge) usable(x *Exchange) bool {
	return h.Hedge != nil && x.Upload == nil && x.DryRun == nil
}

// runner is one branch in the race.
type runner struct {
	b      *branch
	x      *Exchange // its own, joined with the client's when it has ended
	cancel context.CancelFunc
	res    *Response
	err    error

	attempts, decisions int // joined already
}

// race runs branches in the given order until one does not trigger.
func (h hedge) race(ctx context.Context, x *Exchange, order []*branch, codes func(*branch) []int) (*Response, error) {
	r := &raceState{ctx: ctx, x: x, order: order, limit: h.limit, ended: make(chan *runner, len(order))}
	slow := time.NewTimer(h.Delay)
	defer slow.Stop()
	r.start()
	further := 0 // started because others were slow
	for {
		select {
		case <-slow.C:
			if further < max(h.Max, 1) && r.more() && r.attemptLeft() {
				x.recordDecision(r.order[r.next].path, "no answer within %v, a further target is started", h.Delay)
				further++
				r.start()
				slow.Reset(h.Delay)
			}
		case one := <-r.ended:
			r.running = slices.DeleteFunc(r.running, func(o *runner) bool { return o == one })
			o := outcomeOf(one.res, one.err, time.Now())
			waits := o.spent && len(r.running) > 0 // an attempt that was begun may still serve
			if !waits && !o.triggersFallback(codes(one.b)) || len(r.running) == 0 && !r.more() {
				return r.won(one)
			}
			x.recordDecision(one.b.path, "ended in %d", o.status)
			one.close()
			r.join(one)
			if len(r.running) == 0 {
				r.start()
				slow.Reset(h.Delay)
			}
		}
	}
}

// raceState is a race under way. Only its own goroutine changes it; runners
// report through ended.
type raceState struct {
	ctx     context.Context
	x       *Exchange
	order   []*branch
	limit   int // of the attempts of the exchange
	next    int
	running []*runner
	ended   chan *runner
	wg      sync.WaitGroup
}

// more reports whether a further branch may be started.
func (r *raceState) more() bool { return r.next < len(r.order) && !r.x.overBudget() }

// attemptLeft reports whether a further branch could send anything. One that follows a
// failure is started without: it tells the client that no attempt is left.
func (r *raceState) attemptLeft() bool { return int(r.x.bill().attempts.Load()) < r.limit }

// start runs the next branch on a goroutine of its own, since two answers can't
// be awaited on one.
func (r *raceState) start() {
	ctx, cancel := context.WithCancel(r.ctx)
	one := &runner{b: r.order[r.next], x: r.x.fork(), cancel: cancel}
	r.next++
	r.running = append(r.running, one)
	r.wg.Go(func() {
		defer func() { r.ended <- one }()
		one.run(ctx)
	})
}

// run calls the branch. A panic becomes an error of the branch: nobody above it
// on this goroutine catches one.
func (one *runner) run(ctx context.Context) {
	defer func() {
		if v := recover(); v != nil {
			one.err = fmt.Errorf("panic of type %T: %s", v, debug.Stack())
		}
	}()
	one.res, one.err = one.b.Handle(ctx, one.x)
}

// won hands out the winner's answer. The losers are cancelled now and waited
// for when the answer is closed, so that the client does not wait for them and
// the record holds them all.
func (r *raceState) won(winner *runner) (*Response, error) {
	losers := r.running
	for _, l := range losers {
		l.cancel()
	}
	r.join(winner)
	r.x.UpstreamModel, r.x.Retries, r.x.Params = winner.x.UpstreamModel, winner.x.Retries, winner.x.Params
	for _, n := range winner.x.Notes {
		r.x.note(n)
	}
	e, w := r.x.Entry, winner.x.Entry
	e.Provider, e.Slug, e.OptionIndex, e.Prompt = w.Provider, w.Slug, w.OptionIndex, w.Prompt
	finish := func() {
		winner.cancel()
		r.wg.Wait()
		r.join(winner)
		for _, l := range losers {
			l.lose()
			l.close()
			r.join(l)
		}
	}
	if winner.res == nil {
		finish()
		return nil, winner.err
	}
	winner.res.after = append(winner.res.after, finish)
	return winner.res, winner.err
}

// join takes a runner's attempts and decisions into the client's exchange, as
// far as they were not taken yet: a race below it adds those of its losers when
// its answer is closed.
func (r *raceState) join(one *runner) {
	e := one.x.Entry
	r.x.Entry.Attempts = append(r.x.Entry.Attempts, e.Attempts[one.attempts:]...)
	r.x.Decisions = append(r.x.Decisions, one.x.Decisions[one.decisions:]...)
	one.attempts, one.decisions = len(e.Attempts), len(one.x.Decisions)
	r.x.UpstreamTime = max(r.x.UpstreamTime, one.x.UpstreamTime)
}

// lose marks the attempt that was given up because another was quicker. Those
// before it ended by themselves.
func (one *runner) lose() {
	n := len(one.x.Entry.Attempts)
	if n == 0 || one.err == nil || apierr.From(one.err).Kind != apierr.ClientGone {
		return
	}
	if last := &one.x.Entry.Attempts[n-1]; last.Status == 0 {
		last.Error = "cancelled: another target answered first"
	}
}

func (one *runner) close() {
	if one.res != nil {
		one.res.Close()
	}
	one.cancel()
}

// fork returns an exchange with the same request and a record of its own.
func (x *Exchange) fork() *Exchange {
	entry := *x.Entry
	entry.Attempts = nil
	return &Exchange{
		Entry:           &entry,
		Identity:        x.Identity,
		Key:             x.Key,
		Client:          x.Client,
		Dialect:         x.Dialect,
		Operation:       x.Operation,
		Method:          x.Method,
		Path:            x.Path,
		Query:           x.Query,
		EmptyQuery:      x.EmptyQuery,
		Header:          x.Header,
		Families:        x.Families,
		Body:            x.Body,
		Doc:             x.Doc,
		Length:          x.Length,
		Model:           x.Model,
		Edits:           slices.Clip(x.Edits),
		Stream:          x.Stream,
		Resolve:         x.Resolve,
		Prompt:          x.Prompt,
		PromptEdits:     x.PromptEdits,
		Ineligible:      x.Ineligible,
		Prices:          x.Prices,
		AttemptDeadline: x.AttemptDeadline,
		Explain:         x.Explain,
		hasFallback:     x.hasFallback,
		shared:          x.bill(),
		lookups:         lookups{work: x.lookups.work},
		span:            x.span,
		parent:          x.parent,
	}
}
