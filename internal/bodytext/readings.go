package bodytext

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"modelgate/internal/jsonedit"
)

// everyDepth is a depth of JSON in strings that no text reaches: each doubles the backslashes.
const everyDepth = 64

// Readings returns text as a reader of the JSON in it reads it: with the escapes in its strings
// decoded, at the first depth, at the second, and at every depth of JSON in strings. A
// reading that differs from none before it is left out. The result is nil if text has no
// escapes, or is not JSON; that of arguments may be incomplete or invalid.
//
// Quotes and backslashes stay escaped, so that [Unread] can write the reading back.
func Readings(text string, kind Kind) (list []Reading) {
	if strings.IndexByte(text, '\\') < 0 || kind != Arguments && !isJSONText(text) {
		return nil
	}
	last := text
	for _, depth := range [...]int{1, 2, everyDepth} {
		decoded, deeper := decodeStrings(text, depth)
		if decoded != last {
			list = append(list, Reading{decoded, depth})
			last = decoded
		}
		if !deeper {
			break
		}
	}
	return list
}

// Reading is a string of JSON with its escapes decoded.
type Reading struct {
	Text  string
	depth int
}

// Unread returns the JSON for a reading of another text of the same depth, such as one with
// parts of it replaced.
func (r Reading) Unread(text string) string {
	encoded, _ := encodeStrings(text, r.depth)
	return encoded
}

// MayBeJSON reports whether a text whose beginning is head may be JSON with text.
func MayBeJSON(head string) bool {
	head = strings.TrimLeft(head, " \t\r\n")
	if head == "" {
		return true
	}
	if head[0] == '"' {
		return true
	}
	if head[0] != '{' && head[0] != '[' {
		return false
	}
	rest := strings.TrimLeft(head[1:], " \t\r\n")
	return rest == "" || strings.IndexByte(`"{[]}-0123456789tfn`, rest[0]) >= 0
}

// isJSONText reports whether a text is JSON with text: a value, or values in lines or after each other.
func isJSONText(text string) bool {
	if !MayBeJSON(text) {
		return false
	}
	if _, err := jsonedit.ParseValue([]byte(text)); err == nil {
		return true
	}
	return IsSequence([]byte(text))
}

// decodeStrings decodes the escapes in the strings of a JSON text, and in JSON in those
// strings up to a depth. deeper reports whether there is JSON with escapes below.
func decodeStrings(text string, depth int) (decoded string, deeper bool) {
	return eachString(text, func(b *strings.Builder, content string) bool {
		plain, more := content, false
		if strings.IndexByte(content, '\\') >= 0 {
			plain = unescape(content)
		}
		if strings.IndexByte(plain, '\\') >= 0 && isJSONText(plain) {
			if more = true; depth > 1 {
				plain, more = decodeStrings(plain, depth-1)
			}
		}
		writeQuoted(b, plain, false)
		return more
	})
}

// encodeStrings writes a text of [decodeStrings] back as JSON.
func encodeStrings(text string, depth int) (encoded string, deeper bool) {
	return eachString(text, func(b *strings.Builder, content string) bool {
		plain := quotes.Replace(content)
		if depth > 1 && MayBeJSON(plain) {
			if inner, _ := encodeStrings(plain, depth-1); isJSONText(inner) {
				plain = inner
			}
		}
		writeQuoted(b, plain, true)
		return false
	})
}

var quotes = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// eachString copies a JSON text with the content of each string written by write, and
// reports whether a call of it was true. The last string may have no end.
func eachString(text string, write func(b *strings.Builder, content string) bool) (string, bool) {
	var b strings.Builder
	b.Grow(len(text))
	found := false
	for text != "" {
		i := strings.IndexByte(text, '"') + 1
		if i == 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:i])
		text = text[i:]
		end := stringEnd(text)
		found = write(&b, text[:end]) || found
		if text = text[end:]; text != "" {
			b.WriteByte('"')
			text = text[1:]
		}
	}
	return b.String(), found
}

// stringEnd returns the index of the quote that ends a string, len(text) if it has no end.
func stringEnd(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(text)
}

// writeQuoted writes the content of a string. controls says whether control characters are
// escaped, in the form that reads least like other text.
func writeQuoted(b *strings.Builder, plain string, controls bool) {
	for i := 0; i < len(plain); i++ {
		switch c := plain[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' && controls:
			b.WriteString(`\u00`)
			b.WriteByte("0123456789abcdef"[c>>4])
			b.WriteByte("0123456789abcdef"[c&15])
		default:
			b.WriteByte(c)
		}
	}
}

// unescape decodes the escapes in the content of a string. Others stay as they are.
func unescape(content string) string {
	var b strings.Builder
	b.Grow(len(content))
	for i := 0; i < len(content); {
		if content[i] != '\\' || i+1 == len(content) {
			b.WriteByte(content[i])
			i++
			continue
		}
		if at := strings.IndexByte(`"\/bfnrt`, content[i+1]); at >= 0 {
			b.WriteByte("\"\\/\b\f\n\r\t"[at])
			i += 2
			continue
		}
		r, n := unicodeEscape(content[i:])
		if n == 0 {
			b.WriteByte(content[i])
			i++
			continue
		}
		b.WriteRune(r)
		i += n
	}
	return b.String()
}

// unicodeEscape returns the character of an escape \u that text begins with, and its length: that of
// two escapes if they are a pair of surrogates, 0 for other text.
func unicodeEscape(text string) (r rune, length int) {
	if r, length = codeUnit(text); length == 0 || !utf16.IsSurrogate(r) {
		return r, length
	}
	if low, n := codeUnit(text[length:]); n > 0 {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, length + n
		}
	}
	return utf8.RuneError, length
}

func codeUnit(text string) (r rune, length int) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, 0
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(n), 6
}
