package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/upstream"
)

// serves reports whether requests through @slug are answered.
func serves(g *gatewaytest.Gateway, slug string) bool {
	res := g.Post("/chat/completions", `{"model":"first","messages":[{"role":"user","content":"hi"}]}`, "x-gateway-provider", "@"+slug)
	return res.Status == http.StatusOK
}

// refusesTest sends a change whose test must fail with a message, and without a credential.
func refusesTest(t *testing.T, g *gatewaytest.Gateway, call, body, says string) {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	res := g.Do(g.Request(method, path, body, "x-gateway-provider", ""))
	var e struct {
		Error struct{ Param, Message string }
	}
	if err := json.Unmarshal(res.Body, &e); err != nil {
		t.Fatalf("%s: %s", call, res.Body)
	}
	if res.Status != 400 || !strings.HasPrefix(e.Error.Param, "test") || !strings.Contains(e.Error.Message, says) {
		t.Errorf("%s %s: %d %s, want 400, a parameter of the test, and %q", call, body, res.Status, res.Body, says)
	}
	if strings.Contains(string(res.Body), "sk-wrong") || strings.Contains(string(res.Body), goodKey) {
		t.Errorf("%s: the refusal holds a credential: %s", call, res.Body)
	}
}

func TestFailingCredentialDoesNotReplaceAWorkingOne(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: moody{goodKey}, MasterKey: master, Reach: upstream.Options{Resolver: nobody{}}})
	integration := fmt.Sprintf(`{"name":"n","slug":"tested","ai_provider_id":"openai","key":%%q,"configurations":{"custom_host":%q}}`, g.Upstream)
	key := fmt.Sprintf(`{"name":"v","provider":"openai","key":%%q,"custom_host":%q,"workspace_id":"default"}`, g.Upstream)

	refusesTest(t, g, "POST /integrations?test=true", fmt.Sprintf(integration, "sk-wrong-0123456789"), "at the step credential: the provider does not accept")
	refusesTest(t, g, "POST /virtual-keys?test=true", fmt.Sprintf(key, "sk-wrong-0123456789"), "at the step credential")
	if res := g.Get("/integrations/tested", "x-gateway-provider", ""); res.Status != http.StatusNotFound {
		t.Errorf("a refused integration was stored: %d %s", res.Status, res.Body)
	}
	mustCall(t, g, "POST", "/integrations?test=true", fmt.Sprintf(integration, goodKey))
	res := g.Post("/virtual-keys?test=true&test_model=first", fmt.Sprintf(key, goodKey), "x-gateway-provider", "")
	var made struct{ Data struct{ Slug string } }
	if err := json.Unmarshal(res.Body, &made); err != nil || made.Data.Slug == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	for _, call := range []string{"PUT /integrations/tested?test=true", "PUT /virtual-keys/" + made.Data.Slug + "?workspace_id=default&test=true"} {
		refusesTest(t, g, call, `{"key":"sk-wrong-0123456789"}`, "at the step credential")
	}
	if !serves(g, "tested") || !serves(g, made.Data.Slug) {
		t.Error("a failed test changed the stored credential")
	}
	for name, tt := range map[string]struct{ host, says string }{
		"nobody there":                    {"http://127.0.0.1:1/v1", "at the step connect"},
		"a name of the private network":   {"https://inside.example.com", "at the step resolve"},
		"a name that cannot be resolved":  {"https://nobody.example.com", "at the step resolve"},
		"a certificate of no known owner": {untrusted(t), "at the step tls"},
	} {
		t.Run(name, func(t *testing.T) {
			refusesTest(t, g, "PUT /integrations/tested?test=true", fmt.Sprintf(`{"key":%q,"configurations":{"custom_host":%q}}`, goodKey, tt.host), tt.says)
		})
	}
	refusesTest(t, g, "PUT /integrations/tested?test=true&test_model=first", `{"key":"sk-wrong-0123456789"}`, "at the step credential")
	if !serves(g, "tested") {
		t.Error("a failed test changed the stored address")
	}
	mustCall(t, g, "PUT", "/integrations/tested", `{"key":"sk-wrong-0123456789"}`)
	if serves(g, "tested") {
		t.Error("without a test, the change had no effect")
	}
	mustCall(t, g, "PUT", "/integrations/tested?test=true", fmt.Sprintf(`{"key":%q}`, goodKey))
	if !serves(g, "tested") {
		t.Error("a tested credential was not stored")
	}
	if got := tryIntegration(t, g, `{"provider":"tested","workspace_id":"default"}`); !got.OK {
		t.Errorf("the test of a provider: %+v", got)
	}
	for call, says := range map[string]string{
		"PUT /integrations/tested?test_model=first":                            "add test=true",
		"PUT /virtual-keys/" + made.Data.Slug + "?workspace_id=default&test=1": "needs new credentials",
	} {
		method, path, _ := strings.Cut(call, " ")
		if res := g.Do(g.Request(method, path, `{"name":"other"}`, "x-gateway-provider", "")); res.Status != 400 || !strings.Contains(string(res.Body), says) {
			t.Errorf("%s: %d %s, want 400 and %q", call, res.Status, res.Body, says)
		}
	}
}

