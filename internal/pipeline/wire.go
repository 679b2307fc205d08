package pipeline

import (
	"cmp"
	"strings"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
	"modelgate/internal/provider"
)

// wirePlan is how one attempt is put to its target: in the client's dialect, as
// bytes, or translated to the target's.
type wirePlan struct {
	op      api.Operation // whose path of the target's row is taken
	dialect api.Dialect   // of the target's conversation; empty for other operations
	target  dialect.RequestTarget

	// codec translates a conversation, counter a question for its tokens, and
	// form another operation, which client puts into the words of the chat
	// dialect first; all are empty where bytes pass.
	codec   dialect.ProviderCodec
	counter *tokenCountCodecs
	client  *dialect.ClientTranslator
	form    *dialect.Translator

	// usageAsked is true where the gateway asked for the usage of a stream and the
	// client did not.
	usageAsked bool

	// request is the conversation once it was read, and asked the body that form
	// or a provider of the chat dialect was given.
	request     *llm.Request
	requestBody []byte
}

// tokenCountCodecs translates between a client that asks for the tokens of a request and
// a provider that tells them.
type tokenCountCodecs struct {
	client   dialect.ClientCounter
	provider dialect.ProviderCounter
}

// translates reports whether bodies are decoded and encoded again.
func (w *wirePlan) translates() bool {
	return w.codec != nil || w.counter != nil || w.translatesOperation()
}

// translatesOperation reports whether what is translated is no conversation.
func (w *wirePlan) translatesOperation() bool { return w.client != nil || w.form != nil }

// planWire chooses how to speak to the target.
func (a *Attempt) planWire() error {
	r, w := a.request, &a.wire
	w.op, w.target = r.Operation, a.Target.RequestTarget(a.Model)
	switch {
	case r.Operation == api.Proxy:
		return nil
	case r.Operation == r.Dialect.CountOperation():
		return a.planTokenCount()
	case r.Operation != r.Dialect.ConversationOperation():
		a.findTranslator()
		return nil
	}
	w.dialect = a.Target.DialectFor(r.Dialect, a.Model)
	if w.dialect == "" {
		return provider.UnsupportedOperation(a.Target, r.Operation)
	}
	if w.dialect != r.Dialect {
		if w.codec = a.handler.Codecs[w.dialect]; w.codec == nil {
			return provider.UnsupportedOperation(a.Target, r.Operation)
		}
	}
	w.op = w.dialect.ConversationOperation()
	if r.Stream {
		if _, ok := a.Target.Path(w.op.Streamed()); ok {
			w.op = w.op.Streamed()
		}
	}
	return nil
}

// planTokenCount chooses how the target is asked for the tokens of a request: in the
// client's dialect, as bytes, where that is how it counts.
func (a *Attempt) planTokenCount() error {
	a.wire.dialect = a.Target.DialectFor(a.request.Dialect, a.Model)
	a.wire.op = a.wire.dialect.CountOperation()
	if _, ok := a.Target.Path(a.wire.op); !ok {
		return provider.UnsupportedOperation(a.Target, a.request.Operation)
	}
	if a.wire.dialect == a.request.Dialect && !a.Target.BodyRules[a.wire.op].Translate {
		return nil
	}
	client, asks := a.request.Client.(dialect.ClientCounter)
	told, tells := a.handler.Codecs[a.wire.dialect].(dialect.ProviderCounter)
	if !asks || !tells {
		return provider.UnsupportedOperation(a.Target, a.request.Operation)
	}
	a.wire.counter = &tokenCountCodecs{client, told}
	return nil
}

// findTranslator finds the translation of an operation that is no conversation.
func (a *Attempt) findTranslator() {
	if a.request.Doc == nil || a.request.Dialect != api.DialectChat && !a.findClientTranslator() {
		return
	}
	codec := a.handler.Codecs[a.Target.DialectFor(api.DialectChat, a.Model)]
	if codec == nil {
		codec = a.handler.Codecs[a.Target.Dialect]
	}
	if former, ok := codec.(dialect.OperationTranslator); ok {
		if form, ok := former.Translator(a.wire.op, a.wire.target); ok {
			a.wire.form = &form
		}
	}
}

