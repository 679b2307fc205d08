package policy

import (
	"slices"
	"strings"
)

// condition is a compiled [Condition].
type condition struct {
	key
	any            bool
	values, except []pattern
}

// pattern is a value of a condition. Only those of models have a provider.
type pattern struct {
	provider string // slug; empty for any
	value    string
}

func compileCondition(c *Condition) condition {
	out := condition{key: parseKey(c.Key)}
	for _, v := range c.Value.List {
		out.any = out.any || v == Any
		out.values = append(out.values, out.pattern(v))
	}
	for _, v := range c.Excludes.List {
		out.except = append(out.except, out.pattern(v))
	}
	return out
}

func (k key) pattern(value string) pattern {
	switch k.name {
	case KeyModel:
		provider, model := splitModel(value)
		return pattern{provider, canonicalModel(model)}
	case KeyVirtualKey:
		value = strings.TrimPrefix(value, "@")
	}
	return pattern{value: value}
}

// metBy reports whether a request meets the condition.
func (c *condition) metBy(f *Facts) bool {
	v := f.value(c.key)
	if v == "" {
		return false
	}
	return (c.any || c.lists(c.values, v, f)) && !c.lists(c.except, v, f)
}

// lists reports whether patterns include a value.
func (c *condition) lists(patterns []pattern, v string, f *Facts) bool {
	for i := range patterns {
		if patterns[i].includes(v, f) {
			return true
		}
	}
	return false
}

func (p *pattern) includes(v string, f *Facts) bool {
	if p.value != v && p.value != Any {
		return false
	}
	if p.provider == "" {
		return true
	}
	named, _ := splitModel(f.Model)
	return p.provider == named || p.provider == f.Slug
}

// ofTarget reports whether the condition is known only for an attempt.
func (c *condition) ofTarget() bool {
	named := func(p pattern) bool { return p.provider != "" }
	return c.key.ofTarget() || slices.ContainsFunc(c.values, named) || slices.ContainsFunc(c.except, named)
}
