package clients

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"modelgate/internal/programtest"
)

// TestPythonClient runs the cases of the gateway's own Python client.
func TestPythonClient(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is missing: install Python 3.9 or later")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, filepath.Join("python", "own_test.py"))
	cmd.Env = programtest.Env("GATEWAY_URL="+stage.url, "GATEWAY_KEY="+gatewayKey, "BOOKS_URL="+stage.booksURL)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`(?m)^Ran [5-9]\d* tests`).Match(out) {
		t.Fatalf("not every case ran:\n%s", out)
	}
}
