package dialect

import (
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// Profile holds the deviations of a provider from what most providers of each
// dialect accept. It is part of the provider definition. A nil profile has no
// deviations. Profiles are shared and must not be changed.
//
// They affect translated requests only. Drop, Rename and Limits of the provider
// definition also apply to requests that pass through.
type Profile struct {
	Chat      *ChatProfile
	Messages  *MessagesProfile
	Responses *ResponsesProfile
	Vertex    bool // the gemini dialect of Vertex AI, not of the Gemini API

	// Turns also apply to requests that pass through.
	Turns TurnRules
}

// TurnRules are what a provider of the chat dialect demands of the roles and the order of
// messages. The zero value demands nothing.
type TurnRules struct {
	SystemOnly     bool // there is no role developer
	ReplyAfterTool bool // a message of the assistant stands between one of a tool and any other
	MarkPrefix     bool // the model continues a message of the assistant only with prefix: true
	// Alternate is true if messages of the user and the assistant alternate after those of
	// the system, beginning with the user.
	Alternate bool
}

// ChatProfile holds the deviations of a provider of the chat dialect.
type ChatProfile struct {
	// Vendor is true for the dialect's own vendor and for hosts of its models:
	// the provider accepts everything that the vendor documents.
	Vendor bool

	NoTopK bool // top_k is rejected

	History      ThinkingFormat           // how the thinking of earlier turns is sent back
	Effort       EffortFormat             // how thinking is requested
	Efforts      map[string]string        // other names of efforts; an empty one is not supported
	Models       modeldata.Table          // what efforts models accept; nil: any, and at the vendor those of its table
	Budget       bool                     // thinking has a budget_tokens
	Formats      []llm.FormatKind         // response formats; nil: all
	AskForJSON   bool                     // json_object also needs an instruction
	Modes        []llm.ChoiceMode         // of tool_choice; nil: all
	Required     string                   // another name for tool_choice required
	ShortIDs     bool                     // ids of tool calls are nine letters and digits
	URLParts     map[llm.MediaKind]string // types of content parts that hold media by URL
	DataAsURL    bool                     // data of documents is sent where URLs are
	Cache        bool                     // cache_control on content parts
	GoogleSigned bool                     // tool calls have signatures of Google
	Tier         bool                     // service_tier
	Verbosity    bool                     // verbosity
	ContentParts bool                     // messages of assistants and tools may have a list of parts
	NoNames      bool                     // participants have no names
	NoReason     bool                     // streams have a terminator and no finish reason
	Voyage       bool                     // embeddings and rerank in the form of Voyage AI

	// StrictMessages is true if messages with members that the vendor does not
	// document are rejected.
	StrictMessages bool
}

// ThinkingFormat is how the thinking of earlier turns is sent back. The zero
// value sends none.
type ThinkingFormat uint8

// Formats of earlier thinking.
const (
	ThinkingText    ThinkingFormat = iota + 1 // reasoning_content
	ThinkingDetails                           // reasoning_details
	ThinkingParts                             // parts of content
	ThinkingAsSeen                            // the member that RequestTarget names
)

// EffortFormat is how thinking is requested.
type EffortFormat uint8

// Formats of requests for thinking.
const (
	EffortWord     EffortFormat = iota // reasoning_effort
	EffortThinking                     // thinking, with reasoning_effort
	EffortObject                       // reasoning, an object
	EffortSwitch                       // thinking only
)

// MessagesProfile holds the deviations of a host of the messages dialect from
// the vendor's own API.
type MessagesProfile struct {
	Version       string // anthropic_version of the body, which then holds no model
	StreamsByPath bool   // streaming is set in the path, not in the body
	CountsInvoke  bool   // token counting wraps the body of an InvokeModel request
	NoEagerInput  bool   // eager streaming of arguments is a beta feature, not a member of a tool
	DataOnly      bool   // media must be data: URLs; uploaded files are rejected
	NoFormats     bool   // no structured output, no strict tools
	NoNewFormats  bool   // NoFormats for the models that take no sampling parameters
	NoParallel    bool   // tool_choice has no disable_parallel_tool_use

	// Tools are type prefixes of the tools that the host supports, of server
	// tools and tools defined by the vendor. Nil means all.
	Tools []string
	// Betas replaces the beta features that tools need at the vendor; nil keeps
	// them.
	Betas []ToolBeta
}

// ToolBeta is the beta feature required by tools whose type has a prefix.
type ToolBeta struct{ Prefix, Feature string }

// ResponsesProfile holds the deviations of a provider of the responses dialect.
type ResponsesProfile struct {
	Vendor      bool // the dialect's own vendor or a host of its models: accepts its signatures, options and limits
	Encrypted   bool // encrypted thinking can be requested; other providers reject that
	ServerTools bool // the provider runs web search and code execution
}
