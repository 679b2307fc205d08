package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// explained asks what would become of a request with this config and body.
func explained(t *testing.T, g *gatewaytest.Gateway, config, headers, body string) map[string]any {
	t.Helper()
	if headers == "" {
		headers = "{}"
	}
	res := g.Post("/explain", fmt.Sprintf(`{"request":{"headers":%s,"body":%s},"config":%s}`, headers, body, config), "x-gateway-provider", "")
	if res.Status != 200 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	return res.JSON(t)
}

func TestExplainSendsNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	g := newSaved(t)
	config := `{"strategy":{"mode":"conditional","conditions":[
		{"query":{"metadata.plan":{"$eq":"free"}},"then":"cheap"},
		{"query":{"params.model":{"$regex":"^sim"}},"then":"dear"}],"default":"cheap"},"targets":[
		{"name":"cheap","provider":"@cheap"},
		{"name":"dear","strategy":{"mode":"fallback"},"targets":[
			{"provider":"@dear","override_params":{"temperature":0.5,"metadata":{"access_token":"sk-planted"}},"retry":{"attempts":2}},
			{"provider":"openai","api_key":"sk-planted"}]}]}`
	e := explained(t, g, config, `{"x-gateway-metadata":"{\"plan\":\"pro\"}"}`, `{"model":"sim-1","max_tokens":100,"messages":[{"role":"user","content":"private words"}]}`)

	decisions := fmt.Sprint(e["decisions"])
	for _, want := range []string{`condition 0 does not hold: metadata.plan is "pro"`, `condition 1 holds, so dear: params.model is "sim-1"`} {
		if !strings.Contains(decisions, want) {
			t.Errorf("decisions lack %q: %s", want, decisions)
		}
	}
	attempt := e["attempt"].(map[string]any)
	body := attempt["body"].(map[string]any)
	if attempt["target"] != "config.targets[1].targets[0]" || attempt["provider_slug"] != "dear" || body["temperature"] != 0.5 {
		t.Errorf("attempt = %v", attempt)
	}
	if !strings.Contains(e["tree"].(string), `targets[0]: call @dear, retry 2, override temperature=0.5`) {
		t.Errorf("tree:\n%s", e["tree"])
	}
	// 10 dollars a million in, 30 out: 27 tokens in (105 bytes), 100 out.
	estimate := e["estimate"].(map[string]any)
	if estimate["completion_tokens"] != 100.0 || estimate["price"].(float64) < 0.003 || estimate["price"].(float64) > 0.0035 {
		t.Errorf("estimate = %v", estimate)
	}
	all, _ := json.Marshal(e)
	for _, planted := range []string{"sk-planted", gatewaytest.SimulatorKey, strings.TrimPrefix(g.Upstream, "http://")} {
		if strings.Contains(string(all), planted) {
			t.Errorf("the explanation shows %q", planted)
		}
	}
	if n := g.Sim.Served().Requests; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestExplainRefusesAQuestionWithASlip(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	res := g.Post("/explain", `{"requst":{"body":{}},"config":{"provider":"@simulator"}}`)
	if res.Status != 400 || !strings.Contains(string(res.Body), "requst") {
		t.Errorf("status %d, %s; want 400 that names the slip", res.Status, res.Body)
	}
}

