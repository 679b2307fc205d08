package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// The shorter of a request's own timeout and what is left of the budget bounds an
// attempt.
func TestAnAttemptEndsWithItsTimeoutOrTheBudget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, budget, timeout, model string
		status                       int
		words                        string
	}{
		{"the budget without a timeout", "300ms", "", "sim-1+headers=20s", 408, ""},
		{"the budget before the timeout", "300ms", `,"request_timeout":15000`, "sim-1+headers=20s", 408, ""},
		{"the timeout before the budget", "15s", `,"request_timeout":300`, "sim-1+headers=20s", 408, "300 ms"},
		{"neither", "15s", `,"request_timeout":15000`, "sim-1", 200, ""},
		{"neither, without a timeout", "15s", "", "sim-1", 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.New(t, gatewaytest.Options{Settings: "timeouts: {header: 18s, budget: " + tt.budget + "}\n"})
			res := g.Post("/chat/completions", fmt.Sprintf(hello, false), "x-gateway-provider", "",
				"x-gateway-config", fmt.Sprintf(`{"provider":"@simulator","override_params":{"model":%q}%s}`, tt.model, tt.timeout))
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.words) {
				t.Errorf("status %d, want %d with %q: %s", res.Status, tt.status, tt.words, res.Body)
			}
		})
	}
}

// Bodies that are translated count with what they take once decoded, and what is
// counted is returned.
func TestMemoryOfTranslationIsCountedAndReleased(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: strings.Replace(pairSettings, "limits: {event: 1 MB}", "limits: {event: 1 MB, body_memory: 6 MB}", 1)})
	many := strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"a"},`, 10_000), ",") // 300 KB, and 5 MB as structures
	for _, tt := range []struct {
		name, target, messages string
		status                 int
	}{
		{"few messages", "messages", `{"role":"user","content":"` + strings.Repeat("a", 300_000) + `"}`, 200},
		{"many messages in the client's own protocol", "chat", many, 200},
		{"many messages that are translated", "messages", many + "," + many, 503},
		{"few messages again", "messages", `{"role":"user","content":"` + strings.Repeat("a", 300_000) + `"}`, 200},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", tt.name, stream), func(t *testing.T) {
				res := g.Post("/chat/completions", fmt.Sprintf(`{"model":"sim-1+tokens=9","stream":%t,"messages":[%s]}`, stream, tt.messages), "x-gateway-provider", "@"+tt.target)
				if res.Status != tt.status {
					t.Errorf("status %d, want %d: %.300s", res.Status, tt.status, res.Body)
				}
				if tt.status == 503 {
					if e := errorOf(t, string(res.Body)); e["code"] != "body_memory_full" || res.Header.Get("Retry-After") != "1" {
						t.Errorf("code %v, Retry-After %q, want body_memory_full and 1", e["code"], res.Header.Get("Retry-After"))
					}
				}
			})
		}
	}
}
