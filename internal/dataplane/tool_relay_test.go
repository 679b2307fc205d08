package dataplane_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// newRelayGateway is a gateway with the real relay and a server of the legacy era, whose
// every way to say something has the word secret.
func newRelayGateway(t *testing.T, master string, settings ...string) (*toolGateway, *toolservertest.Server) {
	up := toolservertest.New(t)
	up.NoModern = true
	up.Handle("tools/call note", func(x *toolservertest.Exchange) {
		x.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"the secret is here"}}`)
		x.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"message":"the secret is here"}}`)
		x.Text("the secret is here")
	})
	up.Handle("tools/call list", func(x *toolservertest.Exchange) {
		x.Answer(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":["the secret is here"]}`)
	})
	up.Handle("tools/call more", func(x *toolservertest.Exchange) {
		x.Answer(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":{"content":[]},"extra":"the secret is here"}`)
	})
	up.Handle("tools/call error", func(x *toolservertest.Exchange) { x.Fail(200, -32000, "the secret is here", "") })
	up.Handle("tools/call ask", func(x *toolservertest.Exchange) {
		x.Ask("sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"the secret is here"}}]}`)
		x.Text("asked")
	})
	g := &toolGateway{Gateway: gatewaytest.New(t, gatewaytest.Options{MasterKey: master, Settings: strings.Join(settings, "")}), t: t, key: gatewaytest.Key}
	for _, call := range [][3]string{
		{"POST", "/mcp-integrations", `{"name":"I","slug":"tracker","url":"` + up.URL + `","transport":"http","auth_type":"none"}`},
		{"PUT", "/mcp-integrations/tracker/workspaces", `{"workspaces":[{"id":"default","enabled":true}]}`},
		{"POST", "/mcp-servers", `{"name":"Issues","slug":"issues","mcp_integration_id":"tracker","workspace_id":"default"}`},
	} {
		if res := g.Do(g.Request(call[0], call[1], call[2], "x-gateway-provider", "")); res.Status != 200 {
			t.Fatalf("%v: %d %s", call, res.Status, res.Body)
		}
	}
	waittest.Until(t, "the server is known", func() bool {
		return g.Post("/mcp/issues", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "x-gateway-provider", "").Status == 200
	})
	return g, up
}

// TestNothingPassesGuardrailsUnread has a server that says a denied word in all ways, and a
// client that does the same.
func TestNothingPassesGuardrailsUnread(t *testing.T) {
	t.Parallel()
	g, up := newRelayGateway(t, "the master key of a test of tools")
	g.guard(denySecret, denySecret)
	g.withKey("")
	send := func(body string, h ...string) string {
		t.Helper()
		res := g.send("POST", "/mcp/issues", body, append([]string{"authorization", "Bearer " + g.key, "accept", "application/json, text/event-stream"}, h...)...)
		return string(res.Body)
	}
	waittest.Until(t, "the guardrails apply", func() bool {
		return !strings.Contains(send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"note","arguments":{}}}`), "secret is here")
	})
	for _, name := range []string{"note", "list", "more", "error", "ask"} {
		if got := send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","arguments":{},"_meta":{"progressToken":"p"}}}`); strings.Contains(got, "the secret") {
			t.Errorf("%s: %s", name, got)
		}
	}
	modern := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "ask"}
	if got := send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}`, modern...); strings.Contains(got, "secret") {
		t.Errorf("a question: %s", got)
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"name","value":"the secret"}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"name","value":"x"},"context":{"arguments":{"a":"the secret"}}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"note":"the secret"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"note":"the secret"}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"inputResponses":{"q":{"action":"accept","content":{"a":"the secret"}}}}}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":"the secret"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/note","params":{"text":"the secret"}}`,
		`{"jsonrpc":"2.0","id":"the secret","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":"the secret"}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"traceparent":"the secret"}}}`,
	} {
		send(body)
	}
	if got := send(`{"jsonrpc":"2.0","id":"the secret","method":"tools/call","params":{"name":"echo","arguments":{"text":"passed"}}}`); !strings.Contains(got, `"id":"the secret"`) ||
		!strings.Contains(got, "passed") {
		t.Errorf("a response has another id: %s", got)
	}
	begun := g.send("POST", "/mcp/issues", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"x":"the secret"},"x":"the secret"},"clientInfo":{"name":"the secret","version":"1"}}}`, "authorization", "Bearer "+g.key)
	session := []string{"Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id")}
	send(`{"jsonrpc":"2.0","id":"the secret","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`, session...)
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9,"reason":"the secret"}}`, session...)
	send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"x":"the secret"}}`, session...)
	send(`{"jsonrpc":"2.0","id":"the secret","method":"logging/setLevel","params":{"level":"info","x":"the secret"}}`, session...)
	if up.Count("notifications/roots/list_changed") != 1 || up.Count("logging/setLevel") != 1 {
		t.Error("what all servers get does not reach them")
	}
	for _, r := range up.Requests("") {
		if strings.Contains(string(r.Message.Raw), "secret") {
			t.Errorf("the server got %s", r.Message.Raw)
		}
	}
}

