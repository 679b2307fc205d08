package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// witness is a chat provider that keeps what it was asked.
type witness struct {
	mu   sync.Mutex
	came []*http.Request // guarded by mu
}

// ServeHTTP answers every path as a chat completion.
func (w *witness) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.mu.Lock()
	w.came = append(w.came, r)
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	io.WriteString(out, `{"id":"c","object":"chat.completion","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
}

// take returns what came since the last time.
func (w *witness) take() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	came := w.came
	w.came = nil
	return came
}

// mustCall calls a route of the control plane.
func mustCall(t *testing.T, g *gatewaytest.Gateway, method, path, body string) {
	t.Helper()
	if res := g.Do(g.Request(method, path, body)); res.Status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, res.Status, res.Body)
	}
}

func newWitness(t *testing.T) (*witness, *gatewaytest.Gateway) {
	t.Helper()
	w := new(witness)
	return w, gatewaytest.New(t, gatewaytest.Options{Upstream: w, MasterKey: master})
}

// chatFor returns a chat request for a model.
func chatFor(model string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model)
}

func form(fields ...string) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", fields[i], fields[i+1])
	}
	return b.String() + "--x--\r\n"
}

// addLimitedModels gives the workspace the entry @some, which lets the model good
// through, and @every, which lets all.
func addLimitedModels(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for _, slug := range []string{"some", "every"} {
		mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"`+slug+`","ai_provider_id":"openai-compatible","key":"the-key-of-all","configurations":{"custom_host":"`+g.Upstream+`"}}`)
	}
	mustCall(t, g, "PUT", "/integrations/some/models", `{"allow_all_models":false,"models":[{"slug":"good","enabled":true},{"slug":"off","enabled":false}]}`)
	mustCall(t, g, "PUT", "/integrations/every/models", `{"models":[{"slug":"off","enabled":false}]}`)
}

func TestAModelThatIsNotEnabledIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	w, g := newWitness(t)
	addLimitedModels(t, g)
	const json, multi = "application/json", "multipart/form-data; boundary=x"
	for _, tt := range []struct {
		name, path, kind, body string
		ok                     bool
	}{
		{"one that is", "/chat/completions", json, chatFor("good"), true},
		{"one that is disabled", "/chat/completions", json, chatFor("off"), false},
		{"one that is not listed", "/chat/completions", json, chatFor("bad"), false},
		{"in other capitals", "/chat/completions", json, chatFor("GOOD"), false},
		{"translated", "/messages", json, `{"model":"bad","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, false},
		{"translated, one that is", "/messages", json, `{"model":"good","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, true},
		{"another operation", "/embeddings", json, `{"model":"bad","input":"hi"}`, false},
		{"none where one is the provider's default", "/moderations", json, `{"input":"hi"}`, false},
		{"a form that begins with it", "/audio/transcriptions", multi, form("model", "good", "file", "f"), true},
		{"a form with another", "/audio/transcriptions", multi, form("model", "bad", "file", "f"), false},
		{"a form that names it too late", "/audio/transcriptions", multi, form("file", strings.Repeat("f", 5000), "model", "good"), false},
		{"passed through", "/other", json, `{"model":"good"}`, true},
		{"passed through, another", "/other", json, `{"model":"bad"}`, false},
		{"passed through, twice", "/other", json, `{"model":"good","model":"bad"}`, false},
		{"passed through, without one", "/other", json, `{"name":"x"}`, false},
		{"passed through, where none is run", "/vector_stores", json, `{"name":"x"}`, true},
		{"passed through, too long to be read", "/other", json, `{"x":"` + strings.Repeat("x", 2<<20) + `","model":"bad"}`, false},
		{"passed through, of no kind", "/other", "", `{"model":"bad"}`, false},
		{"passed through, a form without one", "/files", multi, form("purpose", "batch"), true},
		{"passed through, a form with another", "/files", multi, form("model", "bad"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.take()
			res := g.Post(tt.path, tt.body, "x-gateway-provider", "@some", "content-type", tt.kind)
			if tt.ok {
				if res.Status != 200 || len(w.take()) != 1 {
					t.Errorf("answered %d %s", res.Status, res.Body)
				}
				return
			}
			if got := string(res.Body); res.Status != 403 || !strings.Contains(got, `AB03`) || !strings.Contains(got, "@some") {
				t.Errorf("answered %d %s, want 403 AB03 with the entry", res.Status, got)
			}
			if n := len(w.take()); n != 0 {
				t.Errorf("%d requests reached the provider", n)
			}
		})
	}
	if res := g.Post("/chat/completions", chatFor("@some/bad"), "x-gateway-provider", ""); res.Status != 403 || !strings.Contains(string(res.Body), `\"bad\"`) {
		t.Errorf("named before the model: %d %s", res.Status, res.Body)
	}
	for model, want := range map[string]int{"off": 403, "bad": 200} {
		if res := g.Post("/chat/completions", chatFor(model), "x-gateway-provider", "@every"); res.Status != want {
			t.Errorf("%s where all other models are allowed: %d %s, want %d", model, res.Status, res.Body, want)
		}
	}
	if res := g.Get("/models", "x-gateway-provider", "@some"); res.Status != 200 {
		t.Errorf("the provider's own list: %d %s", res.Status, res.Body)
	}
}

func TestATreeSkipsTargetsThatTheModelIsNotEnabledFor(t *testing.T) {
	t.Parallel()
	w, g := newWitness(t)
	addLimitedModels(t, g)
	const some, every = `{"provider":"@some"}`, `{"provider":"@every"}`
	tree := func(strategy string, targets ...string) string {
		return `{"strategy":{` + strategy + `},"targets":[` + strings.Join(targets, ",") + `]}`
	}
	for _, tt := range []struct {
		name, config string
		status       int
		target       string
	}{
		{"fallback, whatever statuses it names", tree(`"mode":"fallback","on_status_codes":[429]`, some, every), 200, "config.targets[1]"},
		{"loadbalance", tree(`"mode":"loadbalance"`, `{"provider":"@some","weight":1000}`, `{"provider":"@every","weight":0}`), 200, "config.targets[1]"},
		{"latency", tree(`"mode":"latency"`, some, every), 200, "config.targets[1]"},
		{"cost", tree(`"mode":"cost"`, some, every), 200, "config.targets[1]"},
		{"a tree in a tree", tree(`"mode":"fallback"`, tree(`"mode":"loadbalance"`, some, some), every), 200, "config.targets[1]"},
		{"one that suits inside", tree(`"mode":"fallback"`, tree(`"mode":"fallback"`, some, every), every), 200, "config.targets[0].targets[1]"},
		{"a tree in a hedged one", tree(`"mode":"fallback"},"hedge":{"delay_ms":5000`, tree(`"mode":"fallback","on_status_codes":[429]`, some, every), every), 200, "config.targets[0].targets[1]"},
		{"by the model that the target asks for", tree(`"mode":"fallback"`, `{"provider":"@some","override_params":{"model":"good"}}`, every), 200, "config.targets[0]"},
		{"no target that suits", tree(`"mode":"fallback"`, some, some), 403, ""},
		{"one target", some, 403, ""},
		{"single", tree(`"mode":"single"`, some, every), 403, ""},
		{"chosen by a condition", tree(`"mode":"conditional","conditions":[{"query":{"metadata.x":"y"},"then":"b"}],"default":"a"`, `{"name":"a","provider":"@some"}`, `{"name":"b","provider":"@every"}`), 403, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.take()
			res := g.Post("/chat/completions", chatFor("bad"), "x-gateway-provider", "", "x-gateway-config", tt.config)
			if got := res.Header.Get("x-gateway-last-used-option-index"); res.Status != tt.status || tt.status == 200 && got != tt.target {
				t.Errorf("answered %d by %q, want %d by %q: %s", res.Status, got, tt.status, tt.target, res.Body)
			}
			if n := len(w.take()); tt.status == 403 && (n != 0 || !strings.Contains(string(res.Body), "AB03")) {
				t.Errorf("%d requests reached the provider: %s", n, res.Body)
			}
		})
	}
}

