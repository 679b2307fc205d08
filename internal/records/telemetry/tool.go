package telemetry

import (
	"modelgate/api"
	"modelgate/internal/records/reqlog"
)

// toolMethods are the methods of MCP by the operations that they are. Other messages are
// recorded without theirs.
var toolMethods = map[api.Operation]string{
	api.ToolCall: "tools/call", api.ToolPrompt: "prompts/get", api.ToolResource: "resources/read",
}

// toolAttributes adds the attributes of a message to a tool server or an agent. Its session, the URI of
// a resource and the address of the server are left out: they may hold secrets.
//
// https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
func toolAttributes(a *attributes, e *reqlog.Entry) {
	a.text("mcp.method.name", toolMethods[e.Operation])
	if e.Operation.IsAgents() {
		a.text("gen_ai.agent.name", e.Slug)
		return
	}
	a.text("modelgate.tool_server", e.Slug)
	switch e.Operation {
	case api.ToolCall:
		a.text("gen_ai.tool.name", e.Model)
	case api.ToolPrompt:
		a.text("gen_ai.prompt.name", e.Model)
	}
}

// toolSpanName returns the name of the span of a message to a tool server or an agent: its method and
// what it names, without URIs.
func toolSpanName(e *reqlog.Entry) string {
	method := toolMethods[e.Operation]
	if e.Operation == api.AgentMessage {
		return operationName(e.Operation) + " " + validText(e.Slug)
	}
	if method == "" {
		return string(e.Operation)
	}
	if e.Operation == api.ToolResource || e.Model == "" {
		return method
	}
	return method + " " + validText(e.Model)
}
