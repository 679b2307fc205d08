package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestAgentsWithTheOfficialLibrary runs the A2A library as agent and as client, with a gateway
// between them.
func TestAgentsWithTheOfficialLibrary(t *testing.T) {
	python := mustPython(t, ".venv")
	folder := t.TempDir()
	file := filepath.Join(folder, "modelgate.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "version: 1\nupstream:\n  trusted_hosts: [127.0.0.1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := start(stage.program, stage.env, "serve", "--data", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0", "--admin-listen", "off", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	runPython(t, python, "a2a_test.py", 6, "GATEWAY_URL="+p.url)
}
