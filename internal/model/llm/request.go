package llm

import (
	"encoding/json"
	"slices"
)

// Role is the sender of a message.
type Role string

// Roles. A system or developer message keeps its place in the list; dialects
// that have only a leading system prompt move them there.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn. Tool results are parts of a user message.
type Message struct {
	Role  Role
	Name  string // of the participant; usually empty
	Parts []Part
	Extra []Member
	At    string // path in the client's body, for example messages[2]; for errors
}

// Request is one request of a client. Nil pointers and empty fields are
// parameters that the client did not send.
type Request struct {
	// Dialect is the client's dialect (an api.Dialect). Names has its names for
	// fields, where they differ from the field's own. Names is shared.
	Dialect string
	Names   map[Field]string

	Model    string
	Messages []Message

	Tools         []Tool
	ToolChoice    ToolChoice
	ParallelTools *bool

	Format Format

	MaxTokens        *int64
	Temperature      *float64
	TopP             *float64
	TopK             *int64
	FrequencyPenalty *float64
	PresencePenalty  *float64
	Seed             *int64
	Stop             []string
	LogitBias        json.RawMessage
	Logprobs         *bool
	TopLogprobs      *int64
	N                *int64

	Reasoning  Reasoning
	Verbosity  string
	Modalities []string        // text, audio, image
	Speech     json.RawMessage // voice and format of audio output; audio in the chat dialect

	User        string
	Metadata    json.RawMessage // an object with string values
	ServiceTier string
	Cache       *Cache // cache the complete prompt as it grows

	Stream       bool
	IncludeUsage *bool // stream_options.include_usage in the chat dialect

	// Unknown are the names of further members that no dialect knows, each once and
	// without its place in an array.
	Unknown []string

	// Extra are parameters that only the client's dialect has.
	Extra []Member
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments; nil means none
	Strict      *bool
	Custom      bool            // takes text input; Grammar restricts it
	Grammar     json.RawMessage // in the format of the chat dialect's custom.format
	Cache       *Cache

	// Server is the neutral name of a tool that runs at the provider, or empty.
	// Native is the same tool as received, for its own dialect, or any other
	// tool that only one dialect has.
	Server ServerTool
	Native *Native

	// InMessage is true if a message offers the tool. In the client's dialect it
	// is part of that message.
	InMessage bool

	Extra []Member
	At    string
}

// ServerTool is a tool that several vendors run themselves.
type ServerTool string

// Server tools that more than one vendor has.
const (
	WebSearch     ServerTool = "web_search"
	WebFetch      ServerTool = "web_fetch"
	CodeExecution ServerTool = "code_execution"
)

// ChoiceMode says whether the model must call tools.
type ChoiceMode string

// Modes. With the zero value the provider decides.
const (
	ChoiceAuto     ChoiceMode = "auto"
	ChoiceNone     ChoiceMode = "none"
	ChoiceRequired ChoiceMode = "required"
	ChoiceTool     ChoiceMode = "tool" // the tool in Names
)

// ToolChoice says which tools the model must or may call. With ChoiceTool,
// Names holds one name; otherwise it restricts the tools that may be called.
type ToolChoice struct {
	Mode   ChoiceMode
	Names  []string
	Custom bool            // the named tool is a custom one
	Raw    json.RawMessage // a choice that only the client's dialect has
}

// FormatKind is the kind of a response format.
type FormatKind string

// Formats. The zero value is text that was not requested explicitly.
const (
	FormatText   FormatKind = "text"
	FormatJSON   FormatKind = "json_object"
	FormatSchema FormatKind = "json_schema"
)

// Format is the response format.
type Format struct {
	Kind        FormatKind
	Name        string
	Description string
	Schema      json.RawMessage
	Strict      *bool
}

// ThinkingMode says whether a model thinks.
type ThinkingMode string

// Modes. With the zero value, Effort and the provider decide.
const (
	ThinkingEnabled  ThinkingMode = "enabled"
	ThinkingDisabled ThinkingMode = "disabled"
	ThinkingAdaptive ThinkingMode = "adaptive"
)

// Reasoning holds the settings of thinking.
type Reasoning struct {
	Mode   ThinkingMode
	Budget *int64 // tokens; a negative one lets the model decide
	// Effort is none, minimal, low, medium, high, xhigh or max. Mode and Budget
	// take precedence.
	Effort string
	// Summary is the form in which thinking is returned: auto, concise,
	// detailed, summarized, omitted; empty means the provider's default.
	Summary string
	Extra   []Member
}

// Field is the neutral name of a request parameter.
type Field string

// Fields of a request that a dialect may lack.
const (
	FieldTools            Field = "tools"
	FieldToolChoice       Field = "tool_choice"
	FieldParallelTools    Field = "parallel_tool_calls"
	FieldFormat           Field = "response_format"
	FieldMaxTokens        Field = "max_tokens"
	FieldTemperature      Field = "temperature"
	FieldTopP             Field = "top_p"
	FieldTopK             Field = "top_k"
	FieldFrequencyPenalty Field = "frequency_penalty"
	FieldPresencePenalty  Field = "presence_penalty"
	FieldSeed             Field = "seed"
	FieldStop             Field = "stop"
	FieldLogitBias        Field = "logit_bias"
	FieldLogprobs         Field = "logprobs"
	FieldTopLogprobs      Field = "top_logprobs"
	FieldN                Field = "n"
	FieldThinking         Field = "thinking"         // Reasoning.Mode, Budget
	FieldThinkingObject   Field = "thinking_object"  // Reasoning.Extra are its members
	FieldEffort           Field = "reasoning_effort" // Reasoning.Effort
	FieldSummary          Field = "reasoning_summary"
	FieldVerbosity        Field = "verbosity"
	FieldModalities       Field = "modalities"
	FieldSpeech           Field = "audio"
	FieldUser             Field = "user"
	FieldMetadata         Field = "metadata"
	FieldServiceTier      Field = "service_tier"
	FieldCache            Field = "cache_control"
	FieldParts            Field = "content"           // of messages
	FieldHistory          Field = "messages.thinking" // of earlier turns
)

// NameOf returns the client's name for field.
func (r *Request) NameOf(field Field) string {
	if name, ok := r.Names[field]; ok {
		return name
	}
	return string(field)
}

// IsCustom reports whether a tool of this name has text as its input. A nil request has
// no tools.
func (r *Request) IsCustom(name string) bool {
	return r != nil && slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Custom && t.Name == name })
}

// Parameter returns the value of a parameter that only the client's dialect
// has, and nil if it was not sent.
func (r *Request) Parameter(name string) json.RawMessage {
	for _, m := range r.Extra {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}
