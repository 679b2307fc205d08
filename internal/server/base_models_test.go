package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
)

// reader is a simulator that keeps the last body.
type reader struct {
	sim  http.Handler
	mu   sync.Mutex
	last string // guarded by mu
}

func (u *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.last = string(body)
	u.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	u.sim.ServeHTTP(w, r)
}

func (u *reader) body() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

// What is known of a model applies to the other names that it has at a provider:
// profiles, ARNs, deployments, fine-tuned models.
func TestRulesOfTheBaseModelApplyToItsOtherNames(t *testing.T) {
	t.Parallel()
	const (
		arn    = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123def456"
		marked = `"messages":[{"role":"system","content":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":"T"}]`
		plain  = `"messages":[{"role":"user","content":"T"}]`
	)
	u := &reader{sim: simulator.New(simulator.Options{})}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, MasterKey: master})
	for _, id := range []string{"anthropic", "openai", "bedrock", "google", "x-ai"} {
		mustCall(t, g, "POST", "/integrations", fmt.Sprintf(`{"name":"n","slug":%q,"ai_provider_id":%q,"key":"the-key-of-all","configurations":{"custom_host":%q}}`, id, id, g.Upstream))
	}
	for _, tt := range []struct {
		provider, model, base, members string
		want, not                      []string // in the sent body
	}{
		{"anthropic", "mine", "claude-opus-4-8", `"reasoning_effort":"high",` + plain, []string{`"adaptive"`, `"model":"mine"`}, []string{"budget_tokens"}},
		{"anthropic", "mine", "claude-3-haiku-20240307", `"max_tokens":9000,` + plain, []string{`"max_tokens":4096`}, nil},
		{"openai", "mine", "gpt-5-pro", `"temperature":0.3,"max_tokens":9,` + plain, []string{`"max_output_tokens":16`}, []string{"temperature"}},
		{"openai", "mine", "gpt-4o", `"max_tokens":99999,"reasoning_effort":"high",` + plain, []string{`"max_tokens":16384`}, []string{"effort"}},
		{"bedrock", arn, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", `"max_tokens":9000,"reasoning_effort":"high",` + marked, []string{"budget_tokens", "cachePoint"}, nil},
		{"bedrock", arn, "us.anthropic.claude-opus-4-7-v1:0", `"reasoning_effort":"high","temperature":0.5,` + plain, []string{`"adaptive"`}, []string{"temperature"}},
		{"bedrock", arn, "amazon.nova-pro-v1:0", `"max_tokens":20000,` + marked, []string{`"maxTokens":10000`, "cachePoint"}, nil},
		{"google", "mine", "gemini-2.5-flash", `"reasoning_effort":"low",` + plain, []string{"thinkingBudget"}, []string{"thinkingLevel"}},
		{"google", "mine", "gemini-3-pro-preview", `"reasoning_effort":"low",` + plain, []string{"thinkingLevel"}, []string{"thinkingBudget"}},
		{"x-ai", "mine", "grok-3", `"reasoning_effort":"low",` + plain, nil, []string{"effort"}},
	} {
		mustCall(t, g, "PUT", "/integrations/"+tt.provider+"/models", fmt.Sprintf(`{"models":[{"slug":%q,"enabled":true,"is_custom":true,"base_model_slug":%q}]}`, tt.model, tt.base))
		res := g.Post("/chat/completions", fmt.Sprintf(`{"model":%q,%s}`, tt.model, tt.members), "x-gateway-provider", "@"+tt.provider)
		sent := u.body()
		if res.Status != 200 {
			t.Errorf("%s as %s: status %d: %s; sent %s", tt.base, tt.model, res.Status, res.Body, sent)
		}
		for _, want := range tt.want {
			if !strings.Contains(sent, want) {
				t.Errorf("%s as %s: sent %s, want %s; announced %q", tt.base, tt.model, sent, want, res.Header.Get("X-Gateway-Params"))
			}
		}
		for _, not := range tt.not {
			if strings.Contains(sent, not) {
				t.Errorf("%s as %s: sent %s, want no %s", tt.base, tt.model, sent, not)
			}
		}
	}
}

// A deployment has the rules of its model, whether the config lists the deployment or
// a header names the model.
func TestRulesOfTheModelApplyToItsDeployment(t *testing.T) {
	t.Parallel()
	u := &reader{sim: simulator.New(simulator.Options{})}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, MasterKey: master})
	mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"azure","ai_provider_id":"azure-openai","key":"the-key-of-all","configurations":{
		"custom_host":"`+g.Upstream+`","cloud_c_auth_mode":"default","cloud_c_resource_name":"r",
		"cloud_c_deployment_config":[{"alias":"prod","cloud_c_deployment_name":"d","cloud_c_api_version":"2025-04-01-preview","cloud_c_model_slug":"gpt-4o"}]}}`)
	const body = `{"model":"prod","max_tokens":99999,"reasoning_effort":"high","messages":[{"role":"user","content":"T"}]}`
	res := g.Post("/chat/completions", body, "x-gateway-provider", "@azure")
	if sent := u.body(); res.Status != 200 || !strings.Contains(sent, "16384") || strings.Contains(sent, "effort") {
		t.Errorf("status %d: %s; sent %s, want 16384 tokens and no effort", res.Status, res.Body, sent)
	}
	res = g.Post("/chat/completions", body, "x-gateway-config", `{"provider":"azure-openai","api_key":"k","custom_host":"`+g.Upstream+`","deployment_id":"d","cloud_c_model_name":"gpt-4o","api_version":"2025-04-01-preview"}`)
	if sent := u.body(); res.Status != 200 || !strings.Contains(sent, "16384") || strings.Contains(sent, "effort") {
		t.Errorf("status %d: %s; sent %s, want 16384 tokens and no effort", res.Status, res.Body, sent)
	}
}

// An option with a value that does nothing is refused where it is set.
func TestReasoningOptionIsCheckedWhenItIsSaved(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master})
	for value, status := range map[string]int{"keep": 200, "drop": 200, "kep": 400} {
		res := g.Do(g.Request("POST", "/integrations", fmt.Sprintf(`{"name":"n","slug":"host-%s","ai_provider_id":"openai-compatible","key":"the-key-of-all","configurations":{"custom_host":%q,"reasoning":%q}}`, value, g.Upstream, value)))
		if res.Status != status || status == 400 && !strings.Contains(string(res.Body), "reasoning") {
			t.Errorf("%s: status %d, want %d: %s", value, res.Status, status, res.Body)
		}
	}
}
