package llm

import "encoding/json"

// Role is who speaks.
type Role string

// The roles. A system or developer message keeps its place in the list;
// dialects that have only a leading system prompt gather them.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn. Results of tools are parts of a user's message.
type Message struct {
	Role  Role
	Name  string // of the participant; mostly empty
	Parts []Part
	Extra []Member
	At    string // path in the client's body, as in messages[2]; for errors
}

// Request is one request for an answer. Nil pointers and empty fields are
// parameters that the client did not send.
type Request struct {
	// Dialect is what the client wrote in (an api.Dialect), and Names what it
	// calls the fields whose name is not the field's own. Names is shared.
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
	Speech     json.RawMessage // voice and format of spoken answers, chat's audio

	User        string
	Metadata    json.RawMessage // an object of strings
	ServiceTier string
	Cache       *Cache // cache the whole prompt as it grows

	Stream       bool
	IncludeUsage *bool // chat's stream_options.include_usage

	// Extra are parameters that only the client's dialect knows.
	Extra []Member
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments; nil takes none
	Strict      *bool
	Custom      bool            // takes free text; Grammar bounds it
	Grammar     json.RawMessage // as chat's custom.format
	Cache       *Cache

	// Server names a tool that runs at the provider, in neutral words, or is
	// empty. Native is such a tool as it stood, for its own dialect; also any
	// other tool that only one dialect knows.
	Server ServerTool
	Native *Native

	Extra []Member
	At    string
}

// ServerTool is a tool that several vendors run themselves.
type ServerTool string

// The server tools that more than one vendor offers.
const (
	WebSearch     ServerTool = "web_search"
	WebFetch      ServerTool = "web_fetch"
	CodeExecution ServerTool = "code_execution"
)

// ChoiceMode says whether the model must call tools.
type ChoiceMode string

// The modes. The zero value leaves it to the provider.
const (
	ChoiceAuto     ChoiceMode = "auto"
	ChoiceNone     ChoiceMode = "none"
	ChoiceRequired ChoiceMode = "required"
	ChoiceTool     ChoiceMode = "tool" // the one in Names
)

// ToolChoice says which tools the model must or may call. With ChoiceTool,
// Names holds one name; else it narrows the tools that may be called.
type ToolChoice struct {
	Mode   ChoiceMode
	Names  []string
	Custom bool            // the named tool is a custom one
	Raw    json.RawMessage // a choice that only the client's dialect knows
}

// FormatKind is the form an answer must have.
type FormatKind string

// The forms. The zero value is free text that nobody asked for by name.
const (
	FormatText   FormatKind = "text"
	FormatJSON   FormatKind = "json_object"
	FormatSchema FormatKind = "json_schema"
)

// Format is the form an answer must have.
type Format struct {
	Kind        FormatKind
	Name        string
	Description string
	Schema      json.RawMessage
	Strict      *bool
}

// ThinkingMode says whether a model is to think.
type ThinkingMode string

// The modes. The zero value leaves it to Effort and the provider.
const (
	ThinkingEnabled  ThinkingMode = "enabled"
	ThinkingDisabled ThinkingMode = "disabled"
	ThinkingAdaptive ThinkingMode = "adaptive"
)

// Reasoning says how much a model is to think, and what of it is told.
type Reasoning struct {
	Mode   ThinkingMode
	Budget *int64 // tokens; below zero lets the model decide
	// Effort is none, minimal, low, medium, high, xhigh or max; Mode and Budget
	// win over it.
	Effort string
	// Summary asks for the thinking to be told: auto, concise, detailed,
	// summarized, omitted; empty is the provider's default.
	Summary string
	Extra   []Member
}

// Field names a parameter of a Request in neutral words.
type Field string

// The fields of a request that a dialect may lack.
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
	FieldEffort           Field = "reasoning_effort" // Reasoning.Effort
	FieldSummary          Field = "reasoning_summary"
	FieldVerbosity        Field = "verbosity"
	FieldModalities       Field = "modalities"
	FieldSpeech           Field = "audio"
	FieldUser             Field = "user"
	FieldMetadata         Field = "metadata"
	FieldServiceTier      Field = "service_tier"
	FieldCache            Field = "cache_control"
	FieldParts            Field = "content" // of messages
)

// NameOf returns what the client calls field.
func (r *Request) NameOf(field Field) string {
	if name, ok := r.Names[field]; ok {
		return name
	}
	return string(field)
}

// Parameter returns the value of a parameter that only the client's dialect
// knows, and nil when it was not sent.
func (r *Request) Parameter(name string) json.RawMessage {
	for _, m := range r.Extra {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}
