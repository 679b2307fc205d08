package dataplane_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// What a config makes of a body is compared with the list of models as well.
func TestConfigReachesNoModelThatIsNotEnabled(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, string(body))
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, chatBody)
	}))
	defer upstream.Close()
	entry := func(slug string, list *provider.ModelList) snapshot.ManagedProvider {
		return snapshot.ManagedProvider{
			Slug: slug, Provider: "openai-compatible", Rules: &snapshot.ModelRules{Models: list},
			Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: upstream.URL + "/v1"},
		}
	}
	g := gatewaytest.New(t, gatewaytest.Options{Managed: []snapshot.ManagedProvider{
		entry("only", provider.NewModelList(false, []string{"good", "fine"}, nil)),
		entry("not", provider.NewModelList(true, nil, []string{"bad"})),
		entry("any", nil),
	}})
	const good, bad = `{"model":"good","messages":[{"role":"user","content":"hi"}]}`, `{"model":"bad","messages":[{"role":"user","content":"hi"}]}`
	for _, tt := range []struct {
		name, slug, config, body string
		refusal                  string // empty for a request that is sent
	}{
		{"a model that is enabled", "only", ``, good, ""},
		{"a model that is not", "only", ``, bad, "not enabled"},
		{"a model that is disabled", "not", ``, bad, "not enabled"},
		{"a model that is not disabled", "not", ``, good, ""},
		{"any model without a list", "any", ``, bad, ""},
		{"a model of the config that is not enabled", "only", `,"override_params":{"model":"bad"}`, good, "not enabled"},
		{"a model of the config that is enabled", "only", `,"override_params":{"model":"fine"}`, good, ""},
		{"an enabled model of the config instead of another", "only", `,"override_params":{"model":"fine"}`, bad, ""},
		{"further models of the config", "only", `,"override_params":{"models":["good","bad"]}`, good, "not enabled"},
		{"further models of the config, all enabled", "only", `,"override_params":{"models":["good","fine"]}`, good, ""},
		{"a further model that the config fills in", "only", `,"default_params":{"fallback_models":["bad"]}`, good, "not enabled"},
		{"further models without a list", "any", `,"override_params":{"models":["bad"]}`, good, ""},
		{"an object of the config that names no model", "only", `,"override_params":{"models":{"x":1}}`, good, "cannot be known"},
		{"the model dropped by the config", "only", `,"drop_params":["model"]`, good, "removes the model"},
		{"another parameter dropped by the config", "only", `,"drop_params":["seed"]`, good, ""},
		{"the model dropped without a list", "any", `,"drop_params":["model"]`, good, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mu.Lock()
			sent = nil
			mu.Unlock()
			res := g.Post("/chat/completions", tt.body, "x-gateway-provider", "", "x-gateway-config", `{"provider":"@`+tt.slug+`"`+tt.config+`}`)
			mu.Lock()
			defer mu.Unlock()
			if tt.refusal == "" {
				if res.Status != 200 || len(sent) != 1 {
					t.Errorf("status %d, the provider got %q; want 200 and one request: %s", res.Status, sent, res.Body)
				}
				return
			}
			if res.Status != 403 || len(sent) > 0 || !strings.Contains(string(res.Body), "AB03") || !strings.Contains(string(res.Body), tt.refusal) {
				t.Errorf("status %d, the provider got %q; want 403 AB03 with %q and no request: %s", res.Status, sent, tt.refusal, res.Body)
			}
		})
	}
}

func TestOnUnsupportedDecidesAboutDroppedParameters(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings})
	const body = `{"model":"sim-1","seed":7,"logit_bias":{"1":2},"messages":[{"role":"user","content":"hi"}]}`
	for _, tt := range []struct {
		name, property string
		status         int
		params         []string // among what is reported; only the first is reported with a refusal
	}{
		{"by default", ``, 200, []string{"seed;dropped", "logit_bias;dropped"}},
		{"announced", `,"on_unsupported":"announce"`, 200, []string{"seed;dropped", "logit_bias;dropped"}},
		{"dropped", `,"on_unsupported":"drop"`, 200, nil},
		{"refused", `,"on_unsupported":"refuse"`, 400, []string{"seed;refused", "logit_bias;refused"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.Sim.Reset()
			res := g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", `{"provider":"@messages"`+tt.property+`}`)
			told := res.Header.Get("x-gateway-params")
			for _, want := range tt.params {
				if !strings.Contains(told, want) {
					t.Errorf("x-gateway-params = %q, want %s in it", told, want)
				}
			}
			if tt.params == nil && (strings.Contains(told, "seed") || strings.Contains(told, "logit_bias")) {
				t.Errorf("x-gateway-params = %q, want neither parameter in it", told)
			}
			if res.Status != tt.status || g.Sim.Calls("sim-1") != map[int]int{200: 1}[tt.status] {
				t.Errorf("status %d after %d calls, want %d: %s", res.Status, g.Sim.Calls("sim-1"), tt.status, res.Body)
			}
			if tt.status == 400 {
				if e := errorOf(t, string(res.Body)); e["code"] != "unsupported_parameter" || !strings.Contains(e["message"].(string), "seed") || e["param"] == nil {
					t.Errorf("error %v, want unsupported_parameter that names what the provider can't honour", e)
				}
			}
		})
	}
}
