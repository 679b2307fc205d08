package server_test

import (
	"bytes"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestAnOrganisationMayRequireSavedConfigs(t *testing.T) {
	t.Parallel()
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		g := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
		saved := slugOf(t, saveConfig(g, "own"))
		const inline = `{"provider":"@simulator"}`
		ask := func(config string) gatewaytest.Response {
			return g.Post("/chat/completions", chat, "x-gateway-provider", "", "x-gateway-config", config)
		}
		say := func(value string) {
			t.Helper()
			res := g.Do(g.Request("PUT", "/admin/organisation", `{"settings":{"block_inline_config":`+value+`}}`))
			if res.Status != 200 {
				t.Fatalf("%d %s", res.Status, res.Body)
			}
		}
		waittest.Until(t, "the saved config counts", func() bool { return ask(saved).Status == 200 })
		if res := ask(inline); res.Status != 200 {
			t.Errorf("a config of the request, before: %d %s", res.Status, res.Body)
		}
		say("true")
		waittest.Until(t, "a config of the request is refused", func() bool {
			res := ask(inline)
			return res.Status == 403 && bytes.Contains(res.Body, []byte("inline_config_blocked"))
		})
		if res := ask(saved); res.Status != 200 {
			t.Errorf("a saved one: %d %s", res.Status, res.Body)
		}
		if res := g.Post("/chat/completions", chat); res.Status != 200 {
			t.Errorf("no config: %d %s", res.Status, res.Body)
		}
		say("null")
		waittest.Until(t, "a config of the request is taken again", func() bool { return ask(inline).Status == 200 })
	})
}
