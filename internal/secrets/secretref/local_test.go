package secretref_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"modelgate/internal/secrets/secretref"
)

func TestOfTheEnvironmentOnlyWhatIsListedIsRead(t *testing.T) {
	env := &variables{values: map[string]string{"APP_KEY": canary, "APP": canary, "ONE": canary, "HOME": canary, "MODELGATE_MASTER_KEY": canary, "DATABASE_URL": canary, "MODELS": canary, "APP_EMPTY": ""}}
	r := secretref.New(secretref.Options{Environment: []string{"APP_*", "ONE", "MO*", "D*"}, LookupEnv: env.lookup})
	for name, code := range map[string]string{
		"APP_KEY": "", "ONE": "", "MODELS": "",
		"APP": "secret_not_allowed", "HOME": "secret_not_allowed", "ONES": "secret_not_allowed", "APP_*": "secret_not_found", "": "secret_not_allowed",
		"MODELGATE_MASTER_KEY": "secret_not_allowed", "DATABASE_URL": "secret_not_allowed", "APP_KEY=": "secret_not_allowed",
		"APP_NONE": "secret_not_found", "APP_EMPTY": "secret_malformed",
	} {
		ref := secretref.Reference{Manager: secretref.Environment, Path: name}
		if code != "" {
			mustFail(t, r, ref, code)
			continue
		}
		if got := mustResolve(t, r, ref); got != canary {
			t.Errorf("%s: %q", name, got)
		}
	}
	mustFail(t, secretref.New(secretref.Options{LookupEnv: env.lookup}), secretref.Reference{Manager: secretref.Environment, Path: "APP_KEY"}, "secret_not_allowed")
}

func TestAllowedReferencesAreWellFormed(t *testing.T) {
	for entry, ok := range map[string]bool{
		"APP_*": true, "ONE": true, "*": false, "": false, "A*B": false, "a-b": false, "MODELGATE_*": false, "MODELGATE_DATA": false, "DATABASE_URL": false, "1A": false,
	} {
		if err := secretref.CheckVariable(entry); (err == nil) != ok {
			t.Errorf("CheckVariable(%q) = %v", entry, err)
		}
	}
	for entry, ok := range map[string]bool{"/run/secrets": true, "/": false, "run": false, "": false, "/run/../etc": false, "/run/": false} {
		if err := secretref.CheckFolder(entry); (err == nil) != ok {
			t.Errorf("CheckFolder(%q) = %v", entry, err)
		}
	}
}

