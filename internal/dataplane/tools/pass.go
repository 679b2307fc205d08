package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// pass relays what the server answers. It returns an error if there is no response.
func (r *relay) pass(ctx context.Context) error {
	for {
		msg, err := r.reply.Next()
		if errors.Is(err, io.EOF) {
			return &peer.Failure{Kind: peer.Invalid, Reason: "the tool server ended its answer without a response"}
		}
		if err != nil {
			return err
		}
		last, err := r.passOne(ctx, msg)
		if last || err != nil {
			return err
		}
	}
}

// passOne relays one message, and reports whether it is the response.
func (r *relay) passOne(ctx context.Context, msg []byte) (last bool, err error) {
	var doc jsonedit.Doc
	if err := doc.Scan(msg); err != nil {
		return false, &peer.Failure{Kind: peer.Invalid, Reason: "the tool server sent something that is not a message"}
	}
	id, hasID := doc.Find("id")
	if method, ok := doc.Find("method"); ok {
		if hasID {
			return r.passQuestion(ctx, &doc)
		}
		if method.IsText("notifications/cancelled") { // of a request of the server
			return false, nil
		}
		return false, r.passNotification(&doc)
	}
	if want := r.wantedID(); !bytes.Equal(id.Raw(), want) && !sameID(id, want) {
		return false, nil // of another request
	}
	out, err := r.response(ctx, &doc)
	if err != nil || out == nil {
		return out != nil, err
	}
	return true, r.request.answer.end(out, r.status(&doc))
}

// status returns the status of HTTP for a response: the modern era has others for some
// errors.
func (r *relay) status(response *jsonedit.Doc) int {
	e, ok := response.Find("error")
	if !ok || r.request.era != peer.Modern {
		return http.StatusOK
	}
	v, _ := e.Get("code")
	switch code, _ := v.Int(); code {
	case codeHeaderMismatch, codeVersion, codeNoCapability:
		return http.StatusBadRequest
	case jsonrpc.MethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusOK
}

func (r *relay) wantedID() []byte {
	if r.ownID != nil {
		return r.ownID
	}
	return r.request.msg.id
}

// sameID reports whether two ids are the same in another spelling.
func sameID(a jsonedit.Value, want []byte) bool {
	b, err := jsonedit.ParseValue(want)
	if err != nil {
		return false
	}
	at, aIsText := a.Text()
	bt, bIsText := b.Text()
	if aIsText || bIsText {
		return aIsText && bIsText && at == bt
	}
	an, aIsNumber := a.Float()
	bn, bIsNumber := b.Float()
	return aIsNumber && bIsNumber && an == bn
}

// response returns the response for the client, nil if the server was asked again.
func (r *relay) response(ctx context.Context, doc *jsonedit.Doc) ([]byte, error) {
	var edits []jsonedit.Edit
	if r.ownID != nil {
		edits = append(edits, jsonedit.Edit{Name: "id", Value: r.request.msg.id})
	}
	v, ok := doc.Find("result")
	_, guarded := r.request.tools.Guards()
	if ok && v.Kind() != jsonedit.Object {
		return nil, &peer.Failure{Kind: peer.Invalid, Reason: "the tool server sent a result that is not an object"}
	}
	if ok && guarded {
		value, err := r.result(ctx, v.Raw())
		if err != nil || value == nil {
			return nil, err
		}
		return jsonrpc.Response(r.request.msg.id, "result", value), nil
	}
	if ok {
		value, err := r.result(ctx, v.Raw())
		if err != nil || value == nil {
			return nil, err
		}
		if !bytes.Equal(value, v.Raw()) {
			edits = append(edits, jsonedit.Edit{Name: "result", Value: value})
		}
	}
	if e, ok := doc.Find("error"); ok {
		value, err := r.call.CheckResult(ctx, e.Raw()) // models read errors too
		if err != nil {
			return nil, err
		}
		if guarded {
			return jsonrpc.Response(r.request.msg.id, "error", value), nil
		}
		if !bytes.Equal(value, e.Raw()) {
			edits = append(edits, jsonedit.Edit{Name: "error", Value: value})
		}
	}
	if len(edits) == 0 {
		return doc.Bytes(), nil
	}
	return doc.Apply(nil, edits...), nil
}

// result returns a result for the client: as guardrails leave it, and with what its era
// demands.
func (r *relay) result(ctx context.Context, raw []byte) ([]byte, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil {
		return nil, &peer.Failure{Kind: peer.Invalid, Reason: "the tool server sent a result that names something twice"}
	}
	typ, hasType := doc.Find("resultType")
	if r.era == peer.Modern && typ.IsText("input_required") {
		if _, guarded := r.request.tools.Guards(); guarded {
			return nil, errUnchecked
		}
		return r.inputRequired(ctx, &doc)
	}
	if r.era == peer.Modern && typ.IsText("task") {
		if err := r.newTask(&doc); err != nil {
			return nil, err
		}
	}
	if r.task != nil {
		return r.taskResult(ctx, &doc)
	}
	if e, ok := doc.Find("isError"); ok {
		r.isError, _ = e.Bool()
	}
	value, err := r.call.CheckResult(ctx, json.RawMessage(raw))
	if err != nil {
		if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Denied && r.operation == api.ToolCall {
			return r.request.toolError(e), nil
		}
		return nil, err
	}
	if r.request.era == peer.Modern && !hasType {
		if err := doc.Scan(value); err != nil {
			return nil, err
		}
		return doc.Apply(nil, r.completion()...), nil
	}
	return value, nil
}

// completion returns what the modern era demands of results and the legacy one has not.
func (r *relay) completion() []jsonedit.Edit {
	edits := []jsonedit.Edit{{Name: "resultType", Value: []byte(`"complete"`)}}
	if r.item.Kind == toolserver.Resource {
		edits = append(edits, jsonedit.Edit{Name: "ttlMs", Value: []byte("0")}, jsonedit.Edit{Name: "cacheScope", Value: []byte(`"private"`)})
	}
	return edits
}
