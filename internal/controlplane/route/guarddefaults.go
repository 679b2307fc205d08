package route

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"modelgate/config"
	"modelgate/internal/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/store"
)

// ResolveGuardrails returns the ids of the active guardrails that a field names by id
// or slug, each once. An empty workspace may name those of the organisation only, any
// other those of the workspace too.
func ResolveGuardrails(ctx context.Context, q store.Queries, w store.Workspace, field string, refs []string) ([]string, error) {
	var ids []string
	for i, ref := range refs {
		at := fmt.Sprintf("%s[%d]", field, i)
		g, err := q.Guardrail(ctx, w.Organisation, w.ID, ref)
		if apierr.IsNotFound(err) {
			return nil, Missing(at, "guardrail", ref)
		}
		if err != nil {
			return nil, err
		}
		if w.ID == "" && g.Workspace != "" {
			return nil, Invalid(at, "must be a guardrail of the organisation; %.60q belongs to a workspace", ref)
		}
		if !slices.Contains(ids, g.ID) {
			ids = append(ids, g.ID)
		}
	}
	return ids, nil
}

// CheckGuardDefaults returns an error unless each guardrail that the organisation or
// one of its active workspaces applies to all requests exists there and can run. Call
// it at the end of every transaction that changes guardrails or these lists: requests
// whose default guardrails cannot run are refused. A nil table accepts all checks.
func CheckGuardDefaults(ctx context.Context, q store.Queries, t *guardrail.Table, organisation string) error {
	o, err := q.Organisation(ctx, organisation)
	if err != nil {
		return err
	}
	all, err := q.AllGuardrails(ctx, o.ID)
	if err != nil {
		return err
	}
	byID := make(map[string]*store.Guardrail, len(all))
	for i := range all {
		if all[i].Status == store.Active {
			byID[all[i].ID] = &all[i]
		}
	}
	c := defaultsCheck{byID, t}
	if err := c.check("the organisation", "", o.Settings.InputGuardrails, o.Settings.OutputGuardrails); err != nil {
		return err
	}
	workspaces, _, err := q.Workspaces(ctx, store.WorkspaceQuery{Organisation: o.ID, Statuses: []string{store.Active}}, store.Page{})
	if err != nil {
		return err
	}
	for _, w := range workspaces {
		var own store.WorkspaceDefaults
		if err := json.Unmarshal(w.Defaults, &own); err != nil {
			return fmt.Errorf("reading the defaults of workspace %s: %w", w.ID, err)
		}
		if err := c.check(fmt.Sprintf("workspace %q", w.Slug), w.ID, own.InputGuardrails, own.OutputGuardrails); err != nil {
			return err
		}
	}
	return nil
}

// defaultsCheck checks default guardrails of one organisation.
type defaultsCheck struct {
	guardrails map[string]*store.Guardrail // active, by id
	table      *guardrail.Table
}

func (c *defaultsCheck) check(owner, workspace string, input, output []string) error {
	for _, list := range []struct {
		field string
		ids   []string
		on    guardrail.Event
	}{{"input_guardrails", input, guardrail.Before}, {"output_guardrails", output, guardrail.After}} {
		for _, id := range list.ids {
			g := c.guardrails[id]
			if g == nil || g.Workspace != "" && g.Workspace != workspace {
				return apierr.New(apierr.Conflict, "guardrail %.60q is in %s of %s; remove it there first", id, list.field, owner).WithParam(list.field)
			}
			if faults := c.faults(g, list.on); len(faults) > 0 {
				return apierr.New(apierr.Invalid, "AB01: guardrail %s cannot run as one of %s of %s: %s %s", g.Slug, list.field, owner, faults[0].Path, faults[0].Message).
					WithParam(list.field).WithCode("AB01")
			}
		}
	}
	return nil
}

func (c *defaultsCheck) faults(g *store.Guardrail, on guardrail.Event) []config.FieldError {
	if c.table == nil {
		return nil
	}
	_, faults := c.table.CompileSaved(g.Slug, g.Checks, g.Actions, on)
	return faults
}
