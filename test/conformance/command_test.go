package conformance

import (
	"strings"
	"testing"
)

func TestCommands(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
	}{
		{"an unknown command", []string{"frobnicate"}, 2},
		{"an unknown flag", []string{"serve", "--colour", "red"}, 2},
		{"no command", nil, 2},
		{"help", []string{"help"}, 0},
		{"a settings file that is not there", []string{"serve", "--config", "absent.yaml", "--data", scratch + "/none"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errText, code := command(t, tt.args...)
			if code != tt.code {
				t.Errorf("modelgate %v: exit %d, want %d: %s%s", tt.args, code, tt.code, out, errText)
			}
			if code == 1 && strings.Count(strings.TrimSpace(errText), "\n") != 0 {
				t.Errorf("modelgate %v said %q, want one line", tt.args, errText)
			}
		})
	}
	t.Run("a port that is taken", func(t *testing.T) {
		g, _ := start(t)
		taken := strings.TrimPrefix(g.root, "http://")
		_, errText, code := command(t, "serve", "--data", t.TempDir(), "--listen", taken, "--admin-listen", "off")
		if code != 1 || !strings.Contains(errText, taken) || strings.Count(strings.TrimSpace(errText), "\n") != 0 {
			t.Errorf("exit %d, said %q, want 1 and one line that names the address", code, errText)
		}
	})
	t.Run("the version", func(t *testing.T) {
		out, _, code := command(t, "version")
		if code != 0 || !strings.HasPrefix(out, "modelgate ") {
			t.Errorf("exit %d, said %q", code, out)
		}
	})
}

// TestServeRefusesUnknownVariables starts the program with a misspelt variable.
func TestServeRefusesUnknownVariables(t *testing.T) {
	_, err := launch("version: 1\n", "MODELGATE_TRUSTED_HOST=127.0.0.1")
	if err == nil || !strings.Contains(err.Error(), "MODELGATE_TRUSTED_HOST is unknown; did you mean MODELGATE_TRUSTED_HOSTS?") {
		t.Errorf("serve with a misspelt variable: %v", err)
	}
}
