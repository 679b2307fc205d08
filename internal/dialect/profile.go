package dialect

import "modelgate/internal/llm"

// Profile holds how a provider deviates from what most providers of each dialect
// accept. It is part of the provider's row. A nil profile is that of most
// providers. Profiles are shared and do not change.
//
// They concern translated requests only; Drop, Rename and Limits of the row also
// apply to requests that pass through.
type Profile struct {
	Chat *ChatProfile
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
