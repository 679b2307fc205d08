package route

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"modelgate/config"
	"modelgate/internal/base/apierr"
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
	if t != nil { // no module is compiled while the transaction is open
		t = t.For(guardrail.Compilation{Organisation: organisation, Skip: true})
	}
	c := defaultsCheck{q, byID, t}
	if err := c.check(ctx, "the organisation", "", o.Settings.InputGuardrails, o.Settings.OutputGuardrails); err != nil {
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
		if err := c.check(ctx, fmt.Sprintf("workspace %q", w.Slug), w.ID, own.InputGuardrails, own.OutputGuardrails); err != nil {
			return err
		}
	}
	return nil
}

// defaultsCheck checks default guardrails of one organisation.
type defaultsCheck struct {
	queries    store.Queries
	guardrails map[string]*store.Guardrail // active, by id
	table      *guardrail.Table
}

func (c *defaultsCheck) check(ctx context.Context, owner, workspace string, input, output []string) error {
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
			if faults := c.faults(ctx, g, list.on); len(faults) > 0 {
				return apierr.New(apierr.Invalid, "AB01: guardrail %s cannot run as one of %s of %s: %s %s",
					g.Slug, list.field, owner, faults[0].Path, faults[0].Message).
					WithParam(list.field).WithCode("AB01")
			}
		}
	}
	return nil
}

func (c *defaultsCheck) faults(ctx context.Context, g *store.Guardrail, on guardrail.Event) []config.FieldError {
	if c.table == nil {
		return nil
	}
	_, faults := c.table.CompileSaved(SavedGuardrail(ctx, c.queries, g), on)
	return faults
}

// SavedGuardrail returns g in the form that is compiled, with the stored modules that it
// may use.
func SavedGuardrail(ctx context.Context, q store.Queries, g *store.Guardrail) guardrail.Saved {
	return guardrail.Saved{ID: g.Slug, Shared: g.Workspace == "", Checks: g.Checks, Actions: g.Actions,
		Module: func(ref string) (guardrail.Module, error) {
			m, err := q.GuardrailModuleFor(ctx, g.Organisation, g.Workspace, ref)
			if apierr.IsNotFound(err) {
				return guardrail.Module{}, fmt.Errorf("%.60q not found; upload the module, for the organisation if the guardrail is the organisation's", ref)
			}
			if err != nil {
				return guardrail.Module{}, fmt.Errorf("%.60q cannot be read now; try again later", ref)
			}
			out := guardrail.Module{Code: func() ([]byte, error) {
				code, err := q.GuardrailModuleCode(ctx, m.ID)
				if err != nil {
					return nil, fmt.Errorf("%.60q cannot be read now; try again later", ref)
				}
				return code, nil
			}}
			_, err = hex.Decode(out.Sum[:], []byte(m.SHA256))
			return out, err
		}}
}

// CheckModules returns an error unless the stored modules exist that a guardrail uses.
// Call it in the transaction that stores the guardrail: one may have been deleted since
// the guardrail was compiled.
func CheckModules(ctx context.Context, q store.Queries, g *store.Guardrail) error {
	for _, ref := range g.Modules() {
		if _, err := q.GuardrailModuleFor(ctx, g.Organisation, g.Workspace, ref); apierr.IsNotFound(err) {
			return apierr.New(apierr.Invalid, "AB01: checks name the module %.60q, which was deleted; upload it again",
				ref).WithParam("checks").WithCode("AB01")
		} else if err != nil {
			return err
		}
	}
	return nil
}
