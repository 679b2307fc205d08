package tools

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// relay is a request on its way to one server.
type relay struct {
	request   *request
	server    *toolserver.Server
	item      toolserver.Item
	operation api.Operation
	unknown   string // the message for an item that the caller may not use
	params    []jsonedit.Edit
	meta      []jsonedit.Edit
	plain     bool // guardrails act on arguments: nothing that they do not read is sent

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
	task       *task  // that the request is about, or that the server made; nil for none
	taskName   string // its id as the client knows it
}

// run serves the request: it checks, sends and relays what the server answers.
func (r *relay) run() error {
	r.request.tools.Describe(r.operation, r.server.Slug, r.item.Name)
	if !r.request.view.selects(r.server, r.item) {
		return r.request.reject(r.request.msg.id, newError(jsonrpc.InvalidParams, r.unknown))
	}
	ctx, release := r.detach()
	defer release()
	if r.request.token != nil {
		defer r.request.running.begin(runningKey{r.request.holder, string(r.request.msg.id)}, r.cancel)()
	}
	if answered, err := r.awaitSignIn(ctx); answered || err != nil {
		return r.respondFailed(ctx, err)
	}
	if err := r.prepare(ctx); err != nil {
		return r.respondFailed(ctx, err)
	}
	if r.server.Holds(r.item) && (r.definition == nil || !r.request.view.allows(r.server, r.item, r.definition.digest)) {
		return r.request.reject(r.request.msg.id, newError(jsonrpc.InvalidParams, r.unknown))
	}
	if r.task != nil && r.era != peer.Modern {
		return r.request.reject(r.request.msg.id, newError(jsonrpc.InvalidParams, r.unknown))
	}
	if r.request.era == peer.Modern && r.era == peer.Modern && !r.request.found {
		if problem := r.checkParams(); problem != nil {
			return r.request.reject(r.request.msg.id, problem)
		}
	}
	if problem := r.resume(); problem != nil {
		return r.request.reject(r.request.msg.id, problem)
	}
	if answered, err := r.approve(ctx); answered || err != nil {
		return r.respondFailed(ctx, err)
	}
	r.restrict()
	arguments, _ := r.request.msg.params.Find("arguments")
	run, err := r.request.tools.Begin(ctx, dataplane.ToolCall{Operation: r.operation, Server: r.server, Name: r.item.Name,
		Arguments: arguments.Raw(), Aside: r.textAside(), Size: int64(len(r.request.msg.body))})
	if err != nil {
		return r.respondDenied(err)
	}
	r.call = run
	if changed := run.Arguments(); !bytes.Equal(changed, arguments.Raw()) {
		r.params = append(r.params, jsonedit.Edit{Name: "arguments", Value: changed})
	}
	if r.state != nil && r.state.Parked != "" {
		err = r.unpark(ctx, r.state.Parked)
	} else {
		r.reply, err = r.send(ctx)
	}
	if err != nil {
		r.finish(0, err)
		if r.reply != nil {
			r.reply.Close()
		}
		return r.respondFailed(ctx, err)
	}
	err = r.pass(ctx)
	r.finish(r.reply.Status(), err)
	if !r.parked {
		r.reply.Close()
	}
	return r.respondFailed(ctx, err)
}

// detach returns a context for the server, which ends with the client's request unless the
// call is parked.
func (r *relay) detach() (ctx context.Context, release func()) {
	ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(r.request.http.Context()))
	stop := context.AfterFunc(r.request.http.Context(), func() { r.cancel(context.Cause(r.request.http.Context())) })
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
	if r.cred, err = r.request.credential(ctx, r.server); err != nil {
		return err
	}
	if r.era, err = r.request.Peers.Era(ctx, r.server, r.cred); err != nil {
		return err
	}
	if r.server.Holds(r.item) || r.item.Kind == toolserver.Tool && (r.server.Writes != "" || r.server.Destroys != "" || r.era == peer.Modern) {
		r.definition, err = r.request.definitionOf(ctx, r.server, r.cred, r.item)
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

// respondFailed responds with an error, unless there is none or the client has gone.
func (r *relay) respondFailed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errCancelled): // the client expects no response
		r.request.answer.close()
		if !r.request.answer.hasBegun() {
			r.request.answer.accepted()
		}
		return nil
	case r.request.http.Context().Err() != nil:
		return r.request.http.Context().Err()
	}
	if e, ok := errors.AsType[*SignInError](err); ok {
		return r.askSignIn(e)
	}
	return r.request.fail(err)
}

