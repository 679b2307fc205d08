package security

import (
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// flood sends n requests without a valid key from eight clients at once.
func (g *gateway) flood(t *testing.T, n int, method, path, body string, header ...string) {
	t.Helper()
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range n / 8 {
				if got := g.do(t, method, path, body, header...); got.status < 400 {
					t.Errorf("%s %.40s = %d", method, path, got.status)
					return
				}
			}
		})
	}
	clients.Wait()
}

func TestFloodWithoutAKeyFillsNoDisk(t *testing.T) {
	g := launch(t, options{settings: "version: 1\nlogs: {level: full, keyless_per_day: 1 MB}\nlog: {level: debug}\n"})
	const n = 4000
	long := strings.Repeat("a", 8<<10)
	// What a first write brings is there, and the log has these, since no room is left for others.
	g.flood(t, 800, "GET", "/v1/"+long, "", "User-Agent", long)
	waittest.Until(t, "the sample is written", func() bool { return metric(g.series(t), "modelgate_log_queue_depth") == 0 })
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
	}{
		{"long paths", "GET", "/v1/" + long, "", nil},
		{"long user agents", "GET", "/v1/models", "", []string{"User-Agent", long}},
		{"large metadata", "POST", "/v1/chat/completions", chatBody, []string{"x-gateway-metadata", `{"a":"` + long + `"}`}},
		{"baggage and traces", "POST", "/v1/messages", chatBody, []string{"baggage", "a=" + long, "x-gateway-trace-id", "t", "x-gateway-span-name", "s"}},
		{"wrong keys", "POST", "/v1/chat/completions", chatBody, []string{"x-gateway-api-key", "mg-" + long}},
		{"unknown methods", "BREW", "/v1/things", "", nil},
		{"broken configs", "POST", "/v1/chat/completions", chatBody, []string{"x-gateway-config", "{" + long}},
		{"the control plane", "GET", "/v1/configs", "", []string{"x-gateway-api-key", "mg-wrong", "X-Long", long}},
		{"paths without a canonical form", "GET", "/v1/../" + long, "", nil},
		{"nothing at the path", "GET", "/" + long, "", nil},
	} {
		attack(t, "exhaustion", "flood: "+tt.name, func(t *testing.T) {
			before, counted, lines := g.disk(t), metric(g.series(t), "modelgate_keyless_requests_total"), len(g.output.String())
			g.flood(t, n/10, tt.method, tt.path, tt.body, tt.header...)
			if grown := g.disk(t) - before; grown > 256<<10 {
				t.Errorf("%d requests took %d KB of the disk, 1 MB a day are allowed", n/10, grown>>10)
			}
			if more := len(g.output.String()) - lines; more > 64<<10 {
				t.Errorf("%d requests wrote %d KB to the process log", n/10, more>>10)
			}
			if more := metric(g.series(t), "modelgate_keyless_requests_total") - counted; more < n/10 && strings.HasPrefix(tt.path, "/v1") {
				t.Errorf("%v requests counted, want %d", more, n/10)
			}
		})
	}
	attack(t, "log and export", "entries of requests without a key are cut short", func(t *testing.T) {
		// They belong to no organisation.
		list := g.as(t, g.cliKey(t, "--all-organisations"), "GET", "/v1/logs?limit=100", "").ok(t)
		if n := len(list.body); n > 200<<10 || strings.Contains(string(list.body), strings.Repeat("a", 300)) {
			t.Errorf("100 entries take %d bytes, or have a long text of a request without a key", n)
		}
		// An hour's part of 1 MB at once is room for 21 entries of 2 KB, and a minute brings
		// less than another.
		if entries := list.object(t)["data"].([]any); len(entries) < 20 || len(entries) > 30 {
			t.Errorf("%d entries of requests without a key are in the log, want 21 or some more", len(entries))
		}
	})
}

// Tokens that an issuer of an organisation did not sign are in the audit log of the
// organisation, and anybody can send them.
func TestRejectedTokensFillNoAuditLog(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: "version: 1\nlogs: {keyless_per_day: 480 KB}\n"})
	trusted, unknown := newTokenSigner(t), newTokenSigner(t)
	g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"jwt":{"jwks":`+trusted.set()+`}}}`).ok(t)
	me := g.as(t, g.key(t, rootKey, "default", []string{"completions.write"}, ""), "GET", "/v1/auth/me", "").ok(t)
	token := unknown.token(t, map[string]any{
		"gateway_oid": me.text(t, "organisation_id"), "gateway_workspace": "default", "scope": "configs.list", "sub": "eve", "exp": time.Now().Add(time.Hour).Unix(),
	})
	attack(t, "exhaustion", "flood: tokens of an unknown issuer", func(t *testing.T) {
		g.flood(t, 240, "GET", "/v1/configs", "", "x-gateway-api-key", token)
		rows := strings.Count(g.auditsAbout(t, `"resource_type":"token"`), `"resource_type":"token"`)
		// An hour's part of 480 KB is 20 KB, and a row counts with 1 KB at least.
		if rows == 0 || rows > 20 {
			t.Errorf("%d rejected tokens are in the audit log, want 1 to 20", rows)
		}
	})
}
