package publication_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

const policyID = "00000000-0000-7000-8000-0000000000a1"

func samplePolicy() store.Policy {
	return store.Policy{
		ID: policyID, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Kind: store.UsagePolicy, Name: "money",
		Conditions: []policy.Condition{{Key: "api_key", Value: policy.Values{List: []string{"*"}}}}, GroupBy: []string{"api_key"},
		Type: "cost", Settings: store.PolicySettings{Value: "2.5", PeriodicReset: "monthly", OnBudgetEnd: "stop", OnStoreDown: "closed"},
		Status: store.Active, CreatedAt: time.UnixMilli(1_800_000_000_000).UTC(), UpdatedAt: time.UnixMilli(1_800_000_000_000).UTC(),
	}
}

// mustCounters returns the counters of a key's requests under the published policies.
func mustCounters(t *testing.T, s *publication.State) []string {
	t.Helper()
	f := policy.Facts{Time: time.UnixMilli(1_800_000_000_000), Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: "k"}
	var list []string
	for _, l := range policy.Compile(s.Policies, nil).Match(nil, &f) {
		list = append(list, l.Counter)
	}
	return list
}

func TestPoliciesArePublished(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		p := samplePolicy()
		var before *publication.State
		step := func(what string, want string, change func(tx *store.Tx) error) {
			t.Helper()
			if err := db.Update(t.Context(), nil, change); err != nil {
				t.Fatal(err)
			}
			after, err := publication.Load(t.Context(), db, before)
			if err != nil {
				t.Fatal(err)
			}
			before = after
			got := mustCounters(t, after)
			if want == "" && len(got) != 0 || want != "" && !slices.Equal(got, []string{want}) {
				t.Errorf("%s: counters %q, want %q", what, got, want)
			}
		}
		step("nothing", "", func(*store.Tx) error { return nil })
		step("created", "policy/"+policyID+"/2027-01-01/0/api_key:k", func(tx *store.Tx) error { return tx.CreatePolicy(t.Context(), p) })
		if got, want := before.Policies[0].Max, int64(2_500_000_000); got != want || before.Policies[0].Measure != quota.Cost || !before.Policies[0].Stop || before.Policies[0].Down != quota.DownClosed {
			t.Errorf("published %+v, want a limit of %d", before.Policies[0], want)
		}
		reset := func(tx *store.Tx) error {
			return tx.ResetPolicyEntity(t.Context(), policyID, policy.EntityID("api_key:k"), p.UpdatedAt)
		}
		step("reset", "policy/"+policyID+"/2027-01-01/1/api_key:k", reset)
		first := before.Policies[0].Version
		step("reset again", "policy/"+policyID+"/2027-01-01/2/api_key:k", reset)
		if before.Policies[0].Version == first {
			t.Error("a reset leaves the version")
		}
		kept := &before.Policies[0]
		step("another change", "policy/"+policyID+"/2027-01-01/2/api_key:k", func(tx *store.Tx) error {
			return tx.CreateGuardrail(t.Context(), store.Guardrail{ID: "g", Organisation: store.DefaultOrganisation, Slug: "g", Status: store.Active, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt})
		})
		if &before.Policies[0] != kept {
			t.Error("policies were read again although none changed")
		}
		p.Status = store.Archived
		step("archived", "", func(tx *store.Tx) error { return tx.UpdatePolicy(t.Context(), p) })
	})
}

func TestSpendOfPoliciesIsReadByPeriod(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		for _, id := range []string{policyID + "/2026-11-01/0/api_key:a", policyID + "/2026-12-01/0/api_key:a", policyID + "/2026-12-01/1/api_key:b/c", "00000000-0000-7000-8000-0000000000a2/2026-11-01/0/x:y"} {
			storetest.Exec(t, dsn, `INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('policy', '`+id+`', 1, 2, 3, 0, 0)`)
		}
		storetest.Exec(t, dsn, `INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('key', '`+policyID+`', 1, 2, 3, 0, 0)`)
		if err := db.DeletePolicySpending(t.Context(), policyID, "2026-12-01"); err != nil {
			t.Fatal(err)
		}
		got, err := db.PolicySpending(t.Context(), policyID)
		if err != nil {
			t.Fatal(err)
		}
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"2026-12-01/0/api_key:a", "2026-12-01/1/api_key:b/c"}) || got["2026-12-01/0/api_key:a"].Cost != 2 {
			t.Errorf("spend %+v", got)
		}
		if other, err := db.PolicySpending(t.Context(), "00000000-0000-7000-8000-0000000000a2"); err != nil || len(other) != 1 {
			t.Errorf("another policy has %d counters, want 1: %v", len(other), err)
		}
	})
}
