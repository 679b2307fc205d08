package dataplane

import (
	"encoding/json"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// Codes of JSON-RPC. Other errors have the status of HTTP as their code, which is outside of
// the range that JSON-RPC and MCP reserve.
const (
	rpcInvalidRequest = -32600
	rpcInternalError  = -32603
)

// rpcError returns an error as a response of JSON-RPC. A nil id is that of a message that was
// not read.
func rpcError(id json.RawMessage, e *apierr.Error) []byte {
	code := int64(e.Status())
	switch e.Kind {
	case apierr.Invalid:
		code = rpcInvalidRequest
	case apierr.Internal:
		code = rpcInternalError
	}
	if a, ok := agentErrors[e.Code]; ok {
		code = a.code
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("id")
	if len(id) > 0 {
		b.Raw(id)
	} else {
		b.Null()
	}
	b.Name("error")
	b.Open('{')
	b.Name("code")
	b.Int(code)
	b.Name("message")
	b.String(e.Message)
	b.Name("data")
	b.Open('{')
	b.Name("code")
	b.String(e.CodeOrDefault())
	b.Name("type")
	b.String(e.Type())
	if e.Param != "" {
		b.Name("param")
		b.String(e.Param)
	}
	b.Name("source")
	b.String("gateway")
	if e.Details != nil {
		b.Name("hook_results")
		b.Raw(e.Details)
	}
	b.Close('}')
	b.Close('}')
	b.Close('}')
	return b.Bytes()
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
