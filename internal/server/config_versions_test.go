package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// TestRequestsNameAVersionOfAConfig saves three versions of a config, of which the provider
// answers each with another status. The first has a credential.
func TestRequestsNameAVersionOfAConfig(t *testing.T) {
	t.Parallel()
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		data := t.TempDir()
		o := gatewaytest.Options{Database: dsn, Data: data, MasterKey: "a master key of a test", Settings: "upstream: {trusted_hosts: [127.0.0.1]}\n"}
		g := gatewaytest.New(t, o)
		slug := slugOf(t, g.Post("/configs", `{"name":"v","config":{"provider":"openai","custom_host":"`+g.Upstream+`","api_key":"`+gatewaytest.SimulatorKey+`"}}`))
		for _, status := range []string{"422", "400"} {
			mustDo(t, g, "PUT", "/configs/"+slug, `{"config":{"provider":"@simulator","override_params":{"model":"sim-1+status=`+status+`"}}}`)
		}
		var read struct{ Data struct{ ID string } }
		if err := json.Unmarshal(g.Get("/configs/"+slug).Body, &read); err != nil {
			t.Fatal(err)
		}
		makeKey := func(defaults string) string {
			var made struct{ Key string }
			res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"defaults":`+defaults+`}`)
			if err := json.Unmarshal(res.Body, &made); err != nil || made.Key == "" {
				t.Fatalf("a key with %s: %d %s", defaults, res.Status, res.Body)
			}
			return made.Key
		}
		first := makeKey(`{"config_id":"` + read.Data.ID + `@1"}`)
		fixed := makeKey(`{"config_id":"` + slug + `@1","allow_config_override":false}`)
		current := makeKey(`{"config_id":"` + slug + `","allow_config_override":false}`)
		ask := func(g *gatewaytest.Gateway, key, config string) gatewaytest.Response {
			return g.Post("/chat/completions", chat, "x-gateway-api-key", key, "x-gateway-provider", "", "x-gateway-config", config)
		}
		waittest.Until(t, "the keys apply", func() bool { return ask(g, current, "").Status == 400 })
		cases := []struct {
			name, key, config string
			status            int
			body              string
		}{
			{"the current version", gatewaytest.Key, slug, 400, ""},
			{"the first, with its credential", gatewaytest.Key, slug + "@1", 200, ""},
			{"the second", gatewaytest.Key, slug + "@2", 422, ""},
			{"by its id", gatewaytest.Key, read.Data.ID + "@2", 422, ""},
			{"the current by its number", gatewaytest.Key, slug + "@3", 400, ""},
			{"an unknown version", gatewaytest.Key, slug + "@4", 404, "it has versions 1 to 3"},
			{"zero", gatewaytest.Key, slug + "@0", 404, "unknown_config"},
			{"an unknown config", gatewaytest.Key, "pc-none@1", 404, "unknown_config"},
			{"a key's default", first, "", 200, ""},
			{"another than a key's default", first, slug + "@2", 422, ""},
			{"a key's fixed version", fixed, "", 200, ""},
			{"a key's fixed version by its id", fixed, read.Data.ID + "@1", 200, ""},
			{"another than a key's fixed version", fixed, slug + "@2", 400, "config_fixed"},
			{"the current instead of a key's fixed version", fixed, slug, 400, "config_fixed"},
			{"an older instead of a key's fixed config", current, slug + "@1", 400, "config_fixed"},
			{"an unknown instead of a key's fixed config", current, slug + "@9", 400, "config_fixed"},
		}
		check := func(g *gatewaytest.Gateway) {
			for _, tt := range cases {
				if res := ask(g, tt.key, tt.config); res.Status != tt.status || !bytes.Contains(res.Body, []byte(tt.body)) {
					t.Errorf("%s: %d %s, want %d with %q", tt.name, res.Status, res.Body, tt.status, tt.body)
				}
			}
		}
		check(g)
		mustDo(t, g, "PUT", "/configs/"+slug, `{"name":"renamed"}`)
		waittest.Until(t, "the change is published", func() bool { return ask(g, gatewaytest.Key, slug+"@1").Status == http.StatusOK })
		check(g)
		if res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"defaults":{"config_id":"`+slug+`@4"}}`); res.Status != http.StatusNotFound || !bytes.Contains(res.Body, []byte("it has versions 1 to 3")) {
			t.Errorf("a key with an unknown version: %d %s", res.Status, res.Body)
		}
		if res := g.Post("/cache/invalidate", `{"workspace_id":"default","config":"`+slug+`@1"}`); res.Status != http.StatusBadRequest {
			t.Errorf("invalidating responses of a version: %d %s", res.Status, res.Body)
		}
		if res := g.Get("/configs/" + slug + "@4"); res.Status != http.StatusNotFound || !bytes.Contains(res.Body, []byte("it has versions 1 to 3")) {
			t.Errorf("reading an unknown version: %d %s", res.Status, res.Body)
		}
		explained := g.Post("/explain", `{"config":"`+slug+`@2","request":{"body":`+chat+`}}`)
		if explained.Status != http.StatusOK || !bytes.Contains(explained.Body, []byte("status=422")) {
			t.Errorf("explaining a version: %d %s", explained.Status, explained.Body)
		}
		mustDo(t, g, "PUT", "/admin/organisation", `{"settings":{"block_inline_config":true}}`)
		waittest.Until(t, "replaced versions are refused", func() bool {
			res := ask(g, gatewaytest.Key, slug+"@1")
			return res.Status == http.StatusForbidden && bytes.Contains(res.Body, []byte("config_version_blocked"))
		})
		for config, key := range map[string]string{slug: gatewaytest.Key, slug + "@3": gatewaytest.Key, "": first} {
			if res := ask(g, key, config); res.Status == http.StatusForbidden {
				t.Errorf("%q where only saved configs are allowed: %d %s", config, res.Status, res.Body)
			}
		}
		mustDo(t, g, "PUT", "/admin/organisation", `{"settings":{"block_inline_config":null}}`)
		waittest.Until(t, "replaced versions are used again", func() bool { return ask(g, gatewaytest.Key, slug+"@1").Status == http.StatusOK })
		mustDo(t, g, "POST", "/policies/rate-limits", `{"workspace_id":"default","conditions":[{"key":"config","value":"`+slug+`"}],"group_by":[{"key":"config"}],"type":"requests","unit":"rpw","value":1}`)
		waittest.Until(t, "a policy for the config applies to its versions", func() bool { return ask(g, gatewaytest.Key, slug+"@1").Status == http.StatusTooManyRequests })
		mustDo(t, g, "DELETE", "/configs/"+slug, "")
		waittest.Until(t, "the archived config has no versions", func() bool { return ask(g, gatewaytest.Key, slug+"@1").Status == http.StatusNotFound })
	})
}
