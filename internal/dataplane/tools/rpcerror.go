package tools

import (
	"net/http"

	"modelgate/internal/format/jsonrpc"
)

// Codes of MCP, in addition to those of JSON-RPC.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes
const (
	codeHeaderMismatch = -32020
	codeNoCapability   = -32021
	codeVersion        = -32022
)

// rpcError is an error of JSON-RPC with its status of HTTP.
type rpcError struct {
	jsonrpc.Error
	status int
}

// newError returns an error with the status that both eras give its code.
func newError(code int, message string) *rpcError {
	e := &rpcError{jsonrpc.Error{Code: code, Message: message}, http.StatusOK}
	switch code {
	case jsonrpc.ParseError, jsonrpc.InvalidRequest, codeHeaderMismatch, codeNoCapability, codeVersion:
		e.status = http.StatusBadRequest
	}
	return e
}

// withData returns e with data, which is JSON.
func (e *rpcError) withData(data []byte) *rpcError {
	e.Data = data
	return e
}
