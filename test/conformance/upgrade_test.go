package conformance

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// Sums of one request of the test: usage and, by the settings of its nodes, dollars.
const (
	upgradeTokens  = 9
	upgradeDollars = 0.011 // 7 tokens at $1 and 2 at $2 for a thousand
)

const upgradeSettings = `version: 1
prices:
  - {provider: openai-compatible, model: "m", input: 1000, output: 2000}
`

// upgrade are two nodes of different versions on one database, and what their key is known
// to have used.
type upgrade struct {
	nodes
	before, this string   // the programs of both versions
	env          []string // of the nodes
	id, key      string   // a key with a budget of tokens and a rate limit
	paid         string   // id of a key with a budget of dollars
	paidKey      string
	policy       string
	requests     int // of each key
}

// ask sends a request with both keys to a node.
func (u *upgrade) ask(t *testing.T, g *gateway) {
	for _, key := range []string{u.key, u.paidKey} {
		g.do(t, "POST", "/v1/chat/completions", `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", key,
			"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", u.provider.url, "Authorization", "Bearer x", "x-gateway-metadata", `{"_user":"ann"}`).wantOK(t)
	}
}

// traffic sends requests to all nodes at once.
func (u *upgrade) traffic(t *testing.T) {
	t.Helper()
	const each = 10
	var wg sync.WaitGroup
	for _, g := range u.list {
		wg.Go(func() {
			for i := range each {
				u.ask(t, g)
				trace := fmt.Sprintf("%s-%d-%d", g.data, u.requests, i)
				g.as(t, bootstrapKey, "POST", "/v1/feedback", fmt.Sprintf(`{"trace_id":%q,"value":%d,"weight":0.5}`, trace, 1+i%2)).wantOK(t)
			}
		})
	}
	wg.Wait()
	u.requests += each * len(u.list)
}

// number returns a member of an object by its path; JSON's null is -1.
func (r response) number(t *testing.T, path ...string) float64 {
	t.Helper()
	var v any = r.wantOK(t).object(t)
	for _, name := range path {
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			if len(of) == 0 {
				return -1
			}
			v = of[0].(map[string]any)[name]
		}
	}
	n, ok := v.(json.Number)
	if !ok {
		return -1
	}
	f, _ := n.Float64()
	return f
}

// sums returns what a node says of the requests so far, by the place where it says so.
func (u *upgrade) sums(t *testing.T, g *gateway) map[string]float64 {
	t.Helper()
	read := func(path string) response {
		r := g.as(t, bootstrapKey, "GET", path, "")
		if r.status != http.StatusOK {
			t.Errorf("GET %s: %d %s\n%s", path, r.status, r.body, g.errText)
		}
		return r
	}
	out := map[string]float64{
		"budget of tokens":  read("/v1/api-keys/"+u.id).number(t, "usage_limits", "current_usage"),
		"budget of dollars": read("/v1/api-keys/"+u.paid).number(t, "usage_limits", "current_usage"),
		"policy":            read("/v1/policies/usage-limits/"+u.policy+"/entities").number(t, "data", "current_usage"),
		"analytics, cost":   read("/v1/analytics/graphs/cost?api_key_ids="+u.paid).number(t, "summary", "total") / 100,
		"analytics, tokens": read("/v1/analytics/graphs/tokens?api_key_ids="+u.id).number(t, "summary", "total"),
		"entries, tokens":   read("/v1/analytics/graphs/tokens?metadata="+url.QueryEscape(`{"_user":"ann"}`)).number(t, "summary", "total") / 2,
		"feedback":          read("/v1/analytics/graphs/feedbacks").number(t, "summary", "total"),
		"feedback, average": read("/v1/analytics/graphs/feedbacks/weighted").number(t, "summary", "avg"),
		"feedback, value 1": read("/v1/analytics/graphs/feedbacks/scores").number(t, "data_points", "total"),
		"log":               float64(len(read("/v1/logs?limit=1000&operation=chat&api_key="+u.id).items(t, "id"))),
	}
	group := read("/v1/analytics/groups/api_key?columns=total_tokens,cost&api_key_ids=" + u.id)
	out["group, requests"], out["group, tokens"] = group.number(t, "data", "requests"), group.number(t, "data", "total_tokens")
	for _, v := range read("/v1/limits?owner=key&id=" + u.id).wantOK(t).object(t)["data"].([]any) {
		limit := v.(map[string]any)
		used, _ := limit["used"].(json.Number).Float64()
		out[fmt.Sprint("limit of ", limit["type"])] = used
	}
	return out
}

// wantSums waits until every node tells the right sums.
func (u *upgrade) wantSums(t *testing.T) {
	t.Helper()
	n := float64(u.requests)
	want := map[string]float64{
		"budget of tokens": n * upgradeTokens, "budget of dollars": n * upgradeDollars, "policy": n * upgradeTokens, "analytics, cost": n * upgradeDollars,
		"analytics, tokens": n * upgradeTokens, "entries, tokens": n * upgradeTokens, "log": n, "feedback": n, "feedback, average": 0.75, "feedback, value 1": n / 2, "group, requests": n, "group, tokens": n * upgradeTokens,
		"limit of tokens": n * upgradeTokens, "limit of requests": n,
	}
	for i, g := range u.list {
		var wrong string
		for end := time.Now().Add(20 * time.Second); ; {
			wrong = ""
			got := u.sums(t, g)
			for name, w := range want {
				if d := got[name] - w; d > 1e-6 || d < -1e-6 {
					wrong += fmt.Sprintf("; %s is %g, want %g", name, got[name], w)
				}
			}
			if wrong == "" || time.Now().After(end) {
				break
			}
			<-time.After(50 * time.Millisecond)
		}
		if wrong != "" {
			t.Errorf("node %d after %d requests%s", i+1, u.requests, wrong)
		}
	}
}

// launchUpgrade starts the node of the version before, with keys and a policy.
func launchUpgrade(t *testing.T, dsn string) *upgrade {
	t.Helper()
	before, err := programtest.BuildPrevious(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	u := &upgrade{nodes: nodes{provider: newProvider(t, nil)}, before: before, this: program,
		env: []string{"DATABASE_URL=" + dsn, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test"}}
	u.start(t, u.before)
	make := func(limits string) (id, key string) {
		o := u.change(t, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],`+limits+`}`).object(t)
		return fmt.Sprint(o["id"]), fmt.Sprint(o["key"])
	}
	u.id, u.key = make(`"usage_limits":{"type":"tokens","credit_limit":100000},"rate_limits":[{"type":"requests","unit":"rpw","value":100000}]`)
	u.paid, u.paidKey = make(`"usage_limits":{"type":"cost","credit_limit":100000}`)
	u.policy = fmt.Sprint(u.change(t, "POST", "/v1/policies/usage-limits", fmt.Sprintf(`{"name":"p","workspace_id":"default","type":"tokens","credit_limit":100000,"conditions":[{"key":"api_key","value":%q}],"group_by":[{"key":"metadata._user"}]}`, u.id)).object(t)["id"])
	return u
}

