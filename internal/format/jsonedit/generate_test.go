package jsonedit_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

var (
	spaces  = rapid.SampledFrom([]string{"", "", "", " ", "\n  ", "\t", "\r\n", " \n\t\r "})
	numbers = rapid.SampledFrom([]string{"0", "-0", "1", "-12", "1.50", "1e2", "1E+02", "-0.0e-0", "9223372036854775807",
		"-9223372036854775808", "9223372036854775808", "123456789012345678901234567890", "1e999", "0.1"})
	pieces = rapid.SampledFrom([]string{"a", "b", "name", "model", " ", "/", "é", "東京", "😀", "\x7f", "\u2028", "a longer run of plain text ",
		`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u0061`, `\u00E9`, `\ud83d\uDE00`, `\ud800`, `\udc00x`, "<", "{", "]", ","})
)

// literal draws a JSON string with random escapes.
func literal(t *rapid.T) string {
	return `"` + strings.Join(rapid.SliceOfN(pieces, 0, 6).Draw(t, "pieces"), "") + `"`
}

// unquote is what the standard library reads from a JSON string.
func unquote(literal string) string {
	var s string
	if err := json.Unmarshal([]byte(literal), &s); err != nil {
		panic(fmt.Sprintf("%s: %v", literal, err))
	}
	return s
}

// value draws a JSON value at most depth levels deep.
func value(t *rapid.T, depth int) string {
	kinds := 5
	if depth <= 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
	case 1:
		return numbers.Draw(t, "number")
	case 2:
		return literal(t)
	case 3:
		items := make([]string, rapid.IntRange(0, 4).Draw(t, "elements"))
		for i := range items {
			items[i] = around(t, value(t, depth-1))
		}
		return "[" + join(t, items) + "]"
	}
	members := make([]string, rapid.IntRange(0, 4).Draw(t, "members"))
	for i := range members {
		members[i] = around(t, around(t, literal(t))+":"+around(t, value(t, depth-1)))
	}
	return "{" + join(t, members) + "}"
}

func around(t *rapid.T, s string) string {
	return spaces.Draw(t, "before") + s + spaces.Draw(t, "after")
}

func join(t *rapid.T, items []string) string {
	if len(items) == 0 {
		return spaces.Draw(t, "inside")
	}
	return strings.Join(items, ",")
}

// part is one member as it is written: white space and key up to the value, the
// value, and the white space after it.
type part struct {
	before, key, colon, value, after string
}

func (p part) name() string   { return unquote(p.key) }
func (p part) String() string { return p.before + p.key + p.colon + p.value + p.after }

// document is an object by its members.
type document struct {
	before, inside, after string // inside: the white space of an object without members
	parts                 []part
}

func (d document) String() string {
	if len(d.parts) == 0 {
		return d.before + "{" + d.inside + "}" + d.after
	}
	texts := make([]string, len(d.parts))
	for i, p := range d.parts {
		texts[i] = p.String()
	}
	return d.before + "{" + strings.Join(texts, ",") + "}" + d.after
}

// object draws a document of at most n members, of which no two have one name.
func object(t *rapid.T, n int) document {
	d := document{before: spaces.Draw(t, "before"), inside: spaces.Draw(t, "inside"), after: spaces.Draw(t, "after")}
	seen := map[string]bool{}
	for range rapid.IntRange(0, n).Draw(t, "members") {
		p := part{spaces.Draw(t, "before"), literal(t), around(t, ":"), value(t, 2), spaces.Draw(t, "after")}
		if seen[p.name()] {
			continue
		}
		seen[p.name()] = true
		d.parts = append(d.parts, p)
	}
	return d
}
