package toolserver

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// Digest returns the digest of a definition as a server wrote it, in hexadecimal.
//
// Definitions that mean the same have the same digest: the order of members, white space, and
// how strings and numbers are spelled make no difference. Everything that a definition says
// counts: name, description, schemas, annotations, icons and _meta, a change of which can make
// a model do something else. Members with one name all count, in their order, because
// programs do not agree on which of them they read. Text that is not JSON, or too deep, has a
// digest of its bytes.
func Digest(definition []byte) string {
	text, ok := []byte(nil), json.Valid(definition)
	if ok {
		text, ok = canonical(nil, jsonedit.NewCursor(definition), 0)
	}
	if !ok {
		text = append([]byte("not JSON\n"), definition...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// maxDefinitionDepth is the limit of nested values in a definition.
const maxDefinitionDepth = 100

// canonical appends the next value in its canonical form. It reports false for a value that
// is too deep or broken.
func canonical(dst []byte, c *jsonedit.Cursor, depth int) ([]byte, bool) {
	if depth > maxDefinitionDepth {
		return dst, false
	}
	switch {
	case c.Enter('['):
		dst = append(dst, '[')
		for c.Element() {
			var ok bool
			if dst, ok = canonical(dst, c, depth+1); !ok {
				return dst, false
			}
			dst = append(dst, ',')
		}
		return append(dst, ']'), !c.Failed()
	case c.Enter('{'):
		return canonicalObject(dst, c, depth)
	case c.Kind() == jsonedit.String:
		raw := c.Raw()
		return strconv.AppendQuote(dst, string(jsonedit.Unescape(raw[1:len(raw)-1]))), !c.Failed()
	case c.Kind() == jsonedit.Number:
		return append(dst, canonicalNumber(string(c.Raw()))...), !c.Failed()
	default:
		return append(dst, c.Raw()...), !c.Failed()
	}
}

// canonicalObject appends an object that was entered, its members sorted by name.
func canonicalObject(dst []byte, c *jsonedit.Cursor, depth int) ([]byte, bool) {
	type member struct {
		name  string
		value []byte
	}
	var list []member
	for raw, ok := c.Field(); ok; raw, ok = c.Field() {
		name := string(jsonedit.Unescape(raw))
		value, ok := canonical(nil, c, depth+1)
		if !ok {
			return dst, false
		}
		list = append(list, member{name, value})
	}
	slices.SortStableFunc(list, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for _, m := range list {
		dst = append(append(strconv.AppendQuote(dst, m.name), ':'), m.value...)
		dst = append(dst, ',')
	}
	return append(dst, '}'), !c.Failed()
}

// canonicalNumber returns a number as its significant digits and an exponent of ten. A number
// whose exponent is absurd stays as it is.
func canonicalNumber(text string) string {
	digits, negative := strings.CutPrefix(text, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(digits), "e")
	exponent, err := strconv.ParseInt(cmp.Or(power, "0"), 10, 32)
	if err != nil {
		return text
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	significant := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(significant, "0")
	if trimmed == "" {
		return "0"
	}
	if negative {
		trimmed = "-" + trimmed
		significant = "-" + significant
	}
	exponent += int64(len(significant) - len(trimmed) - len(fraction))
	return trimmed + "e" + strconv.FormatInt(exponent, 10)
}
