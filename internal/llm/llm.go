// Package llm is the neutral conversation: the model that every dialect
// translates to and from.
//
// It promises plain values, a superset of what the dialects can say, without
// behaviour beyond reading them. What a wire protocol calls these things is
// left to the dialects, what they cost to the catalog. Text held as
// json.RawMessage may be a view of the body it was read from: it is valid for
// as long as that body is, and is not to be changed.
package llm

import "encoding/json"

// Member is a parameter or field that has no place in the neutral model: its
// name and its value as they stood.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Vendor names whose models understand something opaque: a signature of
// thinking means nothing to the models of another.
type Vendor string

// The vendors whose models sign what they think.
const (
	Anthropic Vendor = "anthropic"
	Google    Vendor = "google"
	OpenAI    Vendor = "openai"
	Amazon    Vendor = "amazon"
)

// Signature is what a vendor's model wants back, unchanged, with its own words
// in the next turn. The zero value is none.
type Signature struct {
	Vendor Vendor
	Value  string
}

// Cache asks the provider to cache the prompt up to and including what it is
// set on.
type Cache struct {
	TTL string // "5m" or "1h"; empty is the provider's default
}

// StopReason says why a model stopped, in neutral words.
type StopReason string

// The reasons. The zero value says that the provider named none.
const (
	StopEnd      StopReason = "stop"           // the model had said all
	StopSequence StopReason = "stop_sequence"  // one of the request's stop sequences came
	StopLength   StopReason = "length"         // the token limit of the request or the model
	StopContext  StopReason = "context_window" // the context window is full
	StopTool     StopReason = "tool_calls"     // the model waits for tool results
	StopFilter   StopReason = "content_filter" // a filter of the provider
	StopRefusal  StopReason = "refusal"        // the model declined
	StopPause    StopReason = "pause"          // a long turn of server tools, to be continued
)
