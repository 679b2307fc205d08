package publication

import (
	"context"
	"slices"

	"modelgate/internal/store"
)

// GuardDefaults are the saved guardrails, by id, of all requests of a workspace, or
// of organisation keys if Workspace is empty: first those of the organisation, unless
// it excludes the workspace.
type GuardDefaults struct {
	Organisation, Workspace string
	Input, Output           []string
}

// readGuardrails reads the guardrails that are not archived, and those that apply
// to all requests.
func (l *loader) readGuardrails(ctx context.Context) (err error) {
	if l.state.Guardrails, err = l.q.ActiveGuardrails(ctx); err != nil {
		return err
	}
	if err := l.readModules(ctx); err != nil {
		return err
	}
	return l.readGuardDefaults(ctx)
}

func (l *loader) readGuardDefaults(ctx context.Context) error {
	l.state.GuardDefaults = nil
	for _, o := range l.organisations {
		l.addGuardDefaults(GuardDefaults{Organisation: o.ID, Input: o.Settings.InputGuardrails, Output: o.Settings.OutputGuardrails})
	}
	list, err := l.workspaces(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		w := &list[i]
		own, err := decode[store.WorkspaceDefaults](w, w.Defaults)
		if err != nil {
			return err
		}
		d, o := GuardDefaults{Organisation: w.Organisation, Workspace: w.ID}, l.settings[w.Organisation]
		if !slices.Contains(o.InputExclusions, w.ID) {
			d.Input = slices.Clone(o.InputGuardrails)
		}
		if !slices.Contains(o.OutputExclusions, w.ID) {
			d.Output = slices.Clone(o.OutputGuardrails)
		}
		d.Input, d.Output = append(d.Input, own.InputGuardrails...), append(d.Output, own.OutputGuardrails...)
		l.addGuardDefaults(d)
	}
	return nil
}

func (l *loader) addGuardDefaults(d GuardDefaults) {
	if len(d.Input)+len(d.Output) > 0 {
		l.state.GuardDefaults = append(l.state.GuardDefaults, d)
	}
}

// Module is a stored module that guardrails use.
type Module struct {
	store.GuardrailModule
	Code []byte
}

// readModules reads the modules that the guardrails use. Their code never changes.
func (l *loader) readModules(ctx context.Context) error {
	known := make(map[string][]byte)
	if l.before != nil {
		for _, m := range l.before.Modules {
			known[m.ID] = m.Code
		}
	}
	l.state.Modules = nil
	var users []store.Guardrail
	for _, g := range l.state.Guardrails {
		if len(g.Modules()) > 0 {
			users = append(users, g)
		}
	}
	if len(users) == 0 {
		return nil
	}
	all, err := l.q.AllGuardrailModules(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if !slices.ContainsFunc(users, func(g store.Guardrail) bool { return g.Uses(m) }) {
			continue
		}
		code, ok := known[m.ID]
		if !ok {
			if code, err = l.q.GuardrailModuleCode(ctx, m.ID); err != nil {
				return err
			}
		}
		l.state.Modules = append(l.state.Modules, Module{m, code})
	}
	return nil
}
