package simulator

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/quick"
)

func isValid(data []byte) bool {
	s := scanner{data: data}
	s.skip()
	return s.end()
}

var documents = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, `{"a":1,}`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{a:1}`, `[1 2]`, `nul`, `null`, `true `, `-`, `-0`, `01`, `1.`, `.5`,
	`1e5`, `1e`, `1E+5`, `-1.25e-7`, `"x"`, `"\u00e9\ud83d\ude00"`, `"\u00g0"`, `"\x"`, `"a` + "\n" + `"`, `"`, `"\`, `"\"`, `"12345678\"9"`, "\"é\"", "\"\xff\"",
	`[[[[]]]]`, `{"a":{"b":[1,{"c":null}]}}`, `{"a":1} x`, "\x00", `{"a":1` + "\x00" + `}`, `"1234567` + "\x1f" + `"`, `}`, `]`, `[}`, `{"a":1]`, `"€12345\t"`, "\"\x1f\"",
}

func TestScannerAgreesWithTheStandardLibrary(t *testing.T) {
	for _, d := range documents {
		if got, want := isValid([]byte(d)), json.Valid([]byte(d)); got != want {
			t.Errorf("sound(%q) = %t, want %t", d, got, want)
		}
	}
	for _, n := range []int{maxDepth, maxDepth + 1} {
		if got := isValid([]byte(strings.Repeat("[", n) + strings.Repeat("]", n))); got != (n <= maxDepth) {
			t.Errorf("depth %d: %t", n, got)
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) <= maxDepth && isValid(data) != json.Valid(data) {
			t.Errorf("sound(%q) = %t", data, isValid(data))
		}
	})
}

func TestAdvanceCutsBetweenCharacters(t *testing.T) {
	whole := func(text string, step uint8) bool {
		raw := appendRaw(nil, text)
		var parts strings.Builder
		total := 0
		for at := 0; at < len(raw); {
			to, passed := advance(raw, at, int(step%9)+1)
			var part string
			if json.Unmarshal([]byte(`"`+string(raw[at:to])+`"`), &part) != nil || len(part) != passed {
				return false
			}
			parts.WriteString(part)
			total += passed
			at = to
		}
		want := plainText(raw)
		return parts.String() == want && total == textLen(raw) && total == len(want)
	}
	if err := quick.Check(whole, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	pair := []byte(`a\ud83d\ude00b`)
	if to, passed := advance(pair, 1, 1); to != 13 || passed != 4 || textLen(pair) != 6 {
		t.Errorf("a surrogate pair ends at %d after %d bytes, want 13 after 4", to, passed)
	}
	if !whole(`"quotes" \ and 😀 é`+"\n\x01", 3) {
		t.Error("escapes are cut")
	}
}
