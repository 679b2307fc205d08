// Package policies implements the control plane's routes for rate-limit and
// usage-limit policies, and for the usage of their counters.
//
// It guarantees that a stored policy is valid, that workspaces see only their own
// policies, and that a policy is changed only by callers of at least the rank of
// whoever set it. It does not decide which policies apply to a request (see policy) or
// enforce them (see the data plane).
package policies

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
)

// Routes are the routes of policies.
type Routes struct {
	// Policies are those that requests apply, Counters those of rate limits. Nil has none.
	Policies func() *policy.Set
	Counters quota.Store
}

// Add adds the routes, and the task that removes the counters of periods that have ended.
func (r Routes) Add(a *route.API) {
	rates := route.Family{Path: "/policies/rate-limits", Tag: "Policies", Scopes: []string{"policies"}, Resource: "policy", Versioned: true}
	usages := rates
	usages.Path = "/policies/usage-limits"
	route.Add(a, rates.Route(http.MethodPost, "", "create-rate-limit-policy", "create", "Create a rate-limit policy"), createRate)
	route.Add(a, rates.Route(http.MethodGet, "", "list-rate-limit-policies", "list", "List rate-limit policies"), listRates)
	route.Add(a, rates.Route(http.MethodGet, "/{policy}", "get-rate-limit-policy", "read", "Read a rate-limit policy"), getRate)
	route.Add(a, rates.Route(http.MethodPut, "/{policy}", "update-rate-limit-policy", "update", "Change a rate-limit policy"), updateRate)
	route.Add(a, rates.Route(http.MethodDelete, "/{policy}", "delete-rate-limit-policy", "delete", "Archive a rate-limit policy"),
		archive(store.RatePolicy))
	route.Add(a, usages.Route(http.MethodPost, "", "create-usage-limit-policy", "create", "Create a usage-limit policy"), createUsage)
	route.Add(a, usages.Route(http.MethodGet, "", "list-usage-limit-policies", "list", "List usage-limit policies"), listUsages)
	route.Add(a, usages.Route(http.MethodGet, "/{policy}", "get-usage-limit-policy", "read", "Read a usage-limit policy"), getUsage)
	route.Add(a, usages.Route(http.MethodPut, "/{policy}", "update-usage-limit-policy", "update", "Change a usage-limit policy"), updateUsage)
	route.Add(a, usages.Route(http.MethodDelete, "/{policy}", "delete-usage-limit-policy", "delete", "Archive a usage-limit policy"),
		archive(store.UsagePolicy))
	rates.AddRestore(a, store.RestorePolicy, nil)
	usages.AddRestore(a, store.RestorePolicy, nil)
	r.addEntities(a, rates, store.RatePolicy, "rate-limit")
	r.addEntities(a, usages, store.UsagePolicy, "usage-limit")
	a.EachMinute(removeEnded(a))
}

// Names of the objects in responses. Creating a policy of either kind returns usageObject.
const (
	rateObject  = "policy_rate_limits"
	usageObject = "policy_usage_limits"
)

type created struct {
	ID       string   `json:"id"`
	Object   string   `json:"object" doc:"Always policy_usage_limits"`
	Warnings []string `json:"warnings,omitempty" doc:"Why the policy can never apply to a request"`
}

type changed struct {
	Warnings []string `json:"warnings,omitempty" doc:"Why the policy can never apply to a request"`
}

type createRateInput struct {
	Body RateBody
}

func createRate(ctx context.Context, c *route.Caller, in *createRateInput) (*created, error) {
	p, err := in.Body.policy()
	if err != nil {
		return nil, err
	}
	return create(ctx, c, p, &in.Body.Common)
}

type createUsageInput struct {
	Body UsageBody
}

func createUsage(ctx context.Context, c *route.Caller, in *createUsageInput) (*created, error) {
	p, err := in.Body.policy(c.Now)
	if err != nil {
		return nil, err
	}
	return create(ctx, c, p, &in.Body.Common)
}

// create stores a new policy.
func create(ctx context.Context, c *route.Caller, p store.Policy, in *Common) (*created, error) {
	workspace, err := place(ctx, c, in.Workspace, in.Organisation)
	if err != nil {
		return nil, err
	}
	p.Organisation, p.Workspace = c.Organisation, workspace
	warnings, err := neverApplies(ctx, c.DB(), &p)
	if err != nil {
		return nil, err
	}
	if err := insert(ctx, c, &p); err != nil {
		return nil, err
	}
	return &created{p.ID, usageObject, warnings}, nil
}

// insert stores a new policy.
func insert(ctx context.Context, c *route.Caller, p *store.Policy) error {
	now := c.Now.Truncate(time.Millisecond)
	p.ID, p.Status, p.CreatedBy, p.CreatedAt, p.UpdatedAt = c.NewID(), store.Active, c.Actor(), now, now
	c.SetAuditSubject(p.Workspace, p.ID)
	return c.Change(ctx, func(tx *store.Tx) error {
		if err := checkChange(ctx, c, tx, limitsOf(p, nil, fields(p))); err != nil {
			return err
		}
		return tx.CreatePolicy(ctx, *p)
	})
}

