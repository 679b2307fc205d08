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
	// versions includes the variants and dated versions of a model. Excluded models are
	// exact, so that no variant avoids a limit.
	versions bool
	glob     []string // what is between the stars of a pattern of tools; nil for a value
}

func compileCondition(c *Condition) condition {
	out := condition{key: parseKey(c.Key)}
	for _, v := range c.Value.List {
		out.any = out.any || v == Any
		one := out.pattern(v)
		one.versions = c.Key == KeyModel
		out.values = append(out.values, one)
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
		return pattern{provider: provider, value: canonicalModel(model)}
	case KeyVirtualKey:
		value = strings.TrimPrefix(value, "@")
	case KeyServer, KeyTool:
		if k.name == KeyTool && value != Any && !strings.Contains(value, "/") { // of any server
			value = "*/" + value
		}
		if value != Any && strings.Contains(value, "*") {
			return pattern{value: value, glob: strings.Split(value, "*")}
		}
	}
	return pattern{value: value}
}

// metBy reports whether a request meets the condition.
func (c *condition) metBy(f *Facts) bool {
	v := f.value(c.key)
	if v == "" && c.name != KeyModel {
		return false
	}
	return (c.any && v != "" || c.lists(c.values, v, f)) && !c.lists(c.except, v, f)
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

// includes reports whether the pattern is one of v. The model may be unknown: only
// patterns of all models of a provider include it then.
func (p *pattern) includes(v string, f *Facts) bool {
	if v == "" && (p.provider == "" || p.value != Any) {
		return false
	}
	if p.glob != nil {
		return matchesGlob(p.glob, v)
	}
	if p.value != v && p.value != Any && (!p.versions || !f.isModel(v, p.value)) {
		return false
	}
	if p.provider == "" {
		return true
	}
	named, _ := splitModel(f.Model)
	return p.provider == named || p.provider == f.Slug
}

// matchesGlob reports whether a text has what is between the stars of a pattern, in that
// order. It takes time in proportion to their lengths.
func matchesGlob(glob []string, text string) bool {
	first, last := glob[0], glob[len(glob)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range glob[1 : len(glob)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}

// readsModel reports whether the name of the model decides about the condition.
func (c *condition) readsModel() bool {
	named := func(p pattern) bool { return p.value != Any || p.provider == "" }
	return c.name == KeyModel && (slices.ContainsFunc(c.values, named) || slices.ContainsFunc(c.except, named))
}

// ofTarget reports whether the condition is known only for an attempt.
func (c *condition) ofTarget() bool {
	named := func(p pattern) bool { return p.provider != "" }
	return c.key.ofTarget() || slices.ContainsFunc(c.values, named) || slices.ContainsFunc(c.except, named)
}
