package tools

import (
	"context"
	"net/http"
	"regexp"
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

// passesMeta reports whether a member of _meta has no text of the caller that guardrails do not
// read.
func passesMeta(name string, v jsonedit.Value) bool {
	text, _ := v.Text()
	switch name {
	case "progressToken", metaVersion:
		return true
	case "traceparent":
		return traceFormat.MatchString(text)
	case "io.modelcontextprotocol/logLevel":
		return slices.Contains(logLevels, text)
	}
	return false
}

// traceFormat is that of W3C Trace Context, version 00.
// https://www.w3.org/TR/trace-context/#traceparent-header-field-values
var traceFormat = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// plainCapabilities returns what the gateway knows of the capabilities of a client, without further
// members and their text.
func plainCapabilities(capabilities []byte) []byte {
	v, err := jsonedit.ParseValue(orEmpty(capabilities))
	if err != nil {
		return []byte("{}")
	}
	var b jsonedit.Builder
	b.Open('{')
	for _, known := range [...]struct {
		name    string
		members []string
	}{{"elicitation", []string{"form", "url"}}, {"sampling", []string{"context", "tools"}}, {"roots", []string{"listChanged"}},
		{"extensions", []string{extensionTasks}}} {
		declared, ok := v.Get(known.name)
		if !ok {
			continue
		}
		b.Name(known.name)
		b.Open('{')
		for _, name := range known.members {
			if m, ok := declared.Get(name); ok && m.Kind() == jsonedit.Bool {
				b.Name(name)
				b.Raw(m.Raw())
			} else if ok {
				b.Name(name)
				b.Raw([]byte("{}"))
			}
		}
		b.Close('}')
	}
	b.Close('}')
	return b.Bytes()
}

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
	r.request.client = peer.Client{Capabilities: plainCapabilities(r.request.client.Capabilities)}
	for key, v := range r.request.msg.meta.Members() {
		switch name := key.String(); {
		case name == metaCapabilities:
			r.meta = append(r.meta, jsonedit.Edit{Name: name, Value: r.request.client.Capabilities})
		case !passesMeta(name, v):
			r.meta = append(r.meta, jsonedit.Edit{Name: name})
		}
	}
	r.plain = true
}

// textAside returns the text of the message outside of its arguments.
func (r *relay) textAside() (list []string) {
	for _, name := range [...]string{"inputResponses", "argument"} {
		if v, ok := r.request.msg.params.Find(name); ok {
			list = appendStrings(list, v)
		}
	}
	if v, ok := r.request.msg.meta.Find("progressToken"); ok {
		list = appendStrings(list, v)
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

// logLevels are the levels of log messages.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#log-levels
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// bareNotice returns what all servers get of a message if guardrails act on arguments: nothing that
// the client has written. Nil is nothing.
func bareNotice(x *request) []byte {
	level, _ := x.msg.param("level")
	switch {
	case x.msg.method == "notifications/roots/list_changed":
		return []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	case x.msg.method == "logging/setLevel" && slices.Contains(logLevels, level):
		return x.sessions.request(x.msg.method, append(jsonedit.AppendString([]byte(`{"level":`), level), '}'))
	}
	return nil // servers know other ids of requests than the client
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
