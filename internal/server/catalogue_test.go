package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/upstream"
)

// moody is a provider that accepts one key, lists two models and fails on request.
type moody struct{ key string }

func (m moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Ratelimit-Limit-Requests", "60")
	h.Set("X-Ratelimit-Remaining-Requests", "59")
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case key != m.key:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s"}}`, key)
	case strings.HasSuffix(r.URL.Path, "/models"):
		io.WriteString(w, `{"data":[{"id":"first"},{"id":"second"}]}`)
	case r.Header.Get("X-Break") != "":
		h.Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"po\"}}]}\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case r.Header.Get("X-Fail") != "":
		h.Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"slow down, `+key+`"}}`)
	default:
		io.WriteString(w, `{"id":"c","object":"chat.completion","model":"first","choices":[{"index":0,"message":{"role":"assistant","content":"pong"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
	}
}

// nobody resolves one name, to an address of a private network.
type nobody struct{}

func (nobody) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host == "inside.example.com" {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

const goodKey = "sk-good-0123456789"

func newMoody(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.New(t, gatewaytest.Options{Upstream: moody{goodKey}, MasterKey: master})
}

// trial is the response to a test of an integration.
type trial struct {
	OK    bool
	Steps []struct {
		Step, State, Message string
		Status               *int
		Paid                 bool
	}
	Models     []string
	Total      int `json:"total_models"`
	RateLimits []struct {
		Name             string
		Limit, Remaining *float64
	} `json:"rate_limits"`
	LogID *string `json:"log_id"`
}

// states returns the steps with their states.
func (t *trial) states() string {
	var list []string
	for _, s := range t.Steps {
		list = append(list, s.Step+" "+s.State)
	}
	return strings.Join(list, ", ")
}

func tryIntegration(t *testing.T, g *gatewaytest.Gateway, body string) (out trial) {
	t.Helper()
	res := g.Post("/integrations/test", body, "x-gateway-provider", "")
	if res.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, res.Status, res.Body)
	}
	if strings.Contains(string(res.Body), goodKey) || strings.Contains(string(res.Body), "sk-wrong") {
		t.Errorf("the response holds a credential: %s", res.Body)
	}
	if err := json.Unmarshal(res.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestIntegrationIsTriedStepByStep(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: moody{goodKey}, MasterKey: master, Reach: upstream.Options{Resolver: nobody{}}})
	secure := httptest.NewTLSServer(moody{goodKey})
	t.Cleanup(secure.Close)
	const reached = "address ok, resolve ok, connect ok, tls skipped, "
	for _, tt := range []struct {
		name, provider, key, host, more, want, says string
	}{
		{"all is well", "openai", goodKey, g.Upstream, "", reached + "credential ok, models ok, completion skipped", "2 models found"},
		{"with a completion", "openai", goodKey, g.Upstream, `,"model":"first"`, reached + "credential ok, models ok, completion ok", "paid for"},
		{"a wrong key", "openai", "sk-wrong-0123456789", g.Upstream, "", reached + "credential failed, models skipped, completion skipped", "status 401, Incorrect API key provided: ***"},
		{"nobody there", "openai", goodKey, "http://127.0.0.1:1/v1", "", "address ok, resolve ok, connect failed, tls skipped, credential skipped, models skipped, completion skipped", "connection refused"},
		{"a certificate of nobody", "openai", goodKey, secure.URL, "", "address ok, resolve ok, connect ok, tls failed, credential skipped, models skipped, completion skipped", "unknown authority"},
		{"a name of the private network", "openai", goodKey, "https://inside.example.com", "", "address ok, resolve failed, connect skipped, tls skipped, credential skipped, models skipped, completion skipped", "rule private"},
		{"a name of nobody", "openai", goodKey, "https://nobody.example.com", "", "address ok, resolve failed, connect skipped, tls skipped, credential skipped, models skipped, completion skipped", "could not be resolved"},
		{"no list of models", "perplexity-ai", goodKey, g.Upstream, "", reached + "credential skipped, models skipped, completion skipped", "no list of models"},
		{"no list, and a completion", "perplexity-ai", goodKey, g.Upstream, `,"model":"first"`, reached + "credential ok, models skipped, completion ok", ""},
		{"no list, and a wrong key", "perplexity-ai", "sk-wrong-0123456789", g.Upstream, `,"model":"first"`, reached + "credential failed, models skipped, completion failed", "does not accept the credential"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tryIntegration(t, g, fmt.Sprintf(`{"ai_provider_id":%q,"key":%q,"configurations":{"custom_host":%q}%s}`, tt.provider, tt.key, tt.host, tt.more))
			if got.states() != tt.want {
				t.Errorf("steps %+v\nwant  %s", got.Steps, tt.want)
			}
			if got.OK == strings.Contains(tt.want, "failed") {
				t.Errorf("ok = %t", got.OK)
			}
			said := slices.ContainsFunc(got.Steps, func(s struct {
				Step, State, Message string
				Status               *int
				Paid                 bool
			}) bool {
				return strings.Contains(s.Message, tt.says)
			})
			if !said {
				t.Errorf("no step says %q: %+v", tt.says, got.Steps)
			}
			if last := got.Steps[len(got.Steps)-1]; !last.Paid || got.Steps[0].Paid {
				t.Error("the paid step is not marked")
			}
		})
	}
}

