package tokens

import (
	"bytes"

	"modelgate/internal/format/jsonedit"
)

// piece is the kind of a part of a request that has tokens.
type piece uint8

// Kinds of parts.
const (
	text    piece = iota
	media         // an image, a recording or a file, or where it is
	sealed        // text that only its provider can read
	message       // the role of a message
	number        // a token
)

// walker finds the parts of a JSON request in order. Fields are those of all dialects: a
// string is media in a field for media only, and text in every field that it does not know.
type walker struct {
	c     jsonedit.Cursor
	visit func(kind piece, part []byte)
	tools bool // the request defines tools

	key    []byte
	direct bool // the next string is the value of key, not in an array
	depth  int
	data   int // depth of the innermost data of a tool, whose names and numbers are text too; 0 outside

	source int      // depth of the outermost object for media; 0 outside
	held   [][]byte // strings in it that are media, unless it says that it holds text
	plain  bool     // it says so
}

// walk calls visit for the parts of a body, which may be invalid JSON.
func walk(body []byte, visit func(kind piece, part []byte)) (tools bool) {
	w := walker{visit: visit}
	w.c.Reset(body)
	for {
		from := w.c.Offset()
		first, s := w.c.Token()
		if w.data > 0 {
			w.scalar(from, first, s)
		}
		switch first {
		case 0:
			w.leaveSource()
			return w.tools
		case '"':
			if w.c.Peek() == ':' {
				w.enterField(s)
			} else {
				w.value(s)
			}
		default:
			w.bracket(first)
		}
	}
}

// scalar visits the number or word in data that precedes a token.
func (w *walker) scalar(from int, first byte, s []byte) {
	to := w.c.Offset()
	switch first {
	case 0:
	case '"':
		to -= len(s) + 2
	default:
		to--
	}
	if from >= to {
		return
	}
	if part := bytes.TrimSpace(w.c.Bytes()[from:to]); len(part) > 0 {
		w.visit(text, part)
	}
}

// bracket reads a bracket or a comma.
func (w *walker) bracket(first byte) {
	w.direct = false
	switch first {
	case '{', '[':
		w.depth++
	case '}', ']':
		if w.depth--; w.depth < w.data {
			w.data = 0
		}
		if w.source > 0 && w.depth < w.source {
			w.leaveSource()
		}
		if first == '}' {
			w.key = nil
		}
	}
	if first == '[' || first == ',' {
		if next := w.c.Peek(); next >= '0' && next <= '9' && w.data == 0 && (string(w.key) == "input" || string(w.key) == "prompt") {
			w.visit(number, nil)
		}
	}
}

// enterField reads the name of a member.
func (w *walker) enterField(key []byte) {
	w.c.Token() // the colon
	if w.data > 0 {
		w.visit(text, key)
		return
	}
	if bytes.IndexByte(key, '\\') >= 0 {
		key = unescape(key)
	}
	w.key, w.direct = key, true
	if len(key) > maxName {
		w.visit(text, key)
	}
	switch next := w.c.Peek(); {
	case next != '{' && next != '[':
	case isData(key, next):
		w.data = w.depth + 1
		w.tools = w.tools || isTools(key)
	case next == '{' && w.source == 0 && isSource(key):
		w.source = w.depth + 1
	}
}

// Lengths in bytes.
const (
	maxName = 40 // the longest name of a field of an API
	maxID   = 64 // the longest string that identifies something
)

// value visits a string that is not a name.
func (w *walker) value(s []byte) {
	if w.data > 0 {
		w.visit(text, s)
		return
	}
	if w.source > 0 {
		w.plain = w.plain || saysText(w.key, s)
	}
	switch kind := kindOf(w.key); {
	case kind == media && (w.source > 0 || !needsSource(w.key)) && isAddress(s):
		if w.source > 0 {
			w.held = append(w.held, s)
		} else {
			w.visit(media, s)
		}
	case kind == message && w.direct && len(s) <= maxID:
		if string(w.key) == "role" {
			w.visit(message, s)
		}
	case kind == sealed:
		w.visit(sealed, s)
	default:
		w.visit(text, s)
	}
	w.direct = false
}

// leaveSource visits what the object for media held.
func (w *walker) leaveSource() {
	kind := media
	if w.plain {
		kind = text
	}
	for _, s := range w.held {
		w.visit(kind, s)
	}
	w.source, w.held, w.plain = 0, w.held[:0], false
}
