package policy

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"modelgate/internal/limits/quota"
)

// Set is a set of policies. It is safe for concurrent use. Nil is empty.
type Set struct {
	list []Policy
	byID map[string]*compiled

	limits index // policies that [Set.Match] finds
	govern index // policies that [Set.CheckSession] enforces
}

// SessionHolder is the kind of holder of the limits of sessions.
const SessionHolder = "session"

// compiled is a policy with its conditions prepared and the limits of its value keys.
type compiled struct {
	policy       *Policy
	conditions   []condition
	group        []key
	ofTarget     bool // it applies to attempts, not to requests
	perAttempt   bool
	clientValues bool           // clients choose values of group_by
	kind         string         // of the limits' holder
	zone         *time.Location // of the period
	values       atomic.Pointer[values]
	groups       atomic.Pointer[groups] // if clients choose values
	calls        atomic.Pointer[groups] // tool calls with counters, if it detects loops
}

// Compile returns the set of a list of policies, which it keeps. Policies of before
// that have not changed keep what is known of their value keys. Before may be nil.
func Compile(list []Policy, before *Set) *Set {
	if before != nil && len(list) == len(before.list) && (len(list) == 0 || &list[0] == &before.list[0]) {
		return before
	}
	s := &Set{list: list, byID: make(map[string]*compiled, len(list))}
	var limits, govern []*compiled
	for i := range list {
		p := &list[i]
		var c *compiled
		if before != nil {
			c = before.byID[p.ID]
		}
		if c == nil || c.policy.Version != p.Version {
			old := c
			if c = compile(p); old != nil {
				c.groups.Store(old.groups.Load())
				c.calls.Store(old.calls.Load())
			}
		}
		s.byID[p.ID] = c
		if !p.Time {
			limits = append(limits, c)
		}
		if p.Time || p.Loop != (Loop{}) {
			govern = append(govern, c)
		}
	}
	s.limits, s.govern = newIndex(limits), newIndex(govern)
	return s
}

func compile(p *Policy) *compiled {
	c := &compiled{policy: p, kind: "policy", zone: quota.Zone(p.Period.Zone)}
	if p.InSession() {
		c.kind = SessionHolder
	}
	for i := range p.Conditions {
		k := compileCondition(&p.Conditions[i])
		c.ofTarget = c.ofTarget || k.ofTarget()
		c.conditions = append(c.conditions, k)
	}
	for _, name := range p.GroupBy {
		k := parseKey(name)
		c.ofTarget = c.ofTarget || k.ofTarget()
		c.clientValues = c.clientValues || k.ofClient()
		c.group = append(c.group, k)
	}
	// The number of requests of a budget is that of the ledger, which counts attempts.
	c.perAttempt = c.ofTarget || p.Window == 0 && p.Measure == quota.Requests
	return c
}

// Match appends the limits of the policies that apply to a request, in no particular
// order. A policy that depends on the target applies only if f has one.
func (s *Set) Match(dst []*quota.Limit, f *Facts) []*quota.Limit {
	if s == nil {
		return dst
	}
	s.limits.each(f, func(c *compiled, f *Facts) {
		var room [maxValueKey * 2]byte
		key, ok := c.appliesTo(room[:0], f)
		if !ok {
			return
		}
		if l := &c.limit(key, f.Time).Limit; !slices.Contains(dst, l) {
			dst = append(dst, l)
		}
	})
	return s.appendLoops(dst, f)
}

// ReadsModels reports whether a policy needs to know the model of a request: the request
// meets its other conditions, as far as they do not depend on the target.
func (s *Set) ReadsModels(f *Facts) bool {
	if s == nil || f == nil {
		return false
	}
	for _, x := range [...]index{s.limits, s.govern} {
		for _, id := range [...]string{f.Workspace, f.Organisation} {
			scope := x[id]
			if scope != nil && slices.ContainsFunc(scope.models, func(c *compiled) bool { return c.mayApplyTo(f) }) {
				return true
			}
		}
	}
	return false
}

// Empty reports whether there are no policies.
func (s *Set) Empty() bool { return s == nil || len(s.list) == 0 }

// Measure returns what a counter of a usage-limit policy counts, by its name without
// the prefix "policy/". It returns false if no policy has it at now: counters of earlier
// periods are not used again.
func (s *Set) Measure(counter string, now time.Time) (m quota.Measure, ok bool) {
	id, rest, _ := strings.Cut(counter, "/")
	if s == nil || s.byID[id] == nil {
		return 0, false
	}
	p := s.byID[id].policy
	label, _, _ := strings.Cut(rest, "/")
	current, _ := p.Period.At(now)
	return p.Measure, p.Window == 0 && label == current
}

// InUse reports whether a counter, by its full name, is of a policy and may be used at
// now or later: the policy exists, the period of a usage limit has not ended, and the
// counter is not from before a manual reset. Nil has none in use.
func (s *Set) InUse(counter string, now time.Time) bool {
	name, ok := strings.CutPrefix(counter, counterPrefix)
	id, rest, _ := strings.Cut(name, "/")
	if s == nil || !ok || s.byID[id] == nil {
		return false
	}
	p := s.byID[id].policy
	if p.Window == 0 {
		if _, ok := s.Measure(name, now); !ok {
			return false
		}
		_, rest, _ = strings.Cut(rest, "/")
	}
	generation, key, _ := strings.Cut(rest, "/")
	if len(p.Generations) == 0 {
		return generation == "0"
	}
	return generation == strconv.FormatInt(p.Generations[EntityID(key)], 10)
}

// readsModel reports whether the name of the model decides about the policy.
func (c *compiled) readsModel() bool {
	return slices.ContainsFunc(c.group, func(k key) bool { return k.name == KeyModel }) ||
		slices.ContainsFunc(c.conditions, func(k condition) bool { return k.readsModel() })
}

// limits reports whether the target of the policy is that of a request.
func (c *compiled) limits(f *Facts) bool { return c.policy.Target.IsTools() == f.Tools }

// mayApplyTo reports whether the policy applies to a request of some model to some target.
func (c *compiled) mayApplyTo(f *Facts) bool {
	if !c.limits(f) {
		return false
	}
	unmet := func(k condition) bool { return k.name != KeyModel && !k.ofTarget() && !k.metBy(f) }
	lacks := func(k key) bool { return k.name != KeyModel && !k.ofTarget() && f.value(k) == "" }
	return !slices.ContainsFunc(c.conditions, unmet) && !slices.ContainsFunc(c.group, lacks)
}

// appliesTo reports whether the policy applies to a request, and appends its value
// key.
func (c *compiled) appliesTo(dst []byte, f *Facts) ([]byte, bool) {
	for i := range c.conditions {
		if !c.conditions[i].metBy(f) {
			return dst, false
		}
	}
	return appendValueKey(dst, c.group, f)
}

// Limits returns the limits of a policy by value key: those of requests of the current
// and the previous hour on this gateway.
func (s *Set) Limits(id string, now time.Time) map[string]*quota.Limit {
	out := make(map[string]*quota.Limit)
	if s == nil || s.byID[id] == nil {
		return out
	}
	v := s.byID[id].current(now)
	v.before.Load().copyTo(out)
	v.copyTo(out)
	return out
}
