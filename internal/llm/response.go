package llm

import "encoding/json"

// Response is a complete response.
type Response struct {
	Dialect string // of the provider (an api.Dialect), which Extra belongs to

	ID      string // of the provider, empty when it gave none
	Model   string // as the provider names it
	Created int64  // unix seconds, zero when the provider gave none
	Choices []Choice
	Usage   Usage

	ServiceTier string
	Fingerprint string // chat's system_fingerprint
	Extra       []Member
}

// Choice is one of the answers to a request.
type Choice struct {
	Parts []Part
	Stop  StopReason
	// NativeFinishReason is the provider's own word for Stop, and StopText the stop sequence
	// that came.
	NativeFinishReason string
	StopText           string
	Logprobs           []Logprob
	Extra              []Member
}

// Logprob is how likely a token was, and which others were.
type Logprob struct {
	Token   string
	Logprob float64
	Bytes   []int // nil when not told
	Top     []Logprob
}

// EventKind says what an Event brings.
type EventKind uint8

// The kinds. A stream is Start, then for each part PartStart, Deltas, PartEnd,
// then Finish for each choice, Usage anywhere, and End. Parts of a choice begin
// in the order of their numbers; several may be open at a time. After Error
// nothing follows.
const (
	EventStart     EventKind = iota + 1 // ID, Model, Created, ServiceTier
	EventPartStart                      // Choice, Part, Opened
	EventDelta                          // Choice, Part, Text, Signature, Citation, Logprobs
	EventPartEnd                        // Choice, Part
	EventFinish                         // Choice, Stop, Said, StopText
	EventUsage                          // Usage, all that is known so far
	EventError                          // Fault
	EventEnd                            // the provider said that the answer is whole
)

// Event is a step of a streamed answer.
type Event struct {
	Kind   EventKind
	Choice int
	Part   int // number of the part within its choice, from 0

	// Opened is the part that begins, with all that is known of it. A part that
	// comes in one piece, such as Media or Native, is whole; of Text, Thinking,
	// Refusal and ToolCall the text or the arguments follow as deltas.
	Opened Part

	Text      string    // added to the text, thinking, refusal or arguments
	Signature Signature // of the part; a further one is appended to the value
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

	// Extra are further fields of the provider's dialect, of Start and Finish.
	Extra []Member
}

// ProviderError is an error inside a stream: one that a provider reports, or the
// gateway's own.
type ProviderError struct {
	Gateway bool   // the gateway made it
	Type    string // in the provider's words
	Code    string
	Message string
	Raw     json.RawMessage
}

// Source says whose error it is: gateway or provider.
func (f *ProviderError) Source() string {
	if f.Gateway {
		return "gateway"
	}
	return "provider"
}
