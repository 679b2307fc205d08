package pipeline

import (
	"cmp"
	"context"
	"math"
	"strconv"

	"modelgate/api"
	"modelgate/internal/catalog"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
	"modelgate/internal/provider"
)

// assumedOutput is the number of output tokens assumed for a request without a
// limit. It only weighs the price of output against the price of input.
const assumedOutput = 500

// costStrategy sends a request to the branch with the lowest estimated cost
// among the usable ones that offer the operation. Branches with an unknown
// price come last. It is an extension of the specification.
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
		best = list[0] // its error tells the client what is not offered
	}
	t.decide(c.branches[best].path, "chosen by cost")
	return c.branches[best].Handle(ctx, r, t)
}

// estimate returns the lowest cost among the leaves of the branch. An unknown
// cost is the largest amount.
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
		u := r.EstimateTokens()
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

// EstimateTokens returns a rough number of the tokens of the request: one input
// token for four bytes of its body, and the requested limit of output tokens.
func (r *Request) EstimateTokens() llm.Usage {
	u := llm.Usage{Output: assumedOutput}
	if writesNothing(r.Operation) {
		u.Output = 0
	}
	if r.Body != nil {
		u.Input = estimateTokens(r.Body.Len())
	}
	if n := outputLimit(r.Doc); n > 0 {
		u.Output = n
	}
	return u
}

// outputLimit returns the largest limit of output tokens that a body sets: which of
// several a provider respects is unknown. Zero means none.
func outputLimit(doc *jsonedit.Doc) int64 { return largestOf(doc, bounds[:], maxOutputLimit) }

// responsesOf returns the number of responses that a body asks for.
func responsesOf(doc *jsonedit.Doc) int64 { return max(largestOf(doc, counts[:], maxResponses), 1) }

// promptsOf returns the number of prompts in a body of a completion, each of which gets
// its own responses: the elements of a list of strings or of lists of tokens.
func promptsOf(op api.Operation, doc *jsonedit.Doc) (n int64) {
	if op != api.Completions || doc == nil {
		return 1
	}
	v, _ := doc.Find("prompt")
	for e := range v.Elements() {
		if e.Kind() == jsonedit.Number { // one prompt of tokens
			return 1
		}
		n++
	}
	return min(max(n, 1), maxPrompts)
}

// Bounds of what a body may claim, so that products do not overflow.
const (
	maxOutputLimit = 1 << 32
	maxResponses   = 128 // Limits of the specification
	maxPrompts     = 1 << 20
	maxOutput      = maxOutputLimit * maxResponses // of a request
)

// largestOf returns the largest number at places in a body, at most most.
func largestOf(doc *jsonedit.Doc, places []place, most int64) (largest int64) {
	if doc == nil {
		return 0
	}
	for _, p := range places {
		v, ok := doc.Find(p.name)
		if ok && p.inside != "" {
			v, ok = v.Get(p.inside)
		}
		if !ok {
			continue
		}
		n, is := v.Int()
		if text, quoted := v.Text(); quoted && p.inside != "" { // as Google's APIs accept numbers
			parsed, err := strconv.ParseInt(text, 10, 64)
			n, is = parsed, err == nil
		}
		if is {
			largest = max(largest, min(n, most))
		}
	}
	return largest
}

// place is where a body has a number.
type place struct{ name, inside string }

// bounds are the names and places of the token limit in the dialects.
var bounds = [...]place{
	{"max_completion_tokens", ""},
	{"max_tokens", ""},
	{"max_output_tokens", ""},
	{"generationConfig", "maxOutputTokens"},
	{"generationConfig", "max_output_tokens"}, // both spellings are accepted by Google's APIs
	{"generation_config", "maxOutputTokens"},
	{"generation_config", "max_output_tokens"},
	{"inferenceConfig", "maxTokens"},
	{"additionalModelRequestFields", "max_tokens"},
	{"options", "num_predict"}, // of Ollama's own API
}

// counts are the names and places of the number of responses in the dialects.
var counts = [...]place{
	{"n", ""},
	{"best_of", ""},
	{"generationConfig", "candidateCount"},
	{"generationConfig", "candidate_count"},
	{"generation_config", "candidateCount"},
	{"generation_config", "candidate_count"},
}
