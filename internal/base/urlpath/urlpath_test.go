package urlpath_test

import (
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
)

func TestCanonicalSpellsAPathInOneWay(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/", "/"},
		{"/v1/chat/completions", "/v1/chat/completions"},
		{"/v1/%63hat/completions", "/v1/chat/completions"},
		{"/%76%31/chat/completions", "/v1/chat/completions"},
		{"/v1/%41%5a%30%2D%2e%5F%7e", "/v1/AZ0-._~"},
		{"/v1/trailing/", "/v1/trailing/"},
		{"/v1/models/vendor%2Fmodel", "/v1/models/vendor%2Fmodel"},
		{"/v1/models/vendor%2fmodel", "/v1/models/vendor%2fmodel"},
		{"/v1/files/https%3A%2F%2Fexample.com%2Fa.b", "/v1/files/https%3A%2F%2Fexample.com%2Fa.b"},
		{"/v1/%E2%82%AC/%e2%82%ac/a%20b+c", "/v1/%E2%82%AC/%e2%82%ac/a%20b+c"},
		{"/v1/\u00fc/%fc", "/v1/\u00fc/%fc"},
		{"/v1/x;p=1,2/y@z:8/~(1)!$*'", "/v1/x;p=1,2/y@z:8/~(1)!$*'"},
		{"/v1/|{}[]^`\"<>", "/v1/|{}[]^`\"<>"},
		{"/v1/%25/%2525/%3F/%23", "/v1/%25/%2525/%3F/%23"},
		{"/.well-known/...", "/.well-known/..."},
		{"/v1/..a/b../", "/v1/..a/b../"},
		{"/v1/a..b/file.%74xt", "/v1/a..b/file.txt"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			got, err := urlpath.Canonical(tt.path)
			if err != nil || got != tt.want {
				t.Errorf("Canonical(%q) = %q, %v, want %q", tt.path, got, err, tt.want)
			}
		})
	}
}

func TestCanonicalRefusesPathsThatServersDisagreeAbout(t *testing.T) {
	for reason, paths := range map[string][]string{
		"begin with a slash": {"", "v1/models", "*", "%2Fv1", "http://a/v1"},
		"empty segment":      {"//", "/v1//chat/completions", "//v1/models", "/v1/models//", "/%76%31//x"},
		"segments . and ..": {
			"/..", "/.", "/v1/../../other", "/v1/./models", "/v1/models/..", "/v1/models/.", "/v1/%2e%2e/other", "/v1/.%2E/other", "/v1/%2e./other",
			"/v1/..;/other", "/v1/..;a=b/other", "/v1/.;/other", "/v1/%2e%2e;x/other", "/v1/a%2F..%2Fb", "/v1/a%2f%2e%2e%2fb", "/v1/..%2Fother", "/v1/a%2F.",
			"/v1/%252e%252e/other", "/v1/..%252Fother", "/v1/%25252e%25252e/x", "/v1/..%20/other", "/v1/%2e%2e%20%20/other", "/v1/..%3Bx/other",
		},
		"backslash":          {`/v1\models`, `/v1/..\other`, "/v1/..%5Cother", "/v1/a%5cb"},
		"control characters": {"/v1/a%00b", "/v1/%0a", "/v1/%0d%0aX:y", "/v1/%7F", "/v1/\x7f", "/v1/a\tb", "/v1/%1f"},
		"# and ?":            {"/v1/a#b", "/v1/a b", "/v1/%63?x"},
		"percent-encoding":   {"/v1/%", "/v1/%2", "/v1/%zz", "/v1/%u002e", "/v1/%%32%65"},
		"shortest form":      {"/v1/%c0%ae%c0%ae/other", "/v1/%c0%af", "/v1/%C1%9C", "/v1/%e0%80%ae/x", "/v1/%f0%80%80%ae", "/v1/\xc0\xae"},
	} {
		for _, path := range paths {
			t.Run(path, func(t *testing.T) {
				got, err := urlpath.Canonical(path)
				e := apierr.From(err)
				if e == nil || e.Status() != 400 || e.Code != urlpath.Code || e.Param != "path" || !strings.Contains(e.Message, reason) {
					t.Errorf("Canonical(%q) = %q, %v, want 400 %s that says %q", path, got, err, urlpath.Code, reason)
				}
			})
		}
	}
}

// Decoding again and again must not cost more than the path is long.
func TestCanonicalTakesLinearTime(t *testing.T) {
	path := "/v1/%" + strings.Repeat("25", 100_000) + "2e"
	if got, err := urlpath.Canonical(path); err != nil || got != path {
		t.Errorf("a path of many encodings: %d bytes, %v", len(got), err)
	}
}

func TestCanonicalOfAPlainPathAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { urlpath.Canonical("/v1/chat/completions") }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"/", "/v1/chat/completions", "/v1/%63hat", "/v1/a%2Fb/", "/v1/../x", "/%2e%2E;x/", "/v1/%c0%ae", "/v1/\\", "//", "/%", "/v1/%25%32%65"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := urlpath.Canonical(path)
		if err != nil {
			return
		}
		if again, err := urlpath.Canonical(got); err != nil || again != got {
			t.Fatalf("Canonical(%q) = %q, of which it is %q, %v", path, got, again, err)
		}
		if urlpath.Decode(got) != urlpath.Decode(path) {
			t.Fatalf("Canonical(%q) = %q, which is another path", path, got)
		}
		for segment := range strings.SplitSeq(strings.TrimSuffix(got[1:], "/"), "/") {
			if segment == "" && got != "/" || segment == "." || segment == ".." {
				t.Fatalf("Canonical(%q) = %q", path, got)
			}
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	for _, path := range []string{"/v1/chat/completions", "/v1/models/vendor%2Fmodel"} {
		b.Run(path[4:10], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				urlpath.Canonical(path)
			}
		})
	}
}
