package egress_test

import (
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/base/egress"
)

func FuzzHostPatterns(f *testing.F) {
	for _, s := range []string{"models.example.com", "*.example.com:8443", "http://10.0.0.5", "[::1]:80", "user@a.example.com", "https://*", "a/b", "%41.example.com"} {
		f.Add(s, "https://models.example.com/v1")
	}
	f.Fuzz(func(t *testing.T, pattern, address string) {
		hosts, _, err := egress.ParseHosts([]string{pattern})
		if err != nil {
			return
		}
		if again, _, err := egress.ParseHosts(hosts); err != nil || len(again) != 1 || again[0] != hosts[0] {
			t.Errorf("%q is %q, and that is %q: %v", pattern, hosts, again, err)
		}
		u, err := url.Parse(address)
		if err != nil || hosts[0] == egress.Any || !hosts.Allow(u) {
			return
		}
		_, name, _ := strings.Cut(hosts[0], "://")
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "*"), ":")
		if !strings.HasPrefix(name, "[") && !strings.HasSuffix(strings.ToLower(u.Hostname()), name) {
			t.Errorf("%q allows %q, whose host is %q", hosts[0], address, u.Hostname())
		}
	})
}

func FuzzPathPatterns(f *testing.F) {
	for _, s := range []string{"GET /files", "/batches/*", "POST /fine_tuning/**", "/v1/files", "/a/../b", "PATCH /x", "/fi*"} {
		f.Add(s, "GET", "/files/../x")
	}
	f.Fuzz(func(t *testing.T, pattern, method, path string) {
		paths, _, err := egress.ParsePaths([]string{pattern})
		if err != nil || paths[0] == egress.Any {
			return
		}
		if again, _, err := egress.ParsePaths(paths); err != nil || again[0] != paths[0] {
			t.Errorf("%q is %q, and that is %q: %v", pattern, paths, again, err)
		}
		if !paths.Allow(method, path) {
			return
		}
		for s := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			if lower := strings.ToLower(s); s == "" || s == "." || s == ".." || strings.Contains(lower, "%2f") || strings.Contains(lower, "%2e") {
				t.Errorf("%q allows %s %q", paths[0], method, path)
			}
		}
	})
}
