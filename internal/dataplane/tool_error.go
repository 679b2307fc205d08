package dataplane

import (
	"encoding/json"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// rpcError returns an error as a response of JSON-RPC. An empty id is that of a message that was
// not read. Errors without a code of their own have the status of HTTP, which is outside of the
// range that JSON-RPC and MCP reserve.
func rpcError(id json.RawMessage, e *apierr.Error) []byte {
	code := e.Status()
	switch e.Kind {
	case apierr.Invalid:
		code = jsonrpc.InvalidRequest
	case apierr.Internal:
		code = jsonrpc.InternalError
	}
	if a, ok := agentErrors[e.Code]; ok {
		code = a.code
	}
	var data jsonedit.Builder
	data.Open('{')
	data.Name("code")
	data.String(e.CodeOrDefault())
	data.Name("type")
	data.String(e.Type())
	if e.Param != "" {
		data.Name("param")
		data.String(e.Param)
	}
	data.Name("source")
	data.String("gateway")
	if e.Details != nil {
		data.Name("hook_results")
		data.Raw(e.Details)
	}
	data.Close('}')
	return (&jsonrpc.Error{Code: code, Message: e.Message, Data: data.Bytes()}).Response(id)
}

// DeniedResult returns the result of a tool whose call, or whose result, was refused: a model
// reads it and can go on without. It has none of the content.
func DeniedResult(e *apierr.Error) json.RawMessage {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("content")
	b.Open('[')
	b.Open('{')
	b.Name("type")
	b.String("text")
	b.Name("text")
	b.String(strings.TrimSuffix(e.Message, "; see hook_results"))
	b.Close('}')
	b.Close(']')
	b.Name("isError")
	b.Bool(true)
	b.Close('}')
	return b.Bytes()
}

// toolError returns the body of an error of a request to tool servers or agents.
func (x *roundTrip) toolError(e *apierr.Error) []byte {
	if _, below, ok := toolserver.AgentOf(x.entry.Path); ok && below != "" {
		return agentError(e)
	}
	var id json.RawMessage
	if x.tools != nil {
		id = x.tools.MessageID
	}
	return rpcError(id, e)
}