// Put stores a policy that a file describes instead of before; nil is a new policy. An
// archived one is removed.
func Put(ctx context.Context, c *route.Caller, before *store.Policy, after store.Policy) error {
	if after.Status != store.Archived {
		if err := check(&after); err != nil {
			return err
		}
	}
	if before == nil {
		return insert(ctx, c, &after)
	}
	return change(ctx, c, before, &after, nil)
}

// place returns the workspace id of a new policy, empty for the organisation. Sessions
// and tokens must name both; keys may leave the organisation out, and those of an
// organisation the workspace too.
func place(ctx context.Context, c *route.Caller, workspace, organisation string) (string, error) {
	keyless := c.Type == access.Session || c.Type == access.Token
	switch {
	case keyless && workspace == "":
		return "", route.Invalid("workspace_id", "is required without an API key")
	case keyless && organisation == "":
		return "", route.Invalid("organisation_id", "is required without an API key")
	}
	if err := c.CheckOrganisation(ctx, organisation); err != nil {
		return "", err
	}
	if workspace == "" && c.Workspace == "" {
		return "", nil
	}
	w, err := c.InWorkspace(ctx, workspace)
	return w.ID, err
}

// checkChange returns an error if the caller may not change a policy, and otherwise
// records who did. Members may not change the policies that limit them.
func checkChange(ctx context.Context, c *route.Caller, tx *store.Tx, of limits.Object) error {
	if c.IsPerson() {
		rank, err := c.Rank(ctx, tx.Queries, of.Workspace)
		if err != nil {
			return err
		}
		if rank <= access.RankMember || of.Workspace == "" && rank < access.RankOrganisation {
			return apierr.New(apierr.Forbidden, "members cannot change policies; ask a manager or an admin").WithCode("AB03")
		}
	}
	return limits.Change(ctx, c, tx, of)
}

// limitsOf returns a change of the limits of a policy. Before is nil for a new policy,
// and after for an archived one; see [fields].
func limitsOf(p *store.Policy, before, after limits.Fields) limits.Object {
	return limits.Object{BudgetRef: store.BudgetRef{Kind: store.PolicySpend, ID: p.ID}, Workspace: p.Workspace, Before: before, After: after}
}

// fields returns the limits of a policy for [limits.Change]: one, which is everything
// that decides what the policy allows.
func fields(p *store.Policy) limits.Fields {
	text, err := json.Marshal([]any{p.Conditions, p.Unit, p.Settings})
	if err != nil { // numbers are checked before
		text = []byte(err.Error())
	}
	return limits.Fields{"policy": string(text)}
}

// afterReset returns the limits of a policy after its usage was reset: others than
// before, as whoever may not change a limit may not reset its usage either.
func afterReset(f limits.Fields) limits.Fields {
	return limits.Fields{"policy": f["policy"] + " reset"}
}

// find returns the policy of a request's path. For callers who may not see it, it
// does not exist.
func find(ctx context.Context, c *route.Caller, kind, id string) (store.Policy, error) {
	none := route.NotFound("policy", "policy", id)
	p, err := c.DB().Policy(ctx, c.Organisation, kind, id)
	if err := c.CheckFound(p.Workspace, p.ID, err, none); err != nil {
		return p, err
	}
	if c.Workspace != "" && !c.Allows(access.ScopeAll) && p.Workspace != c.Workspace {
		return store.Policy{}, none
	}
	if c.Type != access.Session {
		return p, nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	if err == nil && m.Role != "owner" && m.Role != "admin" && (p.Workspace == "" || m.RoleIn(p.Workspace) == "") {
		err = none
	}
	return p, err
}

// CheckVisible returns an error unless the caller may see an active policy with this
// id.
func CheckVisible(ctx context.Context, c *route.Caller, id string) error {
	_, err := findActive(ctx, c, store.UsagePolicy, id)
	if apierr.IsNotFound(err) {
		_, err = findActive(ctx, c, store.RatePolicy, id)
	}
	return err
}

// findActive is [find] for routes that need an active policy.
func findActive(ctx context.Context, c *route.Caller, kind, id string) (store.Policy, error) {
	p, err := find(ctx, c, kind, id)
	if err == nil && p.Status != store.Active {
		err = route.NotFound("policy", "policy", id)
	}
	return p, err
}

// change stores a changed policy, or returns a conflict if it was changed after the
// request read it. A reset, if there is one, is made in the same transaction.
func change(ctx context.Context, c *route.Caller, before, after *store.Policy, reset func(*store.Tx) error) error {
	read := before.UpdatedAt
	after.UpdatedAt = c.NextUpdateTime(read)
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Policy(ctx, after.Organisation, after.Kind, after.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		own := fields(after)
		if after.Status == store.Archived {
			own = nil
		}
		if reset != nil {
			own = afterReset(own)
		}
		if err := checkChange(ctx, c, tx, limitsOf(after, fields(before), own)); err != nil {
			return err
		}
		if before.Settings.Value != after.Settings.Value || before.Settings.AlertThreshold != after.Settings.AlertThreshold {
			if err := tx.ClearPolicyAlerts(ctx, after.ID); err != nil {
				return err
			}
		}
		if reset != nil {
			if err := reset(tx); err != nil {
				return err
			}
		}
		return tx.UpdatePolicy(ctx, *after)
	})
}

