package dataplane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const cent = 10_000_000 // nano-dollars

// policy makes a policy, which requests apply from then on.
func (g *toolGateway) policy(kind, body string) {
	g.t.Helper()
	made := g.Post("/policies/"+kind, body)
	if made.Status != 200 && made.Status != 201 {
		g.t.Fatalf("making a policy: %d %s", made.Status, made.Body)
	}
}

func TestConcurrentToolCallsKeepTheRateLimitOfAKey(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"rpd","value":7}]`)
	var passed, refused atomic.Int64
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			switch res := g.call("github", "x", `{}`); res.Status {
			case 200:
				passed.Add(1)
			case 429:
				code, name, _ := rpcErrorOf(t, res)
				if refused.Add(1); code != 429 || name != "rate_limited" || res.Header.Get("Retry-After") == "" || res.JSON(t)["id"] != 7.0 {
					t.Errorf("429 with %s and Retry-After %q", res.Body, res.Header.Get("Retry-After"))
				}
			default:
				t.Errorf("%d %s", res.Status, res.Body)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 7 || refused.Load() != 33 || g.relay.reached() != 7 {
		t.Errorf("%d calls passed, %d were refused and %d reached the server; want 7, 33, 7", passed.Load(), refused.Load(), g.relay.reached())
	}
}

func TestToolCallsInProgressAreLimited(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	f := &relay{server: func(context.Context, *dataplane.ToolCall, string) (string, dataplane.ToolEnd) {
		asked <- struct{}{}
		<-answer
		return `{"content":[]}`, fine
	}}
	g := newToolGateway(t, f, gatewaytest.Options{})
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"concurrent","value":1}]`)
	ended := make(chan int, 1)
	go func() { ended <- g.call("github", "x", `{}`).Status }()
	receive(t, asked, "the first call")
	if res := g.call("github", "x", `{}`); res.Status != 429 {
		t.Errorf("the second call: %d %s", res.Status, res.Body)
	}
	close(answer)
	if got := receive(t, ended, "its end"); got != 200 {
		t.Errorf("the first call: %d", got)
	}
	go func() {
		for range asked {
		}
	}()
	waittest.Until(t, "the place is free", func() bool { return g.call("github", "x", `{}`).Status == 200 })
	close(asked)
}

