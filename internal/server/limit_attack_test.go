package server_test

import (
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestNoSpellingHidesTheLargestResponse sends requests whose largest response is written
// in ways that some provider may read. None reaches the provider where a budget that
// stops has too little for it.
func TestNoSpellingHidesTheLargestResponse(t *testing.T) {
	l := newLimitedGateway(t)
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
		{"/v1/completions", `{"model":"sim-1","max_tokens":500,"best_of":8,"prompt":"hello"}`},
		{"/v1/completions", `{"model":"sim-1","max_tokens":500,"prompt":["hello","hello","hello","hello","hello"]}`},
		{"/v1beta/models/sim-1:generateContent", `{"generation_config":{"max_output_tokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"max_output_tokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":1,"maxOutputTokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":"5000"},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":500,"candidate_count":8},` + contents + `}`},
		{"/model/sim-1/converse", `{"inferenceConfig":{"maxTokens":1,"maxTokens":5000},"messages":[{"role":"user","content":[{"text":"hello"}]}]}`},
		{"/v1/completions", `{"model":"sim-1","max_tokens":500,"prompt":[[1],[2],[3],[4],[5]]}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":5000},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":1},"generation_config":{"maxOutputTokens":"5000"},` + contents + `}`},
		{"/v1beta/models/sim-1:generateContent", `{"generationConfig":{"maxOutputTokens":1},"generation_config":{"max_output_tokens":5000},` + contents + `}`},
		{"/v1/things", `{"model":"sim-1","max_tokens":5e3,` + messages + `}`},
		{"/v1/things", `{"model":"sim-1","max_tokens":1,"options":{"num_predict":5000},` + messages + `}`},
		{"/v1/things/chat/completions", `{"model":"sim-1","options":{"num_predict":1},` + messages + `}`},
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
	l := newLimitedGateway(t)
	l.policy("rate-limits", `{"name":"one","type":"requests","unit":"rpd","value":1,"conditions":[{"key":"model","value":"Sim-Costly"}],"group_by":[{"key":"api_key"}]}`)
	l.policy("rate-limits", `{"name":"each","type":"requests","unit":"rpd","value":1,"conditions":[{"key":"metadata.app","value":"each"}],"group_by":[{"key":"model"}]}`)
	for name, metadata := range map[string]string{"costly": "{}", "each": `{"app":"each"}`} {
		key := l.key(`"rate_limits":[]`)
		send := func(model string) gatewaytest.Response {
			return l.chat(key, strings.Replace(oneChat, "sim-1", model, 1), "x-gateway-metadata", metadata)
		}
		if res := send("sim-" + name); res.Status != 200 {
			t.Fatalf("the first: %d %s", res.Status, res.Body)
		}
		for _, model := range []string{
			"sim-" + name, "SIM-" + name, " sim-" + name, "sim-" + name + " ", "models/sim-" + name, "Models/sim-" + name, "@simulator/sim-" + strings.ToUpper(name), `s\u0069m-` + name,
			"sim-" + name + ":nitro", "sim-" + name + ":floor", "sim-" + name + ":exacto", "sim-" + name + ":online", "sim-" + name + ":Latest", "sim-" + name + ":online:nitro",
		} {
			if res := send(model); res.Status != 429 {
				t.Errorf("%s with the metadata %s: %d %s", model, metadata, res.Status, res.Body)
			}
		}
		if res := send("sim-other-" + name); res.Status != 200 {
			t.Errorf("another model: %d %s", res.Status, res.Body)
		}
	}
}

// TestNoFormAvoidsThePoliciesOfItsModel names a model in forms and in other bodies that
// stream through, in ways that some provider reads.
func TestNoFormAvoidsThePoliciesOfItsModel(t *testing.T) {
	l := newLimitedGateway(t)
	l.policy("rate-limits", `{"name":"one","type":"requests","unit":"rpd","value":1,"conditions":[{"key":"model","value":"listener"}],"group_by":[{"key":"api_key"}]}`)
	const file = "Content-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n"
	const model = "Content-Disposition: form-data; name=\"model\"\r\n\r\n"
	form := func(parts ...string) string { return "--x\r\n" + strings.Join(parts, "\r\n--x\r\n") + "\r\n--x--\r\n" }
	large := strings.Repeat("a", 100_000)
	for _, tt := range []struct {
		name, path, body string
		h                []string
		status           int // of the second request; 429 unless it is refused at once
	}{
		{"model first", "/v1/audio/transcriptions", form(model+"listener", file+"abc"), nil, 429},
		{"model last", "/v1/audio/transcriptions", form(file+"abc", model+"listener"), nil, 429},
		{"model after a large file", "/v1/audio/transcriptions", form(file+large, model+"listener"), nil, 429},
		{"other spelling", "/v1/audio/transcriptions", form(file+large, model+" LISTENER"), nil, 429},
		{"two models", "/v1/audio/transcriptions", form(model+"other", file+large, model+"listener"), nil, 403},
		{"passed through", "/v1/any", form(file+large, model+"listener"), nil, 429},
		{"long JSON", "/v1/any", `{"text":"` + strings.Repeat("a", 1<<20) + `","model":"listener"}`, []string{"Content-Type", "application/json"}, 429},
		{"JSON of another type", "/v1/any", `{"model":"listener"}`, []string{"Content-Type", "text/plain"}, 429},
		{"compressed", "/v1/any", `{"model":"listener"}`, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 403},
		{"model in the path", "/v1/models/listener:run", `{}`, []string{"Content-Type", "application/json"}, 429},
		{"model and verb in the path", "/v1/models/listener/predictions", `{}`, []string{"Content-Type", "application/json"}, 429},
	} {
		key := l.key(`"rate_limits":[]`)
		h := append([]string{"Content-Type", "multipart/form-data; boundary=x"}, tt.h...)
		var last gatewaytest.Response
		for range 2 {
			last = l.send("POST", tt.path, key, tt.body, h...)
		}
		if last.Status != tt.status {
			t.Errorf("%s: %d %.300s", tt.name, last.Status, last.Body)
		}
		if tt.status == 429 {
			if res := l.send("POST", "/v1/audio/transcriptions", l.key(`"rate_limits":[]`), form(model+"other", file+large), "Content-Type", "multipart/form-data; boundary=x"); res.Status != 200 {
				t.Errorf("another model, after %s: %d %.300s", tt.name, res.Status, res.Body)
			}
		}
	}
	if res := l.send("POST", "/v1/files", l.key(`"rate_limits":[]`), form("Content-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data", file+large), "Content-Type", "multipart/form-data; boundary=x"); res.Status != 200 {
		t.Errorf("a file, which runs no model: %d %.300s", res.Status, res.Body)
	}
}
