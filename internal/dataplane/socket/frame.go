package socket

import (
	"bytes"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// frame is a message of a client on a connection for responses.
type frame struct {
	doc      jsonedit.Doc
	stream   string // the lane; empty is the one without a name
	previous string // the id of the turn that this one continues; empty for none
	warms    bool   // generate is false: the turn is kept, and no model is asked
	unstored bool   // store is false
	release  func() // of its memory; nil for none
}

// parseFrame reads a message.
func parseFrame(text []byte) (*frame, error) {
	f := new(frame)
	if err := f.doc.Scan(text); err != nil {
		return f, apierr.New(apierr.Invalid, "the message is not a JSON object: %v", err).WithCode("invalid_json")
	}
	if v, ok := f.doc.Find("stream_id"); ok && !v.IsNull() {
		id, isText := v.Text()
		if !isText || !validStream(id) {
			return f, apierr.New(apierr.Invalid, "stream_id must have 1 to 256 letters, digits, underscores, hyphens or periods").
				WithParam("stream_id").WithCode("invalid_stream_id")
		}
		f.stream = id
	}
	if v, ok := f.doc.Find("previous_response_id"); ok && !v.IsNull() {
		id, isText := v.Text()
		if !isText {
			return f, apierr.New(apierr.Invalid, "previous_response_id must be a string").WithParam("previous_response_id")
		}
		f.previous = id
	}
	return f, nil
}

// validStream reports whether id may name a lane. It needs no escapes in JSON.
func validStream(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return id != "" && len(id) <= 256
}

// kind returns the type of the message.
func (f *frame) kind() string {
	v, _ := f.doc.Find("type")
	text, _ := v.Text()
	return text
}

// readCreate reads the members of a response.create that the connection itself needs.
func (f *frame) readCreate() error {
	if v, ok := f.doc.Find("background"); ok {
		if on, isBool := v.Bool(); on || !isBool && !v.IsNull() {
			return apierr.New(apierr.Invalid, "background is not possible on a WebSocket connection; send the request over HTTP").WithParam("background")
		}
	}
	var err error
	if f.warms, err = f.isFalse("generate"); err == nil {
		f.unstored, err = f.isFalse("store")
	}
	return err
}

// isFalse reports whether a member is false.
func (f *frame) isFalse(name string) (bool, error) {
	v, ok := f.doc.Find(name)
	if !ok || v.IsNull() {
		return false, nil
	}
	on, isBool := v.Bool()
	if !isBool {
		return false, apierr.New(apierr.Invalid, "%s must be true or false", name).WithParam(name)
	}
	return !on, nil
}

// body returns the request for the turn. If before is not nil, its items take the place of
// previous_response_id.
func (f *frame) body(before *pastTurn) []byte {
	edits := make([]jsonedit.Edit, 0, 7)
	edits = append(edits, jsonedit.Edit{Name: "type"}, jsonedit.Edit{Name: "stream_id"}, jsonedit.Edit{Name: "generate"},
		jsonedit.Edit{Name: "background"}, jsonedit.Edit{Name: "stream", Value: []byte("true")})
	more := 64
	if before != nil {
		input := before.appendItems(nil, f.items())
		edits = append(edits, jsonedit.Edit{Name: "previous_response_id"}, jsonedit.Edit{Name: "input", Value: input})
		more += len(input)
	}
	return f.doc.Apply(make([]byte, 0, len(f.doc.Bytes())+more), edits...)
}

// items returns the items of the input, separated by commas. A text is a message of the user.
func (f *frame) items() []byte {
	v, ok := f.doc.Find("input")
	switch {
	case !ok || v.IsNull():
		return nil
	case v.Kind() == jsonedit.Array:
		return elementsOf(v)
	}
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("type")
	b.String("message")
	b.Name("role")
	b.String("user")
	b.Name("content")
	b.Raw(v.Raw())
	b.Close('}')
	return b.Bytes()
}

// elementsOf returns the text between the brackets of an array.
func elementsOf(v jsonedit.Value) []byte {
	raw := v.Raw()
	return bytes.TrimSpace(raw[1 : len(raw)-1])
}
