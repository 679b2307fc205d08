// Package llm is the neutral model: the conversation that every dialect
// translates to and from.
//
// It holds plain values, a superset of what the dialects can express, with
// methods that only read them. It does not know the names of fields in a
// protocol (dialects) or prices (catalog). Values held as json.RawMessage may
// be views of the body that they were read from: they are valid as long as the
// body is and must not be changed.
package llm

import "encoding/json"

// Member is a parameter or field without a place in the neutral model: its name
// and its value as received.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Vendor is the maker of models that can read an opaque value: a signature of
// thinking is useless to the models of another vendor.
type Vendor string

// Vendors whose models sign their thinking.
const (
	Anthropic Vendor = "anthropic"
	Google    Vendor = "google"
	OpenAI    Vendor = "openai"
	Amazon    Vendor = "amazon"
)

// Signature is opaque data that a vendor's model expects back unchanged, with
// its content, in the next turn. The zero value means none.
type Signature struct {
	Vendor Vendor
	Value  string
}

// Cache asks the provider to cache the prompt up to and including the element
// that it is set on.
type Cache struct {
	TTL string // "5m" or "1h"; empty means the provider's default
}

// StopReason is the neutral reason why a model stopped.
type StopReason string

// Stop reasons. The zero value means that the provider sent none.
const (
	StopEnd      StopReason = "stop"           // the model finished
	StopSequence StopReason = "stop_sequence"  // generated one of the request's stop sequences
	StopLength   StopReason = "length"         // reached the token limit of the request or the model
	StopContext  StopReason = "context_window" // the context window is full
	StopTool     StopReason = "tool_calls"     // the model waits for tool results
	StopFilter   StopReason = "content_filter" // a filter of the provider
	StopRefusal  StopReason = "refusal"        // the model declined
	StopPause    StopReason = "pause"          // paused a long turn of server tools, to be continued
	StopFailed   StopReason = "failed"         // the model or its server failed: what there is of the response is not one
	StopOther    StopReason = "other"          // unknown to the gateway; not a clean end
)

// CutsOff reports whether the model stopped wherever it was, perhaps inside the
// arguments of a call.
func (s StopReason) CutsOff() bool {
	switch s {
	case StopLength, StopContext, StopSequence, StopFilter, StopRefusal, StopFailed, StopOther:
		return true
	}
	return false
}
