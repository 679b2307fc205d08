package pipeline

import (
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

// costStrategy sends an exchange to the branch with the lowest estimated cost
// among those that are fit and offer the operation. A price that is unknown
// comes after all that are. It is an extension of the specification.
type costStrategy struct {
	picker
}

// Handle calls the cheapest branch.
func (c *costStrategy) Handle(ctx context.Context, x *Exchange) (*Response, error) {
	list := c.usable(x)
	best, lowest := -1, catalog.NanoDollars(math.MaxInt64)
	for _, i := range list {
		cost, known, capable := c.branches[i].estimate(x)
		switch {
		case !capable:
			x.recordDecision(c.branches[i].path, "skipped: the provider does not offer the operation")
			continue
		case known:
			x.recordDecision(c.branches[i].path, "estimated at %d nano-dollars", cost)
		default:
			x.recordDecision(c.branches[i].path, "no price is known")
		}
		if best < 0 || cost < lowest {
			best, lowest = i, cost
		}
	}
	if best < 0 {
		best = list[0] // it tells the client what is not offered
	}
	x.recordDecision(c.branches[best].path, "chosen by cost")
	return c.branches[best].Handle(ctx, x)
}

// estimate returns the lowest cost among the leaves below the branch. An
// unknown one is the largest amount there is.
func (b *branch) estimate(x *Exchange) (lowest catalog.NanoDollars, known, capable bool) {
	lowest = math.MaxInt64
	for _, l := range b.leaves {
		t, err := x.Resolve(l)
		if err != nil {
			continue
		}
		model := x.Model
		if m, ok := l.OverrideParams.Text("model"); ok {
			model = m
		}
		if !offersOperation(t, x, model) {
			continue
		}
		capable = true
		p, ok := t.Price(x.Prices, model, "", x.Entry.Time)
		if !ok {
			continue
		}
		known = true
		lowest = min(lowest, p.Cost(x.Tokens(), catalog.Standard))
	}
	return lowest, known, capable
}

// offersOperation reports whether the target offers what the exchange asks for, itself
// or by translation.
func offersOperation(t *provider.Target, x *Exchange, model string) bool {
	if x.Operation == api.Proxy {
		return true
	}
	if x.Operation == x.Dialect.ConversationOperation() {
		return t.DialectFor(x.Dialect, model) != ""
	}
	_, ok := t.Path(x.Operation)
	return ok
}

// Tokens is a rough count of what the request takes: four bytes of its body a
// token, and as many out as it allows.
func (x *Exchange) Tokens() llm.Usage {
	u := llm.Usage{Output: assumedOutput}
	if x.Body != nil {
		u.Input = int64(x.Body.Len()+3) / 4
	}
	if x.Doc == nil {
		return u
	}
	for _, b := range bounds {
		v, ok := x.Doc.Find(b.name)
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
