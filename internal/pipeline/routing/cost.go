package routing

import (
	"context"
	"math"

	"modelgate/api"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// costStrategy sends a request to the branch with the lowest estimated cost
// among the usable ones that offer the operation. Branches with an unknown
// price come last. It is an extension of the specification.
type costStrategy struct {
	picker
	tokens func(*exchange.Request) llm.Usage // a rough number
}

// Handle calls the cheapest branch.
func (c *costStrategy) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	list := c.usable(r, t)
	best, lowest := -1, catalog.NanoDollars(math.MaxInt64)
	for _, i := range list {
		cost, known, capable := c.branches[i].estimate(r, c.tokens)
		switch {
		case !capable:
			t.Decide(c.branches[i].path, "skipped: the provider does not offer the operation")
			continue
		case known:
			t.Decide(c.branches[i].path, "estimated at %d nano-dollars", cost)
		default:
			t.Decide(c.branches[i].path, "no price is known")
		}
		if best < 0 || cost < lowest {
			best, lowest = i, cost
		}
	}
	if best < 0 {
		best = list[0] // its error tells the client what is not offered
	}
	t.Decide(c.branches[best].path, "chosen by cost")
	return c.branches[best].Handle(ctx, r, t)
}

// estimate returns the lowest cost among the leaves of the branch. An unknown
// cost is the largest amount.
func (b *Branch) estimate(r *exchange.Request, tokens func(*exchange.Request) llm.Usage) (lowest catalog.NanoDollars, known, capable bool) {
	lowest = math.MaxInt64
	for _, i := range b.leaves {
		t := r.Leaves[i].Target
		if r.Leaves[i].Err != nil {
			continue
		}
		model := r.Leaves[i].Model
		if !offersOperation(t, r, model) {
			continue
		}
		capable = true
		p, ok := t.Price(r.Limiting.Prices, model, "", r.Time)
		if !ok {
			continue
		}
		u := tokens(r)
		if !p.Covers(u) {
			continue
		}
		known = true
		lowest = min(lowest, p.Cost(u, catalog.Standard))
	}
	return lowest, known, capable
}

// offersOperation reports whether the target offers the request's operation,
// directly or by translation.
func offersOperation(t *provider.Target, r *exchange.Request, model string) bool {
	if r.Operation == api.Proxy {
		return true
	}
	if r.Operation == r.Dialect.ConversationOperation() {
		return t.DialectFor(r.Dialect, model) != ""
	}
	_, ok := t.Path(r.Operation)
	return ok
}
