package conformance

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestTheControlPlaneGoesFromOneGatewayToAnotherAsAFile makes objects by the API
// of one running gateway and finds them at another, which keeps running.
func TestTheControlPlaneGoesFromOneGatewayToAnotherAsAFile(t *testing.T) {
	const master = "the master key of two gateways"
	key := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(key, []byte(master), 0o600); err != nil {
		t.Fatal(err)
	}
	from := launchFor(t, "version: 1\n", "MODELGATE_MASTER_KEY="+master)
	to := launchFor(t, "providers: [{slug: x, provider: openai}]\nconfigs: [{slug: pc-file, config: {provider: \"@x\"}}]\n", "MODELGATE_MASTER_KEY="+master)
	const with, us = "x-gateway-api-key", bootstrapKey
	from.do(t, http.MethodPost, "/v1/integrations", `{"name":"Moved","slug":"moved","ai_provider_id":"openai","key":"sk-moved-canary-1234567890"}`, with, us).wantOK(t)
	from.do(t, http.MethodPost, "/v1/configs", `{"name":"moved","config":{"provider":"@moved"}}`, with, us).wantOK(t)
	made := from.do(t, http.MethodPost, "/v1/api-keys/workspace/service", `{"name":"moved","scopes":["completions.write","models.list"]}`, with, us).wantOK(t).object(t)
	secret, _ := made["key"].(string)

	file := filepath.Join(t.TempDir(), "state.yaml")
	mustCommand(t, "export", "--data", from.data, "--master-key-file", key, "-o", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "canary") || strings.Contains(string(text), secret) || !strings.Contains(string(text), "sealed:v1:") {
		t.Fatalf("the export is not sealed:\n%s", text)
	}
	dry := mustCommand(t, "apply", "--data", to.data, "--master-key-file", key, "--dry-run", file)
	if done := mustCommand(t, "apply", "--data", to.data, "--master-key-file", key, file); strings.Split(dry, "\nwould")[0] != strings.Split(done, "\nadded")[0] {
		t.Errorf("a dry run says %s, and applying %s", dry, done)
	}
	if again := mustCommand(t, "apply", "--data", to.data, "--master-key-file", key, file); again != "nothing to change\n" {
		t.Errorf("applied twice: %s", again)
	}
	if again := mustCommand(t, "export", "--data", to.data, "--master-key-file", key); !strings.Contains(again, "slug: moved") {
		t.Errorf("exported from the other:\n%s", again)
	}
	waittest.Until(t, "the key counts at the other gateway", func() bool {
		return to.do(t, http.MethodGet, "/v1/models", "", "x-gateway-api-key", secret).status == http.StatusOK
	})
	to.do(t, http.MethodGet, "/v1/providers/moved", "", with, us).wantOK(t)
	if said := to.do(t, http.MethodDelete, "/v1/configs/pc-file", "", with, us); said.status != http.StatusConflict || !strings.Contains(string(said.body), "AB07") {
		t.Errorf("a config of the file: %d %s", said.status, said.body)
	}
	if s := to.do(t, http.MethodGet, "/v1/schema/settings", "", with, us).wantOK(t).object(t); s["title"] != "modelgate.yaml" {
		t.Errorf("the schema's title is %v", s["title"])
	}
}

func mustCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, errText, code := command(t, args...)
	if code != 0 {
		t.Fatalf("modelgate %v: exit %d: %s", args, code, errText)
	}
	return out
}

// TestGrantOfAFileLetsAWorkspaceUseTheIntegration applies what a new installation
// needs, and sends a request with the integration's slug.
func TestGrantOfAFileLetsAWorkspaceUseTheIntegration(t *testing.T) {
	const master, key = "MODELGATE_MASTER_KEY=the master key of a gateway", "a-key-of-the-state-file"
	p, srv := startProvider(nil)
	defer srv.Close()
	g := launchFor(t, "version: 1\n", master, "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	file := filepath.Join(t.TempDir(), "state.yaml")
	apply := func(grants string, flags ...string) string {
		t.Helper()
		text := `organisation: {name: Acme}
workspaces: [{slug: default}, {slug: team}]
integrations:
  - {slug: shop, provider: openai, api_key: "${OPERATORS_KEY}", custom_host: "` + p.root + `/v1", workspaces: [` + grants + `]}
keys: [{name: team, workspace: team, sha256: 129803f329494c52c9bd8789f31400fda8ee7153c8fec7a9fa248eb78befab39}]
`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"apply", "--data", g.data, "--trusted-hosts", "127.0.0.1", "--master-key-file", mustMasterFile(t, master)}, flags...)
		return mustCommand(t, append(args, file)...)
	}
	ask := func() response {
		return g.do(t, http.MethodPost, "/v1/chat/completions", `{"model":"@shop/gpt-4o","messages":[{"role":"user","content":"hi"}]}`, "x-gateway-api-key", key)
	}
	if out := apply("{workspace: team}"); !strings.Contains(out, "+ provider team/shop\n") {
		t.Errorf("applying says\n%s", out)
	}
	waittest.Until(t, "the workspace can use the integration", func() bool { return ask().status == http.StatusOK })
	if out := apply("", "--prune"); !strings.Contains(out, "- provider team/shop\n") {
		t.Errorf("pruning says\n%s", out)
	}
	waittest.Until(t, "the workspace can't use the integration", func() bool { return ask().status == http.StatusNotFound })
}

// mustMasterFile writes the master key of an environment variable to a file.
func mustMasterFile(t *testing.T, variable string) string {
	t.Helper()
	_, value, _ := strings.Cut(variable, "=")
	file := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestDryRunRefusesWhatApplyRefuses compares exit codes and messages of both.
func TestDryRunRefusesWhatApplyRefuses(t *testing.T) {
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "state.yaml")
	mustCommand(t, "migrate", "--data", data)
	if err := os.WriteFile(file, []byte("workspaces: [{slug: other}]\nproviders: [{slug: p, integration: none}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, dry, dryCode := command(t, "apply", "--data", data, "--prune", "--dry-run", file)
	_, done, code := command(t, "apply", "--data", data, "--prune", file)
	if dryCode != 1 || code != 1 || dry != done || !strings.Contains(dry, "providers[0].workspace") {
		t.Errorf("the dry run exits %d with %q, applying exits %d with %q", dryCode, dry, code, done)
	}
	if err := os.WriteFile(file, []byte("workspaces: [{slug: other}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := mustCommand(t, "apply", "--data", data, "--dry-run", file); !strings.Contains(out, "would add 1,") {
		t.Errorf("without --prune: %s", out)
	}
}
