package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheStateGoesFromOneGatewayToAnotherOverTheAPI(t *testing.T) {
	run := func(env []string, args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := invoke(t, env, "", args...)
		if code != 0 || strings.Contains(out+errs, "canary") {
			t.Fatalf("modelgate %v: %d %s %s", args, code, out, errs)
		}
		return out, errs
	}
	first, second := newOwn(t), newOwn(t)
	run(append(first.local, secretsOf...), "apply", wholeState)
	file := filepath.Join(t.TempDir(), "state.yaml")
	_, errs := run(first.remote, "export", "--output", file)
	exported := mustRead(t, file)
	_, names, _ := strings.Cut(errs, ":\n")
	var variables []string
	for name := range strings.FieldsSeq(names) {
		value := name + "=canary-" + name
		if strings.HasSuffix(name, "JSON") {
			value = name + `={"private_key":"canary"}`
		}
		variables = append(variables, value)
	}
	if len(variables) < 10 || strings.Contains(exported, "\nmembers:") || strings.Contains(exported, "\nkeys:") {
		t.Fatalf("the export needs %q and is\n%s", variables, exported)
	}
	mustWrite(t, file+".people", "workspaces: [{slug: default}, {slug: ws-team}]\n"+
		"members: [{email: ann@example.com, workspaces: {default: member}}, {email: bob@example.com}]\n")
	run(second.local, "apply", file+".people") // whom the state names
	remote, local := append(second.remote, variables...), append(second.local, variables...)
	planned, _ := run(remote, "apply", "--dry-run", file)
	locally, _ := run(append(local, "OPENAI_API_KEY=x", "FREE_KEY=x"), "apply", "--dry-run", file)
	if diff := cmp.Diff(locally, planned); diff != "" {
		t.Errorf("the plans next to the database and over the API differ:\n%s", diff)
	}
	done, _ := run(remote, "apply", file)
	if diff := cmp.Diff(strings.Replace(planned, "would add", "added", 1), strings.NewReplacer(" changed ", " change ", " removed ", " remove ").Replace(done)); diff != "" {
		t.Errorf("the dry run differs from the change:\n%s", diff)
	}
	again, _ := run(second.remote, "export")
	if diff := cmp.Diff(exported, again); diff != "" {
		t.Errorf("the second export differs:\n%s", diff)
	}
	for _, env := range [][]string{remote, local} {
		if out, _ := run(env, "apply", file); out != "nothing to change\n" {
			t.Errorf("applied again with %v: %s", env[0], out)
		}
	}
}

// own is a gateway with the environments of commands at its address and next to its database.
type own struct{ remote, local []string }

func newOwn(t *testing.T) own {
	t.Helper()
	config := filepath.Join(t.TempDir(), "modelgate.yaml")
	mustWrite(t, config, "secrets: {environment: [FREE_KEY, OPENAI_API_KEY]}\n")
	database := []string{masterKey, "MODELGATE_DATA=" + t.TempDir()}
	r := start(t, append(database, "MODELGATE_BOOTSTRAP_KEY="+testKey), "--config", config)
	return own{[]string{"MODELGATE_BOOTSTRAP_KEY=" + testKey, "MODELGATE_URL=" + r.url}, database}
}

func TestErrorsOfASentFileHaveItsLine(t *testing.T) {
	g := newOwn(t)
	file := filepath.Join(t.TempDir(), "state.yaml")
	at := func(place string) string { return "modelgate apply: " + file + ":" + place }
	for _, tt := range []struct {
		name, text, says string
	}{
		{"a section about access", "workspaces: [{slug: default}]\nkeys: []\n", at("2:7: keys: says who may use the gateway")},
		{"trusted hosts", "upstream: {trusted_hosts: [a]}\n", at("1:12: upstream: is not a section")},
		{"an unknown section", "workspace: []\n", at("1:12: workspace: is not a section")},
		{"an unset variable", "integrations:\n  - slug: a\n    provider: openai\n    api_key: ${STATE_KEY}\n", at("4:14: integrations[0].api_key: the environment variable STATE_KEY is not set")},
		{"a sealed value", "integrations:\n  - slug: a\n    provider: openai\n    api_key: sealed:v1:AAAA\n", at("4:14: integrations[0].api_key: has a sealed value")},
		{"a credential in plain text", "integrations:\n  - slug: a\n    provider: openai\n    api_key: sk-canary\n", at("4:14: integrations[0].api_key: plaintext credentials")},
		{"an object that does not exist", "configs:\n  - slug: pc-a\n    workspace: none\n    config: {retry: {attempts: 2}}\n", at(`3:16: configs[0].workspace: workspace "none" not found`)},
		{"a wrong field", "configs:\n  - slug: pc-a\n    config: {retry: {attempts: many}}\n", at("3:")},
		{"wrong syntax", "configs: [", at("1:")},
		{"two objects with one slug", "configs:\n  - {slug: pc-a, config: {retry: {attempts: 2}}}\n  - {slug: pc-a, config: {retry: {attempts: 2}}}\n", at("3:")},
		{"a private address", "integrations:\n  - slug: a\n    provider: openai\n    custom_host: http://169.254.169.254/v1\n", at("2:")},
	} {
		mustWrite(t, file, tt.text)
		code, out, errs := invoke(t, g.remote, "", "apply", file)
		if code != 1 || out != "" || !strings.HasPrefix(errs, tt.says) || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "canary") {
			t.Errorf("%s: %d %q %q, want %q", tt.name, code, out, errs, tt.says)
		}
	}
	mustWrite(t, file, "workspaces: [{slug: default}]\n")
	mustWrite(t, file+".log", "log: {level: info}\n")
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		code int
		says string
	}{
		{"a section of the gateway", g.remote, []string{file + ".log"}, 0, "log not applied"},
		{"no file", g.remote, nil, 2, "FILE is required"},
		{"two files", g.remote, []string{file, file}, 2, "FILE is required"},
		{"an absent file", g.remote, []string{file + ".absent"}, 1, "does not exist"},
		{"a wrong variable", g.remote, []string{file, "--var", "a-b=c"}, 2, "NAME=VALUE"},
		{"a wrong format", g.remote, []string{file, "-o", "name"}, 2, "--output must be table, json or yaml"},
		{"a flag of the database", g.remote, []string{file, "--data", "x", "--url", "http://127.0.0.1:1"}, 2, "--data"},
		{"no key", g.remote[1:], []string{file, "--prune"}, 1, "401"},
	} {
		code, _, errs := invoke(t, tt.env, "", append([]string{"apply"}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d %q, want %d and %q", tt.name, code, errs, tt.code, tt.says)
		}
	}
	for _, args := range [][]string{{"export", "--secrets", "sealed"}, {"export", "--secrets", "all"}, {"export", "x"}} {
		if code, out, errs := invoke(t, g.remote, "", args...); code != 2 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("modelgate %v: %d %q %q", args, code, out, errs)
		}
	}
}