// TestAnswersOfOlderClientsDoNotPassGuardrailsUnread has a server of the modern era that asks a
// client of the legacy era.
func TestAnswersOfOlderClientsDoNotPassGuardrailsUnread(t *testing.T) {
	t.Parallel()
	g, up := newRelayGateway(t, "the master key of a test of tools")
	up.NoModern, up.NoLegacy = false, true
	up.Handle("tools/call ask", func(x *toolservertest.Exchange) {
		x.Answer(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}}}}`)
	})
	g.guard(denySecret, "")
	g.withKey("")
	h := []string{"authorization", "Bearer " + g.key, "accept", "application/json, text/event-stream"}
	waittest.Until(t, "the guardrails apply", func() bool {
		return strings.Contains(string(g.send("POST", "/mcp/issues", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"secret"}}}`, h...).Body), "isError")
	})
	begun := g.send("POST", "/mcp/issues", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`, h...)
	res := g.send("POST", "/mcp/issues", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{}}}`,
		append(h, "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"))...)
	if got := string(res.Body); strings.Contains(got, "elicitation/create") || !strings.Contains(got, "guardrails cannot check") {
		t.Errorf("the client got %s", got)
	}
	g.send("POST", "/mcp/issues", `{"jsonrpc":"2.0","id":"the secret","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`, h...)
	for _, r := range up.Requests("tools/call") {
		if strings.Contains(string(r.Message.Raw), "the secret") {
			t.Errorf("the server got %s", r.Message.Raw)
		}
	}
}

func TestToolServersWorkWithoutAMasterKey(t *testing.T) {
	t.Parallel()
	g, _ := newRelayGateway(t, "")
	res := g.Post("/mcp/issues", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`, "x-gateway-provider", "")
	id := res.Header.Get("Mcp-Session-Id")
	if res.Status != 200 || id == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	if res := g.Post("/mcp/issues", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "x-gateway-provider", "", "Mcp-Session-Id", id); res.Status != 200 {
		t.Errorf("%d %s", res.Status, res.Body)
	}
}

// TestTasksDoNotPassGuardrailsUnread has a server of the modern era whose task says a denied word
// in all ways.
func TestTasksDoNotPassGuardrailsUnread(t *testing.T) {
	t.Parallel()
	g, up := newRelayGateway(t, "the master key of a test of tools")
	up.NoModern, up.NoLegacy = false, true
	const seed = `"taskId":"t-1","createdAt":"the secret","ttlMs":"the secret","statusMessage":"the secret"`
	var rest atomic.Value
	rest.Store("")
	up.Handle("tools/call ask", func(x *toolservertest.Exchange) {
		x.Answer(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":{"resultType":"task",` + seed + `,"status":"working"}}`)
	})
	up.Handle("tasks/get", func(x *toolservertest.Exchange) { x.Result(`{` + seed + rest.Load().(string) + `}`) })
	up.Handle("tasks/update", func(x *toolservertest.Exchange) { x.Result(`{}`) })
	g.guard(denySecret, denySecret)
	g.withKey("")
	send := func(method, params, name string) string {
		t.Helper()
		return string(g.send("POST", "/mcp/issues", `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`,
			"authorization", "Bearer "+g.key, "accept", "application/json, text/event-stream",
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name).Body)
	}
	waittest.Until(t, "the guardrails apply", func() bool {
		return strings.Contains(send("tools/call", `"name":"echo","arguments":{"text":"secret"}`, "echo"), "isError")
	})
	begun := send("tools/call", `"name":"ask","arguments":{}`, "ask")
	_, after, _ := strings.Cut(begun, `"taskId":"`)
	id, _, ok := strings.Cut(after, `"`)
	if !ok || strings.Contains(begun, "secret") {
		t.Fatalf("the task is %s", begun)
	}
	for name, tt := range map[string]struct{ rest, want string }{
		"a result":   {`,"status":"completed","result":{"content":[{"type":"text","text":"the secret"}]}`, `"isError":true`},
		"an error":   {`,"status":"failed","error":{"code":1,"message":"the secret"}`, `"error"`},
		"a question": {`,"status":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"the secret"}}}`, "guardrails cannot check"},
		"a status":   {`,"status":"the secret","secret":"the secret"`, `"taskId"`},
		"fine":       {`,"status":"completed","result":{"content":[{"type":"text","text":"fine"}]}`, `"text":"fine"`},
	} {
		rest.Store(tt.rest)
		if got := send("tasks/get", `"taskId":"`+id+`"`, id); strings.Contains(got, "secret") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := send("tasks/update", `"taskId":"`+id+`","inputResponses":{"q":{"action":"accept","content":{"a":"the secret"}}}`, id); up.Count("tasks/update") != 0 {
		t.Errorf("an answer passed: %s", got)
	}
}

