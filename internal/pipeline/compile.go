package pipeline

import (
	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/caching"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/guarding"
	"modelgate/internal/pipeline/routing"
)

// Compiler compiles configs to handlers. It is safe for concurrent use.
type Compiler struct {
	Engine *attempt.Engine
	State  *routing.State

	// Guardrails compiles the hooks of configs. Nil ignores them.
	Guardrails *guardrail.Table

	// Cache stores responses. Nil stores none: configs with a cache are announced
	// as ignored.
	Cache *caching.Cache

	// Random returns a number in [0, 1) for draws and jitter. Nil means
	// math/rand/v2.
	Random func() float64

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
	Guards []*guarding.List
	// Embedders are the models that embed turns for the caches of leaves; see
	// Request.Embedders.
	Embedders []*config.Embedding

	root      *config.Config
	effective map[string]*config.Config // every node with its inherited settings, by path
}

// Compile returns the tree of root, which config.Parse has accepted. Trees with
// the same key share the state that requests write; [routing.Key] returns the key of a
// config that is the only input.
func (c *Compiler) Compile(root *config.Config, key string) *Tree {
	b := build{Compiler: c, guards: guarding.Lists{Table: c.Guardrails}, tree: &Tree{root: root, effective: make(map[string]*config.Config)},
		nodes: routing.Nodes{State: c.State, Key: key, AttemptLimit: c.bounds().AttemptLimit(), Random: c.Random, Tokens: attempt.EstimateTokens}}
	b.tree.Handler = b.node(nil, root).Handler
	return b.tree
}

// bounds returns those of requests, nil for trees without targets.
func (c *Compiler) bounds() *exchange.Bounds {
	if c.Engine == nil {
		return nil
	}
	return &c.Engine.Bounds
}

// build is one compilation.
type build struct {
	*Compiler
	tree   *Tree
	nodes  routing.Nodes
	guards guarding.Lists
}

// node compiles n below parent, whose settings are effective.
func (b *build) node(parent, n *config.Config) routing.Branch {
	eff := config.Inherit(parent, n)
	b.tree.effective[n.Path] = eff
	if n.Strategy == nil {
		return b.leaf(n, eff)
	}
	var branches []routing.Branch
	for _, t := range n.Targets {
		branches = append(branches, b.node(eff, t))
	}
	return b.nodes.Strategy(n, eff, branches)
}

// leaf compiles the handlers of one target, from the inside out: the call, the
// checks of its response, retries and the circuit breaker around both, so that a denied
// response may be retried, the cache, and the checks of the request, which are not
// repeated.
func (b *build) leaf(own, n *config.Config) routing.Branch {
	b.tree.Leaves = append(b.tree.Leaves, n)
	b.tree.Guards = append(b.tree.Guards, b.guards.Of(n))
	index := len(b.tree.Leaves) - 1
	target := b.call(n)
	out := b.nodes.Leaf(own, n, index, b.guardResponse(n, index, target))
	h := b.cached(n, out.Handler)
	if names := b.ignoredProperties(n); len(names) > 0 {
		h = noticeHandler{names, h}
	}
	if b.Call == nil {
		guard := &guarding.RequestGuard{Bounds: b.bounds(), Path: n.Path, Leaf: index, Next: h}
		if p := &target.(*attempt.TargetHandler).Params; !p.IsEmpty() {
			guard.Params = p
		}
		h = guard
	}
	out.Handler = h
	return out
}

// guardResponse adds the checks of responses to the call of a leaf.
func (b *build) guardResponse(n *config.Config, index int, call exchange.Handler) exchange.Handler {
	if b.Call != nil {
		return call
	}
	return &guarding.ResponseGuard{Bounds: b.bounds(), Path: n.Path, Leaf: index, Next: call}
}

func (b *build) call(n *config.Config) exchange.Handler {
	if b.Call != nil {
		return b.Call(n)
	}
	return &attempt.TargetHandler{
		Engine:  b.Engine,
		Path:    n.Path,
		Name:    n.Name,
		Leaf:    len(b.tree.Leaves) - 1,
		Timeout: n.RequestTimeout,
		Forward: n.ForwardHeaders,
		Params:  exchange.ParamsOf(n),

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
	at := caching.Place{Bounds: b.bounds(), Leaf: len(b.tree.Leaves) - 1}
	if e := caching.EmbedsBy(n); e != nil {
		at.Embedder = len(b.tree.Embedders)
		b.tree.Embedders = append(b.tree.Embedders, e)
		at.Embed = &attempt.TargetHandler{Engine: b.Engine, Path: n.Path + ".cache.embedding", Timeout: caching.EmbedTimeout}
	}
	return b.Cache.Around(n, at, next)
}
