package server_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestCountersOfLimitsAreWhereTheSettingsSay(t *testing.T) {
	redis := quotatest.NewRedis(t)
	t.Setenv("COUNTERS_REDIS", redis.URL())
	t.Setenv("COUNTERS_POSTGRES", storetest.Postgres(t))
	for _, tt := range []struct{ settings, database, want string }{
		{"", "", "memory"},
		{"", storetest.Postgres(t), "leased"},
		{"{store: memory}", storetest.Postgres(t), "memory"},
		{"{store: redis, url: '${COUNTERS_REDIS}'}", "", "redis"},
		{"{store: postgres}", storetest.Postgres(t), "postgres"},
		{"{store: leased, url: '${COUNTERS_POSTGRES}', deadline: 200ms}", "", "leased"},
	} {
		o := gatewaytest.Options{Database: tt.database}
		if tt.settings != "" {
			o.Settings = "limits: {counters: " + tt.settings + "}\n"
		}
		g := gatewaytest.New(t, o)
		if log := g.Log.String(); !strings.Contains(log, `msg="limit counters" store=`+tt.want) {
			t.Errorf("counters %q: the log does not name %s: %s", tt.settings, tt.want, log)
		}
		if s := requestLabels(t, g); s["modelgate_limit_counters_up"] != "1" || s["modelgate_limit_settlements_lost_total"] != "0" {
			t.Errorf("counters %q: up %q, lost %q", tt.settings, s["modelgate_limit_counters_up"], s["modelgate_limit_settlements_lost_total"])
		}
	}
	if clients, err := redis.Command("CLIENT LIST\r\n"); err != nil || !strings.Contains(clients, "name=modelgate") {
		t.Errorf("Redis has no connection of a gateway: %q, %v", clients, err)
	}
}

