// Package dialect is the contract of the wire protocols.
//
// A dialect is one protocol that clients or providers speak. It is pure: no
// I/O, no clock, no state beyond what a tap, a decoder or an encoder has seen
// of one answer. Where both sides of the gateway speak the same dialect, bytes
// pass by unchanged and a [Tap] reads from them what the books need. Where they
// differ, the client's [ClientCodec] and the provider's [ProviderCodec] meet in
// the neutral conversation of package llm, and each parameter that is not
// carried as it is has a [ParamChange]. How a provider deviates is its [Profile];
// no dialect decides by a provider's id. Each protocol has a package below this
// one; which dialect a route or a provider speaks is decided by dataplane and the
// provider table.
package dialect

import (
	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
	"modelgate/internal/sse"
)

// ClientDialect is what the gateway needs of a dialect to serve clients that speak it.
type ClientDialect interface {
	ClientCodec

	// Headers are the request headers, in canonical form, that belong to the
	// protocol: they go to a provider that speaks it.
	Headers() []string

	// ContentType is that of streams, which tells their framing.
	ContentType() string

	// Check validates a request body of the unified route of op, as the
	// specification's Endpoints part says. The error names the parameter.
	Check(op api.Operation, body *jsonedit.Doc) *apierr.Error

	// Defaults returns the edits that write out what the specification says an
	// explicit null stands for. Most bodies need none.
	Defaults(op api.Operation, body *jsonedit.Doc) []jsonedit.Edit

	// Error returns the body of e for an answer that has not begun.
	Error(e *apierr.Error) []byte

	// ErrorEvent appends e as an in-band event of a stream that has begun. It
	// ends the stream: no terminator follows.
	ErrorEvent(dst []byte, e *apierr.Error) []byte

	// Terminator returns what ends a complete stream, nil when nothing does.
	Terminator() []byte

	// ProviderError appends the answer for a provider's error on a unified
	// route: the provider's own body where it is of this dialect, marked with
	// its source, else one made from what the body says.
	ProviderError(dst, body []byte, provider string, status int) []byte

	// NewTap returns a tap for one answer to op.
	NewTap(op api.Operation) Tap
}

// StreamContinuer is what a dialect needs for another target to go on with an answer
// that broke off. It is optional.
type StreamContinuer interface {
	// Delta returns the text that an event of a stream adds to the answer, and
	// false when it adds what can't be continued in words: a tool call, or
	// another choice than the first.
	Delta(data []byte) (text []byte, plain bool)

	// WithDelta returns data with text instead of what it adds.
	WithDelta(data, text []byte) ([]byte, bool)

	// Continue returns the edits that make the request one for the rest of an
	// answer that began with said.
	Continue(body *jsonedit.Doc, said string) []jsonedit.Edit
}

// Tap reads an answer that passes by. It never changes or keeps the bytes it is
// shown, and it never fails: what it can't read it does not report. A tap is
// for one answer and one goroutine.
type Tap interface {
	// Body reads a complete response.
	Body(b []byte)
	// Event reads one event of a streamed answer.
	Event(e sse.Event)
	// Info returns what was read so far; it is valid until the next call.
	Info() *ResponseInfo
}

// ResponseInfo is what a tap has read of an answer.
type ResponseInfo struct {
	Model  string    // as the provider names it
	Usage  llm.Usage // counters are cumulative: the largest seen counts
	Finish string    // finish reason of the first choice, empty until seen

	// Tier is how the provider says it served the request, in its own word; empty
	// while it says nothing, or that it was as ever.
	Tier string

	// Begun is true once the answer holds content: the first token has come.
	Begun bool
	// Written is about how many bytes of content have come: text, reasoning and
	// arguments. It is what an estimate of the output is made of.
	Written int64
	// Finished is true once every choice has a finish reason.
	Finished bool
	// Terminated is true once the stream's terminator was seen.
	Terminated bool
	// Failed is the message of an error the provider sent inside the answer.
	Failed string
}

// SetTier notes the provider's word for the tier. The last one counts: streams
// begin with what was asked for.
func (s *ResponseInfo) SetTier(word []byte) {
	switch string(word) {
	case "default", "standard", "auto": // most answers: no memory for these
		s.Tier = ""
	case s.Tier:
	default:
		s.Tier = string(word)
	}
}
