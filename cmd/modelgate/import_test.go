package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// importedProvider is a simulated provider that keeps the models it was asked for.
type importedProvider struct {
	mu     sync.Mutex
	models []string // guarded by mu
}

// ServeHTTP responds to requests in the chat and messages formats.
func (p *importedProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Model string }
	text, _ := io.ReadAll(r.Body)
	json.Unmarshal(text, &body)
	p.mu.Lock()
	p.models = append(p.models, body.Model)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/messages") {
		io.WriteString(w, `{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`)
		return
	}
	io.WriteString(w, `{"id":"c","object":"chat.completion","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
}

// take returns the models asked for since the last time.
func (p *importedProvider) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.models
	p.models = nil
	return out
}

var importVariable = regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`)

// TestImportedFilesServeRequestsByTheOldNames imports a sample of each product, checks the file,
// starts a gateway with it and sends requests as before.
func TestImportedFilesServeRequestsByTheOldNames(t *testing.T) {
	samples := filepath.Join("..", "..", "internal", "settings", "foreign", "testdata")
	for _, tt := range []struct {
		format, file string
		key          string   // of clients; empty for one that the gateway has
		headers      []string // of requests
		models       map[string][]string
		listed       []string // names of models in GET /v1/models
	}{
		{"litellm", "litellm.yaml", "sk-master-key-of-sixteen", nil,
			map[string][]string{"fast": {"gpt-4.1-mini", "gpt-4.1-nano"}, "gpt-4": {"gpt-4.1-mini", "gpt-4.1-nano"}, "clever": {"claude-sonnet-4-5"}},
			[]string{"fast", "gpt-4", "clever", "@anthropic/claude-sonnet-4-5"}},
		{"portkey", "portkey.json", "", []string{"x-portkey-config", "pc-main-1a2b"}, map[string][]string{"any": {"gpt-4.1"}}, nil},
		{"bifrost", "bifrost.json", "sk-bf-team-key-0123456789", nil,
			map[string][]string{"openai/gpt-4o": {"gpt-4o"}, "openai/gpt-4o-mini": {"gpt-4o-mini"}}, []string{"openai/gpt-4o", "openai/gpt-4o-mini"}},
		{"one-api", "one-api.sql", "", []string{"x-gateway-config", "imported"},
			map[string][]string{"gpt-4": {"gpt-4-0613"}, "gpt-4o": {"gpt-4o"}}, []string{"gpt-4", "gpt-4o"}},
		{"env", "env.txt", "", []string{"x-gateway-config", "imported"}, map[string][]string{"gpt-4o": {"gpt-4o"}, "@openai/other": {"other"}}, nil},
	} {
		t.Run(tt.format, func(t *testing.T) {
			up := new(importedProvider)
			server := httptest.NewServer(up)
			defer server.Close()
			dir := t.TempDir()
			sample, err := os.ReadFile(filepath.Join(samples, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			source, file := filepath.Join(dir, tt.file), filepath.Join(dir, "out.yaml")
			mustWrite(t, source, strings.ReplaceAll(string(sample), "UPSTREAM", server.URL))
			code, _, errs := invoke(t, nil, "", "import", tt.format, source, "-o", file, "--report", filepath.Join(dir, "report.json"))
			if code != 0 {
				t.Fatalf("import: exit %d: %s", code, errs)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			env := []string{"MODELGATE_MASTER_KEY=a master key of a test"}
			for _, m := range importVariable.FindAllStringSubmatch(string(text), -1) {
				t.Setenv(m[1], "sk-value-of-"+m[1])
				env = append(env, m[1]+"=sk-value-of-"+m[1])
			}
			if code, _, errs = invoke(t, env, "", "check", file); code != 0 {
				t.Fatalf("check: exit %d: %s\n%s", code, errs, text)
			}
			o := gatewaytest.Options{Settings: string(text), Data: t.TempDir(), MasterKey: "a master key of a test"}
			if isForApply(t, filepath.Join(dir, "report.json")) {
				o.Settings = "compat: {header_prefixes: [x-portkey-]}\n"
				if code, _, errs = invoke(t, env, "", "apply", file, "--data", o.Data); code != 0 {
					t.Fatalf("apply: exit %d: %s\n%s", code, errs, text)
				}
			}
			g := gatewaytest.New(t, o)
			headers := append([]string{"x-gateway-provider", ""}, tt.headers...)
			if tt.key != "" {
				headers = append(headers, "x-gateway-api-key", tt.key)
			}
			for model, sent := range tt.models {
				res := g.Post("/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, headers...)
				got := up.take()
				if res.Status != 200 || len(got) != 1 || !strings.Contains(strings.Join(sent, " ")+" ", got[0]+" ") {
					t.Errorf("a request for %s got %d %s, and the provider %q, want one of %q", model, res.Status, res.Body, got, sent)
				}
			}
			if res := g.Post("/chat/completions", `{"model":"nothing-of-it","messages":[{"role":"user","content":"hi"}]}`, headers...); tt.listed != nil && res.Status == 200 {
				t.Errorf("a request for a model of no entry was served: %s", res.Body)
			}
			res := g.Get("/models", headers...)
			for _, model := range tt.listed {
				if !strings.Contains(string(res.Body), `"id":"`+model+`"`) {
					t.Errorf("GET /models does not list %s: %d %s", model, res.Status, res.Body)
				}
				if one := g.Get("/models/"+strings.ReplaceAll(model, "/", "%2F"), headers...); one.Status != 200 && !strings.HasPrefix(model, "@") {
					t.Errorf("GET /models/%s: %d %s", model, one.Status, one.Body)
				}
			}
		})
	}
}

func isForApply(t *testing.T, report string) bool {
	t.Helper()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ Apply bool }
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r.Apply
}

func TestImportRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	mustWrite(t, file, "model_list: []\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		errs string
	}{
		{"no format", nil, 2, "FORMAT [FILE] is required"},
		{"no file", []string{"litellm"}, 2, "FILE is required"},
		{"another format", []string{"other", file}, 1, "use litellm, portkey, bifrost, one-api, env"},
		{"a missing file", []string{"litellm", filepath.Join(dir, "none")}, 1, "none"},
		{"a file without providers", []string{"litellm", file}, 1, "nothing of it can be imported"},
		{"an output that exists", []string{"env", "-o", file}, 1, "exists"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := invoke(t, []string{"GROQ_API_KEY=gsk-secret-0123456789"}, "", append([]string{"import"}, tt.args...)...)
			if code != tt.code || !strings.Contains(errs, tt.errs) || out != "" {
				t.Errorf("exit %d %q %q, want %d and %q", code, out, errs, tt.code, tt.errs)
			}
		})
	}
}

func TestImportSealsWithAMasterKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".env")
	mustWrite(t, file, "GROQ_API_KEY=gsk-secret-0123456789\n")
	code, out, errs := invoke(t, []string{"MODELGATE_MASTER_KEY=a master key of a test"}, "", "import", "env", file)
	if code != 0 || !strings.Contains(out, "sealed:v1:") || strings.Contains(out+errs, "gsk-secret") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = invoke(t, nil, "", "import", "env", file)
	if code != 0 || !strings.Contains(out, `"${GROQ_API_KEY}"`) || strings.Contains(out+errs, "gsk-secret") {
		t.Errorf("without a master key: exit %d: %s%s", code, out, errs)
	}
}
