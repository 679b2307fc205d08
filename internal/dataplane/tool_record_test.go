package dataplane_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/testing/gatewaytest"
)

func TestToolCallsAreRecorded(t *testing.T) {
	t.Parallel()
	const pause = 30 * time.Millisecond
	f := &relay{price: 2 * cent, server: func(context.Context, *dataplane.ToolCall, string) (string, dataplane.ToolEnd) {
		<-time.After(pause)
		return `{"content":[{"type":"text","text":"the answer"}]}`, fine
	}}
	g := newToolGateway(t, f, gatewaytest.Options{Settings: "logs: {level: full}\n"})
	res := g.call("github", "create_issue", `{"q":"the question"}`, "x-gateway-metadata", `{"team":"a"}`)
	e := g.Entry(res)
	recorded(t, e, map[string]any{
		"operation": "tools.call", "provider": "mcp", "provider_slug": "github", "model": "create_issue", "status": 200, "method": "POST",
		"path": "/mcp/github", "cost": 2, "outcome": "success", "logging": "full", "metadata": map[string]any{"team": "a"}, "response_bytes": len(res.Body),
	})
	for side, text := range map[string]string{"request": `"the question"`, "response": `"the answer"`} {
		if body := fmt.Sprint(e[side]); !strings.Contains(body, strings.Trim(text, `"`)) {
			t.Errorf("the %s is recorded as %s", side, body)
		}
	}
	timing := e["timing"].(map[string]any)
	upstream, total, overhead := timing["upstream_ms"].(float64), timing["total_ms"].(float64), timing["overhead_us"].(float64)/1e3
	if least := float64(pause.Milliseconds()); upstream < least || total < upstream || timing["first_token_ms"].(float64) < least || overhead > total-upstream+1 {
		t.Errorf("the timing is %v", timing)
	}
	attempts := e["attempts"].([]any)
	if a := attempts[0].(map[string]any); len(attempts) != 1 || a["took_ms"].(float64) < 30 || a["status"] != 200.0 {
		t.Errorf("the attempts are %v", attempts)
	}
}

func TestLevelNoneRecordsNoTextOfTools(t *testing.T) {
	t.Parallel()
	f := serving(`{"content":[{"type":"text","text":"private-answer"}],"isError":true}`)
	g := newToolGateway(t, f, gatewaytest.Options{Settings: "logs: {level: none}\n"})
	resource := `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///private-uri"}}`
	g.guard(denySecret, "")
	for _, tt := range []struct {
		name  string
		res   gatewaytest.Response
		model any
	}{
		{"a call", g.call("github", "create_issue", `{"q":"private-question"}`, "x-gateway-metadata", `{"m":"private-data"}`), "create_issue"},
		{"a resource", g.send("POST", "/mcp/github", resource, "authorization", "Bearer "+g.key), nil},
		{"a call that was refused", g.call("private-slug", "private-tool", `{"q":"secret"}`), nil},
	} {
		e := g.Entry(tt.res)
		if text := fmt.Sprint(e); strings.Contains(strings.ReplaceAll(text, "private-slug", ""), "private") || e["model"] != tt.model || e["path"] != "/mcp" || e["logging"] != "none" {
			t.Errorf("%s: the entry is %s", tt.name, text)
		}
	}
}

func TestToolCallsJoinTheTraceOfTheirMessage(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, serving(`{"content":[]}`), gatewaytest.Options{})
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, tt := range []struct {
		name, meta  string
		headers     []string
		trace, span any
	}{
		{"of the message", "00-" + trace + "-" + parent + "-01", nil, trace, parent},
		{"of the header, which wins", "00-" + trace + "-" + parent + "-01", []string{"traceparent", "00-11112222333344445555666677778888-1111222233334444-01"}, "11112222333344445555666677778888", "1111222233334444"},
		{"of the gateway's header", "00-" + trace + "-" + parent + "-01", []string{"x-gateway-trace-id", "mine"}, "mine", nil},
		{"an invalid one", "00-" + strings.Repeat("0", 32) + "-" + parent + "-01", nil, "", nil},
		{"text", `\n"`, nil, "", nil},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","_meta":{"traceparent":%q}}}`, tt.meta)
		res := g.send("POST", "/mcp/github", body, append([]string{"authorization", "Bearer " + g.key}, tt.headers...)...)
		e := g.Entry(res)
		want := tt.trace
		if want == "" {
			want = res.Header.Get("x-gateway-request-id")
		}
		if e["trace_id"] != want || e["parent_span_id"] != tt.span || res.Header.Get("x-gateway-trace-id") != want {
			t.Errorf("%s: trace %v below %v, header %s; want %v below %v", tt.name, e["trace_id"], e["parent_span_id"], res.Header.Get("x-gateway-trace-id"), want, tt.span)
		}
	}
}

