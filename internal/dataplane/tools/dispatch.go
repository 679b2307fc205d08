package tools

import (
	"errors"
	"net/http"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// method serves requests of one method.
type method struct {
	eras  [2]bool // by peer.Era
	own   bool    // the gateway answers, so that no message to a server is counted
	serve func(*request) error
}

var (
	bothEras   = [2]bool{true, true}
	legacyOnly = [2]bool{peer.Legacy: true}
	modernOnly = [2]bool{peer.Modern: true}
)

// methods are those that clients may send. It never changes.
var methods map[string]method

func init() { // the functions refer to it
	methods = map[string]method{
		"initialize":            {legacyOnly, true, (*request).initialize},
		"ping":                  {legacyOnly, false, (*request).ping},
		"logging/setLevel":      {legacyOnly, true, (*request).setLevel},
		"resources/subscribe":   {legacyOnly, false, func(x *request) error { return x.relayResource(api.Tools) }},
		"resources/unsubscribe": {legacyOnly, false, func(x *request) error { return x.relayResource(api.Tools) }},
		"subscriptions/listen":  {modernOnly, true, (*request).subscribeAll},
		"server/discover":       {modernOnly, true, (*request).discover},
		"tools/call":            {bothEras, false, (*request).callTool},
		"prompts/get":           {bothEras, false, getPrompt},
		"resources/read":        {bothEras, false, func(x *request) error { return x.relayResource(api.ToolResource) }},
		"completion/complete":   {bothEras, false, (*request).complete},
		"tasks/get":             {modernOnly, false, useTask},
		"tasks/update":          {modernOnly, false, useTask},
		"tasks/cancel":          {modernOnly, false, useTask},
	}
	for i := range listKinds {
		k := &listKinds[i]
		methods[k.method] = method{bothEras, true, func(x *request) error { return x.list(k) }}
	}
}

// dispatch serves the message.
func (x *request) dispatch() error {
	switch {
	case x.msg.isResponse():
		return x.respond()
	case !x.msg.isRequest():
		return x.notify()
	}
	m, ok := methods[x.msg.method]
	if !ok || !m.eras[x.era] {
		e := newError(jsonrpc.MethodNotFound, "the method is not supported")
		if x.era == peer.Modern {
			e.status = http.StatusNotFound
		}
		return x.reject(x.msg.id, e)
	}
	if m.own {
		if err := x.tools.Count(x.http.Context()); err != nil {
			return x.fail(err)
		}
	}
	return m.serve(x)
}

func (x *request) ping() error { return x.respondWith([]byte("{}")) }

// setLevel passes the level of log messages to all servers that have sessions.
func (x *request) setLevel() error {
	x.tellAll()
	return x.respondWith([]byte("{}"))
}

// callTool calls a tool.
func (x *request) callTool() error {
	if name, _ := x.msg.param("name"); !x.found {
		if serve := searchTool(x, name); serve != nil {
			return serve(x)
		}
	}
	return x.callNamed(kindOf(toolserver.Tool), api.ToolCall, "unknown tool")
}

// getPrompt gets a prompt.
func getPrompt(x *request) error {
	return x.callNamed(kindOf(toolserver.Prompt), api.ToolPrompt, "unknown prompt")
}

func (x *request) callNamed(k *listKind, op api.Operation, unknown string) error {
	name, ok := x.msg.param("name")
	if !ok {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "params must have a name"))
	}
	if _, asks := x.msg.params.Find("task"); asks && x.era == peer.Legacy {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "tasks of the revision 2025-11-25 are not supported; call without params.task, or with the revision "+peer.ModernVersion))
	}
	server, inner, ok := x.find(k, name)
	if !ok {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, unknown+": "+cut(name)))
	}
	r := &relay{request: x, server: server, item: toolserver.Item{Kind: k.kind, Name: inner}, operation: op,
		unknown: unknown + ": " + cut(name)}
	if inner != name {
		r.params = append(r.params, setText("name", inner))
	}
	return r.run()
}

// relayResource relays a request about a resource.
func (x *request) relayResource(op api.Operation) error {
	uri, ok := x.msg.param("uri")
	if !ok {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "params must have a uri"))
	}
	server, inner, ok := x.findResource(uri)
	if !ok {
		return x.reject(x.msg.id, x.noResource(uri))
	}
	r := &relay{request: x, server: server, item: toolserver.Item{Kind: toolserver.Resource, Name: inner}, operation: op,
		unknown: "unknown resource: " + cut(uri)}
	if inner != uri {
		r.params = append(r.params, setText("uri", inner))
	}
	return r.run()
}

func (x *request) noResource(uri string) *rpcError {
	e := newError(jsonrpc.InvalidParams, "unknown resource: "+cut(uri))
	if x.era == peer.Legacy {
		e.Code = codeNoResource
	}
	return e.withData(append(jsonedit.AppendString([]byte(`{"uri":`), uri), '}'))
}

// codeNoResource is the code of the legacy era for unknown resources.
const codeNoResource = -32002

// complete completes an argument of a prompt or a template.
func (x *request) complete() error {
	ref, _ := x.msg.params.Find("ref")
	if ref.Kind() != jsonedit.Object {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "params must have a ref"))
	}
	var doc jsonedit.Doc
	if err := doc.Scan(ref.Raw()); err != nil {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "ref: "+err.Error()))
	}
	if name := lookAlike(&doc, "type", "name", "uri"); name != "" {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "ref: "+cut(name)+" is another spelling of a member of the protocol"))
	}
	r := &relay{request: x, operation: api.Tools, unknown: "unknown ref"}
	typ, _ := doc.Find("type")
	key, kind := "uri", toolserver.Template
	if typ.IsText("ref/prompt") {
		key, kind = "name", toolserver.Prompt
	}
	v, _ := doc.Find(key)
	name, ok := v.Text()
	if !ok {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "the ref must have a "+key))
	}
	var inner string
	if kind == toolserver.Prompt {
		r.server, inner, ok = x.find(kindOf(kind), name)
	} else {
		r.server, inner, ok = x.findTemplate(name)
	}
	if !ok {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "unknown ref: "+cut(name)))
	}
	r.item = toolserver.Item{Kind: kind, Name: inner}
	if inner != name {
		r.params = append(r.params, jsonedit.Edit{Name: "ref", Value: doc.Apply(nil, setText(key, inner))})
	}
	return r.run()
}

// findTemplate returns the server of a template or resource that a completion is about.
func (x *request) findTemplate(uri string) (*toolserver.Server, string, bool) {
	if !x.view.prefixed {
		return x.view.servers[0], uri, true
	}
	for _, i := range x.visible(kindOf(toolserver.Template), x.gather(kindOf(toolserver.Template))) {
		if i.name == uri {
			return i.server, i.definition.name, true
		}
	}
	return x.findResource(uri)
}

// cut returns the beginning of what a client named, for errors.
func cut(name string) string {
	if len(name) > 100 {
		return name[:100]
	}
	return name
}

// fail responds with an error that is not one of the protocol.
func (x *request) fail(err error) error {
	if f, ok := errors.AsType[*peer.Failure](err); ok {
		e := newError(jsonrpc.InternalError, f.Reason)
		return x.reject(x.msg.id, e)
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return x.refuse(e)
	}
	return x.reject(x.msg.id, newError(jsonrpc.InternalError, explain(err)))
}

// refuse responds with an error of the gateway: its status is that of HTTP as long as
// nothing was sent.
func (x *request) refuse(err *apierr.Error) error {
	if !x.answer.hasBegun() {
		return err
	}
	return x.reject(x.msg.id, newError(jsonrpc.InternalError, err.Message))
}
