package attempt

import (
	"bytes"
	"slices"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
)

// optionsField is the request field with which clients of the chat dialect
// request the usage of a stream.
// https://platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options
const optionsField = "stream_options"

var includeUsage, _ = jsonedit.ParsePath("include_usage")

// usageRequest returns the edit that requests the usage of a stream. doc is the
// body after all edits except list. It returns false if the request has it, if
// the provider reports usage unasked, or if the provider or the config drops
// the field.
func (p *plan) usageRequest(doc *jsonedit.Doc, list []jsonedit.Edit) (jsonedit.Edit, bool) {
	chat := p.wire.op == api.Chat || p.wire.op == api.Chat.Streamed() || p.wire.op == api.Completions
	if !chat || !p.request.Stream || p.wire.translates() || p.record.Target.UsageUnasked || p.dropsOptions(list) {
		return jsonedit.Edit{}, false
	}
	edit := jsonedit.Edit{Name: optionsField, Value: []byte(`{"include_usage":true}`)}
	options, ok := doc.Find(optionsField)
	if !ok || options.Kind() != jsonedit.Object {
		return edit, true
	}
	if asked, ok := options.Get("include_usage"); ok {
		if yes, _ := asked.Bool(); yes {
			return jsonedit.Edit{}, false
		}
	}
	value, err := jsonedit.Set(nil, options.Raw(), includeUsage, []byte("true"))
	if err != nil {
		return jsonedit.Edit{}, false // the provider reports what is wrong with it
	}
	edit.Value = value
	return edit, true
}

// dropsOptions reports whether stream_options must not be sent to the provider.
func (p *plan) dropsOptions(list []jsonedit.Edit) bool {
	for _, e := range list {
		if e.Name == optionsField {
			return true
		}
	}
	for _, path := range p.handler.Params.Drop {
		if path.String() == optionsField {
			return true
		}
	}
	return slices.Contains(p.record.Target.Drop, optionsField) || slices.Contains(p.record.Target.Rule(p.record.Model).Drop, optionsField) ||
		slices.Contains(p.record.Target.BodyRules[p.wire.op].Drop, optionsField)
}

// usageHider removes from a stream what is in it only because the gateway
// requested usage: the chunk with the usage, and the member usage of other
// chunks.
type usageHider struct {
	exchange.Stream
	doc jsonedit.Doc
	buf []byte // reused
}

const usageKey = `usage"`

// Next implements [exchange.Stream].
func (h *usageHider) Next() (sse.Event, error) {
	e, err := h.Stream.Next()
	if err == nil {
		e = h.hide(e)
	}
	return e, err
}

// hide returns the event as it would be without the request for usage; an event
// that would not exist becomes empty. The result is valid until the next call.
func (h *usageHider) hide(e sse.Event) sse.Event {
	if !jsonedit.StringBegins(e.Data, usageKey) || h.doc.Scan(e.Data) != nil {
		return e
	}
	defer h.doc.Reset()
	usage, ok := h.doc.Find("usage")
	if !ok {
		return e
	}
	if choices, ok := h.doc.Find("choices"); ok && !usage.IsNull() && isEmptyArray(choices) {
		return sse.Event{Raw: comments(e.Raw)}
	}
	before, after, ok := bytes.Cut(e.Raw, e.Data)
	if !ok { // data of several lines
		return e
	}
	h.buf = append(h.buf[:0], before...)
	h.buf = h.doc.Apply(h.buf, jsonedit.Edit{Name: "usage"})
	data := h.buf[len(before):]
	h.buf = append(h.buf, after...)
	e.Raw, e.Data = h.buf, data
	return e
}

func isEmptyArray(v jsonedit.Value) bool {
	for range v.Elements() {
		return false
	}
	return v.Kind() == jsonedit.Array
}

// comments returns the comments and blank lines before the first field of an
// event.
func comments(raw []byte) []byte {
	end := 0
	for end < len(raw) {
		switch raw[end] {
		case '\r', '\n':
			end++
			continue
		case ':':
			if n := bytes.IndexAny(raw[end:], "\r\n"); n >= 0 {
				end += n
				continue
			}
		}
		break
	}
	return raw[:end]
}
