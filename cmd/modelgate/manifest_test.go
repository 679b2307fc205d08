package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
)

const (
	wholeState = "../../internal/controlplane/manifest/testdata/whole.yaml"
	masterKey  = "MODELGATE_MASTER_KEY=a master key of a test"
)

// secretsOf are the variables of wholeState.
var secretsOf = []string{
	"VAULT_TOKEN=canary-1", "OPENAI_API_KEY=canary-2", "TEAM_HEADER=canary-3", "MODEL_HEADER=canary-4", "AWS_ID=canary-5",
	"AWS_SECRET=canary-6", "AZURE_KEY=canary-7", "GROQ_API_KEY=canary-8", "CONFIG_KEY=canary-9", `CONFIG_ACCOUNT_JSON={"private_key":"canary-10"}`, "APORIA_KEY=canary-11",
	"OKTA_SECRET=canary-12", "TRACKER_TENANT=canary-13", "TRACKER_SECRET=canary-14",
}

func TestTheStateGoesFromOneInstallationToAnother(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		from := append([]string{masterKey, "DATABASE_URL=" + dsn, "MODELGATE_DATA=" + t.TempDir()}, secretsOf...)
		to := []string{masterKey, "MODELGATE_DATA=" + filepath.Join(t.TempDir(), "new")}
		file := filepath.Join(t.TempDir(), "state.yaml")
		for _, tt := range []struct {
			name      string
			env       []string
			args      string
			code      int
			out, errs string
		}{
			{"applied", from, "apply " + wholeState, 0, "added 57, changed 3 and removed 0", ""},
			{"applied again", from, "apply " + wholeState, 0, "nothing to change", ""},
			{"exported to a file", from, "export -o " + file, 0, "", ""},
			{"exported as references", from, "export --secrets references", 0, "api_key: \"${INTEGRATION_FAST_API_KEY}\"", "\nINTEGRATION_FAST_API_KEY\n"},
			{"exported without secrets", from, "export --secrets none", 0, "slug: fast", ""},
			{"exported otherwise", from, "export --secrets plain", 2, "", "sealed, references or none"},
			{"exported without a master key", from[1:], "export", 1, "", "--secrets none"},
			{"applied dry to nothing", to, "apply --dry-run " + file, 1, "", "does not exist"},
			{"applied elsewhere", to, "apply " + file, 0, "added 57, changed 3 and removed 0", ""},
			{"applied elsewhere dry", to, "apply --dry-run --prune " + file, 0, "nothing to change", ""},
			{"applied with another master key", append([]string{masterKey + "s"}, to[1:]...), "apply " + file, 1, "", "state.yaml:"},
			{"applied to nobody", to, "apply --organisation nobody " + file, 1, "", "organisation not found"},
			{"applied without a file", to, "apply absent.yaml", 1, "", "absent.yaml"},
		} {
			code, out, errs := invoke(t, tt.env, "", strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || strings.Contains(out+errs, "canary") {
				t.Errorf("%s: %d\n%s\n%s\nwant %d, %q, %q", tt.name, code, out, errs, tt.code, tt.out, tt.errs)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is open to others: %v, %v", info.Mode(), err)
		}
		_, first, _ := invoke(t, from, "", "export")
		_, second, _ := invoke(t, to, "", "export")
		if written := mustRead(t, file); first == "" || first != second || first != written {
			t.Errorf("the exports differ:\n%s\n%s\n%s", first, second, written)
		}
	})
}

func mustRead(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestARunningGatewayTakesWhatIsApplied(t *testing.T) {
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "state.yaml")
	r := start(t, []string{"MODELGATE_BOOTSTRAP_KEY=boot-of-a-test-0123"}, "--data", data)
	// The hash of "a-key-of-the-state-file".
	mustWrite(t, file, "keys: [{name: ci, sha256: 129803f329494c52c9bd8789f31400fda8ee7153c8fec7a9fa248eb78befab39}]\nlog: {level: info}\n")
	if got := r.status(t, "a-key-of-the-state-file"); got != 401 {
		t.Fatalf("before, the key is answered %d", got)
	}
	code, out, errs := invoke(t, nil, "", "apply", "--data", data, file)
	if code != 0 || !strings.Contains(out, "+ key default/ci 129803f32949\n") || !strings.Contains(errs, "log not applied") {
		t.Fatalf("apply = %d: %s %s", code, out, errs)
	}
	waitStatus(t, r, "a-key-of-the-state-file", 200)
	mustWrite(t, file, "keys: []\n")
	if code, out, errs := invoke(t, nil, "", "apply", "--data", data, "--prune", file); code != 0 || !strings.Contains(out, "- key default/ci") {
		t.Fatalf("apply --prune = %d: %s %s", code, out, errs)
	}
	waitStatus(t, r, "a-key-of-the-state-file", 401)
}

func TestSchemasArePrinted(t *testing.T) {
	for _, tt := range []struct {
		what string
		code int
		out  string
	}{{"settings", 0, "modelgate.yaml"}, {"config", 0, "Gateway config"}, {"poems", 2, ""}} {
		if code, out, _ := invoke(t, nil, "", "schema", tt.what); code != tt.code || !strings.Contains(out, tt.out) {
			t.Errorf("schema %s = %d %.200s, want %d and %q", tt.what, code, out, tt.code, tt.out)
		}
	}
}
