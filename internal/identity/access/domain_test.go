package access_test

import (
	"testing"

	"modelgate/internal/identity/access"
)

func TestDomainsHaveOneForm(t *testing.T) {
	for text, want := range map[string]string{"example.com": "example.com", " Example.COM. ": "example.com", "xn--bcher-kva.example": "xn--bcher-kva.example", "a-b.c1.de": "a-b.c1.de"} {
		if got, err := access.ParseDomain(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "example", ".com", "example..com", "-a.com", "a-.com", "*.example.com", "bücher.example", "exámple.com", "a b.com", "user@example.com", "example.com/x"} {
		if got, err := access.ParseDomain(text); err == nil {
			t.Errorf("%q was accepted as %q", text, got)
		}
	}
}
