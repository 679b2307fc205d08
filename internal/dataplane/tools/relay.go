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
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// relay is a request on its way to one server.
type relay struct {
	*request
	server    *toolserver.Server
	item      toolserver.Item
	operation api.Operation
	unknown   string // the message for an item that the caller may not use
	params    []jsonedit.Edit

	cred       peer.Credential
	era        peer.Era // of the server
	definition *definition
	call       *dataplane.ToolRun
	reply      peer.Reply
	cancel     context.CancelCauseFunc // of the context of the reply
	parked     bool                    // the reply stays open for a later request
	rounds     int                     // in which a server of the modern era asked for input
	approved   bool                    // the user has approved the call, as a rule demands
	state      *state                  // that the client returned; nil for none
	session    peer.Session
	held       bool   // the session is in memory, for the holder
	ownID      []byte // in place of the client's; nil for none
	isError    bool   // the tool reported an error
	unfinished bool   // the server asks for input first
}

// run serves the request: it checks, sends and relays what the server answers.
func (r *relay) run() error {
	r.tools.Describe(r.operation, r.server.Slug, r.item.Name)
	if !r.view.selects(r.server, r.item) {
		return r.reject(r.msg.id, newError(codeInvalidParams, r.unknown))
	}
	ctx, release := r.detach()
	defer release()
	if r.request.era == peer.Legacy {
		defer r.running.begin(runningKey{r.holder, string(r.msg.id)}, r.cancel)()
	}
	if err := r.prepare(ctx); err != nil {
		return r.failed(ctx, err)
	}
	if r.server.Holds(r.item) && (r.definition == nil || !r.view.allows(r.server, r.item, r.definition.digest)) {
		return r.reject(r.msg.id, newError(codeInvalidParams, r.unknown))
	}
	if r.request.era == peer.Modern && r.era == peer.Modern {
		if problem := r.checkParams(); problem != nil {
			return r.reject(r.msg.id, problem)
		}
	}
	parked, problem := r.resume()
	if problem != nil {
		return r.reject(r.msg.id, problem)
	}
	if answered, err := r.approve(ctx); answered || err != nil {
		return r.failed(ctx, err)
	}
	arguments, _ := r.msg.params.Find("arguments")
	run, err := r.tools.Begin(ctx, dataplane.ToolCall{Operation: r.operation, Server: r.server, Name: r.item.Name,
		Arguments: arguments.Raw(), Size: int64(len(r.msg.body))})
	if err != nil {
		return r.denied(err)
	}
	r.call = run
	if changed := run.Arguments(); !bytes.Equal(changed, arguments.Raw()) {
		r.params = append(r.params, jsonedit.Edit{Name: "arguments", Value: changed})
	}
	if parked != nil {
		err = r.unpark(ctx, parked)
	} else {
		r.reply, err = r.send(ctx)
	}
	if err != nil {
		r.finish(0, err)
		return r.failed(ctx, err)
	}
	err = r.pass(ctx)
	r.finish(r.reply.Status(), err)
	if !r.parked {
		r.reply.Close()
	}
	return r.failed(ctx, err)
}

// detach returns a context for the server, which ends with the client's request unless the
// call is parked.
func (r *relay) detach() (ctx context.Context, release func()) {
	ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(r.http.Context()))
	stop := context.AfterFunc(r.http.Context(), func() { r.cancel(context.Cause(r.http.Context())) })
	return ctx, func() {
		stop()
		if !r.parked {
			r.cancel(nil)
		}
	}
}

// prepare finds out what the server speaks, and what it says of the item if that decides
// about the call.
func (r *relay) prepare(ctx context.Context) (err error) {
	if r.cred, err = r.credential(ctx, r.server); err != nil {
		return err
	}
	if r.era, err = r.Peers.Era(ctx, r.server, r.cred); err != nil {
		return err
	}
	if r.server.Holds(r.item) || r.item.Kind == toolserver.Tool && (r.server.Writes != "" || r.server.Destroys != "" || r.era == peer.Modern) {
		r.definition, err = r.definitionOf(ctx, r.server, r.cred, r.item)
	}
	return err
}

// finish records how the call ended.
func (r *relay) finish(status int, err error) {
	f, failed := errors.AsType[*peer.Failure](err)
	if failed && status == 0 {
		status = f.Status
	}
	r.call.End(dataplane.ToolEnd{Status: status, Unsent: failed && f.Unsent, IsError: r.isError, Unfinished: r.unfinished, Err: err})
}

// failed responds with an error, unless there is none or the client has gone.
func (r *relay) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errCancelled): // the client expects no response
		r.answer.close()
		if !r.answer.hasBegun() {
			r.answer.accepted()
		}
		return nil
	case r.http.Context().Err() != nil:
		return r.http.Context().Err()
	}
	return r.fail(err)
}

// denied responds to a call that a guardrail or limit refuses: guardrails as a result that
// the model reads.
func (r *relay) denied(err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != apierr.Denied || r.item.Kind != toolserver.Tool {
		return r.fail(err)
	}
	return r.respondWith(r.toolError(e))
}

