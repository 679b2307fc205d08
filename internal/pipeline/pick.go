package pipeline

import (
	"context"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/apierr"
)

// picker is what strategies share: their branches and which of them are fit.
type picker struct {
	path     string
	branches []branch
}

// ready reports whether any leaf below the branch may be used.
func (b *branch) ready(now time.Time) bool {
	return slices.ContainsFunc(b.breakers, func(g *breaker) bool { return g.ready(now) })
}

// canServe reports whether any leaf below the branch can serve the request.
func (b *branch) canServe(r *Request) bool {
	return len(r.Leaves) == 0 || slices.ContainsFunc(b.leaves, func(l leaf) bool {
		err := r.Leaves[l.index].Err
		return err == nil || apierr.From(err).Code != CodeModelRefused
	})
}

// usable returns the indexes of branches that may be used. When none is, it is
// the one that went out of use first, so that it gets probed; it is the first
// where none suits the request.
func (p *picker) usable(r *Request, t *Trail) []int {
	now := time.Now()
	list := make([]int, 0, len(p.branches))
	first := -1
	for i := range p.branches {
		b := &p.branches[i]
		switch {
		case !b.canServe(r):
			t.decide(b.path, "skipped: the model is not enabled there")
			continue
		case b.ready(now):
			list = append(list, i)
			continue
		}
		t.decide(b.path, "skipped: circuit open or parked")
		if first < 0 || b.since(now).Before(p.branches[first].since(now)) {
			first = i
		}
	}
	switch {
	case len(list) > 0 || len(p.branches) == 0:
		return list
	case first < 0:
		return []int{0} // it tells the client why
	}
	t.decide(p.branches[first].path, "all targets are out of use; this one for the longest time")
	return []int{first}
}

func (b *branch) since(now time.Time) time.Time {
	var first time.Time
	for i, g := range b.breakers {
		if t := g.outSince(now); i == 0 || t.Before(first) {
			first = t
		}
	}
	return first
}

// ordered returns the branches of these indexes.
func (p *picker) ordered(list []int) []*branch {
	out := make([]*branch, len(list))
	for n, i := range list {
		out[n] = &p.branches[i]
	}
	return out
}

// callOne calls one of the branches in list, which choose picks. When a gate lets
// nothing out, since another request probes there, it goes on with the others.
func (p *picker) callOne(list []int, choose func([]int) int, call func(int) (*Response, error)) (*Response, error) {
	for {
		i := choose(list)
		res, err := call(i)
		if len(list) == 1 || !rejectedByBreaker(err) {
			return res, err
		}
		list = slices.DeleteFunc(list, func(n int) bool { return n == i })
	}
}

// fallbackStrategy tries its branches in order until one ends in an outcome that
// triggers nothing. The last one tried is the answer.
type fallbackStrategy struct {
	picker
	hedge hedge
	codes []int // nil: every outcome that is no success
	// resumes lets later branches go on with a stream that broke.
	resumes bool
}

// Handle tries the branches that are fit.
func (f *fallbackStrategy) Handle(ctx context.Context, r *Request, t *Trail) (*Response, error) {
	list := f.usable(r, t)
	if f.hedge.usable(r) && len(list) > 1 {
		return f.hedge.race(ctx, r, t, f.ordered(list), f.codesOf)
	}
	further := t.hasFallback
	defer func() { t.hasFallback = further }()
	for n, i := range list {
		b := &f.branches[i]
		last := n == len(list)-1
		t.hasFallback = further || !last && rateLimited.triggersFallback(f.codesOf(b))
		res, err := b.Handle(ctx, r, t)
		o := outcomeOf(res, err, time.Now())
		f.continued(ctx, r, t, res, list[n+1:])
		if last || !o.triggersFallback(f.codesOf(b)) || r.bodyConsumed() || r.pastDeadline(0) {
			return res, err
		}
		t.decide(b.path, "ended in %d, falling back", o.status)
		if res != nil {
			res.Close()
		}
	}
	return nil, apierr.From(errNoTarget)
}

// rateLimited is the outcome for which a leaf does not wait when another target
// can serve now.
var rateLimited = outcome{status: http.StatusTooManyRequests}

func (f *fallbackStrategy) codesOf(b *branch) []int {
	if b.codes != nil {
		return b.codes
	}
	return f.codes
}
