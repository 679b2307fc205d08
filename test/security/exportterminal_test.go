package security

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A name with control characters must not control the terminal that an export is read on,
// and is the same after the file was applied.
func TestExportsControlNoTerminal(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	for name, text := range map[string]string{"an escape": "a\x1b]0;evil\x07b", "a clear": "a\x1b[2Jb", "a backspace": "a\b\b\bb", "a return": "a\rb", "an 8-bit escape": "a\u009b2Jb", "an override of direction": "a\u202eb", "a delete": "a\x7fb", "a tag": "a\U000e0041b", "a hidden space": "a\u200bb"} {
		attack(t, "log and export", "a config named with "+name+" in an export", func(t *testing.T) {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			g.as(t, rootKey, "POST", "/v1/prompts/partials", fmt.Sprintf(`{"name":"p","workspace_id":"default","string":%s}`, quoted)).ok(t)
			out, errText, code := command(t, "export", "--data", g.data)
			if code != 0 {
				t.Fatalf("exit %d: %s", code, errText)
			}
			file := filepath.Join(t.TempDir(), "state.yaml")
			if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			if changes, errText, code := command(t, "apply", "--data", g.data, "--dry-run", file); code != 0 || strings.Contains(changes, "~") || strings.Contains(changes, "+ ") {
				t.Errorf("applying the export changes something: exit %d: %s%s", code, changes, errText)
			}
			if i := strings.IndexFunc(out, func(r rune) bool { return !strconv.IsPrint(r) && r != '\n' }); i >= 0 {
				t.Errorf("the export has the character %q: %q", out[i], out[max(0, i-40):min(len(out), i+40)])
			}
		})
	}
}
