package telemetry

import (
	"cmp"
	"strings"

	"modelgate/api"
	"modelgate/internal/provider/table"
	"modelgate/internal/reqlog"
)

// operations are those that the conventions name otherwise than the gateway.
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
}

// operationName returns an operation by the name in the conventions. What they
// have no word for keeps its own.
func operationName(op api.Operation) string {
	if name, ok := operations[op]; ok {
		return name
	}
	return string(op)
}

// providerName returns a provider by the name in the conventions.
func providerName(id string) string {
	if row, ok := table.Lookup(id); ok {
		return cmp.Or(row.TelemetryName, id)
	}
	return id
}

// exchangeName is the name of an exchange's span: the client's, or what was
// done, without the ids that a path may hold.
func exchangeName(e *reqlog.Entry) string {
	if e.SpanName != "" {
		return validText(e.SpanName)
	}
	return strings.TrimSpace(validText(e.Method) + " " + string(e.Operation))
}

// attemptName is the name of an attempt's span, as the conventions want it.
func attemptName(e *reqlog.Entry) string {
	return strings.TrimSpace(operationName(e.Operation) + " " + validText(e.Model))
}

// validText makes UTF-8 of what a client wrote: protobuf takes nothing else.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
