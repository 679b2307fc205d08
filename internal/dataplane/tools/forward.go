package tools

import (
	"context"
	"errors"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// forward passes a message of a server on.
func (w *watch) forward(ctx context.Context, e watchEvent, id []byte) error {
	var doc jsonedit.Doc
	if w.request.view.server(e.relay.server.Slug) == nil || doc.Scan(e.msg) != nil {
		return nil
	}
	if _, isRequest := doc.Find("id"); isRequest {
		if id != nil { // the modern era has none
			v, _ := doc.Find("id")
			return ignoreFailure(e.relay.respondTo(ctx, errUnsupported.Response(v.Raw())))
		}
		_, err := e.relay.passQuestion(ctx, &doc)
		return ignoreFailure(err)
	}
	m, _ := doc.Find("method")
	if _, guarded := w.request.tools.Guards(); id == nil && !guarded && !m.IsText("notifications/resources/updated") {
		return w.request.answer.send(e.msg)
	}
	var params jsonedit.Doc
	v, _ := doc.Find("params")
	if params.Scan(v.Raw()) != nil {
		return nil
	}
	switch {
	case m.IsText("notifications/tasks") && id != nil:
		return w.forwardNamed(e, w.tasks, "taskId", &params, id)
	case !m.IsText("notifications/resources/updated"):
		return nil
	case id == nil:
		return w.forwardLegacy(e, &params)
	}
	return w.forwardNamed(e, w.uris, "uri", &params, id)
}

// forwardLegacy passes on that a resource has changed, to a client of the legacy era. Guardrails on
// results read no more of it than the address that the client knows.
func (w *watch) forwardLegacy(e watchEvent, params *jsonedit.Doc) error {
	v, _ := params.Find("uri")
	uri, _ := v.Text()
	if !w.request.view.selects(e.relay.server, toolserver.Item{Kind: toolserver.Resource, Name: uri}) {
		return nil
	}
	if _, guarded := w.request.tools.Guards(); !guarded {
		return w.request.answer.send(e.msg)
	}
	return w.notice("notifications/resources/updated", append(jsonedit.AppendString([]byte(`{"uri":`), uri), '}'), nil)
}

// forwardNamed passes on a notification about something that the client subscribes to, under the
// name by which it knows that. What the caller may no longer use does not pass.
func (w *watch) forwardNamed(e watchEvent, list map[string]subscription, member string, params *jsonedit.Doc, id []byte) error {
	v, _ := params.Find(member)
	inner, _ := v.Text()
	m := "notifications/resources/updated"
	if member == "taskId" {
		m = "notifications/tasks"
	}
	if _, guarded := w.request.tools.Guards(); guarded {
		params = new(jsonedit.Doc)
	}
	for outer, s := range list {
		if s.server.ID == e.relay.server.ID && s.inner == inner && w.request.view.selects(s.server, s.item) {
			if err := w.notice(m, apply(params, []jsonedit.Edit{setText(member, outer)}), id); err != nil {
				return err
			}
		}
	}
	return nil
}

// ignoreFailure drops a failure of a server: the stream is one of the client.
func ignoreFailure(err error) error {
	if _, ok := errors.AsType[*peer.Failure](err); ok {
		return nil
	}
	return err
}
