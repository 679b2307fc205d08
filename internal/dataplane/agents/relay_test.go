package agents_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/waittest"
)

func TestMessagesAreRelayedAsBytes(t *testing.T) {
	a := newAgent(t)
	g := newGateway(t, a, options{})
	res := g.rpc("SendMessage", hello, "A2A-Extensions", "https://example.com/x")
	if res.status != 200 || !strings.Contains(res.body, `"score":1.50`) {
		t.Fatalf("%d %s", res.status, res.body)
	}
	r, body := a.last()
	if r.URL.Path != "/rpc" || !strings.Contains(body, `"n":1.0`) || r.Header.Get("A2a-Version") != "1.0" || r.Header.Get("A2a-Extensions") != "https://example.com/x" {
		t.Errorf("the agent got %s %v %s", r.URL, r.Header, body)
	}
	if got := r.Header.Get("Authorization"); got != "Bearer of-the-agent" {
		t.Errorf("the agent got the credential %s", got)
	}
	for name, values := range r.Header {
		if strings.Contains(fmt.Sprint(values), aliceKey) {
			t.Errorf("the agent got the key of the caller in %s", name)
		}
	}
	rest := g.send("POST", "/a2a/helper/message:send?x=1", hello)
	if r, body := a.last(); rest.status != 200 || r.URL.String() != "/rest/message:send?x=1" || body != hello {
		t.Errorf("HTTP+JSON: %d %s, the agent got %s %s", rest.status, rest.body, r.URL, body)
	}
	g.send("POST", "/a2a/helper/v1/message:send", hello)
	if r, _ := a.last(); r.URL.String() != "/rest/v1/message:send" {
		t.Errorf("HTTP+JSON of 0.3: the agent got %s", r.URL)
	}
	g.rpc("message/send", hello, "A2A-Version", "0.3")
	if r, _ := a.last(); r.URL.Path != "/old" {
		t.Errorf("0.3 went to %s", r.URL.Path)
	}
}

func TestTasksBelongToTheirCaller(t *testing.T) {
	a := newAgent(t)
	g := newGateway(t, a, options{})
	sent := g.rpc("SendMessage", hello)
	task, of := sent.find(t, "result", "task", "id"), sent.find(t, "result", "task", "contextId")
	if strings.Contains(sent.body, "task-1") || sent.find(t, "result", "task", "status", "message", "taskId") != task {
		t.Fatalf("%s", sent.body)
	}
	got := g.rpc("GetTask", `{"id":"`+task+`"}`)
	if got.find(t, "result", "id") != task {
		t.Errorf("the caller got %s", got.body)
	}
	if _, body := a.last(); !strings.Contains(body, `"id":"task-1"`) {
		t.Errorf("the agent got %s", body)
	}
	if rest := g.send("GET", "/a2a/helper/tasks/"+task+"?historyLength=3", ""); rest.status != 200 {
		t.Errorf("GET of a task: %d %s", rest.status, rest.body)
	}
	if r, _ := a.last(); r.URL.String() != "/rest/tasks/task-1?historyLength=3" {
		t.Errorf("the agent got %s", r.URL)
	}
	next := `{"message":{"messageId":"m2","role":"ROLE_USER","taskId":"` + task + `","contextId":"` + of + `","referenceTaskIds":["` + task + `"],"parts":[]}}`
	if res := g.rpc("SendMessage", next); res.status != 200 || res.find(t, "error") != "<nil>" {
		t.Errorf("a second message: %s", res.body)
	}
	if _, body := a.last(); !strings.Contains(body, `"taskId":"task-1","contextId":"context-1","referenceTaskIds":["task-1"]`) {
		t.Errorf("the agent got %s", body)
	}
	before := a.reached()
	for _, thief := range []string{bobKey, otherKey} {
		for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask", "tasks/get", "tasks/cancel", "tasks/resubscribe"} {
			if res := g.rpc(method, `{"id":"`+task+`"}`, as(thief)...); res.status != 200 || res.find(t, "error", "code") != "-32001" {
				t.Errorf("%s of another: %d %s", method, res.status, res.body)
			}
		}
		for _, path := range []string{"GET tasks/ID", "POST tasks/ID:cancel", "GET tasks/ID:subscribe", "POST v1/tasks/ID:cancel"} {
			method, path, _ := strings.Cut(strings.ReplaceAll(path, "ID", task), " ")
			if res := g.send(method, "/a2a/helper/"+path, "", as(thief)...); res.status != 404 || res.find(t, "error", "details", 0, "reason") != "TASK_NOT_FOUND" {
				t.Errorf("%s of another: %d %s", path, res.status, res.body)
			}
		}
		if res := g.rpc("SendMessage", next, as(thief)...); res.find(t, "error", "code") == "<nil>" {
			t.Errorf("a message to the task of another: %s", res.body)
		}
		if res := g.rpc("ListTasks", `{"contextId":"`+of+`"}`, as(thief)...); res.find(t, "error", "code") != "-32602" {
			t.Errorf("the tasks of another: %s", res.body)
		}
		if res := g.send("GET", "/a2a/helper/tasks?contextId="+of, "", as(thief)...); res.status != 400 {
			t.Errorf("the tasks of another: %d %s", res.status, res.body)
		}
	}
	if a.reached() != before {
		t.Error("the agent got a request for a task of another")
	}
}

