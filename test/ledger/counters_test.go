package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/simulator"
	"modelgate/internal/store"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/storetest"
)

// TestCountersAreTheLedgerAfterKills kills a gateway with usage policies at random
// times and compares their counters with the ledger, and the ledger with what the
// simulator served, with each store of counters. The counters outlive the process in
// Redis and PostgreSQL. MODELGATE_TEST_KILL_SEED repeats a run.
func TestCountersAreTheLedgerAfterKills(t *testing.T) {
	seed := uint64(number(t, "MODELGATE_TEST_KILL_SEED", int(time.Now().UnixNano()&0xffffff)))
	rounds, streams := number(t, "MODELGATE_TEST_KILL_ROUNDS", 3), number(t, "MODELGATE_TEST_KILL_STREAMS", 30)
	for _, tt := range []struct {
		store string
		start func(t *testing.T) (settings string, age func())
	}{
		{"memory", func(*testing.T) (string, func()) { return "limits: {counters: {store: memory}}", func() {} }},
		{"redis", func(t *testing.T) (string, func()) {
			r := quotatest.NewRedis(t)
			t.Setenv(countersURL, r.URL())
			return "limits: {counters: {store: redis, url: \"${" + countersURL + "}\", deadline: 2s}}", func() { ageRedis(t, r) }
		}},
		{"postgres", inPostgres("postgres")},
		{"leased", inPostgres("leased")},
	} {
		t.Run(tt.store, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 16))
			settings, age := tt.start(t)
			sim := recorder.New(recorder.Options{Options: simulator.Options{Pace: time.Millisecond, Tokens: 40}})
			up := httptest.NewServer(sim)
			t.Cleanup(up.Close)
			data := t.TempDir()
			g := start(t, data, up.URL, settings, prices)
			p := newPolicies(t, g)
			b := newBooks()
			for round := range rounds {
				g.keys = p.keys
				b.storm(t, g, round, streams, time.Duration(random.Int64N(int64(time.Second))))
				b.close(t, sim, data)
				g = start(t, data, up.URL, settings, prices)
				p.compare(t, g, b, data, fmt.Sprintf("after%d", round))
			}
			age()
			p.compare(t, g, b, data, "aged")
			if n := p.reserved(t, g); n != 0 && tt.store != "leased" { // slices of this process are reserved
				t.Errorf("%g are reserved after all reservations lapsed", n)
			}
			g.stop(t)
			if t.Failed() {
				t.Logf("MODELGATE_TEST_KILL_SEED=%d", seed)
			}
		})
	}
}

// inPostgres returns a setup with counters in PostgreSQL. age makes their generations
// end.
func inPostgres(kind string) func(t *testing.T) (string, func()) {
	return func(t *testing.T) (string, func()) {
		dsn := storetest.Postgres(t)
		t.Setenv(countersURL, dsn)
		return "limits: {counters: {store: " + kind + ", url: \"${" + countersURL + "}\", deadline: 2s}}", func() {
			storetest.Exec(t, dsn, `UPDATE modelgate_limits.counters SET generation = generation - 2`)
		}
	}
}

// ageRedis moves all counters two generations into the past.
func ageRedis(t *testing.T, r *quotatest.Redis) {
	t.Helper()
	const script = `for _, k in ipairs(redis.call('keys','{modelgate}:limit:*')) do if redis.call('type',k).ok == 'hash' then redis.call('hincrby',k,'g',-2) end end return 1`
	if response, err := r.Command(fmt.Sprintf("EVAL %q 0\r\n", script)); err != nil || response != ":1\r\n" {
		t.Fatal(response, err)
	}
}

// policies are usage policies that count every request: cost, tokens, and tokens of
// each key.
type policies struct {
	cost, tokens, each string // ids
	keys, keyIDs       []string
}

func newPolicies(t *testing.T, g *gateway) *policies {
	t.Helper()
	p := &policies{}
	for i := range 2 {
		var made struct{ ID, Key string }
		text := g.wantOK(t, "POST", "/api-keys/workspace/service", key, fmt.Sprintf(`{"name":"k%d","workspace_id":"default","scopes":["completions.write"]}`, i))
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Fatal(err)
		}
		p.keys, p.keyIDs = append(p.keys, made.Key), append(p.keyIDs, made.ID)
	}
	create := func(measure, group string) string {
		var made struct{ ID string }
		text := g.wantOK(t, "POST", "/policies/usage-limits", key, fmt.Sprintf(
			`{"name":"%s by %s","workspace_id":"default","conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":%q}],"type":%q,"credit_limit":1000000000}`, measure, group, group, measure))
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	p.cost, p.tokens, p.each = create("cost", "workspace_id"), create("tokens", "workspace_id"), create("tokens", "api_key")
	g.keys = p.keys
	for n, deadline := 0, time.Now().Add(time.Minute); len(p.used(t, g, p.each)) < 2; n++ { // until the gateway has the keys and policies
		if time.Now().After(deadline) {
			t.Fatal("after a minute the policies do not apply to two keys")
		}
		g.stream(fmt.Sprintf("sim-early-%d", n))
	}
	return p
}

