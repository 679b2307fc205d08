package agents

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// agent is a coding agent.
type agent struct {
	name     string
	dialects []string // of the providers it works on
	forgets  []string // dialects for which it does not send thinking back
	command  func(t *testing.T, home, dialect, prompt string) command
}

var agents = []agent{
	{"claude", []string{"messages", "chat", "gemini", "converse", "responses"}, nil, claude},
	{"codex", []string{"responses", "messages", "chat", "gemini"}, nil, codex},
	{"codex over a connection", []string{"responses", "messages"}, nil, codexConnected},
	// To a provider of its own dialect it would send fields that only the vendor accepts.
	{"codex with its own provider", []string{"messages", "chat"}, nil, codexBuiltIn},
	{"codex with a config in a header", []string{"responses", "messages", "chat"}, nil, codexPlain},
	{"gemini", []string{"gemini", "messages", "chat"}, []string{"messages", "chat"}, geminiCLI},
	{"opencode", []string{"chat", "messages", "gemini"}, nil, opencode},
	{"aider", []string{"chat", "messages", "gemini"}, []string{"chat", "messages", "gemini"}, aider},
}

// TestAgentsWork lets each agent do its three turns on a provider of each
// dialect.
func TestAgentsWork(t *testing.T) {
	for _, a := range agents {
		for _, dialect := range a.dialects {
			t.Run(a.name+" "+dialect, func(t *testing.T) {
				t.Parallel()
				mark, s := begin(t)
				home := t.TempDir()
				c := a.command(t, home, dialect, fmt.Sprintf("Do %s now: run the commands and say when you have finished.", mark))
				c.dir = filepath.Join(home, "work")
				if err := os.MkdirAll(c.dir, 0o755); err != nil {
					t.Fatal(err)
				}
				out := launch(t, c)
				s.check(t, mark, out, !slices.Contains(a.forgets, dialect))
				if strings.Contains(a.name, "connection") || strings.Contains(a.name, "own provider") {
					awaitConnection(t)
				}
			})
		}
	}
}

// switches are sessions in which another provider takes over in the second turn, and
// the first one again in the third. Both give calls long ids.
var switches = []struct {
	name          string
	first, second string // dialects
	leaves        string // part of the path of the first
	command       func(t *testing.T, home, config, prompt string) command
}{
	{"claude", "chat", "messages", "/chat/completions", claudeBy},
	{"claude", "gemini", "converse", "GenerateContent", claudeBy},
	{"codex", "responses", "messages", "/responses", codexBy},
	{"codex", "messages", "chat", "/messages", codexBy},
	{"opencode", "gemini", "chat", "GenerateContent", opencodeBy},
}

