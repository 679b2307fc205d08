package tools

import (
	"net/http"

	"modelgate/internal/format/jsonedit"
)

// Codes of JSON-RPC and of MCP.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603

	codeHeaderMismatch = -32020
	codeNoCapability   = -32021
	codeVersion        = -32022
)

// rpcError is an error of JSON-RPC.
type rpcError struct {
	code    int
	message string
	data    []byte // JSON; nil for none
	status  int    // of HTTP
}

// newError returns an error with the status that both eras give its code.
func newError(code int, message string) *rpcError {
	e := &rpcError{code: code, message: message, status: http.StatusOK}
	switch code {
	case codeParse, codeInvalidRequest, codeHeaderMismatch, codeNoCapability, codeVersion:
		e.status = http.StatusBadRequest
	}
	return e
}

// withData returns e with data, which is JSON.
func (e *rpcError) withData(data []byte) *rpcError {
	e.data = data
	return e
}

// response returns the response to a request; a nil id is null.
func (e *rpcError) response(id []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("id")
	b.Raw(id)
	b.Name("error")
	b.Open('{')
	b.Name("code")
	b.Int(int64(e.code))
	b.Name("message")
	b.String(e.message)
	if e.data != nil {
		b.Name("data")
		b.Raw(e.data)
	}
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// result returns the response to a request with a result.
func result(id, value []byte) []byte {
	out := make([]byte, 0, len(id)+len(value)+40)
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, id...)
	out = append(out, `,"result":`...)
	out = append(out, value...)
	return append(out, '}')
}
