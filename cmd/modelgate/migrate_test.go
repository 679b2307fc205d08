package main

import (
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
)

func TestMigrateSaysWhatItDoes(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		args := []string{"migrate"}
		env := []string{"DATABASE_URL=" + dsn, "MODELGATE_DATA=" + t.TempDir()}
		file := strings.HasPrefix(dsn, "file:")
		if file { // the data folder's own
			dir := filepath.Dir(strings.TrimPrefix(dsn, "file:"))
			args, env = append(args, "--data", dir), nil
		}
		for _, tt := range []struct {
			name      string
			more      string
			code      int
			out, errs string
		}{
			{"looking first", "--dry-run", 0, "missing 0001_keys\nmissing 0002_control_plane\nmissing 0003_policies\n", ""},
			{"applying", "", 0, "applied 0001_keys\napplied 0002_control_plane\napplied 0003_policies\n", ""},
			{"looking again", "--dry-run", 0, "up to date", ""},
			{"applying again", "", 0, "up to date", ""},
		} {
			if file && tt.name == "looking first" {
				tt.code, tt.out, tt.errs = 1, "", "does not exist yet"
			}
			line := args
			if tt.more != "" {
				line = append(line[:len(line):len(line)], tt.more)
			}
			code, out, errs := invoke(t, env, "", line...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) {
				t.Errorf("%s: %d %q %q, want %d %q %q", tt.name, code, out, errs, tt.code, tt.out, tt.errs)
			}
		}
		code, out, errs := invoke(t, env, "", append([]string{"keys", "create", "--name", "ci"}, args[1:]...)...)
		if code != 0 || !strings.HasPrefix(out, "mg-") {
			t.Errorf("keys create: %d %q %q", code, out, errs)
		}
		if code, out, errs = invoke(t, env, "", append([]string{"keys", "list"}, args[1:]...)...); code != 0 || !strings.Contains(out, "ci") {
			t.Errorf("keys list: %d %q %q", code, out, errs)
		}
	})
}

func TestDatabaseFlagsAreChecked(t *testing.T) {
	const url = "postgres://user:canary@127.0.0.1:1/db"
	for _, tt := range []struct{ env, says string }{
		{"DATABASE_URL=mysql://user:canary@host/db", "not supported"},
		{"DATABASE_URL=postgres://user:canary@:x/db", "must have the form"},
		{"DATABASE_URL=" + url, "cannot be reached"},
		{"DB_SSL=MAYBE", "VERIFY_IDENTITY"},
		{"DB_SSL_CERT=/nowhere/cert.pem", "DB_SSL_KEY"},
		{"DB_SSL_KEY=/nowhere/key.pem", "DB_SSL_CERT"},
	} {
		env := []string{tt.env, "DATABASE_URL=" + url, "MODELGATE_DATA=" + t.TempDir()}
		for _, command := range []string{"migrate", "serve"} {
			code, _, errs := invoke(t, env, "", command)
			if code != 1 || !strings.Contains(errs, tt.says) || strings.Contains(errs, "canary") || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s with %s: %d %q, want one line with %q", command, tt.env, code, errs, tt.says)
			}
		}
	}
}
