package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const routesJSON = `{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.plan":{"$eq":"pro"}},"then":"b"}],"default":"a"},
"targets":[{"name":"a","provider":"@x"},{"name":"b","provider":"openai","api_key":"k","override_params":{"temperature":0.5}}]}`

const proRequest = `"request":{"headers":{"x-gateway-metadata":"{\"plan\":\"pro\"}"},"body":{"model":"m","messages":[{"role":"user","content":"Hi"}]}}`

func TestCheckRunsTheCasesNextToAConfig(t *testing.T) {
	for _, tt := range []struct {
		name, config, cases string
		code                int
		want                string
	}{
		{"none", routesJSON, "", 0, "is valid, 0 cases passed"},
		{"all pass", routesJSON, `[{"name":"pro",` + proRequest + `,"expect":{"target":"config.targets[1]","provider":"openai","model":"m","body":{"temperature":0.5}}},
			{"name":"others","request":{"body":{"model":"m","messages":[{"role":"user","content":"Hi"}]}},"expect":{"target":"config.targets[0]","provider":"@x"}},
			{"name":"refused","request":{"body":{"model":"m","messages":[]}},"expect":{"status":400}}]`, 0, "3 cases passed"},
		{"another target", routesJSON, `[{"name":"pro",` + proRequest + `,"expect":{"target":"config.targets[0]"}}]`, 1,
			`FAIL case 0 "pro": target is "config.targets[1]", want "config.targets[0]"`},
		{"another override", routesJSON, `[{"name":"pro",` + proRequest + `,"expect":{"body":{"temperature":1}}}]`, 1, "body.temperature is 0.5, want 1"},
		{"an unexpected refusal", routesJSON, `[{"name":"x","request":{"body":{"model":"m","messages":[]}},"expect":{}}]`, 1, "status is 400, want 200"},
		{"a misspelt field", routesJSON, `[{"name":"x","expects":{}}]`, 1, `unknown field "expects"`},
		{"a bad config", `{"strategy":{"mode":"never"},"targets":[]}`, "", 1, "AB01"},
		{"an unknown provider", `{"provider":"opnai","api_key":"k"}`, "", 1, `did you mean "openai"?`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "routes.json")
			mustWrite(t, file, tt.config)
			if tt.cases != "" {
				mustWrite(t, strings.TrimSuffix(file, ".json")+".cases.json", tt.cases)
			}
			var out bytes.Buffer
			p := &program{in: strings.NewReader(""), out: &out, err: &out, env: func(string) string { return "" }}
			if code := p.main(t.Context(), []string{"check", file}); code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("exit code %d, want %d; output %q, want it to hold %q", code, tt.code, out.String(), tt.want)
			}
		})
	}
}

func mustWrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
