package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// agentScripts are programs in place of the agents: each sends a request as the agent would,
// from its variables and files, and writes its arguments and environment to files.
var agentScripts = map[string]string{
	"claude": `curl -s "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -H "$ANTHROPIC_CUSTOM_HEADERS" -H "content-type: application/json" \
-d "{\"model\":\"$ANTHROPIC_MODEL\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"`,
	"codex": `curl -s "$TEST_URL/chat/completions" -H "authorization: Bearer $MODELGATE_KEY" -H "x-gateway-trace-id: $(printf %s "$2" | sed 's/.*"x-gateway-trace-id"="\([^"]*\)".*/\1/')" -H "content-type: application/json" \
-d "{\"model\":$(printf %s "$6" | sed 's/^model=//'),\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"`,
	"gemini": `grep -q gemini-api-key "$GEMINI_CLI_SYSTEM_SETTINGS_PATH" || exit 9
curl -s "$GOOGLE_GEMINI_BASE_URL/v1beta/models/$(printf %s "$2" | sed 's#@#%40#; s#/#%2F#'):generateContent" -H "x-goog-api-key: $GEMINI_API_KEY" -H "$GEMINI_CLI_CUSTOM_HEADERS" -H "content-type: application/json" \
-d '{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'`,
	"opencode": `grep -q '"apiKey":"{env:MODELGATE_KEY}"' "$OPENCODE_CONFIG" || exit 9
curl -s "$TEST_URL/chat/completions" -H "authorization: Bearer $MODELGATE_KEY" -H "x-gateway-trace-id: $(sed 's/.*"x-gateway-trace-id":"\([^"]*\)".*/\1/' "$OPENCODE_CONFIG")" -H "content-type: application/json" \
-d '{"model":"@simulator/sim-1","messages":[{"role":"user","content":"hi"}]}'`,
}

func TestRunStartsAgentsThroughTheGateway(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	for name, script := range agentScripts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustWriteScript(t, filepath.Join(dir, name), `printf '%s\n' "$@" > "$TEST_DIR/args"; env > "$TEST_DIR/env"; echo "${TMPDIR:-/tmp}" > "$TEST_DIR/tmp"`+"\n"+script+"\ncat\nexit 7\n")
			t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			t.Setenv("TMPDIR", t.TempDir())
			env := append(os.Environ(), "TEST_DIR="+dir, "TEST_URL="+g.URL, "ANTHROPIC_API_KEY=sk-own", "MODELGATE_BOOTSTRAP_KEY="+gatewaytest.Key)
			code, out, errs := invoke(t, env, "typed", "run", name, "--url", g.Root, "--model", "@simulator/sim-1", "--", "--key", "its own")
			if code != 7 {
				t.Errorf("exit %d, want the agent's 7: %s%s", code, out, errs)
			}
			for _, want := range []string{"modelgate run: 1 request,", "tokens: ", "cost: ", "saved by caches: "} {
				if !strings.Contains(errs, want) {
					t.Errorf("the report %q lacks %q; the agent printed %s", errs, want, out)
				}
			}
			if !strings.HasSuffix(out, "typed") {
				t.Errorf("the agent did not get the input: %q", out)
			}
			args, _ := os.ReadFile(filepath.Join(dir, "args"))
			if strings.Contains(string(args), gatewaytest.Key) || !strings.HasSuffix(string(args), "--key\nits own\n") {
				t.Errorf("arguments of the agent: %q", args)
			}
			vars, _ := os.ReadFile(filepath.Join(dir, "env"))
			if strings.Contains(string(vars), "MODELGATE_BOOTSTRAP_KEY") || name == "claude" && strings.Contains(string(vars), "sk-own") {
				t.Error("the agent got variables that are not for it")
			}
			if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
				t.Errorf("temporary files are left: %v", left)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for _, tt := range []struct {
		name string
		args []string
		code int
		errs string
	}{
		{"no agent", nil, 2, "AGENT"},
		{"another agent", []string{"vim", "--key", "k"}, 2, "claude, codex, gemini or opencode"},
		{"no key", []string{"claude"}, 1, "modelgate login"},
		{"a bad address", []string{"claude", "--key", "k", "--url", "gate"}, 2, "--url"},
		{"a missing program", []string{"claude", "--key", "k"}, 1, "npm install -g @anthropic-ai/claude-code"},
		{"no model", []string{"opencode", "--key", "k"}, 2, "--model is required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, errs := invoke(t, nil, "", append([]string{"run"}, tt.args...)...)
			if code != tt.code || !strings.Contains(errs, tt.errs) {
				t.Errorf("exit %d %q, want %d and %q", code, errs, tt.code, tt.errs)
			}
		})
	}
}

func TestRunPassesSignalsAsExitCode(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	dir := t.TempDir()
	mustWriteScript(t, filepath.Join(dir, "claude"), "kill -TERM $$\n")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	code, _, errs := invoke(t, os.Environ(), "", "run", "claude", "--key", "k", "--url", "http://127.0.0.1:1")
	if code != 128+15 || !strings.Contains(errs, "the usage cannot be read") {
		t.Errorf("exit %d %q, want 143 and a note", code, errs)
	}
}

// mustWriteScript writes a program for the shell.
func mustWriteScript(t *testing.T, file, text string) {
	t.Helper()
	mustWrite(t, file, "#!/bin/sh\n"+text)
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
}
