package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestRemovingByAFileAsksAtATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	file := filepath.Join(t.TempDir(), "state.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("configs: [{slug: pc-a, config: {retry: {attempts: 2}}}]\n")
	s.answers = "n\n" // nothing is removed, so nothing is asked
	if out := s.run("apply", "--prune", file); !strings.HasSuffix(out, "added 1, changed 0 and removed 0") {
		t.Errorf("adding prints %q", out)
	}
	write("configs: []\n")
	s.refuse([]string{"apply", "--prune", file}, "nothing was changed")
	if out := s.run("configs", "list", "-o", "name"); out != "pc-a" {
		t.Errorf("after no: %q", out)
	}
	s.answers = "y\n"
	out, asked, err := s.try("apply", "--prune", file)
	if err != nil || out != "- config default/pc-a\nadded 0, changed 0 and removed 1\n" || asked != "- config default/pc-a\nRemove 1 objects? [y/N] " {
		t.Errorf("after yes: %q %q %v", out, asked, err)
	}
}
