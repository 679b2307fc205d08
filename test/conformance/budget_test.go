package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/waittest"
)

// spenders are a gateway with a workspace of its own whose requests take 1,100
// tokens each.
type spenders struct {
	*people
	workspace, key, keyID string
	probes                int // policies made by settled
}

func newSpenders(t *testing.T) *spenders {
	t.Helper()
	p := newProvider(t, billed)
	h := &people{gateway: launchFor(t, "version: 1\n", budgetEnv...), provider: p}
	s := &spenders{people: h}
	s.workspace, _ = h.root(t, "POST", "/v1/admin/workspaces", `{"name":"Spenders"}`)["id"].(string)
	h.root(t, "POST", "/v1/integrations", `{"name":"I","slug":"some","ai_provider_id":"openai","key":"`+storedKey+`","configurations":{"custom_host":"`+p.url+`"}}`)
	h.root(t, "PUT", "/v1/integrations/some/workspaces", `{"workspaces":[{"id":"`+s.workspace+`","enabled":true}]}`)
	made := h.root(t, "POST", "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"`+s.workspace+`","scopes":["completions.write"]}`)
	s.key, _ = made["key"].(string)
	s.keyID, _ = made["id"].(string)
	return s
}

var budgetEnv = []string{"MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test"}

// spend sends a request and returns its status.
func (s *spenders) spend(t *testing.T) int {
	t.Helper()
	return s.do(t, "POST", "/v1/chat/completions", chatOf("gpt-4.1-mini"), "x-gateway-api-key", s.key, "x-gateway-provider", "@some").status
}

// holder is something with a budget: how it is changed and read.
type holder struct {
	name, path string
	body       string                                      // of a change, around usage_limits
	read       func(t *testing.T) (string, map[string]any) // its state, and its budget
}

func (s *spenders) holders() []holder {
	one := func(path string) func(t *testing.T) (string, map[string]any) {
		return func(t *testing.T) (string, map[string]any) {
			t.Helper()
			o := s.root(t, "GET", path, "")
			u, _ := o["usage_limits"].(map[string]any)
			status, _ := o["status"].(string)
			return status, u
		}
	}
	grant := func(t *testing.T) (string, map[string]any) {
		t.Helper()
		for _, w := range s.root(t, "GET", "/v1/integrations/some/workspaces", "")["workspaces"].([]any) {
			if w := w.(map[string]any); w["id"] == s.workspace {
				list, _ := w["usage_limits"].([]any)
				if len(list) == 0 {
					return fmt.Sprint(w["status"]), nil
				}
				return fmt.Sprint(w["status"]), list[0].(map[string]any)
			}
		}
		t.Fatal("the workspace has no grant")
		return "", nil
	}
	workspace := func(t *testing.T) (string, map[string]any) {
		t.Helper()
		list, _ := s.root(t, "GET", "/v1/admin/workspaces/"+s.workspace, "")["usage_limits"].([]any)
		if len(list) == 0 {
			return "active", nil
		}
		u := list[0].(map[string]any)
		return fmt.Sprint(u["status"]), u
	}
	provider := "/v1/providers/some?workspace_id=" + s.workspace
	return []holder{
		{"key", "/v1/api-keys/" + s.keyID, `{%s}`, one("/v1/api-keys/" + s.keyID)},
		{"provider", provider, `{%s}`, one(provider)},
		{"grant", "/v1/integrations/some/workspaces", `{"workspaces":[{"id":"` + s.workspace + `","enabled":true,%s}]}`, grant},
		{"workspace", "/v1/admin/workspaces/" + s.workspace, `{%s}`, workspace},
	}
}

// set changes the budget of something: usage_limits without its brackets, which
// are an array where body has one.
func (s *spenders) set(t *testing.T, h holder, budget string) {
	t.Helper()
	if budget != "null" && (h.name == "grant" || h.name == "workspace") {
		budget = "[" + budget + "]"
	}
	s.root(t, "PUT", h.path, fmt.Sprintf(h.body, `"usage_limits":`+budget))
}

// flags returns the reported state of a budget: its threshold, and whether it is used up.
func flags(u map[string]any) string {
	return fmt.Sprint(u["is_threshold_alerts_sent"], " ", u["is_exhausted_alerts_sent"])
}

func TestBudgetsAreUsedUpAndComeBack(t *testing.T) {
	s := newSpenders(t)
	for _, h := range s.holders() {
		numbers := "S-513"
		if h.name == "workspace" {
			numbers = "S-242 S-567"
		}
		s.set(t, h, `{"type":"tokens","credit_limit":1000}`)
		prove(t, numbers, "the "+h.name+" is used up", func(t *testing.T) {
			waittest.Until(t, "a request is let through", func() bool { return s.spend(t) == http.StatusOK })
			waittest.Until(t, "then none is", func() bool { return s.spend(t) == http.StatusPreconditionFailed })
			waittest.Until(t, "it shows that it is used up", func() bool { // the ledger is counted within a second
				status, u := h.read(t)
				n, _ := u["current_usage"].(json.Number)
				return status == "exhausted" && u["status"] == "exhausted" && len(n) >= 4
			})
		})
		_, u := h.read(t)
		used, _ := u["current_usage"].(json.Number)
		n, _ := used.Int64()
		if h.name == "workspace" {
			prove(t, "S-243", "a limit that is raised and still below leaves it", func(t *testing.T) {
				s.set(t, h, fmt.Sprintf(`{"type":"tokens","credit_limit":%d}`, n-1))
				if status, _ := h.read(t); status != "exhausted" || s.spend(t) != http.StatusPreconditionFailed {
					t.Errorf("it is %s", status)
				}
			})
		}
		prove(t, numbers, "raising the limit of the "+h.name+" frees it", func(t *testing.T) {
			s.set(t, h, fmt.Sprintf(`{"type":"tokens","credit_limit":%d}`, n+100))
			status, u := h.read(t)
			if got := s.spend(t); got != http.StatusOK || status != "active" || u["current_usage"] != used {
				t.Errorf("the next request: %d; it is %s, its budget %v", got, status, u)
			}
			waittest.Until(t, "it is used up again", func() bool { return s.spend(t) == http.StatusPreconditionFailed })
		})
		if h.name == "workspace" {
			prove(t, "S-242", "taking its limit away frees it", func(t *testing.T) {
				for _, without := range []string{`{"type":"tokens","alert_threshold":1}`, ``, `null`} {
					waittest.Until(t, "it is told to be used up", func() bool { _, u := h.read(t); return u["is_exhausted_alerts_sent"] == true })
					s.set(t, h, without)
					if status, _ := h.read(t); s.spend(t) != http.StatusOK || status == "exhausted" {
						t.Errorf("with the budget %q the next request is refused or it is %s", without, status)
					}
					s.set(t, h, `{"type":"tokens","credit_limit":1000}`)
					waittest.Until(t, "it is used up again", func() bool { return s.spend(t) == http.StatusPreconditionFailed })
				}
			})
			continue
		}
		prove(t, "S-513", "a reset of the "+h.name+" lets requests through", func(t *testing.T) {
			s.root(t, "PUT", h.path, fmt.Sprintf(h.body, `"reset_usage":true`))
			status, u := h.read(t)
			if got := s.spend(t); got != http.StatusOK || status != "active" || u["current_usage"] != json.Number("0") || u["last_reset_at"] == nil {
				t.Errorf("the next request: %d; it is %s, its budget %v", got, status, u)
			}
		})
		s.set(t, h, `{"type":"tokens","credit_limit":1000000}`)
	}
}

func TestWarningsOfBudgetsAreMadePossibleAgain(t *testing.T) {
	s := newSpenders(t)
	for i, h := range s.holders()[:3] {
		number := func(n string) string { return n + []string{"", " S-250", " S-251"}[i] + " S-529" }
		tell := func(want string) {
			t.Helper()
			waittest.Until(t, "it is reported", func() bool { s.spend(t); _, u := h.read(t); return flags(u) == want })
		}
		check := func(name, numbers, budget, want string) {
			prove(t, numbers, "of the "+h.name+": "+name, func(t *testing.T) {
				s.set(t, h, budget)
				if _, u := h.read(t); flags(u) != want {
					t.Errorf("told: %s, want %s", flags(u), want)
				}
			})
		}
		s.set(t, h, `{"type":"tokens","credit_limit":1000,"alert_threshold":500}`)
		tell("true true")
		check("the same limit keeps them", number("S-252"), `{"type":"tokens","credit_limit":1000,"alert_threshold":500}`, "true true")
		check("a lower limit keeps them", number("S-252"), `{"type":"tokens","credit_limit":900,"alert_threshold":500}`, "true true")
		prove(t, number("S-248"), "of the "+h.name+": a higher threshold leaves that of the limit", func(t *testing.T) {
			s.set(t, h, `{"type":"tokens","credit_limit":900,"alert_threshold":800}`)
			if _, u := h.read(t); u["is_exhausted_alerts_sent"] != true {
				t.Errorf("sent: %s, want that of the limit still to be", flags(u))
			}
		})
		check("no threshold", number("S-249"), `{"type":"tokens","credit_limit":900}`, "false true")
		s.set(t, h, `null`)
		s.set(t, h, `{"type":"tokens","credit_limit":2000000,"alert_threshold":500}`)
		tell("true false")
		check("the same threshold keeps its warning", number("S-248"), `{"type":"tokens","credit_limit":2000000,"alert_threshold":500}`, "true false")
		check("a lower threshold keeps its warning", number("S-248"), `{"type":"tokens","credit_limit":2000000,"alert_threshold":400}`, "true false")
		check("a higher threshold", number("S-248"), `{"type":"tokens","credit_limit":2000000,"alert_threshold":1000000}`, "false false")
		s.set(t, h, `null`)
		s.set(t, h, `{"type":"tokens","credit_limit":1000,"alert_threshold":500}`)
		tell("true true")
		check("a higher limit", number("S-246 S-247"), `{"type":"tokens","credit_limit":3000000,"alert_threshold":500}`, "false false")
		s.set(t, h, `null`)
		s.set(t, h, `{"type":"tokens","credit_limit":1000,"alert_threshold":500}`)
		tell("true true")
		check("no limit", number("S-246 S-247"), `{"type":"tokens","alert_threshold":500}`, "false false")
	}
}

func TestBudgetsStartAgainByTheirPeriod(t *testing.T) {
	s := newSpenders(t)
	key := s.holders()[0]
	for _, tt := range []struct{ of, more string }{
		{"S-509", `"periodic_reset_days":0`}, {"S-509", `"periodic_reset_days":366`},
		{"S-510", `"periodic_reset":"weekly","periodic_reset_days":3`}, {"S-510", `"periodic_reset":"monthly","periodic_reset_days":30`},
		{"S-511", `"periodic_reset":"daily"`}, {"S-511", `"periodic_reset":"Weekly"`}, {"S-511", `"periodic_reset":7`},
		{"S-512", `"next_usage_reset_at":"soon"`}, {"S-512", `"next_usage_reset_at":"2020-01-01"`},
	} {
		prove(t, tt.of, "refuses "+tt.more, func(t *testing.T) {
			if r := s.as(t, bootstrapKey, "PUT", key.path, `{"usage_limits":{"credit_limit":10,`+tt.more+`}}`); r.status != http.StatusBadRequest {
				t.Errorf("status %d, want 400: %.300s", r.status, r.body)
			}
		})
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	toSunday := 7 - int(today.Weekday())
	toFirst := int(time.Date(today.Year(), today.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(today).Hours() / 24)
	for _, tt := range []struct {
		period, number string
		first, after   int // days until it starts again, and until it does after it has
	}{
		{`"periodic_reset_days":1`, "S-509 S-532 S-568", 1, 1}, {`"periodic_reset_days":365`, "S-509 S-532 S-568", 365, 365},
		{`"periodic_reset":"weekly"`, "S-511", toSunday, toSunday}, {`"periodic_reset":"monthly"`, "S-511", toFirst, toFirst},
		{`"periodic_reset_days":30,"next_usage_reset_at":"` + today.AddDate(0, 0, 2).Format(time.DateOnly) + `"`, "S-512", 2, 30},
	} {
		// The name of a case is the same on every day.
		name := strings.ReplaceAll(tt.period, today.AddDate(0, 0, 2).Format(time.DateOnly), "the day after tomorrow")
		prove(t, tt.number+" S-513", "with "+name, func(t *testing.T) {
			s.set(t, key, `null`)
			s.set(t, key, `{"type":"tokens","credit_limit":1000,`+tt.period+`}`)
			_, u := key.read(t)
			next, err := time.Parse(time.RFC3339, fmt.Sprint(u["next_usage_reset_at"]))
			if err != nil || !next.Equal(today.AddDate(0, 0, tt.first)) {
				t.Fatalf("it starts again at %v, want in %d days", u["next_usage_reset_at"], tt.first)
			}
			waittest.Until(t, "it is used up", func() bool { return s.spend(t) == http.StatusPreconditionFailed })
			s.come(t, store.BudgetRef{Kind: store.KeyBudget, ID: s.keyID}, next)
			s.again(t, budgetEnv...)
			waittest.Until(t, "it starts again", func() bool { return s.spend(t) == http.StatusOK })
			_, u = key.read(t)
			after, err := time.Parse(time.RFC3339, fmt.Sprint(u["next_usage_reset_at"]))
			if err != nil || !after.Equal(today.AddDate(0, 0, tt.after)) || u["last_reset_at"] == nil {
				t.Errorf("then its budget is %v, want it to start again in %d days", u, tt.after)
			}
		})
	}
	prove(t, "S-512", "another limit keeps the day of the first start", func(t *testing.T) {
		s.set(t, key, `null`)
		first := today.AddDate(0, 0, 9)
		s.set(t, key, `{"type":"tokens","credit_limit":1000,"periodic_reset_days":30,"next_usage_reset_at":"`+first.Format(time.DateOnly)+`"}`)
		for _, limit := range []string{"2000", "500"} {
			s.set(t, key, `{"type":"tokens","credit_limit":`+limit+`,"periodic_reset_days":30}`)
			if _, u := key.read(t); u["next_usage_reset_at"] != first.Format("2006-01-02T15:04:05.000Z") {
				t.Errorf("with the limit %s it starts again at %v, want %s", limit, u["next_usage_reset_at"], first)
			}
		}
		s.set(t, key, `null`)
	})
	for _, h := range s.holders()[1:] {
		of := map[string]store.BudgetRef{
			"provider":  {Kind: store.ProviderBudget, ID: fmt.Sprint(s.root(t, "GET", h.path, "")["id"])},
			"grant":     {Kind: store.GrantBudget, ID: store.GrantID(fmt.Sprint(s.root(t, "GET", "/v1/integrations/some", "")["id"]), s.workspace)},
			"workspace": {Kind: store.WorkspaceBudget, ID: s.workspace},
		}[h.name]
		numbers := "S-513"
		if h.name == "workspace" {
			numbers = "S-513 S-567"
		}
		prove(t, numbers, "that of the "+h.name+" starts again by itself", func(t *testing.T) {
			s.set(t, h, `{"type":"tokens","credit_limit":1000,"periodic_reset_days":30}`)
			_, u := h.read(t)
			next, err := time.Parse(time.RFC3339, fmt.Sprint(u["next_usage_reset_at"]))
			if err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, "it is used up", func() bool { return s.spend(t) == http.StatusPreconditionFailed })
			s.come(t, of, next)
			s.again(t, budgetEnv...)
			waittest.Until(t, "it starts again", func() bool { return s.spend(t) == http.StatusOK })
			s.set(t, h, `null`)
		})
	}
}

// come moves the time at which a budget starts again to the past, as if that day had come.
func (s *spenders) come(t *testing.T, of store.BudgetRef, next time.Time) {
	t.Helper()
	db, err := store.Open(t.Context(), "file:"+filepath.Join(s.data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	past := time.Now().UTC().Truncate(24 * time.Hour)
	err = db.ChangeBudgets(t.Context(), []store.BudgetRef{of}, func(b *store.BudgetHolder) (bool, []*store.Audit) {
		b.UsageLimits = []byte(strings.Replace(string(b.UsageLimits), next.Format(time.RFC3339), past.Format(time.RFC3339), 1))
		b.ResetAt = past
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
