package main

import (
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const (
	oldMaster = "MODELGATE_MASTER_KEY=the old master key, canary-old"
	previous  = "MODELGATE_MASTER_KEY_PREVIOUS=the old master key, canary-old"
	newMaster = "MODELGATE_MASTER_KEY=the new master key, canary-new"
)

func TestTheMasterKeyIsRotated(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		sealed, err := mustRing(t, db, oldMaster).Seal(t.Context(), store.DefaultOrganisation, secret.New("canary-value"))
		if err != nil {
			t.Fatal(err)
		}
		args, env := []string{"keys", "rotate-master"}, []string{"DATABASE_URL=" + dsn, "MODELGATE_DATA=" + t.TempDir()}
		if path, ok := strings.CutPrefix(dsn, "file:"); ok { // the data folder's own
			args, env = append(args, "--data", filepath.Dir(path)), nil
		}
		for _, tt := range []struct {
			name, more string
			env        []string
			code       int
			out, errs  string
		}{
			{"without the previous key", "", []string{newMaster}, 2, "", "two different keys"},
			{"with one key twice", "", []string{oldMaster, previous}, 2, "", "two different keys"},
			{"with another previous key", "", []string{newMaster, previous + "er"}, 1, "", "nothing was changed: the data key of organisation"},
			{"dry", "--dry-run", []string{newMaster, previous}, 0, "default: to be rewrapped", ""},
			{"for good", "", []string{newMaster, previous}, 0, "default: rewrapped", ""},
			{"again", "", []string{newMaster, previous}, 0, "default: has the new master key already", ""},
		} {
			code, out, errs := invoke(t, append(tt.env, env...), "", strings.Fields(strings.Join(append(args, tt.more), " "))...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || strings.Contains(out+errs, "canary") {
				t.Errorf("%s: %d %q %q, want %d %q %q", tt.name, code, out, errs, tt.code, tt.out, tt.errs)
			}
		}
		got, err := mustRing(t, db, newMaster).Open(t.Context(), store.DefaultOrganisation, sealed)
		if err != nil || got.Reveal() != "canary-value" {
			t.Errorf("Open with the new key = %q, %v", got.Reveal(), err)
		}
	})
}

func TestARotationNeedsADatabase(t *testing.T) {
	code, _, errs := invoke(t, []string{newMaster, previous}, "", "keys", "rotate-master", "--data", t.TempDir())
	if code != 1 || !strings.Contains(errs, "modelgate migrate") {
		t.Errorf("rotate-master of no database = %d %q", code, errs)
	}
}

func TestMasterKeysComeFromFilesAndCommands(t *testing.T) {
	dir := t.TempDir()
	key, empty := filepath.Join(dir, "key"), filepath.Join(dir, "empty")
	mustWrite(t, key, strings.TrimPrefix(oldMaster, "MODELGATE_MASTER_KEY=")+"\n")
	mustWrite(t, empty, "\n")
	_, sealed, _ := invoke(t, []string{oldMaster}, "sk-canary\n", "seal")
	file := filepath.Join(dir, "modelgate.yaml")
	mustWrite(t, file, "providers: [{slug: a, provider: openai, api_key: "+strings.TrimSpace(sealed)+"}]\n")
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		errs string
	}{
		{"a file", nil, []string{"--master-key-file", key}, ""},
		{"a command", nil, []string{"--master-key-command", "cat " + key}, ""},
		{"a command of the environment", []string{"MODELGATE_MASTER_KEY_COMMAND=cat " + key}, nil, ""},
		{"a previous key", []string{newMaster, previous}, nil, ""},
		{"a previous file", []string{newMaster}, []string{"--previous-master-key-file", key}, ""},
		{"a previous command", []string{newMaster}, []string{"--previous-master-key-command", "cat " + key}, ""},
		{"a previous key alone", []string{previous}, nil, "no master key"},
		{"an empty file", nil, []string{"--master-key-file", empty}, "is empty"},
		{"a command that prints nothing", nil, []string{"--master-key-command", "true"}, "printed nothing"},
		{"a command that fails", nil, []string{"--master-key-command", "echo canary; echo canary >&2; exit 3"}, "exit status 3"},
		{"a short previous key", []string{newMaster, "MODELGATE_MASTER_KEY_PREVIOUS=short"}, nil, "of the previous keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, errs := invoke(t, tt.env, "", append([]string{"check", file}, tt.args...)...)
			if (code == 0) != (tt.errs == "") || !strings.Contains(errs, tt.errs) || strings.Contains(errs, "canary") {
				t.Errorf("check = %d %q, want %q", code, errs, tt.errs)
			}
		})
	}
}

func mustRing(t *testing.T, db *store.DB, env string) *datakey.Keyring {
	t.Helper()
	_, key, _ := strings.Cut(env, "=")
	box, err := secret.NewBox(secret.New(key))
	if err != nil {
		t.Fatal(err)
	}
	return datakey.New(db, box)
}