// A list of several servers sends a message to each at the same time: they are one request.
func TestMessagesToSeveralServersAreOneRequest(t *testing.T) {
	t.Parallel()
	f := &relay{price: cent}
	f.serve = func(w http.ResponseWriter, r *http.Request, of *dataplane.ToolRequest) error {
		of.Describe(api.Tools, "", "")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				run, err := of.Begin(r.Context(), dataplane.ToolCall{Operation: api.Tools, Server: f.of(fmt.Sprint("s", i))})
				if err != nil {
					t.Errorf("server %d: %v", i, err)
					return
				}
				end := fine
				if i%5 == 0 {
					end = dataplane.ToolEnd{Err: &peer.Failure{Kind: peer.Unreachable, Unsent: true, Reason: "away"}}
				} else if _, err := run.CheckResult(r.Context(), []byte(`{"tools":[]}`)); err != nil {
					t.Errorf("server %d: %v", i, err)
				}
				run.End(end)
				run.End(end)
			})
		}
		w.Header().Set("Content-Type", "application/json") // at the same time
		io.WriteString(w, `{"jsonrpc":"2.0","id":7,`)
		wg.Wait()
		_, err := io.WriteString(w, `"result":{}}`)
		return err
	}
	g := newToolGateway(t, f, gatewaytest.Options{})
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"rpd","value":4}]`) // one is that which finds the key
	for n, want := range []int{200, 200, 200} {
		res := g.send("POST", "/mcp", `{}`, "authorization", "Bearer "+g.key)
		if res.Status != want {
			t.Fatalf("request %d: %d %s", n, res.Status, res.Body)
		}
		e := g.Entry(res)
		attempts, _ := e["attempts"].([]any)
		if len(attempts) != 20 || e["provider"] != "mcp" || e["provider_slug"] != nil || e["outcome"] != "success" || e["cost"] != 0.0 {
			t.Errorf("request %d: %d attempts, provider %v %v, outcome %v, cost %v", n, len(attempts), e["provider"], e["provider_slug"], e["outcome"], e["cost"])
		}
	}
}

// What is answered from a cache, and what only opens a stream, counts nothing.
func TestOnlyMessagesToServersCount(t *testing.T) {
	t.Parallel()
	f := &relay{serve: func(w http.ResponseWriter, _ *http.Request, of *dataplane.ToolRequest) error {
		of.Describe(api.Tools, "", "")
		_, err := io.WriteString(w, `{}`)
		return err
	}}
	g := newToolGateway(t, f, gatewaytest.Options{})
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"rpd","value":1}],"usage_limits":[{"credit_limit":1}]`)
	for range 3 {
		res := g.send("POST", "/mcp", `{}`, "authorization", "Bearer "+g.key)
		e := g.Entry(res)
		if attempts, _ := e["attempts"].([]any); res.Status != 200 || len(attempts) != 0 || e["provider"] != nil {
			t.Errorf("%d %s, recorded as %v", res.Status, res.Body, e)
		}
	}
	f.serve = nil
	for n, want := range []int{200, 429} {
		if res := g.call("github", "x", `{}`); res.Status != want {
			t.Errorf("call %d: %d %s, want %d", n, res.Status, res.Body, want)
		}
	}
}

func TestCallsOfToolsAreFoundByServerAndTool(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, &relay{price: cent}, gatewaytest.Options{})
	g.Entry(g.call("github", "create_issue", `{}`))
	g.Entry(g.call("gitlab", "list", `{}`))
	for _, query := range []string{"provider=@github", "model=create_issue", "provider=@github&operation=tools.call", "cost_min=1&model=create_issue"} {
		list, _ := g.Get("/logs?" + query).JSON(t)["data"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["model"] != "create_issue" {
			t.Errorf("%s finds %v", query, list)
		}
	}
	for group, want := range map[string]string{"provider": "github", "model": "create_issue"} {
		if text := string(g.Get("/analytics/groups/" + group + "?columns=cost").Body); !strings.Contains(text, `"`+want+`"`) || !strings.Contains(text, `"cost":1`) {
			t.Errorf("by %s: %s", group, text)
		}
	}
}
