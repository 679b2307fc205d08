package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
)

// maxRounds is how often a server may ask for input during one request of a client of the
// legacy era.
const maxRounds = 16

// inputRequired returns the result of a server of the modern era that asks for input. A
// client of that era gets it with a state of ours around the server's. One of the legacy era
// is asked on its stream, and the server gets the request again: then the result is nil.
func (r *relay) inputRequired(ctx context.Context, doc *jsonedit.Doc) ([]byte, error) {
	inner, hasState := doc.Find("requestState")
	text, isText := inner.Text()
	if hasState && !isText {
		return nil, &peer.Failure{Kind: peer.Invalid, Reason: "the tool server sent a requestState that is not a text"}
	}
	if r.request.era == peer.Legacy {
		return nil, r.askClient(ctx, doc, text, hasState)
	}
	r.unfinished = true
	if !hasState && !r.approved {
		return doc.Bytes(), nil
	}
	s := r.newState()
	if hasState {
		s.Inner = &text
	}
	return doc.Apply(nil, setText("requestState", s.seal(r.request.Box))), nil
}

// askClient asks a client of the legacy era what the server wants to know, and sends the
// request again with the responses.
func (r *relay) askClient(ctx context.Context, doc *jsonedit.Doc, state string, hasState bool) error {
	if r.plain { // the responses would reach the server unread
		return errUnchecked
	}
	if r.rounds++; r.rounds > maxRounds {
		return &peer.Failure{Kind: peer.Invalid, Reason: "the tool server asks for input again and again"}
	}
	var responses jsonedit.Builder
	responses.Open('{')
	requests, _ := doc.Find("inputRequests")
	for key, q := range requests.Fields() {
		m, _ := q.Get("method")
		method, _ := m.Text()
		params, _ := q.Get("params")
		value, err := r.ask(ctx, method, params.Raw())
		if err != nil {
			return err
		}
		responses.Key(key.String())
		responses.Raw(value)
	}
	responses.Close('}')
	edits := []jsonedit.Edit{{Name: "inputResponses", Value: responses.Bytes()}, {Name: "requestState"}}
	if hasState {
		edits[1] = setText("requestState", state)
	}
	before := r.reply
	r.params = append(r.params, edits...)
	reply, err := r.send(ctx)
	if err != nil {
		return err
	}
	before.Close()
	r.reply = reply
	return nil
}

// errCannotAsk is why a client is not asked.
var errCannotAsk = &peer.Failure{Kind: peer.Invalid, Reason: "the tool server asks for input, which this client does not support"}

// ask sends a request to a client of the legacy era on its stream, and returns the result.
func (r *relay) ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	if !r.request.declares(questions[method]) || questions[method] == "" || !r.request.answer.events || r.request.token == nil {
		return nil, errCannotAsk
	}
	id := r.request.sessions.newID() + "-" + rand.Text()
	response, done := r.request.running.ask(runningKey{r.request.holder, id})
	defer done()
	var b jsonedit.Builder
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("id")
	b.String(id)
	b.Name("method")
	b.String(method)
	if params != nil {
		b.Name("params")
		b.Raw(params)
	}
	b.Close('}')
	if err := r.request.answer.send(b.Bytes()); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(stateTime)
	defer timeout.Stop()
	select {
	case msg := <-response:
		var doc jsonedit.Doc
		if err := doc.Scan(msg); err != nil {
			return nil, err
		}
		if v, ok := doc.Find("result"); ok {
			return v.Raw(), nil
		}
		return nil, &peer.Failure{Kind: peer.Invalid, Reason: "the client did not give the input that the tool server asks for"}
	case <-timeout.C:
		return nil, &peer.Failure{Kind: peer.TimedOut, Reason: "the client did not answer what the tool server asks for"}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// parkedCall is a call whose server of the legacy era waits for the answer of a client of the
// modern era.
type parkedCall struct {
	relay   *relay
	id      []byte // of the server's request
	expires *time.Timer
}

// parkedKey is the key of the only question of a parked call.
const parkedKey = "modelgate/question"

var errParkedExpired = errors.New("nobody answered the question of the tool server")

// park responds with the question of the server, which waits until the client sends the
// request again.
func (r *relay) park(doc *jsonedit.Doc, id []byte, method string) error {
	p := &parkedCall{relay: r, id: append([]byte(nil), id...)}
	key, ok := r.request.running.park(r.request.holder, p, stateTime)
	if !ok {
		return &peer.Failure{Kind: peer.Unavailable, Reason: "too many calls wait for answers of this client; answer those first"}
	}
	r.parked, r.unfinished = true, true
	s := r.newState()
	s.Parked = key
	params, _ := doc.Find("params")
	return r.request.respondWith(question(parkedKey, method, params.Raw(), s.seal(r.request.Box)))
}

// question returns a result that asks the client for one thing. params may be nil.
func question(key, method string, params []byte, state string) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("resultType")
	b.String("input_required")
	b.Name("inputRequests")
	b.Open('{')
	b.Name(key)
	b.Open('{')
	b.Name("method")
	b.String(method)
	if params != nil {
		b.Name("params")
		b.Raw(params)
	}
	b.Close('}')
	b.Close('}')
	b.Name("requestState")
	b.String(state)
	b.Close('}')
	return b.Bytes()
}

// unpark gives the server the answer, and relays on from its reply.
func (r *relay) unpark(ctx context.Context, key string) error {
	p := r.request.running.unpark(key)
	if p == nil {
		return errNotParked
	}
	from := p.relay
	r.reply, r.session, r.held, r.ownID, r.era = from.reply, from.session, from.held, from.ownID, from.era
	context.AfterFunc(ctx, func() { from.cancel(context.Cause(ctx)) })
	responses, _ := r.request.msg.params.Find("inputResponses")
	value, ok := responses.Get(parkedKey)
	if !ok {
		return r.respondTo(ctx, (&jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the client did not answer"}).Response(p.id))
	}
	return r.respondTo(ctx, jsonrpc.Response(p.id, "result", value.Raw()))
}
