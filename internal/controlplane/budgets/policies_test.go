package budgets_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/policy"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/store/storetest"
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
