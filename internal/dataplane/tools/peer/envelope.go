package peer

import (
	"bytes"

	"modelgate/internal/format/jsonedit"
)

// envelope is what is read of a message: views of its bytes, nil where a member is absent.
type envelope struct {
	id, method, result, failure, params []byte
}

// has reports whether a member is present, with any value.
func has(raw []byte) bool { return raw != nil }

// isResponse reports whether the message answers a request.
func (e *envelope) isResponse() bool {
	return !has(e.method) && has(e.id) && (has(e.result) || has(e.failure))
}

// isRequest reports whether the message expects a response.
func (e *envelope) isRequest() bool { return has(e.method) && has(e.id) }

// parseEnvelope reads the members of a message. ok is false for text that is not an object, or
// whose end is missing; what is in the members is not checked.
func parseEnvelope(message []byte) (e envelope, ok bool) {
	var c jsonedit.Cursor
	c.Reset(message)
	if !c.Enter('{') {
		return e, false
	}
	for {
		key, more := c.Field()
		if !more {
			return e, !c.Failed() && c.Peek() == 0
		}
		value := c.Raw()
		switch string(key) {
		case "id":
			e.id = value
		case "method":
			e.method = value
		case "result":
			e.result = value
		case "error":
			e.failure = value
		case "params":
			e.params = value
		}
	}
}

// endsCall reports whether a message of a server is a response, without reading more of it
// than its envelope.
func endsCall(message []byte) bool {
	e, ok := parseEnvelope(message)
	return ok && e.isResponse()
}

// findID returns the id of a message, or nil. It reads up to the id.
func findID(message []byte) []byte {
	var c jsonedit.Cursor
	c.Reset(message)
	if !c.Enter('{') {
		return nil
	}
	for {
		key, more := c.Field()
		if !more {
			return nil
		}
		if string(key) == "id" {
			if raw := c.Raw(); !c.Failed() {
				return raw
			}
			return nil
		}
		c.Skip()
	}
}

// findMember returns the member of an object at a path of names, or nil. Names with escapes
// in the object are not found.
func findMember(object []byte, path ...string) []byte {
	for _, name := range path {
		var c jsonedit.Cursor
		c.Reset(object)
		if !c.Enter('{') {
			return nil
		}
		object = nil
		for object == nil {
			key, more := c.Field()
			if !more {
				return nil
			}
			if string(key) != name {
				c.Skip()
				continue
			}
			if object = c.Raw(); c.Failed() {
				return nil
			}
		}
	}
	return object
}

// textOf returns the text of a JSON string, and nothing for other values.
func textOf(raw []byte) string {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return ""
	}
	s, _ := v.Text()
	return s
}

// codeOf returns the code of the error of a response, and zero without one.
func codeOf(e envelope) int64 {
	v, err := jsonedit.ParseValue(findMember(e.failure, "code"))
	if err != nil {
		return 0
	}
	n, _ := v.Int()
	return n
}

// isObject reports whether a text begins as a JSON object, as every message does.
func isObject(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && text[0] == '{'
}
