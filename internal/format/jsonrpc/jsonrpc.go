// Package jsonrpc writes responses of JSON-RPC 2.0. Ids and values are JSON, which it does not check.
package jsonrpc

import "modelgate/internal/format/jsonedit"

// Codes of errors.
// https://www.jsonrpc.org/specification#error_object
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// Error is an error of JSON-RPC.
type Error struct {
	Code    int
	Message string
	Data    []byte // JSON; nil for none
}

// Response returns the response with the error to the request with an id. An empty id is that of
// a message that could not be read, null.
func (e *Error) Response(id []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("code")
	b.Int(int64(e.Code))
	b.Name("message")
	b.String(e.Message)
	if e.Data != nil {
		b.Name("data")
		b.Raw(e.Data)
	}
	b.Close('}')
	if len(id) == 0 {
		id = []byte("null")
	}
	return Response(id, "error", b.Bytes())
}

// Response returns the response to the request with an id, whose member, result or error, has a
// value.
func Response(id []byte, member string, value []byte) []byte {
	out := make([]byte, 0, len(id)+len(member)+len(value)+len(`{"jsonrpc":"2.0","id":,"":}`))
	out = append(append(out, `{"jsonrpc":"2.0","id":`...), id...)
	out = append(append(append(out, `,"`...), member...), `":`...)
	return append(append(out, value...), '}')
}
