package configs

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// checkFixed refuses a user's change of the text of a config that is fixed for one of
// their own keys by an admin whose limits they may not change: changing the text would
// lift that limit. For keys the route refuses every change.
func checkFixed(ctx context.Context, c *route.Caller, tx *store.Tx, row store.Config) error {
	if !c.IsPerson() {
		return nil
	}
	rank, err := c.Rank(ctx, tx.Queries, row.Workspace)
	if err != nil {
		return err
	}
	list, err := tx.KeysOfUser(ctx, row.Organisation, row.Workspace, c.UserID)
	if err != nil {
		return err
	}
	for _, k := range list {
		var d store.KeyDefaults
		if len(k.Defaults) > 0 {
			err = json.Unmarshal(k.Defaults, &d)
		}
		if err != nil {
			return err
		}
		if !d.ConfigFixed || d.Config != row.Slug || k.StatusAt(c.Now) == store.KeyExpired || k.Status == store.KeyRevoked {
			continue
		}
		of := limits.Object{BudgetRef: store.BudgetRef{Kind: store.KeyBudget, ID: k.ID}, Workspace: k.Workspace, User: k.UserID}
		set, err := tx.LimitSetters(ctx, of.BudgetRef)
		if err != nil {
			return err
		}
		maps.DeleteFunc(set, func(field string, _ store.LimitSetter) bool {
			return !strings.HasPrefix(field, "defaults.config_id") && field != "defaults.allow_config_override"
		})
		if limits.Capped(c, rank, of, set) {
			return limits.NotAllowed("config", "is fixed for your own key %.60q by a user whose limits you cannot change; ask them to change it", k.Name)
		}
	}
	return nil
}