func TestExplainTellsARefusalAsTheRequestWouldGetIt(t *testing.T) {
	t.Parallel()
	g := newSaved(t)
	for _, tt := range []struct {
		name, config, body string
		status             float64
		want               string
	}{
		{"invalid config", `{"strategy":{"mode":"never"},"targets":[]}`, `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 400, "AB01"},
		{"unknown slug", `{"provider":"@none"}`, `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 404, "none"},
		{"invalid body", `{"provider":"@dear"}`, `{"model":"m","messages":[]}`, 400, "messages"},
		{"saved config", `"pc-none"`, `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 404, "pc-none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := explained(t, g, tt.config, "", tt.body)
			if text, _ := json.Marshal(e["error"]); e["status"] != tt.status || !strings.Contains(string(text), tt.want) {
				t.Errorf("status %v, error %s; want %v with %q", e["status"], text, tt.status, tt.want)
			}
			if e["attempt"] != nil {
				t.Errorf("attempt = %v, want none", e["attempt"])
			}
		})
	}
}

// A dry run must not heal or hurt what requests share: an open circuit stays
// open, and no sticky assignment is made.
func TestExplainLeavesTheStateOfTargetsAlone(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	config := oneLine(`{"strategy":{"mode":"fallback"},"cb_config":{"failure_threshold":1,"cooldown_interval":30000},"targets":[
		{"provider":"@simulator","override_params":{"model":"sim-1+status=500"}},{"provider":"@simulator"}]}`)
	body := fmt.Sprintf(hello, false)
	g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", config)
	for range 2 {
		e := explained(t, g, config, "", body)
		if target := e["attempt"].(map[string]any)["target"]; target != "config.targets[1]" {
			t.Fatalf("after a failure the dry run goes to %v, want config.targets[1]", target)
		}
	}
}

// A target that says that its rate limit is used up is left alone until it is
// filled again, while another can serve.
func TestATargetWhoseLimitIsUsedUpIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		headers map[string]string
		want    string
	}{
		{"requests", map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "30s"}, "config.targets[1]"},
		{"tokens", map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m0s"}, "config.targets[1]"},
		{"a date", map[string]string{"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, "config.targets[1]"},
		{"something remains", map[string]string{"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "30s"}, "config.targets[0]"},
		{"nonsense", map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, "config.targets[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				for k, v := range tt.headers {
					w.Header().Set(k, v)
				}
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`)
			})})
			config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator","name":"a"},{"provider":"@simulator"}]}`
			for i, want := range []string{"config.targets[0]", tt.want} {
				res := g.Post("/chat/completions", fmt.Sprintf(hello, false), "x-gateway-provider", "", "x-gateway-config", config)
				if got := res.Header.Get("x-gateway-last-used-option-index"); res.Status != 200 || got != want {
					t.Errorf("request %d: status %d by %s, want 200 by %s", i, res.Status, got, want)
				}
			}
		})
	}
}

func TestThePastIsExplainedByItsRequestID(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	res := g.Post("/chat/completions", fmt.Sprintf(hello, false), "x-gateway-provider", "", "x-gateway-config",
		`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator","override_params":{"model":"sim-1+status=503"}},{"provider":"@simulator"}]}`)
	g.Entry(res) // until it is recorded
	past := g.Get("/explain/" + res.Header.Get("x-gateway-request-id"))
	if past.Status != 200 {
		t.Fatalf("status %d: %s", past.Status, past.Body)
	}
	e := past.JSON(t)
	if n := len(e["attempts"].([]any)); n != 2 || !strings.Contains(fmt.Sprint(e["decisions"]), "ended in 503, falling back") {
		t.Errorf("attempts %v, decisions %v", e["attempts"], e["decisions"])
	}
}

// An alias of two rows means the one whose own options a request sets.
func TestOptionsChooseTheRowOfASharedAlias(t *testing.T) {
	t.Parallel()
	g := newSaved(t)
	for options, want := range map[string]string{
		`"resource_name":"r","deployment_id":"d"`:                     "azure-openai",
		`"cloud_c_deployment_name":"d","cloud_c_region":"westeurope"`: "azure-ai",
		`"cloud_c_endpoint_name":"e","cloud_c_region":"westeurope"`:   "azure-ai",
		`"cloud_c_foundry_url":"https://foundry.example.com"`:         "azure-ai",
	} {
		e := explained(t, g, `{"provider":"cloud_c","api_key":"k",`+options+`}`, "", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		if attempt, _ := e["attempt"].(map[string]any); attempt["provider"] != want {
			t.Errorf("%s: %v, want an attempt at %s", options, e, want)
		}
	}
}

func TestDecisionsOfASingleTargetAreExplained(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	const config, body = `{"provider":"@simulator","cache":{"mode":"simple"}}`, `{"model":"sim-1","messages":[{"role":"user","content":"hi"}]}`
	g.Entry(cachedPost(g, "/chat/completions", body, config)) // it is stored
	e := explained(t, g, config, "", body)
	if decisions := fmt.Sprint(e["decisions"]); e["cache_status"] != "HIT" || !strings.Contains(decisions, "served from the cache") {
		t.Errorf("cache %v, decisions %s", e["cache_status"], decisions)
	}
}