func TestTriedCompletionIsLoggedAndListsComeBack(t *testing.T) {
	t.Parallel()
	g := newMoody(t)
	got := tryIntegration(t, g, fmt.Sprintf(`{"ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q},"model":"first"}`, goodKey, g.Upstream))
	if diff := cmp.Diff([]string{"first", "second"}, got.Models); diff != "" || got.Total != 2 {
		t.Errorf("models %v, total %d", got.Models, got.Total)
	}
	if len(got.RateLimits) != 1 || got.RateLimits[0].Name != "requests" || *got.RateLimits[0].Limit != 60 || *got.RateLimits[0].Remaining != 59 {
		t.Errorf("rate limits %+v", got.RateLimits)
	}
	if got.LogID == nil {
		t.Fatal("no log entry is named")
	}
	e := g.Entry(gatewaytest.Response{Header: http.Header{"X-Gateway-Request-Id": {*got.LogID}}})
	if e["operation"] != "integrations.test" || e["status"] != 200.0 || e["provider"] != "openai" {
		t.Errorf("log entry %v", e)
	}
	if free := tryIntegration(t, g, fmt.Sprintf(`{"ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream)); free.LogID != nil {
		t.Error("a test without a completion names a log entry")
	}
}

func TestStoredIntegrationIsTriedWithItsCredential(t *testing.T) {
	t.Parallel()
	g := newMoody(t)
	mustCall(t, g, "POST", "/integrations", fmt.Sprintf(`{"name":"n","slug":"stored","ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream))
	if got := tryIntegration(t, g, `{"integration":"stored"}`); !got.OK || got.Total != 2 {
		t.Errorf("stored: %+v", got)
	}
	if got := tryIntegration(t, g, `{"integration":"stored","key":"sk-wrong-0123456789"}`); got.OK {
		t.Errorf("with another key: %+v", got)
	}
	if got := tryIntegration(t, g, `{"integration":"stored"}`); !got.OK {
		t.Error("a test changed what is stored")
	}
	mustCall(t, g, "PUT", "/integrations/stored/models", `{"allow_all_models":false,"models":[{"slug":"second","enabled":true}]}`)
	if got := tryIntegration(t, g, `{"integration":"stored","model":"first"}`); !strings.HasSuffix(got.states(), "completion failed") {
		t.Errorf("with a model that is not enabled: %+v", got)
	}
	for name, tt := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"an unknown integration":            {`{"integration":"none"}`, 404, "not found"},
		"neither":                           {`{"key":"k"}`, 400, "ai_provider_id"},
		"an unknown provider":               {`{"ai_provider_id":"none"}`, 400, "not a known provider"},
		"another provider":                  {`{"integration":"stored","ai_provider_id":"groq"}`, 400, "leave it out"},
		"an address that is never allowed":  {`{"ai_provider_id":"openai","configurations":{"custom_host":"http://169.254.169.254"}}`, 400, "not allowed"},
		"the stored key to another address": {`{"integration":"stored","configurations":{"custom_host":"https://example.com"}}`, 400, "must be set again"},
		"a field that is unknown":           {`{"ai_provider_id":"openai","configurations":{"nonsense":"x"}}`, 400, "not a setting"},
	} {
		t.Run(name, func(t *testing.T) {
			res := g.Post("/integrations/test", tt.body, "x-gateway-provider", "")
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.says) {
				t.Errorf("%d %s, want %d and %q", res.Status, res.Body, tt.status, tt.says)
			}
		})
	}
}

func TestTriedIntegrationHasTheSecretsOfItsReferences(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	g, k := referring(t, t.TempDir(), folder)
	file := filepath.Join(folder, "key")
	mustPut(t, file, "from-a-file-0123456789")
	mustPost(t, g, "/secret-references", `{"name":"n","slug":"file","manager_type":"file","secret_path":"`+file+`","allowed_hosts":["`+origin(g)+`"]}`)
	const body = `{"ai_provider_id":"openai","configurations":{"custom_host":%q},"secret_mappings":[{"target_field":"key","secret_reference_id":%q}]}`
	if got := tryIntegration(t, g, fmt.Sprintf(body, g.Upstream, "file")); !got.OK || k.sent() != "Bearer from-a-file-0123456789" {
		t.Errorf("%s; the provider got %q", got.states(), k.sent())
	}
	for name, tt := range map[string]struct {
		host, reference string
		status          int
	}{"an unknown reference": {g.Upstream, "none", 404}, "a host that is not listed": {"http://127.0.0.1:1/v1", "file", 403}} {
		if res := g.Post("/integrations/test", fmt.Sprintf(body, tt.host, tt.reference), "x-gateway-provider", ""); res.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", name, res.Status, res.Body, tt.status)
		}
	}
}

