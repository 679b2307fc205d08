package server_test

import (
	"strings"
	"testing"

	"modelgate/internal/gatewaytest"
)

// TestNoSpellingHidesTheLargestResponse sends requests whose largest response is written
// in ways that some provider may read. None reaches the provider where a budget that
// stops has too little for it.
func TestNoSpellingHidesTheLargestResponse(t *testing.T) {
	l := newLimited(t)
	key := l.key(`"usage_limits":{"type":"tokens","credit_limit":2000,"on_budget_end":"stop"}`)
	const messages = `"messages":[{"role":"user","content":"hello"}]`
	const contents = `"contents":[{"role":"user","parts":[{"text":"hello"}]}]`
	for _, tt := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"sim-1","max_tokens":5e3,` + messages + `}`},
		{"/v1/chat/completions", `{"model":"sim-1","max_tokens":5000.0,` + messages + `}`},
		{"/v1/chat/completions", `{"model":"sim-1","max_tokens":"5000",` + messages + `}`},
		{"/v1/chat/completions", `{"model":"sim-1","max_tokens":500,"n":2e1,` + messages + `}`},
		{"/v1/chat/completions", `{"model":"sim-1","max_tokens":1,"ma\u0078_tokens":5000,` + messages + `}`},
		{"/v1/messages", `{"model":"sim-1","max_tokens":5e3,` + messages + `}`},
		{"/v1/responses", `{"model":"sim-1","max_output_tokens":5e3,"input":"hello"}`},
		{"/v1/completions", `{"model":"sim-1","max_tokens":5e3,"prompt":"hello"}`},
		{"/v1/completions", `{"model":"sim-1","max_tokens":500,"prompt":["hello","hello","hello","hello","hello"]}`},
		{"/v1beta/models/sim-1:generateContent", `{"generation_config":{"max_output_tokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"max_output_tokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":1,"maxOutputTokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":"5000"},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":500,"candidate_count":8},` + contents + `}`},
		{"/model/sim-1/converse", `{"inferenceConfig":{"maxTokens":1,"maxTokens":5000},"messages":[{"role":"user","content":[{"text":"hello"}]}]}`},
		{"/model/sim-1/converse", `{"inferenceConfig":{"maxTokens":1},"additionalModelRequestFields":{"max_tokens":5000},"messages":[{"role":"user","content":[{"text":"hello"}]}]}`},
		{"/v1/completions", `{"model":"sim-1","max_tokens":500,"prompt":[[1],[2],[3],[4],[5]]}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":1},"generation_config":{"maxOutputTokens":"5000"},` + contents + `}`},
		{"/v1/things", `{"model":"sim-1","max_tokens":5e3,` + messages + `}`},
		{"/v1/things", `{"model":"sim-1","max_tokens":1,"options":{"num_predict":5000},` + messages + `}`},
		{"/v1/things", `{"model":"sim-1","generation_config":{"max_output_tokens":5000}}`},
	} {
		req := l.Request("POST", "/chat/completions", tt.body, "x-gateway-api-key", key, "x-gateway-provider", "@simulator")
		req.URL.Path = tt.path
		before := l.reached.Load()
		if res := l.Do(req); l.reached.Load() != before || res.Status != 412 && res.Status != 400 {
			t.Errorf("%s %s: %d %.200s", tt.path, tt.body, res.Status, res.Body)
		}
	}
}

// TestNoSpellingOfAModelAvoidsItsPolicies names a model in ways that some provider takes
// for the same.
func TestNoSpellingOfAModelAvoidsItsPolicies(t *testing.T) {
	l := newLimited(t)
	l.policy("rate-limits", `{"name":"one","type":"requests","unit":"rpd","value":1,"conditions":[{"key":"model","value":"Sim-Costly"}],"group_by":[{"key":"api_key"}]}`)
	l.policy("rate-limits", `{"name":"each","type":"requests","unit":"rpd","value":1,"conditions":[{"key":"metadata.app","value":"each"}],"group_by":[{"key":"model"}]}`)
	for _, metadata := range []string{"{}", `{"app":"each"}`} {
		key := l.key(`"rate_limits":[]`)
		send := func(model string) gatewaytest.Response {
			return l.chat(key, strings.Replace(oneChat, "sim-1", model, 1), "x-gateway-metadata", metadata)
		}
		if res := send("sim-costly"); res.Status != 200 {
			t.Fatalf("the first: %d %s", res.Status, res.Body)
		}
		for _, model := range []string{"sim-costly", "SIM-costly", " sim-costly", "sim-costly ", "models/sim-costly", "@simulator/sim-COSTLY", `sim-\u0063ostly`} {
			if res := send(model); res.Status != 429 {
				t.Errorf("%s with the metadata %s: %d %s", model, metadata, res.Status, res.Body)
			}
		}
		if res := send("sim-other"); res.Status != 200 {
			t.Errorf("another model: %d %s", res.Status, res.Body)
		}
	}
}
