package simulator

import "net/http"

// A protocol is what the operations of one dialect have in common, apart from
// the content of a response. The chat protocol has no entry: nil.
type protocol struct {
	name  string
	index int // index in the records
	// kind is the framing of streams, and stream their Content-Type.
	kind   framing
	stream []string
	// fail appends the body of an error, and may set headers.
	fail func(x *exchange, dst []byte, status int, e providerError) []byte
	// errorType is the Content-Type of errors; nil means JSON.
	errorType []string
	// kinds are the protocol's names of errors by status. Those of 400 and 500
	// apply to all other statuses below and from 500.
	kinds map[int]string
	// end is sent after the last frame; nil if the last frame is the end.
	end []byte
	// unknown returns the error for an unknown member; nil means the most
	// common error.
	unknown func(path, name string) providerError
}

// Indexes of the records, in the order of protocolNames.
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

// errorKind returns the protocol's name of an error with this status.
func (p *protocol) errorKind(status int) string {
	if kind, ok := p.kinds[status]; ok {
		return kind
	}
	if status >= http.StatusInternalServerError {
		return p.kinds[http.StatusInternalServerError]
	}
	return p.kinds[http.StatusBadRequest]
}

// place returns the index of the protocol in the records.
func (p *protocol) place() int {
	if p == nil {
		return chatIndex
	}
	return p.index
}

// A service is a handler and the protocol of its errors.
type service struct {
	serve    handler
	protocol *protocol
}

// unknownMember returns the most common error for an unknown member.
func unknownMember(path, name string) providerError {
	return providerError{kind: invalidRequest, param: path + name, code: "unknown_parameter", message: "Unknown parameter: '" + path + name +
		"'."}
}

// invalid returns the error for a mistake in a body.
func invalid(param, message string) providerError {
	return providerError{kind: invalidRequest, param: param, code: "invalid_value", message: message}
}

// statusOf is the status for a mistake in a body.
const statusOf = http.StatusBadRequest
