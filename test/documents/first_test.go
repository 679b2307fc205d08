package documents_test

import (
	"strings"
	"testing"
)

// TestFirstDay follows the page of the first day with the provider at its own address.
func TestFirstDay(t *testing.T) {
	of := internetOf(t, "api.openai.com")
	p := open(t, "first-day.md")
	m := start(t, "a laptop")
	wants(t, "start", m.do(t, p, "Start a gateway"), "ready")
	wants(t, "provider", m.do(t, p, "Add a provider"), `created integration "OpenAI"`)
	if out := m.do(t, p, "Make a key for an application"); out != "" && !strings.Contains(out, "created") {
		t.Errorf("keys create prints %q", out)
	}
	wants(t, "request", m.do(t, p, "Send a request"), "echo: Hello!")
	wants(t, "see", m.do(t, p, "See what happened"), "gpt-4o-mini", "first-app")
	before := of["api.openai.com"].requests.Load()
	m.do(t, p, "Survive a failure of the provider")
	out := m.run(t, `curl "$BASE/chat/completions" -H "x-gateway-api-key: $KEY" --json '{"model": "m", "messages": [{"role": "user", "content": "again"}]}'`)
	if wants(t, "a request with the config of its key", out, "echo: again"); of["api.openai.com"].requests.Load() != before+1 {
		t.Error("the provider served no request")
	}
	wants(t, "stop", m.do(t, p, "Stop, and start again"), ".backup")
}
