package budgets_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const policyID = "00000000-0000-7000-8000-0000000000a1"

func TestWarningsOfPoliciesAreRecordedOnceForAllGateways(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		a, b := newNode(t, dsn), newNode(t, dsn)
		err := a.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
			return tx.CreatePolicy(t.Context(), store.Policy{
				ID: policyID, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Kind: store.UsagePolicy, Name: "money",
				Conditions: []policy.Condition{{Key: "api_key", Value: policy.Values{List: []string{"*"}}}}, GroupBy: []string{"api_key"},
				Type: "cost", Settings: store.PolicySettings{Value: "2.5", AlertThreshold: "2", PeriodicReset: "monthly"}, Status: store.Active, CreatedAt: midnight, UpdatedAt: midnight,
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		step := func(counter, cost string, want string) {
			t.Helper()
			storetest.Exec(t, dsn, `INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('policy', '`+policyID+`/`+counter+`', 1, `+cost+`, 3, 0, 0)
				ON CONFLICT (kind, id) DO UPDATE SET cost = excluded.cost`)
			for _, n := range []*node{a, b, a} {
				if err := n.ApplySpend(t.Context(), map[store.BudgetRef]reqlog.Spend{{Kind: "policy", ID: policyID + "/" + counter}: {}}); err != nil {
					t.Fatal(err)
				}
			}
			list, _, err := a.DB.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, To: midnight.AddDate(50, 0, 0)}, store.Page{Size: 100})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range list {
				if e.ResourceType != "policy" || e.ResourceID != policyID || e.Workspace != store.DefaultWorkspace || !strings.Contains(e.RequestBody, `"value_key":"api_key:`) {
					t.Errorf("event %+v", e)
				}
				got = append(got, e.Action)
			}
			slices.Sort(got)
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s at %s: events %q, want %q", counter, cost, text, want)
			}
		}
		step("2026-05-01/0/api_key:k", "1999999999", "")
		step("2026-05-01/0/api_key:k", "2000000000", "budget_threshold")
		step("2026-05-01/0/api_key:k", "2500000000", "budget_exhausted budget_threshold")
		step("2026-04-01/0/api_key:k", "9000000000", "budget_exhausted budget_threshold")
		step("2026-05-01/0/api_key:other", "2200000000", "budget_exhausted budget_threshold budget_threshold")
		step("2026-05-01/1/api_key:k", "2000000000", "budget_exhausted budget_threshold budget_threshold budget_threshold")
	})
}

func TestWarningsAboutGroupsOfClientsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		group            string
		groups           int
		overflow         bool
		events, together int
	}{
		{"metadata.team", 150, false, 101, 1},
		{"metadata.team", 150, true, 101, 2}, // or one more, if the overflow is the last
		{"metadata.team", 100, false, 100, 0},
		{"trace_id", 150, false, 101, 1},
		{"api_key", 150, false, 150, 0},
	} {
		t.Run(fmt.Sprint(tt.groups, " groups by ", tt.group, ", overflow ", tt.overflow), func(t *testing.T) {
			storetest.Addresses(t, func(t *testing.T, dsn string) {
				a, b := newNode(t, dsn), newNode(t, dsn)
				err := a.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
					return tx.CreatePolicy(t.Context(), store.Policy{
						ID: policyID, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Kind: store.UsagePolicy, Name: "money",
						Conditions: []policy.Condition{{Key: "api_key", Value: policy.Values{List: []string{"*"}}}}, GroupBy: []string{tt.group},
						Type: "cost", Settings: store.PolicySettings{Value: "1", PeriodicReset: "monthly"}, Status: store.Active, CreatedAt: midnight, UpdatedAt: midnight,
					})
				})
				if err != nil {
					t.Fatal(err)
				}
				raised := make(map[store.BudgetRef]reqlog.Spend)
				counters := make([]string, 0, tt.groups+1)
				for i := range tt.groups {
					counters = append(counters, fmt.Sprintf("2026-05-01/0/%s:%d", tt.group, i))
				}
				if tt.overflow {
					counters = append(counters, "2026-05-01/0/overflow")
				}
				for _, counter := range counters {
					storetest.Exec(t, dsn, `INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('policy', '`+policyID+`/`+counter+`', 1, 2000000000, 3, 0, 0)`)
					raised[store.BudgetRef{Kind: "policy", ID: policyID + "/" + counter}] = reqlog.Spend{}
				}
				for _, n := range []*node{a, b, a} {
					if err := n.ApplySpend(t.Context(), raised); err != nil {
						t.Fatal(err)
					}
				}
				list, _, err := a.DB.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, To: midnight.AddDate(50, 0, 0)}, store.Page{Size: 1000})
				if err != nil {
					t.Fatal(err)
				}
				together := 0
				for _, e := range list {
					if strings.Contains(e.RequestBody, fmt.Sprintf(`"groups":%d}`, len(counters))) {
						together++
					}
				}
				rows, err := a.DB.Background().PolicyAlerts(t.Context(), policyID)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(list); n != len(rows) || n < tt.events || n > max(tt.events, 100+tt.together) || together != tt.together {
					t.Errorf("%d audit events and %d warnings, %d about several groups, want %d and %d", len(list), len(rows), together, tt.events, tt.together)
				}
			})
		})
	}
}

func TestGroupsThatWereCountedKeepTheirCountersAfterAStart(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		n := newNode(t, dsn)
		set := policy.Compile([]policy.Policy{{
			ID: policyID, Organisation: store.DefaultOrganisation, Conditions: []policy.Condition{{Key: "metadata.team", Value: policy.Values{List: []string{"*"}}}},
			GroupBy: []string{"metadata.team"}, Max: 1, Period: policy.Period{Every: policy.Monthly},
		}}, nil)
		n.Policies, n.Counters = func() *policy.Set { return set }, new(quota.Memory)
		storetest.Exec(t, dsn, `INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('policy', '`+policyID+`/2026-05-01/0/metadata.team:known', 1, 1, 3, 0, 0)`)
		if err := n.CheckAll(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		counter := func(team string) string {
			f := policy.Facts{Time: n.clock, Organisation: store.DefaultOrganisation, Metadata: map[string]string{"team": team}}
			return strings.TrimPrefix(set.Match(nil, &f)[0].Counter, "policy/"+policyID+"/2026-05-01/0/")
		}
		for i := range 10_000 {
			counter(fmt.Sprint(i))
		}
		if got := []string{counter("known"), counter("unknown")}; !slices.Equal(got, []string{"metadata.team:known", policy.OverflowKey}) {
			t.Errorf("the counters are %q", got)
		}
	})
}