// healthBody is the part of a provider's health that tests read.
type healthBody struct {
	State  string
	Node   string
	Counts map[string]int
	Error  *float64               `json:"error_rate"`
	Times  *struct{ P50 float64 } `json:"latency_ms"`
	First  *struct{ P50 float64 } `json:"first_token_ms"`
	Last   *struct {
		Status  int
		Message string
	} `json:"last_error"`
	Alone    *string `json:"left_alone_until"`
	Circuits []struct{ Target, State string }
	Limits   []struct{ Name string } `json:"rate_limits"`
}

func readHealth(t *testing.T, g *gatewaytest.Gateway, path string) (out healthBody) {
	t.Helper()
	res := g.Get(path, "x-gateway-provider", "")
	if res.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, res.Status, res.Body)
	}
	if strings.Contains(string(res.Body), goodKey) {
		t.Errorf("the response holds a credential: %s", res.Body)
	}
	if err := json.Unmarshal(res.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHealthOfAProviderFollowsItsRequests(t *testing.T) {
	t.Parallel()
	g := newMoody(t)
	mustCall(t, g, "POST", "/integrations", fmt.Sprintf(`{"name":"n","slug":"mine","ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream))
	if got := readHealth(t, g, "/providers/mine/health"); got.State != "idle" || got.Counts["attempts"] != 0 || got.Error != nil || got.Node == "" {
		t.Errorf("before any request: %+v", got)
	}
	for range 3 {
		if res := sendChat(g, "@mine"); res.Status != http.StatusOK {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
	}
	got := readHealth(t, g, "/providers/mine/health")
	if got.State != "up" || got.Counts["served"] != 3 || *got.Error != 0 || got.Times == nil || len(got.Limits) != 1 || got.Last != nil {
		t.Errorf("after three requests: %+v", got)
	}
	const config = `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@mine","forward_headers":["x-fail"],"cb_config":{"failure_threshold":1,"cooldown_interval":60000,"failure_status_codes":[429]}},{"provider":"@mine"}]}`
	g.Post("/chat/completions", chat, "x-gateway-provider", "", "x-gateway-config", config, "x-fail", "yes")
	got = readHealth(t, g, "/providers/mine/health?workspace_id=default")
	if got.State != "open" || got.Counts["rate_limited"] != 1 || got.Counts["served"] != 4 || got.Last == nil || got.Last.Status != 429 || got.Alone == nil {
		t.Errorf("after a 429: %+v", got)
	}
	if len(got.Circuits) != 1 || got.Circuits[0].State != "open" || !strings.Contains(got.Circuits[0].Target, "targets[0]") {
		t.Errorf("circuits %+v", got.Circuits)
	}
	g.Post("/chat/completions", strings.Replace(chat, "{", `{"stream":true,`, 1), "x-gateway-provider", "@mine", "x-break", "yes", "x-gateway-forward-headers", "x-break")
	if got := readHealth(t, g, "/providers/mine/health"); got.Counts["broken"] != 1 || got.Counts["served"] != 5 || got.First == nil {
		t.Errorf("after a broken stream: %+v", got)
	}
	res := g.Get("/providers?workspace_id=default&health=true", "x-gateway-provider", "")
	if !strings.Contains(string(res.Body), `"state":"open"`) {
		t.Errorf("the list has no health: %s", res.Body)
	}
	if res := g.Get("/providers?workspace_id=default", "x-gateway-provider", ""); strings.Contains(string(res.Body), `"health"`) {
		t.Error("the list has health that was not asked for")
	}
	for path, status := range map[string]int{"/providers/none/health": 404, "/providers/mine/health?from=yesterday": 400, "/providers/mine/health?from=2999-01-01T00:00:00Z": 400} {
		if res := g.Get(path, "x-gateway-provider", ""); res.Status != status {
			t.Errorf("%s: %d %s, want %d", path, res.Status, res.Body, status)
		}
	}
}

func TestHealthOfAnotherWorkspaceIsUnknown(t *testing.T) {
	t.Parallel()
	g := newMoody(t)
	mustCall(t, g, "POST", "/integrations", fmt.Sprintf(`{"name":"n","slug":"mine","ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, goodKey, g.Upstream))
	var made struct{ Slug string }
	res := g.Post("/admin/workspaces", `{"name":"Other"}`, "x-gateway-provider", "")
	if err := json.Unmarshal(res.Body, &made); err != nil || made.Slug == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	var key struct{ Key string }
	res = g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"`+made.Slug+`","scopes":["providers.read","providers.list","workspace_integrations.update","workspace_integrations.create"]}`, "x-gateway-provider", "")
	if err := json.Unmarshal(res.Body, &key); err != nil || key.Key == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	same := func(method, path, body, unknown, unknownBody string) {
		t.Helper()
		ask := func(path, body string) gatewaytest.Response {
			return g.Do(g.Request(method, path, body, "x-gateway-provider", "", "x-gateway-api-key", key.Key))
		}
		foreign, none := ask(path, body), ask(unknown, unknownBody)
		if foreign.Status != http.StatusNotFound || strings.ReplaceAll(string(foreign.Body), "mine", "none") != string(none.Body) {
			t.Errorf("%s: %d %s\nunknown: %d %s", path, foreign.Status, foreign.Body, none.Status, none.Body)
		}
	}
	same("GET", "/providers/mine/health", "", "/providers/none/health", "")
	same("POST", "/integrations/test", `{"integration":"mine"}`, "/integrations/test", `{"integration":"none"}`)
	same("GET", "/catalogue/models?provider=@mine", "", "/catalogue/models?provider=@none", "")
}

func TestModelsInForceHaveTheirPricesAndLimits(t *testing.T) {
	t.Parallel()
	g := newMoody(t)
	mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"mine","ai_provider_id":"openai","key":"`+goodKey+`","pricing_adjustments":{"multiplier":2}}`)
	mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"few","ai_provider_id":"anthropic","key":"`+goodKey+`"}`)
	mustCall(t, g, "PUT", "/integrations/few/models", `{"allow_all_models":false,"models":[{"slug":"claude-sonnet-4-5","enabled":true},{"slug":"claude-own","enabled":true},{"slug":"claude-off","enabled":false}]}`)
	type row struct {
		ID       string
		Model    string
		Provider string  `json:"ai_provider_id"`
		Slug     *string `json:"provider_slug"`
		Price    *struct {
			Rates map[string]int64 `json:"rates_pico"`
		}
		Limits struct {
			Output *int64 `json:"max_output_tokens"`
		}
	}
	list := func(query string) (rows []row, total int) {
		t.Helper()
		res := g.Get("/catalogue/models?"+query, "x-gateway-provider", "")
		var out struct {
			Total int
			Data  []row
		}
		if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, res.Status, res.Body)
		}
		return out.Data, out.Total
	}
	few, _ := list("provider=@few")
	if len(few) != 2 || few[0].ID != "@few/claude-own" || few[0].Price != nil || few[1].Price == nil || few[1].Limits.Output == nil {
		t.Errorf("models of a list: %+v", few)
	}
	book, _ := list("from=book&provider=openai&search=gpt-4o-mini")
	mine, _ := list("provider=openai&search=gpt-4o-mini")
	if len(book) == 0 || len(mine) == 0 || book[0].Slug != nil || mine[0].ID != "@mine/"+mine[0].Model {
		t.Fatalf("book %+v, provider %+v", book, mine)
	}
	if i := slices.IndexFunc(book, func(r row) bool { return r.Model == mine[0].Model }); i < 0 ||
		mine[0].Price.Rates["input"] != 2*book[i].Price.Rates["input"] {
		t.Errorf("book %+v, provider %+v: want twice the price", book, mine[0])
	}
	all, total := list("from=book&page_size=10")
	next, _ := list("from=book&page_size=10&current_page=1")
	if len(all) != 10 || total < 1000 || len(next) != 10 || next[0].ID == all[0].ID {
		t.Errorf("pages: %d of %d, then %d", len(all), total, len(next))
	}
	for _, r := range must(list("operation=embeddings")) {
		if r.Provider == "anthropic" {
			t.Errorf("%s of a provider without embeddings", r.ID)
		}
	}
	if res := g.Get("/catalogue/models?operation=none", "x-gateway-provider", ""); res.Status != http.StatusBadRequest {
		t.Errorf("an unknown operation: %d %s", res.Status, res.Body)
	}
}

// must returns the first of two values.
func must[A, B any](a A, _ B) A { return a }
