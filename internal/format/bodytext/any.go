package bodytext

import (
	"bytes"
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// all adds every string of the next value, which is data of a tool, and the names and
// the long numbers in it.
func (w *walker) all(kind Kind) {
	switch w.c.Kind() {
	case jsonedit.String:
		w.add(rule{kind: kind, complete: w.inEvents()})
	case jsonedit.Number:
		w.c.Peek()
		from := w.c.Offset()
		raw := w.c.Raw()
		switch {
		case w.data && len(raw) >= minDataNumber && len(raw) <= maxNumber:
			w.addText(rule{kind: kind}, string(raw), from, from+len(raw))
		case len(raw) >= minNumber && len(raw) <= maxNumber:
			w.addText(rule{kind: Parameter, complete: w.inEvents()}, string(raw), from, from+len(raw))
		}
	case jsonedit.Object:
		w.c.Enter('{')
		for {
			key, ok := w.c.Field()
			if !ok {
				return
			}
			w.addName(key)
			w.all(kind)
		}
	case jsonedit.Array:
		w.c.Enter('[')
		for w.c.Element() {
			w.all(kind)
		}
	default:
		w.c.Skip()
	}
}

// Lengths in bytes of numbers that may be those of persons or accounts.
const (
	minNumber     = 7
	maxNumber     = 32
	minDataNumber = 4 // in data that repeats text, in which every number is text
)

// addName adds the name of a member, which is a view of the body without its quotes.
func (w *walker) addName(key []byte) {
	from := cap(w.raw) - cap(key) - 1
	w.addText(rule{kind: Parameter, complete: w.inEvents()}, string(jsonedit.Unescape(key)), from, from+len(key)+2)
}

// notText are members that identify something or hold what only their maker reads. A string
// in them that could be words is text nevertheless.
var notText = map[string]bool{
	"id": true, "object": true, "type": true, "model": true, "role": true, "signature": true, "encrypted_content": true, "b64_json": true,
	"file_data": true, "bytes": true, "finish_reason": true, "stop_reason": true, "status": true, "system_fingerprint": true,
	"created_at":   true,
	"tool_call_id": true, "call_id": true, "tool_use_id": true, "toolUseId": true, "thoughtSignature": true, "previous_response_id": true,
}

// skipName skips the next value and returns true if it is a string that identifies
// something, for the name that it has.
func (w *walker) skipName(key []byte) bool {
	if !notText[string(key)] || w.c.Kind() != jsonedit.String {
		return false
	}
	ahead := w.c
	if raw := ahead.Raw(); !isToken(raw[1 : len(raw)-1]) {
		return false
	}
	w.c = ahead
	return true
}

// tokens are the bytes of identifiers and of encoded data.
var tokens = func() (set [256]bool) {
	for c := range set {
		set[c] = c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("+/=_-.:@|#", byte(c)) >= 0
	}
	return set
}()

// isToken reports whether a text has only bytes of identifiers and of encoded data.
func isToken(text []byte) bool {
	for _, c := range text {
		if !tokens[c] {
			return false
		}
	}
	return true
}

// maxToken is the length from which a string of [tokens] is taken for encoded data.
const maxToken = 4 << 10

// isData reports whether a long string is encoded data, such as that of an image: base64,
// everywhere. Text without spaces is not, such as words between underscores.
func isData(text []byte) bool {
	if len(text) <= maxToken {
		return false
	}
	if bytes.HasPrefix(text, []byte("data:")) {
		if head, _, ok := bytes.Cut(text[:256], []byte(",")); ok {
			text = text[len(head)+1:]
		}
	}
	if !isToken(text) {
		return false
	}
	for ; len(text) >= 2*dataWindow; text = text[dataWindow:] {
		if !looksEncoded(text[:dataWindow]) {
			return false
		}
	}
	return looksEncoded(text)
}

// dataWindow is the number of bytes in which encoded data shows that it is not text.
const dataWindow = 256

// looksEncoded reports whether text has the mixture of base64: capitals, small letters and
// digits, where text has almost only small letters. Bytes that repeat the one before, as in
// empty areas of images, are left out.
func looksEncoded(text []byte) bool {
	var capitals, letters, digits, n int
	for i, c := range text {
		if i > 0 && c == text[i-1] {
			continue
		}
		switch n++; {
		case 'A' <= c && c <= 'Z':
			capitals++
		case 'a' <= c && c <= 'z':
			letters++
		case '0' <= c && c <= '9', c == '+', c == '/':
			digits++
		case c != '=' && c != '-' && c != '_':
			return false // in no alphabet of base64
		}
	}
	return n < 32 || capitals*8 >= n && letters*8 >= n && digits*32 >= n
}

// any adds every string of the next value that may be text. In values of unknown APIs it
// leaves out names that fields of APIs have.
func (w *walker) any(r rule) {
	switch w.c.Kind() {
	case jsonedit.String:
		ahead := w.c
		if raw := ahead.Raw(); isData(raw[1 : len(raw)-1]) {
			w.uncovered("media")
			w.c = ahead
			return
		}
		w.add(r)
	case jsonedit.Object:
		w.c.Enter('{')
		for {
			key, ok := w.c.Field()
			if !ok {
				return
			}
			plain := jsonedit.Unescape(key)
			if w.skipName(plain) {
				continue
			}
			if r.kind == Parameter && !schemaWords[string(plain)] || r.kind != Parameter && !IsFieldName(plain) {
				w.addName(key)
			}
			key = plain
			outer := w.path
			if w.inEvents() {
				w.path = pathTo(outer, string(key))
			}
			w.any(r)
			w.path = outer
		}
	case jsonedit.Array:
		w.c.Enter('[')
		w.lists++
		for n := 0; w.c.Element(); n++ {
			outer := w.path
			if w.inEvents() {
				w.path = pathTo(outer, w.number(n))
			}
			w.any(r)
			w.path = outer
		}
		w.lists--
	default:
		w.c.Skip()
	}
}

// schemaWords are the names of members in definitions of tools and in schemas, which
// every such definition has.
var schemaWords = map[string]bool{
	"type": true, "name": true, "description": true, "parameters": true, "properties": true, "required": true, "items": true, "enum": true,
	"format":   true,
	"function": true, "strict": true, "additionalProperties": true, "input_schema": true, "inputSchema": true, "json": true,
	"json_schema": true, "schema": true,
	"toolSpec": true, "tools": true, "functionDeclarations": true, "function_declarations": true, "default": true, "title": true,
	"anyOf": true, "$ref": true,
	"minimum": true, "maximum": true, "cache_control": true,
}

// maxFieldName is the length in bytes of the longest name that fields of APIs have.
const maxFieldName = 40

// IsFieldName reports whether a name is written as those of fields of APIs, in snake_case or
// camelCase.
func IsFieldName(key []byte) bool {
	if len(key) == 0 || len(key) > maxFieldName || key[0] < 'a' || key[0] > 'z' {
		return false
	}
	return !slices.ContainsFunc(key, func(c byte) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}
