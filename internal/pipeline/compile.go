package pipeline

import (
	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

// Compiler compiles configs to handlers. It is safe for concurrent use.
type Compiler struct {
	Engine *Engine
	State  *State

	// Guardrails compiles the hooks of configs. Nil ignores them.
	Guardrails *guardrail.Table

	// Cache stores responses. Nil stores none: configs with a cache are announced
	// as ignored.
	Cache *ResponseCache

	// Call returns the handler that replaces the TargetHandler of a leaf with
	// these effective settings, for simulations. Nil means that providers are
	// called.
	Call func(leaf *config.Config) exchange.Handler
}

// Tree is a compiled config: a handler per node.
type Tree struct {
	exchange.Handler
	// Leaves are the effective settings of the leaves, in the order of the
	// config.
	Leaves []*config.Config
	// Guards are the hooks of the leaves; nil for a leaf without any.
	Guards []*GuardList
	// Embedders are the models that embed turns for the caches of leaves; see
	// Request.Embedders.
	Embedders []*config.Embedding

	root      *config.Config
	effective map[string]*config.Config // every node with its inherited settings, by path
}

// Compile returns the tree of root, which config.Parse has accepted. Trees with
// the same key share the state that requests write; [Key] returns the key of a
// config that is the only input.
func (c *Compiler) Compile(root *config.Config, key string) *Tree {
	b := build{Compiler: c, key: key, tree: &Tree{root: root, effective: make(map[string]*config.Config)}}
	b.tree.Handler = b.node(nil, root).Handler
	return b.tree
}

// build is one compilation.
type build struct {
	*Compiler
	key    string // key of the config in State
	tree   *Tree
	guards map[guardKey]*GuardList // compiled so far
}

// branch is a node as its parent sees it.
type branch struct {
	exchange.Handler
	path     string
	name     string
	weight   float64
	codes    []int      // statuses on which a fallback leaves this branch; nil means the parent's
	breakers []*breaker // of the leaves below
	leaves   []leaf     // below it
}

// leaf is a leaf as the strategies above it see it.
type leaf struct {
	index int    // in Tree.Leaves
	model string // overridden by its config; empty means the request's
}

// node compiles n below parent, whose settings are effective.
func (b *build) node(parent, n *config.Config) branch {
	eff := config.Inherit(parent, n)
	b.tree.effective[n.Path] = eff
	out := branch{path: n.Path, name: n.Name, weight: 1, codes: n.OnStatusCodes}
	if n.Weight != nil {
		out.weight = *n.Weight
	}
	if n.Strategy == nil {
		model, _ := eff.OverrideParams.Text("model")
		out.leaves = []leaf{{len(b.tree.Leaves), model}}
		out.Handler, out.breakers = b.leaf(eff)
		return out
	}
	var branches []branch
	for i, t := range n.Targets {
		child := b.node(eff, t)
		branches = append(branches, child)
		if n.Strategy.Mode == config.Single && i > 0 {
			continue // it is never called, so its state does not matter to the node
		}
		out.breakers = append(out.breakers, child.breakers...)
		out.leaves = append(out.leaves, child.leaves...)
	}
	out.Handler = b.strategy(eff, branches)
	if n.Strategy.Mode == config.Fallback {
		out.codes = nil // its own list is for its children
	}
	return out
}

func (b *build) strategy(n *config.Config, branches []branch) exchange.Handler {
	pick := picker{path: n.Path, branches: branches}
	switch n.Strategy.Mode {
	case config.Fallback:
		return &fallbackStrategy{picker: pick, hedge: hedge{n.Hedge, b.Engine.Bounds.AttemptLimit()}, codes: fallbackCodes(n), resumes: continues(n)}
	case config.Loadbalance:
		return &loadBalance{picker: pick, hedge: hedge{n.Hedge, b.Engine.Bounds.AttemptLimit()}, engine: b.Engine, sticky: b.sticky(n)}
	case config.Conditional:
		return newConditional(pick, n.Strategy)
	case config.Latency:
		return &latencyStrategy{picker: pick, engine: b.Engine, speeds: b.State.speeds(b.key, n.Path, len(branches))}
	case config.Cost:
		return &costStrategy{picker: pick}
	}
	return branches[0].Handler // single: the first target
}

// fallbackCodes returns the statuses on which a fallback leaves its targets:
// those of the strategy, otherwise those of the node. Nil means every status
// except success.
func fallbackCodes(n *config.Config) []int {
	if n.Strategy.OnStatusCodes != nil {
		return n.Strategy.OnStatusCodes
	}
	return n.OnStatusCodes
}

func continues(n *config.Config) bool { return n.StreamContinuation != nil && *n.StreamContinuation }

// leaf compiles the handlers of one target, from the inside out: the call, the
// checks of its response, retries around both, so that a denied response may be
// retried, the circuit breaker, and the checks of the request, which are not
// repeated.
func (b *build) leaf(n *config.Config) (exchange.Handler, []*breaker) {
	b.tree.Leaves = append(b.tree.Leaves, n)
	b.tree.Guards = append(b.tree.Guards, b.guardList(n))
	index := len(b.tree.Leaves) - 1
	g := b.State.breaker(b.key, n.Path, n.Breaker)
	target := b.call(n)
	var h exchange.Handler = &breakerHandler{breaker: g, path: n.Path, next: newRetry(n, b.Engine, g, b.guardResponse(n, index, target))}
	h = b.cached(n, h)
	if names := b.ignoredProperties(n); len(names) > 0 {
		h = noticeHandler{names, h}
	}
	if b.Call == nil {
		guard := &requestGuard{bounds: &b.Engine.Bounds, path: n.Path, leaf: index, next: h}
		if p := &target.(*TargetHandler).params; !p.isEmpty() {
			guard.params, guard.text = p, p.changesText()
		}
		h = guard
	}
	return h, []*breaker{g}
}

// guardResponse adds the checks of responses to the call of a leaf.
func (b *build) guardResponse(n *config.Config, index int, call exchange.Handler) exchange.Handler {
	if b.Call != nil {
		return call
	}
	return &responseGuard{bounds: &b.Engine.Bounds, path: n.Path, leaf: index, next: call}
}

func (b *build) call(n *config.Config) exchange.Handler {
	if b.Call != nil {
		return b.Call(n)
	}
	return &TargetHandler{
		Engine:  b.Engine,
		Path:    n.Path,
		leaf:    len(b.tree.Leaves) - 1,
		Timeout: n.RequestTimeout,
		Forward: n.ForwardHeaders,
		params:  paramsOf(n),

		Lenient:       n.Strict != nil && !*n.Strict,
		OnUnsupported: n.OnUnsupported,
		PromptCache:   n.PromptCache != nil && *n.PromptCache,
		ResponseModel: n.ResponseModel,
	}
}

// cached wraps next, the handler of the latest leaf, in the cache if its config
// asks for it.
func (b *build) cached(n *config.Config, next exchange.Handler) exchange.Handler {
	if n.Cache == nil || b.Cache == nil {
		return next
	}
	model, _ := n.OverrideParams.Text("model")
	h := &cacheHandler{
		embedding: len(b.tree.Embedders),
		cache:     b.Cache, bounds: &b.Engine.Bounds, path: n.Path, leaf: len(b.tree.Leaves) - 1, model: model,
		settings: leafKey(n), forward: n.ForwardHeaders, timeout: n.RequestTimeout, options: *n.Cache, next: next,
	}
	if e := n.Cache.Embedding; e != nil && n.Cache.Mode == config.CacheSemantic {
		b.tree.Embedders = append(b.tree.Embedders, e)
		h.embed = &TargetHandler{Engine: b.Engine, Path: n.Path + ".cache.embedding", Timeout: embedTimeout}
	}
	return h
}