// count is a counter of a policy as the API shows it.
type count struct {
	Key            string `json:"value_key"`
	Used, Reserved float64
}

// used returns the counters of a policy by value key.
func (p *policies) used(t *testing.T, g *gateway, id string) map[string]count {
	t.Helper()
	var out struct{ Data []count }
	if err := json.Unmarshal([]byte(g.wantOK(t, "GET", "/limits?owner=policy&id="+url.QueryEscape(id), key, "")), &out); err != nil {
		t.Fatal(err)
	}
	all := map[string]count{}
	for _, c := range out.Data {
		all[c.Key] = c
	}
	return all
}

// reserved returns what is reserved of all policies.
func (p *policies) reserved(t *testing.T, g *gateway) (sum float64) {
	t.Helper()
	for _, id := range []string{p.cost, p.tokens, p.each} {
		for _, c := range p.used(t, g, id) {
			sum += c.Reserved
		}
	}
	return sum
}

// expected returns what the ledger has for each policy, by value key.
func (p *policies) expected(b *books) map[string]map[string]float64 {
	all, nanos, tokens := map[string]map[string]float64{p.each: {}}, int64(0), int64(0)
	by := map[string]int64{}
	for _, i := range b.intents {
		s, ok := b.settled[i.ID]
		if !ok || len(i.Counters) != 3 { // sent before the policies existed
			continue
		}
		var sum reqlog.Spend
		sum.AddSettlement(&s)
		nanos, tokens = nanos+int64(sum.Cost), tokens+sum.Tokens
		by["api_key:"+i.KeyID] += sum.Tokens
	}
	all[p.cost] = map[string]float64{"workspace_id:" + store.DefaultWorkspace: float64(nanos) / 1e9}
	all[p.tokens] = map[string]float64{"workspace_id:" + store.DefaultWorkspace: float64(tokens)}
	for k, n := range by {
		all[p.each][k] = float64(n)
	}
	return all
}

// compare makes a request with each key, and waits until the counters are what the
// ledger has. They follow it within moments; what a dead process has left in them
// lapses after 10 minutes at the earliest.
func (p *policies) compare(t *testing.T, g *gateway, b *books, data, round string) {
	t.Helper()
	g.keys = p.keys
	var last reqlog.ID
	for n := range 2 {
		got, whole, _ := g.stream(fmt.Sprintf("sim-%s-%c", round, 'a'+n))
		if !whole {
			t.Fatalf("%s: the gateway does not answer: %s", round, g.errText)
		}
		last = got.id
	}
	var diff string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		b.read(t, data)
		if _, ok := b.settled[last]; !ok {
			continue
		}
		if diff = p.diff(t, g, b); diff == "" {
			return
		}
	}
	t.Errorf("%s: the counters are not what the ledger has:%s", round, diff)
}

func (p *policies) diff(t *testing.T, g *gateway, b *books) string {
	t.Helper()
	var diff strings.Builder
	for id, want := range p.expected(b) {
		got := p.used(t, g, id)
		if len(got) != len(want) || len(want) == 0 {
			fmt.Fprintf(&diff, "\n%s: counters %v, want %v", id, got, want)
		}
		for k, n := range want {
			if got[k].Used != n || n == 0 {
				fmt.Fprintf(&diff, "\n%s, %s: %g used and %g reserved, want %g", id, k, got[k].Used, got[k].Reserved, n)
			}
		}
	}
	return diff.String()
}

// TestSecondGatewayOnAFolderHasItsOwnName runs two gateways on a data folder, and kills the
// first: the next start has its name again.
func TestSecondGatewayOnAFolderHasItsOwnName(t *testing.T) {
	r := quotatest.NewRedis(t)
	t.Setenv(countersURL, r.URL())
	settings := "limits: {counters: {store: redis, url: \"${" + countersURL + "}\", deadline: 2s}}"
	up := httptest.NewServer(recorder.New(recorder.Options{}))
	t.Cleanup(up.Close)
	data := t.TempDir()
	own := func(g *gateway) bool {
		return strings.Contains(g.errText.String(), "another gateway uses the data folder")
	}
	name := func() string {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(data, "node"))
		if err != nil || len(raw) == 0 {
			t.Fatalf("the name is %q, %v", raw, err)
		}
		return string(raw)
	}
	first := start(t, data, up.URL, settings)
	before := name()
	second := start(t, data, up.URL, settings)
	first.kill()
	third := start(t, data, up.URL, settings)
	third.stop(t)
	second.stop(t)
	if after := name(); after != before {
		t.Errorf("the name of the folder was %s and is %s", before, after)
	}
	if own(first) || !own(second) || own(third) {
		t.Errorf("first %s second %s third %s", first.errText, second.errText, third.errText)
	}
}
