package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
)

// questions are the requests that servers may send to clients, with the capability that a
// client declares for them.
var questions = map[string]string{
	"elicitation/create":     "elicitation",
	"sampling/createMessage": "sampling",
	"roots/list":             "roots",
}

// errUnsupported answers a request of a server that the client does not take.
var errUnsupported = &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "the client does not support this request"}

// declares reports whether the client declared a capability.
func (x *request) declares(name string) bool {
	v, err := jsonedit.ParseValue(orEmpty(x.client.Capabilities))
	if err != nil {
		return false
	}
	_, ok := v.Get(name)
	return ok
}

// passQuestion passes a request of a server of the legacy era on. A client of that era gets it on
// the stream, and responds with a request of its own. To one of the modern era it is the
// result, and the server waits until the client sends the request again. last is true if
// nothing more is relayed now.
func (r *relay) passQuestion(ctx context.Context, doc *jsonedit.Doc) (last bool, err error) {
	id, _ := doc.Find("id")
	m, _ := doc.Find("method")
	method, _ := m.Text()
	capability, known := questions[method]
	_, guarded := r.request.tools.Guards() // they do not read questions
	switch {
	case method == "ping":
		return false, r.respondTo(ctx, jsonrpc.Response(id.Raw(), "result", []byte("{}")))
	case !known, guarded, !r.request.declares(capability),
		r.request.era == peer.Legacy && (!r.request.answer.events || r.request.token == nil):
		return false, r.respondTo(ctx, errUnsupported.Response(id.Raw()))
	case r.request.era == peer.Modern:
		return true, r.park(doc, id.Raw(), method)
	}
	outer := jsonedit.AppendString(nil, outerID(r.server.Slug, id.Raw()))
	return false, r.request.answer.send(doc.Apply(nil, jsonedit.Edit{Name: "id", Value: outer}))
}

// outerID returns the id under which a client sees a request of a server, so that its
// response can be passed on by any node.
func outerID(slug string, id []byte) string {
	return slug + "~" + base64.RawURLEncoding.EncodeToString(id)
}

// innerID returns the server and the id of the request that a response is for.
func innerID(outer string) (slug string, id []byte, ok bool) {
	slug, text, ok := strings.Cut(outer, "~")
	id, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return "", nil, false
	}
	_, err = jsonedit.ParseValue(id)
	return slug, id, err == nil
}

// respondTo sends the response to a request of the server.
func (r *relay) respondTo(ctx context.Context, response []byte) error {
	reply, err := r.request.Peers.Send(ctx, &peer.Call{Server: r.server, Credential: r.cred, Client: r.request.client, Session: r.session,
		Message: response, Notify: true})
	if err != nil {
		return err
	}
	reply.Close()
	return nil
}

// respond passes the response of a client to the server that asked.
func (x *request) respond() error {
	v, _ := x.msg.top.Find("id")
	outer, _ := v.Text()
	if x.token == nil {
		return x.reject(nil, errNoSession)
	}
	if x.running.respond(runningKey{x.holder, outer}, bytes.Clone(x.msg.body)) {
		x.answer.accepted()
		return nil
	}
	slug, id, ok := innerID(outer)
	server := x.view.server(slug)
	if !ok || server == nil {
		return x.reject(nil, newError(jsonrpc.InvalidRequest, "no request with this id waits for a response"))
	}
	ctx := x.http.Context()
	r := &relay{request: x, server: server}
	var err error
	if r.cred, err = x.credential(ctx, server); err == nil {
		err = r.openSession(ctx)
	}
	if err != nil {
		return x.failResponse(err)
	}
	run, err := r.checkResponse(ctx)
	if err != nil {
		return err
	}
	reply, err := x.Peers.Send(ctx, &peer.Call{Server: server, Credential: r.cred, Client: x.client, Session: r.session,
		Message: x.msg.with(changes{top: []jsonedit.Edit{{Name: "id", Value: id}}}), Notify: true})
	run.End(dataplane.ToolEnd{Err: err})
	if err != nil {
		return x.failResponse(err)
	}
	reply.Close()
	x.answer.accepted()
	return nil
}

// failResponse responds to a response that did not reach its server.
func (x *request) failResponse(err error) error {
	return apierr.New(apierr.UpstreamFailed, "the response did not reach the tool server: %s", explain(err)).WithCause(err)
}
