package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestCommandsOfTheAPIAreInTheProgram calls a gateway at an address, and reports errors as every
// command does.
func TestCommandsOfTheAPIAreInTheProgram(t *testing.T) {
	r := start(t, []string{"MODELGATE_BOOTSTRAP_KEY=" + testKey, "MODELGATE_DATA=" + t.TempDir()})
	env := []string{"MODELGATE_BOOTSTRAP_KEY=" + testKey, "MODELGATE_URL=" + r.url}
	if code, out, errs := invoke(t, env, "", "workspaces", "list", "-o", "name"); code != 0 || out != "default\n" || errs != "" {
		t.Errorf("workspaces list: %d %q %q", code, out, errs)
	}
	if code, key, errs := invoke(t, env, "", "keys", "create", "ci", "--workspace", "Default", "--scopes", "completions.write"); code != 0 ||
		!strings.HasPrefix(key, "mg-") || !strings.Contains(errs, "shown once") {
		t.Errorf("keys create: %d %q %q", code, key, errs)
	}
	if code, out, errs := invoke(t, env, "", "key", "list", "--no-headers"); code != 0 || !strings.HasPrefix(out, "ci ") {
		t.Errorf("key list: %d %q %q", code, out, errs)
	}
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		code int
		says string
	}{
		{"a failure", env, []string{"keys", "show", "nothing"}, 1, "modelgate keys show: the gateway returned 404"},
		{"wrong usage", env, []string{"keys", "show"}, 2, "modelgate keys show: KEY is required (see `modelgate keys show --help`)"},
		{"an unknown flag", env, []string{"keys", "list", "--workspce", "x"}, 2, "did you mean --workspace?"},
		{"an unknown noun", env, []string{"workspacs", "list"}, 2, "did you mean workspaces?"},
		{"a wrong limit", env, []string{"keys", "list", "--limit", "x"}, 2, "--limit must be an integer"},
		{"a wrong address", env, []string{"workspaces", "list", "--url", "gate.example"}, 2, "--url (MODELGATE_URL)"},
		{"an unknown variable", append(env, "MODELGATE_TIMEOUT=3"), []string{"workspaces", "list"}, 2, "MODELGATE_TIMEOUT"},
		{"no terminal", env, []string{"keys", "revoke", "ci"}, 1, "add --yes"},
	} {
		code, out, errs := invoke(t, tt.env, "", tt.args...)
		if code != tt.code || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: %d %q %q, want %d and %q", tt.name, code, out, errs, tt.code, tt.says)
		}
	}
}

// TestNoCommandTakesAKeyElsewhere follows no redirect.
func TestNoCommandTakesAKeyElsewhere(t *testing.T) {
	var asked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(other.Close)
	from := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(from.Close)
	for _, args := range [][]string{{"tail"}, {"explain", "0197a3f0-0000-7000-8000-000000000000"}, {"keys", "list"}, {"top"}, {"login"}} {
		args = append(args, "--url", from.URL)
		if args[0] != "login" {
			args = append(args, "--key", testKey)
		}
		code, _, errs := invoke(t, nil, "", args...)
		if code != 1 || !strings.Contains(errs, other.URL) || strings.Contains(errs, testKey) {
			t.Errorf("modelgate %v: %d %q", args, code, errs)
		}
	}
	if asked.Load() {
		t.Error("another host was asked")
	}
}