// toolError returns the result of a tool that was not run.
func (x *request) toolError(e *apierr.Error) []byte {
	out := dataplane.DeniedResult(e)
	var doc jsonedit.Doc
	if x.era == peer.Legacy || doc.Scan(out) != nil {
		return out
	}
	return doc.Apply(nil, jsonedit.Edit{Name: "resultType", Value: []byte(`"complete"`)})
}

// send sends the message. One that the server did not take is sent again once: because its
// session was lost, or because nothing of it arrived or a repetition changes nothing.
func (r *relay) send(ctx context.Context) (peer.Reply, error) {
	for try := 0; ; try++ {
		call, err := r.build(ctx)
		if err != nil {
			return nil, err
		}
		reply, err := r.Peers.Send(ctx, call)
		f, failed := errors.AsType[*peer.Failure](err)
		if !failed || try > 0 || ctx.Err() != nil {
			return reply, err
		}
		switch f.Kind {
		case peer.SessionLost:
			if r.held {
				r.sessions.lose(r.key(), r.session)
			}
			r.held = true
		case peer.Unreachable:
			if !f.Unsent && !r.mayRepeat() {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// mayRepeat reports whether a second call has no other effect than one.
func (r *relay) mayRepeat() bool {
	return r.item.Kind != toolserver.Tool || r.definition != nil && r.server.TrustAnnotations && r.definition.idempotent
}

func (r *relay) key() sessionKey { return keyOf(r.server, r.cred, r.holder) }

// build returns the message in the terms of the server.
func (r *relay) build(ctx context.Context) (*peer.Call, error) {
	call := &peer.Call{Server: r.server, Credential: r.cred, Client: r.client, Method: r.msg.method}
	c := changes{params: r.params}
	if r.era == peer.Modern {
		call.Name = r.item.Name
		call.Params = r.paramHeaders()
		if r.request.era == peer.Legacy {
			c.meta = append(c.meta, jsonedit.Edit{Name: metaVersion, Value: []byte(`"` + peer.ModernVersion + `"`)},
				jsonedit.Edit{Name: metaCapabilities, Value: orEmpty(r.client.Capabilities)})
			if r.client.Info != nil {
				c.meta = append(c.meta, jsonedit.Edit{Name: metaInfo, Value: r.client.Info})
			}
		}
		call.Message = r.msg.with(c)
		return call, nil
	}
	if err := r.openSession(ctx); err != nil {
		return nil, err
	}
	call.Session = r.session
	if r.request.era == peer.Modern {
		for _, name := range [...]string{metaVersion, metaCapabilities, metaInfo} {
			c.meta = append(c.meta, jsonedit.Edit{Name: name})
		}
	}
	if r.token == nil { // others use the session at the same time
		r.ownID = jsonedit.AppendString(nil, r.sessions.newID())
		c.top = append(c.top, jsonedit.Edit{Name: "id", Value: r.ownID})
	}
	call.Message = r.msg.with(c)
	return call, nil
}

// openSession finds the session at a server of the legacy era: that of the client's token,
// or one in memory.
func (r *relay) openSession(ctx context.Context) error {
	if r.token != nil && !r.held && !r.sessions.has(r.key()) {
		if s, ok := r.token.session(r.server.ID); ok {
			r.session = s
			return nil
		}
	}
	r.held = true
	var err error
	r.session, _, err = r.sessions.open(ctx, r.key(), r.server, r.cred, r.client)
	return err
}

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
			return r.asked(ctx, &doc)
		}
		if method.IsText("notifications/cancelled") { // of a request of the server
			return false, nil
		}
		return false, r.answer.send(msg)
	}
	if want := r.wantedID(); !bytes.Equal(id.Raw(), want) && !sameID(id, want) {
		return false, nil // of another request
	}
	out, err := r.response(ctx, &doc)
	if err != nil || out == nil {
		return out != nil, err
	}
	return true, r.answer.end(out, r.status(&doc))
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
	case codeNoMethod:
		return http.StatusNotFound
	}
	return http.StatusOK
}

func (r *relay) wantedID() []byte {
	if r.ownID != nil {
		return r.ownID
	}
	return r.msg.id
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
		edits = append(edits, jsonedit.Edit{Name: "id", Value: r.msg.id})
	}
	v, ok := doc.Find("result")
	if ok && v.Kind() == jsonedit.Object {
		value, err := r.result(ctx, v.Raw())
		if err != nil || value == nil {
			return nil, err
		}
		if !bytes.Equal(value, v.Raw()) {
			edits = append(edits, jsonedit.Edit{Name: "result", Value: value})
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
		return r.inputRequired(ctx, &doc)
	}
	if e, ok := doc.Find("isError"); ok {
		r.isError, _ = e.Bool()
	}
	value, err := r.call.CheckResult(ctx, json.RawMessage(raw))
	if err != nil {
		if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Denied && r.item.Kind == toolserver.Tool {
			return r.toolError(e), nil
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