func TestIDsCannotBeSmuggled(t *testing.T) {
	a := newAgent(t)
	g := newGateway(t, a, options{})
	sent := g.rpc("SendMessage", hello)
	own, of := sent.find(t, "result", "task", "id"), sent.find(t, "result", "task", "contextId")
	before := a.reached()
	message := func(members string) string {
		return `{"message":{"messageId":"m","role":"ROLE_USER","parts":[],` + members + `}}`
	}
	for name, tt := range map[string]struct{ method, params string }{
		"raw":                {"GetTask", `{"id":"task-1"}`},
		"twice":              {"GetTask", `{"id":"` + own + `","id":"task-1"}`},
		"in another case":    {"GetTask", `{"id":"` + own + `","ID":"task-1"}`},
		"only in that case":  {"GetTask", `{"Id":"task-1"}`},
		"snake case":         {"SendMessage", message(`"task_id":"task-1"`)},
		"upper case":         {"SendMessage", message(`"TASKID":"task-1"`)},
		"long s":             {"SendMessage", message(`"ta\u017fkId":"task-1"`)},
		"kelvin":             {"SendMessage", message(`"tas\u212aId":"task-1"`)},
		"both spellings":     {"SendMessage", message(`"taskId":"` + own + `","task_id":"task-1"`)},
		"a reference":        {"SendMessage", message(`"referenceTaskIds":["task-1"]`)},
		"not a list":         {"SendMessage", message(`"referenceTaskIds":"task-1"`)},
		"a number":           {"GetTask", `{"id":1}`},
		"a context":          {"SendMessage", message(`"contextId":"context-1"`)},
		"as a context":       {"SendMessage", message(`"contextId":"` + own + `"`)},
		"none":               {"GetTask", `{}`},
		"as a resource":      {"GetTask", `{"id":"` + own + `","name":"tasks/task-1"}`},
		"an altered id":      {"GetTask", `{"id":"` + own[:len(own)-2] + `AA"}`},
		"all tasks":          {"ListTasks", `{}`},
		"all tasks, empty":   {"ListTasks", `{"contextId":""}`},
		"another tenant":     {"SendMessage", `{"tenant":"t",` + hello[1:]},
		"a push":             {"SendMessage", `{"configuration":{"taskPushNotificationConfig":{"url":"http://169.254.169.254/"}},` + hello[1:]},
		"a push of 0.3":      {"message/send", `{"configuration":{"pushNotificationConfig":{"url":"http://169.254.169.254/"}},` + hello[1:]},
		"in protobuf":        {"message/send", `{"configuration":{"pushNotification":{"url":"http://169.254.169.254/"}},` + hello[1:]},
		"in snake case":      {"message/send", `{"configuration":{"push_notification":{"url":"http://169.254.169.254/"}},` + hello[1:]},
		"a task below":       {"GetTask", `{"message":{"taskId":"` + own + `"}}`},
		"a context below":    {"ListTasks", `{"filter":{"contextId":"` + of + `"}}`},
		"many levels":        {"SendMessage", `{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "," + hello[1:]},
		"many ids":           {"SendMessage", message(`"referenceTaskIds":["` + strings.Repeat(own+`","`, 10_000) + own + `"]`)},
		"a push of its own":  {"CreateTaskPushNotificationConfig", `{"taskId":"` + own + `","url":"https://example.com"}`},
		"an unknown method":  {"tasks/steal", `{"id":"task-1"}`},
		"parameters as list": {"GetTask", `["task-1"]`},
	} {
		if res := g.rpc(tt.method, tt.params); res.status != 200 || res.find(t, "error", "code") == "<nil>" {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
	for name, body := range map[string]string{
		"another method": `{"jsonrpc":"2.0","id":7,"method":"SendMessage","Method":"GetTask","params":` + hello + `}`,
		"a batch":        `[{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"task-1"}}]`,
		"a notification": `{"jsonrpc":"2.0","method":"SendMessage","params":` + hello + `}`,
		"twice":          `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":` + hello + `,"params":{"id":"task-1"}}`,
	} {
		if res := g.send("POST", "/a2a/helper", body); res.status != 400 || res.find(t, "error", "code") != "-32600" {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
	for _, path := range []string{"GET tasks/task-1", "GET tasks/..", "GET tasks/" + own + "/pushNotificationConfigs", "GET tasks/" + own + "?id=task-1",
		"GET tasks?context_id=context-1", "GET tasks", "GET other/tasks", "DELETE tasks/" + own, "GET tasks/" + own + "?name=tasks%2Ftask-1", "GET tasks/" + own + "?token=" + aliceKey} {
		method, path, _ := strings.Cut(path, " ")
		if res := g.send(method, "/a2a/helper/"+path, ""); res.status < 400 {
			t.Errorf("%s: %d %s", path, res.status, res.body)
		}
	}
	if res := g.send("POST", "/a2a/helper/tasks/"+own+":cancel", `{"id":"task-1"}`); res.status != 404 {
		t.Errorf("another id in a body: %d %s", res.status, res.body)
	}
	for _, tt := range []struct{ path, body, extensions string }{
		{"v1/message:send", `{"configuration":{"pushNotification":{"url":"http://169.254.169.254/"}},` + hello[1:], ""},
		{"message:send?configuration.push_notification_config.url=x", hello, ""},
		{"message:send?" + aliceKey + "=x", hello, ""},
		{"message:send", hello, aliceKey},
	} {
		if res := g.send("POST", "/a2a/helper/"+tt.path, tt.body, "A2A-Extensions", tt.extensions); res.status != 400 {
			t.Errorf("%s: %d %s", tt.path, res.status, res.body)
		}
	}
	if n := a.reached(); n != before {
		t.Errorf("the agent got %d requests", n-before)
	}
}

func TestListsHaveOnlyTasksOfTheirContext(t *testing.T) {
	a := newAgent(t)
	tasks := ""
	a.serve = func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if !strings.Contains(body, "ListTasks") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"tasks":[`+tasks+`]}}`)
		return true
	}
	g := newGateway(t, a, options{})
	of := g.rpc("SendMessage", hello).find(t, "result", "task", "contextId")
	for _, tt := range []struct {
		tasks string
		fine  bool
	}{
		{`{"id":"task-1","contextId":"context-1","status":{}}`, true},
		{``, true},
		{`{"id":"task-1","contextId":"context-1","status":{}},{"id":"task-9","contextId":"context-9","status":{}}`, false},
		{`{"id":"task-9","status":{}}`, false},
		{`{"id":"task-9","contextId":"context-9","contextId":"context-1","status":{}}`, false},
	} {
		tasks = tt.tasks
		res := g.rpc("ListTasks", `{"contextId":"`+of+`"}`)
		if (res.status == 200) != tt.fine || strings.Contains(res.body, "task-9") {
			t.Errorf("%s: %d %s", tt.tasks, res.status, res.body)
		}
	}
}

func TestStreamsFlowAndEndWithTheirClient(t *testing.T) {
	a := newAgent(t)
	second, ended := make(chan bool), make(chan bool)
	a.serve = func(w http.ResponseWriter, r *http.Request, _ string) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"task\":{\"id\":\"task-1\",\"contextId\":\"context-1\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-second:
		case <-r.Context().Done():
			return true
		}
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"statusUpdate\":{\"taskId\":\"task-1\",\"contextId\":\"context-1\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
		return true
	}
	g := newGateway(t, a, options{})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	res := g.open(ctx, "POST", "/a2a/helper", `{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":`+hello+`}`)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func() string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return text
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return ""
	}
	first := next() // before the agent sends another event
	if !strings.Contains(first, `"id":"mga_`) {
		t.Errorf("the first event is %s", first)
	}
	waittest.Send(t, second, true, "the agent sends the second event")
	if text := next(); !strings.Contains(text, `"taskId":"mga_`) || strings.Contains(text, "task-1") {
		t.Errorf("the second event is %s", text)
	}
	leave()
	waittest.Receive(t, ended, "the agent knows that the client has left")
}

