package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// relay sends a call to the agent and passes on what it answers.
func (x *request) relay(c *call) error {
	ctx := x.http.Context()
	binding, other := bindingRPC, bindingREST
	if x.rest {
		binding, other = other, binding
	}
	f, ok := x.card.find(binding, x.http.Header.Get(versionHeader))
	if !ok {
		return apierr.New(apierr.Invalid, "the agent does not have the binding %s; use %s, as its card says", binding, other).
			WithCode("a2a_operation_not_supported")
	}
	if c.tenant != "" && c.tenant != f.tenant {
		return errTenant
	}
	run, err := x.begin(ctx, c)
	if err != nil {
		return err
	}
	reply, err := x.peers.SendForeign(ctx, x.build(c, f, run))
	if err != nil {
		x.end(run, 0, err)
		return clientError(err)
	}
	defer reply.Close()
	p := &pass{request: x, call: c, run: run, reply: reply}
	if reply.Streams() {
		err = p.stream(ctx)
	} else {
		err = p.answer(ctx)
	}
	x.end(run, reply.Status(), p.partly(err))
	if p.begun {
		return nil // the error is the last event
	}
	return clientError(err)
}

// begin checks a call and reserves what it may use.
func (x *request) begin(ctx context.Context, c *call) (*dataplane.ToolRun, error) {
	t := dataplane.ToolCall{Operation: api.Agents, Server: x.agent, Size: int64(len(c.body)), Aside: c.aside}
	if c.kind.sends {
		t.Operation, t.Name = api.AgentMessage, toolserver.Message.Name
		t.Same = contentOf(c.params)
	}
	if list := x.http.Header.Get(extensionsHeader); list != "" {
		t.Aside = append(t.Aside, list)
	}
	if c.params.Kind() == jsonedit.Object {
		t.Arguments = inside(c.params.Raw(), c)
	}
	if c.context != "" {
		x.tools.Session = x.agent.ID + " " + c.context
	}
	x.tools.Describe(t.Operation, x.agent.Slug, t.Name)
	return x.tools.Begin(ctx, t)
}

// contentOf returns the content of a message, without the id that each has of its own.
func contentOf(params jsonedit.Value) json.RawMessage {
	message, _ := params.Get("message")
	for _, name := range [...]string{"parts", "content"} {
		if v, ok := message.Get(name); ok {
			return v.Raw()
		}
	}
	return nil
}

// inside returns the parameters of a call with the ids of the agent.
func inside(params []byte, c *call) json.RawMessage {
	from := cap(c.body) - cap(params)
	list := make([]splice, len(c.edits))
	for i, e := range c.edits {
		list[i] = splice{e.from - from, e.to - from, e.with}
	}
	return apply(params, list)
}

// build returns the request to the agent.
func (x *request) build(c *call, f *face, run *dataplane.ToolRun) *peer.ForeignCall {
	out := &peer.ForeignCall{Server: x.agent, Credential: x.cred, Method: c.method, URL: f.url, Header: http.Header{
		"Accept": {"application/json, application/a2a+json, text/event-stream"}}}
	for _, name := range [...]string{versionHeader, extensionsHeader} {
		if v := x.http.Header.Get(name); v != "" {
			out.Header[name] = []string{v}
		}
	}
	if x.rest {
		out.URL = below(f.url, c.path, c.query)
	}
	if c.body == nil {
		return out
	}
	out.Header["Content-Type"] = []string{"application/json"}
	if strings.HasPrefix(x.http.Header.Get("Content-Type"), "application/a2a+json") {
		out.Header["Content-Type"] = []string{"application/a2a+json"}
	}
	var list []splice
	if params := c.params.Raw(); params != nil && run.Arguments() != nil {
		from := cap(c.body) - cap(params)
		list = append(list, splice{from, from + len(params), run.Arguments()})
	}
	if id := c.id.Raw(); id != nil {
		from := cap(c.body) - cap(id)
		list = append(list, splice{from, from + len(id), c.sentID})
	}
	slices.SortFunc(list, func(a, b splice) int { return a.from - b.from })
	out.Body = apply(c.body, list)
	return out
}

// below returns an address below that of an interface. path is escaped.
func below(base *url.URL, path, query string) *url.URL {
	u := *base
	u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + path
	u.RawQuery = query
	if plain, err := url.PathUnescape(u.RawPath); err == nil {
		u.Path = plain
	}
	return &u
}

// end records how a call ended. An answer that guardrails deny is one: the agent has done what
// was asked.
func (x *request) end(run *dataplane.ToolRun, status int, err error) {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Denied {
		err = nil
	}
	if f, ok := errors.AsType[*peer.Failure](err); ok {
		plain := *f
		plain.Reason = reasonOf(f)
		err = &plain
	}
	run.End(dataplane.ToolEnd{Status: status, Err: err})
}

// pass passes an answer on.
type pass struct {
	*request
	call  *call
	run   *dataplane.ToolRun
	reply peer.ForeignReply
	begun bool   // as a stream
	some  bool   // an event has reached the client
	held  buffer // nothing if events pass at once
}

