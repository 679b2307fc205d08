package people_test

import (
	"net/http"
	"net/url"
	"testing"

	"modelgate/internal/controlplane/people"
)

// TestReturnPathsStayHere covers open redirects: whatever a browser would take for an
// address of another host is refused.
func TestReturnPathsStayHere(t *testing.T) {
	for _, path := range []string{"/", "/console", "/console/w/logs?id=1#top", "/a/%20b", "/a//b"} {
		if !people.IsLocalPath(path) {
			t.Errorf("%q was refused", path)
		}
	}
	for _, path := range []string{
		"", "console", "//evil.example", `/\evil.example`, `/\/evil.example`, "https://evil.example", "javascript:alert(1)", "/%2fevil.example",
		"/%2Fevil.example", "/%5cevil.example", "/a\r\nset-cookie: x=1", "/a%0d%0aset-cookie:%20x=1", "/\t/evil.example", " /a", "/a b", "/\x00", "/ä",
		`/a\b`, "/./%2f/evil.example",
	} {
		if people.IsLocalPath(path) {
			t.Errorf("%q was accepted", path)
		}
	}
}

// FuzzReturnPaths compares the check with how an address is resolved.
func FuzzReturnPaths(f *testing.F) {
	for _, path := range []string{"/", "//evil.example", `/\evil.example`, "/a?b#c", "/%2f"} {
		f.Add(path)
	}
	base, err := url.Parse("https://gateway.example/v1/auth")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if !people.IsLocalPath(path) {
			return
		}
		u, err := base.Parse(path)
		if err == nil && (u.Host != base.Host || u.Scheme != "https") {
			t.Errorf("%q leads to %s", path, u)
		}
		h := http.Header{}
		h.Set("Location", path)
		if len(h) != 1 {
			t.Error("the path is no header")
		}
	})
}
