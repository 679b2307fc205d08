package credentials

import (
	"context"
	"slices"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// CheckReprice refuses a change of an integration that changes what its requests cost,
// like [CheckPrices]. Before is the zero value for a new integration.
func CheckReprice(ctx context.Context, c *route.Caller, tx *store.Tx, before, after store.Integration) error {
	was, is := before.Configuration.Deployments, after.Configuration.Deployments
	switch mapped := mappingText(after); {
	case before.ID == "" && mapped == "":
		was = is // whoever brings the credential knows what its deployments serve
	case mapped != "" && mapped != mappingText(before):
		was = nil
	}
	switch {
	case priceText(before.Pricing) != priceText(after.Pricing):
		return CheckPrices(ctx, c, tx, after, "pricing_adjustments")
	case before.Configuration.Reserved != after.Configuration.Reserved, !slices.EqualFunc(was, is, sameModel):
		return CheckPrices(ctx, c, tx, after, "configurations")
	}
	return nil
}

// mappingText returns the secret mappings of an integration as text, empty for none.
func mappingText(i store.Integration) string {
	if text := string(i.SecretMappings); text != "[]" && text != "null" {
		return text
	}
	return ""
}

// sameModel reports whether requests to a and b have the same price.
func sameModel(a, b store.Deployment) bool {
	a.APIVersion, b.APIVersion = "", ""
	return a == b
}

// SamePrice reports whether a and b have the same price.
func SamePrice(a, b store.IntegrationModel) bool {
	return priceText(a.Pricing) == priceText(b.Pricing) && a.BaseModel == b.BaseModel
}

func priceText(raw []byte) string {
	if len(raw) == 0 {
		return "null"
	}
	return string(raw)
}

// CheckPrices refuses changes of prices to callers who are limited by a budget that
// they may not change: without a price, nothing would count against the budget. Field
// is what they change, for the error.
func CheckPrices(ctx context.Context, c *route.Caller, tx *store.Tx, i store.Integration, field string) error {
	rank, err := c.Rank(ctx, tx.Queries, i.Workspace)
	if err != nil || rank >= access.RankOrganisation {
		return err
	}
	of, err := budgetsOver(ctx, c, tx, i)
	if err != nil {
		return err
	}
	for _, o := range of {
		set, err := tx.LimitSetters(ctx, o.BudgetRef)
		if err != nil {
			return err
		}
		by, limited := set["usage_limits"]
		own := o.Kind == store.KeyBudget && !c.IsPerson()
		if limited && (own || limits.Capped(c, rank, o, map[string]store.LimitSetter{"usage_limits": by})) {
			return limits.NotAllowed(field, "would change prices that count against a budget (of the %s) that you cannot change; ask the user who set it", o.Kind)
		}
	}
	return nil
}

// budgetsOver returns the objects with budgets that requests through i count against:
// its workspace, the grant of the workspace, its providers and the caller's keys.
func budgetsOver(ctx context.Context, c *route.Caller, tx *store.Tx, i store.Integration) ([]limits.Object, error) {
	at := func(kind, id, user string) limits.Object {
		return limits.Object{BudgetRef: store.BudgetRef{Kind: kind, ID: id}, Workspace: i.Workspace, User: user}
	}
	out := []limits.Object{at(store.WorkspaceBudget, i.Workspace, ""), at(store.GrantBudget, store.GrantID(i.ID, i.Workspace), "")}
	providers, err := tx.ProviderIDs(ctx, i.ID, i.Workspace)
	if err != nil {
		return nil, err
	}
	for _, id := range providers {
		out = append(out, at(store.ProviderBudget, id, ""))
	}
	if !c.IsPerson() {
		for _, id := range slices.Concat([]string{c.KeyID}, c.Lineage) {
			out = append(out, at(store.KeyBudget, id, ""))
		}
		return out, nil
	}
	keys, err := tx.KeysOfUser(ctx, i.Organisation, i.Workspace, c.UserID)
	for _, k := range keys {
		if s := k.StatusAt(c.Now); s == store.KeyActive || s == store.KeyExhausted {
			out = append(out, at(store.KeyBudget, k.ID, k.UserID))
		}
	}
	return out, err
}
