package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/settings"
)

func TestAliasesOfAFileAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("configs:\n  - slug: pc-a\n    config:\n      a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&text, "      a%d: &a%[1]d [%s]\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	file := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := func(string) (string, bool) { return "", false }
	_, sending := settings.LoadSending(file, nothing)
	_, state := settings.LoadState(file, settings.SecretResolver{Env: nothing})
	_, run := settings.Load(file, settings.SecretResolver{Env: nothing})
	for _, err := range []error{sending, state, run} {
		if err == nil || !strings.Contains(err.Error(), "state.yaml: its aliases repeat more than 1000000 values") {
			t.Errorf("a file with aliases of aliases: %v", err)
		}
	}
	few := "configs:\n  - {slug: pc-a, config: &c {retry: {attempts: 2}}}\n  - {slug: pc-b, config: *c}\n"
	if err := os.WriteFile(file, []byte(few), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := settings.LoadSending(file, nothing); err != nil || strings.Count(string(s.State), "attempts") != 2 {
		t.Errorf("a file with one alias: %v, %v", s, err)
	}
}