func TestASentFileRemovesOnlyWhenConfirmed(t *testing.T) {
	g := newOwn(t)
	file := filepath.Join(t.TempDir(), "state.yaml")
	mustWrite(t, file, "configs: [{slug: pc-a, config: {retry: {attempts: 2}}}]\n")
	if code, out, errs := invoke(t, g.remote, "", "apply", file, "--prune"); code != 0 || !strings.Contains(out, "added 1, changed 0 and removed 0") {
		t.Fatalf("nothing to remove: %d %s %s", code, out, errs)
	}
	mustWrite(t, file, "configs: []\n")
	if code, out, errs := invoke(t, g.remote, "", "apply", file, "--prune"); code != 1 || out != "" || !strings.Contains(errs, "- config default/pc-a\n") ||
		!strings.Contains(errs, "Remove 1 objects needs a confirmation") {
		t.Errorf("without a confirmation: %d %q %q", code, out, errs)
	}
	if code, out, _ := invoke(t, g.remote, "", "apply", file, "--prune", "--dry-run"); code != 0 || out != "- config default/pc-a\nwould add 0, change 0 and remove 1\n" {
		t.Errorf("a dry run: %d %q", code, out)
	}
	if code, out, errs := invoke(t, g.remote, "", "apply", file); code != 0 || out != "nothing to change\n" {
		t.Errorf("without --prune: %d %q %q", code, out, errs)
	}
	code, out, errs := invoke(t, g.remote, "", "apply", file, "--prune", "--yes", "-o", "json")
	var changes struct {
		Changes []struct{ Operation, Kind, Name string }
	}
	if err := json.Unmarshal([]byte(out), &changes); code != 0 || err != nil || len(changes.Changes) != 1 || changes.Changes[0].Operation != "remove" {
		t.Errorf("with --yes: %d %q %q %v", code, out, errs, err)
	}
}

func TestOnlyTheVariablesOfTheFileAreSent(t *testing.T) {
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body = string(text)
		io.WriteString(w, `{"changes":[],"dry_run":false,"object":"state_changes"}`)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "state.yaml")
	mustWrite(t, file, "integrations: [{slug: a, provider: openai, api_key: '${NAMED}', custom_headers: {x-a: '${GIVEN}', x-b: '${UNSET}', x-c: 'a ${OTHER}'}}]\n")
	env := []string{"NAMED=one", "GIVEN=two", "OTHER=canary", "MODELGATE_MASTER_KEY=canary"}
	code, out, errs := invoke(t, env, "", "apply", "--url", server.URL, "--key", testKey, "--var", "GIVEN=three=3", "--var", "SPARE=canary", file)
	var sent struct{ Variables map[string]string }
	if err := json.Unmarshal([]byte(body), &sent); code != 0 || err != nil {
		t.Fatalf("%d %s %s: %v", code, out, errs, err)
	}
	if diff := cmp.Diff(map[string]string{"NAMED": "one", "GIVEN": "three=3"}, sent.Variables); diff != "" || strings.Contains(body, "canary") {
		t.Errorf("sent %s:\n%s", body, diff)
	}
}

func TestAPipelineAppliesWithAKeyOfItsOwn(t *testing.T) {
	g := newOwn(t)
	file := filepath.Join(t.TempDir(), "state.yaml")
	mustWrite(t, file, "configs: [{slug: pc-a, config: {retry: {attempts: 2}}}]\n")
	for scopes, want := range map[string]int{"all": 0, "configs.create,configs.update,organisation_settings.update": 1} {
		code, key, errs := invoke(t, g.remote, "", "keys", "create-admin-key", "pipeline", "--scopes", scopes, "--expires-at", "+90d")
		if code != 0 {
			t.Fatalf("keys create-admin-key --scopes %s: %d %s", scopes, code, errs)
		}
		env := []string{g.remote[1], "MODELGATE_BOOTSTRAP_KEY=" + strings.TrimSpace(key)}
		code, out, errs := invoke(t, env, "", "apply", file)
		if code != want || strings.Count(out+errs, "\n") > 2 || want == 1 && !strings.Contains(errs, "requires every scope") {
			t.Errorf("with the scopes %s: %d %q %q", scopes, code, out, errs)
		}
	}
}
