package dialect

import "modelgate/internal/llm"

// Profile holds how a provider deviates from what most providers of each dialect
// accept. It is part of the provider's row. A nil profile is that of most
// providers. Profiles are shared and do not change.
//
// They concern translated requests only; Drop, Rename and Limits of the row also
// apply to requests that pass through.
type Profile struct {
	Chat      *ChatProfile
	Messages  *MessagesProfile
	Responses *ResponsesProfile
	Vertex    bool // the gemini dialect is spoken as by Vertex AI, not as by the Gemini API
}

// ChatProfile holds how a provider of the chat dialect deviates.
type ChatProfile struct {
	// Vendor is true for the dialect's own vendor, and for its models at a host:
	// the provider accepts all that the vendor documents.
	Vendor bool

	NoTopK bool // top_k is refused

	History      ThinkingFormat           // how the thinking of earlier turns is sent back
	Effort       EffortFormat             // how thinking is requested
	Efforts      map[string]string        // other words for efforts; an empty one has no word
	EffortModels func(model string) bool  // reports whether a model accepts an effort; nil: all do
	Budget       bool                     // thinking has a budget_tokens
	Formats      []llm.FormatKind         // response formats; nil: all
	AskForJSON   bool                     // json_object needs an instruction as well
	Modes        []llm.ChoiceMode         // of tool_choice; nil: all
	Required     string                   // another word for tool_choice required
	ShortIDs     bool                     // ids of tool calls are nine letters and digits
	URLParts     map[llm.MediaKind]string // types of content parts that hold media by URL
	DataAsURL    bool                     // data of documents is sent where URLs are
	Cache        bool                     // cache_control on content parts
	GoogleSigned bool                     // tool calls have signatures of Google
	Tier         bool                     // service_tier
	Verbosity    bool                     // verbosity
	ContentParts bool                     // content of assistants and tools may be a list of parts
	NoNames      bool                     // participants have no names
}

// ThinkingFormat is how the thinking of earlier turns is sent back. The zero
// value sends none.
type ThinkingFormat uint8

// Formats of earlier thinking.
const (
	ThinkingText    ThinkingFormat = iota + 1 // reasoning_content
	ThinkingDetails                           // reasoning_details
	ThinkingParts                             // parts of content
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

// MessagesProfile holds how a host of the messages dialect deviates from the
// vendor's own API, in its envelope and in what it offers.
type MessagesProfile struct {
	Version       string // anthropic_version of the body, which then holds no model
	StreamsByPath bool   // the path says whether to stream, and the body does not
	CountsInvoke  bool   // a question for tokens holds the body of an InvokeModel request
	NoEagerInput  bool   // eager streams of arguments are a beta feature, not a member of a tool
	DataOnly      bool   // media are sent as data: URLs and uploaded files are refused
	NoFormats     bool   // no answers in the form of a schema, no strict tools
	NoNewFormats  bool   // NoFormats for the models that take no sampling parameters
	NoParallel    bool   // tool_choice has no disable_parallel_tool_use

	// Tools are the prefixes of the types of server tools, and of the tools that the
	// vendor defines, which the host knows; nil is all.
	Tools []string
	// Betas replaces the features that tools need at the vendor; nil keeps them.
	Betas []ToolBeta
}

// ToolBeta is a beta feature that tools need whose type has a prefix.
type ToolBeta struct{ Prefix, Feature string }

// ResponsesProfile holds how a provider of the responses dialect deviates.
type ResponsesProfile struct {
	Vendor      bool // the dialect's own vendor, or its models at a host: its signatures, its options, its limits
	Encrypted   bool // thinking is sent in encrypted form on request; others refuse the request
	ServerTools bool // the provider runs web search and code execution
}
