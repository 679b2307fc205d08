package pipeline

import (
	"strings"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
	"modelgate/internal/provider"
)

// wire is how one attempt is put to its target: in the client's dialect, as
// bytes, or translated to the target's.
type wire struct {
	op   api.Operation // whose path of the target's row is taken
	lang api.Dialect   // of the target's conversation; empty for other operations
	to   dialect.Target

	// codec translates a conversation and form another operation; both are
	// empty where bytes pass. request is the conversation once it was read.
	codec   dialect.ProviderCodec
	form    *dialect.Form
	request *llm.Request
}

// translates reports whether bodies are decoded and encoded again.
func (w *wire) translates() bool { return w.codec != nil || w.form != nil }

// wire chooses how the exchange's target is spoken to.
func (l *Leaf) wire(x *Exchange) (wire, error) {
	out := wire{op: x.Operation, to: dialect.Target{Provider: l.Target.ID, Model: x.Sent}}
	switch {
	case x.Operation == api.Proxy:
		return out, nil
	case x.Operation != x.Dialect.Conversation():
		l.formed(x, &out)
		return out, nil
	}
	out.lang = l.Target.Speak(x.Dialect, x.Sent)
	if out.lang == "" {
		return out, provider.NotOffered(l.Target, x.Operation)
	}
	if out.lang != x.Dialect {
		out.codec = l.Codecs[out.lang]
		if out.codec == nil {
			return out, provider.NotOffered(l.Target, x.Operation)
		}
	}
	out.op = out.lang.Conversation()
	if x.Stream {
		if _, ok := l.Target.Path(out.op.Streamed()); ok {
			out.op = out.op.Streamed()
		}
	}
	return out, nil
}

// formed finds the translation of an operation that is no conversation.
func (l *Leaf) formed(x *Exchange, out *wire) {
	if x.Dialect != api.DialectChat || x.Doc == nil {
		return
	}
	codec := l.Codecs[l.Target.Speak(api.DialectChat, x.Sent)]
	if codec == nil {
		codec = l.Codecs[l.Target.Dialect]
	}
	if former, ok := codec.(dialect.Former); ok {
		if form, ok := former.Form(x.Operation, out.to); ok {
			out.form = &form
		}
	}
}

// encode returns the body for the target and tells what became of the client's
// parameters. body is the client's, with the config's edits.
func (l *Leaf) encode(x *Exchange, w *wire, body []byte) ([]byte, error) {
	var fates []dialect.Fate
	var err error
	// About as long as the client's, so that it need not grow.
	out := make([]byte, 0, len(body)+len(body)/4+512)
	if w.form != nil {
		out, fates, err = w.form.Request(out, body, w.to)
	} else {
		if w.request, err = x.Client.DecodeRequest(body); err != nil {
			return nil, err
		}
		w.request.Model, w.request.Stream = x.Sent, x.Stream
		out, fates, err = w.codec.EncodeRequest(out, w.request, w.to)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range fates {
		x.Params = append(x.Params, fateText(f))
	}
	return out, nil
}

// fateText is a fate as an item of a structured header field (RFC 9651).
func fateText(f dialect.Fate) string {
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
func (l *Leaf) unsupported(names []string) error {
	return apierr.New(apierr.Invalid, "%s can't honour %s, and the config asks to refuse then (on_unsupported); leave it out or choose another target",
		l.Target.ID, strings.Join(names, ", ")).WithParam(names[0]).WithCode(dialect.CodeUnsupported)
}
