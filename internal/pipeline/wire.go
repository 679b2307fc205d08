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

// planWire chooses how the exchange's target is spoken to.
func (l *TargetHandler) planWire(x *Exchange) (wirePlan, error) {
	out := wirePlan{op: x.Operation, target: l.Target.RequestTarget(x.UpstreamModel)}
	switch {
	case x.Operation == api.Proxy:
		return out, nil
	case x.Operation == x.Dialect.CountOperation():
		return out, l.planTokenCount(x, &out)
	case x.Operation != x.Dialect.ConversationOperation():
		l.findTranslator(x, &out)
		return out, nil
	}
	out.dialect = l.Target.DialectFor(x.Dialect, x.UpstreamModel)
	if out.dialect == "" {
		return out, provider.UnsupportedOperation(l.Target, x.Operation)
	}
	if out.dialect != x.Dialect {
		out.codec = l.Codecs[out.dialect]
		if out.codec == nil {
			return out, provider.UnsupportedOperation(l.Target, x.Operation)
		}
	}
	out.op = out.dialect.ConversationOperation()
	if x.Stream {
		if _, ok := l.Target.Path(out.op.Streamed()); ok {
			out.op = out.op.Streamed()
		}
	}
	return out, nil
}

// planTokenCount chooses how the target is asked for the tokens of a request: in the
// client's dialect, as bytes, where that is how it counts.
func (l *TargetHandler) planTokenCount(x *Exchange, out *wirePlan) error {
	out.dialect = l.Target.DialectFor(x.Dialect, x.UpstreamModel)
	out.op = out.dialect.CountOperation()
	if _, ok := l.Target.Path(out.op); !ok {
		return provider.UnsupportedOperation(l.Target, x.Operation)
	}
	if out.dialect == x.Dialect && !l.Target.BodyRules[out.op].Translate {
		return nil
	}
	client, asks := x.Client.(dialect.ClientCounter)
	told, tells := l.Codecs[out.dialect].(dialect.ProviderCounter)
	if !asks || !tells {
		return provider.UnsupportedOperation(l.Target, x.Operation)
	}
	out.counter = &tokenCountCodecs{client, told}
	return nil
}

// findTranslator finds the translation of an operation that is no conversation.
func (l *TargetHandler) findTranslator(x *Exchange, out *wirePlan) {
	if x.Doc == nil || x.Dialect != api.DialectChat && !l.findClientTranslator(x, out) {
		return
	}
	codec := l.Codecs[l.Target.DialectFor(api.DialectChat, x.UpstreamModel)]
	if codec == nil {
		codec = l.Codecs[l.Target.Dialect]
	}
	if former, ok := codec.(dialect.OperationTranslator); ok {
		if form, ok := former.Translator(out.op, out.target); ok {
			out.form = &form
		}
	}
}

// findClientTranslator finds the way from the words of the client's dialect to the chat
// dialect's, and is false when there is none or none is needed: bytes pass where
// the target has the operation too and the model is the one that they name.
func (l *TargetHandler) findClientTranslator(x *Exchange, out *wirePlan) bool {
	if _, ok := l.Target.Path(out.op); ok && x.UpstreamModel == x.Model && len(x.Edits) == 0 {
		out.dialect = x.Dialect
		return false
	}
	former, ok := x.Client.(dialect.ClientOperationTranslator)
	if !ok {
		return false
	}
	form, ok := former.ClientForm(out.op)
	if ok {
		out.op, out.client = form.Operation, &form
	}
	return ok
}

// encode returns the body for the target and tells what happened to the client's
// parameters. body is the client's, with the config's edits.
func (l *TargetHandler) encode(x *Exchange, w *wirePlan, body []byte) ([]byte, error) {
	var fates []dialect.ParamChange
	var err error
	// About as long as the client's, so that it need not grow.
	out := make([]byte, 0, len(body)+len(body)/4+512)
	if w.translatesOperation() {
		out, fates, err = w.translateRequest(out, body)
	} else {
		out, fates, err = w.encodeRequest(x, out, body)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range fates {
		x.Params = append(x.Params, fateText(f))
	}
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
func (w *wirePlan) encodeRequest(x *Exchange, dst, body []byte) (_ []byte, fates []dialect.ParamChange, err error) {
	if w.counter != nil {
		w.request, err = w.counter.client.DecodeCountRequest(body)
	} else {
		w.request, err = x.Client.DecodeRequest(body)
	}
	if err != nil {
		return nil, nil, err
	}
	w.request.Model, w.request.Stream = x.UpstreamModel, x.Stream
	if w.counter != nil {
		return w.counter.provider.EncodeCountRequest(dst, w.request, w.target)
	}
	return w.codec.EncodeRequest(dst, w.request, w.target)
}

// writeTokenCount gives the client the number of tokens that the provider tells.
func (l *TargetHandler) writeTokenCount(w *wirePlan, out *Response, body []byte) error {
	n, err := w.counter.provider.DecodeCountResponse(body)
	if err != nil {
		return l.unreadable("a body that holds no number of tokens").WithCause(err)
	}
	encoded := w.counter.client.EncodeCountResponse(nil, n)
	out.setBytes(encoded)
	out.Tap.Body(encoded)
	return nil
}

// fateText is a fate as an item of a structured header field (RFC 9651).
func fateText(f dialect.ParamChange) string {
	text := headerText(f.Name) + ";" + string(f.Outcome)
	if f.Note != "" {
		text += `="` + headerText(f.Note) + `"`
	}
	return text
}

// headerText keeps what a client or a note may hold from leaving the header's
// item: other than visible ASCII, quotes and what parts items become dashes.
func headerText(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == ',' || c == ';' {
			b[i] = '-'
		}
	}
	return string(b)
}

// unsupported refuses an attempt that would leave out a parameter, where the
// config asks for that.
func (l *TargetHandler) unsupported(names []string) error {
	return apierr.New(apierr.Invalid, "%s does not support %s and on_unsupported is refuse; remove the parameter or choose another target",
		l.Target.ID, strings.Join(names, ", ")).WithParam(names[0]).WithCode(dialect.CodeUnsupported)
}
