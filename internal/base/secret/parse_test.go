package secret_test

import (
	"strings"
	"testing"

	"modelgate/internal/base/secret"
)

func TestCredentialsAreReadWithoutWhiteSpaceAround(t *testing.T) {
	const pem = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----"
	for text, want := range map[string]string{
		"sk-1": "sk-1", "sk-1\n": "sk-1", "sk-1\r\n": "sk-1", "  sk-1\t\n\n": "sk-1", "\ufeffsk-1": "sk-1", "pass word": "pass word", "": "", " \n": "",
		"{\n \"a\": \"b\"\n}\n": "{\n \"a\": \"b\"\n}", pem + "\n": pem, "Bag Attributes\n" + pem: "Bag Attributes\n" + pem,
		"sk-1\nsk-2": "!", "sk\x00-1": "!", "sk-1\x1b": "!", "sk\x7f": "!", "{\x00}": "!",
	} {
		got, err := secret.Parse(text)
		if (want == "!") != (err != nil) || err == nil && got.Reveal() != want {
			t.Errorf("Parse(%q) = %q, %v, want %q", text, got.Reveal(), err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sk") {
			t.Errorf("the error for %q holds it: %v", text, err)
		}
	}
}