// TestAgentsChangeTheirModelInMidSession lets agents go on at another provider, whose
// rules for ids of calls and users differ, with what the first has given them.
func TestAgentsChangeTheirModelInMidSession(t *testing.T) {
	for _, tt := range switches {
		t.Run(tt.name+" "+tt.first+" to "+tt.second, func(t *testing.T) {
			t.Parallel()
			mark, s := begin(t)
			s.mu.Lock()
			s.leaves = tt.leaves
			s.mu.Unlock()
			home := t.TempDir()
			c := tt.command(t, home, fallbackOf(tt.first, tt.second), fmt.Sprintf("Do %s now: run the commands and say when you have finished.", mark))
			c.dir = filepath.Join(home, "work")
			if err := os.MkdirAll(c.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			out := launch(t, c)
			s.mu.Lock()
			defer s.mu.Unlock()
			second := tt.second
			if tt.name == "claude" && second == "converse" { // Claude on Bedrock gets the client's own format
				second = "messages"
			}
			if want := []string{tt.first, second, tt.first}; !slices.Equal(s.dialects, want) || len(s.wrong) > 0 || !strings.Contains(out, "Finished "+mark) {
				t.Errorf("the turns went to %q, want %q; %q; the agent printed\n%.6000s", s.dialects, want, s.wrong, out)
			}
		})
	}
}

// fallbackOf returns a config with two providers.
func fallbackOf(dialects ...string) string {
	targets := make([]string, len(dialects))
	for i, d := range dialects {
		slug, model, _ := strings.Cut(strings.Replace(models[d], "gemini-2.5", "gemini-3", 1), "/")
		model, _, _ = strings.Cut(model, "+") // they think if the agent wants it
		ids := "+call-ids=100"
		if d == "responses" { // which takes no more
			ids = "+call-ids=64"
		}
		targets[i] = fmt.Sprintf(`{"provider": %q, "override_params": {"model": %q}}`, slug, model+ids)
	}
	return `{"strategy": {"mode": "fallback"}, "targets": [` + strings.Join(targets, ", ") + `]}`
}

func claudeBy(t *testing.T, home, config, prompt string) command {
	c := claude(t, home, "messages", prompt)
	c.env = append(c.env, "ANTHROPIC_CUSTOM_HEADERS=x-gateway-config: "+config)
	return c
}

func codexBy(t *testing.T, home, config, prompt string) command {
	return codexFor(t, home, "gpt-5.2", fmt.Sprintf(`http_headers = { "x-gateway-config" = '%s' }`, config), prompt)
}

func opencodeBy(t *testing.T, home, config, prompt string) command {
	return opencodeFor(t, home, "chat", fmt.Sprintf(`, "headers": {"x-gateway-config": %q}`, config), prompt)
}

// check compares what happened in a session with what should have. remembers is
// true if the thinking of earlier turns must come back.
func (s *session) check(t *testing.T, mark, out string, remembers bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns != 3 || len(s.wrong) > 0 {
		t.Errorf("%d turns, want 3; %q", s.turns, s.wrong)
	}
	if !strings.Contains(out, "Finished "+mark) {
		t.Errorf("the agent did not print the answer")
	}
	if remembers != (s.signed >= 2) {
		t.Errorf("%d turns of thinking came back, of two; want them: %t", s.signed, remembers)
	}
	if t.Failed() {
		for _, q := range stage.sim.Requests() {
			if strings.Contains(string(q.Body), mark) {
				t.Logf("%s %s\n%.3000s", q.Method, q.URI, q.Body)
			}
		}
		t.Logf("the agent printed:\n%.6000s", out)
	}
}

// base is the environment of every agent: nothing of the developer's.
func base(home string, more ...string) []string {
	return append([]string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/.config", "XDG_DATA_HOME=" + home + "/.local/share",
		"XDG_CACHE_HOME=" + home + "/.cache", "XDG_STATE_HOME=" + home + "/.local/state",
		"NO_COLOR=1", "CI=1", "DO_NOT_TRACK=1", "TERM=dumb", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
	}, more...)
}

func npm(name string) string {
	path, _ := filepath.Abs(filepath.Join("node_modules", ".bin", name))
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func claude(_ *testing.T, home, dialect, prompt string) command {
	return command{path: npm("claude"), args: []string{"-p", prompt, "--allowedTools", "Bash"}, env: base(home,
		"ANTHROPIC_BASE_URL="+stage.url, "ANTHROPIC_AUTH_TOKEN="+gatewayKey, "ANTHROPIC_MODEL="+models[dialect],
		"ANTHROPIC_DEFAULT_HAIKU_MODEL="+models[dialect], "MAX_THINKING_TOKENS=4000",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1")}
}

func codex(t *testing.T, home, dialect, prompt string) command {
	return codexFor(t, home, models[dialect], "", prompt)
}

// awaitConnection waits for a WebSocket connection in the log of the gateway: an agent that falls
// back to HTTP works too.
func awaitConnection(t *testing.T) {
	t.Helper()
	waittest.Until(t, "a connection in the log", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, stage.url+"/v1/logs?status=101", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-gateway-api-key", gatewayKey)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return err == nil && strings.Contains(string(body), `"status":101`)
	})
}

// codexConnected sends requests over a WebSocket connection.
func codexConnected(t *testing.T, home, dialect, prompt string) command {
	return codexFor(t, home, models[dialect], "supports_websockets = true", prompt)
}

// codexBuiltIn uses the built-in provider at another address, which always begins with a WebSocket
// connection.
func codexBuiltIn(t *testing.T, home, dialect, prompt string) command {
	write(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`
model = %q
openai_base_url = "%s/v1"
model_reasoning_effort = "medium"
model_reasoning_summary = "auto"
check_for_update_on_startup = false

[analytics]
enabled = false
`, models[dialect], stage.url))
	return command{path: npm("codex"), args: []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt},
		env: base(home, "CODEX_HOME="+filepath.Join(home, ".codex"), "CODEX_API_KEY="+gatewayKey)}
}

