package conformance

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestAKeyUsesItsOwnProvidersOnly(t *testing.T) {
	own, other := newProvider(t, nil), newProvider(t, nil)
	hash := func(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }
	const bySlug, byID = "mg-key-of-a-test-by-slug", "mg-key-of-a-test-by-id"
	g := launchFor(t, strings.NewReplacer("OWN", own.url, "OTHER", other.url, "SLUGHASH", hash(bySlug), "IDHASH", hash(byID)).Replace(`version: 1
providers:
  - {slug: mine, provider: openai-compatible, api_key: "${STORED_KEY}", custom_host: "OWN", models: [m-1, e-1]}
  - {slug: theirs, provider: openai-compatible, api_key: "${STORED_KEY}", custom_host: "OTHER", models: [m-1, e-1]}
  - {slug: native, provider: anthropic, api_key: "${STORED_KEY}", custom_host: "OTHER", models: [m-1]}
configs:
  - {slug: pc-theirs, config: {provider: "@theirs"}}
keys:
  - {name: slug, sha256: SLUGHASH, providers: [mine]}
  - {name: id, sha256: IDHASH, providers: [openai-compatible]}
`), "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	chat, embed := modelRoutes[0], modelRoutes[2]
	direct := []string{"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", other.url, "Authorization", "Bearer " + credential}
	for _, tt := range []struct {
		name, key, method, path, body string
		header                        []string
		refused                       bool
	}{
		{"a listed slug", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-provider", "@mine"}, false},
		{"a listed slug of embeddings", bySlug, "POST", embed.path, embed.body, []string{"x-gateway-provider", "@mine"}, false},
		{"a listed slug of pass-through", bySlug, "GET", "/v1/things", "", []string{"x-gateway-provider", "@mine"}, false},
		{"a listed slug of a config", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-config", `{"provider":"@mine"}`}, false},
		{"a listed slug of a virtual key", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-virtual-key", "mine"}, false},
		{"another slug", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-provider", "@theirs"}, true},
		{"another slug of embeddings", bySlug, "POST", embed.path, embed.body, []string{"x-gateway-provider", "@theirs"}, true},
		{"another slug of pass-through", bySlug, "GET", "/v1/things", "", []string{"x-gateway-provider", "@theirs"}, true},
		{"another slug of a virtual key", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-virtual-key", "theirs"}, true},
		{"another slug of the model", bySlug, "POST", chat.path, strings.Replace(chat.body, "m-1", "@theirs/m-1", 1), nil, true},
		{"another slug of a config", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-config", `{"provider":"@theirs"}`}, true},
		{"another slug of a saved config", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-config", "pc-theirs"}, true},
		{"another slug of a later target", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-config", tree(fallback, `{"provider":"@mine"}`, `{"provider":"@theirs"}`)}, true},
		{"a provider with the client's credential", bySlug, "POST", chat.path, chat.body, direct, true},
		{"a provider with a credential of a config", bySlug, "POST", chat.path, chat.body, []string{"x-gateway-config", leaf(other)}, true},
		{"a slug of a listed provider", byID, "POST", chat.path, chat.body, []string{"x-gateway-provider", "@mine"}, false},
		{"a listed provider with the client's credential", byID, "POST", chat.path, chat.body, direct, false},
		{"a slug of another provider", byID, "POST", chat.path, chat.body, []string{"x-gateway-provider", "@native"}, true},
		{"another provider with the client's credential", byID, "POST", chat.path, chat.body, append([]string{"x-gateway-provider", "anthropic"}, direct[2:]...), true},
		{"another provider by its neutral word", byID, "POST", chat.path, chat.body, append([]string{"x-gateway-provider", "vendorb"}, direct[2:]...), true},
	} {
		prove(t, "M-168", tt.name, func(t *testing.T) {
			own.forget()
			other.forget()
			got := g.do(t, tt.method, tt.path, tt.body, append([]string{"x-gateway-api-key", tt.key}, tt.header...)...)
			if !tt.refused {
				got.wantOK(t)
				return
			}
			if e := got.refused(t, http.StatusForbidden); e["code"] != "provider_not_allowed" {
				t.Errorf("code %v, want provider_not_allowed", e["code"])
			}
			own.wantNoRequests(t)
			other.wantNoRequests(t)
		})
	}
	for key, want := range map[string][]string{bySlug: {"@mine/e-1", "@mine/m-1"}, byID: {"@mine/e-1", "@mine/m-1", "@theirs/e-1", "@theirs/m-1"}} {
		prove(t, "M-168", "the models of "+key, func(t *testing.T) {
			wantItems(t, g.do(t, "GET", "/v1/models", "", "x-gateway-api-key", key).wantOK(t).items(t, "id"), want...)
		})
	}
}
