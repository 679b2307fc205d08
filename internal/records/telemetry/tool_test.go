package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/records/telemetry"
)

// toolExchange returns the entry of a call of a tool.
func toolExchange(op api.Operation, name string) *reqlog.Entry {
	now := time.Now()
	e := &reqlog.Entry{ID: reqlog.NewID(now), Time: now}
	e.TraceID, e.ParentSpanID, e.TraceFlags = traceOfW3C, "00f067aa0ba902b7", "01"
	e.Method, e.Path, e.Operation, e.Model = "POST", "/mcp/github", op, name
	e.Provider, e.Slug, e.Status, e.Total = reqlog.ProviderTools, "github", 200, 20*time.Millisecond
	e.Attempts = []reqlog.Attempt{{Provider: reqlog.ProviderTools, Slug: "github", Status: 200, Took: 10 * time.Millisecond}}
	return e
}

func TestSpansOfToolsFollowTheConventions(t *testing.T) {
	for _, tt := range []struct {
		op         api.Operation
		name, span string
		want       map[string]any
	}{
		{api.ToolCall, "create_issue", "tools/call create_issue", map[string]any{"gen_ai.operation.name": "execute_tool", "mcp.method.name": "tools/call", "gen_ai.tool.name": "create_issue"}},
		{api.ToolPrompt, "review", "prompts/get review", map[string]any{"gen_ai.operation.name": "tools.prompt", "mcp.method.name": "prompts/get", "gen_ai.prompt.name": "review"}},
		{api.ToolResource, "file:///srv/private", "resources/read", map[string]any{"gen_ai.operation.name": "tools.resource", "mcp.method.name": "resources/read"}},
		{api.Tools, "", "tools", map[string]any{"gen_ai.operation.name": "tools"}},
	} {
		r := newReceiver(t)
		x := mustStart(t, telemetry.Options{Traces: &telemetry.Collector{Endpoint: r.http}, Sample: 1})
		x.Record(t.Context(), toolExchange(tt.op, tt.name))
		x.Close(t.Context())
		if len(r.spans) != 2 {
			t.Fatalf("%s: %d spans", tt.op, len(r.spans))
		}
		root, call := r.spans[0], r.spans[1]
		if root.Name != tt.span || call.Name != tt.span || fmt.Sprintf("%x", root.ParentSpanId) != "00f067aa0ba902b7" || fmt.Sprintf("%x", root.TraceId) != traceOfW3C {
			t.Errorf("%s: the spans are %q below %x, and %q", tt.op, root.Name, root.ParentSpanId, call.Name)
		}
		tt.want["modelgate.tool_server"], tt.want["modelgate.provider.slug"], tt.want["http.response.status_code"] = "github", "github", int64(200)
		if diff := cmp.Diff(tt.want, values(call.Attributes)); diff != "" {
			t.Errorf("%s: attributes of the call (-want +got):\n%s", tt.op, diff)
		}
		if r.contains("private") {
			t.Errorf("%s: the URI of the resource was sent", tt.op)
		}
	}
}

func TestToolsOfMetricsAreBounded(t *testing.T) {
	r := newReceiver(t)
	x := mustStart(t, both(telemetry.Collector{Endpoint: r.http}))
	for i := range 300 {
		x.Record(t.Context(), toolExchange(api.ToolCall, fmt.Sprintf("tool-%d", i)))
	}
	x.Close(t.Context())
	tools := map[any]bool{}
	for _, p := range r.metrics["gen_ai.client.operation.duration"].GetHistogram().DataPoints {
		tools[values(p.Attributes)["gen_ai.tool.name"]] = true
	}
	if len(tools) != 201 || !tools["_OTHER"] {
		t.Errorf("%d tools, want 200 and the others together", len(tools))
	}
}