func TestCountersOfLimitsThatCannotBeUsedAreReportedAtTheStart(t *testing.T) {
	redis := quotatest.NewRedis(t, "--requirepass", "hunter2")
	t.Setenv("COUNTERS_REDIS", fmt.Sprintf("redis://:wrong-one@127.0.0.1:%d", redis.Port))
	for block, want := range map[string]string{
		"{store: redis, url: '${COUNTERS_REDIS}'}": "limits.counters: store redis: WRONGPASS",
		"{store: postgres}":                        "limits.counters: store postgres: the control plane's database is not PostgreSQL",
		"{store: leased}":                          "limits.counters: store leased: the control plane's database is not PostgreSQL",
	} {
		dir := t.TempDir()
		config := filepath.Join(dir, "modelgate.yaml")
		if err := os.WriteFile(config, []byte("limits: {counters: "+block+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := server.New(t.Context(), server.Options{Data: dir, Listen: "127.0.0.1:0", Config: config, BootstrapKey: secret.New("a bootstrap key of a test")})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong-one") {
			t.Errorf("%s: %v, want %q", block, err, want)
		}
	}
}

// TestSecondGatewayKeepsWhatTheFirstSettles starts a gateway on a copy of another's folder,
// or on the folder itself, while what the first has settled is not counted by the ledger.
// Its start takes what was settled under its name for counted.
func TestSecondGatewayKeepsWhatTheFirstSettles(t *testing.T) {
	redis := quotatest.NewRedis(t)
	t.Setenv("COUNTERS_REDIS", redis.URL())
	for name, tt := range map[string]struct {
		counters string
		copied   bool
		log      string
	}{
		"a copy, Redis":              {"{store: redis, url: '${COUNTERS_REDIS}', deadline: 10s}", true, "data folder was copied"},
		"a copy, PostgreSQL":         {"{store: postgres, deadline: 10s}", true, "data folder was copied"},
		"the same folder, Redis":     {"{store: redis, url: '${COUNTERS_REDIS}', deadline: 10s}", false, "another gateway uses the data folder"},
		"the same folder, on leases": {"{store: leased, deadline: 10s}", false, "another gateway uses the data folder"},
	} {
		t.Run(name, func(t *testing.T) {
			database := storetest.Postgres(t)
			start := func(data string) *limitedGateway {
				return &limitedGateway{t: t, Gateway: gatewaytest.New(t, gatewaytest.Options{Data: data, Database: database, Settings: "limits: {counters: " + tt.counters + "}\n", MasterKey: "the master key of a test of limits"})}
			}
			data, second := t.TempDir(), t.TempDir()
			first := start(data)
			key := first.key(`"usage_limits":{"type":"tokens","credit_limit":1000000}`)
			used := func() float64 {
				list, _ := first.Get("/limits", "x-gateway-api-key", key).JSON(t)["data"].([]any)
				if len(list) != 1 {
					t.Fatalf("the limits of the key: %v", list)
				}
				return list[0].(map[string]any)["used"].(float64)
			}
			send := func(total float64) float64 {
				t.Helper()
				if res := first.chat(key, oneChat); res.Status != 200 {
					t.Fatalf("%d %s", res.Status, res.Body)
				}
				waittest.Until(t, "its use is settled", func() bool { return used() > total })
				return used()
			}
			once := send(0)
			release := holdSpending(t, database)
			twice := send(once)

			if tt.copied {
				raw, err := os.ReadFile(filepath.Join(data, "node"))
				if err == nil {
					err = os.WriteFile(filepath.Join(second, "node"), raw, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			} else {
				second = data
			}
			if log := start(second).Log.String(); !strings.Contains(log, tt.log) {
				t.Errorf("the log does not say %q: %s", tt.log, log)
			}
			if n := used(); n != twice {
				t.Errorf("%g tokens are used after the start of the second gateway, want %g", n, twice)
			}
			release()
			waittest.Until(t, "the ledger has counted the rest", func() bool {
				return strings.Contains(string(first.Get("/api-keys?workspace_id=default").Body), fmt.Sprintf(`"current_usage":%g,`, twice))
			})
			// The counters learn of it after the database.
			waittest.Until(t, "no use counts twice", func() bool { return used() == twice })
		})
	}
}

// holdSpending keeps gateways from counting what their ledgers have, until release is
// called.
func holdSpending(t *testing.T, database string) (release func()) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tx, err := db.Begin()
	if err == nil {
		_, err = tx.Exec(`LOCK TABLE spending IN EXCLUSIVE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { tx.Rollback() }
}

func TestGatewayStartsWhileRedisIsAway(t *testing.T) {
	redis := quotatest.NewRedis(t)
	redis.Kill()
	t.Setenv("COUNTERS_REDIS", redis.URL())
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "limits: {counters: {store: redis, url: '${COUNTERS_REDIS}'}}\n"})
	if res := g.Post("/chat/completions", chat); res.Status != 200 {
		t.Errorf("a request without limits: %d %s", res.Status, res.Body)
	}
	if !strings.Contains(g.Log.String(), "Redis unavailable; each limit's on_store_down applies") {
		t.Errorf("the log does not say so: %s", g.Log.String())
	}
	redis.Start(t)
	waittest.Until(t, "Redis is connected", func() bool { return strings.Contains(g.Log.String(), `msg="Redis available"`) })
}

func TestGatewaysWithSharedCountersHoldALimitTogether(t *testing.T) {
	redis := quotatest.NewRedis(t)
	t.Setenv("COUNTERS_REDIS", redis.URL())
	for _, counters := range []string{"{store: redis, url: '${COUNTERS_REDIS}', deadline: 10s}", "{store: postgres, deadline: 10s}", "{deadline: 10s}"} {
		t.Run(counters, func(t *testing.T) {
			database := storetest.Postgres(t)
			var gateways []*limitedGateway
			for range 2 {
				l := &limitedGateway{t: t}
				l.Gateway = gatewaytest.New(t, gatewaytest.Options{Database: database, Settings: "limits: {counters: " + counters + "}\n", MasterKey: "the master key of a test of limits"})
				gateways = append(gateways, l)
			}
			const allowed = 20
			key := gateways[0].key(`"rate_limits":[{"type":"requests","unit":"rpw","value":20},{"type":"tokens","unit":"rpw","value":1000000}]`)
			waittest.Until(t, "the other gateway knows the key", func() bool { return gateways[1].Get("/models", "x-gateway-api-key", key).Status != 401 })
			var successes, refused atomic.Int64
			var wg sync.WaitGroup
			for i := range 48 {
				l := gateways[i%2]
				wg.Go(func() {
					switch res := l.chat(key, oneChat); res.Status {
					case 200:
						successes.Add(1)
					case 429:
						refused.Add(1)
					default:
						t.Errorf("status %d: %s", res.Status, res.Body)
					}
				})
			}
			wg.Wait()
			if n := successes.Load(); n > allowed || n < allowed/2 || n+refused.Load() != 48 {
				t.Errorf("two gateways answered %d of 48 requests and refused %d, the limit is %d", n, refused.Load(), allowed)
			}
			// Slices that a gateway has leased are returned soon.
			waittest.Until(t, "the rest of the limit is used", func() bool {
				if successes.Load() < allowed && gateways[0].chat(key, oneChat).Status == 200 {
					successes.Add(1)
				}
				return successes.Load() == allowed
			})
			for i, l := range gateways {
				if res := l.chat(key, oneChat); res.Status != 429 {
					t.Errorf("gateway %d answers a request beyond the limit with %d: %s", i, res.Status, res.Body)
				}
			}
		})
	}
}

// newRedisGateway starts a gateway whose limits are counted in a Redis of its own.
func newRedisGateway(t *testing.T) (*quotatest.Redis, *limitedGateway) {
	t.Helper()
	redis := quotatest.NewRedis(t)
	t.Setenv("COUNTERS_REDIS", redis.URL())
	l := &limitedGateway{t: t}
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{Settings: "limits: {counters: {store: redis, url: '${COUNTERS_REDIS}', deadline: 10s}}\n", MasterKey: "the master key of a test of limits"})
	return redis, l
}

func TestRequestsWithLimitsGoOnWhileRedisIsAway(t *testing.T) {
	redis, l := newRedisGateway(t)
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpw","value":10}]`)
	for i := range 10 {
		if i == 4 {
			redis.Kill()
		}
		if res := l.chat(key, oneChat); res.Status != 200 {
			t.Errorf("request %d of 10: %d %s", i, res.Status, res.Body)
		}
	}
	if res := l.chat(key, oneChat); res.Status != 429 {
		t.Errorf("the counter of the gateway does not know what Redis had counted: %d %s", res.Status, res.Body)
	}
	if got := requestLabels(t, l.Gateway); got["modelgate_limit_decisions_alone_total"] == "0" || got["modelgate_limit_counters_up"] != "0" {
		t.Errorf("decided alone %s, up %s", got["modelgate_limit_decisions_alone_total"], got["modelgate_limit_counters_up"])
	}
	redis.Start(t)
	waittest.Until(t, "Redis counts what was used in the meantime", func() bool {
		l.chat(key, oneChat)
		return requestLabels(t, l.Gateway)["modelgate_limit_counters_up"] == "1"
	})
}

func TestASettingDecidesAboutKeysWhileRedisIsAway(t *testing.T) {
	redis := quotatest.NewRedis(t)
	t.Setenv("COUNTERS_REDIS", redis.URL())
	for value, want := range map[string]int{"open": 200, "closed": 503} {
		l := &limitedGateway{t: t}
		l.Gateway = gatewaytest.New(t, gatewaytest.Options{Settings: "limits: {counters: {store: redis, url: '${COUNTERS_REDIS}', deadline: 10s, on_store_down: " + value + "}}\n", MasterKey: "the master key of a test of limits"})
		key := l.key(`"rate_limits":[{"type":"requests","unit":"rpw","value":1}]`)
		if res := l.chat(key, oneChat); res.Status != 200 {
			t.Errorf("%s, before: %d %s", value, res.Status, res.Body)
		}
		if got := string(l.Get("/limits", "x-gateway-api-key", key).Body); !strings.Contains(got, `"overshoot_at_most":0`) {
			t.Errorf("%s, before: %s", value, got)
		}
		redis.Kill()
		if res := l.chat(key, oneChat); res.Status != want {
			t.Errorf("%s: status %d, want %d: %s", value, res.Status, want, res.Body)
		}
		bound := map[string]string{"open": `"overshoot_at_most":null`, "closed": `"overshoot_at_most":0`}[value]
		if got := string(l.Get("/limits", "x-gateway-api-key", key).Body); !strings.Contains(got, bound) {
			t.Errorf("%s: %s, want %s", value, got, bound)
		}
		redis.Start(t)
	}
}

func TestEachSettingDecidesWhilePostgreSQLIsStopped(t *testing.T) {
	database := storetest.NewServer(t)
	t.Setenv("COUNTERS_POSTGRES", database.DSN())
	for _, kind := range []string{"postgres", "leased"} {
		for value, want := range map[string][2]int{"cached": {200, 429}, "open": {200, 200}, "closed": {503, 503}} {
			t.Run(kind+" "+value, func(t *testing.T) {
				l := &limitedGateway{t: t}
				l.Gateway = gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test of limits",
					Settings: "limits: {counters: {store: " + kind + ", url: '${COUNTERS_POSTGRES}', deadline: 1s, on_store_down: " + value + "}}\n"})
				key := l.key(`"rate_limits":[{"type":"requests","unit":"rpw","value":2}]`)
				if res := l.chat(key, oneChat); res.Status != 200 {
					t.Fatalf("before: %d %s", res.Status, res.Body)
				}
				resume := database.Pause(t)
				for i, status := range want {
					if res := l.chat(key, oneChat); res.Status != status {
						t.Errorf("request %d while it is stopped: %d %s, want %d", i+1, res.Status, res.Body, status)
					}
				}
				if n := requestLabels(t, l.Gateway)["modelgate_limit_store_failures_total"]; n == "0" {
					t.Error("no call of PostgreSQL failed")
				}
				resume()
				waittest.Until(t, "PostgreSQL decides again", func() bool {
					l.Get("/limits", "x-gateway-api-key", key)
					return requestLabels(t, l.Gateway)["modelgate_limit_counters_up"] == "1"
				})
				waittest.Until(t, "the limit is used up", func() bool { return l.chat(key, oneChat).Status == 429 })
			})
		}
	}
}

func TestBudgetsOfPoliciesComeBackWhenRedisWasEmptied(t *testing.T) {
	redis, l := newRedisGateway(t)
	budgetsComeBack(t, l, func(counter string) bool {
		response, err := redis.Command("HGET {modelgate}:limit:" + counter + " c\r\n")
		return err == nil && len(response) > len("$2\r\n10\r\n") // three digits
	}, func() {
		if response, err := redis.Command("FLUSHALL\r\n"); err != nil || response != "+OK\r\n" {
			t.Fatal(response, err)
		}
	})
}

func TestBudgetsOfPoliciesComeBackWhenPostgreSQLWasEmptied(t *testing.T) {
	for name, statement := range map[string]string{"truncated": `TRUNCATE modelgate_limits.counters`, "dropped": `DROP SCHEMA modelgate_limits CASCADE`} {
		t.Run(name, func(t *testing.T) {
			url := storetest.Postgres(t)
			t.Setenv("COUNTERS_POSTGRES", url)
			l := &limitedGateway{t: t}
			l.Gateway = gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test of limits",
				Settings: "limits: {counters: {store: postgres, url: '${COUNTERS_POSTGRES}', deadline: 5s, on_store_down: open}}\n"})
			db, err := sql.Open("pgx", url)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			budgetsComeBack(t, l, func(counter string) bool {
				var counted int64
				err := db.QueryRow(`SELECT counted FROM modelgate_limits.counters WHERE name = $1`, counter).Scan(&counted)
				return err == nil && counted >= 100
			}, func() { storetest.Exec(t, url, statement) })
		})
	}
}

