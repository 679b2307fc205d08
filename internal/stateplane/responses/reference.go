package responses

import (
	"bytes"
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// references is what a body says of keeping.
type references struct {
	store, asked, background bool
	previous, conversation   string
}

// parseReferences reads a body, whose form has been checked.
func parseReferences(body *jsonedit.Doc) (r references, err error) {
	v, ok := body.Find("store")
	r.store, r.asked = true, ok && !v.IsNull()
	if r.asked {
		r.store, _ = v.Bool()
		r.asked = r.store
	}
	v, _ = body.Find("background")
	r.background, _ = v.Bool()
	r.previous = textOf(body, "previous_response_id")
	if v, ok = body.Find("conversation"); ok {
		if r.conversation, ok = v.Text(); !ok {
			r.conversation = v.TextOf("id")
		}
		if r.conversation == "" && !v.IsNull() {
			return r, apierr.New(apierr.Invalid, "conversation must be the id of a conversation, or an object with its id").WithParam("conversation")
		}
	}
	switch {
	case r.previous != "" && r.conversation != "":
		return r, apierr.New(apierr.Invalid, "previous_response_id and conversation exclude each other; send one of them").
			WithParam("previous_response_id").WithCode("mutually_exclusive_parameters")
	case r.background && !r.store:
		return r, apierr.New(apierr.Invalid, "background needs a stored response; leave store out, or send store true").WithParam("background")
	}
	return r, nil
}

// inputItems returns the items of a body. A text is a message of the user.
func inputItems(body *jsonedit.Doc) (items []json.RawMessage) {
	v, _ := body.Find("input")
	if v.Kind() == jsonedit.String {
		var b jsonedit.Builder
		b.Open('{')
		b.Name("type")
		b.String("message")
		b.Name("role")
		b.String("user")
		b.Name("content")
		b.Open('[')
		b.Open('{')
		b.Name("type")
		b.String("input_text")
		b.Name("text")
		b.Raw(v.Raw())
		b.Close('}')
		b.Close(']')
		b.Close('}')
		return []json.RawMessage{b.Bytes()}
	}
	for e := range v.Elements() {
		items = append(items, bytes.Clone(e.Raw()))
	}
	return items
}

// expand returns the edits that put the earlier items into the input.
func (t *turn) expand(limit int64, r references) ([]jsonedit.Edit, error) {
	all := append(append([]json.RawMessage(nil), t.before...), t.items...)
	size := int64(2)
	for _, item := range all {
		size += int64(len(item)) + 1
	}
	if size > limit {
		return nil, tooLong(limit)
	}
	edits := []jsonedit.Edit{{Name: "input", Value: joinItems(all)}}
	if r.previous != "" {
		return append(edits, jsonedit.Edit{Name: "previous_response_id"}), nil
	}
	return append(edits, jsonedit.Edit{Name: "conversation"}), nil
}

// joinItems returns items as an array.
func joinItems(list []json.RawMessage) []byte {
	return append(append([]byte{'['}, bytes.Join(raws(list), []byte(","))...), ']')
}

func raws(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// shownMembers returns the members of the response that the gateway knows better than the provider.
func (t *turn) shownMembers(r references) []jsonedit.Edit {
	text := func(name, s string) jsonedit.Edit {
		if s == "" {
			return jsonedit.Edit{Name: name, Value: []byte("null")}
		}
		return jsonedit.Edit{Name: name, Value: jsonedit.AppendString(nil, s)}
	}
	edits := []jsonedit.Edit{text("id", t.ID), {Name: "store", Value: []byte("true")}, text("previous_response_id", r.previous)}
	if t.conversation != nil {
		value := append(jsonedit.AppendString([]byte(`{"id":`), t.conversation.ShownID()), '}')
		edits = append(edits, jsonedit.Edit{Name: "conversation", Value: value})
	}
	if r.background {
		edits = append(edits, jsonedit.Edit{Name: "background", Value: []byte("true")})
	}
	return edits
}
