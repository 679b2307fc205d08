package peer

import (
	"slices"

	"modelgate/internal/format/jsonedit"
)

// replaceMembers returns a request on one line, with another id and another progress token, if
// it has one.
func replaceMembers(message []byte, e envelope, id, token []byte) []byte {
	type edit struct {
		at, length int
		with       []byte
	}
	edits := []edit{{offsetIn(message, e.id), len(e.id), id}}
	if raw := findMember(e.params, "_meta", "progressToken"); raw != nil {
		edits = append(edits, edit{offsetIn(message, raw), len(raw), token})
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.at - b.at })
	out, from := make([]byte, 0, len(message)+40), 0
	for _, x := range edits {
		out = append(append(out, message[from:x.at]...), x.with...)
		from = x.at + x.length
	}
	return append(out, message[from:]...)
}

// replaceAt returns a copy of a text with a part replaced.
func replaceAt(text []byte, at, length int, with []byte) []byte {
	out := make([]byte, 0, len(text)-length+len(with))
	out = append(append(out, text[:at]...), with...)
	return append(out, text[at+length:]...)
}

// offsetIn returns where a view of a text begins in it.
func offsetIn(text, view []byte) int { return cap(text) - cap(view) }

// cancelMessage returns the notification that ends a request.
func cancelMessage(id []byte) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("method")
	b.String("notifications/cancelled")
	b.Name("params")
	b.Open('{')
	b.Name("requestId")
	b.Raw(id)
	b.Name("reason")
	b.String("the client ended the request")
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}
