package jsonedit_test

import (
	"bytes"
	"strings"
	"testing"

	"modelgate/internal/format/jsonedit"
)

const walked = ` {"a": "x\"\\", "b\n":[1, -2.5e3 ,[], [[3],"]"], {"c":null}], "d":{"e":true,"f":"` + "long, with \u00e9 and \\u00e9 " + `"} , "g":false}`

// list writes what a cursor sees of the next value.
func list(b *strings.Builder, c *jsonedit.Cursor) {
	switch c.Kind() {
	case jsonedit.Object:
		b.WriteByte('{')
		c.Enter('{')
		for key, ok := c.Field(); ok; key, ok = c.Field() {
			b.Write(key)
			b.WriteByte(':')
			list(b, c)
		}
		b.WriteByte('}')
	case jsonedit.Array:
		b.WriteByte('[')
		for c.Enter('['); c.Element(); {
			list(b, c)
			b.WriteByte(' ')
		}
		b.WriteByte(']')
	default:
		b.Write(c.Raw())
	}
}

func TestCursorReadsEveryValue(t *testing.T) {
	var b strings.Builder
	c := jsonedit.NewCursor([]byte(walked))
	list(&b, c)
	want := `{a:"x\"\\"b\n:[1 -2.5e3 [] [[3 ] "]" ] {c:null} ]d:{e:truef:"` + "long, with \u00e9 and \\u00e9 " + `"}g:false}`
	if got := b.String(); got != want || c.Failed() || c.Offset() != len(walked) {
		t.Errorf("cursor reads %s up to %d, failed %t; want %s up to %d", got, c.Offset(), c.Failed(), want, len(walked))
	}
	c.Reset([]byte(walked))
	if got := c.Raw(); !bytes.Equal(got, []byte(walked[1:])) || c.Failed() {
		t.Errorf("Raw = %s, failed %t; want all of it", got, c.Failed())
	}
}

func TestCursorStaysWithinTextThatIsCut(t *testing.T) {
	for n := range walked {
		text := []byte(walked[:n])
		c := jsonedit.NewCursor(text)
		list(new(strings.Builder), c)
		if c.Offset() > n || n > 1 && !c.Failed() {
			t.Errorf("after %q the cursor is at %d, failed %t; want failed at %d or before", text, c.Offset(), c.Failed(), n)
		}
		if c.Reset(text); len(c.Raw()) > n {
			t.Errorf("Raw of %q is longer than the text", text)
		}
	}
}

func TestUnescapeReturnsPlainTextItself(t *testing.T) {
	plain := []byte("plain")
	if got := jsonedit.Unescape(plain); &got[0] != &plain[0] {
		t.Error("Unescape copies a text without escapes")
	}
	if got := string(jsonedit.Unescape([]byte(`a\n\u00e9`))); got != "a\n\u00e9" {
		t.Errorf("Unescape = %q, want a, a line end and an accented e", got)
	}
}

func TestTokensOfTextThatIsNotJSON(t *testing.T) {
	for text, want := range map[string]string{
		` {"a": [1, "x\"\\"], "b":true}`: `{"a":[,"x\"\\"],"b":}`,
		`]1}{"a":"b`:                     `]}{"a":"b"`,
		`"a\`:                            `"a\"`,
		`"`:                              `""`,
		`nothing`:                        ``,
	} {
		var tokens, texts, strs strings.Builder
		c := jsonedit.NewCursor([]byte(text))
		for first, s := c.Token(); first != 0; first, s = c.Token() {
			tokens.WriteByte(first)
			if first == '"' {
				tokens.WriteString(string(s) + `"`)
				strs.WriteString(string(s) + ";")
			}
		}
		c.Reset([]byte(text))
		for s, ok := c.NextText(); ok; s, ok = c.NextText() {
			texts.WriteString(string(s) + ";")
		}
		if tokens.String() != want || texts.String() != strs.String() {
			t.Errorf("tokens of %s = %s, want %s; texts %s", text, tokens.String(), want, texts.String())
		}
	}
}
