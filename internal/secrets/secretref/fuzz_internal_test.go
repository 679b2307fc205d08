package secretref

import (
	"strings"
	"testing"
	"unicode/utf8"

	"modelgate/internal/base/secret"
)

// FuzzPick takes a value out of what a secret manager answered. An error never
// quotes the secret.
func FuzzPick(f *testing.F) {
	f.Add(`{"api_key":"sk-canary-value-of-the-test"}`, "api_key", "", true)
	f.Add(`{"a":{"b":1}}`, "a", "json", true)
	f.Add(`sk-canary-value-of-the-test`, "", "string", false)
	f.Add("{\"a\":\"\\ud800\"}", "", "", true)
	f.Fuzz(func(t *testing.T, text, key, format string, values bool) {
		got, err := secretPayload{secret.New(text), values}.pick(key, format)
		if err != nil {
			if len(text) >= 20 && strings.Contains(err.Error(), text) {
				t.Errorf("the error quotes the secret: %v", err)
			}
			return
		}
		if v := got.Reveal(); v == "" || len(v) > maxValue || !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			t.Errorf("pick(%q) of %q = %q", key, text, v)
		}
	})
}
