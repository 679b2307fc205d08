package controlplane

import (
	"context"
	"encoding/json"
	"net/http"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/quota"
	"modelgate/internal/store"
)

// addLimitStates adds the route that reads limits and their use.
func addLimitStates(a *route.API) {
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/limits", Name: "list-limits", Tag: "Limits",
		Summary: "List the limits of a key, workspace or provider, and what is used of them"}, listLimits(a))
}

type limitsInput struct {
	Owner     string `query:"owner" enum:"key,workspace,provider" default:"key"`
	ID        string `query:"id" maxLength:"255" doc:"Id, or slug of a workspace or provider. Without one, the key of the request."`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug of the provider's workspace; required for organisation keys that name a provider by its slug"`
}

// limitState is a limit and its use. Amounts are requests, tokens or dollars.
type limitState struct {
	Owner     string     `json:"owner" doc:"key, workspace, provider, or grant for those of an integration in a workspace"`
	ID        string     `json:"id"`
	Type      string     `json:"type" doc:"requests, tokens or cost"`
	Unit      *string    `json:"unit" doc:"rps, rpm, rph, rpd, rpw or concurrent; null for a budget"`
	Limit     float64    `json:"limit"`
	Used      float64    `json:"used"`
	Reserved  float64    `json:"reserved" doc:"By requests in progress"`
	Remaining float64    `json:"remaining"`
	Reset     route.Time `json:"reset_at" doc:"Null if never"`
	AtMost    float64    `json:"overshoot_at_most" doc:"By how much the counters of several gateways may exceed the limit together"`
}

// listLimits returns the handler of GET /limits. Everyone may read the limits of the key
// of the request, and those of other objects with the permission to read the object.
func listLimits(a *route.API) func(context.Context, *route.Caller, *limitsInput) (*route.List[limitState], error) {
	return func(ctx context.Context, c *route.Caller, in *limitsInput) (*route.List[limitState], error) {
		held, err := holders(ctx, c, in)
		if err != nil {
			return nil, err
		}
		var all []*quota.Limit
		for _, h := range held {
			spent, err := c.DB().Spending(ctx, h.Kind, h.ID)
			if err != nil {
				return nil, err
			}
			list, err := quota.ParseLimits(h.Holder, h.rates, h.budgets, int64(spent[h.ID].Cost), spent[h.ID].Tokens)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		states := make([]quota.State, len(all))
		if a.Counters != nil {
			if states, err = a.Counters.Read(ctx, c.Now, all); err != nil {
				return nil, apierr.New(apierr.Unavailable, "the counters of limits cannot be read; try again shortly").WithCause(err)
			}
		}
		out := make([]limitState, len(all))
		for i, l := range all {
			s := states[i]
			out[i] = limitState{
				Owner: l.Holder.Kind, ID: l.Holder.ID, Type: l.Measure.String(), Unit: route.OrNull(l.Unit()), Limit: l.Units(l.Max - l.Base),
				Used: l.Units(s.Used), Reserved: l.Units(s.Held), Remaining: l.Units(s.Left(l)), Reset: route.Time(s.Reset), AtMost: l.Units(s.Overshoot),
			}
		}
		return route.ListOf(out, len(out)), nil
	}
}

// limitHolder is an object with its stored limits.
type limitHolder struct {
	quota.Holder
	rates, budgets json.RawMessage
}

// holders returns the objects whose limits a request asks for.
func holders(ctx context.Context, c *route.Caller, in *limitsInput) ([]limitHolder, error) {
	switch {
	case in.Owner == store.KeyBudget:
		k, err := keys.Readable(ctx, c, in.ID)
		return []limitHolder{{quota.Holder{Kind: store.KeyBudget, ID: k.ID, Name: k.Name}, k.RateLimits, k.UsageLimits}}, err
	case in.ID == "":
		return nil, route.Invalid("id", "is required for the owner %s", in.Owner)
	case in.Owner == store.WorkspaceBudget:
		if err := checkScope(c, "workspaces.read"); err != nil {
			return nil, err
		}
		w, err := workspaces.Visible(ctx, c, in.ID)
		return []limitHolder{{quota.Holder{Kind: store.WorkspaceBudget, ID: w.ID, Name: w.Name}, w.RateLimits, w.UsageLimits}}, err
	}
	if err := checkScope(c, "providers.read"); err != nil {
		return nil, err
	}
	p, err := providers.Visible(ctx, c, in.ID, in.Workspace)
	if err == nil {
		err = c.CheckPermission(ctx, p.Workspace, access.ViewVirtualKeys)
	}
	if err != nil {
		return nil, err
	}
	list := []limitHolder{{quota.Holder{Kind: store.ProviderBudget, ID: p.ID, Name: p.Name}, p.RateLimits, p.UsageLimits}}
	granted, err := c.DB().IntegrationWorkspaces(ctx, p.Integration)
	for _, g := range granted {
		if g.Workspace == p.Workspace {
			list = append(list, limitHolder{quota.Holder{Kind: store.GrantBudget, ID: store.GrantID(g.Integration, g.Workspace)}, g.RateLimits, g.UsageLimits})
		}
	}
	return list, err
}

func checkScope(c *route.Caller, s access.Scope) error {
	if !c.Allows(s) {
		return apierr.New(apierr.Forbidden, "this key or session lacks the scope %q", string(s)).WithCode("AB03")
	}
	return nil
}
