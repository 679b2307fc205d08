package tools

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
)

// message is a scanned JSON-RPC message of a client. Values are views of its body, which
// does not change. It goes back to its pool when the request has ended.
type message struct {
	body   []byte
	id     []byte // as JSON; nil for a notification
	method string // empty for a response

	top, params, meta jsonedit.Doc // params and meta are empty if absent
}

var messages = sync.Pool{New: func() any { return new(message) }}

// parseMessage scans a body. The error is for the client. A message names nothing twice in
// the objects that the gateway reads, so that no server reads another name than was
// checked.
func parseMessage(body []byte) (*message, *rpcError) {
	m := messages.Get().(*message)
	if err := m.scan(body); err != nil {
		m.release()
		return nil, err
	}
	return m, nil
}

func (m *message) release() {
	m.top.Reset()
	m.params.Reset()
	m.meta.Reset()
	m.body, m.id, m.method = nil, nil, ""
	messages.Put(m)
}

func (m *message) scan(body []byte) *rpcError {
	m.body = body
	if first := firstByte(body); first == '[' {
		return newError(jsonrpc.InvalidRequest, "batches are not supported; send each message in a request of its own")
	}
	if err := m.top.Scan(body); err != nil {
		if _, ok := errors.AsType[*jsonedit.DuplicateKeyError](err); ok || firstByte(body) != '{' && json.Valid(body) {
			return newError(jsonrpc.InvalidRequest, "the body is not a JSON-RPC message: "+err.Error())
		}
		return newError(jsonrpc.ParseError, "the body is not JSON: "+err.Error())
	}
	if name := lookAlike(&m.top, "jsonrpc", "id", "method", "params", "result", "error"); name != "" {
		return newError(jsonrpc.InvalidRequest, "the member "+cut(name)+" must be written in small letters")
	}
	if id, ok := m.top.Find("id"); ok {
		if k := id.Kind(); k != jsonedit.String && k != jsonedit.Number || len(id.Raw()) > maxID {
			return newError(jsonrpc.InvalidRequest, "the id must be a string or a number of at most 256 bytes")
		}
		m.id = id.Raw()
	}
	if version, _ := m.top.Find("jsonrpc"); !version.IsText("2.0") {
		return newError(jsonrpc.InvalidRequest, `the message must have "jsonrpc": "2.0"`)
	}
	_, hasResult := m.top.Find("result")
	_, hasError := m.top.Find("error")
	method, hasMethod := m.top.Find("method")
	text, isText := method.Text()
	switch {
	case hasMethod && (!isText || text == "" || len(text) > maxMethod || hasResult || hasError):
		return newError(jsonrpc.InvalidRequest, "the method must be a string, in a message without a result")
	case !hasMethod && (hasResult == hasError || m.id == nil):
		return newError(jsonrpc.InvalidRequest, "the message must be a request, a notification or a response")
	}
	m.method = text
	return m.scanParams()
}

func (m *message) scanParams() *rpcError {
	params, ok := m.top.Find("params")
	if !ok {
		return nil
	}
	if params.Kind() != jsonedit.Object {
		return newError(jsonrpc.InvalidParams, "params must be an object")
	}
	if err := m.params.Scan(params.Raw()); err != nil {
		return newError(jsonrpc.InvalidParams, "params: "+err.Error())
	}
	if name := lookAlike(&m.params, "name", "uri", "arguments", "_meta", "ref", "argument", "context", "cursor", "requestState",
		"inputResponses", "taskId", "requestId", "level", "notifications"); name != "" {
		return newError(jsonrpc.InvalidParams, "params: "+cut(name)+" is another spelling of a parameter of the protocol")
	}
	meta, ok := m.params.Find("_meta")
	if !ok {
		return nil
	}
	if meta.Kind() != jsonedit.Object {
		return newError(jsonrpc.InvalidParams, "params._meta must be an object")
	}
	if err := m.meta.Scan(meta.Raw()); err != nil {
		return newError(jsonrpc.InvalidParams, "params._meta: "+err.Error())
	}
	return nil
}

// lookAlike returns the first member whose name differs from one of names in the case of
// letters only, empty for none: servers that compare names without case would read it instead.
// https://pkg.go.dev/encoding/json#Unmarshal
func lookAlike(d *jsonedit.Doc, names ...string) string {
	for key := range d.Members() {
		text := key.String()
		for _, name := range names {
			if text != name && strings.EqualFold(text, name) {
				return text
			}
		}
	}
	return ""
}

// Limits of what the envelope names, in bytes.
const (
	maxID     = 256
	maxMethod = 128
)

// param returns a string among the parameters.
func (m *message) param(name string) (string, bool) {
	v, _ := m.params.Find(name)
	return v.Text()
}

// isRequest reports whether the message expects a response.
func (m *message) isRequest() bool { return m.method != "" && m.id != nil }

// isResponse reports whether the message answers a request of the gateway.
func (m *message) isResponse() bool { return m.method == "" }

// changes are what a message is sent with in place of what it has.
type changes struct {
	top, params, meta []jsonedit.Edit
}

// with returns the message with changes: every other byte is as the client sent it.
func (m *message) with(c changes) []byte {
	if len(c.meta) > 0 {
		c.params = append(c.params, jsonedit.Edit{Name: "_meta", Value: apply(&m.meta, c.meta)})
	}
	if len(c.params) > 0 {
		c.top = append(c.top, jsonedit.Edit{Name: "params", Value: apply(&m.params, c.params)})
	}
	if len(c.top) == 0 {
		return m.body
	}
	return apply(&m.top, c.top)
}

// apply returns a document with edits, of which one that was not scanned is empty.
func apply(d *jsonedit.Doc, edits []jsonedit.Edit) []byte {
	if d.Bytes() == nil {
		if err := d.Scan([]byte("{}")); err != nil {
			panic(err)
		}
	}
	return d.Apply(make([]byte, 0, len(d.Bytes())+128), edits...)
}

// setText returns an edit that sets a member to a string.
func setText(name, value string) jsonedit.Edit {
	return jsonedit.Edit{Name: name, Value: jsonedit.AppendString(nil, value)}
}

// firstByte returns the first byte that is not white space, zero for none.
func firstByte(b []byte) byte {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}
