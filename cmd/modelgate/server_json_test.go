package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServerJSONIsConverted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"name":"com.example/issues","remotes":[{"type":"streamable-http","url":"https://issues.example.com/mcp"}]}`)
	if code, out, errs := invoke(t, nil, "", "mcp-server", file); code != 0 || !strings.Contains(out, "slug: issues") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	write(`{"name":"com.example/issues","packages":[{"registryType":"npm","identifier":"issues"}]}`)
	if code, _, errs := invoke(t, nil, "", "mcp-server", file); code == 0 || !strings.Contains(errs, "tools.commands") {
		t.Errorf("a package: %d %s", code, errs)
	}
	if code, _, errs := invoke(t, nil, "", "mcp-server", file+"x"); code == 0 || !strings.Contains(errs, "server.jsonx") {
		t.Errorf("a missing file: %d %s", code, errs)
	}
}
