package agents_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// full is a complete gateway with an agent that was registered by the routes of the control
// plane.
type full struct {
	*gatewaytest.Gateway
	t   testing.TB
	key string
}

func newFull(t testing.TB, a *agent, keyMembers string) *full {
	t.Helper()
	return newFullAt(t, a.URL, keyMembers, gatewaytest.Options{})
}

// newFullAt returns a gateway with options, and with an agent at an address.
func newFullAt(t testing.TB, address, keyMembers string, o gatewaytest.Options) *full {
	t.Helper()
	g := &full{Gateway: gatewaytest.New(t, o), t: t}
	g.must("POST", "/agent-integrations", `{"name":"Helper","slug":"helper-at","url":"`+address+`","auth_type":"none"}`)
	g.must("PUT", "/agent-integrations/helper-at/workspaces", `{"workspaces":[{"id":"default","enabled":true}]}`)
	g.must("POST", "/agent-servers", `{"name":"Helper","slug":"helper","agent_integration_id":"helper-at","workspace_id":"default"}`)
	g.must("PUT", "/agent-integrations/helper-at/capabilities", `{"capabilities":[{"type":"tool","name":"message","price_per_call":0.01}]}`)
	made := g.must("POST", "/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["agents.invoke"]`+keyMembers+`}`)
	g.key, _ = made.JSON(t)["key"].(string)
	waittest.Until(t, "the key and the agent are known", func() bool {
		req := g.Request("GET", "/x", "", "x-gateway-provider", "")
		req.URL.Path, req.Header = "/a2a/helper/.well-known/agent-card.json", http.Header{"Authorization": {"Bearer " + g.key}}
		return g.Do(req).Status == 200
	})
	return g
}

func (g *full) must(method, path, body string) gatewaytest.Response {
	g.t.Helper()
	res := g.Do(g.Request(method, path, body, "x-gateway-provider", ""))
	if res.Status != 200 && res.Status != 201 {
		g.t.Fatalf("%s %s: %d %s", method, path, res.Status, res.Body)
	}
	return res
}

// call sends a request of JSON-RPC.
func (g *full) call(method, params string) gatewaytest.Response {
	g.t.Helper()
	return g.callAs("7", method, params)
}

// callAs sends a request of JSON-RPC with an id, and with headers, which alternate with their values.
func (g *full) callAs(id, method, params string, h ...string) gatewaytest.Response {
	g.t.Helper()
	req := g.Request("POST", "/x", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	req.URL.Path = "/a2a/helper"
	req.Header = http.Header{"Authorization": {"Bearer " + g.key}, "Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	return g.Do(req)
}

// guard makes a guardrail of the organisation, before requests or after them.
func (g *full) guard(members string, before bool) {
	g.t.Helper()
	made := g.must("POST", "/guardrails", `{"name":"g","organisation_id":"default",`+members+`}`)
	body := `{"output_guardrails":["%s"]}`
	if before {
		body = `{"input_guardrails":["%s"]}`
	}
	g.must("PUT", "/admin/organisation/defaults", fmt.Sprintf(body, made.JSON(g.t)["slug"]))
}

const (
	denySecret   = `"actions":{"deny":true},"checks":[{"id":"default.contains","parameters":{"words":["secret"],"operator":"none"}}]`
	redactSecret = `"actions":{},"checks":[{"id":"default.regexReplace","parameters":{"rule":"hush[0-9]*","redactText":"[gone]"}}]`
)

func say(text string) string {
	return `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"` + text + `"}]}}`
}

func TestMessagesHaveAnEntryAPriceAndALimit(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	g := newFull(t, a, `,"rate_limits":[{"type":"requests","unit":"rpd","value":3}]`)
	res := g.call("SendMessage", say("hello"))
	e := g.Entry(res)
	if res.Status != 200 || e["operation"] != "agents.message" || e["cost"] != 1.0 { // in cents
		t.Errorf("%d %s has the entry %v", res.Status, res.Body, e)
	}
	last := res
	for range 6 {
		last = g.call("SendMessage", say("hello"))
	}
	if last.Status != 429 || last.Header.Get("Retry-After") == "" || last.JSON(t)["id"] != 7.0 {
		t.Errorf("beyond the limit: %d %s", last.Status, last.Body)
	}
	cards := newFull(t, a, `,"rate_limits":[{"type":"requests","unit":"rpd","value":3}]`)
	waittest.Until(t, "cards are limited", func() bool {
		req := cards.Request("GET", "/x", "", "x-gateway-provider", "")
		req.URL.Path, req.Header = "/a2a/helper/.well-known/agent-card.json", http.Header{"Authorization": {"Bearer " + cards.key}}
		return cards.Do(req).Status == 429
	})
}

func TestGuardrailsReadMessages(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	g := newFull(t, a, "")
	g.guard(denySecret, true)
	for _, params := range []string{say("the secret"), say("se\\u0063ret"), strings.Replace(say("x"), `"parts"`, `"metadata":{"secret":1},"parts"`, 1)} {
		if res := g.call("SendMessage", params); res.Status != 446 || strings.Contains(string(res.Body), "the secret") {
			t.Errorf("%s: %d %s", params, res.Status, res.Body)
		}
	}
	if a.reached() != 0 {
		t.Error("a message reached the agent")
	}
	if res := g.callAs(`"the secret"`, "SendMessage", say("fine")); res.Status != 200 || res.JSON(t)["id"] != "the secret" {
		t.Errorf("%d %s", res.Status, res.Body)
	}
	if _, body := a.last(); strings.Contains(body, "secret") || !strings.Contains(body, "fine") {
		t.Errorf("the agent got %s", body)
	}
}

func TestGuardrailsReadAnswersAndStreams(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	var chunks []string
	a.serve = func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if !strings.Contains(body, "Streaming") {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range chunks {
			if text, ok := strings.CutPrefix(c, "result "); ok {
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":%s}\n\n", text)
				continue
			}
			if text, ok := strings.CutPrefix(c, "status "); ok {
				fmt.Fprintf(w, "event: %s\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"statusUpdate\":{\"taskId\":\"task-1\",\"contextId\":\"context-1\",\"status\":{\"message\":{\"messageId\":\"m\",\"parts\":[{\"text\":%q}]}}}}}\n\n", text, text)
				continue
			}
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"artifactUpdate\":{\"taskId\":\"task-1\",\"contextId\":\"context-1\",\"artifact\":{\"artifactId\":\"a\",\"parts\":[{\"text\":%q}]}}}}\n\n", c)
		}
		return true
	}
	for _, tt := range []struct {
		name, guard string
		chunks      []string
		want, not   string
	}{
		{"no guardrail", "", []string{"a ", "hush1"}, "hush1", "error"},
		{"denied", denySecret, []string{"the secret"}, `"error"`, "the secret"},
		{"in two chunks", denySecret, []string{"the sec", "ret"}, `"error"`, "the sec"},
		{"changed", redactSecret, []string{"a ", "hush1"}, "[gone]", "hush1"},
		{"changed over two chunks", redactSecret, []string{"hu", "sh1"}, `"error"`, `"hu"`},
		{"around a status", denySecret, []string{"the sec", "status busy", "ret"}, `"error"`, "the sec"},
		{"changed around a status", redactSecret, []string{"hu", "status busy", "sh1"}, `"error"`, `"hu"`},
		{"an artifact with two names", denySecret, []string{`result {"artifactUpdate":{"artifact":{"artifactId":"a","artifact_id":"b","parts":[]}}}`, "fine"}, `"error"`, "fine"},
		{"two texts in a part", denySecret, []string{`result {"message":{"messageId":"a","parts":[{"text":"a","text":"b"}]}}`, "fine"}, `"error"`, "fine"},
		{"a type of its own", denySecret, []string{"status busy"}, `"busy"`, "event: busy"},
		{"fine", denySecret, []string{"one", "two"}, "two", "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newFull(t, a, "")
			if tt.guard != "" {
				g.guard(tt.guard, false)
			}
			chunks = tt.chunks
			res := g.call("SendStreamingMessage", say("hello"))
			if text := string(res.Body); res.Status != 200 || !strings.Contains(text, tt.want) || strings.Contains(text, tt.not) || strings.Contains(text, "task-1") {
				t.Errorf("%d %s", res.Status, text)
			}
		})
	}
	a.serve = func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"id":"task-1","status":{"state":"x"},"artifacts":[{"parts":[{"text":"the secret"}]}]}}`)
		return true
	}
	g := newFull(t, a, "")
	g.guard(denySecret, false)
	if res := g.call("SendMessage", say("hello")); res.Status != 446 || strings.Contains(string(res.Body), "the secret") {
		t.Errorf("%d %s", res.Status, res.Body)
	} else if e := g.Entry(res); e["cost"] != 1.0 { // in cents
		t.Errorf("a denied answer has the entry %v", e)
	}
}

func TestRepeatedMessagesAreALoop(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	g := newFull(t, a, "")
	of, _ := g.call("SendMessage", say("hello")).JSON(t)["result"].(map[string]any)["task"].(map[string]any)["contextId"].(string)
	g.must("POST", "/policies/rate-limits", `{"name":"loops","organisation_id":"default","workspace_id":"default","conditions":[{"key":"mcp_server","value":"helper"}],"group_by":[{"key":"mcp_server"}],"type":"requests","unit":"rpm","value":1000,"target":"mcp_tools","loop_detection":{"same_tool_call":3}}`)
	n := 0
	send := func(text string) int {
		n++
		members := fmt.Sprintf(`"contextId":%q,"messageId":"id-%d"`, of, n)
		return g.call("SendMessage", strings.Replace(say(text), `"messageId":"m1"`, members, 1)).Status
	}
	waittest.Until(t, "a repetition is refused", func() bool { return send("again") == 429 })
	if status := send("something else"); status != 200 {
		t.Errorf("another message: %d", status)
	}
}
