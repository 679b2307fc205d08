package budgets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

// midnight is the first of a month.
var midnight = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// node is one gateway on a database.
type node struct {
	*budgets.Enforcer
	log      *bytes.Buffer
	changes  int
	clock    time.Time
	segments int64
}

func newNode(t testing.TB, dsn string) *node {
	n := &node{log: new(bytes.Buffer), clock: midnight.Add(time.Hour)}
	n.Enforcer = &budgets.Enforcer{DB: storetest.Open(t, dsn), Logger: slog.New(slog.NewTextHandler(n.log, nil)), Changed: func() { n.changes++ }, Now: func() time.Time { return n.clock }}
	return n
}

// spend counts what was spent with the key k through the entry main, and has
// budgets act on it.
func (n *node) spend(t testing.TB, dollars int64) {
	t.Helper()
	raised, err := n.count(t.Context(), dollars)
	if err == nil {
		err = n.ApplySpend(t.Context(), raised)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) count(ctx context.Context, dollars int64) (map[store.BudgetRef]reqlog.Spend, error) {
	o := reqlog.SpendOwner{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: "k", Slug: "main"}
	n.segments++
	span := store.LedgerSpan{Segment: fmt.Sprintf("%p", n), From: n.segments - 1, To: n.segments}
	now := time.Now()
	s := &reqlog.Spend{Attempts: 1, Cost: catalog.NanoDollars(dollars * 1e9), Tokens: 10 * dollars}
	spent := map[reqlog.SpendOwner]*reqlog.Spend{o: s}
	return n.DB.AddSpend(ctx, store.LedgerCount{Spans: []store.LedgerSpan{span}, Spent: spent}, now, now.Add(-time.Hour))
}

// setUp makes a key, an entry and a grant with budgets, and gives the workspace
// some.
func setUp(t testing.TB, db *store.DB, key, provider, grant, workspace string) {
	t.Helper()
	ctx := t.Context()
	err := db.Update(ctx, nil, func(tx *store.Tx) error {
		i := store.Integration{ID: "i", Organisation: store.DefaultOrganisation, Slug: "main", Name: "Main", Provider: "openai", Status: store.Active, CreatedAt: midnight, UpdatedAt: midnight}
		g := store.IntegrationWorkspace{Integration: "i", Workspace: store.DefaultWorkspace, Enabled: true, UsageLimits: []byte(grant), Status: store.Active}
		p := store.Provider{ID: "p", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Integration: "i", Slug: "main", Name: "Main", UsageLimits: []byte(provider), Status: store.Active, CreatedAt: midnight, UpdatedAt: midnight}
		k := store.Key{ID: "k", Name: "ci", Hash: access.HashKey("k"), UsageLimits: []byte(key), CreatedAt: midnight}
		w, err := tx.Workspace(ctx, store.DefaultOrganisation, store.DefaultWorkspace)
		w.UsageLimits = []byte(workspace)
		return errors.Join(err, tx.CreateIntegration(ctx, i), tx.PutIntegrationWorkspace(ctx, g), tx.CreateProvider(ctx, p), tx.CreateKey(ctx, k), tx.UpdateWorkspace(ctx, w),
			budgets.Refresh(ctx, tx, store.KeyBudget, "k"), budgets.Refresh(ctx, tx, store.ProviderBudget, "p"),
			budgets.Refresh(ctx, tx, store.WorkspaceBudget, w.ID), budgets.Refresh(ctx, tx, store.GrantBudget, store.GrantID("i", w.ID)))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// states are what is exhausted, as text.
func states(t testing.TB, db *store.DB) string {
	t.Helper()
	p, err := publication.Load(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, id := range p.Identities {
		if id.KeyID == "k" && id.Exhausted {
			list = append(list, "key")
		}
	}
	if p.Providers[0].Row.Status == store.Exhausted {
		list = append(list, "provider")
	}
	if p.Exhausted[store.DefaultWorkspace] {
		list = append(list, "workspace")
	}
	return strings.Join(list, " ")
}

// usedSum returns what the budget of the key has used.
func usedSum(t testing.TB, db *store.DB) float64 {
	t.Helper()
	list, err := db.Budgets(t.Context(), []store.BudgetRef{{Kind: store.KeyBudget, ID: "k"}})
	if err != nil || len(list) != 1 {
		t.Fatalf("the key's budget: %v, %v", list, err)
	}
	u, err := limits.ReadUsage(list[0].UsageLimits)
	if err != nil {
		t.Fatal(err)
	}
	return u.Used(list[0].Spent)
}

func audits(t testing.TB, db *store.DB, action string) int {
	t.Helper()
	_, n, err := db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, From: time.UnixMilli(0), To: time.Now().AddDate(50, 0, 0), Action: action}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUsedUpBudgetsAreExhausted(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		for _, tt := range []struct{ name, key, provider, grant, workspace, want string }{
			{"key", `{"type":"cost","credit_limit":5}`, `null`, `[]`, `[]`, "key"},
			{"key in tokens", `{"type":"tokens","credit_limit":50}`, `null`, `[]`, `[]`, "key"},
			{"provider", `null`, `{"type":"cost","credit_limit":5}`, `[]`, `[]`, "provider"},
			{"grant", `null`, `null`, `[{"type":"cost","credit_limit":5}]`, `[]`, "provider"},
			{"workspace", `null`, `null`, `[]`, `[{"type":"cost","credit_limit":99},{"type":"tokens","credit_limit":50}]`, "workspace"},
			{"none", `{"type":"cost","credit_limit":6}`, `{"type":"cost","alert_threshold":1}`, `[]`, `[]`, ""},
		} {
			t.Run(tt.name, func(t *testing.T) {
				dsn := dsn
				if strings.HasPrefix(dsn, "file:") {
					dsn = "file:" + t.TempDir() + "/test.db"
				} else {
					dsn = storetest.Postgres(t)
				}
				n := newNode(t, dsn)
				setUp(t, n.DB, tt.key, tt.provider, tt.grant, tt.workspace)
				n.spend(t, 4)
				if got := states(t, n.DB); got != "" {
					t.Errorf("before its budget is exhausted: %q", got)
				}
				n.spend(t, 1)
				n.spend(t, 1)
				if tt.name == "none" {
					return
				}
				if got := states(t, n.DB); got != tt.want {
					t.Errorf("exhausted is %q, want %q", got, tt.want)
				}
				if a := audits(t, n.DB, "budget_exhausted"); a != 1 || n.changes != 1 || strings.Count(n.log.String(), "budget exhausted") != 1 {
					t.Errorf("%d rows in the audit log, %d changes; want one each: %s", a, n.changes, n.log)
				}
			})
		}
	})
}

func TestTheThresholdIsReportedOnce(t *testing.T) {
	n := newNode(t, "file:"+t.TempDir()+"/test.db")
	setUp(t, n.DB, `{"type":"cost","credit_limit":10,"alert_threshold":3}`, `null`, `[]`, `[]`)
	for range 5 {
		n.spend(t, 1)
	}
	if a := audits(t, n.DB, "budget_threshold"); a != 1 || n.changes != 1 || strings.Count(n.log.String(), "threshold reached") != 1 {
		t.Errorf("%d rows in the audit log, %d changes, %s; want one each", a, n.changes, n.log)
	}
	if got := states(t, n.DB); got != "" {
		t.Errorf("the threshold exhausts %q", got)
	}
}

func TestACountStartsAgainWhenItsTimeHasCome(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		first, second := newNode(t, dsn), newNode(t, dsn)
		setUp(t, first.DB, `{"type":"cost","credit_limit":5,"periodic_reset_days":3,"next_usage_reset_at":"2026-05-04T00:00:00Z"}`, `null`, `[]`,
			`[{"type":"cost","credit_limit":5,"periodic_reset":"monthly","next_usage_reset_at":"2026-06-01T00:00:00Z"}]`)
		first.spend(t, 7)
		if got := states(t, first.DB); got != "key workspace" {
			t.Errorf("exhausted is %q, want the key and the workspace", got)
		}
		reset := func(at time.Time) {
			var wg sync.WaitGroup
			for _, n := range []*node{first, second} {
				n.clock = at
				wg.Go(func() {
					if err := n.Reset(t.Context(), at); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		reset(midnight.AddDate(0, 0, 3).Add(-1))
		if got := audits(t, first.DB, "budget_reset"); got != 0 {
			t.Errorf("%d resets before their time", got)
		}
		reset(midnight.AddDate(0, 0, 3))
		if got, n := states(t, first.DB), audits(t, first.DB, "budget_reset"); got != "workspace" || n != 1 || usedSum(t, first.DB) != 0 {
			t.Errorf("after the reset %q is exhausted, the key has used %g, %d resets", got, usedSum(t, first.DB), n)
		}
		first.spend(t, 2)
		if got := usedSum(t, first.DB); got != 2 {
			t.Errorf("then it has used %g, want 2", got)
		}
		// The gateways were off for two months, then the clock goes back: one reset
		// of each budget is made, and none again.
		reset(midnight.AddDate(0, 2, 0))
		reset(midnight.AddDate(0, 1, 0))
		reset(midnight.AddDate(0, 2, 0).Add(time.Hour))
		if got, n := states(t, first.DB), audits(t, first.DB, "budget_reset"); got != "" || n != 3 {
			t.Errorf("after two months %q is exhausted, %d resets; want one more of each", got, n)
		}
	})
}

// TestAResetLosesNothingThatIsSpentConcurrently resets a budget again and again
// while two nodes count: what every count came to and what is used now are what
// was spent.
func TestAResetLosesNothingThatIsSpentConcurrently(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		first, second := newNode(t, dsn), newNode(t, dsn)
		setUp(t, first.DB, `{"type":"cost","credit_limit":1000000}`, `null`, `[]`, `[]`)
		var wg sync.WaitGroup
		var want int64
		for i, n := range []*node{first, second} {
			rnd := rand.New(rand.NewPCG(uint64(i), 9))
			for range 60 {
				want += 1 + int64(rnd.IntN(5))
			}
			rnd = rand.New(rand.NewPCG(uint64(i), 9))
			wg.Go(func() {
				for range 60 {
					if _, err := n.count(t.Context(), 1+int64(rnd.IntN(5))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		var sum float64
		third := newNode(t, dsn)
		for range 20 {
			err := third.DB.ChangeBudgets(t.Context(), []store.BudgetRef{{Kind: store.KeyBudget, ID: "k"}}, func(b *store.BudgetHolder) (bool, []*store.Audit) {
				u, err := limits.ReadUsage(b.UsageLimits)
				if err != nil {
					t.Error(err)
					return false, nil
				}
				sum += u.Used(b.Spent)
				u.Reset(midnight)
				u.StartCount(b.Spent)
				b.UsageLimits = u.JSON()
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		if sum += usedSum(t, first.DB); sum != float64(want) {
			t.Errorf("the counts came to %g dollars together, want %d", sum, want)
		}
	})
}

func TestBudgetsExhaustedBeforeAKillAreFoundAtTheNextStart(t *testing.T) {
	n := newNode(t, "file:"+t.TempDir()+"/test.db")
	setUp(t, n.DB, `{"type":"cost","credit_limit":5}`, `null`, `[]`, `[{"type":"cost","credit_limit":5}]`)
	if _, err := n.count(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if got := states(t, n.DB); got != "" {
		t.Errorf("exhausted is %q before anybody acts", got)
	}
	if err := n.CheckAll(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := states(t, n.DB); got != "key workspace" {
		t.Errorf("exhausted is %q, want the key and the workspace", got)
	}
}

func TestABudgetThatCannotBeReadKeepsNoOtherWaiting(t *testing.T) {
	n := newNode(t, "file:"+t.TempDir()+"/test.db")
	setUp(t, n.DB, `{"type":"cost","credit_limit":5}`, `null`, `[]`, `[]`)
	at := time.UnixMilli(1)
	err := n.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.PutBudget(t.Context(), store.BudgetHolder{BudgetRef: store.BudgetRef{Kind: store.ProviderBudget, ID: "p"}, UsageLimits: []byte(`{"type":7}`), ResetAt: at})
	})
	if err != nil {
		t.Fatal(err)
	}
	n.spend(t, 6)
	if err := n.Reset(t.Context(), midnight); err != nil {
		t.Fatal(err)
	}
	if got := states(t, n.DB); got != "key" || !strings.Contains(n.log.String(), "reading a budget failed") {
		t.Errorf("exhausted is %q, and told %s", got, n.log)
	}
}

// TestSpendingBeforeAResetStaysBeforeIt: what was spent in the old period and is
// counted late does not use up the new one.
func TestSpendingBeforeAResetStaysBeforeIt(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		n := newNode(t, dsn)
		setUp(t, n.DB, `{"type":"cost","credit_limit":10,"periodic_reset_days":365,"next_usage_reset_at":"2026-05-02T00:00:00Z","base":0}`, `null`, `[]`, `[]`)
		n.spend(t, 8)
		n.clock = midnight.AddDate(0, 0, 1).Add(time.Second)
		late := []int64{20, 30} // settled before the reset
		countLate := func(ctx context.Context) error {
			for ; len(late) > 0; late = late[1:] {
				raised, err := n.count(ctx, late[0])
				if err == nil {
					err = n.ApplySpend(ctx, raised)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
		n.Counted = countLate
		if err := n.Reset(t.Context(), n.clock); err != nil {
			t.Fatal(err)
		}
		if err := countLate(t.Context()); err != nil { // what the reset did not wait for
			t.Fatal(err)
		}
		if got := usedSum(t, n.DB); got != 0 {
			t.Errorf("the new period begins with %g dollars", got)
		}
		n.spend(t, 9)
		if got := usedSum(t, n.DB); got != 9 || states(t, n.DB) != "" {
			t.Errorf("after 9 dollars it counts %g, and exhausted is %q", got, states(t, n.DB))
		}
	})
}
