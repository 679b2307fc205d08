package programtest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
)

// A binary from before the last change would pass or fail for what the tree no
// longer says.
func TestStaleBinaryIsRefusedUnlessItIsMeant(t *testing.T) {
	name := filepath.Join(t.TempDir(), "modelgate")
	if err := os.WriteFile(name, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	future, past := time.Now().Add(time.Hour), time.Unix(1_000_000_000, 0)
	for _, tt := range []struct {
		title string
		built time.Time
		allow string
		want  string // part of the error
	}{
		{"newer than the sources", future, "", ""},
		{"older than the sources", past, "", "which is older than"},
		{"older and meant", past, "on", ""},
	} {
		t.Run(tt.title, func(t *testing.T) {
			if err := os.Chtimes(name, tt.built, tt.built); err != nil {
				t.Fatal(err)
			}
			t.Setenv(programtest.Binary, name)
			t.Setenv(programtest.AllowStale, tt.allow)
			var log bytes.Buffer
			path, err := programtest.Build(t.TempDir(), &log)
			if tt.want == "" && (err != nil || path != name) {
				t.Errorf("Build: %q, %v; want %q", path, err, name)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Build: error %v, want one with %q", err, tt.want)
			}
			if !strings.Contains(log.String(), name) {
				t.Errorf("log %q does not name the binary %s", log.String(), name)
			}
		})
	}
}

// Each of these has changed what a gateway under test does.
func TestEnvironmentOfTheDeveloperDoesNotReachTheProgram(t *testing.T) {
	for _, name := range []string{"DATABASE_URL", "USAGE_LIMITS_ENABLED", "MODELGATE_MASTER_KEY", "DB_POOL_MAX", "OTEL_EXPORTER_OTLP_ENDPOINT", "AWS_PROFILE", "HTTPS_PROXY", "OPENAI_API_KEY", "GOMEMLIMIT"} {
		t.Setenv(name, "leaked")
	}
	env := programtest.Env("OWN=1")
	for _, v := range env {
		if strings.HasSuffix(v, "=leaked") {
			t.Errorf("Env holds %s", v)
		}
	}
	if !slices.Contains(env, "PATH="+os.Getenv("PATH")) || !slices.Contains(env, "OWN=1") {
		t.Errorf("Env returned %q, want PATH and OWN among them", env)
	}
}
