package dialects

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestTheConfigDecidesAboutParametersThatTheTargetCantHonour(t *testing.T) {
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

// A request that depends on a guard or on content that only its own provider has
// is refused elsewhere whatever the config says: nobody relies on what is not
// there.
func TestNeededParametersAreRefused(t *testing.T) {
	g := start(t)
	for _, tt := range []struct{ path, body, name, home string }{
		{"/model/m/converse", `{"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"},"messages":[{"role":"user","content":[{"text":"Hello"}]}]}`, "guardrailConfig", "converse"},
		{"/v1beta/models/m:generateContent", `{"cachedContent":"cachedContents/1","contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, "cachedContent", "gemini"},
		{"/v1/chat/completions", `{"model":"m","moderation":{"model":"omni-moderation-latest"},"messages":[{"role":"user","content":"Hello"}]}`, "moderation", "chat responses"},
		{"/v1/responses", `{"model":"m","moderation":{"model":"omni-moderation-latest"},"input":"Hello"}`, "moderation", "chat responses"},
	} {
		for _, target := range []string{"chat", "messages", "responses", "gemini", "converse", "cohere"} {
			for _, word := range []string{"refuse", "announce", "drop"} {
				t.Run(tt.name+" at "+target+", "+word, func(t *testing.T) {
					g.Sim.Reset()
					want, sent := 400, 0
					if slices.Contains(strings.Fields(tt.home), target) {
						want, sent = 200, 1
					}
					req := g.Request(http.MethodPost, "", tt.body, "x-gateway-provider", "", "x-gateway-config", `{"provider":"@`+target+`","on_unsupported":"`+word+`"}`)
					req.URL.Path = tt.path
					res := g.Do(req)
					named := strings.Contains(string(res.Body), tt.name) && strings.Contains(string(res.Body), "does not support")
					if res.Status != want || g.Sim.Calls("m") != sent || want == 400 && !named {
						t.Errorf("status %d, %d requests; want %d, %d, naming %s: %s", res.Status, g.Sim.Calls("m"), want, sent, tt.name, res.Body)
					}
				})
			}
		}
	}
}

// Guarded content without a guardrail is content.
func TestGuardedContentIsSentAsText(t *testing.T) {
	g := start(t)
	const body = `{"messages":[{"role":"user","content":[{"guardContent":{"text":{"text":"Hello there"}}}]}]}`
	for _, target := range []string{"chat", "messages", "gemini", "cohere"} {
		req := g.Request(http.MethodPost, "", body, "x-gateway-provider", "", "x-gateway-config", `{"provider":"@`+target+`","on_unsupported":"refuse"}`)
		req.URL.Path = "/model/m/converse"
		res := g.Do(req)
		if params := res.Header.Get("x-gateway-params"); res.Status != 200 || params != `guardContent;adapted="text"` || !strings.Contains(string(res.Body), "Hello there") {
			t.Errorf("%s: status %d, params %q: %s", target, res.Status, params, res.Body)
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
