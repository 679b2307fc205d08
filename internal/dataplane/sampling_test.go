package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// Reasoning models of OpenAI reject sampling parameters while they think.
// https://platform.openai.com/docs/guides/latest-model#gpt-5-parameter-compatibility
func TestSamplingParametersReachOnlyModelsThatDoNotThink(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 50}})
	const (
		plain    = ``
		disabled = `,"thinking":{"type":"disabled"}`
		thinking = `,"thinking":{"type":"enabled","budget_tokens":1024}`
	)
	for _, tt := range []struct {
		model, thinking string
		sent            bool
	}{
		{"gpt-4.1", plain, true},
		{"gpt-5-chat-latest", plain, true},
		{"gpt-5", plain, false},
		{"gpt-5", disabled, false}, // it always thinks
		{"gpt-5-pro", plain, false},
		{"gpt-5.1-codex", plain, false},
		{"o3", plain, false},
		{"gpt-5.2", plain, true}, // does not think unless asked
		{"gpt-5.2", disabled, true},
		{"gpt-5.2", thinking, false},
		{"gpt-5.5", plain, false},
		{"gpt-5.5", disabled, true},
		{"gpt-9", plain, false},
	} {
		for _, value := range []string{"0.5", "1"} {
			t.Run(fmt.Sprintf("%s%s, temperature %s", tt.model, tt.thinking, value), func(t *testing.T) {
				body := fmt.Sprintf(`{"model":%q,"max_tokens":2000,"temperature":%s,"top_p":%s,"messages":[{"role":"user","content":"hello"}]%s}`, tt.model, value, value, tt.thinking)
				res := g.Post("/messages", body, "x-gateway-provider", "@chat")
				if res.Status != 200 {
					t.Fatalf("status %d: %s", res.Status, res.Body)
				}
				list := g.Sim.Requests()
				sent := string(list[len(list)-1].Body)
				for _, name := range []string{"temperature", "top_p"} {
					if strings.Contains(sent, `"`+name+`":`+value) != tt.sent {
						t.Errorf("sent %s, want %s: %t", sent, name, tt.sent)
					}
					announced := slices.Contains(strings.Split(res.Header.Get("x-gateway-params"), ", "), name+";dropped")
					if want := !tt.sent && value != "1"; announced != want { // 1 is the default
						t.Errorf("%s is announced: %t, want %t: %s", name, announced, want, res.Header.Get("x-gateway-params"))
					}
				}
			})
		}
	}
}
