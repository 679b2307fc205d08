package chat

import (
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// Headers are none: what clients of the dialect may send along they name in
// x-gateway-forward-headers.
func (Dialect) Headers() []string { return nil }

// ContentType is that of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// DecodeRequest reads a client's request.
func (Dialect) DecodeRequest(body []byte) (*llm.Request, error) {
	return nil, apierr.New(apierr.Unsupported, "translation from the chat dialect is not offered yet")
}

// EncodeResponse appends the body of a whole answer.
func (Dialect) EncodeResponse(dst []byte, r *llm.Response, to dialect.Reply) []byte { return dst }

// NewEncoder returns an encoder for one streamed answer.
func (Dialect) NewEncoder(to dialect.Reply) dialect.StreamEncoder { return nil }
