package store

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Kinds of policies.
const (
	RatePolicy  = "rate"
	UsagePolicy = "usage"
)

// PolicySpend is the kind of spend that is counted for policies, by the name of the
// counter after "policy/".
const PolicySpend = "policy"

// Policy is a rate-limit or usage-limit policy.
type Policy struct {
	ID           string
	Organisation string
	Workspace    string // id; empty for all workspaces of the organisation
	Kind         string // RatePolicy or UsagePolicy
	Name         string
	Description  string
	Conditions   []policy.Condition
	GroupBy      []string
	Type         string // requests or tokens; for a usage limit also cost or seconds
	Unit         string // of a rate limit: rpm, rph, rpd or rpw
	Settings     PolicySettings
	Status       string // Active or Archived
	CreatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// PolicySettings are the values of a policy, stored as JSON.
type PolicySettings struct {
	Value json.Number `json:"value"` // of a rate limit, or the credit limit: dollars, tokens, requests or seconds

	AlertThreshold    json.Number `json:"alert_threshold,omitempty"`
	AlertPercent      *float64    `json:"alert_threshold_percent,omitempty"` // of Value, from which AlertThreshold was calculated
	PeriodicReset     string      `json:"periodic_reset,omitempty"`
	PeriodicResetDays int         `json:"periodic_reset_days,omitempty"`
	TimeZone          string      `json:"time_zone,omitempty"`          // IANA name; empty is UTC
	NextReset         time.Time   `json:"next_usage_reset_at,omitzero"` // as set; the first reset
	OnBudgetEnd       string      `json:"on_budget_end,omitempty"`      // finish (empty) or stop
	OnStoreDown       string      `json:"on_store_down,omitempty"`      // open, closed or cached (empty)
	Loop              policy.Loop `json:"loop_detection,omitzero"`

	Target policy.Target `json:"target,omitempty"` // mcp_tools, or empty for llm; never changed
}

var policyTable = table[Policy]{
	name: "policies", row: "policy", order: "id DESC", fixed: "id organisation_id workspace_id kind type group_by created_by created_at",
	columns: func(p *Policy) []column {
		return []column{
			{"id", &p.ID}, {"organisation_id", &p.Organisation}, {"workspace_id", &p.Workspace}, {"kind", &p.Kind},
			{"name", &p.Name}, {"description", &p.Description}, {"conditions", array(&p.Conditions)}, {"group_by", array(&p.GroupBy)},
			{"type", &p.Type}, {"unit", &p.Unit}, {"settings", object(&p.Settings)}, {"status", &p.Status},
			{"created_by", &p.CreatedBy}, {"created_at", &p.CreatedAt}, {"updated_at", &p.UpdatedAt},
		}
	},
}

// PolicyFilter selects policies. Empty fields select all.
type PolicyFilter struct {
	Organisation string
	Workspace    string // and none of the organisation as a whole
	Kind         string
	Type, Unit   string
}

// Policies returns a page of the policies that a filter selects, newest first, and the
// number of all.
func (q Queries) Policies(ctx context.Context, f PolicyFilter, p Page) (list []Policy, total int, err error) {
	return policyTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND kind = $3 AND `+p.state(`status = 'active'`)+`
			AND ($4 = '' OR type = $4) AND ($5 = '' OR unit = $5)`,
		f.Organisation, f.Workspace, f.Kind, f.Type, f.Unit)
}

// Policy returns the policy of an organisation with this kind and id.
func (q Queries) Policy(ctx context.Context, organisation, kind, id string) (Policy, error) {
	return policyTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND kind = $2 AND id = $3`, organisation, kind, id)
}