// budgetsComeBack uses up the budget of a policy, removes all shared counters and expects
// that the budget refuses requests again. Counted reports whether the ledger has counted what
// the counter needs to refuse them.
func budgetsComeBack(t *testing.T, l *limitedGateway, counted func(counter string) bool, empty func()) {
	t.Helper()
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpw","value":1000}]`)
	id := l.policy("usage-limits", `{"name":"tokens","type":"tokens","credit_limit":100,"conditions":[{"key":"metadata._user","value":"*"}],"group_by":[{"key":"metadata._user"}]}`)
	send := func(user string) int {
		return l.chat(key, oneChat, "x-gateway-metadata", `{"_user":"`+user+`"}`).Status
	}
	// A request may be refused because of what another one has only reserved.
	waittest.Until(t, "the ledger has counted what uses the budget up", func() bool {
		return send("a") == 412 && counted("policy/"+id+"/-/0/metadata._user:a")
	})
	used := func() string {
		return string(l.Get("/limits?owner=policy&id="+id, "x-gateway-api-key", gatewaytest.Key).Body)
	}
	before := used()
	empty()
	if status := send("b"); status != 200 { // another finds it out
		t.Fatalf("status %d", status)
	}
	waittest.Until(t, "the counters are back", func() bool { return strings.Contains(l.Log.String(), "brought back from the ledger") })
	if status := send("a"); status != 412 {
		t.Errorf("a budget that was used up admits a request with %d after the counters were lost: %s, before %s", status, used(), before)
	}
}
