package bodytext_test

import (
	"testing"

	"modelgate/internal/format/bodytext"
)

func TestSequencesAreJSONValuesAfterEachOther(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":1}`: true, "{\"a\":1}\n{\"b\":[2]}\n": true, `{"a":1}{"b":2}`: true, `["]"] "x\"y"`: true, "\x1e{\"a\":1}\n\x1e[1]\n": true, " {} \r\n": true,
		"": false, "1": false, "1 2": false, `{"a":1} x`: false, `{"a":1`: false, `{"a":1}}`: false, `"x`: false, `{'a':1}`: false, "{\"a\":1},{}": false, "]": false,
	} {
		if got := bodytext.IsSequence([]byte(text)); got != want {
			t.Errorf("IsSequence(%q) = %t, want %t", text, got, want)
		}
	}
}
