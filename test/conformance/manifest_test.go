package conformance

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	from.do(t, http.MethodPost, "/v1/integrations", `{"name":"Moved","slug":"moved","ai_provider_id":"openai","key":"sk-moved-canary-1234567890"}`, with, us).fine(t)
	from.do(t, http.MethodPost, "/v1/configs", `{"name":"moved","config":{"provider":"@moved"}}`, with, us).fine(t)
	made := from.do(t, http.MethodPost, "/v1/api-keys/workspace/service", `{"name":"moved","scopes":["completions.write","models.list"]}`, with, us).fine(t).object(t)
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
	eventually(t, "the key counts at the other gateway", func() bool {
		return to.do(t, http.MethodGet, "/v1/models", "", "x-gateway-api-key", secret).status == http.StatusOK
	})
	to.do(t, http.MethodGet, "/v1/providers/moved", "", with, us).fine(t)
	if said := to.do(t, http.MethodDelete, "/v1/configs/pc-file", "", with, us); said.status != http.StatusConflict || !strings.Contains(string(said.body), "AB07") {
		t.Errorf("a config of the file: %d %s", said.status, said.body)
	}
	if s := to.do(t, http.MethodGet, "/v1/schema/settings", "", with, us).fine(t).object(t); s["title"] != "modelgate.yaml" {
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

// TestDryRunRefusesWhatApplyRefuses compares exit codes and messages of both.
func TestDryRunRefusesWhatApplyRefuses(t *testing.T) {
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "state.yaml")
	mustCommand(t, "migrate", "--data", data)
	if err := os.WriteFile(file, []byte("workspaces: [{slug: other}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, dry, dryCode := command(t, "apply", "--data", data, "--prune", "--dry-run", file)
	_, done, code := command(t, "apply", "--data", data, "--prune", file)
	if dryCode != 1 || code != 1 || dry != done || !strings.Contains(dry, "the default workspace is not archived") {
		t.Errorf("the dry run exits %d with %q, applying exits %d with %q", dryCode, dry, code, done)
	}
	if out := mustCommand(t, "apply", "--data", data, "--dry-run", file); !strings.Contains(out, "would add 1,") {
		t.Errorf("without --prune: %s", out)
	}
}
