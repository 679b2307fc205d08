package policies

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Item holds the fields that policies of both kinds have in responses.
type Item struct {
	ID           string      `json:"id"`
	Object       string      `json:"object"`
	Name         string      `json:"name"`
	Description  string      `json:"description"`
	Conditions   []Condition `json:"conditions"`
	GroupBy      []Group     `json:"group_by"`
	Type         string      `json:"type"`
	Target       string      `json:"target" doc:"llm or mcp_tools"`
	OnStoreDown  string      `json:"on_store_down"`
	Loop         *Loop       `json:"loop_detection"`
	Workspace    *string     `json:"workspace_id" doc:"null if the policy applies to all workspaces"`
	Organisation string      `json:"organisation_id"`
	Status       string      `json:"status"`
	CreatedAt    route.Time  `json:"created_at"`
	UpdatedAt    route.Time  `json:"last_updated_at"`
}

// RateResponse is a rate-limit policy.
type RateResponse struct {
	Item
	Unit  string `json:"unit"`
	Value Number `json:"value"`
}

// UsageResponse is a usage-limit policy.
type UsageResponse struct {
	Item
	CreditLimit       Number           `json:"credit_limit"`
	AlertThreshold    *Number          `json:"alert_threshold"`
	AlertPercent      *float64         `json:"alert_threshold_percent,omitempty" doc:"If the threshold was set in per cent"`
	PeriodicReset     *string          `json:"periodic_reset"`
	PeriodicResetDays *int             `json:"periodic_reset_days"`
	NextUsageResetAt  route.Time       `json:"next_usage_reset_at"`
	TimeZone          string           `json:"time_zone,omitempty"`
	OnBudgetEnd       string           `json:"on_budget_end"`
	Usage             map[string]Usage `json:"value_key_usage_map,omitempty" doc:"With include_usage=true"`
}

// Usage is the usage of a value key.
type Usage struct {
	Current       float64 `json:"current_usage"`
	Status        string  `json:"status" doc:"active or exhausted"`
	ThresholdSent bool    `json:"is_threshold_alerts_sent"`
	ExhaustedSent bool    `json:"is_exhausted_alerts_sent"`
}

func itemOf(p *store.Policy, object string) Item {
	i := Item{
		ID: p.ID, Object: object, Name: p.Name, Description: p.Description, Conditions: make([]Condition, len(p.Conditions)), Type: p.Type,
		Target: p.Settings.Target.Name(), OnStoreDown: p.Settings.OnStoreDown,
		Workspace: route.OrNull(p.Workspace), Organisation: p.Organisation, Status: p.Status,
		CreatedAt: route.Time(p.CreatedAt), UpdatedAt: route.Time(p.UpdatedAt),
	}
	if i.OnStoreDown == "" {
		i.OnStoreDown = "cached"
	}
	for n, c := range p.Conditions {
		i.Conditions[n] = Condition{Key: c.Key, Value: Values(c.Value)}
		if !c.Excludes.IsZero() {
			v := Values(c.Excludes)
			i.Conditions[n].Excludes = &v
		}
	}
	for _, name := range p.GroupBy {
		i.GroupBy = append(i.GroupBy, Group{name})
	}
	if l := Loop(p.Settings.Loop); l != (Loop{}) {
		i.Loop = &l
	}
	return i
}

func rateResponse(p store.Policy) RateResponse {
	return RateResponse{Item: itemOf(&p, rateObject), Unit: p.Unit, Value: Number(p.Settings.Value)}
}

// usageResponse returns the form of a usage limit at the time of c.
func usageResponse(c *route.Caller) func(store.Policy) UsageResponse {
	return func(p store.Policy) UsageResponse {
		s := &p.Settings
		r := UsageResponse{Item: itemOf(&p, usageObject), CreditLimit: Number(s.Value),
			PeriodicReset: route.OrNull(s.PeriodicReset), TimeZone: s.TimeZone, OnBudgetEnd: s.OnBudgetEnd, AlertPercent: s.AlertPercent}
		if r.OnBudgetEnd == "" {
			r.OnBudgetEnd = "finish"
		}
		if s.AlertThreshold != "" {
			alert := Number(s.AlertThreshold)
			r.AlertThreshold = &alert
		}
		if s.PeriodicResetDays != 0 {
			r.PeriodicResetDays = &s.PeriodicResetDays
		}
		_, end := p.Rule(nil).Period.At(c.Now)
		r.NextUsageResetAt = route.Time(end)
		return r
	}
}

// ListInput selects policies in a list.
type ListInput struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	route.Selection
}

// list returns a page of the policies that the caller may see.
func list(ctx context.Context, c *route.Caller, in *ListInput, f store.PolicyFilter) ([]store.Policy, int, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, 0, err
	}
	f.Organisation, f.Workspace = c.Organisation, workspace
	p, err := in.Rows(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	return c.DB().Policies(ctx, f, p)
}

type listRatesInput struct {
	ListInput
	Type string `query:"type" enum:"requests,tokens"`
	Unit string `query:"unit" enum:"rpm,rph,rpd,rpw"`
}

func listRates(ctx context.Context, c *route.Caller, in *listRatesInput) (*route.List[RateResponse], error) {
	found, total, err := list(ctx, c, &in.ListInput, store.PolicyFilter{Kind: store.RatePolicy, Type: in.Type, Unit: in.Unit})
	return route.Listing(found, total, err, rateResponse)
}

type listUsagesInput struct {
	ListInput
	Type string `query:"type" enum:"cost,tokens,requests,seconds"`
}

func listUsages(ctx context.Context, c *route.Caller, in *listUsagesInput) (*route.List[UsageResponse], error) {
	found, total, err := list(ctx, c, &in.ListInput, store.PolicyFilter{Kind: store.UsagePolicy, Type: in.Type})
	return route.Listing(found, total, err, usageResponse(c))
}

// GetInput names a policy and its status.
type GetInput struct {
	Policy string `path:"policy" format:"uuid"`
	Status string `query:"status" enum:"active,archived" default:"active"`
}

// findWith returns a policy if it has the status that the request names.
func findWith(ctx context.Context, c *route.Caller, kind string, in *GetInput) (store.Policy, error) {
	p, err := find(ctx, c, kind, in.Policy)
	if err == nil && p.Status != in.Status {
		err = apierr.New(apierr.NotFound, "policy %q is %s; send status=%s to read it", in.Policy, p.Status, p.Status).WithParam("status")
	}
	return p, err
}

func getRate(ctx context.Context, c *route.Caller, in *GetInput) (*RateResponse, error) {
	p, err := findWith(ctx, c, store.RatePolicy, in)
	return route.ItemOf(p, err, rateResponse)
}

type getUsageInput struct {
	GetInput
	IncludeUsage bool `query:"include_usage"`
}

func getUsage(ctx context.Context, c *route.Caller, in *getUsageInput) (*UsageResponse, error) {
	p, err := findWith(ctx, c, store.UsagePolicy, &in.GetInput)
	r, err := route.ItemOf(p, err, usageResponse(c))
	if err != nil || !in.IncludeUsage {
		return r, err
	}
	entities, err := usages(ctx, c, &p)
	if err != nil {
		return nil, err
	}
	sent, err := c.DB().PolicyAlerts(ctx, p.ID)
	r.Usage = make(map[string]Usage, len(entities))
	for _, e := range entities {
		warned := sent[e.counter]
		r.Usage[e.ValueKey] = Usage{e.Current, e.Status, warned[store.AlertThreshold], warned[store.AlertExhausted]}
	}
	return r, err
}
