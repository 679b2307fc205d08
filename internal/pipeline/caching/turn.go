package caching

import (
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// turnFields are the fields that hold a conversation or a prompt, one of which a
// request has.
var turnFields = [...]string{"messages", "contents", "input", "prompt"}

// splitTurn returns the text of the last turn of a request, which must be the
// user's, and its body without that text. Images and other parts of the turn stay
// in the body. It returns false for a request without such a turn, or with
// repeated fields in it, which providers read differently.
func splitTurn(r *exchange.Request) (text string, rest []byte, ok bool) {
	var field string
	var value jsonedit.Value
	for _, name := range turnFields {
		if v, found := r.Received.Doc.Find(name); found {
			if field != "" {
				return "", nil, false
			}
			field, value = name, v
		}
	}
	for _, e := range r.Edits {
		if e.Name == field {
			return "", nil, false
		}
	}
	blank, text, ok := blankTurn(value)
	if field == "" || !ok {
		return "", nil, false
	}
	return text, r.Received.Doc.Apply(nil, jsonedit.Edit{Name: field, Value: blank}), true
}

// blankTurn returns a prompt, or a list of messages, without the text of its
// last turn, and that text.
func blankTurn(v jsonedit.Value) (blank []byte, text string, ok bool) {
	if text, ok := v.Text(); ok {
		return []byte(`""`), text, true
	}
	if v.Kind() != jsonedit.Array {
		return nil, "", false
	}
	var last jsonedit.Value
	for e := range v.Elements() {
		last = e
	}
	if last.Kind() != jsonedit.Object {
		return nil, "", false
	}
	turn, users, contents := []byte{'{'}, 0, 0
	for name, value := range last.Fields() {
		raw := value.Raw()
		switch name.String() {
		case "role":
			if value.IsText("user") {
				users++
			}
		case "content", "parts":
			contents++
			if raw, text, ok = blankContent(value); !ok {
				return nil, "", false
			}
		}
		turn = slices.Concat(turn, name.Raw(), []byte{':'}, raw, []byte{','})
	}
	if users != 1 || contents != 1 {
		return nil, "", false
	}
	turn[len(turn)-1] = '}'
	return v.ReplaceLast(turn), text, true
}

// blankContent returns the content of a message without its text, and the text
// of all parts, each on its own lines.
func blankContent(v jsonedit.Value) (blank []byte, text string, ok bool) {
	if text, ok := v.Text(); ok {
		return []byte(`""`), text, true
	}
	if v.Kind() != jsonedit.Array {
		return nil, "", false
	}
	var texts []string
	out := []byte{'['}
	for part := range v.Elements() {
		raw := part.Raw()
		if part.Kind() == jsonedit.Object {
			blanked, own, found, ok := blankPart(part)
			if !ok {
				return nil, "", false
			}
			if found {
				raw, texts = blanked, append(texts, own)
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	return append(out, ']'), strings.Join(texts, "\n"), len(texts) > 0
}

// blankPart returns a part without its text. Found is false for a part of another
// type, and ok for one with a repeated text.
func blankPart(part jsonedit.Value) (blank []byte, text string, found, ok bool) {
	if kind, typed := part.Get("type"); typed && !kind.IsText("text") && !kind.IsText("input_text") {
		return nil, "", false, true
	}
	out, n := []byte{'{'}, 0
	for name, value := range part.Fields() {
		raw := value.Raw()
		if name.Is("text") {
			own, isString := value.Text()
			if n++; n > 1 || !isString {
				return nil, "", false, false
			}
			raw, text = []byte(`""`), own
		}
		out = slices.Concat(out, name.Raw(), []byte{':'}, raw, []byte{','})
	}
	if n == 0 {
		return nil, "", false, true
	}
	out[len(out)-1] = '}'
	return out, text, true, true
}
