package pipeline

import (
	"cmp"
	"context"
	"math"

	"modelgate/api"
	"modelgate/internal/catalog"
	"modelgate/internal/llm"
	"modelgate/internal/provider"
)

// assumedOutput is the length of an answer whose bound the request does not
// give, in tokens. It only weighs the price of output against that of input.
const assumedOutput = 500

// costStrategy sends a request to the branch with the lowest estimated cost
// among those that are fit and offer the operation. A price that is unknown
// comes after all that are. It is an extension of the specification.
type costStrategy struct {
	picker
}

// Handle calls the cheapest branch.
func (c *costStrategy) Handle(ctx context.Context, r *Request, t *Trail) (*Response, error) {
	list := c.usable(r, t)
	best, lowest := -1, catalog.NanoDollars(math.MaxInt64)
	for _, i := range list {
		cost, known, capable := c.branches[i].estimate(r)
		switch {
		case !capable:
			t.decide(c.branches[i].path, "skipped: the provider does not offer the operation")
			continue
		case known:
			t.decide(c.branches[i].path, "estimated at %d nano-dollars", cost)
		default:
			t.decide(c.branches[i].path, "no price is known")
		}
		if best < 0 || cost < lowest {
			best, lowest = i, cost
		}
	}
	if best < 0 {
		best = list[0] // it tells the client what is not offered
	}
	t.decide(c.branches[best].path, "chosen by cost")
	return c.branches[best].Handle(ctx, r, t)
}

// estimate returns the lowest cost among the leaves below the branch. An
// unknown one is the largest amount there is.
func (b *branch) estimate(r *Request) (lowest catalog.NanoDollars, known, capable bool) {
	lowest = math.MaxInt64
	for _, l := range b.leaves {
		t := r.Leaves[l.index].Target
		if r.Leaves[l.index].Err != nil {
			continue
		}
		model := cmp.Or(l.model, r.Model)
		if !offersOperation(t, r, model) {
			continue
		}
		capable = true
		p, ok := t.Price(r.Prices, model, "", r.Time)
		if !ok {
			continue
		}
		known = true
		lowest = min(lowest, p.Cost(r.EstimateTokens(), catalog.Standard))
	}
	return lowest, known, capable
}

// offersOperation reports whether the target offers what the request asks for, itself
// or by translation.
func offersOperation(t *provider.Target, r *Request, model string) bool {
	if r.Operation == api.Proxy {
		return true
	}
	if r.Operation == r.Dialect.ConversationOperation() {
		return t.DialectFor(r.Dialect, model) != ""
	}
	_, ok := t.Path(r.Operation)
	return ok
}

// EstimateTokens returns a rough count of the tokens of the request: one for four
// bytes of its body, and as many out as it allows.
func (r *Request) EstimateTokens() llm.Usage {
	u := llm.Usage{Output: assumedOutput}
	if r.Body != nil {
		u.Input = int64(r.Body.Len()+3) / 4
	}
	if r.Doc == nil {
		return u
	}
	for _, b := range bounds {
		v, ok := r.Doc.Find(b.name)
		if ok && b.inside != "" {
			v, ok = v.Get(b.inside)
		}
		if n, is := v.Int(); ok && is && n > 0 {
			u.Output = n
			return u
		}
	}
	return u
}

// bounds are what the dialects call the limit of an answer, and where it stands.
var bounds = [...]struct{ name, inside string }{
	{"max_completion_tokens", ""},
	{"max_tokens", ""},
	{"max_output_tokens", ""},
	{"generationConfig", "maxOutputTokens"},
	{"inferenceConfig", "maxTokens"},
}
