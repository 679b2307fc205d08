package access_test

import (
	"testing"

	"modelgate/internal/identity/access"
)

func TestEmailAddressesThatLookAlikeAreRefused(t *testing.T) {
	for _, text := range []string{
		"аnn@example.com",       // Cyrillic a
		"ann@exаmple.com",       // the same in the domain
		"ann\u200b@example.com", // zero width
		"ann\u00ad@example.com", // soft hyphen
		"\u202eann@example.com", // right to left
		"\u212aate@example.com", // the Kelvin sign, k in lower case
		"ann@example。com",       // another full stop
		"\uff41nn@example.com",  // full width
		"ann@example.com.", "ann.@example.com", "ann@.example.com", "ann@example..com", "ａnn@example.com", "ann＠example.com",
		"ann @example.com", "ann@example.com\n", "Ann <ann@example.com>", "ann", "ann@", "",
	} {
		if got, err := access.ParseEmail(text); err == nil {
			t.Errorf("ParseEmail(%q) = %q, want an error", text, got)
		}
	}
	for text, want := range map[string]string{
		"Ann@Example.com": "ann@example.com", "a.b+c@example.com": "a.b+c@example.com", "o'neil@xn--mnchen-3ya.example": "o'neil@xn--mnchen-3ya.example",
	} {
		if got, err := access.ParseEmail(text); err != nil || got != want {
			t.Errorf("ParseEmail(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestUserNamesBeyondASCIIAreNobodys(t *testing.T) {
	for text, want := range map[string]string{
		"Ann@Example.com": "ann@example.com", "0197ABCD": "0197abcd", "": "",
		"\u212aim@example.com": "\u212aim@example.com", "\uff21nn@example.com": "\uff21nn@example.com", "ANN\u200b@example.com": "ANN\u200b@example.com",
	} {
		if got := access.UserName(text); got != want {
			t.Errorf("UserName(%q) = %q, want %q", text, got, want)
		}
	}
}
