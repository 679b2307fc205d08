package server_test

import (
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestAPublicAddressMayHaveAPath(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "version: 1\npublic_url: https://example.com/ai/gateway\n" +
		"providers:\n  - {slug: a, provider: openai-compatible, custom_host: SIMULATOR/v1}\n"})
	for _, base := range []string{"/ai/gateway", ""} { // a proxy may remove it
		g.URL = g.Root + base + "/v1"
		if res := g.Post("/chat/completions", chat); res.Status != 200 {
			t.Errorf("a model request below %q: %d %.200s", base, res.Status, res.Body)
		}
		if res := g.Get("/configs"); res.Status != 200 {
			t.Errorf("a list below %q: %d %.200s", base, res.Status, res.Body)
		}
		g.URL = g.Root + base
		for _, page := range []string{"/claim", "/accept-invite", "/set-password", "/reference"} {
			res := g.Get(page)
			if res.Status != 200 || !strings.Contains(string(res.Body), "<html") {
				t.Errorf("%s%s: %d %.200s", base, page, res.Status, res.Body)
			}
			if absolute := regexp.MustCompile(`["'`+"`"+`]/[a-z][^"]*`).FindAll(res.Body, -1); len(absolute) > 0 {
				t.Errorf("%s has addresses that leave the path: %q", page, absolute)
			}
		}
		for _, path := range []string{"/health", "/ready", "/openapi.json"} {
			if res := g.Get(path); res.Status != 200 {
				t.Errorf("%s%s: %d %.200s", base, path, res.Status, res.Body)
			}
		}
	}
	for _, path := range []string{"/ai/gatewayv1/models", "/ai/v1/models", "/ai/gateway/ai/gateway/v1/models"} {
		g.URL = g.Root
		if res := g.Get(path); res.Status != 404 {
			t.Errorf("%s: %d %.200s, want 404", path, res.Status, res.Body)
		}
	}
}