// start adds a node of a version.
func (u *upgrade) start(t *testing.T, version string) {
	t.Helper()
	program = version
	defer func() { program = u.this }()
	u.list = append(u.list, launchFor(t, upgradeSettings, u.env...))
}

// restart replaces the version of a node.
func (u *upgrade) restart(t *testing.T, node int, version string) {
	t.Helper()
	program = version
	defer func() { program = u.this }()
	u.list[node].again(t, u.env...)
}

// TestBothVersionsTellTheRightSumsDuringAnUpgrade counts requests of two versions that run at
// the same time, before and after the tables change.
func TestBothVersionsTellTheRightSumsDuringAnUpgrade(t *testing.T) {
	dsn := storetest.Postgres(t)
	u := launchUpgrade(t, dsn)
	u.traffic(t)
	u.wantSums(t)
	u.start(t, u.this) // which migrates
	waittest.Until(t, "the new node knows the keys", func() bool {
		return u.list[1].as(t, u.key, "GET", "/v1/auth/me", "").status != http.StatusUnauthorized && u.list[1].as(t, u.paidKey, "GET", "/v1/auth/me", "").status != http.StatusUnauthorized
	})
	u.traffic(t)
	u.wantSums(t)
	addLater(t, dsn)
	u.traffic(t)
	u.wantSums(t)
	u.wantLimit(t)
	for _, step := range []struct {
		node    int
		version string
	}{
		{0, u.before}, // the version before starts on the tables of this one
		{1, u.before}, // and alone
		{0, u.this},
		{1, u.this},
	} {
		u.restart(t, step.node, step.version)
		u.traffic(t)
		u.wantSums(t)
	}
	storetest.Exec(t, dsn, `INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (10000, 'later', 'x', 0)`)
	for _, version := range []string{u.before, u.this} {
		program = version
		_, err := launch(upgradeSettings, u.env...)
		program = u.this
		if err == nil || !strings.Contains(err.Error(), "created by a newer modelgate") || !strings.Contains(err.Error(), "run that version or a later one") {
			t.Errorf("the start of a version on tables that require a later one ended with %v", err)
		}
	}
}

// wantLimit exhausts a rate limit by requests to all nodes in turn: together they accept
// as many as it allows. A node may hold a part of it for a moment, so a request that is
// refused is sent again.
func (u *upgrade) wantLimit(t *testing.T) {
	t.Helper()
	const allowedRequests = 20
	key := fmt.Sprint(u.change(t, "POST", "/v1/api-keys/workspace/service", fmt.Sprintf(`{"name":"k","workspace_id":"default","scopes":["completions.write"],"rate_limits":[{"type":"requests","unit":"rpw","value":%d}]}`, allowedRequests)).object(t)["key"])
	accepted := make([]int, len(u.list))
	send := func(i int) bool {
		r := u.list[i].do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "x-gateway-api-key", key,
			"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", u.provider.url, "Authorization", "Bearer x")
		if r.status == http.StatusOK {
			accepted[i]++
		}
		return r.status == http.StatusOK
	}
	sum := 0
	waittest.Until(t, "the limit is used up", func() bool {
		for i := range u.list {
			if send(i) {
				sum++
			}
		}
		return sum >= allowedRequests
	})
	for i := range u.list {
		for range 5 {
			if send(i) {
				sum++
			}
		}
	}
	if sum != allowedRequests || accepted[0] == 0 || accepted[1] == 0 {
		t.Errorf("the nodes accepted %v requests, want %d together", accepted, allowedRequests)
	}
}

// addLater adds to the tables what a later version may: a migration, columns with a default
// and a table.
func addLater(t *testing.T, dsn string) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `
		SELECT format('%I.%I', n.nspname, c.relname)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND (n.nspname = 'public' OR n.nspname LIKE 'modelgate%')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	statements := []string{
		`CREATE TABLE later (id TEXT PRIMARY KEY)`,
		`CREATE TABLE IF NOT EXISTS schema_additions (version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)`,
		`INSERT INTO schema_additions (version, name, checksum, applied_at) VALUES (9999, 'later', 'x', 0)`,
	}
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		statements = append(statements, `ALTER TABLE `+table+` ADD COLUMN added_later TEXT NOT NULL DEFAULT 'x'`)
	}
	if err := rows.Err(); err != nil || len(statements) < 30 {
		t.Fatalf("%d statements, %v", len(statements), err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