func TestAgentsThatFail(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, body string
		code       int
		status     int
	}{
		"not JSON":          {"text/html", "<html>", 200, 502},
		"another id":        {"application/json", `{"jsonrpc":"2.0","id":8,"result":{}}`, 200, 502},
		"no result":         {"application/json", `{"jsonrpc":"2.0","id":7}`, 200, 502},
		"duplicate":         {"application/json", `{"jsonrpc":"2.0","id":7,"result":{},"result":{}}`, 200, 502},
		"a list":            {"application/json", `[]`, 200, 502},
		"an id that is not": {"application/json", `{"jsonrpc":"2.0","id":7,"result":{"task":{"id":5,"status":{}}}}`, 200, 502},
		"many levels":       {"application/json", `{"jsonrpc":"2.0","id":7,"result":{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`, 200, 502},
		"many ids":          {"application/json", `{"jsonrpc":"2.0","id":7,"result":{"x":[` + strings.Repeat(`{"taskId":"a"},`, 10_000) + `{"taskId":"a"}]}}`, 200, 502},
		"unavailable":       {"application/json", `{}`, 503, 502},
		"a wrong key":       {"application/json", `{}`, 401, 502},
		"its own error":     {"application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"no"}}`, 200, 200},
		"with a status":     {"application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`, 400, 400},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			a.serve = func(w http.ResponseWriter, _ *http.Request, _ string) bool {
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.code)
				io.WriteString(w, tt.body)
				return true
			}
			g := newGateway(t, a, options{})
			res := g.rpc("SendMessage", hello)
			if res.status != tt.status || strings.Contains(res.body, "tool server") || tt.status == 502 && res.find(t, "id") != "7" {
				t.Errorf("%d %s", res.status, res.body)
			}
		})
	}
}

