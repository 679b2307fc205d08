// Package dialect defines the interfaces of API formats.
//
// A dialect is the API format of a client or a provider. If both sides of an
// exchange have the same dialect, bytes are forwarded and a [Tap] reads usage
// and finish reason from them. Otherwise the client's [ClientCodec] and the
// provider's [ProviderCodec] translate through the neutral model of package
// llm, and every parameter that is not sent unchanged has a [ParamChange].
//
// Dialects are pure: they do no I/O, read no clock, and keep no state except in
// the tap, decoder or encoder of one response. They know no provider ids: a
// provider's deviations are in its [Profile].
//
// Each dialect has a package below this one. The dialect of a route or a
// provider is chosen by dataplane and the provider table.
package dialect

import (
	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// ClientDialect is what the gateway needs to serve clients of a dialect.
type ClientDialect interface {
	ClientCodec

	// HoldsMedia reports whether responses hold media such as m. Other media are left out.
	HoldsMedia(m *llm.Media, to ResponseTarget) bool

	// Headers returns the request headers, in canonical form, that are part of
	// the API. They are forwarded to providers of the same dialect.
	Headers() []string

	// ContentType returns the content type of streams, which determines their
	// framing.
	ContentType() string

	// Check validates a request body of the unified route of op. The error
	// names the parameter.
	Check(op api.Operation, body *jsonedit.Doc) *apierr.Error

	// Defaults returns the edits that replace an explicit null with the value
	// that it means. Most bodies need none.
	Defaults(op api.Operation, body *jsonedit.Doc) []jsonedit.Edit

	// Error returns the body of e for a response that has not begun.
	Error(e *apierr.Error) []byte

	// ErrorEvent appends e as an event of a stream that has begun. It ends the
	// stream: no terminator follows.
	ErrorEvent(dst []byte, e *apierr.Error) []byte

	// Terminator returns the bytes that end a complete stream, or nil if the
	// dialect has none.
	Terminator() []byte

	// ProviderError appends the response to a provider's error on a unified
	// route: the provider's own body with its source added if it is in this
	// dialect, otherwise a body with the message that it contains.
	ProviderError(dst, body []byte, provider string, status int) []byte

	// NewTap returns a tap for one response to op.
	NewTap(op api.Operation) Tap

	// NewCutter returns a cutter for the streamed response to a conversation
	// request with this body.
	NewCutter(body *jsonedit.Doc) StreamCutter

	// ModelField returns where responses name their model.
	ModelField() ModelField
}

// ModelField describes where the responses of a dialect name their model. The
// zero value is for a dialect whose responses do not.
type ModelField struct {
	// Body is the path of the name in a complete response, and Event its path
	// in an event of a stream, as names of members. FirstOnly is true if only
	// one event of a stream has it.
	Body, Event []string
	FirstOnly   bool

	// Default is the name that clients need unless they are configured.
	Default api.ResponseModel
}

// StreamCutter ends a stream of its dialect before the provider does, as if the
// model had reached its limit of output tokens. It is for one response and is
// not safe for concurrent use.
type StreamCutter interface {
	// Read reads an event that the client receives. It returns how many bytes of
	// it are kept.
	Read(e sse.Event) int

	// Cut appends the events that end the stream, with the usage u. A call
	// whose arguments are incomplete is not reported as finished.
	Cut(dst []byte, u llm.Usage) []byte
}

// StreamContinuer is implemented by dialects in which another target can
// continue a broken stream. It is optional.
type StreamContinuer interface {
	// Delta returns the text that a stream event adds to the response. It
	// returns false if the event adds something that cannot be continued as
	// text: a tool call, or a choice other than the first.
	Delta(data []byte) (text []byte, plain bool)

	// WithDelta returns data with text instead of what it adds.
	WithDelta(data, text []byte) ([]byte, bool)

	// Continue returns the edits that turn the request into one for the rest of
	// a response that began with said.
	Continue(body *jsonedit.Doc, said string) []jsonedit.Edit
}

// Tap reads usage and finish reason from a response that passes through. It
// does not change or keep the bytes, and it does not fail: what it cannot read
// it does not report. A tap is for one response and is not safe for concurrent
// use.
type Tap interface {
	// Body reads a complete response.
	Body(b []byte)
	// Event reads one event of a streamed response.
	Event(e sse.Event)
	// Info returns what has been read so far. It is valid until the next call.
	Info() *ResponseInfo
}

// NumberedErrors is implemented by client dialects whose events have numbers. It is
// optional.
type NumberedErrors interface {
	// NumberedErrorEvent appends what ErrorEvent appends, with a number. A stream
	// begins with the number 0.
	NumberedErrorEvent(dst []byte, e *apierr.Error, number int64) []byte
}

// NumberingTap is a tap of a dialect whose events have numbers.
type NumberingTap interface {
	Tap
	// ErrorEvent appends what the client dialect's ErrorEvent appends, with the
	// number that follows the events that were read.
	ErrorEvent(dst []byte, e *apierr.Error) []byte
}

// ResponseInfo is what a tap has read of a response.
type ResponseInfo struct {
	Model  string    // as the provider names it
	Usage  llm.Usage // cumulative
	Finish string    // finish reason of the first choice, empty until seen

	// Tier is the service tier in the provider's own spelling. It is empty if
	// the provider reported none or the usual one.
	Tier string

	// Images is the number of generated images in the response, and AudioMillis the
	// duration of the recording that was transcribed. Zero means none or unknown.
	Images      int64
	AudioMillis int64

	// Begun is true once the response has content: the first token.
	Begun bool
	// Written is the approximate size of the content so far, as of llm.TextSize: of text,
	// reasoning and arguments. It is the basis of an estimate of output tokens.
	Written int64
	// Finished is true once every choice has a finish reason.
	Finished bool
	// Terminated is true once the stream's terminator has been read.
	Terminated bool
	// Failed is the message of an error inside the response.
	Failed string
	// Blank is true while a stream has only events without a response in them, such as a
	// chunk without choices.
	Blank bool
}

// SetTier records the provider's name of the tier. The last call wins: streams
// begin with the requested tier.
func (s *ResponseInfo) SetTier(word []byte) {
	switch string(word) {
	case "default", "standard", "auto": // most responses; avoids an allocation
		s.Tier = ""
	case s.Tier:
	default:
		s.Tier = string(word)
	}
}
