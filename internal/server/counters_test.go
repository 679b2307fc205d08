package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/gatewaytest"
	"modelgate/internal/quota/quotatest"
	"modelgate/internal/secret"
	"modelgate/internal/server"
	"modelgate/internal/store/storetest"
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
		"{store: redis, url: '${COUNTERS_REDIS}'}": "limits.counters: store redis: redis: WRONGPASS",
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
	eventually(t, "Redis is connected", func() bool { return strings.Contains(g.Log.String(), `msg="Redis available"`) })
}
