package foreign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/settings"
	"modelgate/internal/settings/foreign"
)

var samples = map[string]string{"litellm": "litellm.yaml", "portkey": "portkey.json", "bifrost": "bifrost.json", "one-api": "one-api.sql", "env": "env.txt"}

func mustRead(t testing.TB, format string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", samples[format]))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(text), "UPSTREAM", "https://models.example.com"))
}

// TestNoCredentialIsInPlainText looks for the credentials of the samples, each of which has
// plain or hunter2 in it or is a client's key.
func TestNoCredentialIsInPlainText(t *testing.T) {
	box, err := secret.NewBox(secret.New("a master key of a test"))
	if err != nil {
		t.Fatal(err)
	}
	for format := range samples {
		for _, sealer := range []*secret.Box{nil, box} {
			file, report, err := foreign.Import(format, mustRead(t, format), foreign.Options{Box: sealer})
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			var text strings.Builder
			text.WriteString(string(file))
			for _, n := range report.Notes {
				text.WriteString(n.Setting + n.Text)
			}
			for _, v := range report.Variables {
				text.WriteString(v.Name + v.From)
			}
			for _, word := range []string{"-plain-", "hunter2", "sk-master-key", "sk-bf-team", "sk-ant-env", "sk-oneapi"} {
				if strings.Contains(text.String(), word) {
					t.Errorf("%s: the result has %q in plain text:\n%s", format, word, text.String())
				}
			}
			if sealer != nil && !strings.Contains(text.String(), "sealed:v1:") {
				t.Errorf("%s: nothing is sealed:\n%s", format, text.String())
			}
		}
	}
}

func TestEverySettingIsReported(t *testing.T) {
	source := "model_list: [{model_name: a, litellm_params: {model: openai/a, api_key: os.environ/K, odd_one: 1}, odd_two: 2}]\nodd_three: {x: 1}\nrouter_settings: {odd_four: 4}\n"
	_, report, err := foreign.Import("litellm", []byte(source), foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"model_list[0].litellm_params.odd_one", "model_list[0].odd_two", "odd_three", "router_settings.odd_four"} {
		found := false
		for _, n := range report.Notes {
			found = found || n.Setting == want && n.Outcome == foreign.Missing && n.Text != ""
		}
		if !found {
			t.Errorf("%s is not reported: %v", want, report.Notes)
		}
	}
}

func TestHostileSourcesAreRefused(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c < 'k'; c++ {
		bomb.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 8) + "*" + string(c-1) + "]\n")
	}
	for _, tt := range []struct{ name, format, text, want string }{
		{"aliases that repeat", "litellm", bomb.String(), "values"},
		{"an alias of itself", "litellm", "a: &a {b: *a}\n", "nested deeper"},
		{"brackets", "litellm", strings.Repeat("[", 100_000), "nested deeper"},
		{"sequences in a line", "litellm", strings.Repeat("- ", 100_000), "nested deeper"},
		{"brackets of JSON", "bifrost", strings.Repeat("[", 100_000), "nested deeper"},
		{"a large YAML file", "litellm", "a: " + strings.Repeat("x", 1<<20), "larger"},
		{"a large file", "portkey", `"` + strings.Repeat("x", 16<<20) + `"`, "larger"},
		{"text", "bifrost", "hello", "not JSON"},
		{"a metadata address", "litellm", "model_list: [{model_name: a, litellm_params: {model: openai/a, api_base: \"http://169.254.169.254/v1\"}}]", "address guard"},
		{"an address with a password", "litellm", "model_list: [{model_name: a, litellm_params: {model: openai/a, api_base: \"http://u:p@h.example/v1\"}}]", "address"},
		{"a name of a target", "litellm", "model_list: [{model_name: other models, litellm_params: {model: openai/a}}]", "rename it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, _, err := foreign.Import(tt.format, []byte(tt.text), foreign.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q; file %s", err, tt.want, file)
			}
		})
	}
}

// fuzz checks that a file is either refused or one that the gateway reads.
func fuzz(f *testing.F, format string) {
	f.Add(mustRead(f, format))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, report, err := foreign.Import(format, text, foreign.Options{})
		if err != nil {
			return
		}
		env := func(string) (string, bool) { return "sk-value-of-a-variable", true }
		if _, err := settings.ParseState("imported.yaml", file, settings.SecretResolver{Env: env}); err != nil {
			t.Errorf("the imported file is refused: %v\n%s\n%v", err, file, report.Notes)
		}
	})
}

func FuzzLiteLLM(f *testing.F) { fuzz(f, "litellm") }
func FuzzPortkey(f *testing.F) { fuzz(f, "portkey") }
func FuzzBifrost(f *testing.F) { fuzz(f, "bifrost") }
func FuzzOneAPI(f *testing.F)  { fuzz(f, "one-api") }
func FuzzEnv(f *testing.F)     { fuzz(f, "env") }
