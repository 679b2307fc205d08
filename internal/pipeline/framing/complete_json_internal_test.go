package framing

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestWholeJSONIsDistinguishedFromItsParts(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `[]`: true, " {\n} \r\n": true, `{"a":{"b":1}}`: true, `{"a":"}"}`: true, `{"a":"\"}"}`: true, `{"a":"\\"}`: true,
		``: false, ` `: false, `1`: false, `"a"`: false, `{`: false, `}`: false, `{"a":{"b":1}`: false, `{"a":"}`: false,
		`{"a":"\"}`: false, `{}{}`: false, `{}x`: false, `<html>`: false,
	} {
		if got := IsCompleteJSON([]byte(text)); got != want {
			t.Errorf("wholeJSON(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestNoPartOfAJSONBodyIsComplete(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return rapid.Custom(func(t *rapid.T) any { return anyValue(t, 4) }) })
	rapid.Check(t, func(t *rapid.T) {
		b, err := json.Marshal(map[string]any{rapid.String().Draw(t, "key"): value.Draw(t, "value")})
		if err != nil {
			t.Fatal(err)
		}
		if !IsCompleteJSON(b) {
			t.Fatalf("wholeJSON(%q) = false", b)
		}
		n := rapid.IntRange(0, len(b)-1).Draw(t, "length")
		if IsCompleteJSON(b[:n]) {
			t.Fatalf("wholeJSON(%q) = true, a part of %q", b[:n], b)
		}
	})
}

func anyValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range list {
			list[i] = anyValue(t, depth-1)
		}
		return list
	case kind == 1 && depth > 0:
		return map[string]any{rapid.StringMatching(`[a-z"\\{}\[\]]{0,5}`).Draw(t, "name"): anyValue(t, depth-1)}
	case kind == 2:
		return rapid.Int().Draw(t, "number")
	}
	return rapid.StringMatching(`[a-z"\\{}\[\]]{0,8}`).Draw(t, "text")
}
