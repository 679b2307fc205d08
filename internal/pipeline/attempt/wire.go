package attempt

import (
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider"
)

// wirePlan describes how an attempt is encoded.
type wirePlan struct {
	op      api.Operation // whose path in the provider definition is used
	dialect api.Dialect   // of the target's conversation; empty for other operations
	target  dialect.RequestTarget

	// translator is nil if bytes are forwarded.
	translator translator

	// estimates is the client of a token count that the target does not offer,
	// nil otherwise: nothing is sent.
	estimates dialect.ClientCounter

	// usageAsked is true if the gateway requested the usage of a stream and the
	// client did not.
	usageAsked bool
}

// translates reports whether bodies are decoded and encoded again.
func (w *wirePlan) translates() bool { return w.translator != nil }

// translatesConversation reports whether a conversation is translated, whose
// response may be a stream.
func (w *wirePlan) translatesConversation() bool {
	_, ok := w.translator.(*conversation)
	return ok
}

// clientName returns the client's name for a parameter of the target's body. The neutral
// names are those of the chat dialect, which the quirks of providers are about.
func (w *wirePlan) clientName(name string) string {
	if c, ok := w.translator.(*conversation); ok && c.decoded != nil {
		return c.decoded.NameOf(llm.Field(name))
	}
	return name
}

// planWire chooses the encoding for the target.
func (p *plan) planWire() error {
	r, w := p.request, &p.wire
	w.op, w.target = r.Operation, p.record.Target.RequestTarget(p.record.Model)
	switch {
	case r.Operation == api.Proxy:
		return nil
	case r.Operation == r.Dialect.CountOperation():
		return p.planTokenCount()
	case r.Operation != r.Dialect.ConversationOperation():
		p.planOperation()
		return nil
	}
	w.dialect = p.conversationDialect()
	if w.dialect == "" {
		return provider.OperationNotSupported(p.record.Target, r.Operation)
	}
	if w.dialect != r.Dialect {
		codec := p.handler.Engine.Codecs[w.dialect]
		if codec == nil {
			return provider.OperationNotSupported(p.record.Target, r.Operation)
		}
		c := &conversation{client: r.Client, provider: codec, target: w.target, dialect: w.dialect, streamed: r.Stream}
		if w.dialect != api.DialectMessages {
			c.limit = p.record.Target.Rule(p.record.Model).MaxOutput
		}
		if c.learns = p.learnsThinking(); c.learns {
			c.target.ThinkingMember, c.target.AllThinking = p.memberForThinking()
		}
		w.translator = c
	}
	w.op = w.dialect.ConversationOperation()
	if r.Stream {
		if _, ok := p.record.Target.Path(w.op.Streamed()); ok {
			w.op = w.op.Streamed()
		}
	}
	return nil
}

// planTokenCount chooses how the tokens of a request are counted: bytes are
// forwarded if the target counts in the client's dialect, and the gateway
// estimates otherwise.
func (p *plan) planTokenCount() error {
	r, w := p.request, &p.wire
	w.dialect = p.record.Target.DialectFor(r.Dialect, p.record.Model)
	w.op = w.dialect.CountOperation()
	_, offered := p.record.Target.Path(w.op)
	if offered && w.dialect == r.Dialect && !p.record.Target.BodyRules[w.op].Translate {
		return nil
	}
	client, ok := r.Client.(dialect.ClientCounter)
	if !ok {
		return provider.OperationNotSupported(p.record.Target, r.Operation)
	}
	counts, ok := p.handler.Engine.Codecs[w.dialect].(dialect.ProviderCounter)
	if !ok || !offered {
		w.estimates = client
		return nil
	}
	w.translator = &tokenCount{client: client, provider: counts, target: w.target}
	return nil
}

// planOperation chooses the encoding of an operation other than a conversation:
// bytes are forwarded unless the client's dialect or the provider has a format
// of its own.
func (p *plan) planOperation() {
	r, w := p.request, &p.wire
	if r.Received.Doc == nil {
		return
	}
	out := operation{target: w.target}
	out.target.Created = r.Time.Unix()
	if r.Dialect != api.DialectChat {
		if out.client = p.clientTranslator(); out.client == nil {
			return
		}
		w.op = out.client.Operation
	}
	codec := p.handler.Engine.Codecs[p.record.Target.DialectFor(api.DialectChat, p.record.Model)]
	if codec == nil {
		codec = p.handler.Engine.Codecs[p.record.Target.Dialect]
	}
	if o, ok := codec.(dialect.OperationTranslator); ok {
		if form, ok := o.Translator(w.op, w.target); ok {
			out.provider = &form
		}
	}
	if out.client != nil || out.provider != nil {
		w.translator = &out
	}
}

// clientTranslator returns the translation from the client's dialect to the
// chat dialect, or nil if there is none or none is needed: bytes are forwarded
// if the target has the operation and the model is the one in them.
func (p *plan) clientTranslator() *dialect.ClientTranslator {
	r, w := p.request, &p.wire
	if _, ok := p.record.Target.Path(w.op); ok && p.record.Model == r.Model && len(r.Edits) == 0 {
		w.dialect = r.Dialect
		return nil
	}
	o, ok := r.Client.(dialect.ClientOperationTranslator)
	if !ok {
		return nil
	}
	t, ok := o.ClientTranslator(w.op)
	if !ok {
		return nil
	}
	return &t
}

// encode returns the body for the target and records the parameter changes.
// body is the client's, after the config's edits.
func (p *plan) encode(body []byte) ([]byte, error) {
	// About as long as the client's body, so that it need not grow.
	out := make([]byte, 0, len(body)+len(body)/4+512)
	out, changes, err := p.wire.translator.request(out, body)
	if err != nil {
		return nil, err
	}
	p.record.Params = append(p.record.Params, changes...)
	return out, nil
}

// errUnsupported returns the error for parameters that would be dropped
// although on_unsupported is refuse.
func (p *plan) errUnsupported(names []string) error {
	return apierr.New(apierr.Invalid, "%s does not support %s and on_unsupported is refuse; remove the parameter or choose another target",
		p.record.Target.Label(), strings.Join(names, ", ")).WithParam(names[0]).WithCode(dialect.CodeUnsupported)
}