func TestToolCallsThatWereNotSentCountNothing(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	f := &relay{price: 30 * cent, server: func(context.Context, *dataplane.ToolCall, string) (string, dataplane.ToolEnd) {
		if down.Load() {
			return "", dataplane.ToolEnd{Err: &peer.Failure{Kind: peer.Unreachable, Unsent: true, Reason: "the server is away", Err: errors.New("dial 10.1.2.3")}}
		}
		return `{"content":[]}`, fine
	}}
	g := newToolGateway(t, f, gatewaytest.Options{})
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"rpd","value":2}],"usage_limits":[{"credit_limit":1}]`)
	down.Store(true)
	for range 5 {
		res := g.call("github", "x", `{}`)
		if res.Status != 502 {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
		e := g.Entry(res)
		attempts, _ := e["attempts"].([]any)
		if cost, _ := e["cost"].(float64); cost != 0 || len(attempts) != 1 || strings.Contains(fmt.Sprint(e), "10.1.2.3") {
			t.Errorf("the entry is %v", e)
		}
	}
	down.Store(false)
	for n, want := range []int{200, 200, 429} {
		if res := g.call("github", "x", `{}`); res.Status != want {
			t.Errorf("call %d: %d %s, want %d", n+1, res.Status, res.Body, want)
		}
	}
}

func TestToolCallsCostTheirPriceWhateverTheToolReports(t *testing.T) {
	t.Parallel()
	var end atomic.Pointer[dataplane.ToolEnd]
	f := &relay{price: 30 * cent, server: func(context.Context, *dataplane.ToolCall, string) (string, dataplane.ToolEnd) {
		return `{"content":[],"isError":true}`, *end.Load()
	}}
	g := newToolGateway(t, f, gatewaytest.Options{})
	g.withKey(`,"usage_limits":[{"credit_limit":1}]`)
	for _, tt := range []struct {
		name string
		end  dataplane.ToolEnd
		want int
		cost float64 // in cents
		code string
	}{
		{"the tool reports an error", dataplane.ToolEnd{Status: 200, IsError: true}, 200, 30, "tool_error"},
		{"the server fails", dataplane.ToolEnd{Status: 503}, 200, 0, "tool_server_failed"},
		{"the server fails, and says why", dataplane.ToolEnd{Err: &peer.Failure{Status: 503, Reason: "status 503"}}, 502, 0, "upstream_failed"},
		{"the connection breaks", dataplane.ToolEnd{Err: &peer.Failure{Reason: "the connection broke"}}, 502, 0, "upstream_failed"},
		{"nobody waits any more", dataplane.ToolEnd{Err: &peer.Failure{Kind: peer.TimedOut, Reason: "timed out"}}, 502, 30, "upstream_failed"},
		{"it succeeds", fine, 200, 30, ""},
		{"more than is left, which is let finish", fine, 200, 30, ""},
		{"nothing is left", fine, 412, 0, "budget_exhausted"},
	} {
		end.Store(&tt.end)
		res := g.call("github", "x", `{}`)
		if res.Status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, res.Status, res.Body, tt.want)
			continue
		}
		e := g.Entry(res)
		cost, _ := e["cost"].(float64)
		failure, _ := e["error"].(map[string]any)
		if code := str(failure["code"]); cost != tt.cost || code != tt.code {
			t.Errorf("%s: cost %v and code %q, want %v and %q (%v)", tt.name, cost, code, tt.cost, tt.code, e)
		}
	}
	if res := g.call("github", "free", `{}`); res.Status != 412 {
		t.Errorf("a free call with an exhausted budget: %d %s", res.Status, res.Body)
	}
	if res := g.send("POST", "/mcp/github", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, "authorization", "Bearer "+g.key); res.Status != 200 {
		t.Errorf("a list with an exhausted budget: %d %s", res.Status, res.Body)
	}
}

// A budget that is marked as exhausted refuses a call before anything is spent on it.
func TestExhaustedBudgetsRefuseToolCallsBeforeTheyAreChecked(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, &relay{price: 150 * cent}, gatewaytest.Options{})
	g.guard(denySecret, "")
	g.withKey(`,"usage_limits":[{"credit_limit":1}]`)
	if res := g.call("github", "x", `{}`); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the budget is marked", func() bool {
		res := g.call("github", "x", `{}`)
		if res.Status != 412 {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
		checks, _ := g.Entry(res)["checks"].([]any)
		return len(checks) == 0
	})
}

// Budgets count what the ledger has, so that they bind after a restart too.
func TestThePriceOfToolCallsSurvivesARestart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	f := &relay{price: 40 * cent}
	g := newToolGateway(t, f, gatewaytest.Options{Data: data})
	g.policy("usage-limits", `{"name":"calls","type":"cost","credit_limit":1,"target":"mcp_tools","conditions":[{"key":"mcp_server","value":"github"}],"group_by":[{"key":"mcp_server"}]}`)
	for n, want := range []int{200, 200, 200, 412} {
		if res := g.call("github", "x", `{}`); res.Status != want {
			t.Errorf("call %d: %d %s, want %d", n+1, res.Status, res.Body, want)
		}
	}
	g.Stop()
	g = newToolGateway(t, f, gatewaytest.Options{Data: data})
	if res := g.call("github", "x", `{}`); res.Status != 412 {
		t.Errorf("after a restart: %d %s", res.Status, res.Body)
	}
	if res := g.call("gitlab", "x", `{}`); res.Status != 200 {
		t.Errorf("another server: %d %s", res.Status, res.Body)
	}
}

// A budget that stops responses is never exceeded: the price of the call must fit.
func TestAStrictBudgetHasRoomForThePriceOfACall(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, &relay{price: 40 * cent}, gatewaytest.Options{})
	g.policy("usage-limits", `{"name":"calls","type":"cost","credit_limit":1,"on_budget_end":"stop","target":"mcp_tools","conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"api_key"}]}`)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			res := g.call("github", "x", `{}`)
			if res.Status == 200 {
				passed.Add(1)
			} else if _, name, _ := rpcErrorOf(t, res); res.Status != 412 || name != "budget_exhausted" {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		})
	}
	wg.Wait()
	res := g.call("github", "x", `{}`)
	if _, _, message := rpcErrorOf(t, res); passed.Load() != 2 || !strings.Contains(message, "has $0.2 left and the call costs $0.4") {
		t.Errorf("%d calls passed, then %d %s", passed.Load(), res.Status, res.Body)
	}
}

func TestPoliciesBindTheirTargetAlone(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	g.policy("rate-limits", `{"name":"models","type":"requests","unit":"rpd","value":1,"conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"workspace_id"}]}`)
	g.policy("rate-limits", `{"name":"tools","type":"requests","unit":"rpd","value":2,"target":"mcp_tools","conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"workspace_id"}]}`)
	for n, want := range []int{200, 200, 429} {
		if res := g.call("github", "x", `{}`); res.Status != want {
			t.Errorf("call %d of a tool: %d %s, want %d", n+1, res.Status, res.Body, want)
		}
	}
	for n, want := range []int{200, 429} {
		if res := g.Post("/chat/completions", plainChat); res.Status != want {
			t.Errorf("request %d to a model: %d %s, want %d", n+1, res.Status, res.Body, want)
		}
	}
}

