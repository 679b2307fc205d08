package routing

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/gatewaytest"
)

const chatBody = `{"model":"sim-1","messages":[{"role":"user","content":"Hi"}]}`

// seen is a provider that writes down which credentials it got.
type seen struct {
	mu   sync.Mutex
	auth []string // guarded by mu
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.auth = append(s.auth, r.Header.Get("Authorization"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`)
}

// take returns the credentials seen since the last time.
func (s *seen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := strings.Join(s.auth, " | ")
	s.auth = nil
	return got
}

const refusalSettings = `
providers:
  - {slug: own, provider: openai-compatible, custom_host: SIMULATOR, api_key: "${STORED_KEY}"}
  - {slug: other, provider: groq, custom_host: SIMULATOR, api_key: "${STORED_KEY}"}
upstream: {trusted_hosts: [127.0.0.1]}
configs:
  - slug: pc-stored
    config: {provider: openai, api_key: "${CONFIG_KEY}", custom_host: SIMULATOR}
  - slug: pc-hostless
    config: {strategy: {mode: fallback}, targets: [{provider: openai, api_key: "${CONFIG_KEY}"}, {provider: "@own"}]}
keys:
  - {name: all, sha256: ALL}
  - {name: narrow, sha256: NARROW, providers: [own]}
`

func newRefusing(t *testing.T) (*gatewaytest.Gateway, *seen) {
	t.Helper()
	t.Setenv("STORED_KEY", "stored-key")
	t.Setenv("CONFIG_KEY", "config-key")
	hash := func(key string) string { return access.HashKey(key).String() }
	s := new(seen)
	return gatewaytest.New(t, gatewaytest.Options{
		Settings: strings.NewReplacer("ALL", hash("key-of-a-test-for-all"), "NARROW", hash("key-of-a-test-for-own")).Replace(refusalSettings),
		Upstream: s,
	}), s
}

// Whatever a config gets wrong about names, credentials and hosts is reported
// before anything is sent, wherever in the tree it stands.
func TestForbiddenTargetsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	g, provider := newRefusing(t)
	inner := func(leaf string) string { return `{"strategy":{"mode":"loadbalance"},"targets":[` + leaf + `]}` }
	fallback := func(more string, targets ...string) string {
		return `{"strategy":{"mode":"fallback"}` + more + `,"targets":[` + strings.Join(targets, ",") + `]}`
	}
	host := `,"custom_host":"` + g.Upstream + `"`
	const own, gone, other = `{"provider":"@own"}`, `{"provider":"@gone"}`, `{"provider":"@other"}`
	for _, tt := range []struct {
		name, key, config string
		headers           []string
		status            int
		code              string
	}{
		{"an unknown slug at the root", "key-of-a-test-for-all", gone, nil, 404, "unknown_slug"},
		{"an unknown slug that would be tried second", "key-of-a-test-for-all", fallback("", own, gone), nil, 404, "unknown_slug"},
		{"an unknown slug far below", "key-of-a-test-for-all", fallback("", own, inner(inner(gone))), nil, 404, "unknown_slug"},
		{"an unknown slug in a branch that no condition names", "key-of-a-test-for-all",
			`{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.x":"1"},"then":"b"}],"default":"a"},"targets":[{"name":"a","provider":"@own"},{"name":"b","provider":"@gone"}]}`, nil, 404, "unknown_slug"},
		{"an unknown virtual key", "key-of-a-test-for-all", `{"virtual_key":"gone"}`, nil, 404, "unknown_slug"},
		{"an unknown provider", "key-of-a-test-for-all", fallback("", own, `{"provider":"acme","api_key":"k"}`), nil, 400, "unknown_provider"},
		{"an unknown saved config", "key-of-a-test-for-all", "pc-gone", nil, 404, "unknown_config"},

		{"a provider that the key may not use", "key-of-a-test-for-own", fallback("", own, other), nil, 403, "provider_not_allowed"},
		{"a row that the key may not use", "key-of-a-test-for-own", fallback("", own, inner(`{"provider":"openai","api_key":"k"}`)), nil, 403, "provider_not_allowed"},

		{"a managed provider with a host of the config", "key-of-a-test-for-all", `{"provider":"@own"` + host + `}`, nil, 400, "custom_host_refused"},
		{"a managed provider that inherits a host", "key-of-a-test-for-all", fallback(host, `{"provider":"openai","api_key":"k"}`, own), nil, 400, "custom_host_refused"},
		{"a managed provider with a host of the headers", "key-of-a-test-for-all", fallback("", own), []string{"x-gateway-custom-host", g.Upstream}, 400, "custom_host_refused"},
		{"a saved credential with a host of the headers", "key-of-a-test-for-all", "pc-hostless", []string{"x-gateway-custom-host", g.Upstream}, 400, "custom_host_refused"},
		{"a host that nobody trusts", "key-of-a-test-for-all", fallback("", own, `{"provider":"openai","api_key":"k","custom_host":"http://169.254.169.254/v1"}`), nil, 400, "custom_host_refused"},

		{"a target without a credential, though the client sent one", "key-of-a-test-for-all", fallback("", own, `{"provider":"openai","virtual_key":"x"}`), []string{"Authorization", "Bearer client-key"}, 400, "missing_credential"},
		{"no provider anywhere", "key-of-a-test-for-all", `{"retry":{"attempts":1}}`, nil, 400, "missing_provider"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			headers := append([]string{"x-gateway-provider", "", "x-gateway-api-key", tt.key, "x-gateway-config", tt.config}, tt.headers...)
			res := g.Post("/chat/completions", chatBody, headers...)
			e, _ := res.JSON(t)["error"].(map[string]any)
			if res.Status != tt.status || e["code"] != tt.code || e["source"] != "gateway" {
				t.Errorf("status %d, error %v; want %d, %s of the gateway", res.Status, e, tt.status, tt.code)
			}
			if got := provider.take(); got != "" {
				t.Errorf("the provider was called with %q", got)
			}
		})
	}
}

// A credential goes where it was meant to go.
func TestCredentialOfTheChosenTargetIsSent(t *testing.T) {
	g, provider := newRefusing(t)
	host := `"custom_host":"` + g.Upstream + `"`
	client := []string{"Authorization", "Bearer client-key"}
	for _, tt := range []struct {
		name, config string
		headers      []string
		want         string
	}{
		{"of the config", `{"provider":"openai","api_key":"config-key",` + host + `}`, client, "Bearer config-key"},
		{"of the target, with the host of its parent", `{` + host + `,"strategy":{"mode":"single"},"targets":[{"provider":"openai","api_key":"target-key"}]}`, client, "Bearer target-key"},
		{"of the client, for a target that has none", `{"provider":"openai-compatible",` + host + `}`, client, "Bearer client-key"},
		{"of the managed provider", `{"provider":"@own"}`, client, "Bearer stored-key"},
		{"of the saved config", "pc-stored", client, "Bearer config-key"},
		{"of the client, where the headers name the provider", `{"retry":{"attempts":1}}`, append(client, "x-gateway-provider", "openai", "x-gateway-custom-host", g.Upstream), "Bearer client-key"},
		{"of the config again, though the headers name a provider", `{"provider":"openai","api_key":"config-key",` + host + `}`, append(client, "x-gateway-provider", "groq"), "Bearer config-key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			headers := append([]string{"x-gateway-provider", "", "x-gateway-api-key", "key-of-a-test-for-all", "x-gateway-config", tt.config}, tt.headers...)
			if res := g.Post("/chat/completions", chatBody, headers...); res.Status != 200 {
				t.Fatalf("status %d: %s", res.Status, res.Body)
			}
			if got := provider.take(); got != tt.want {
				t.Errorf("the provider got the credential %q, want %q", got, tt.want)
			}
		})
	}
}
