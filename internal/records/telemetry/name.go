package telemetry

import (
	"cmp"
	"strings"

	"modelgate/api"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/reqlog"
)

// operations maps operations to names in the conventions if they differ.
// https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/
var operations = map[api.Operation]string{
	api.Responses:          "chat",
	api.Messages:           "chat",
	api.Converse:           "chat",
	api.CohereChat:         "chat",
	api.OllamaChat:         "chat",
	api.OracleChat:         "chat",
	api.Prediction:         "chat",
	api.Completions:        "text_completion",
	api.Generate:           "generate_content",
	api.GenerateEmbed:      "embeddings",
	api.GenerateEmbedBatch: "embeddings",
	api.Images:             "generate_content",
	api.ImageEdits:         "generate_content",
	api.ImageVariations:    "generate_content",
	api.AudioSpeech:        "generate_content",
	api.ToolCall:           "execute_tool",
	api.AgentMessage:       "invoke_agent",
}

// operationName returns the name of an operation in the conventions, otherwise its own
// name.
func operationName(op api.Operation) string {
	if name, ok := operations[op]; ok {
		return name
	}
	return string(op)
}

// providerName returns the name of a provider in the conventions.
func providerName(id string) string {
	if row, ok := table.Lookup(id); ok {
		return cmp.Or(row.TelemetryName, id)
	}
	return id
}

// exchangeName returns the name of an exchange's span: the client's, or the operation
// without ids of the path.
func exchangeName(e *reqlog.Entry) string {
	if e.SpanName != "" {
		return validText(e.SpanName)
	}
	if e.Operation.IsTools() {
		return toolSpanName(e)
	}
	return strings.TrimSpace(validText(e.Method) + " " + string(e.Operation))
}

// attemptName returns the name of an attempt's span, as in the conventions.
func attemptName(e *reqlog.Entry) string {
	if e.Operation.IsTools() {
		return toolSpanName(e)
	}
	return strings.TrimSpace(operationName(e.Operation) + " " + validText(e.Model))
}

// validText replaces invalid UTF-8, which protobuf rejects.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
