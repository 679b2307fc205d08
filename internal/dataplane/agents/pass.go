package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
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
	x.end(run, reply.Status(), err)
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
	out.Body = c.body
	if params := c.params.Raw(); params != nil && run.Arguments() != nil {
		from := cap(c.body) - cap(params)
		out.Body = apply(c.body, []splice{{from, from + len(params), run.Arguments()}})
	}
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
	begun bool // as a stream
	size  int  // of what is held back
}

// maxHeld is the limit of a stream that is held back because guardrails read it as a whole, in
// bytes.
const maxHeld = 8 << 20

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
	if !ok || v.Kind() != jsonedit.Object || !sameID(id, p.tools.MessageID) && name == "result" {
		return nil, invalidAnswer("sent a message that does not answer the request")
	}
	value, err := p.value(ctx, v.Raw(), checks, name == "error")
	if err != nil {
		return nil, err
	}
	if _, acts := p.tools.Guards(); acts { // nothing else passes unread
		out := append([]byte(`{"jsonrpc":"2.0","id":`), p.tools.MessageID...)
		out = append(append(append(out, `,"`...), name...), `":`...)
		return append(append(out, value...), '}'), nil
	}
	if bytes.Equal(value, v.Raw()) {
		return raw, nil
	}
	return doc.Apply(nil, jsonedit.Edit{Name: name, Value: value}), nil
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

// event is a message in a stream.
type event struct {
	kind string
	data []byte
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
	var held []event
	for {
		raw, err := p.reply.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p.breakOff(s, err)
		}
		kind := p.reply.EventType()
		if holds {
			if p.size += len(raw); p.size > maxHeld {
				return p.breakOff(s, apierr.New(apierr.Denied, "the answer is too large to be checked by guardrails").WithCode("response_unchecked"))
			}
			held = append(held, event{kind, bytes.Clone(raw)})
			continue
		}
		out, err := p.message(ctx, raw, true)
		if err != nil {
			return p.breakOff(s, err)
		}
		if err := s.Event(kind, out); err != nil {
			return apierr.New(apierr.ClientGone, "the client closed the stream").WithCause(err)
		}
	}
	checked, err := p.checkAll(ctx, held)
	if err != nil {
		return p.breakOff(s, err)
	}
	for _, e := range checked {
		out, err := p.message(ctx, e.data, false)
		if err != nil {
			return p.breakOff(s, err)
		}
		if err := s.Event(e.kind, out); err != nil {
			return apierr.New(apierr.ClientGone, "the client closed the stream").WithCause(err)
		}
	}
	return nil
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

// checkAll runs the guardrails on held events as one result, with the text of all chunks in one
// piece: what they look for may begin in one chunk and end in the next. A change to that text
// which no event has is a denial.
func (p *pass) checkAll(ctx context.Context, held []event) ([]event, error) {
	if len(held) == 0 {
		return nil, nil
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("events")
	b.Open('[')
	var text strings.Builder
	for _, e := range held {
		b.Raw(e.data)
		v, err := jsonedit.ParseValue(e.data)
		if err != nil {
			return nil, invalidAnswer("sent an event that is malformed")
		}
		chunkText(&text, v)
	}
	b.Close(']')
	b.Name("text")
	b.String(text.String())
	b.Close('}')
	out, err := p.run.CheckResult(ctx, b.Bytes())
	if err != nil || bytes.Equal(out, b.Bytes()) {
		return held, err
	}
	v, err := jsonedit.ParseValue(out)
	if err != nil {
		return nil, err
	}
	list, _ := v.Get("events")
	var after []event
	var joined strings.Builder
	for e := range list.Elements() {
		if len(after) < len(held) {
			after = append(after, event{held[len(after)].kind, e.Raw()})
			chunkText(&joined, e)
		}
	}
	if len(after) != len(held) || v.TextOf("text") != joined.String() {
		return nil, apierr.New(apierr.Denied, "a guardrail changes text that is in several events of the stream; send the message without streaming").
			WithCode("response_unchecked")
	}
	return after, nil
}

// chunkText appends the text of all parts in an event.
func chunkText(to *strings.Builder, v jsonedit.Value) {
	for e := range v.Elements() {
		chunkText(to, e)
	}
	for key, value := range v.Fields() {
		if text, ok := value.Text(); ok && key.Is("text") {
			to.WriteString(text)
			continue
		}
		chunkText(to, value)
	}
}
