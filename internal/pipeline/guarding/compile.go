package guarding

import (
	"cmp"
	"fmt"
	"strings"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// Ref is a hook of a config: compiled, or the id of a saved guardrail.
type Ref struct {
	Hook  *guardrail.Hook
	Saved string // empty for a compiled hook
}

// List has the hooks and guardrails of a leaf as they are configured. It is
// immutable. Leaves with the same lists share one.
type List struct {
	Before, After []Ref
	// Static are the hooks if all are compiled; nil if some are saved.
	Static *exchange.Guards
}

// Check returns what is wrong with the hooks and guardrails of a config.
func Check(root *config.Config, table *guardrail.Table) error {
	if table == nil {
		return nil
	}
	var faults []config.FieldError
	for n := range root.All() {
		_, wrong := compileGuards(n, table)
		faults = append(faults, wrong...)
	}
	if len(faults) == 0 {
		return nil
	}
	return &config.Errors{Faults: faults}
}

// compileGuards compiles the lists of n. It returns nil if they are empty.
func compileGuards(n *config.Config, table *guardrail.Table) (*List, []config.FieldError) {
	c := guardCompiler{table: table, path: "$" + strings.TrimPrefix(n.Path, "config")}
	list := &List{Before: c.hooks("before_request_hooks", n.BeforeHooks, guardrail.Before),
		After: c.hooks("after_request_hooks", n.AfterHooks, guardrail.After)}
	list.Before = append(list.Before, c.guardrails("input_guardrails", n.InputGuardrails, guardrail.Before, "")...)
	list.Before = append(list.Before, c.guardrails("input_mutators", n.InputMutators, guardrail.Before, guardrail.TypeMutator)...)
	list.After = append(list.After, c.guardrails("output_guardrails", n.OutputGuardrails, guardrail.After, "")...)
	list.After = append(list.After, c.guardrails("output_mutators", n.OutputMutators, guardrail.After, guardrail.TypeMutator)...)
	if len(c.faults) > 0 || len(list.Before)+len(list.After) == 0 {
		return nil, c.faults
	}
	if !c.saved {
		list.Static = &exchange.Guards{Before: hooksOf(list.Before), After: hooksOf(list.After)}
	}
	return list, nil
}

func hooksOf(refs []Ref) []*guardrail.Hook {
	hooks := make([]*guardrail.Hook, len(refs))
	for i := range refs {
		hooks[i] = refs[i].Hook
	}
	return hooks
}

// guardCompiler compiles the lists of one node.
type guardCompiler struct {
	table  *guardrail.Table
	path   string
	saved  bool // a saved guardrail is among them
	faults []config.FieldError
}

func (c *guardCompiler) hooks(name string, list []config.Hook, on guardrail.Event) []Ref {
	var refs []Ref
	for i, h := range list {
		hook, faults := c.table.CompileHook(fmt.Sprintf("%s.%s[%d]", c.path, name, i), h, on)
		c.faults = append(c.faults, faults...)
		refs = append(refs, Ref{Hook: hook})
	}
	return refs
}

// guardrails compiles a list of guardrails or mutators. typ is the type of items
// without one.
func (c *guardCompiler) guardrails(name string, list []config.Guardrail, on guardrail.Event, typ string) []Ref {
	var refs []Ref
	for i, g := range list {
		if g.Saved != "" {
			refs, c.saved = append(refs, Ref{Saved: g.Saved}), true
			continue
		}
		if g.Type == "" {
			g.Type = typ
		}
		hook, faults := c.table.CompileGuardrail(fmt.Sprintf("%s.%s[%d]", c.path, name, i), g, on)
		c.faults = append(c.faults, faults...)
		refs = append(refs, Ref{Hook: hook})
	}
	return refs
}

// guardKey identifies the lists of a node: nodes that inherit a list share its
// elements.
type guardKey struct {
	before, after                *config.Hook
	input, output, mutIn, mutOut *config.Guardrail
}

func guardKeyOf(n *config.Config) guardKey {
	return guardKey{
		first(n.BeforeHooks), first(n.AfterHooks),
		first(n.InputGuardrails), first(n.OutputGuardrails), first(n.InputMutators), first(n.OutputMutators),
	}
}

func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// Lists compiles the hooks and guardrails of one config. Leaves with the same lists share one.
type Lists struct {
	Table *guardrail.Table // nil: hooks are ignored
	known map[guardKey]*List
}

// Of returns the lists of a leaf with these effective settings; nil if they are empty or
// ignored.
func (l *Lists) Of(n *config.Config) *List {
	key := guardKeyOf(n)
	if l.Table == nil || key == (guardKey{}) {
		return nil
	}
	list, ok := l.known[key]
	if !ok {
		list, _ = compileGuards(n, l.Table) // checked before
		if l.known == nil {
			l.known = make(map[guardKey]*List)
		}
		l.known[key] = list
	}
	return list
}

// decideGuards records which checks would run. A dry run makes none of them.
func decideGuards(t *exchange.Trail, path string, g *exchange.Guards) {
	for _, list := range [...]struct {
		of    string
		hooks []*guardrail.Hook
	}{{"request", g.Before}, {"response", g.After}} {
		for _, h := range list.hooks {
			names := make([]string, 0, len(h.Checks))
			for _, c := range h.Checks {
				if !c.Disabled {
					names = append(names, c.ID)
				}
			}
			how := ""
			switch {
			case h.Shadow:
				how = ", in shadow mode"
			case h.Async:
				how = ", without effect (async)"
			case h.Deny:
				how = ", and a failure denies it"
			case h.DenyPassed:
				how = ", and a success denies it"
			}
			text := fmt.Sprintf("the guardrail %s would check the %s with %s%s", cmp.Or(h.ID, "without an id"),
				list.of, strings.Join(names, ", "), how)
			t.Decisions = append(t.Decisions, reqlog.Decision{Path: path, Text: text})
		}
	}
}