// respondDenied responds to a call that a guardrail or limit refuses: guardrails as a result that
// the model reads.
func (r *relay) respondDenied(err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != apierr.Denied || r.operation != api.ToolCall {
		return r.request.fail(err)
	}
	return r.request.respondWith(r.request.toolError(e))
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
		reply, err := r.request.Peers.Send(ctx, call)
		f, failed := errors.AsType[*peer.Failure](err)
		if !failed || try > 0 || ctx.Err() != nil {
			return reply, err
		}
		switch f.Kind {
		case peer.SessionLost:
			if r.held {
				r.request.sessions.lose(r.key(), r.session)
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
	return r.operation != api.ToolCall || r.definition != nil && r.server.TrustAnnotations && r.definition.idempotent
}

// key returns whose session of the server it is. A session begins with what its client can be
// asked, which clients of the modern era say with each request: programs with the same key differ.
func (r *relay) key() sessionKey {
	holder := []string{r.request.holder}
	if r.request.token == nil {
		for _, name := range [...]string{"elicitation", "roots", "sampling"} {
			if r.request.declares(name) {
				holder = append(holder, name)
			}
		}
	}
	return keyOf(r.server, r.cred, strings.Join(holder, " "))
}

// build returns the message in the terms of the server.
func (r *relay) build(ctx context.Context) (*peer.Call, error) {
	call := &peer.Call{Server: r.server, Credential: r.cred, Client: r.request.client, Method: r.request.msg.method}
	c := changes{params: slices.Clone(r.params), meta: slices.Clone(r.meta)}
	if r.era == peer.Modern {
		if call.Name = r.item.Name; r.task != nil {
			call.Name = r.task.ID
		}
		call.Params = r.withoutUndeclared(r.paramHeaders())
		if r.request.era == peer.Legacy {
			c.meta = append(c.meta, jsonedit.Edit{Name: metaVersion, Value: []byte(`"` + peer.ModernVersion + `"`)},
				jsonedit.Edit{Name: metaCapabilities, Value: orEmpty(r.request.client.Capabilities)})
			if r.request.client.Info != nil {
				c.meta = append(c.meta, jsonedit.Edit{Name: metaInfo, Value: r.request.client.Info})
			}
		}
		if r.plain {
			c.top = append(c.top, r.useOwnID())
		}
		call.Message = r.request.msg.with(c)
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
	if r.request.token == nil || r.plain { // others use the session at the same time
		c.top = append(c.top, r.useOwnID())
	}
	call.Message = r.request.msg.with(c)
	return call, nil
}

// useOwnID returns the edit that gives the message an id of the gateway: guardrails do not read that
// of the client.
func (r *relay) useOwnID() jsonedit.Edit {
	r.ownID = jsonedit.AppendString(nil, r.request.sessions.newID())
	return jsonedit.Edit{Name: "id", Value: r.ownID}
}

// openSession finds the session at a server of the legacy era: that of the client's token,
// or one in memory.
func (r *relay) openSession(ctx context.Context) error {
	if r.request.token != nil && !r.held && !r.request.sessions.has(r.key()) {
		if s, ok := r.request.token.session(r.server.ID); ok {
			r.session = s
			return nil
		}
	}
	r.held = true
	var err error
	r.session, _, err = r.request.sessions.open(ctx, r.key(), r.server, r.cred, r.request.client)
	return err
}
