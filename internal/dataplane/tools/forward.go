package tools

import (
	"context"
	"errors"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
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
			return ignoreFailure(e.relay.respondTo(ctx, v.Raw(), unsupported))
		}
		_, err := e.relay.passQuestion(ctx, &doc)
		return ignoreFailure(err)
	}
	m, _ := doc.Find("method")
	if _, guarded := w.request.tools.Guards(); id == nil && !guarded && !m.IsText("notifications/resources/updated") {
		return w.request.answer.send(e.msg)
	}
	if !m.IsText("notifications/resources/updated") {
		return nil
	}
	var params jsonedit.Doc
	if v, _ := doc.Find("params"); params.Scan(v.Raw()) != nil {
		return nil
	}
	v, _ := params.Find("uri")
	inner, _ := v.Text()
	if id == nil {
		return w.request.answer.send(e.msg)
	}
	for uri, s := range w.uris {
		if s.server.ID == e.relay.server.ID && s.inner == inner {
			return w.notice("notifications/resources/updated", params.Apply(nil, setText("uri", uri)), id)
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
