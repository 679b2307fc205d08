package routing

import (
	"math/rand/v2"

	"modelgate/config"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// Nodes makes the handlers of the nodes of one config.
type Nodes struct {
	State *State
	Key   string // of the config in State; see [Key]

	// AttemptLimit is the maximum number of attempts of one request.
	AttemptLimit int

	// Random returns a number in [0, 1) for draws and jitter. Nil means
	// math/rand/v2.
	Random func() float64

	// Tokens returns a rough number of the tokens of a request and its response,
	// for the strategy cost.
	Tokens func(*exchange.Request) llm.Usage
}

// Branch is a node as its parent sees it.
type Branch struct {
	exchange.Handler
	path     string
	name     string
	weight   float64
	codes    []int      // statuses on which a fallback leaves this branch; nil means the parent's
	breakers []*breaker // of the leaves below
	leaves   []int      // below it, as indexes in Request.Leaves
}

func newBranch(own *config.Config) Branch {
	b := Branch{path: own.Path, name: own.Name, weight: 1, codes: own.OnStatusCodes}
	if own.Weight != nil {
		b.weight = *own.Weight
	}
	return b
}

// Leaf returns a leaf whose handler is next with retries and a circuit breaker around
// it. own are its settings, effective those with what it inherits, and index is its
// place in Request.Leaves.
func (n *Nodes) Leaf(own, effective *config.Config, index int, next exchange.Handler) Branch {
	out := newBranch(own)
	out.leaves = []int{index}
	g := n.State.breaker(n.Key, own.Path, effective.Breaker)
	out.breakers = []*breaker{g}
	out.Handler = &breakerHandler{breaker: g, path: own.Path, next: newRetry(effective, n.random(), g, next)}
	return out
}

// Strategy returns a node that passes requests to its branches.
func (n *Nodes) Strategy(own, effective *config.Config, branches []Branch) Branch {
	out := newBranch(own)
	for i := range branches {
		if own.Strategy.Mode == config.Single && i > 0 {
			break // it is never called, so its state does not matter to the node
		}
		out.breakers = append(out.breakers, branches[i].breakers...)
		out.leaves = append(out.leaves, branches[i].leaves...)
	}
	out.Handler = n.strategy(effective, branches)
	if own.Strategy.Mode == config.Fallback {
		out.codes = nil // its own list is for its children
	}
	return out
}

func (n *Nodes) strategy(c *config.Config, branches []Branch) exchange.Handler {
	pick := picker{path: c.Path, branches: branches}
	switch c.Strategy.Mode {
	case config.Fallback:
		return &fallbackStrategy{picker: pick, hedge: hedge{c.Hedge, n.AttemptLimit}, codes: FallbackCodes(c), resumes: ContinuesStreams(c)}
	case config.Loadbalance:
		return &loadBalance{picker: pick, hedge: hedge{c.Hedge, n.AttemptLimit}, random: n.random(), sticky: n.sticky(c)}
	case config.Conditional:
		return newConditional(pick, c.Strategy)
	case config.Latency:
		return &latencyStrategy{picker: pick, random: n.random(), speeds: n.State.speeds(n.Key, c.Path, len(branches))}
	case config.Cost:
		return &costStrategy{picker: pick, tokens: n.Tokens}
	}
	return branches[0].Handler // single: the first target
}

func (n *Nodes) random() func() float64 {
	if n.Random != nil {
		return n.Random
	}
	return rand.Float64
}

// FallbackCodes returns the statuses on which a fallback leaves its targets:
// those of the strategy, otherwise those of the node. Nil means every status
// except success.
func FallbackCodes(c *config.Config) []int {
	if c.Strategy.OnStatusCodes != nil {
		return c.Strategy.OnStatusCodes
	}
	return c.OnStatusCodes
}

// ContinuesStreams reports whether later targets of a fallback may continue a broken
// stream.
func ContinuesStreams(c *config.Config) bool {
	return c.StreamContinuation != nil && *c.StreamContinuation
}
