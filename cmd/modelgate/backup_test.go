package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
)

// mustInvoke runs a command that succeeds, and returns its output.
func mustInvoke(t *testing.T, env []string, args ...string) string {
	t.Helper()
	code, out, errs := invoke(t, env, "", args...)
	if code != 0 {
		t.Fatalf("modelgate %v: %d %q", args, code, errs)
	}
	return out
}

// TestBackupCommands makes, checks and restores a backup, and what they refuse.
func TestBackupCommands(t *testing.T) {
	dir := t.TempDir()
	data, other, file := filepath.Join(dir, "data"), filepath.Join(dir, "other"), filepath.Join(dir, "one.backup")
	mustInvoke(t, nil, "keys", "create", "--data", data, "--name", "ci")
	if out := mustInvoke(t, nil, "backup", "--data", data, file); !strings.Contains(out, "one.backup: ") || !strings.Contains(out, "master key is not in it") {
		t.Errorf("backup: %q", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has the mode %v, %v", info.Mode(), err)
	}
	mustInvoke(t, nil, "backup", "--data", data, dir)
	if list, err := filepath.Glob(filepath.Join(dir, "modelgate-*Z.backup")); err != nil || len(list) != 1 {
		t.Errorf("the backup in a folder: %v, %v", list, err)
	}
	if out := mustInvoke(t, nil, "restore", "--data", other, "--dry-run", file); !strings.Contains(out, "nothing was changed") || !strings.Contains(out, "control/gateway_keys") {
		t.Errorf("a dry run: %q", out)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a dry run made the data folder")
	}
	mustInvoke(t, nil, "restore", "--data", other, file)
	if out := mustInvoke(t, nil, "keys", "list", "--data", other); !strings.Contains(out, "ci") {
		t.Errorf("keys after the restore: %q", out)
	}
	cut := filepath.Join(dir, "cut")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, cut, string(content[:len(content)-10]))
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"an existing file", []string{"backup", "--data", data, file}, 1, "exists; name another file"},
		{"no database", []string{"backup", "--data", filepath.Join(dir, "none"), cut + "2"}, 1, "no backup was made: "},
		{"no folder", []string{"backup", "--data", data, filepath.Join(dir, "none", "b")}, 1, "no backup was made: "},
		{"no argument", []string{"backup", "--data", data}, 2, "FILE is required"},
		{"over other data", []string{"restore", "--data", other, file}, 1, "add --force"},
		{"a cut file", []string{"restore", "--data", other, "--force", cut}, 1, "not a complete backup"},
		{"no file", []string{"restore", "--data", other, cut + "3"}, 1, "does not exist"},
		{"one side", []string{"migrate", "--data", data, "--from", "sqlite"}, 2, "required together"},
		{"no address", []string{"migrate", "--data", data, "--from", "sqlite", "--to", "postgres"}, 2, "DATABASE_URL"},
		{"the same kind", []string{"migrate", "--data", data, "--from", "sqlite", "--to", other}, 2, "modelgate backup and restore"},
		{"an unsupported place", []string{"migrate", "--data", data, "--from", "sqlite", "--to", "mysql://user:canary@h/d"}, 2, "unsupported"},
	} {
		code, _, errs := invoke(t, nil, "", tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: %d %q, want %d %q", tt.name, code, errs, tt.code, tt.says)
		}
	}
	if list, err := filepath.Glob(filepath.Join(dir, "*.part")); err != nil || len(list) > 0 {
		t.Errorf("failed backups left %v", list)
	}
	mustInvoke(t, nil, "restore", "--data", other, "--force", file)
}

// TestDataMovesToPostgreSQLAndBack copies a data folder with a sealed credential, with the
// right master key and with wrong ones.
func TestDataMovesToPostgreSQLAndBack(t *testing.T) {
	const master = "MODELGATE_MASTER_KEY=a master key of the test"
	dir := t.TempDir()
	data, back, dsn := filepath.Join(dir, "data"), filepath.Join(dir, "back"), storetest.Postgres(t)
	state := filepath.Join(dir, "state.yaml")
	mustWrite(t, state, "version: 1\nintegrations:\n  - {slug: a, provider: openai, api_key: '${CANARY}'}\n")
	mustInvoke(t, []string{master, "CANARY=sk-canary"}, "apply", "--data", data, state)
	there := []string{"migrate", "--data", data, "--database-url", dsn, "--from", "sqlite", "--to", "postgres"}
	for _, env := range []string{"A=b", "MODELGATE_MASTER_KEY=another master key of the test"} {
		if code, _, errs := invoke(t, []string{env}, "", there...); code != 1 || !strings.Contains(errs, "master key") || strings.Contains(errs, "canary") {
			t.Errorf("with %s: %d %q", env, code, errs)
		}
	}
	if out := mustInvoke(t, []string{master}, append(there, "--dry-run")...); !strings.Contains(out, "nothing was changed") {
		t.Errorf("a dry run: %q", out)
	}
	if out := mustInvoke(t, []string{master}, there...); !strings.Contains(out, "copied and verified") || !strings.Contains(out, "control/integrations") {
		t.Errorf("migrate: %q", out)
	}
	mustInvoke(t, []string{master}, "migrate", "--from", dsn, "--to", back)
	for _, at := range [][]string{{"--data", data}, {"--database-url", dsn, "--data", data}, {"--data", back}} {
		code, out, errs := invoke(t, []string{master}, "", append([]string{"audit", "verify"}, at...)...)
		if code != 0 {
			t.Errorf("audit verify %v: %d %q %q", at, code, out, errs)
		}
	}
}