// TestMessagesThatTheGatewayAnswersAreCounted sends what reaches all servers or costs memory with a
// key that may send five requests a day.
func TestMessagesThatTheGatewayAnswersAreCounted(t *testing.T) {
	t.Parallel()
	g, up := newRelayGateway(t, "the master key of a test of tools")
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"rpd","value":5}]`)
	session := ""
	send := func(method, body string) gatewaytest.Response {
		return g.send(method, "/mcp/issues", body, "authorization", "Bearer "+g.key, "accept", "application/json, text/event-stream", "Mcp-Session-Id", session)
	}
	begun := send("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}}}}`)
	session = begun.Header.Get("Mcp-Session-Id")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, body := range []string{
		ping, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`,
	} {
		if res := send("POST", body); res.Status >= 300 {
			t.Errorf("%s: %d %s", body, res.Status, res.Body)
		}
	}
	before := len(up.Requests(""))
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`,
	} {
		res := send("POST", body)
		if res.Status != 429 || res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", body, res.Status, res.Body)
		}
	}
	if res := send("GET", ""); res.Status != 429 {
		t.Fatalf("a stream: %d %s", res.Status, res.Body)
	}
	if res := send("POST", ping); res.Status != 200 {
		t.Errorf("a ping: %d %s", res.Status, res.Body)
	}
	if n := len(up.Requests("")); n != before {
		t.Errorf("the server got %d requests", n-before)
	}
}

// TestMessagesOfUnknownSizeAreBounded sends messages in chunks: one that fits, and one that is too
// large.
func TestMessagesOfUnknownSizeAreBounded(t *testing.T) {
	t.Parallel()
	g := &toolGateway{Gateway: gatewaytest.New(t, gatewaytest.Options{Settings: "limits: {json_body: 100 KB}\n"}), t: t, key: gatewaytest.Key}
	for size, want := range map[int]int{1: 200, 60 << 10: 200, 110 << 10: 413} {
		body := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", size) + `"}}`
		for name, body := range map[string]io.Reader{"known": strings.NewReader(body), "unknown": io.MultiReader(strings.NewReader(body))} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.Root+"/mcp", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+g.key)
			req.Header.Set("Content-Type", "application/json")
			if res := g.Do(req); res.Status != want {
				t.Errorf("%d bytes, %s length: %d %.200s", size, name, res.Status, res.Body)
			}
		}
	}
}

// TestSettingsOfToolServersAreUsed asks for the names of the only server, and opens a stream of the
// old transport, with and without the settings that allow that.
func TestSettingsOfToolServersAreUsed(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]struct {
		name string
		old  int
	}{"": {"issues__echo", 405}, "tools: {prefix: needed, sse: true}\n": {"echo", 200}} {
		g, _ := newRelayGateway(t, "the master key of a test of tools", settings)
		res := g.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "x-gateway-provider", "")
		if !strings.Contains(string(res.Body), `{"name":"`+want.name+`",`) {
			t.Errorf("%q: %s", settings, res.Body)
		}
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.Root+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+g.key)
		stream, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if stream.StatusCode != want.old {
			t.Errorf("%q: a stream of the old transport: %d, want %d", settings, stream.StatusCode, want.old)
		}
		leave()
		stream.Body.Close()
	}
}

// TestReadingAServerIsBoundByTheEgressPolicies syncs a server whose host the workspace allows no
// longer.
func TestReadingAServerIsBoundByTheEgressPolicies(t *testing.T) {
	t.Parallel()
	g, up := newRelayGateway(t, "the master key of a test of tools")
	sync := func() gatewaytest.Response {
		return g.Post("/mcp-servers/issues/sync?workspace_id=default", "", "x-gateway-provider", "")
	}
	if res := sync(); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	res := g.Do(g.Request("PUT", "/workspaces/default", `{"settings":{"egress_policy":{"custom_hosts":["tools.example.com"]}}}`, "x-gateway-provider", ""))
	if res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the policy applies", func() bool {
		res := g.Post("/mcp/issues", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, "x-gateway-provider", "")
		return strings.Contains(string(res.Body), "egress_policy")
	})
	before := len(up.Requests(""))
	if res := sync(); !strings.Contains(string(res.Body), "egress_policy.custom_hosts") || len(up.Requests("")) != before {
		t.Errorf("%d %s", res.Status, res.Body)
	}
}

// TestSearchesAreCounted searches tools and reads definitions with a key that may send two requests
// a day.
func TestSearchesAreCounted(t *testing.T) {
	t.Parallel()
	g, _ := newRelayGateway(t, "the master key of a test of tools", "tools: {search_above: 1}\n")
	g.withKey(`,"rate_limits":[{"type":"requests","unit":"rpd","value":2}]`)
	call := func(name, arguments string) gatewaytest.Response {
		return g.send("POST", "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`, "authorization", "Bearer "+g.key)
	}
	for i, want := range []int{200, 200, 429, 429} {
		name, arguments := "search_tools", `{"query":"echo"}`
		if i%2 == 1 {
			name, arguments = "describe_tool", `{"name":"issues__echo"}`
		}
		if res := call(name, arguments); res.Status != want || want == 200 && !strings.Contains(string(res.Body), "echo") {
			t.Errorf("request %d: %d %s", i, res.Status, res.Body)
		}
	}
}
