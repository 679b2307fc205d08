package server_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestSessionsAreLimitedByEachMeasure reaches each limit of a session through the
// gateway: the session gets 429 with an error that an agent can read, nothing more
// of it is sent, and another session goes on.
func TestSessionsAreLimitedByEachMeasure(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		atMost       int64 // requests that are sent; zero is any number
	}{
		{"calls", `"type":"requests","unit":"rpd","value":3`, 3},
		{"tokens", `"type":"tokens","credit_limit":100,"periodic_reset_days":1`, 20},
		{"cost", `"type":"cost","credit_limit":0.002,"periodic_reset_days":1`, 20},
		{"seconds", `"type":"seconds","credit_limit":1`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLimitedGateway(t)
			kind := "usage-limits"
			if tt.name == "calls" {
				kind = "rate-limits"
			}
			l.policy(kind, `{"name":"sessions","conditions":[{"key":"metadata.app","value":"agent"}],"group_by":[{"key":"session"}],`+tt.policy+`}`)
			key := l.key(`"rate_limits":[]`)
			session := func(id string) []string {
				return []string{"x-gateway-metadata", `{"app":"agent","session_id":"` + id + `"}`}
			}
			sent := int64(0)
			waittest.Until(t, "the session is refused", func() bool {
				res := l.chat(key, oneChat, session("a")...)
				if res.Status == 200 {
					sent++
					return false
				}
				if res.Status != 429 || !strings.Contains(string(res.Body), `"code":"session_limit"`) || !strings.Contains(string(res.Body), `"param":"metadata.session_id"`) {
					t.Errorf("%d %s", res.Status, res.Body)
				}
				return true
			})
			if sent == 0 || tt.name == "calls" && sent != tt.atMost || tt.atMost > 0 && sent > tt.atMost || l.reached.Load() != sent {
				t.Errorf("%d requests were answered, %d were sent", sent, l.reached.Load())
			}
			if res := l.chat(key, oneChat, session("b")...); res.Status != 200 {
				t.Errorf("another session gets %d %s", res.Status, res.Body)
			}
		})
	}
}

// TestSessionWithoutProgressIsRefused sends a history whose last results repeat
// earlier ones.
func TestSessionWithoutProgressIsRefused(t *testing.T) {
	l := newLimitedGateway(t)
	l.policy("rate-limits", `{"name":"loops","type":"requests","unit":"rpd","value":100,"conditions":[{"key":"metadata.app","value":"agent"}],"group_by":[{"key":"session"}],
		"loop_detection":{"context_growth_without_progress":3}}`)
	key := l.key(`"rate_limits":[]`)
	history := func(results ...string) string {
		var b strings.Builder
		for i, r := range results {
			fmt.Fprintf(&b, `,{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"read","arguments":"{\"p\":%d}"}}]},{"role":"tool","tool_call_id":"c%d","content":%q}`, i, i, i, r)
		}
		return `{"model":"sim-1","max_tokens":10,"messages":[{"role":"user","content":"go"}` + b.String() + `]}`
	}
	send := func(body string) (int, string) {
		res := l.chat(key, body, "x-gateway-metadata", `{"app":"agent","session_id":"a"}`)
		return res.Status, string(res.Body)
	}
	if status, body := send(history("one", "one", "one", "two")); status != 200 {
		t.Errorf("results with progress: %d %s", status, body)
	}
	if status, body := send(history("one", "two", "one", "two")); status != 200 {
		t.Errorf("two results that repeat earlier ones: %d %s", status, body)
	}
	if status, body := send(history("one", "one", "one", "two", "one", "two")); status != 200 {
		t.Errorf("two results in a row that repeat earlier ones, after a new one: %d %s", status, body)
	}
	if status, body := send(history("one", "two", "one", "two", "one")); status != 429 || !strings.Contains(body, `"code":"loop_detected"`) {
		t.Errorf("three results that repeat earlier ones: %d %s", status, body)
	}
	// Each dialect has its own form of results, which are the same three times here.
	for path, result := range map[string][2]string{
		"/v1/messages": {`"max_tokens":10,"messages":[{"role":"user","content":"go"}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"c%[1]d","name":"read","input":{"p":%[1]d}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%[1]d","content":%[2]q}]}`},
		"/v1/responses": {`"input":[{"role":"user","content":"go"}`,
			`{"type":"function_call","call_id":"c%[1]d","name":"read","arguments":"{\"p\":%[1]d}"},{"type":"function_call_output","call_id":"c%[1]d","output":%[2]q}`},
		"/v1beta/models/sim-1:generateContent": {`"contents":[{"role":"user","parts":[{"text":"go"}]}`,
			`{"role":"model","parts":[{"functionCall":{"name":"read","args":{"p":%[1]d}}}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":%[2]q}}}]}`},
		"/model/sim-1/converse": {`"messages":[{"role":"user","content":[{"text":"go"}]}`,
			`{"role":"assistant","content":[{"toolUse":{"toolUseId":"c%[1]d","name":"read","input":{"p":%[1]d}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c%[1]d","content":[{"text":%[2]q}]}}]}`},
	} {
		for status, results := range map[int][]string{200: {"one", "one", "one", "two"}, 429: {"one", "one", "one", "one"}} {
			var body strings.Builder
			body.WriteString(`{"model":"sim-1",` + result[0])
			for i, r := range results {
				body.WriteString("," + fmt.Sprintf(result[1], i, r))
			}
			req := l.Request("POST", "/chat/completions", body.String()+"]}", "x-gateway-api-key", key, "x-gateway-provider", "@simulator",
				"x-gateway-metadata", `{"app":"agent","session_id":"a"}`)
			req.URL.Path = path
			if res := l.Do(req); res.Status != status || status == 429 && !strings.Contains(string(res.Body), "repeat") {
				t.Errorf("%s with the results %q: %d %s, want %d", path, results, res.Status, res.Body, status)
			}
		}
	}
	if n := l.reached.Load(); n != 3+4 {
		t.Errorf("%d requests were sent, want 3 and one of each dialect", n)
	}
}