// answer passes a single message on.
func (p *pass) answer(ctx context.Context) error {
	raw, err := p.reply.Next()
	if errors.Is(err, io.EOF) { // without a body
		if p.rest {
			return p.write(p.reply.Status(), "application/json", nil)
		}
		return invalidAnswer("accepted the request without a response")
	}
	if err != nil {
		return err
	}
	out, err := p.message(ctx, raw, true)
	if err != nil {
		return err
	}
	return p.write(p.reply.Status(), "application/json", out)
}

// message returns a message of the agent for the client. Checks says that guardrails read it.
func (p *pass) message(ctx context.Context, raw []byte, checks bool) ([]byte, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil {
		return nil, invalidAnswer("sent a message that is malformed, or names something twice")
	}
	if p.rest {
		return p.value(ctx, raw, checks, p.reply.Status() >= http.StatusBadRequest)
	}
	id, _ := doc.Find("id")
	name := "result"
	v, ok := doc.Find(name)
	if !ok {
		name = "error"
		v, ok = doc.Find(name)
	}
	if !ok || v.Kind() != jsonedit.Object || !sameID(id, p.call.sentID) && name == "result" {
		return nil, invalidAnswer("sent a message that does not answer the request")
	}
	value, err := p.value(ctx, v.Raw(), checks, name == "error")
	if err != nil {
		return nil, err
	}
	if _, acts := p.tools.Guards(); acts { // nothing else passes unread
		return jsonrpc.Response(p.tools.MessageID, name, value), nil
	}
	var edits []jsonedit.Edit
	if !bytes.Equal(value, v.Raw()) {
		edits = append(edits, jsonedit.Edit{Name: name, Value: value})
	}
	if !bytes.Equal(p.call.sentID, p.tools.MessageID) {
		edits = append(edits, jsonedit.Edit{Name: "id", Value: p.tools.MessageID})
	}
	if edits == nil {
		return raw, nil
	}
	return doc.Apply(nil, edits...), nil
}

// sameID reports whether a response is to the request with an id.
func sameID(id jsonedit.Value, want []byte) bool {
	a, isText := id.Text()
	v, err := jsonedit.ParseValue(want)
	if err != nil {
		return false
	}
	b, wantText := v.Text()
	if isText || wantText {
		return isText && wantText && a == b
	}
	x, _ := id.Float()
	y, _ := v.Float()
	return x == y && id.Kind() == jsonedit.Number
}

// value returns a result, an error or an event for the client: as guardrails leave it, with the
// ids that the client knows.
func (p *pass) value(ctx context.Context, raw []byte, checks, isError bool) (value []byte, err error) {
	value = raw
	if checks {
		if value, err = p.run.CheckResult(ctx, raw); err != nil {
			return nil, err
		}
	}
	if p.call.kind.card == extendedCard && !isError {
		if err := p.checkCard(toolserver.Digest(raw)); err != nil {
			return nil, err
		}
		return outerCard(p.card, value, p.address())
	}
	value = bytes.Clone(value)
	v, err := jsonedit.ParseValue(value)
	if err != nil {
		return nil, err
	}
	edits, err := p.outward(p.call, value, v)
	if err != nil {
		return nil, err
	}
	return apply(value, edits), nil
}

// stream passes a stream on: each event at once, or all at its end if guardrails act on results,
// which must read the text of all chunks.
func (p *pass) stream(ctx context.Context) error {
	s := tools.NewStream(p.w, p.http, p.shared.KeepAlive)
	defer s.Close()
	if err := s.Open(); err != nil {
		return err
	}
	p.begun = true
	holds := p.run.ChecksResult()
	for {
		raw, err := p.reply.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p.breakOff(s, err)
		}
		e := event{eventType(p.reply.EventType()), raw}
		if holds {
			if err := p.held.add(e); err != nil {
				return p.breakOff(s, err)
			}
			continue
		}
		if err := p.event(ctx, s, e, true); err != nil {
			return err
		}
	}
	checked, err := p.held.check(ctx, p.run)
	if err != nil {
		return p.breakOff(s, err)
	}
	for _, e := range checked {
		if err := p.event(ctx, s, e, false); err != nil {
			return err
		}
	}
	return nil
}

// event passes an event of a stream on. Checks says that guardrails read it.
func (p *pass) event(ctx context.Context, s tools.Stream, e event, checks bool) error {
	out, err := p.message(ctx, e.data, checks)
	if err != nil {
		return p.breakOff(s, err)
	}
	if err := s.Event(e.kind, out); err != nil {
		return writeError(err)
	}
	p.some = true
	return nil
}

// eventType returns the type of an event for the client: agents could write text to it that
// guardrails do not read.
func eventType(kind string) string {
	if kind == "message" || kind == "error" {
		return kind
	}
	return ""
}

// partly returns the error of an answer for records. One that broke off after the client got some
// of it counts as abandoned, so that it has its price.
func (p *pass) partly(err error) error {
	f, ok := errors.AsType[*peer.Failure](err)
	if !ok || !p.some {
		return err
	}
	part := *f
	part.Kind = peer.Cancelled
	return &part
}

// breakOff ends a stream with an error, in the form of the binding.
func (p *pass) breakOff(s tools.Stream, err error) error {
	if p.http.Context().Err() != nil {
		return err
	}
	kind := ""
	if p.rest {
		kind = "error"
	}
	s.Event(kind, p.tools.ErrorBody(apierr.From(clientError(err))))
	return err
}
