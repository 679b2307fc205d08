package guardrail

import (
	"encoding/json"
	"slices"

	"modelgate/internal/format/jsonedit"
)

// Model is a model of the tenant that a check asks, with what is equal in all of its
// calls. It is immutable.
type Model struct {
	Check string // id of the check
	// Saved is true for a check of a saved guardrail. Other checks may ask only
	// what the request itself may, and their calls pass the guardrails of the
	// organisation and the workspace.
	Saved bool

	// Moderation asks for the categories of texts; see [ModelCall].
	Moderation bool
	// Slug is the managed provider, empty if Config, a saved config by id or slug,
	// chooses it. Name is the name of the model; it may be empty with Config.
	Slug, Config, Name string
	Schema             json.RawMessage // JSON Schema of the reply; nil for none
	MaxTokens          int             // limit of the reply
}

// ModelCall is what a check sends to its model: System is the system prompt, and Texts
// has one text, the message. A moderation has no system prompt and any number of texts.
// Rank is that of the hook that asks.
type ModelCall struct {
	System string
	Texts  []string
	Rank   Rank
}

// ModelResponse is the response of a model.
type ModelResponse struct {
	Text string // not of a moderation
	// Flagged are the categories found in any text, of a moderation.
	Flagged []string
}

// Body returns the body of a call in the chat dialect. Provider definitions rename the
// limit of the reply if they must.
func (m *Model) Body(call ModelCall) []byte {
	var b jsonedit.Builder
	b.Open('{')
	if m.Name != "" {
		b.Name("model")
		b.String(m.Name)
	}
	if m.Moderation {
		b.Name("input")
		b.Open('[')
		for _, t := range call.Texts {
			b.String(t)
		}
		b.Close(']')
		b.Close('}')
		return b.Bytes()
	}
	b.Name("messages")
	b.Open('[')
	for _, message := range [...][2]string{{"system", call.System}, {"user", call.Texts[0]}} {
		b.Open('{')
		b.Name("role")
		b.String(message[0])
		b.Name("content")
		b.String(message[1])
		b.Close('}')
	}
	b.Close(']')
	b.Name("max_completion_tokens")
	b.Int(int64(m.MaxTokens))
	if m.Schema != nil {
		b.Name("response_format")
		b.Raw(slices.Concat([]byte(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`), m.Schema, []byte(`}}`)))
	}
	b.Close('}')
	return b.Bytes()
}
