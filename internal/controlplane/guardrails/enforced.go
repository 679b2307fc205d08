package guardrails

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// checkEnforced refuses a change of what a guardrail checks or does if a caller of a
// higher rank made it a default of its workspace: weakening it would lift that default.
func checkEnforced(ctx context.Context, c *route.Caller, tx *store.Tx, before, after *store.Guardrail) error {
	if after.Workspace == "" || after.Status == before.Status && bytes.Equal(after.Checks, before.Checks) &&
		bytes.Equal(after.Actions, before.Actions) {
		return nil
	}
	w, err := tx.Workspace(ctx, after.Organisation, after.Workspace)
	if err != nil {
		return err
	}
	var d store.WorkspaceDefaults
	if len(w.Defaults) > 0 {
		err = json.Unmarshal(w.Defaults, &d)
	}
	if err != nil {
		return err
	}
	lists := map[string][]string{"defaults.input_guardrails": d.InputGuardrails, "defaults.output_guardrails": d.OutputGuardrails}
	rank, err := c.Rank(ctx, tx.Queries, after.Workspace)
	if err != nil {
		return err
	}
	of := limits.Object{BudgetRef: store.BudgetRef{Kind: store.WorkspaceBudget, ID: w.ID}, Workspace: w.ID}
	set, err := tx.LimitSetters(ctx, of.BudgetRef)
	if err != nil {
		return err
	}
	maps.DeleteFunc(set, func(field string, _ store.LimitSetter) bool { return !slices.Contains(lists[field], after.ID) })
	if limits.Capped(c, rank, of, set) {
		return limits.NotAllowed("guardrail", "is a default of its workspace that was set by a caller of a higher rank; ask them to change it")
	}
	return nil
}