// AllPolicies returns all policies of an organisation, including archived ones.
func (q Queries) AllPolicies(ctx context.Context, organisation string) ([]Policy, error) {
	return policyTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id`, organisation)
}

// ActivePolicies returns the active policies of all organisations.
func (q Queries) ActivePolicies(ctx context.Context) ([]Policy, error) {
	return policyTable.list(ctx, q.Reader, `
		WHERE status = 'active'
		ORDER BY id`)
}

// PoliciesOfCounters returns the active policies to which counters belong, named as in
// spend of the kind PolicySpend.
func (q Queries) PoliciesOfCounters(ctx context.Context, counters []string) (list []Policy, err error) {
	ids := make(map[string]bool)
	for _, c := range counters {
		id, _, _ := strings.Cut(c, "/")
		ids[id] = true
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(ids)), spentAtOnce) {
		found, err := policyTable.list(ctx, q.Reader, `
		WHERE status = 'active' AND id IN `+placeholders(0, len(part)), toArgs(part)...)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// CreatePolicy stores a policy.
func (tx *Tx) CreatePolicy(ctx context.Context, p Policy) error {
	return policyTable.insert(ctx, tx, p)
}

// UpdatePolicy stores the changed fields of a policy.
func (tx *Tx) UpdatePolicy(ctx context.Context, p Policy) error {
	return policyTable.update(ctx, tx, p)
}

// PolicyResets returns the numbers of resets of all active policies by the id of the
// policy and of the entity.
func (q Queries) PolicyResets(ctx context.Context) (map[string]map[string]int64, error) {
	return q.policyResets(ctx, `
		WHERE policy_id IN (SELECT id FROM policies WHERE status = 'active')`)
}

// ResetsOfPolicy returns the numbers of resets of one policy by the id of the entity.
func (q Queries) ResetsOfPolicy(ctx context.Context, id string) (map[string]int64, error) {
	all, err := q.policyResets(ctx, `
		WHERE policy_id = $1`, id)
	return all[id], err
}

func (q Queries) policyResets(ctx context.Context, where string, args ...any) (map[string]map[string]int64, error) {
	const text = `
		SELECT policy_id, entity_id, generation
		FROM policy_resets`
	out := make(map[string]map[string]int64)
	_, err := sqlrow.List(ctx, q.Reader, "resets of policies", text+where, func(r sqlrow.Scanner) (none struct{}, err error) {
		var id, entity string
		var n int64
		err = r.Scan(&id, &entity, &n)
		if out[id] == nil {
			out[id] = make(map[string]int64)
		}
		out[id][entity] = n
		return none, err
	}, args...)
	return out, err
}

// ResetPolicyEntity increases the generation of a policy's entity, so that its counters
// start at zero.
func (tx *Tx) ResetPolicyEntity(ctx context.Context, id, entity string, now time.Time) error {
	const text = `
		INSERT INTO policy_resets (policy_id, entity_id, generation, reset_at)
		VALUES ($1, $2, 1, $3)
		ON CONFLICT (policy_id, entity_id) DO UPDATE
		SET generation = policy_resets.generation + 1, reset_at = excluded.reset_at`
	return tx.write(ctx, journal.PolicyResets, "reset of a policy", text, id, entity, millis(now))
}

// PolicySpending returns what was spent under a policy by the rest of the counter:
// period, generation and value key, separated by slashes.
func (q Queries) PolicySpending(ctx context.Context, id string) (map[string]reqlog.Spend, error) {
	const text = `
		SELECT id, attempts, cost, tokens, unknown, unpriced
		FROM spending
		WHERE kind = 'policy' AND SUBSTR(id, 1, 36) = $1`
	out := make(map[string]reqlog.Spend)
	_, err := sqlrow.List(ctx, q.Reader, "what was spent", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var counter string
		var s reqlog.Spend
		err = r.Scan(&counter, &s.Attempts, &s.Cost, &s.Tokens, &s.Unknown, &s.Unpriced)
		out[strings.TrimPrefix(counter, id+"/")] = s
		return none, err
	}, id)
	return out, err
}

// DeletePolicySpending deletes what was spent under a policy in periods other than one,
// and before resets, and the warnings about other periods.
func (db *DB) DeletePolicySpending(ctx context.Context, id, period string) error {
	const alerts = `
		DELETE FROM policy_alerts
		WHERE policy_id = $1 AND SUBSTR(counter, 1, $2) <> $3`
	const text = `
		DELETE FROM spending
		WHERE kind = 'policy' AND SUBSTR(id, 1, 36) = $1 AND SUBSTR(id, 1, $2) <> $3`
	from := id + "/" + period + "/"
	if err := db.deleteReset(ctx, id); err != nil {
		return db.ClientError(err)
	}
	if err := db.exec(ctx, "alerts of policies", alerts, id, len(period)+1, period+"/"); err != nil {
		return db.ClientError(err)
	}
	return db.ClientError(db.exec(ctx, "what was spent", text, id, len(from), from))
}

// deleteReset deletes what was spent before the last reset of an entity that was used
// since. The row of one that was not used since shows that it exists.
func (db *DB) deleteReset(ctx context.Context, id string) error {
	resets, err := db.Background().ResetsOfPolicy(ctx, id)
	if err != nil || len(resets) == 0 {
		return err
	}
	spent, err := db.Background().PolicySpending(ctx, id)
	if err != nil {
		return err
	}
	latest := make(map[[2]string]int) // by period and value key
	each := func(f func(counter string, of [2]string, generation int)) {
		for counter := range spent {
			if parts := strings.SplitN(counter, "/", 3); len(parts) == 3 {
				n, _ := strconv.Atoi(parts[1])
				f(counter, [2]string{parts[0], parts[2]}, n)
			}
		}
	}
	each(func(_ string, of [2]string, n int) { latest[of] = max(latest[of], n) })
	const text = `
		DELETE FROM spending
		WHERE kind = 'policy' AND id = $1`
	each(func(counter string, of [2]string, n int) {
		if n < latest[of] && err == nil {
			err = db.exec(ctx, "what was spent", text, id+"/"+counter)
		}
	})
	return err
}

// Used returns the part of s that a usage limit counts, in the unit of its limit.
func (p *Policy) Used(s reqlog.Spend) float64 {
	switch p.Type {
	case "cost":
		return float64(s.Cost) / 1e9
	case "tokens":
		return float64(s.Tokens)
	}
	return float64(s.Attempts)
}

// Reaches reports whether used reaches a limit. An empty limit is never reached.
func (p *Policy) Reaches(used float64, limit string) bool {
	n, err := strconv.ParseFloat(limit, 64)
	if p.Type != "cost" {
		n = math.Floor(n)
	}
	return err == nil && used >= n
}

// windows are the windows of the units of rate limits.
var windows = map[string]time.Duration{"rpm": time.Minute, "rph": time.Hour, "rpd": 24 * time.Hour, "rpw": 7 * 24 * time.Hour}

// Rule returns the policy as requests apply it, with the generations of its entities.
func (p *Policy) Rule(generations map[string]int64) policy.Policy {
	s := &p.Settings
	r := policy.Policy{
		ID: p.ID, Organisation: p.Organisation, Workspace: p.Workspace, Name: p.Name, Version: p.UpdatedAt.UnixMilli(),
		Conditions: p.Conditions, GroupBy: p.GroupBy, Window: windows[p.Unit], Stop: s.OnBudgetEnd == "stop", Loop: s.Loop, Target: s.Target,
		Generations: generations,
	}
	for _, n := range generations {
		r.Version += n << 48 // times are below, and each reset changes the sum
	}
	limit, _ := s.Value.Float64()
	r.Max = int64(limit)
	switch p.Type {
	case "tokens":
		r.Measure = quota.Tokens
	case "cost":
		r.Measure = quota.Cost
		r.Max = int64(math.Round(limit * 1e9))
	case "seconds":
		r.Time = true
	}
	if r.Down = quota.ParseWhenDown(s.OnStoreDown); r.Down == quota.DownDefault {
		r.Down = quota.DownCached
	}
	if p.Kind == UsagePolicy {
		r.Period = policy.Period{Every: s.PeriodicReset, Days: s.PeriodicResetDays, Since: p.CreatedAt, First: s.NextReset, Zone: s.TimeZone}
	}
	return r
}
