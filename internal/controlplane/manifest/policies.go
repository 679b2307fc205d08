package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/policy"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var policyKind = kind[settings.LimitPolicy, store.Policy]{
	section: "policies", name: "policy",
	entries: func(s *settings.Settings) *[]settings.LimitPolicy { return &s.Policies },
	rows:    func(s *state) []store.Policy { return s.policies },
	key:     func(v *settings.LimitPolicy) entryID { return entryID{v.Workspace, v.Name} },
	rowKey:  func(s *state, row *store.Policy) entryID { return entryID{s.slugs[row.Workspace], row.Name} },
	read:    (*reader).limitPolicy, put: (*plan).limitPolicy,
	drop: func(p *plan, row store.Policy) step {
		after := row
		after.Status = store.Archived
		return p.putPolicy("", &row, after)
	},
}

// putPolicy returns the step that stores a policy, found at path, instead of before.
func (p *plan) putPolicy(path string, before *store.Policy, after store.Policy) step {
	return func(ctx context.Context, c *route.Caller) error { return policies.Put(ctx, c, before, after) }
}

// readPolicies returns the active policies of an organisation that a file can identify:
// those with a name that no other in the workspace has.
func readPolicies(ctx context.Context, q store.Queries, organisation string) ([]store.Policy, error) {
	list, err := q.AllPolicies(ctx, organisation)
	list = slices.DeleteFunc(list, func(p store.Policy) bool { return p.Status != store.Active || p.Name == "" })
	count := make(map[entryID]int)
	for _, p := range list {
		count[entryID{p.Workspace, p.Name}]++
	}
	return slices.DeleteFunc(list, func(p store.Policy) bool { return count[entryID{p.Workspace, p.Name}] > 1 }), err
}

func (p *plan) limitPolicy(path string, want *settings.LimitPolicy, old *store.Policy, _ []string) (step, error) {
	row := rowOr(old, store.Policy{Organisation: p.state.organisation.ID, Name: want.Name, Kind: want.Kind,
		Type: want.Type, GroupBy: want.GroupBy, Settings: store.PolicySettings{Target: policy.Target(want.Target).Stored()}})
	place, err := p.place(path, want.Workspace)
	if err != nil {
		return nil, err
	}
	target := row.Settings.Target
	if row.Kind != want.Kind || row.Type != want.Type || target != policy.Target(want.Target).Stored() ||
		!slices.Equal(row.GroupBy, want.GroupBy) {
		return nil, p.file.ErrorAt(path, errors.New("kind, type, target and group_by of a policy cannot be changed; give it another name"))
	}
	if err := checkPolicyKind(want); err != nil {
		return nil, p.file.ErrorAt(path, err)
	}
	row.Workspace, row.Description, row.Unit = place, want.Description, want.Unit
	row.Conditions = nil
	for _, c := range want.Conditions {
		row.Conditions = append(row.Conditions, policy.Condition{Key: c.Key, Value: p.values(c.Key, c.Value),
			Excludes: p.values(c.Key, c.Excludes)})
	}
	row.Settings = store.PolicySettings{
		Value: number(want.Value), AlertThreshold: number(want.AlertThreshold), AlertPercent: want.AlertPercent,
		PeriodicReset:     want.PeriodicReset,
		PeriodicResetDays: want.PeriodicResetDays,
		TimeZone:          want.TimeZone, OnBudgetEnd: want.OnBudgetEnd, OnStoreDown: want.OnStoreDown, Target: target,
	}
	if want.Kind == store.UsagePolicy {
		row.Settings.Value = number(want.CreditLimit)
	}
	if want.AlertPercent != nil && want.CreditLimit != nil {
		row.Settings.AlertThreshold = number(new(limits.PartOf(*want.CreditLimit, *want.AlertPercent)))
	}
	if want.Loop != nil {
		row.Settings.Loop = policy.Loop(*want.Loop)
	}
	if want.FirstReset != "" {
		at, err := limits.ParseReset(want.FirstReset, want.TimeZone)
		if err != nil {
			return nil, p.file.ErrorAt(path+".next_usage_reset_at",
				errors.New("must be a time or day in ISO 8601 format, such as 2026-06-01T00:00:00Z"))
		}
		row.Settings.NextReset = at
	}
	return p.putPolicy(path, old, row), nil
}