func codexPlain(t *testing.T, home, dialect, prompt string) command {
	slug, model, _ := strings.Cut(models[dialect], "/")
	return codexFor(t, home, model, fmt.Sprintf(`http_headers = { "x-gateway-config" = '{"provider": %q}' }`, slug), prompt)
}

func codexFor(t *testing.T, home, model, headers, prompt string) command {
	write(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`
model = %q
model_provider = "modelgate"
model_reasoning_effort = "medium"
model_reasoning_summary = "auto"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.modelgate]
name = "modelgate"
base_url = "%s/v1"
env_key = "MODELGATE_KEY"
wire_api = "responses"
%s
`, model, stage.url, headers))
	return command{path: npm("codex"), args: []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt},
		env: base(home, "CODEX_HOME="+filepath.Join(home, ".codex"), "MODELGATE_KEY="+gatewayKey)}
}

func geminiCLI(t *testing.T, home, dialect, prompt string) command {
	write(t, filepath.Join(home, ".gemini", "settings.json"), `{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false},
  "general": {"disableAutoUpdate": true, "disableUpdateNag": true},
  "telemetry": {"enabled": false}
}`)
	return command{path: npm("gemini"), args: []string{"--prompt", prompt, "--yolo", "--skip-trust", "--model", models[dialect]},
		env: base(home, "GOOGLE_GEMINI_BASE_URL="+stage.url, "GEMINI_API_KEY="+gatewayKey)}
}

func opencode(t *testing.T, home, dialect, prompt string) command {
	return opencodeFor(t, home, dialect, "", prompt)
}

// opencodeFor takes further options of the provider, in JSON with a comma in front.
func opencodeFor(t *testing.T, home, dialect, options, prompt string) command {
	write(t, filepath.Join(home, ".config", "opencode", "opencode.json"), fmt.Sprintf(`{
  "autoupdate": false, "share": "disabled",
  "provider": {"modelgate": {
    "npm": "%s", "name": "modelgate",
    "options": {"baseURL": "%s", "apiKey": "%s"%s},
    "models": {%q: {"name": "m", "reasoning": true, "tool_call": true}}
  }}
}`, clientsOf[dialect][0], stage.url+clientsOf[dialect][1], gatewayKey, options, models[dialect]))
	// Its own package lacks some platforms in the registry, which npm ci refuses,
	// so the packages with the program are installed.
	programs, _ := filepath.Glob(filepath.Join("node_modules", "opencode-*", "bin", "opencode"))
	if len(programs) == 0 {
		t.Fatal("opencode is not installed: it is tested on Linux on x64 and arm64; run tools/test.sh there, which installs it")
	}
	path, _ := filepath.Abs(programs[0])
	return command{path: path, args: []string{"run", prompt, "--model", "modelgate/" + models[dialect]},
		env: base(home, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1")}
}

// clientsOf are the client libraries in which opencode speaks each dialect, and
// where their paths begin.
var clientsOf = map[string][2]string{
	"chat":     {"@ai-sdk/openai-compatible", "/v1"},
	"messages": {"@ai-sdk/anthropic", "/v1"},
	"gemini":   {"@ai-sdk/google", "/v1beta"},
}

func aider(t *testing.T, home, dialect, prompt string) command {
	work := filepath.Join(home, "work")
	write(t, filepath.Join(work, "steps.txt"), "")
	write(t, filepath.Join(work, "check.sh"), "case $(cat steps.txt) in three) exit 0;; two) echo write three; exit 1;; *) echo write two; exit 1;; esac\n")
	path, _ := filepath.Abs(filepath.Join(".venv", "bin", "aider"))
	return command{path: path, args: []string{
		"--model", "openai/" + models[dialect], "--edit-format", "whole", "--message", prompt, "--yes-always", "--auto-test", "--test-cmd", "sh check.sh",
		"--no-git", "--no-check-update", "--analytics-disable", "--no-show-release-notes", "--no-show-model-warnings", "--no-detect-urls", "--no-fancy-input", "--no-pretty", "steps.txt",
	}, env: base(home, "OPENAI_API_BASE="+stage.url+"/v1", "OPENAI_API_KEY="+gatewayKey, "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_TELEMETRY=False")}
}
