package redact

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"modelgate/internal/format/jsonedit"
)

var fieldMark = mark("field")

// json appends b, which is JSON or the start of it, with the rules applied
// inside of strings and numbers. Invalid JSON is handled as far as possible.
func (r *Redactor) json(dst, b []byte) []byte {
	w := jsonWalker{r: r, src: b, dst: dst}
	for w.at < len(b) {
		w.token()
	}
	return w.dst
}

// jsonWalker walks through JSON that may be invalid.
type jsonWalker struct {
	r    *Redactor
	src  []byte
	at   int
	dst  []byte
	open []level
}

// level is an object or array that the walker is in.
type level struct {
	array bool
	name  string // of the current member
	index int    // of the current element
	value bool   // a value comes next, not a name
}

func (w *jsonWalker) token() {
	switch c := w.src[w.at]; c {
	case ' ', '\t', '\r', '\n':
		w.pass()
	case '{', '[':
		if w.denied() {
			w.skip()
			return
		}
		w.open = append(w.open, level{array: c == '[', value: c == '['})
		w.pass()
	case '}', ']':
		if len(w.open) > 0 {
			w.open = w.open[:len(w.open)-1]
		}
		w.pass()
	case ':':
		if l := w.in(); l != nil {
			l.value = true
		}
		w.pass()
	case ',':
		if l := w.in(); l != nil {
			l.index++
			l.value = l.array
		}
		w.pass()
	case '"':
		w.text()
	default:
		w.word()
	}
}

func (w *jsonWalker) pass() {
	w.dst = append(w.dst, w.src[w.at])
	w.at++
}

func (w *jsonWalker) in() *level {
	if len(w.open) == 0 {
		return nil
	}
	return &w.open[len(w.open)-1]
}

// text reads a string: a name or a value.
func (w *jsonWalker) text() {
	end, closed := stringEnd(w.src, w.at)
	raw := w.src[w.at:end]
	inner := raw[1:]
	if closed {
		inner = inner[:len(inner)-1]
	}
	l := w.in()
	value := l == nil || l.value
	w.at = end
	if value && w.denied() {
		w.dst = jsonedit.AppendString(w.dst, fieldMark)
		return
	}
	plain := unescape(inner)
	if !value {
		l.name = plain
	}
	kept := w.r.Text(plain)
	if kept == plain {
		w.dst = append(w.dst, raw...)
		return
	}
	w.dst = jsonedit.AppendString(w.dst, kept)
	if !closed {
		w.dst = w.dst[:len(w.dst)-1]
	}
}

// word reads a number, a literal, or text that is not JSON. A number with a
// match becomes a string.
func (w *jsonWalker) word() {
	end := w.at
	for end < len(w.src) && !strings.ContainsRune(" \t\r\n{}[]:,\"", rune(w.src[end])) {
		end++
	}
	text := string(w.src[w.at:end])
	w.at = end
	switch {
	case w.denied():
		w.dst = jsonedit.AppendString(w.dst, fieldMark)
	case w.r.Text(text) != text:
		w.dst = jsonedit.AppendString(w.dst, w.r.Text(text))
	default:
		w.dst = append(w.dst, text...)
	}
}

// skip removes a value that is an object or an array.
func (w *jsonWalker) skip() {
	depth := 0
	for w.at < len(w.src) {
		switch w.src[w.at] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			w.at, _ = stringEnd(w.src, w.at)
			continue
		}
		w.at++
		if depth == 0 {
			break
		}
	}
	w.dst = jsonedit.AppendString(w.dst, fieldMark)
}

// denied reports whether the next value is of a denied field.
func (w *jsonWalker) denied() bool {
	l := w.in()
	if l == nil || !l.value {
		return false
	}
	if w.r.fields[l.name] {
		return true
	}
	for _, path := range w.r.paths {
		if len(path) == len(w.open) && w.on(path) {
			return true
		}
	}
	return false
}

func (w *jsonWalker) on(path []string) bool {
	for i := len(path) - 1; i >= 0; i-- {
		l := &w.open[i]
		name := l.name
		if l.array {
			name = strconv.Itoa(l.index)
		}
		if path[i] != "*" && path[i] != name {
			return false
		}
	}
	return true
}

// stringEnd returns the end of the string that begins at i, and whether it is
// closed.
func stringEnd(b []byte, i int) (end int, closed bool) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return len(b), false
}

// unescape returns the unescaped content of a string. An invalid or cut escape
// is copied.
func unescape(b []byte) string {
	i := bytes.IndexByte(b, '\\')
	if i < 0 {
		return string(b)
	}
	out := make([]byte, i, len(b))
	copy(out, b)
	for i < len(b) {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			i++
			continue
		}
		if b[i+1] != 'u' {
			out = append(out, simple(b[i+1])...)
			i += 2
			continue
		}
		r, n := unit(b[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}

// simple returns the character for a backslash followed by c.
func simple(c byte) string {
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return "\"\\/\b\f\n\r\t"[i : i+1]
	}
	return string([]byte{'\\', c})
}

// unit reads a \u escape, or a pair of them, and returns its length.
func unit(b []byte) (r rune, n int) {
	first, ok := hex4(b)
	if !ok {
		return '\\', 1
	}
	if utf16.IsSurrogate(first) {
		if second, ok := hex4(b[6:]); ok {
			if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return first, 6
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