func TestRightsOfAgents(t *testing.T) {
	a := newAgent(t)
	status := func(o options, h ...string) int {
		t.Helper()
		return newGateway(t, a, o).rpc("SendMessage", hello, h...).status
	}
	for name, tt := range map[string]struct {
		o    options
		h    []string
		want int
	}{
		"fine":            {options{}, nil, 200},
		"selected":        {options{limits: map[string][]string{"alice": {"helper"}}}, nil, 200},
		"its message":     {options{limits: map[string][]string{"alice": {"helper/tool/message"}}}, nil, 200},
		"not selected":    {options{limits: map[string][]string{"alice": {"other"}}}, nil, 404},
		"another item":    {options{limits: map[string][]string{"alice": {"helper/tool/search"}}}, nil, 404},
		"switched off":    {options{change: func(s *toolserver.Server) { s.Above.Off = map[toolserver.Item]bool{toolserver.Message: true} }}, nil, 404},
		"an MCP server":   {options{change: func(s *toolserver.Server) { s.Transport = toolserver.HTTP }}, nil, 404},
		"no scope":        {options{scopes: []access.Scope{access.ScopeTools}}, nil, 403},
		"another origin":  {options{}, []string{"Origin", "https://evil.example.com"}, 403},
		"two credentials": {options{}, []string{"x-gateway-api-key", bobKey}, 400},
		"a wrong version": {options{}, []string{"A2A-Version", "1.0\u00a0"}, 200}, // an error of A2A
		"an unknown card": {options{change: func(s *toolserver.Server) { s.HoldChanged = true }}, nil, 403},
		"the approved one": {options{change: func(s *toolserver.Server) {
			s.HoldChanged, s.Own.Approved = true, map[toolserver.Item]string{toolserver.Message: toolserver.Digest([]byte(strings.ReplaceAll(plainCard, "BASE", a.URL)))}
		}}, nil, 200},
	} {
		if got := status(tt.o, tt.h...); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	g := newGateway(t, a, options{scopes: []access.Scope{access.ScopeAgents, access.ScopeTools}})
	if res := g.send("POST", "/mcp/helper", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`); res.status != 404 {
		t.Errorf("an agent as an MCP server: %d %s", res.status, res.body)
	}
}