// findClientTranslator finds the way from the words of the client's dialect to the chat
// dialect's, and is false when there is none or none is needed: bytes pass where
// the target has the operation too and the model is the one that they name.
func (a *Attempt) findClientTranslator() bool {
	if _, ok := a.Target.Path(a.wire.op); ok && a.Model == a.request.Model && len(a.request.Edits) == 0 {
		a.wire.dialect = a.request.Dialect
		return false
	}
	former, ok := a.request.Client.(dialect.ClientOperationTranslator)
	if !ok {
		return false
	}
	form, ok := former.ClientForm(a.wire.op)
	if ok {
		a.wire.op, a.wire.client = form.Operation, &form
	}
	return ok
}

// encode returns the body for the target and tells what happened to the client's
// parameters. body is the client's, with the config's edits.
func (a *Attempt) encode(body []byte) ([]byte, error) {
	var fates []dialect.ParamChange
	var err error
	// About as long as the client's, so that it need not grow.
	out := make([]byte, 0, len(body)+len(body)/4+512)
	if a.wire.translatesOperation() {
		out, fates, err = a.wire.translateRequest(out, body)
	} else {
		out, fates, err = a.wire.encodeRequest(a.request, out, body)
	}
	if err != nil {
		return nil, err
	}
	a.Params = append(a.Params, fates...)
	return out, nil
}

// translateRequest appends the body of an operation that is no conversation.
func (w *wirePlan) translateRequest(dst, body []byte) (_ []byte, fates []dialect.ParamChange, err error) {
	if w.requestBody = body; w.client != nil {
		if w.requestBody, err = w.client.Request(nil, body, w.target.Model); err != nil {
			return nil, nil, err
		}
	}
	if w.form != nil {
		dst, fates, err = w.form.Request(dst, w.requestBody, w.target)
	} else {
		dst, fates, err = w.chatBody(dst)
	}
	if w.client != nil {
		for i, f := range fates {
			fates[i].Name = cmp.Or(w.client.Names[f.Name], f.Name)
		}
	}
	return dst, fates, err
}

// chatBody appends what a provider of the chat dialect is asked.
func (w *wirePlan) chatBody(dst []byte) (_ []byte, fates []dialect.ParamChange, err error) {
	var doc jsonedit.Doc
	if err := doc.Scan(w.requestBody); err != nil {
		return nil, nil, err
	}
	var edits []jsonedit.Edit
	for _, name := range w.client.ExtraFields {
		if _, ok := doc.Find(name); ok {
			edits = append(edits, jsonedit.Edit{Name: name})
			fates = append(fates, dialect.ParamChange{Name: name, Outcome: dialect.Dropped})
		}
	}
	return doc.Apply(dst, edits...), fates, nil
}

// translateResponse returns the client's body for the provider's.
func (w *wirePlan) translateResponse(body []byte) (_ []byte, err error) {
	if w.form != nil {
		if body, err = w.form.Response(nil, body, w.requestBody, w.target); err != nil {
			return nil, err
		}
	}
	if w.client != nil {
		return w.client.Response(nil, body)
	}
	return body, nil
}

// encodeRequest appends what is asked of the provider in its dialect: an answer, or how
// many tokens the request has.
func (w *wirePlan) encodeRequest(r *Request, dst, body []byte) (_ []byte, fates []dialect.ParamChange, err error) {
	if w.counter != nil {
		w.request, err = w.counter.client.DecodeCountRequest(body)
	} else {
		w.request, err = r.Client.DecodeRequest(body)
	}
	if err != nil {
		return nil, nil, err
	}
	w.request.Model, w.request.Stream = w.target.Model, r.Stream
	if w.counter != nil {
		return w.counter.provider.EncodeCountRequest(dst, w.request, w.target)
	}
	return w.codec.EncodeRequest(dst, w.request, w.target)
}

// writeTokenCount gives the client the number of tokens that the provider tells.
func (a *Attempt) writeTokenCount(out *Response, body []byte) error {
	n, err := a.wire.counter.provider.DecodeCountResponse(body)
	if err != nil {
		return a.unreadable("a body that holds no number of tokens").WithCause(err)
	}
	encoded := a.wire.counter.client.EncodeCountResponse(nil, n)
	out.setBytes(encoded)
	out.Tap.Body(encoded)
	return nil
}

// unsupported refuses an attempt that would leave out a parameter, where the
// config asks for that.
func (a *Attempt) unsupported(names []string) error {
	return apierr.New(apierr.Invalid, "%s does not support %s and on_unsupported is refuse; remove the parameter or choose another target",
		a.Target.ID, strings.Join(names, ", ")).WithParam(names[0]).WithCode(dialect.CodeUnsupported)
}
