package agents_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	traceservice "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// newCollector returns the address of a collector of traces, and the spans that it gets, those of a
// request together, with the text in which they arrived.
func newCollector(t *testing.T) (address string, spans <-chan []*tracepb.Span, texts <-chan string) {
	t.Helper()
	got, raw := make(chan []*tracepb.Span, 16), make(chan string, 16)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var from io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			from, _ = gzip.NewReader(r.Body)
		}
		text, err := io.ReadAll(from)
		m := new(traceservice.ExportTraceServiceRequest)
		if err != nil || proto.Unmarshal(text, m) != nil {
			t.Errorf("the collector got %q, %v", text, err)
			return
		}
		var list []*tracepb.Span
		for _, of := range m.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				list = append(list, scope.Spans...)
			}
		}
		got <- list
		raw <- string(text)
	}))
	t.Cleanup(s.Close)
	return s.URL, got, raw
}

func attributesOf(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = a.Value.GetStringValue()
	}
	return out
}

func TestRequestsToAgentsHaveSpans(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	collector, spans, texts := newCollector(t)
	g := newFullAt(t, a.URL, "", gatewaytest.Options{Settings: "telemetry: {endpoint: \"" + collector + "\", metrics: false}\n"})
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	traced := []string{"traceparent", "00-" + trace + "-" + parent + "-01"}
	task := ""
	for _, tt := range []struct{ method, params, span, operation string }{
		{"SendMessage", say("canary-of-a-question"), "invoke_agent helper", "invoke_agent"},
		{"GetTask", "", "agents", "agents"},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[]},"configuration":{"taskPushNotificationConfig":{"url":"https://canary.example.com"}}}`, "agents", "agents"},
	} {
		params := tt.params
		if params == "" {
			params = `{"id":"` + task + `"}`
		}
		res := g.callAs(`"canary-of-an-id"`, tt.method, params, traced...)
		if result, ok := res.JSON(t)["result"].(map[string]any); ok && task == "" {
			task, _ = result["task"].(map[string]any)["id"].(string)
		}
		var list []*tracepb.Span
		waittest.Until(t, "the spans of "+tt.method, func() bool { // others are those of the requests before
			of, text := waittest.Receive(t, spans, "spans"), waittest.Receive(t, texts, "their text")
			for _, s := range of {
				if attributesOf(s.Attributes)["modelgate.request_id"] == res.Header.Get("x-gateway-request-id") {
					list = of
				}
			}
			for _, secret := range []string{"canary", "task-1", "context-1", "mga_", g.key} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: a span holds %s", tt.method, secret)
				}
			}
			return list != nil
		})
		var root, call *tracepb.Span
		for _, s := range list {
			of := attributesOf(s.Attributes)
			switch {
			case of["modelgate.request_id"] == res.Header.Get("x-gateway-request-id"):
				root = s
			case root != nil && string(s.ParentSpanId) == string(root.SpanId):
				call = s
			}
		}
		of := attributesOf(root.Attributes)
		if root.Name != tt.span || hex.EncodeToString(root.TraceId) != trace || hex.EncodeToString(root.ParentSpanId) != parent ||
			of["gen_ai.agent.name"] != "helper" || of["gen_ai.operation.name"] != tt.operation || of["modelgate.tool_server"] != "" || of["mcp.method.name"] != "" {
			t.Errorf("%s: the span of the request is %v", tt.method, root)
		}
		if sent := res.JSON(t)["error"] == nil; (call != nil) != sent || sent && (call.Name != tt.span || attributesOf(call.Attributes)["gen_ai.agent.name"] != "helper") {
			t.Errorf("%s: the span of the message to the agent is %v", tt.method, call)
		}
	}
}

func TestRequestsToAgentsAreRecorded(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	a.serve = func(w http.ResponseWriter, _ *http.Request, body string) bool {
		switch {
		case strings.Contains(body, "fail"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.Contains(body, "break off"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case strings.Contains(body, "refuse"), strings.Contains(body, "bad"):
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(body, "bad") {
				w.WriteHeader(http.StatusBadRequest)
			}
			io.WriteString(w, `{"jsonrpc":"2.0","id":7,"error":{"code":-32004,"message":"no"}}`)
		default:
			return false
		}
		return true
	}
	for _, level := range []string{"full", "metadata", "none"} {
		g := newFullAt(t, a.URL, "", gatewaytest.Options{Settings: "logs: {level: " + level + "}\n"})
		first := g.callAs("7", "SendMessage", say("the question"), "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		task, _ := first.JSON(t)["result"].(map[string]any)["task"].(map[string]any)["id"].(string)
		for _, tt := range []struct {
			name      string
			res       gatewaytest.Response
			operation string
			model     any
			cost      any
			code      any
			source    any
			attempts  int
		}{
			{"a message", first, "agents.message", "message", 1.0, nil, nil, 1},
			{"a task", g.call("GetTask", `{"id":"`+task+`"}`), "agents", nil, 0.0, nil, nil, 1},
			{"a task of nobody", g.call("GetTask", `{"id":"task-1"}`), "agents", nil, nil, "a2a_task_not_found", "gateway", 0},
			{"an agent that fails", g.call("SendMessage", say("fail")), "agents.message", "message", 0.0, "agent_failed", "gateway", 1},
			{"an agent that breaks off", g.call("SendStreamingMessage", say("break off")), "agents.message", "message", 1.0, "agent_failed", "gateway", 1},
			{"an agent with an error of HTTP", g.call("SendMessage", say("bad")), "agents.message", "message", 0.0, "agent_failed", "provider", 1},
			{"an agent that refuses", g.call("SendMessage", say("refuse")), "agents.message", "message", 1.0, nil, nil, 1},
		} {
			e := g.Entry(tt.res)
			failure, _ := e["error"].(map[string]any)
			attempts, _ := e["attempts"].([]any)
			if e["operation"] != tt.operation || e["model"] != tt.model || e["cost"] != tt.cost || e["provider_slug"] != "helper" || e["logging"] != level ||
				failure["code"] != tt.code || failure["source"] != tt.source || len(attempts) != tt.attempts || (e["provider"] == "mcp") != (tt.attempts > 0) {
				t.Errorf("%s: %s has the entry %v", level, tt.name, e)
			}
			text := fmt.Sprint(e)
			if has := strings.Contains(text, "the question") || strings.Contains(text, "done"); has && level != "full" {
				t.Errorf("%s: %s: the entry has content: %s", level, tt.name, text)
			}
			if level == "none" && strings.Contains(text, "mga_") {
				t.Errorf("%s: %s: the entry has the id of a task: %s", level, tt.name, text)
			}
		}
		e := g.Entry(first)
		if e["trace_id"] != "4bf92f3577b34da6a3ce929d0e0e4736" || e["parent_span_id"] != "00f067aa0ba902b7" {
			t.Errorf("%s: the trace is %v below %v", level, e["trace_id"], e["parent_span_id"])
		}
		if text := fmt.Sprint(e["request"], e["response"]); level == "full" && (!strings.Contains(text, "the question") || !strings.Contains(text, "done")) {
			t.Errorf("full: the bodies are recorded as %s", text)
		}
	}
}
