package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestHeadersWithoutEffectAreReported(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "compat: {header_prefixes: [x-old-]}\nupstream: {trusted_hosts: [127.0.0.1]}\n"})
	own := func(provider string, more ...string) []string {
		return append([]string{"x-gateway-provider", provider, "x-gateway-custom-host", g.Upstream, "authorization", "Bearer " + gatewaytest.SimulatorKey}, more...)
	}
	const chat = "/chat/completions"
	config := func(leaves string) []string {
		return []string{"x-gateway-provider", "", "x-gateway-config", leaves}
	}
	for _, tt := range []struct {
		name, path string
		header     []string
		params     string
	}{
		{"one that the gateway does not know", chat, []string{"x-gateway-invented", "1"}, "x-gateway-invented;ignored"},
		{"several, in the order of their names", chat, []string{"x-gateway-b", "1", "x-gateway-a", "1"}, "x-gateway-a;ignored, x-gateway-b;ignored"},
		{"of another family", chat, []string{"x-old-invented", "1"}, "x-gateway-invented;ignored"},
		{"an option at a managed provider", chat, []string{"x-gateway-cloud-a-region", "eu-central-1"}, "x-gateway-cloud-a-region;ignored"},
		{"an option of the provider", chat, own("vendora", "x-gateway-vendora-organization", "o"), ""},
		{"an option of another provider", chat, own("vendora", "x-gateway-cloud-a-region", "eu-central-1"), "x-gateway-cloud-a-region;ignored"},
		{"with a config that leaves the provider to the request", chat, append(own("vendora", "x-gateway-vendora-organization", "o", "x-gateway-a", "1"), "x-gateway-config", `{"retry":{"attempts":1}}`), "x-gateway-a;ignored"},
		{"with a config that names its provider", chat, append(config(`{"provider":"@simulator"}`), "x-gateway-vendora-organization", "o"), "x-gateway-vendora-organization;ignored"},
		{"with a config that names its provider, which has the option", chat,
			append(config(fmt.Sprintf(`{"provider":"openai","custom_host":%q,"api_key":%q}`, g.Upstream, gatewaytest.SimulatorKey)), "x-gateway-vendora-organization", "o"), "x-gateway-vendora-organization;ignored"},
		{"on pass-through", "/any", []string{"x-gateway-invented", "1"}, "x-gateway-invented;ignored"},
		{"a header that the gateway knows", chat, []string{"x-gateway-span-name", "n", "x-gateway-debug", "true"}, ""},
		{"a header of nobody", chat, []string{"x-invented", "1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Post(tt.path, fmt.Sprintf(hello, false), tt.header...)
			if got := res.Header.Get("x-gateway-params"); got != tt.params || tt.path == chat && res.Status != 200 {
				t.Errorf("status %d, x-gateway-params = %q; want 200, %q: %.200s", res.Status, got, tt.params, res.Body)
			}
		})
	}
	for _, path := range []string{"/models", "/schema/config"} {
		res := g.Get(path, "x-gateway-provider", "", "x-gateway-invented", "1")
		if got := res.Header.Get("x-gateway-params"); res.Status != 200 || got != "x-gateway-invented;ignored" {
			t.Errorf("%s: status %d, x-gateway-params = %q", path, res.Status, got)
		}
	}
	var many []string
	for i := range 150 {
		many = append(many, fmt.Sprintf("x-gateway-a-long-name-that-nobody-knows-%03d", i), "1")
	}
	got := g.Post(chat, fmt.Sprintf(hello, false), many...).Header.Get("x-gateway-params")
	if len(got) > 5<<10 || !strings.Contains(got, "x-gateway-a-long-name-that-nobody-knows-000;ignored") || !strings.Contains(got, "more;count=") {
		t.Errorf("x-gateway-params of many has %d bytes: %.100s … %s", len(got), got, got[max(len(got)-40, 0):])
	}
}
