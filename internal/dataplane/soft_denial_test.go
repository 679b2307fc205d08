package dataplane_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// saveGuardrail stores a guardrail that denies texts with a word, and returns its id
// once the gateway uses it.
func saveGuardrail(t *testing.T, g *gatewaytest.Gateway, word, actions string) string {
	t.Helper()
	saved := g.Post("/guardrails", `{"name":"g","workspace_id":"default","actions":`+actions+`,
		"checks":[{"id":"default.contains","parameters":{"words":["`+word+`"],"operator":"none"}}]}`).JSON(t)
	id := str(saved["id"])
	deadline := time.Now().Add(stallTimer)
	for g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", guarded(`"input_guardrails":["`+id+`"]`)).Status == 404 {
		if time.Now().After(deadline) {
			t.Fatalf("the guardrail %s is not in use", saved)
		}
		<-time.After(2 * time.Millisecond)
	}
	return id
}

func TestSoftDenialsAreCompletions(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"one good answer"}, pieces: func(text string) []string { return []string{text} }}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	soft := map[string]string{
		"input_guardrails":  saveGuardrail(t, g, "hello", `{"deny":true,"soft_deny_200":true}`),
		"output_guardrails": saveGuardrail(t, g, "good", `{"deny":true,"soft_deny_200":true}`),
	}
	hard := saveGuardrail(t, g, "hello", `{"deny":true}`)
	alone := saveGuardrail(t, g, "hello", `{"soft_deny_200":true}`)
	ended := regexp.MustCompile(`"(stop|end_turn|completed|STOP|COMPLETE)"`) // the reason or status of complete responses
	for list, id := range soft {
		for _, client := range clientFormats {
			for _, stream := range []bool{false, true} {
				before := p.requests.Load()
				res := g.Do(client.ask(t, g, "x-gateway-config", guarded(`"`+list+`":["`+id+`"]`), "m", stream))
				text := ""
				if stream {
					h := client.readResponse(t, res)
					if text = h.text; h.end != "done" {
						t.Errorf("%s, %s: the stream ends with %q: %s", list, client.name, h.end, res.Body)
					}
				} else {
					text = str(at(res.JSON(t), client.text))
				}
				if res.Status != 200 || !strings.Contains(text, "the guardrail checks failed: default.contains (") || strings.Contains(string(res.Body), "answer") {
					t.Errorf("%s, %s, stream %t: status %d %s, want the denial as text", list, client.name, stream, res.Status, res.Body)
				}
				inBase64 := stream && client.name == "invoke"
				if strings.Contains(text, "hook_results") || !inBase64 && !ended.Match(res.Body) {
					t.Errorf("%s, %s, stream %t: %s, want a text for people, and the reason of a complete response", list, client.name, stream, res.Body)
				}
				if !stream && at(res.JSON(t), "hook_results") == nil {
					t.Errorf("%s, %s: no hook_results in %s", list, client.name, res.Body)
				}
				if sent := p.requests.Load() - before; list == "input_guardrails" && sent != 0 {
					t.Errorf("%s: %d requests reached the provider", client.name, sent)
				}
			}
		}
	}
	id := soft["input_guardrails"]
	for _, tt := range []struct {
		what, path, body, config string
		status                   int
	}{
		{"with another guardrail that denies", "/chat/completions", plainChat, `"input_guardrails":["` + id + `","` + hard + `"]`, 446},
		{"without deny", "/chat/completions", plainChat, `"input_guardrails":["` + alone + `"]`, 200},
		{"embeddings", "/embeddings", `{"model":"m","input":"hello"}`, `"input_guardrails":["` + id + `"]`, 446},
	} {
		body := strings.Replace(tt.body, `"hi"`, `"hello"`, 1)
		res := g.Post(tt.path, body, "x-gateway-provider", "", "x-gateway-config", guarded(tt.config))
		if res.Status != tt.status || tt.status == 200 && !strings.Contains(string(res.Body), "answer") {
			t.Errorf("%s: status %d %.400s, want %d", tt.what, res.Status, res.Body, tt.status)
		}
	}
	fallback := fmt.Sprintf(`{"strategy":{"mode":"fallback","on_status_codes":[446]},"targets":[%s,{"provider":"@simulator"}]}`, guarded(`"input_guardrails":["`+id+`"]`))
	if res := g.Post("/chat/completions", strings.Replace(plainChat, `"hi"`, `"hello"`, 1), "x-gateway-provider", "", "x-gateway-config", fallback); !strings.Contains(string(res.Body), "answer") {
		t.Errorf("a fallback for 446: status %d %.400s, want the response of the second target", res.Status, res.Body)
	}
}