func TestFilesAreReadWithinTheirFolderAlone(t *testing.T) {
	outside, folder := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	mustWrite(t, filepath.Join(outside, "password"), canary)
	mustWrite(t, folder+"-next to", canary)
	t.Cleanup(func() { os.Remove(folder + "-next to") })
	mustWrite(t, in("plain"), canary)
	mustWrite(t, in("line"), canary+"\n")
	mustWrite(t, in("windows"), canary+"\r\n")
	mustWrite(t, in("deep/er"), canary)
	mustWrite(t, in("..data/key"), canary)
	mustWrite(t, in("most"), strings.Repeat("x", 64<<10)+"\n")
	mustWrite(t, in("more"), strings.Repeat("x", 64<<10+1))
	mustWrite(t, in("most-windows"), strings.Repeat("x", 64<<10)+"\r\n")
	mustWrite(t, in("empty"), "\n")
	mustWrite(t, in("binary"), "a\x00b")
	mustLink(t, "..data/key", in("key"))
	mustLink(t, filepath.Join(outside, "password"), in("out"))
	mustLink(t, "../"+filepath.Base(outside)+"/password", in("up"))
	mustLink(t, outside, in("folder"))
	mustLink(t, "/proc/self/environ", in("environ"))
	if err := syscall.Mkfifo(in("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("closed"), []byte(canary), 0); err != nil {
		t.Fatal(err)
	}
	r := secretref.New(secretref.Options{Files: []string{folder}})
	for path, code := range map[string]string{
		in("plain"): "", in("line"): "", in("windows"): "", in("deep/er"): "", in("key"): "", in("most"): "", in("most-windows"): "",
		in("more"): "secret_too_large", in("empty"): "secret_malformed", in("binary"): "secret_malformed",
		in("out"): "secret_not_found", in("up"): "secret_not_found", in("folder/password"): "secret_not_found", in("environ"): "secret_not_found",
		in("pipe"): "secret_not_found", in("deep"): "secret_not_found", in("none"): "secret_not_found", in("plain/x"): "secret_not_found",
		folder + "/../" + filepath.Base(outside) + "/password": "secret_not_allowed", folder + "/./plain": "secret_not_allowed", folder + "//plain": "secret_not_allowed",
		folder + "-next to": "secret_not_allowed", folder: "secret_not_allowed", "plain": "secret_not_allowed", "/etc/passwd": "secret_not_allowed",
		filepath.Join(outside, "password"): "secret_not_allowed", in("plain") + "\x00": "secret_not_found", "": "secret_not_allowed",
	} {
		ref := secretref.Reference{Manager: secretref.File, Path: path}
		if code != "" {
			mustFail(t, r, ref, code)
			continue
		}
		if got := mustResolve(t, r, ref); got != canary && got != strings.Repeat("x", 64<<10) {
			t.Errorf("%s: %.100q", path, got)
		}
	}
	mustFail(t, secretref.New(secretref.Options{}), secretref.Reference{Manager: secretref.File, Path: in("plain")}, "secret_not_allowed")
}

func mustLink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func TestAValueIsPickedFromASecret(t *testing.T) {
	env := &variables{values: map[string]string{
		"APP_OBJECT": `{"user":"u-` + canary + `","n":1.50,"yes":true,"inner":{"a": 1},"list":[1],"none":null,"empty":"","json":"{\"a\":2}"}`,
		"APP_TEXT":   canary, "APP_BROKEN": `{"user":"` + canary,
	}}
	r := secretref.New(secretref.Options{Environment: []string{"APP_*"}, LookupEnv: env.lookup})
	for _, tt := range []struct{ name, key, format, want, code string }{
		{"APP_TEXT", "", "", canary, ""},
		{"APP_TEXT", "", "json", "", "secret_malformed"},
		{"APP_TEXT", "user", "", "", "secret_malformed"},
		{"APP_BROKEN", "user", "", "", "secret_malformed"},
		{"APP_OBJECT", "", "json", env.values["APP_OBJECT"], ""},
		{"APP_OBJECT", "", "", env.values["APP_OBJECT"], ""},
		{"APP_OBJECT", "user", "", "u-" + canary, ""},
		{"APP_OBJECT", "user", "string", "u-" + canary, ""},
		{"APP_OBJECT", "user", "json", "", "secret_malformed"},
		{"APP_OBJECT", "n", "", "1.50", ""},
		{"APP_OBJECT", "yes", "", "true", ""},
		{"APP_OBJECT", "inner", "", "", "secret_malformed"},
		{"APP_OBJECT", "inner", "json", `{"a": 1}`, ""},
		{"APP_OBJECT", "json", "json", `{"a":2}`, ""},
		{"APP_OBJECT", "list", "", "", "secret_malformed"},
		{"APP_OBJECT", "none", "", "", "secret_malformed"},
		{"APP_OBJECT", "empty", "", "", "secret_malformed"},
		{"APP_OBJECT", "User", "", "", "secret_not_found"},
	} {
		t.Run(tt.name+" "+tt.key+" "+tt.format, func(t *testing.T) {
			ref := secretref.Reference{Manager: secretref.Environment, Path: tt.name, Key: tt.key, Format: tt.format}
			v, err := r.Resolve(t.Context(), ref)
			if tt.code != "" {
				wantCode(t, err, tt.code)
				return
			}
			if err != nil || v.Reveal() != tt.want {
				t.Errorf("%q, %v, want %q", v.Reveal(), err, tt.want)
			}
		})
	}
}