type oneInput struct {
	Policy string `path:"policy" format:"uuid"`
}

// archive returns the handler that archives policies of a kind.
func archive(kind string) func(context.Context, *route.Caller, *oneInput) (*route.Empty, error) {
	return func(ctx context.Context, c *route.Caller, in *oneInput) (*route.Empty, error) {
		p, err := findActive(ctx, c, kind, in.Policy)
		if err != nil {
			return nil, err
		}
		after := p
		after.Status = store.Archived
		return &route.Empty{}, change(ctx, c, &p, &after, nil)
	}
}

type updateRateInput struct {
	Policy string `path:"policy" format:"uuid"`
	Body   struct {
		Update
		Unit  string `json:"unit,omitempty" enum:"rpm,rph,rpd,rpw"`
		Value Number `json:"value,omitempty"`
	}
}

func updateRate(ctx context.Context, c *route.Caller, in *updateRateInput) (*changed, error) {
	before, err := findActive(ctx, c, store.RatePolicy, in.Policy)
	if err != nil {
		return nil, err
	}
	after, b := before, &in.Body
	if b.Unit != "" {
		after.Unit = b.Unit
	}
	if b.Value != "" {
		after.Settings.Value = b.Value.number()
	}
	if err := b.Update.apply(&after); err != nil {
		return nil, err
	}
	return save(ctx, c, &before, &after, nil)
}

// save checks a changed policy and stores it.
func save(ctx context.Context, c *route.Caller, before, after *store.Policy, reset func(*store.Tx) error) (*changed, error) {
	if err := check(after); err != nil {
		return nil, err
	}
	warnings, err := neverApplies(ctx, c.DB(), after)
	if err != nil {
		return nil, err
	}
	return &changed{warnings}, change(ctx, c, before, after, reset)
}

type updateUsageInput struct {
	Policy string `path:"policy" format:"uuid"`
	Body   struct {
		Update
		CreditLimit       Number                 `json:"credit_limit,omitempty"`
		AlertThreshold    route.Optional[Number] `json:"alert_threshold,omitempty" doc:"null removes it"`
		AlertPercent      *float64               `json:"alert_threshold_percent,omitempty" minimum:"1" maximum:"99" doc:"alert_threshold in per cent of credit_limit; it changes with the limit"`
		PeriodicReset     route.Optional[string] `json:"periodic_reset,omitempty" enum:"monthly,weekly"`
		PeriodicResetDays route.Optional[int]    `json:"periodic_reset_days,omitempty" minimum:"1" maximum:"365"`
		NextUsageResetAt  route.Optional[string] `json:"next_usage_reset_at,omitempty" maxLength:"40"`
		TimeZone          route.Optional[string] `json:"time_zone,omitempty" maxLength:"64" doc:"null means UTC"`
		OnBudgetEnd       string                 `json:"on_budget_end,omitempty" enum:"finish,stop"`
		ResetFor          string                 `json:"reset_usage_for_value,omitempty" maxLength:"1024" doc:"Value key whose usage is reset to zero"`
	}
}

func updateUsage(ctx context.Context, c *route.Caller, in *updateUsageInput) (*changed, error) {
	before, err := findActive(ctx, c, store.UsagePolicy, in.Policy)
	if err != nil {
		return nil, err
	}
	after, b := before, &in.Body
	s := &after.Settings
	if b.CreditLimit != "" {
		s.Value = b.CreditLimit.number()
	}
	percent := b.AlertPercent
	if b.AlertThreshold.Set {
		s.AlertThreshold = b.AlertThreshold.Value.number()
	} else if percent == nil {
		percent = s.AlertPercent
	}
	if err := setPercent(s, percent, b.AlertThreshold.Set); err != nil {
		return nil, err
	}
	s.PeriodicReset = b.PeriodicReset.Or(s.PeriodicReset)
	s.PeriodicResetDays = b.PeriodicResetDays.Or(s.PeriodicResetDays)
	s.TimeZone = b.TimeZone.Or(s.TimeZone)
	if b.NextUsageResetAt.Set {
		if s.NextReset, err = parseReset(b.NextUsageResetAt.Value, s.TimeZone, c.Now); err != nil {
			return nil, err
		}
	}
	if b.OnBudgetEnd != "" {
		s.OnBudgetEnd = b.OnBudgetEnd
	}
	if err := b.Update.apply(&after); err != nil {
		return nil, err
	}
	if b.ResetFor == "" {
		return save(ctx, c, &before, &after, nil)
	}
	if err := c.AwaitSpending(ctx); err != nil {
		return nil, err
	}
	return save(ctx, c, &before, &after, func(tx *store.Tx) error {
		return tx.ResetPolicyEntity(ctx, after.ID, policy.EntityID(b.ResetFor), c.Now)
	})
}
