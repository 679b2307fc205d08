package bodytext

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"modelgate/internal/format/jsonedit"
)

// everyDepth is a depth of JSON in strings that no text reaches: each doubles the backslashes.
const everyDepth = 64

// Readings returns text as a reader of the JSON in it reads it: with the escapes in its strings
// decoded, at the first depth, at the second, and at every depth of JSON in strings. A
// reading that differs from none before it is left out. The result is nil if text has no
// escapes, or is not JSON; that of arguments may be incomplete or invalid.
//
// In text that begins like an object or an array without being JSON, such as one with single
// quotes, escapes of numbered characters are decoded wherever they are.
//
// Quotes and backslashes stay escaped, so that [Unread] can write the reading back.
func Readings(text string, kind Kind) (list []Reading) {
	if strings.IndexByte(text, '\\') < 0 {
		return nil
	}
	valid := isJSONText(text)
	last := text
	if plain := unescapeLoose(text); !valid && plain != last {
		list = append(list, Reading{plain, 0})
		last = plain
	}
	if !valid && kind != Arguments {
		return list
	}
	for _, depth := range [...]int{1, 2, everyDepth} {
		decoded, deeper := decodeStrings(text, depth)
		if decoded != last && decoded != text {
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
	depth int // 0 for text that is not JSON
}

// Unread returns the JSON for a reading of another text of the same depth, such as one with
// parts of it replaced.
func (r Reading) Unread(text string) string {
	if r.depth == 0 {
		return text
	}
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
	return rest == "" || strings.IndexByte(`"{[]}-0123456789tfn`, rest[0]) >= 0 || beginsLoose(rest[0])
}

// beginsLoose reports whether a byte may begin a name or a string in an object or an array that is
// not JSON.
func beginsLoose(c byte) bool {
	return c == '\'' || c == '_' || c == '\\' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
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
		} else {
			plain = unescapeLoose(plain)
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

// unescapeLoose decodes the escapes of numbered characters in a text that begins like an object or an
// array, except those of control characters, quotes and backslashes, which would change what the
// text means.
func unescapeLoose(text string) string {
	if start := strings.TrimLeft(text, " \t\r\n"); start == "" || start[0] != '{' && start[0] != '[' {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := unicodeEscape(text[i:])
		if n == 0 && len(text) >= i+4 && text[i:i+2] == `\x` {
			if c, err := strconv.ParseUint(text[i+2:i+4], 16, 8); err == nil {
				r, n = rune(c), 4
			}
		}
		switch {
		case n == 0 && text[i] == '\\' && i+1 < len(text): // the next byte is escaped
			b.WriteString(text[i : i+2])
			i += 2
			continue
		case n == 0:
			b.WriteByte(text[i])
			n = 1
		case r < ' ' || r == '"' || r == '\'' || r == '\\' || r == utf8.RuneError:
			b.WriteString(text[i : i+n])
		default:
			b.WriteRune(r)
		}
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
