package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
)

// TestPythonClients runs every script in python/ in its environment, which
// tools/test.sh sets up, or in that of the machine.
func TestPythonClients(t *testing.T) {
	for _, tt := range []struct {
		script, environment string
		cases               int // at least
	}{
		{"own_test.py", "", 5},
		{"sdk_test.py", ".venv", 25},
		{"state_test.py", ".venv", 12},
		{"scim_test.py", ".venv", 4},
		{"litellm_test.py", filepath.Join("..", "agents", ".venv"), 1},
	} {
		t.Run(tt.script, func(t *testing.T) {
			t.Parallel()
			runPython(t, mustPython(t, tt.environment), tt.script, tt.cases)
		})
	}
}

// mustPython returns the interpreter of an environment, or of the machine.
func mustPython(t *testing.T, environment string) string {
	t.Helper()
	if environment == "" {
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Fatal("python3 is missing: install Python 3.10 or later")
		}
		return python
	}
	python, err := filepath.Abs(filepath.Join(environment, "bin", "python3"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the Python libraries are not installed in %s: run tools/test.sh, which installs them", environment)
	}
	return python
}

func runPython(t *testing.T, python, script string, least int, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-W", "ignore", filepath.Join("python", script))
	cmd.Env = programtest.Env(append([]string{"GATEWAY_URL=" + stage.url, "GATEWAY_KEY=" + gatewayKey, "BOOKS_URL=" + stage.booksURL,
		"TLS_URL=" + stage.tlsURL, "TLS_CA=" + stage.caFile, "AWS_EC2_METADATA_DISABLED=true", "PYTHONDONTWRITEBYTECODE=1"}, env...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ran := regexp.MustCompile(`(?m)^Ran (\d+) tests?`).FindSubmatch(out)
	if ran == nil {
		t.Fatalf("no case ran:\n%s", out)
	}
	if n, _ := strconv.Atoi(string(ran[1])); n < least || regexp.MustCompile(`skipped=`).Match(out) {
		t.Fatalf("%d cases ran, want at least %d and none skipped:\n%s", n, least, out)
	}
}