// checkPolicyKind returns an error for fields that the kind of a policy does not have.
func checkPolicyKind(v *settings.LimitPolicy) error {
	rate := v.Kind == store.RatePolicy
	for _, f := range []struct {
		name       string
		set, wrong bool
	}{
		{"unit", v.Unit != "", !rate}, {"value", v.Value != nil, !rate},
		{"credit_limit", v.CreditLimit != nil, rate}, {"alert_threshold", v.AlertThreshold != nil, rate},
		{"alert_threshold_percent", v.AlertPercent != nil, rate},
		{"periodic_reset", v.PeriodicReset != "", rate}, {"periodic_reset_days", v.PeriodicResetDays != 0, rate},
		{"next_usage_reset_at", v.FirstReset != "", rate}, {"on_budget_end", v.OnBudgetEnd != "", rate},
		{"time_zone", v.TimeZone != "", rate},
	} {
		if f.set && f.wrong {
			return errors.New(f.name + " does not belong to a policy of the kind " + v.Kind)
		}
	}
	switch {
	case rate && (v.Type == "cost" || v.Type == "seconds"):
		return errors.New("type must be requests or tokens in a policy of the kind rate")
	case rate && v.Unit == "":
		return errors.New("unit is required in a policy of the kind rate")
	case v.AlertPercent != nil && v.AlertThreshold != nil:
		return errors.New("alert_threshold_percent cannot be combined with alert_threshold")
	case len(v.Conditions) == 0 || len(v.GroupBy) == 0:
		return errors.New("conditions and group_by must not be empty")
	}
	return nil
}

// values returns the values of a condition with ids of workspaces instead of slugs.
func (p *plan) values(key string, list []string) policy.Values {
	if list == nil {
		return policy.Values{}
	}
	out := slices.Clone(list)
	for i, v := range out {
		if id, ok := p.names.workspaces[v]; ok && key == policy.KeyWorkspace {
			out[i] = id
		}
	}
	return policy.Values{List: out, Array: true}
}

// values returns the values of a condition with slugs of workspaces instead of ids.
func (r *reader) values(key string, v policy.Values) []string {
	out := slices.Clone(v.List)
	for i, id := range out {
		if slug, ok := r.workspaces[id]; ok && key == policy.KeyWorkspace {
			out[i] = slug
		}
	}
	return out
}

func (r *reader) limitPolicy(row *store.Policy) (v settings.LimitPolicy, ok bool, err error) {
	slug, placed := r.place(row.Workspace)
	if !placed {
		return v, false, nil
	}
	s := &row.Settings
	v = settings.LimitPolicy{
		Name: row.Name, Workspace: slug, Kind: row.Kind, Description: row.Description, GroupBy: row.GroupBy, Type: row.Type, Unit: row.Unit,
		AlertThreshold: amount(s.AlertThreshold), AlertPercent: s.AlertPercent,
		PeriodicReset: s.PeriodicReset, PeriodicResetDays: s.PeriodicResetDays,
		TimeZone: s.TimeZone, OnBudgetEnd: s.OnBudgetEnd, OnStoreDown: s.OnStoreDown, Target: string(s.Target),
	}
	if v.Value = amount(s.Value); row.Kind == store.UsagePolicy {
		v.Value, v.CreditLimit = nil, v.Value
	}
	if v.AlertPercent != nil {
		v.AlertThreshold = nil // it follows
	}
	for _, c := range row.Conditions {
		v.Conditions = append(v.Conditions, settings.PolicyCondition{Key: c.Key, Value: r.values(c.Key, c.Value),
			Excludes: r.values(c.Key, c.Excludes)})
	}
	if !s.NextReset.IsZero() {
		v.FirstReset = s.NextReset.UTC().Format(time.RFC3339Nano)
	}
	if s.Loop != (policy.Loop{}) {
		loop := settings.PolicyLoop(s.Loop)
		v.Loop = &loop
	}
	return v, true, nil
}

// number returns an amount in stored form, empty for nil.
func number(n *float64) json.Number {
	if n == nil {
		return ""
	}
	return json.Number(strconv.FormatFloat(*n, 'f', -1, 64))
}

// amount returns a stored amount, nil for none.
func amount(n json.Number) *float64 {
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	return &f
}
