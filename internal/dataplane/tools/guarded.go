package tools

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
)

// guardedParams are the parameters that guardrails read, or that have no text. If guardrails
// act on arguments, no others reach a server.
var guardedParams = []string{"name", "uri", "arguments", "_meta", "ref", "argument", "requestState", "inputResponses", "taskId"}

// guardedMeta are the members of _meta that have no text of the caller.
var guardedMeta = []string{"progressToken", "traceparent", metaVersion, metaCapabilities, "io.modelcontextprotocol/logLevel"}

// restrict removes from the message what guardrails do not read.
func (r *relay) restrict() {
	if acts, _ := r.request.tools.Guards(); !acts {
		return
	}
	for key := range r.request.msg.params.Members() {
		if name := key.String(); !slices.Contains(guardedParams, name) {
			r.params = append(r.params, jsonedit.Edit{Name: name})
		}
	}
	for key := range r.request.msg.meta.Members() {
		if name := key.String(); !slices.Contains(guardedMeta, name) {
			r.meta = append(r.meta, jsonedit.Edit{Name: name})
		}
	}
	r.request.client.Info = nil
	r.plain = true
}

// textAside returns the text of the message outside of its arguments.
func (r *relay) textAside() (list []string) {
	for _, name := range [...]string{"inputResponses", "argument"} {
		if v, ok := r.request.msg.params.Find(name); ok {
			list = appendStrings(list, v)
		}
	}
	return list
}

// appendStrings appends all strings in a value, names of members included.
func appendStrings(list []string, v jsonedit.Value) []string {
	if text, ok := v.Text(); ok {
		return append(list, text)
	}
	for e := range v.Elements() {
		list = appendStrings(list, e)
	}
	for key, value := range v.Fields() {
		list = appendStrings(append(list, key.String()), value)
	}
	return list
}

// checkResponse checks the response of a client to a question as the arguments of a call.
func (r *relay) checkResponse(ctx context.Context) (*dataplane.ToolRun, error) {
	var aside []string
	for _, name := range [...]string{"result", "error"} {
		if v, ok := r.request.msg.top.Find(name); ok {
			aside = appendStrings(aside, v)
		}
	}
	return r.request.tools.Begin(ctx, dataplane.ToolCall{Operation: api.Tools, Server: r.server, Aside: aside,
		Size: int64(len(r.request.msg.body))})
}

// passNotification relays a notification. If guardrails act on results, only progress passes,
// without its text.
func (r *relay) passNotification(doc *jsonedit.Doc) error {
	method, _ := doc.Find("method")
	if _, acts := r.request.tools.Guards(); !acts {
		return r.request.answer.send(doc.Bytes())
	}
	if !method.IsText("notifications/progress") {
		return nil
	}
	from, _ := doc.Find("params")
	var b jsonedit.Builder
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("method")
	b.String("notifications/progress")
	b.Name("params")
	b.Open('{')
	token, _ := from.Get("progressToken")
	b.Name("progressToken")
	b.Raw(token.Raw())
	for _, name := range [...]string{"progress", "total"} {
		if v, ok := from.Get(name); ok && v.Kind() == jsonedit.Number {
			b.Name(name)
			b.Raw(v.Raw())
		}
	}
	b.Close('}')
	b.Close('}')
	return r.request.answer.send(b.Bytes())
}

// errUnchecked is why a server may not ask: guardrails do not read the question, or its answer.
var errUnchecked = &peer.Failure{Kind: peer.Invalid, Reason: "the tool server asks for input, which the guardrails cannot check"}

// withoutUndeclared removes headers that repeat arguments which the definition does not have.
func (r *relay) withoutUndeclared(h http.Header) http.Header {
	if !r.plain || h == nil {
		return h
	}
	for name := range h {
		declared := r.definition != nil && slices.ContainsFunc(r.definition.headers, func(p paramHeader) bool { return p.name == name })
		if strings.HasPrefix(name, headerParam) && !declared {
			delete(h, name)
		}
	}
	return h
}

// envelope returns a response with nothing but its id and its outcome.
func envelope(id []byte, member string, value json.RawMessage) []byte {
	out := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	out = append(append(append(out, `,"`...), member...), `":`...)
	return append(append(out, value...), '}')
}
