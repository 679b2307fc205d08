// Package examples_test runs the files in examples.
//
// It guarantees that they work when somebody copies them: configs route as their cases
// say, settings and policies are valid, the module denies. It starts no containers.
package examples_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/waittest"
)

const folder = "../../examples/"

var program string // that is tested

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = programtest.Build(dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// modelgate runs the program and returns what it prints.
func modelgate(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = programtest.Env(env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("modelgate %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestEveryFileIsInTheList(t *testing.T) {
	list, err := os.ReadFile(folder + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("modelgate.yaml policies.yaml configs/*.json guardrail-module/main.go") {
		files, err := filepath.Glob(folder + name)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", name, files, err)
		}
		for _, file := range files {
			if name := strings.TrimPrefix(file, folder); !strings.HasSuffix(name, ".cases.json") && !strings.Contains(string(list), "]("+name+")") {
				t.Errorf("README.md does not list %s", name)
			}
		}
	}
}

func TestConfigsRouteAsTheirCasesSay(t *testing.T) {
	files, err := filepath.Glob(folder + "configs/*.json")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".cases.json") {
			continue
		}
		checked++
		out := modelgate(t, nil, "check", file)
		cases := strings.TrimSuffix(file, ".json") + ".cases.json"
		if _, err := os.Stat(cases); err == nil && !strings.Contains(out, "case") {
			t.Errorf("%s: no case was run: %s", file, out)
		}
	}
	if checked < 3 {
		t.Errorf("checked %d configs", checked)
	}
}

func TestSettingsAreValid(t *testing.T) {
	modelgate(t, []string{"GROQ_API_KEY=gsk-x", "OPENAI_API_KEY=sk-x"}, "check", folder+"modelgate.yaml")
}

func TestPoliciesCanBeApplied(t *testing.T) {
	data := t.TempDir()
	modelgate(t, nil, "keys", "create", "--data", data, "--name", "k")
	for range 2 {
		if out := modelgate(t, nil, "apply", folder+"policies.yaml", "--data", data, "--dry-run"); !strings.Contains(out, "would add 2") {
			t.Errorf("a dry run prints %q", out)
		}
	}
	if out := modelgate(t, nil, "apply", folder+"policies.yaml", "--data", data); !strings.Contains(out, "added 2") {
		t.Errorf("apply prints %q", out)
	}
	if out := modelgate(t, nil, "apply", folder+"policies.yaml", "--data", data); !strings.Contains(out, "nothing to change") {
		t.Errorf("a second apply prints %q", out)
	}
}

// TestModuleDeniesTickets builds the module and sends requests through a guardrail
// with it.
func TestModuleDeniesTickets(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "check.wasm")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "modelgate/examples/guardrail-module")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the module: %v\n%s", err, out)
	}
	code, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.New(t, gatewaytest.Options{})
	post := func(path, body string) map[string]any {
		r := g.Post(path, body)
		if r.Status != http.StatusOK {
			t.Fatalf("POST %s: %d %s", path, r.Status, r.Body)
		}
		return r.JSON(t)
	}
	module := fmt.Sprintf(`{"name":"No tickets","slug":"no-tickets","organisation_id":"default","code":%q}`, base64.StdEncoding.EncodeToString(code))
	uploaded := g.Post("/guardrail-modules", module)
	for range 4 { // compiling has 30 seconds, in which it may get little of a busy machine
		if !strings.Contains(string(uploaded.Body), "to compile") {
			break
		}
		uploaded = g.Post("/guardrail-modules", module)
	}
	if uploaded.Status != http.StatusOK {
		t.Fatalf("uploading the module: %d %s", uploaded.Status, uploaded.Body)
	}
	guardrail := post("/guardrails", `{"name":"No tickets","organisation_id":"default","actions":{"deny":true},
		"checks":[{"id":"default.wasm","parameters":{"module":"no-tickets","failOnError":true}}]}`)
	ask := func(text string) gatewaytest.Response {
		return g.Post("/chat/completions", fmt.Sprintf(`{"model":"sim-1","messages":[{"role":"user","content":%q}]}`, text),
			"x-gateway-provider", "", "x-gateway-config", fmt.Sprintf(`{"provider":"@simulator","input_guardrails":[%q]}`, guardrail["slug"]))
	}
	for text, want := range map[string]int{"Hello!": http.StatusOK, "What is ACME-42 about?": 446} {
		r := ask(text)
		if strings.Contains(string(r.Body), "guardrail_compiling") { // the module, on a busy machine
			waittest.Until(t, "the module is compiled", func() bool {
				r = ask(text)
				return !strings.Contains(string(r.Body), "guardrail_compiling")
			})
		}
		if r.Status != want {
			t.Errorf("%q: status %d, want %d: %s", text, r.Status, want, r.Body)
		}
	}
}
