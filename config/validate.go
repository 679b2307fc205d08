package config

import (
	"fmt"
	"math"
	"strings"
)

// validate checks conflicts between properties in the complete tree.
func (r *reader) validate(root *Config) {
	r.limits(root)
	r.visit(root, nil)
	if root.isLeaf() && !r.broken[root] && !root.namesProvider() {
		r.fault("$", root.missingProviderAdvice())
	}
}

// visit checks a node including its inherited settings, then the nodes below.
func (r *reader) visit(c, parent *Config) {
	at := c.jsonPath()
	effective := Inherit(parent, c)
	r.strategy(at, c)
	r.breakers(at, c)
	r.unbound(at, c)
	r.managed(at, c)
	if parent != nil && c.isLeaf() && !r.broken[c] && !effective.isReachable() {
		r.fault(at, effective.unreachableAdvice())
	}
	for _, t := range c.Targets {
		r.visit(t, effective)
	}
}

// unbound adds faults for credentials in a node without a provider: the request
// would choose who gets them.
func (r *reader) unbound(at string, c *Config) {
	if c.Provider != "" || c.VirtualKey != "" || r.broken[c] {
		return
	}
	for _, f := range nodes.fields {
		if !f.secret {
			continue
		}
		if _, given := f.write(writer{nodes: nodes}, c); given {
			r.fault(property(at, f.name), unbound)
		}
	}
}

// managed adds faults for provider options in a node with a managed provider:
// these are stored with the provider, and options in the node would have no
// effect.
func (r *reader) managed(at string, c *Config) {
	slug, ok := c.managedSlug()
	if !ok || r.broken[c] {
		return
	}
	if c.Provider != "" && c.VirtualKey != "" && strings.TrimPrefix(c.VirtualKey, "@") != slug {
		r.fault(property(at, "virtual_key"), "must be absent, since provider names the managed provider "+quote(c.Provider)+
			"; keep one of the two")
	}
	for _, f := range nodes.fields {
		if !f.secret && !f.setting || IsHarmless(f.name) {
			continue
		}
		if _, given := f.write(writer{nodes: nodes}, c); given {
			r.fault(property(at, f.name), "must be absent, since the managed provider "+quote("@"+slug)+
				" has its own settings and credential; remove it, or name a provider id instead")
		}
	}
}

// managedSlug returns the slug of the managed provider that a node names
// itself.
func (c *Config) managedSlug() (slug string, ok bool) {
	if c.Provider == "" {
		return strings.TrimPrefix(c.VirtualKey, "@"), c.VirtualKey != ""
	}
	return strings.CutPrefix(c.Provider, "@")
}

// jsonPath returns the path of a node in faults.
func (c *Config) jsonPath() string { return "$" + strings.TrimPrefix(c.Path, "config") }

// isLeaf reports whether a node names a provider itself.
func (c *Config) isLeaf() bool { return c.Strategy == nil && c.Targets == nil }

// limits checks the number of targets.
func (r *reader) limits(root *Config) {
	most := MaxTargets
	if root.Strategy != nil && root.Strategy.Mode == Conditional {
		most = MaxConditionalTargets
	}
	if n := len(root.Targets); n > most {
		r.fault("$.targets", fmt.Sprintf("has %d targets; at most %d are allowed, so remove some or split the config", n, most))
	}
	for _, t := range root.Targets {
		if n := t.below(); n > MaxNestedTargets {
			r.fault(t.jsonPath()+
				".targets", fmt.Sprintf("has %d targets at all depths; at most %d are allowed below one target of the root", n, MaxNestedTargets))
		}
	}
}

// below returns the number of targets below a node.
func (c *Config) below() int {
	n := len(c.Targets)
	for _, t := range c.Targets {
		n += t.below()
	}
	return n
}

// strategy checks that a strategy and its targets fit together.
func (r *reader) strategy(at string, c *Config) {
	switch {
	case c.Strategy == nil && c.Targets != nil:
		if !r.broken[c] {
			r.fault(at+".targets", "needs a strategy; add \"strategy\": {\"mode\": …} next to it")
		}
		return
	case c.Strategy == nil:
		return
	case c.Targets == nil:
		if !r.broken[c] {
			r.fault(at+".strategy", "needs targets; add \"targets\": [ … ] next to it")
		}
		return
	case len(c.Targets) == 0:
		r.fault(at+".targets", "is empty; add at least one target")
		return
	}
	names := r.names(c)
	switch c.Strategy.Mode {
	case Conditional:
		r.conditional(at, c, names)
	case Loadbalance:
		r.weights(at, c)
	}
}

// names collects the names of the targets of a node.
func (r *reader) names(c *Config) map[string]string {
	names := map[string]string{}
	for _, t := range c.Targets {
		if t.Name == "" {
			continue
		}
		if first, twice := names[t.Name]; twice {
			r.fault(t.jsonPath()+".name", "is also the name of "+first+"; give each target a different name")
			continue
		}
		names[t.Name] = t.jsonPath()
	}
	return names
}

// conditional checks that conditions name existing targets.
func (r *reader) conditional(at string, c *Config, names map[string]string) {
	s := c.Strategy
	if len(s.Conditions) == 0 && !r.broken[c] {
		r.fault(at+".strategy.conditions", "is required in conditional mode; add at least one condition")
	}
	if s.Default == "" && !r.broken[c] {
		r.fault(at+".strategy.default", "is required in conditional mode; name the target to use if no condition holds")
	}
	for i, condition := range s.Conditions {
		r.target(item(at+".strategy.conditions", i)+".then", condition.Then, names)
	}
	r.target(at+".strategy.default", s.Default, names)
}

// target checks that name is the name of a target.
func (r *reader) target(at, name string, names map[string]string) {
	if name == "" {
		return
	}
	if _, known := names[name]; known {
		return
	}
	message := "is not the name of a target of this node; give a target the name " + quote(name)
	if like := r.nearest(name, keys(names)); like != "" {
		message += " or write " + quote(like)
	}
	r.fault(at, message)
}

// weights checks that a choice by weight is possible.
func (r *reader) weights(at string, c *Config) {
	sum := 0.0
	for _, t := range c.Targets {
		if r.broken[t] {
			return
		}
		sum += t.share()
	}
	switch {
	case sum == 0:
		r.fault(at+".targets", "all have weight 0, so none can be chosen; give one a weight above 0")
	case math.IsInf(sum, 1):
		r.fault(at+".targets", "have weights whose sum is too large a number; give smaller ones")
	}
}

// share returns the effective weight.
func (c *Config) share() float64 {
	if c.Weight == nil {
		return 1
	}
	return *c.Weight
}

// breakers checks the circuit breaker in both of its places.
func (r *reader) breakers(at string, c *Config) {
	if c.Strategy != nil && c.Breaker != nil && c.Strategy.Breaker != nil {
		r.fault(at+".strategy.cb_config", "is set twice, also as "+at+".cb_config; keep one")
	}
	if !r.broken[c] {
		r.breaker(at+".cb_config", c.Breaker)
	}
	if c.Strategy != nil && !r.broken[c] {
		r.breaker(at+".strategy.cb_config", c.Strategy.Breaker)
	}
}

func (r *reader) breaker(at string, b *Breaker) {
	if b != nil && b.FailureThreshold == 0 && b.FailurePercentage == 0 {
		r.fault(at+".failure_threshold", "is required; add the number of failures that opens the circuit")
	}
}
