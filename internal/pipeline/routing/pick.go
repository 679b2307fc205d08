package routing

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// picker holds the branches of a strategy and picks usable ones.
type picker struct {
	path     string
	branches []Branch
}

// ready reports whether any leaf of the branch may be used.
func (b *Branch) ready(now time.Time) bool {
	return slices.ContainsFunc(b.breakers, func(g *breaker) bool { return g.ready(now) })
}

// canServe reports whether any leaf of the branch can serve the request.
func (b *Branch) canServe(r *exchange.Request) bool {
	return len(r.Leaves) == 0 || slices.ContainsFunc(b.leaves, func(i int) bool {
		err := r.Leaves[i].Err
		return err == nil || apierr.From(err).Code != provider.CodeModelRefused
	})
}

// usable returns the indexes of branches that may be used. If there are none,
// it returns the one that has been unavailable longest, so that it is probed,
// or the first branch if none can serve the request.
func (p *picker) usable(r *exchange.Request, t *exchange.Trail) []int {
	now := time.Now()
	list := make([]int, 0, len(p.branches))
	first := -1
	for i := range p.branches {
		b := &p.branches[i]
		switch {
		case !b.canServe(r):
			t.Decide(b.path, "skipped: the model is not enabled there")
			continue
		case b.ready(now):
			list = append(list, i)
			continue
		}
		t.Decide(b.path, "skipped: circuit open or parked")
		if first < 0 || b.since(now).Before(p.branches[first].since(now)) {
			first = i
		}
	}
	switch {
	case len(list) > 0 || len(p.branches) == 0:
		return list
	case first < 0:
		return []int{0} // its error tells the client why
	}
	t.Decide(p.branches[first].path, "all targets are unavailable; this one for the longest time")
	return []int{first}
}

func (b *Branch) since(now time.Time) time.Time {
	var first time.Time
	for i, g := range b.breakers {
		if t := g.outSince(now); i == 0 || t.Before(first) {
			first = t
		}
	}
	return first
}

// ordered returns the branches of these indexes.
func (p *picker) ordered(list []int) []*Branch {
	out := make([]*Branch, len(list))
	for n, i := range list {
		out[n] = &p.branches[i]
	}
	return out
}

// callOne calls one of the branches in list, picked by choose. If a breaker
// rejects the attempt, since another request probes the target, it continues
// with the others.
func (p *picker) callOne(list []int, choose func([]int) int, call func(int) (*exchange.Response, error)) (*exchange.Response, error) {
	for {
		i := choose(list)
		res, err := call(i)
		if len(list) == 1 || !rejectedByBreaker(err) {
			return res, err
		}
		list = slices.DeleteFunc(list, func(n int) bool { return n == i })
	}
}

// fallbackStrategy tries its branches in order until the outcome of one
// triggers no fallback. The last outcome is the response.
type fallbackStrategy struct {
	picker
	hedge hedge
	codes []int // nil: every outcome except success
	// resumes allows later branches to continue a broken stream.
	resumes bool
}

// Handle tries the usable branches.
func (f *fallbackStrategy) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	list := f.usable(r, t)
	if f.hedge.usable(r) && len(list) > 1 {
		return f.hedge.race(ctx, r, t, f.ordered(list), f.codesOf)
	}
	further, follows, offer := t.HasFallback, t.MoreFollows, t.Continuer
	defer func() { t.HasFallback, t.MoreFollows, t.Continuer = further, follows, offer }()
	for n, i := range list {
		b := &f.branches[i]
		last := n == len(list)-1
		t.MoreFollows = follows || !last
		t.HasFallback = further || !last && rateLimited.triggersFallback(f.codesOf(b))
		t.Continuer = cmp.Or(f.continuation(ctx, r, list[n+1:]), offer)
		res, err := b.Handle(ctx, r, t)
		o := outcomeOf(res, err, time.Now())
		if last || !o.triggersFallback(f.codesOf(b)) || r.BodyConsumed() || r.PastDeadline(0) {
			return res, err
		}
		t.Decide(b.path, "ended in %d, falling back", o.status)
		if res != nil {
			res.Close()
		}
	}
	return nil, apierr.From(errNoTarget)
}

// rateLimited is the outcome for which a target is not retried if another
// target can serve now.
var rateLimited = outcome{status: http.StatusTooManyRequests}

func (f *fallbackStrategy) codesOf(b *Branch) []int {
	if b.codes != nil {
		return b.codes
	}
	return f.codes
}