func TestIntegrationSettingsOfHostsAndHeadersApply(t *testing.T) {
	t.Parallel()
	w, g := newWitness(t)
	far := new(witness)
	srv := httptest.NewServer(far)
	t.Cleanup(srv.Close)
	mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai-compatible","key":"the-key-of-all",
		"configurations":{"custom_host":"`+g.Upstream+`","custom_headers":{"x-tenant":"one","X-Only":"main"}}}`)
	mustCall(t, g, "PUT", "/integrations/main/models", `{"models":[
		{"slug":"far","enabled":true,"is_custom":true,"configurations":{"custom_host":"`+srv.URL+`/v9","custom_headers":{"authorization":"Basic mine","x-tenant":"two"}}},
		{"slug":"near","enabled":true,"is_custom":true,"configurations":{"custom_host":"`+strings.TrimSuffix(g.Upstream, "/v1")+`/v7","custom_headers":{"X-TENANT":"three"}}}]}`)
	for _, tt := range []struct {
		model  string
		at     *witness
		path   string
		header map[string]string
	}{
		{"any", w, "/v1/chat/completions", map[string]string{"Authorization": "Bearer the-key-of-all", "X-Tenant": "one", "X-Only": "main"}},
		{"near", w, "/v7/chat/completions", map[string]string{"Authorization": "Bearer the-key-of-all", "X-Tenant": "three", "X-Only": "main"}},
		{"far", far, "/v9/chat/completions", map[string]string{"Authorization": "Basic mine", "X-Tenant": "two", "X-Only": ""}},
	} {
		res := g.Post("/chat/completions", chatFor(tt.model), "x-gateway-provider", "@main", "X-Tenant", "the client's", "x-gateway-forward-headers", "x-tenant")
		came := tt.at.take()
		if res.Status != 200 || len(came) != 1 || came[0].URL.Path != tt.path {
			t.Fatalf("%s: %d %s, and %d requests came", tt.model, res.Status, res.Body, len(came))
		}
		for name, want := range tt.header {
			if got := strings.Join(came[0].Header[name], " and "); got != want {
				t.Errorf("%s: %s is %q, want %q", tt.model, name, got, want)
			}
		}
		if id := res.Header.Get("x-gateway-provider"); id != "openai-compatible" {
			t.Errorf("%s: answered by %q", tt.model, id)
		}
	}
	res := g.Post("/explain", `{"request":{"headers":{"x-gateway-provider":"@main"},"body":`+chatFor("far")+`}}`)
	if got := string(res.Body); res.Status != 200 || strings.Contains(got, "Basic mine") || strings.Contains(got, `"two"`) {
		t.Errorf("explained: %d %s", res.Status, got)
	}
}

func TestTheModelChoosesTheDeploymentOfAnIntegration(t *testing.T) {
	t.Parallel()
	w, g := newWitness(t)
	mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"az","ai_provider_id":"azure-openai","key":"the-key-of-all","configurations":{"custom_host":"`+g.Upstream+`",
		"cloud_c_deployment_config":[{"alias":"small","cloud_c_deployment_name":"d-small","cloud_c_api_version":"2024-01-01","cloud_c_model_slug":"gpt-4o-mini"},
			{"alias":"large","cloud_c_deployment_name":"d-large","cloud_c_api_version":"2024-02-02","cloud_c_model_slug":"gpt-4o","is_default":true}]}}`)
	ask := func(model, config string) (gatewaytest.Response, string) {
		h := []string{"x-gateway-provider", "@az"}
		if config != "" {
			h = []string{"x-gateway-provider", "", "x-gateway-config", config}
		}
		res := g.Post("/chat/completions", chatFor(model), h...)
		var paths []string
		for _, r := range w.take() {
			paths = append(paths, r.URL.RequestURI())
		}
		return res, strings.Join(paths, " ")
	}
	const small, large = "/v1/deployments/d-small/chat/completions?api-version=2024-01-01", "/v1/deployments/d-large/chat/completions?api-version=2024-02-02"
	for _, tt := range []struct{ model, config, want string }{
		{"small", "", small}, {"gpt-4o-mini", "", small}, {"large", "", large}, {"anything", "", large},
		{"anything", `{"provider":"@az","override_params":{"model":"small"}}`, small},
	} {
		if res, path := ask(tt.model, tt.config); res.Status != 200 || path != tt.want {
			t.Errorf("%s: %d at %s, want %s: %s", tt.model, res.Status, path, tt.want, res.Body)
		}
	}
	mustCall(t, g, "PUT", "/integrations/az/models", `{"allow_all_models":false,"models":[{"slug":"gpt-4o-mini","enabled":true}]}`)
	for model, want := range map[string]int{"small": 200, "gpt-4o-mini": 200, "large": 403, "gpt-4o": 403, "anything": 403} {
		if res, _ := ask(model, ""); res.Status != want {
			t.Errorf("%s, of which small's model alone is enabled: %d, want %d", model, res.Status, want)
		}
	}
}

func TestAFineTunedModelHasThePriceAndQuirksOfItsBase(t *testing.T) {
	t.Parallel()
	w := new(witness)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: w, MasterKey: master, Settings: "prices:\n  - {provider: openai, model: base-1, input: 1000000, output: 0}\n"})
	mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"the-key-of-all","configurations":{"custom_host":"`+g.Upstream+`"}}`)
	mustCall(t, g, "PUT", "/integrations/main/models", `{"models":[{"slug":"mine","enabled":true,"is_finetune":true,"base_model_slug":"base-1"}]}`)
	price := func(model string) any {
		t.Helper()
		res := g.Post("/explain", `{"request":{"headers":{"x-gateway-provider":"@main"},"body":`+chatFor(model)+`}}`)
		var out struct{ Estimate struct{ Price any } }
		if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
		return out.Estimate.Price
	}
	if mine, base, other := price("mine"), price("base-1"), price("other"); mine == nil || base == nil || other != nil {
		t.Errorf("the prices of mine, base-1 and other are %v, %v and %v", mine, base, other)
	}
	if res := g.Post("/chat/completions", chatFor("mine"), "x-gateway-provider", "@main"); res.Status != 200 {
		t.Errorf("answered %d %s", res.Status, res.Body)
	}
}
