package caching

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"modelgate/config"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/cache/semantic"
	"modelgate/internal/format/jsonedit"
)

// docKey returns the key of a body alone.
func docKey(t *testing.T, body string) respcache.Key {
	t.Helper()
	var doc jsonedit.Doc
	if err := doc.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
	k := keyHashes.Get().(*keyHash)
	k.doc(&doc)
	return k.sum()
}

// Parts of any length are hashed as their concatenation, whatever is collected.
func TestKeyIsTheHashOfItsParts(t *testing.T) {
	for _, sizes := range [][]int{{0}, {4095, 1, 1}, {4096}, {4096, 4096}, {1, 4096, 1}, {4097, 5}, {100, 9000, 100}, {3000, 1096, 1}, {3000, 1097, 4000}} {
		k, want := keyHashes.Get().(*keyHash), sha256.New()
		for i, n := range sizes {
			part := bytes.Repeat([]byte{byte('a' + i)}, n)
			add(k, part)
			want.Write(part)
		}
		if got := k.sum(); !bytes.Equal(got[:], want.Sum(nil)) {
			t.Errorf("the key of parts of %v bytes is not their hash", sizes)
		}
	}
}

func TestSpacesBetweenTokensDoNotChangeTheKey(t *testing.T) {
	const plain = `{"a":["","x \" y",{"b":1}],"c":""}`
	want := docKey(t, plain)
	for _, same := range []string{
		`{"c":"","a":["","x \" y",{"b":1}]}`,
		`{ "a" : [ "" ,` + "\n\n\t" + `"x \" y", { "b":   1 } ], "c":"" }`,
		"{\r\n  \"a\": [\"\",\"x \\\" y\",{\"b\":1\r\n}],\"c\":\"\"}\n",
	} {
		if docKey(t, same) != want {
			t.Errorf("%s has another key than %s", same, plain)
		}
	}
	for _, other := range []string{
		`{"a":["","x \"  y",{"b":1}],"c":""}`,
		`{"a":["","x \" y",{"b":1}],"c":" "}`,
		`{"a":[" ","x \" y",{"b":1}],"c":""}`,
		`{"a":["","x \" y",{"b":11}],"c":""}`,
		`{"a":["","x \\\" y",{"b":1}],"c":""}`,
	} {
		if docKey(t, other) == want {
			t.Errorf("%s has the key of %s", other, plain)
		}
	}
}

func TestThresholdOfAConfigCounts(t *testing.T) {
	for given, want := range map[float64]float64{0: semantic.DefaultThreshold, 0.5: 0.5, 0.999: 0.999} {
		h := &cacheHandler{options: config.Cache{Threshold: given}}
		if got := h.threshold(); got != want {
			t.Errorf("threshold of %v = %v, want %v", given, got, want)
		}
	}
}

func TestCallsOfToolsAreSeenInResponses(t *testing.T) {
	for body, want := range map[string]bool{
		`{"output":[{"type":"web_search_call","id":"1"}]}`:                       true,
		`{"output":[{"type" : "mcp_call"}]}`:                                     true,
		`{"output":[{"text":"a web_search_call\""}]}`:                            false,
		`{"output":[{"name":"x_call"}]}`:                                         false,
		`{"output":[{"name":"x_call"},{"type":"computer_call"}]}`:                true,
		`{"choices":[{"message":{"tool_calls":[{"id":"1"}]}}]}`:                  true,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}`: true,
		`{"output":{"message":{"content":[{"toolUse":{"name":"f"}}]}}}`:          true,
		`{"content":[{"type":"tool_use","name":"f"}]}`:                           true,
		`{"choices":[{"message":{"tool_calls":null,"content":"hello"}}]}`:        false,
	} {
		if got := holdsCall([]byte(body)); got != want {
			t.Errorf("%s has a call: %t, want %t", body, got, want)
		}
	}
}
