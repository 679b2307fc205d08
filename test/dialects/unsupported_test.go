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

func TestFatesAreInTheLog(t *testing.T) {
	g := start(t)
	res := g.Post("/chat/completions", `{"model":"m","seed":7,"messages":[{"role":"user","content":"Hello"}]}`, "x-gateway-provider", "@messages")
	e := g.Entry(res)
	if list, _ := e["params"].([]any); len(list) != 1 || list[0] != "seed;dropped" {
		t.Errorf("params = %v, want seed;dropped", e["params"])
	}
}
