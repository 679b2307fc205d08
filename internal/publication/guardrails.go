package publication

import (
	"context"
	"slices"

	"modelgate/internal/sqlrow"
	"modelgate/internal/store"
)

// GuardDefaults are the saved guardrails, by id, of all requests of a workspace, or
// of organisation keys if Workspace is empty: first those of the organisation.
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
	const workspaces = `
		SELECT id, organisation_id, defaults
		FROM workspaces
		WHERE status = 'active'`
	all, err := l.q.Organisations(ctx)
	if err != nil {
		return err
	}
	above := make(map[string]GuardDefaults, len(all))
	l.state.GuardDefaults = nil
	for _, o := range all {
		d := GuardDefaults{Organisation: o.ID, Input: o.Settings.InputGuardrails, Output: o.Settings.OutputGuardrails}
		above[o.ID] = d
		l.addGuardDefaults(d)
	}
	_, err = sqlrow.List(ctx, l.q.Reader, "workspaces", workspaces, func(r sqlrow.Scanner) (none struct{}, err error) {
		var d GuardDefaults
		var own store.WorkspaceDefaults
		if err = r.Scan(&d.Workspace, &d.Organisation, sqlrow.JSON(&own)); err != nil {
			return none, err
		}
		o := above[d.Organisation]
		d.Input, d.Output = slices.Concat(o.Input, own.InputGuardrails), slices.Concat(o.Output, own.OutputGuardrails)
		l.addGuardDefaults(d)
		return none, nil
	})
	return err
}

func (l *loader) addGuardDefaults(d GuardDefaults) {
	if len(d.Input)+len(d.Output) > 0 {
		l.state.GuardDefaults = append(l.state.GuardDefaults, d)
	}
}
