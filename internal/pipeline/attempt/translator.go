package attempt

import (
	"cmp"
	"encoding/hex"
	"errors"
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// translator converts one operation between the client's dialect and the
// target's, for one attempt. Attempts that forward bytes have none.
type translator interface {
	// request appends the target's body for the client's body, and returns the
	// parameter changes.
	request(dst, body []byte) ([]byte, []dialect.ParamChange, error)
	// response sets the client's form of a complete body in out.
	response(a *attempt, out *exchange.Response, body []byte) error
	// stream sets the client's form of a stream in out: as a stream, or
	// complete for a client that wants that. An operation without streams
	// returns an error.
	stream(a *attempt, out *exchange.Response, src *streamMemory) error
}

// conversation translates through the neutral model.
type conversation struct {
	client   dialect.ClientDialect
	provider dialect.ProviderCodec
	target   dialect.RequestTarget
	dialect  api.Dialect  // of the target
	streamed bool         // the client wants a stream
	limit    int64        // of output tokens of the model; 0 if unknown, or if the codec knows it
	learns   bool         // where the provider has its thinking is remembered
	decoded  *llm.Request // set by request

	// sent is decoded with the names of tools that the target accepts, which names leads
	// back to those of the client.
	sent  *llm.Request
	names dialect.SentNames
}

func (c *conversation) request(dst, body []byte) (_ []byte, changes []dialect.ParamChange, err error) {
	if c.decoded, err = c.client.DecodeRequest(body); err != nil {
		return nil, nil, err
	}
	c.decoded.Model, c.decoded.Stream = c.target.Model, c.streamed
	fitted := append(clampMaxTokens(c.decoded, c.limit), fitMarks(c.decoded, c.dialect)...)
	fitted = append(fitted, c.fitNames()...)
	dst, changes, err = c.provider.EncodeRequest(dst, c.sent, c.target)
	return dst, append(fitted, changes...), err
}

// fitNames sets the request that is sent, and returns the changes to names of tools.
func (c *conversation) fitNames() (changes []dialect.ParamChange) {
	c.sent, c.names = c.decoded, nil
	if namer, ok := c.provider.(dialect.ToolNamer); ok {
		c.sent, c.names, changes = dialect.FitToolNames(c.decoded, namer.ToolNames(c.decoded, c.target))
	}
	return changes
}

// original returns a part of a response with the client's name for a called tool.
func original(names dialect.SentNames, p llm.Part) llm.Part {
	if call, ok := p.(llm.ToolCall); ok && names != nil {
		call.Name = names.Original(call.Name)
		return call
	}
	return p
}

func (c *conversation) response(a *attempt, out *exchange.Response, body []byte) error {
	r, err := c.provider.DecodeResponse(body, c.sent, c.target)
	if err != nil || textLength(r) == 0 { // no response, or an empty one
		if fault := dialect.FindError(body); fault != nil {
			a.setError(out, "", fault)
			return nil
		}
	}
	if err != nil {
		return a.unreadable("a body that is not a response of its protocol").WithCause(err)
	}
	if c.learns {
		a.plan.learnThinking(body)
	}
	return c.complete(a, out, r)
}

// hasNothing reports whether no choice has content or a finish reason.
func hasNothing(r *llm.Response) bool {
	return !slices.ContainsFunc(r.Choices, func(c llm.Choice) bool { return len(c.Parts) > 0 || c.Stop != "" || c.NativeFinishReason != "" })
}

// complete sets a complete response in out. A client that wants a stream gets
// it as one.
func (c *conversation) complete(a *attempt, out *exchange.Response, r *llm.Response) error {
	tap := new(translationTap)
	tap.readResponse(r)
	out.Tap = tap
	for i := range r.Choices {
		if choice := &r.Choices[i]; choice.Stop == llm.StopFailed {
			a.setFault(out, dialect.FinishError(choice.NativeFinishReason))
			return nil
		}
	}
	if hasNothing(r) {
		a.setFault(out, dialect.NoContentError())
		return nil
	}
	lost := c.lostFor(a)
	for i := range r.Choices {
		for j, p := range r.Choices[i].Parts {
			r.Choices[i].Parts[j] = lost.carry(original(c.names, p))
		}
	}
	a.plan.record.Params = append(a.plan.record.Params, lost.changes()...)
	r.Model = cmp.Or(a.plan.handler.responseModel(a.plan.request), r.Model)
	markBrokenCalls(r)
	distinctCalls(r, c.decoded)
	for i := range r.Choices {
		if choice := &r.Choices[i]; choice.Stop == "" && choice.NativeFinishReason == "" { // clients wait for a finish reason
			choice.Stop = llm.StopEnd
		}
	}
	if !c.streamed {
		out.SetBytes(c.client.EncodeResponse(make([]byte, 0, lengthOf(r)), r, c.responseTarget(a)))
		return nil
	}
	enc := c.client.NewEncoder(c.responseTarget(a))
	stream := make([]byte, 0, lengthOf(r))
	var e llm.Event
	for e = range dialect.Replay(r) {
		stream = enc.Encode(stream, &e)
	}
	out.SetHead(c.client.ContentType())
	out.Events, out.Joined = exchange.ReplayBytes(stream), true
	return nil
}

func (c *conversation) stream(a *attempt, out *exchange.Response, src *streamMemory) error {
	decoder := c.provider.NewDecoder(c.sent, c.target)
	if !c.streamed {
		r, err := a.collect(out, src, decoder)
		if r == nil {
			return err
		}
		out.SetHead("application/json")
		return c.complete(a, out, r)
	}
	t := &translation{
		src: src, dec: decoder, enc: c.client.NewEncoder(c.responseTarget(a)),
		model: a.plan.handler.responseModel(a.plan.request), ids: responseCalls{asked: c.decoded},
		forwards: c.client.ContentType() == framing.MediaEvents,
	}
	t.lost, t.names = c.lostFor(a), c.names
	if c.learns {
		t.learn = a.plan.learnThinking
	}
	out.Tap, a.translation, out.Joined = t, t, true
	out.SetHead(c.client.ContentType())
	s := &a.events
	*s = targetStream{attempt: a, res: out, reader: t, tap: t}
	return s.open(s, nil)
}

// responseTarget returns the target for encoding responses.
func (c *conversation) responseTarget(a *attempt) dialect.ResponseTarget {
	return dialect.ResponseTarget{
		Request:  c.decoded,
		Strict:   !a.plan.handler.Lenient,
		Provider: a.plan.record.Target.ID,
		ID:       hex.EncodeToString(a.plan.request.ID[:]),
		Created:  a.plan.request.Time.Unix(),
	}
}

// tokenCount translates a token counting request.
type tokenCount struct {
	client   dialect.ClientCounter
	provider dialect.ProviderCounter
	target   dialect.RequestTarget
}

func (c *tokenCount) request(dst, body []byte) ([]byte, []dialect.ParamChange, error) {
	decoded, err := c.client.DecodeCountRequest(body)
	if err != nil {
		return nil, nil, err
	}
	decoded.Model = c.target.Model
	if namer, ok := c.provider.(dialect.ToolNamer); ok {
		decoded, _, _ = dialect.FitToolNames(decoded, namer.ToolNames(decoded, c.target))
	}
	return c.provider.EncodeCountRequest(dst, decoded, c.target)
}

func (c *tokenCount) response(a *attempt, out *exchange.Response, body []byte) error {
	n, err := c.provider.DecodeCountResponse(body)
	if err != nil {
		return a.unreadable("a body that contains no number of tokens").WithCause(err)
	}
	out.SetTapped(c.client.EncodeCountResponse(nil, n))
	return nil
}

func (c *tokenCount) stream(a *attempt, _ *exchange.Response, _ *streamMemory) error {
	return a.wrongStream()
}

// operation translates operations other than conversations, such as embeddings:
// from the client's dialect to the chat dialect, and from that to the
// provider's format. Each step is nil if it is not needed.
type operation struct {
	client   *dialect.ClientTranslator
	provider *dialect.Translator
	target   dialect.RequestTarget
	asked    []byte // the chat dialect's body; set by request
}

func (o *operation) request(dst, body []byte) (_ []byte, changes []dialect.ParamChange, err error) {
	if o.asked, err = o.chatBody(body); err != nil {
		return nil, nil, err
	}
	if o.provider != nil {
		dst, changes, err = o.provider.Request(dst, o.asked, o.target)
	} else {
		dst, changes, err = o.withoutExtraFields(dst)
	}
	if o.client != nil {
		for i, c := range changes {
			changes[i].Name = cmp.Or(o.client.Names[c.Name], c.Name)
		}
	}
	return dst, changes, err
}

// chatBody returns the client's body in the format of the chat dialect.
func (o *operation) chatBody(body []byte) ([]byte, error) {
	if o.client == nil {
		return body, nil
	}
	return o.client.Request(nil, body, o.target.Model)
}

// withoutExtraFields appends the body for a provider of the chat dialect.
func (o *operation) withoutExtraFields(dst []byte) (_ []byte, changes []dialect.ParamChange, err error) {
	var doc jsonedit.Doc
	if err := doc.Scan(o.asked); err != nil {
		return nil, nil, err
	}
	var edits []jsonedit.Edit
	for _, name := range o.client.ExtraFields {
		if _, ok := doc.Find(name); ok {
			edits = append(edits, jsonedit.Edit{Name: name})
			changes = append(changes, dialect.ParamChange{Name: name, Outcome: dialect.Dropped})
		}
	}
	return doc.Apply(dst, edits...), changes, nil
}

func (o *operation) response(a *attempt, out *exchange.Response, body []byte) (err error) {
	if o.provider != nil {
		body, err = o.provider.Response(nil, body, o.asked, o.target)
	}
	if err == nil {
		body, err = o.clientBody(body)
	}
	if err == nil {
		out.SetTapped(body)
		return a.plan.handler.renamer(a.plan.request, out.Tap).response(a, out)
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok { // the provider reported an error with a success status
		return e
	}
	return a.unreadable("a body that is not its " + string(a.plan.request.Operation) + " answer").WithCause(err)
}

// clientBody converts a body of the chat dialect to the client's dialect.
func (o *operation) clientBody(body []byte) ([]byte, error) {
	if o.client == nil {
		return body, nil
	}
	return o.client.Response(nil, body)
}

func (o *operation) stream(a *attempt, _ *exchange.Response, _ *streamMemory) error {
	return a.wrongStream()
}

// wrongStream returns the error for a stream in another format than requested.
func (a *attempt) wrongStream() error { return a.unreadable("a stream that is not of the protocol") }
