package controlplane

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/members"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
)

// addLimitStates adds the route that reads limits and their use.
func addLimitStates(a *route.API, p policies.Routes) {
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/limits", Name: "list-limits", Tag: "Limits",
		Summary: "List the limits of a key, workspace, provider, integration or policy, and what is used of them"}, listLimits(p))
}

type limitsInput struct {
	Owner     string `query:"owner" enum:"key,user,workspace,provider,integration,policy" default:"key"`
	ID        string `query:"id" maxLength:"320" doc:"Id, slug of a workspace, provider or integration, or e-mail address of a user. Without one, the key of the request or its user."`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug of the provider's workspace, which organisation keys need for a slug, or of one that has the integration"`
	route.LongPaging
}

// limitState is a limit and its use. Amounts are requests, tokens or dollars.
type limitState struct {
	Owner     string     `json:"owner" doc:"key, user, workspace, provider, grant (an integration in a workspace), policy, or session (a policy that limits sessions)"`
	ID        string     `json:"id"`
	ValueKey  *string    `json:"value_key" doc:"Of a policy's counter, else null"`
	Type      string     `json:"type" doc:"requests, tokens or cost"`
	Unit      *string    `json:"unit" doc:"rps, rpm, rph, rpd, rpw or concurrent; null for a budget"`
	Limit     float64    `json:"limit"`
	Used      float64    `json:"used"`
	Reserved  float64    `json:"reserved" doc:"Reserved by requests in progress"`
	Remaining float64    `json:"remaining"`
	Reset     route.Time `json:"reset_at" doc:"Null if never"`
	AtMost    *float64   `json:"overshoot_at_most" doc:"Amount by which the counters of several gateways together may exceed the limit; null while the store of counters fails and each gateway decides on its own"`
}

// listLimits returns the handler of GET /limits. Everyone may read the limits of the key
// of the request, and those of other objects with the permission to read the object.
func listLimits(p policies.Routes) func(context.Context, *route.Caller, *limitsInput) (*route.List[limitState], error) {
	return func(ctx context.Context, c *route.Caller, in *limitsInput) (*route.List[limitState], error) {
		var all []*quota.Limit
		var keys []string // value keys of a policy's counters
		var err error
		if in.Owner == store.KeyBudget && in.ID == "" && c.Type == access.Token {
			all = c.Limits
		} else if in.Owner == "policy" {
			all, keys, err = policyLimits(ctx, p, c, in.ID)
		} else {
			all, err = storedLimits(ctx, c, in)
		}
		if err != nil {
			return nil, err
		}
		states := make([]quota.State, len(all))
		if p.Counters != nil {
			if states, err = p.Counters.Read(ctx, c.Now, all); err != nil {
				return nil, apierr.New(apierr.Unavailable, "the counters of limits cannot be read; try again shortly").WithCause(err)
			}
		}
		out := make([]limitState, len(all))
		for i, l := range all {
			s, key := states[i], ""
			if keys != nil {
				key = keys[i]
			}
			out[i] = limitState{
				Owner: l.Holder.Kind, ID: l.Holder.ID, ValueKey: route.OrNull(key), Type: l.Measure.String(),
				Unit: route.OrNull(l.Unit()), Limit: l.Units(l.Max - l.Base),
				Used: l.Units(s.Used), Reserved: l.Units(s.Held), Remaining: l.Units(s.Left(l)), Reset: route.Time(s.Reset),
				AtMost: l.OvershootUnits(s),
			}
		}
		return route.PageOf(out, in.LongPaging, nil, func(s limitState) limitState { return s })
	}
}

// mostCounters is how many counters of a policy are listed; its entities have pages.
const mostCounters = 500

// policyLimits returns the limits of the counters of a policy that this gateway has used
// lately, and their value keys.
func policyLimits(ctx context.Context, p policies.Routes, c *route.Caller, id string) (list []*quota.Limit, keys []string, err error) {
	if id == "" {
		return nil, nil, route.Invalid("id", "is required for the owner policy")
	}
	if err := checkScope(c, "policies.read"); err != nil {
		return nil, nil, err
	}
	if err := policies.CheckVisible(ctx, c, id); err != nil || p.Policies == nil {
		return nil, nil, err
	}
	known := p.Policies().Limits(id, c.Now)
	keys = slices.Sorted(maps.Keys(known))
	keys = keys[:min(len(keys), mostCounters)]
	for _, k := range keys {
		list = append(list, known[k])
	}
	return list, keys, nil
}

// storedLimits returns the limits of the objects that a request asks for.
func storedLimits(ctx context.Context, c *route.Caller, in *limitsInput) (all []*quota.Limit, err error) {
	held, err := holders(ctx, c, in)
	if err != nil {
		return nil, err
	}
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
	return all, nil
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
	case in.Owner == store.UserBudget:
		u, err := members.Readable(ctx, c, in.ID)
		return []limitHolder{{quota.Holder{Kind: store.UserBudget, ID: store.UserID(c.Organisation, u.ID), Name: u.Email},
			u.RateLimits, u.UsageLimits}}, err
	case in.ID == "":
		return nil, route.Invalid("id", "is required for the owner %s", in.Owner)
	case in.Owner == store.WorkspaceBudget:
		if err := checkScope(c, "workspaces.read"); err != nil {
			return nil, err
		}
		w, err := workspaces.Visible(ctx, c, in.ID)
		return []limitHolder{{quota.Holder{Kind: store.WorkspaceBudget, ID: w.ID, Name: w.Name}, w.RateLimits, w.UsageLimits}}, err
	}
	if in.Owner == "integration" {
		granted, err := integrations.Visible(ctx, c, in.ID, in.Workspace)
		var list []limitHolder
		for _, g := range granted {
			list = append(list, grantHolder(g))
		}
		return list, err
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
			list = append(list, grantHolder(g))
		}
	}
	return list, err
}

func grantHolder(g store.IntegrationWorkspace) limitHolder {
	return limitHolder{quota.Holder{Kind: store.GrantBudget, ID: store.GrantID(g.Integration, g.Workspace)}, g.RateLimits, g.UsageLimits}
}

func checkScope(c *route.Caller, s access.Scope) error {
	if !c.Allows(s) {
		return apierr.New(apierr.Forbidden, "this key or session lacks the scope %q", string(s)).WithCode("AB03")
	}
	return nil
}
