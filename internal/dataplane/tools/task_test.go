package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// takesTasks are the capabilities of a client that takes tasks.
const takesTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{}}`

const workingTask = `"taskId":"t-1","status":"working","createdAt":"2026-11-01T10:30:00Z","lastUpdatedAt":"2026-11-01T10:40:00Z","ttlMs":60000,"pollIntervalMs":50`

// makingTasks returns a server of the modern era whose tool echo answers with a task.
func makingTasks(t testing.TB) *toolservertest.Server {
	up := modernServer(t)
	up.Capabilities = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	up.Handle("tools/call echo", func(x *toolservertest.Exchange) {
		x.Answer(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":{"resultType":"task",` + workingTask + `}}`)
	})
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		up.Handle(method+" t-1", func(x *toolservertest.Exchange) {
			if method != "tasks/get" {
				x.Result("{}")
				return
			}
			x.Result(`{` + strings.Replace(workingTask, "working", "completed", 1) + `,"result":{"content":[{"type":"text","text":"done"}],"n":1.0}}`)
		})
	}
	return up
}

// taskOf returns the id of the task in a result.
func taskOf(t testing.TB, r response) string {
	t.Helper()
	var result struct{ ResultType, TaskID string }
	if err := json.Unmarshal(r.last(t).Result, &result); err != nil || result.ResultType != "task" || result.TaskID == "" {
		t.Fatalf("no task: %d %q", r.status, r.messages)
	}
	return result.TaskID
}

const callEcho = `"name":"one__echo","arguments":{"text":"x"}`

func TestTasksAreRelayedUnderSealedIDs(t *testing.T) {
	up := makingTasks(t)
	o := options{servers: []*toolserver.Server{server("one", up.URL), server("two", modernServer(t).URL)}}
	a, b := newGateway(t, o), newGateway(t, o)
	if m := a.modern("/mcp", "server/discover", "", "{}"); !strings.Contains(string(m.last(t).Result), `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
		t.Errorf("the extension is not declared: %q", m.messages)
	}
	id := taskOf(t, a.modern("/mcp", "tools/call", callEcho, takesTasks))
	if strings.Contains(id, "t-1") {
		t.Errorf("the id %s shows that of the server", id)
	}
	about := fmt.Sprintf(`"taskId":%q`, id)
	want := `{"resultType":"complete",` + about + `,"status":"completed","createdAt":"2026-11-01T10:30:00Z","lastUpdatedAt":"2026-11-01T10:40:00Z","ttlMs":60000,"pollIntervalMs":50,"result":{"content":[{"type":"text","text":"done"}],"n":1.0}}`
	if m := b.modern("/mcp", "tasks/get", about, takesTasks).last(t); string(m.Result) != want { // another node
		t.Errorf("the task is\n%s, want\n%s", m.Result, want)
	}
	for _, method := range []string{"tasks/update", "tasks/cancel"} {
		if m := b.modern("/mcp", method, about+`,"inputResponses":{"q":{"action":"accept"}}`, takesTasks).last(t); string(m.Result) != `{"resultType":"complete"}` {
			t.Errorf("%s: %s", method, m.Result)
		}
		sent := up.Requests(method)
		if len(sent) != 1 || !strings.Contains(string(sent[0].Message.Raw), `"taskId":"t-1","inputResponses":{"q":{"action":"accept"}}`) {
			t.Errorf("%s reached the server as %v", method, sent)
		}
	}
}

// TestTasksBelongToTheirCaller uses the task of somebody else, one whose tool is now forbidden,
// and ids that the gateway did not give.
func TestTasksBelongToTheirCaller(t *testing.T) {
	up := makingTasks(t)
	o := options{servers: []*toolserver.Server{server("one", up.URL)}}
	g := newGateway(t, o)
	id := taskOf(t, g.modern("/mcp", "tools/call", callEcho, takesTasks))
	get := func(id string, h ...string) response {
		return g.modern("/mcp", "tasks/get", fmt.Sprintf(`"taskId":%q`, id), takesTasks, h...)
	}
	for name, r := range map[string]response{
		"another caller":     get(id, "X-Gateway-Api-Key", bobKey),
		"another workspace":  get(id, "X-Gateway-Api-Key", otherKey),
		"that of the server": get("t-1"),
		"altered":            get(id[:len(id)-3] + "AAA"),
		"a state":            get(strings.Replace(id, "mgk_", "mgq_", 1)),
	} {
		if m := r.last(t); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: %q", name, r.messages)
		}
	}
	if m := g.modern("/mcp", "tasks/get", fmt.Sprintf(`"taskId":%q`, id), "{}"); m.status != 400 || m.last(t).Error == nil || m.last(t).Error.Code != -32021 {
		t.Errorf("a client that does not take tasks: %d %q", m.status, m.messages)
	}
	o.limits = map[string][]string{"alice": {"one/add"}}
	g.publish(o)
	if m := get(id).last(t); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("the tool is forbidden: %s", m.Result)
	}
	if n := up.Count("tasks/get t-1"); n != 0 {
		t.Errorf("the server got %d requests", n)
	}
}

func TestTasksReachOnlyClientsThatTakeThem(t *testing.T) {
	up := makingTasks(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	if m := g.modern("/mcp", "tools/call", callEcho, "{}").last(t); m.Error == nil || strings.Contains(m.Error.Message, "t-1") {
		t.Errorf("a client that does not take tasks: %s", m.Result)
	}
	s := g.initialize("/mcp", `{"extensions":{"io.modelcontextprotocol/tasks":{},"x":{}},"tasks":{"list":{}}}`)
	if m := s.call("tools/call", `{`+callEcho+`}`).last(t); m.Error == nil {
		t.Errorf("a legacy client: %s", m.Result)
	}
	sent := up.Requests("tools/call")
	if last := string(sent[len(sent)-1].Message.Raw); !strings.Contains(last, `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"x":{}}}`) {
		t.Errorf("the server got %s", last)
	}
	if m := s.call("tools/call", `{`+callEcho+`,"task":{"ttl":1}}`).last(t); m.Error == nil || m.Error.Code != -32602 || len(up.Requests("tools/call")) != len(sent) {
		t.Errorf("a task of 2025-11-25: %+v", m)
	}
	up.Handle("tools/call echo", func(x *toolservertest.Exchange) {
		x.Answer(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":{"resultType":"task","taskId":"` + strings.Repeat("x", 2000) + `"}}`)
	})
	if m := g.modern("/mcp", "tools/call", callEcho, takesTasks).last(t); m.Error == nil {
		t.Errorf("an id that no header holds: %s", m.Result)
	}
}

