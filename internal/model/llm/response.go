package llm

import "encoding/json"

// Response is a complete response.
type Response struct {
	Dialect string // of the provider (an api.Dialect); Extra belongs to it

	ID      string // of the provider; empty if it sent none
	Model   string // as the provider names it
	Created int64  // unix seconds; zero if the provider sent none
	Choices []Choice
	Usage   Usage

	ServiceTier string
	Fingerprint string // system_fingerprint in the chat dialect
	Extra       []Member
}

// Choice is one of the alternatives of a response.
type Choice struct {
	Parts []Part
	Stop  StopReason
	// NativeFinishReason is the provider's own spelling of Stop. StopText is
	// the stop sequence that was generated.
	NativeFinishReason string
	StopText           string
	Logprobs           []Logprob
	Extra              []Member
}

// Logprob is the log probability of a token, and of its alternatives.
type Logprob struct {
	Token   string
	Logprob float64
	Bytes   []int // nil if not reported
	Top     []Logprob
}

// EventKind is the kind of an Event.
type EventKind uint8

// Kinds of events. A stream is Start, then for each part PartStart, Deltas,
// PartEnd, then Finish for each choice, Usage anywhere, and End. Parts of a
// choice begin in the order of their numbers; several may be open at a time.
// Nothing follows Error.
const (
	EventStart     EventKind = iota + 1 // ID, Model, Created, ServiceTier
	EventPartStart                      // Choice, Part, Opened
	EventDelta                          // Choice, Part, Text, Signature, Citation, Logprobs
	EventPartEnd                        // Choice, Part; missing for a call that broke off
	EventFinish                         // Choice, Stop, Said, StopText
	EventUsage                          // Usage so far; replaces the one before
	EventError                          // Fault
	EventEnd                            // the provider marked the response as complete
)

// Event is one event of a streamed response.
type Event struct {
	Kind   EventKind
	Choice int
	Part   int // number of the part within its choice, from 0

	// Opened is the part that begins. A part that arrives in one piece, such as
	// Media or Native, is complete; the text of Text, Thinking and Refusal and
	// the arguments of ToolCall follow as deltas.
	Opened Part

	Text      string    // added to the text, thinking, refusal or arguments
	Signature Signature // of the part; a later one is appended to the value
	Citation  *Citation // added to a Text
	Logprobs  []Logprob // of Text

	ID          string
	Model       string
	Created     int64
	ServiceTier string
	Fingerprint string

	Stop               StopReason
	NativeFinishReason string
	StopText           string

	Usage Usage
	Fault *ProviderError

	// Extra are additional fields of the provider's dialect, of Start and
	// Finish.
	Extra []Member
}

// ProviderError is an error inside a stream, sent by a provider or by the
// gateway.
type ProviderError struct {
	Gateway bool   // sent by the gateway
	Type    string // as the provider spells it
	Code    string
	Message string
	Raw     json.RawMessage
}

// Source returns whether the error is from the gateway or the provider.
func (f *ProviderError) Source() string {
	if f.Gateway {
		return "gateway"
	}
	return "provider"
}
