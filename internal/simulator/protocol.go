package simulator

import "net/http"

// A protocol is what the operations of one dialect have in common beyond the
// content of an answer. The chat protocol is the one without an entry: nil.
type protocol struct {
	name  string
	index int // in the books
	// kind frames the streams, and stream is their Content-Type.
	kind   framing
	stream []string
	// fail appends the body of an error, and may set headers.
	fail func(x *exchange, dst []byte, status int, e providerError) []byte
	// kinds are what the protocol calls errors, by their status. Those of 400 and
	// 500 are for all others, below 500 and above.
	kinds map[int]string
	// end is sent after the last frame; nil where the last frame is the end.
	end []byte
	// unknown refuses a member that the protocol does not know; nil says what
	// most providers say.
	unknown func(path, name string) providerError
}

// Indexes of the books, in the order of protocolNames.
const (
	chatIndex = iota
	messagesIndex
	responsesIndex
	geminiIndex
	converseIndex
	cohereIndex
	ollamaIndex
	protocolCount
)

var protocolNames = [protocolCount]string{"chat", "messages", "responses", "gemini", "converse", "cohere", "ollama"}

var (
	typeLines  = []string{"application/x-ndjson"}
	typeBinary = []string{"application/vnd.amazon.eventstream"}
)

// errorKind returns what the protocol calls an error with this status.
func (p *protocol) errorKind(status int) string {
	if kind, ok := p.kinds[status]; ok {
		return kind
	}
	if status >= http.StatusInternalServerError {
		return p.kinds[http.StatusInternalServerError]
	}
	return p.kinds[http.StatusBadRequest]
}

// place returns the place of the protocol in the books.
func (p *protocol) place() int {
	if p == nil {
		return chatIndex
	}
	return p.index
}

// A service is a handler and the protocol its errors are written in.
type service struct {
	answer handler
	speech *protocol
}

// unknownMember is what most providers say of a member they do not know.
func unknownMember(path, name string) providerError {
	return providerError{kind: invalidRequest, param: path + name, code: "unknown_parameter", message: "Unknown parameter: '" + path + name + "'."}
}

// invalid is a mistake in a body.
func invalid(param, message string) providerError {
	return providerError{kind: invalidRequest, param: param, code: "invalid_value", message: message}
}

// statusOf is the status that goes with a mistake in a body.
const statusOf = http.StatusBadRequest