func TestTasksAreWatched(t *testing.T) {
	up := makingTasks(t)
	n := listenTo(up)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	id := taskOf(t, g.modern("/mcp", "tools/call", callEcho, takesTasks))
	bobs := taskOf(t, g.modern("/mcp", "tools/call", callEcho, takesTasks, "X-Gateway-Api-Key", bobKey))
	body := func(capabilities string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"taskIds":[%q,%q,"t-1"]},`, id, bobs) +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
	}
	h := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"}
	if r := g.send("POST", "/mcp", body("{}"), h...); r.status != 400 || r.last(t).Error == nil || r.last(t).Error.Code != -32021 {
		t.Errorf("a client that does not take tasks: %d %q", r.status, r.messages)
	}
	res := g.open(t.Context(), "POST", "/mcp", body(takesTasks), h...)
	defer res.Body.Close()
	got := make(chan string, 16)
	go func() {
		for m := range events(res.Body) {
			got <- m
		}
	}()
	if first := waittest.Receive(t, got, "the acknowledgement"); !strings.Contains(first, fmt.Sprintf(`"taskIds":[%q]`, id)) {
		t.Errorf("acknowledged: %s", first)
	}
	waittest.Until(t, "the gateway listens", func() bool {
		return n.notify(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{`+workingTask+`}}`) > 0
	})
	if m := waittest.Receive(t, got, "a notification"); !strings.Contains(m, fmt.Sprintf(`"taskId":%q`, id)) || !strings.Contains(m, `"io.modelcontextprotocol/subscriptionId":"sub"`) ||
		!strings.Contains(m, "notifications/tasks") {
		t.Errorf("%s", m)
	}
}
