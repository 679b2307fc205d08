package egress_test

import (
	"net/url"
	"slices"
	"testing"

	"modelgate/internal/base/egress"
)

func TestHostPatternsHaveOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"*":                           "*",
		"Models.Example.com":          "https://models.example.com",
		"models.example.com:443":      "https://models.example.com",
		"https://models.example.com/": "https://models.example.com",
		"models.example.com:8443":     "https://models.example.com:8443",
		"models.example.com:08443":    "https://models.example.com:8443",
		"http://models.example.com":   "http://models.example.com",
		"http://10.0.0.5:80":          "http://10.0.0.5",
		"*.example.com":               "https://*.example.com",
		"http://*.example.com:81":     "http://*.example.com:81",
		"[0:0:0:0:0:0:0:1]:8080":      "https://[::1]:8080",
	} {
		got, _, err := egress.ParseHosts([]string{text, text})
		if err != nil || !slices.Equal(got, egress.Hosts{want}) {
			t.Errorf("ParseHosts(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "ftp://a.example.com", "https://user@a.example.com", "https://user:pass@a.example.com", "a.example.com/v1", "a.example.com?x=1", "a.example.com#x",
		"a.example.com:", "a.example.com:x", "*.com", "a.*.example.com", "**.example.com", "https://", ".example.com", "a.example.com.", "exämple.com", "a b", "//a.example.com",
	} {
		if got, i, err := egress.ParseHosts([]string{"ok.example.com", text}); err == nil || i != 1 {
			t.Errorf("ParseHosts(%q) = %q, %d, %v, want an error at 1", text, got, i, err)
		}
	}
}

func TestOnlyListedHostsAreAllowed(t *testing.T) {
	hosts, _, err := egress.ParseHosts([]string{"models.example.com", "*.internal.example.com", "http://plain.example.com:8080", "[::1]:9000"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"https://models.example.com/v1":              true,
		"https://MODELS.example.com:443/v1":          true,
		"https://models.example.com:0443/v1":         true,
		"https://a.internal.example.com":             true,
		"https://a.b.internal.example.com":           true,
		"http://plain.example.com:8080":              true,
		"https://[::1]:9000":                         true,
		"https://[0:0:0:0:0:0:0:1]:9000":             true,
		"http://models.example.com":                  false,
		"https://models.example.com:8443":            false,
		"https://models.example.com.evil.net":        false,
		"https://evil.net/models.example.com":        false,
		"https://models.example.com@evil.net":        false,
		"https://models.example.com.":                false,
		"https://internal.example.com":               false,
		"https://evilinternal.example.com":           false,
		"https://x.internal.example.com.evil.net":    false,
		"https://plain.example.com:8080":             false,
		"http://plain.example.com":                   false,
		"https://[::ffff:127.0.0.1]:9000":            false,
		"https://evil.net/?x=https://a.example.com/": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := hosts.Allow(u); got != want {
			t.Errorf("Allow(%s) = %t, want %t", address, got, want)
		}
	}
	if u := (&url.URL{Scheme: "https", Host: "any.example.com"}); (egress.Hosts{}).Allow(u) || !(egress.Hosts{egress.Any}).Allow(u) {
		t.Error("no hosts allow one, or any host does not")
	}
}