// untrusted returns the address of a provider with a certificate of an unknown authority.
func untrusted(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(moody{goodKey})
	t.Cleanup(s.Close)
	return s.URL
}

// A provider that takes the request and never responds must not hold the change, nor win by it.
func TestTestOfAProviderThatHangsEnds(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "sk-wrong") && strings.HasSuffix(r.URL.Path, "/models") {
			<-r.Context().Done()
			return
		}
		moody{goodKey}.ServeHTTP(w, r)
	})})
	mustCall(t, g, "POST", "/integrations?test=true", fmt.Sprintf(`{"name":"n","slug":"tested","ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream))
	refusesTest(t, g, "PUT /integrations/tested?test=true", `{"key":"sk-wrong-0123456789"}`, "at the step credential")
	if !serves(g, "tested") {
		t.Error("the credential of a provider that hangs replaced a working one")
	}
}

func TestCredentialThatNothingProvesIsNotStoredByATest(t *testing.T) {
	t.Parallel()
	g := newMoody(t)
	body := fmt.Sprintf(`{"name":"n","slug":"unlisted","ai_provider_id":"perplexity-ai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream)
	refusesTest(t, g, "POST /integrations?test=true", body, "was not possible at the step credential: the provider has no list of models")
	mustCall(t, g, "POST", "/integrations?test=true&test_model=first", body)
}

func TestTestedCredentialFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen.Add(1)
		io.WriteString(w, `{"data":[{"id":"first"}]}`)
	}))
	t.Cleanup(thief.Close)
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master, Upstream: http.RedirectHandler(thief.URL+"/v1/models", http.StatusTemporaryRedirect)})
	refusesTest(t, g, "POST /integrations?test=true", fmt.Sprintf(`{"name":"n","ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream), "status 307")
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d requests followed a redirect to another host", n)
	}
}

func TestOnlyThoseWhoStoreCredentialsTestThem(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		moody{goodKey}.ServeHTTP(w, r)
	})})
	res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["providers.read","providers.list","providers.update","completions.write"]}`, "x-gateway-provider", "")
	var key struct{ Key string }
	if err := json.Unmarshal(res.Body, &key); err != nil || key.Key == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	mustCall(t, g, "POST", "/integrations", fmt.Sprintf(`{"name":"n","slug":"stored","ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream))
	for call, body := range map[string]string{
		"POST /integrations/test":               `{"provider":"stored"}`,
		"POST /integrations?test=true":          fmt.Sprintf(`{"name":"n","ai_provider_id":"openai","key":"k","configurations":{"custom_host":%q}}`, g.Upstream),
		"PUT /integrations/stored?test=true":    `{"name":"m"}`,
		"POST /virtual-keys?test=true":          fmt.Sprintf(`{"name":"n","provider":"openai","key":"k","custom_host":%q}`, g.Upstream),
		"PUT /virtual-keys/stored?test=true":    `{"key":"k"}`,
		"POST /integrations/test?model=first":   `{"integration":"stored"}`,
		"PUT /integrations/stored?test=true&x=": `{}`,
	} {
		method, path, _ := strings.Cut(call, " ")
		res := g.Do(g.Request(method, path, body, "x-gateway-provider", "", "x-gateway-api-key", key.Key))
		if res.Status != http.StatusForbidden && res.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s, want 403 or 404", call, res.Status, res.Body)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}
