package dialects

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheConfigSaysWhatBecomesOfParametersThatTheTargetCantHonour(t *testing.T) {
	g := start(t)
	const body = `{"model":"m","seed":7,"messages":[{"role":"user","content":"Hello"}]}`
	for _, tt := range []struct {
		name, config string
		status       int
		params, by   string // headers
		said         string // in an error
	}{
		{"without a word they are announced", `{"provider":"@messages"}`, 200, "seed;dropped", "anthropic", ""},
		{"announced", `{"provider":"@messages","on_unsupported":"announce"}`, 200, "seed;dropped", "anthropic", ""},
		{"dropped in silence", `{"provider":"@messages","on_unsupported":"drop"}`, 200, "", "anthropic", ""},
		{"refused", `{"provider":"@messages","on_unsupported":"refuse"}`, 400, "seed;refused", "anthropic", `"param":"seed","code":"unsupported_parameter"`},
		{"refused, and a fallback goes on", `{"strategy":{"mode":"fallback"},"on_unsupported":"refuse","targets":[{"provider":"@messages"},{"provider":"@gemini"}]}`, 200, "", "google", ""},
		{"a target's word wins", `{"strategy":{"mode":"single"},"on_unsupported":"refuse","targets":[{"provider":"@messages","on_unsupported":"drop"}]}`, 200, "", "anthropic", ""},
		{"what is carried is never refused", `{"provider":"@cohere","on_unsupported":"refuse"}`, 200, "", "cohere", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.Sim.Reset()
			res := g.Do(g.Request(http.MethodPost, "/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", tt.config))
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.said) {
				t.Errorf("status %d, body %s; want %d with %s", res.Status, res.Body, tt.status, tt.said)
			}
			if params, by := res.Header.Get("x-gateway-params"), res.Header.Get("x-gateway-provider"); params != tt.params || by != tt.by {
				t.Errorf("params %q by %q, want %q by %q", params, by, tt.params, tt.by)
			}
			if sent := g.Sim.Calls("m"); (sent == 0) != (tt.status == 400) || sent > 1 {
				t.Errorf("%d requests were sent", sent)
			}
		})
	}
}

// What a client's own vendor alone knows is refused elsewhere, where the config
// asks for that: nobody relies on a guard or a cache that is not there.
func TestVendorParametersCanBeRefused(t *testing.T) {
	g := start(t)
	for _, tt := range []struct{ path, body, name, home string }{
		{"/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"Hello"},{"guardContent":{"text":{"text":"x"}}}]}]}`, "guardContent", "converse"},
		{"/model/m/converse", `{"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"},"messages":[{"role":"user","content":[{"text":"Hello"}]}]}`, "guardrailConfig", "converse"},
		{"/v1beta/models/m:generateContent", `{"cachedContent":"cachedContents/1","contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, "cachedContent", "gemini"},
	} {
		for _, target := range []string{"chat", "messages", "gemini", "converse", "cohere"} {
			for word, status := range map[string]int{"refuse": 400, "announce": 200} {
				t.Run(tt.name+" at "+target+", "+word, func(t *testing.T) {
					g.Sim.Reset()
					want, params, sent := status, tt.name+map[string]string{"refuse": ";refused", "announce": ";dropped"}[word], 1
					if target == tt.home {
						want, params = 200, ""
					}
					if want == 400 {
						sent = 0
					}
					req := g.Request(http.MethodPost, "", tt.body, "x-gateway-provider", "", "x-gateway-config", `{"provider":"@`+target+`","on_unsupported":"`+word+`"}`)
					req.URL.Path = tt.path
					res := g.Do(req)
					if res.Status != want || res.Header.Get("x-gateway-params") != params || g.Sim.Calls("m") != sent {
						t.Errorf("status %d, params %q, %d requests; want %d, %q, %d: %s", res.Status, res.Header.Get("x-gateway-params"), g.Sim.Calls("m"), want, params, sent, res.Body)
					}
				})
			}
		}
	}
}

func TestFatesAreInTheLog(t *testing.T) {
	g := start(t)
	res := g.Post("/chat/completions", `{"model":"m","seed":7,"messages":[{"role":"user","content":"Hello"}]}`, "x-gateway-provider", "@messages")
	e := g.Entry(res)
	if list, _ := e["params"].([]any); len(list) != 1 || list[0] != "seed;dropped" {
		t.Errorf("params = %v, want seed;dropped", e["params"])
	}
}