func TestPoliciesOfToolsSelectByServerAndTool(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	g.policy("rate-limits", `{"name":"writes","type":"requests","unit":"rpd","value":1,"target":"mcp_tools","conditions":[{"key":"tool","value":["github/create_*","delete"],"excludes":"github/create_draft"}],"group_by":[{"key":"tool"},{"key":"metadata._user"}]}`)
	for n, tt := range []struct {
		server, tool, user string
		want               int
	}{
		{"github", "create_issue", "a", 200}, {"github", "create_issue", "a", 429}, {"github", "create_issue", "b", 200},
		{"github", "create_label", "a", 200}, {"github", "create_draft", "a", 200}, {"github", "create_draft", "a", 200},
		{"gitlab", "create_issue", "a", 200}, {"gitlab", "create_issue", "a", 200}, {"gitlab", "delete", "a", 200}, {"gitlab", "delete", "a", 429},
		{"github", "list", "a", 200}, {"github", "list", "a", 200},
	} {
		if res := g.call(tt.server, tt.tool, `{}`, "x-gateway-metadata", `{"_user":"`+tt.user+`"}`); res.Status != tt.want {
			t.Errorf("call %d of %s/%s: %d %s, want %d", n+1, tt.server, tt.tool, res.Status, res.Body, tt.want)
		}
	}
}

func TestLoopsOfToolCallsAreDetected(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	g.policy("rate-limits", `{"name":"loops","type":"requests","unit":"rpd","value":1000,"target":"mcp_tools","conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"api_key"}],"loop_detection":{"same_tool_call":3}}`)
	session := func(id string) []string { return []string{"x-gateway-metadata", `{"session_id":"` + id + `"}`} }
	call := func(arguments, session string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":%s,"session":%q}}`, arguments, session)
	}
	for n, tt := range []struct {
		arguments string
		protocol  string // session of the protocol
		headers   []string
		want      int
	}{
		{`{"a":1,"b":[]}`, "", session("s"), 200}, {`{"b":[], "a":1}`, "", session("s"), 200}, {`{"a":1,"b":[]}`, "", session("s"), 429},
		{`{"a":2,"b":[]}`, "", session("s"), 200}, {`{"a":1,"b":[]}`, "", session("other"), 200},
		{`{"a":1,"b":[]}`, "", nil, 200}, {`{"a":1,"b":[]}`, "", nil, 200}, {`{"a":1,"b":[]}`, "", nil, 200}, // no session
		{`{}`, "p", nil, 200}, {`{}`, "p", nil, 200}, {`{}`, "p", nil, 429}, {`{}`, "q", nil, 200},
	} {
		res := g.send("POST", "/mcp/github", call(tt.arguments, tt.protocol), append([]string{"authorization", "Bearer " + g.key}, tt.headers...)...)
		if res.Status != tt.want {
			t.Errorf("call %d: %d %s, want %d", n+1, res.Status, res.Body, tt.want)
		}
		if tt.want == 429 {
			if _, name, message := rpcErrorOf(t, res); name != "loop_detected" || !strings.Contains(message, `"x" was called 2 times`) {
				t.Errorf("the error is %s %q", name, message)
			}
		}
	}
}

func TestSessionsOfToolCallsEnd(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	g.policy("usage-limits", `{"name":"calls","type":"requests","credit_limit":2,"periodic_reset":"weekly","target":"mcp_tools","conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"session"}]}`)
	for n, want := range []int{200, 200, 429} {
		res := g.call("github", "x", `{}`, "x-gateway-metadata", `{"session_id":"s"}`)
		if res.Status != want {
			t.Errorf("call %d: %d %s, want %d", n+1, res.Status, res.Body, want)
		}
		if want == 429 {
			if _, name, _ := rpcErrorOf(t, res); name != "session_limit" {
				t.Errorf("the error is %s", res.Body)
			}
		}
	}
	if res := g.call("github", "x", `{}`, "x-gateway-metadata", `{"session_id":"t"}`); res.Status != 200 {
		t.Errorf("another session: %d %s", res.Status, res.Body)
	}
}

// What serves tools may forget a message: it must not hold what it reserved for ever.
func TestToolCallsThatAreNotEndedAreSettled(t *testing.T) {
	t.Parallel()
	f := &relay{price: cent}
	g := newToolGateway(t, f, gatewaytest.Options{})
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"concurrent","value":1}]`)
	f.server = func(context.Context, *dataplane.ToolCall, string) (string, dataplane.ToolEnd) { panic("lost") }
	if res := g.call("github", "x", `{}`); res.Status != 500 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	f.server = nil
	if res := g.call("github", "x", `{}`); res.Status != 200 {
		t.Errorf("the next call: %d %s", res.Status, res.Body)
	}
}
