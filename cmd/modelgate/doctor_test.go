package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/server/diagnosis"
)

// fingerprint returns the names, modes and contents of a folder's files.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintln(&b, path, info.Mode(), sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDoctorChangesNothingAndSendsNoCredential(t *testing.T) {
	var mu sync.Mutex
	var requests []string
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, fmt.Sprint(r.Method, r.URL, r.Header))
	}))
	t.Cleanup(provider.Close)
	t.Setenv("DOCTOR_KEY", "canary-of-a-provider")
	data, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "modelgate.yaml")
	mustWrite(t, file, "providers:\n  - {slug: main, provider: openai, api_key: \"${DOCTOR_KEY}\", custom_host: \""+provider.URL+"\"}\n")
	env := []string{masterKey, "MODELGATE_DATA=" + data, "MODELGATE_CONFIG=" + file, "MODELGATE_TRUSTED_HOSTS=127.0.0.1",
		"MODELGATE_LISTEN=127.0.0.1:0", "MODELGATE_ADMIN_LISTEN=127.0.0.1:0"}
	if code, out, _ := invoke(t, env, "", "doctor"); code != 0 || !strings.Contains(out, "does not exist yet") {
		t.Errorf("before the first start: %d %s", code, out)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("doctor created the data folder")
	}
	if code, out, errs := invoke(t, append([]string{"DOCTOR_KEY=canary-of-a-provider"}, append(secretsOf, env...)...), "", "apply", wholeState); code != 0 {
		t.Fatalf("apply: %d %s %s", code, out, errs)
	}
	before := fingerprint(t, data)
	code, out, errs := invoke(t, env, "", "doctor", "--offline")
	if code != 0 || !strings.Contains(out, "opens the data keys of 1 organisations, and a credential of each of 1") {
		t.Errorf("offline: %d\n%s\n%s", code, out, errs)
	}
	if after := fingerprint(t, data); after != before {
		t.Errorf("doctor changed the data folder:\n%s\nto\n%s", before, after)
	}
	mu.Lock()
	if n := len(requests); n != 1 || strings.Contains(fmt.Sprint(requests), "canary") {
		t.Errorf("requests to the provider: %v, want one without a credential", requests)
	}
	mu.Unlock()

	wrong := append([]string{masterKey + " and more"}, env[1:]...)
	code, out, errs = invoke(t, wrong, "", "doctor", "--offline", "--json")
	var list []diagnosis.Finding
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code != 1 || strings.Count(errs, "\n") != 1 || diagnosis.CountFailures(list) == 0 || !strings.Contains(out, "master key") {
		t.Errorf("with another master key: %d %s\n%s", code, errs, out)
	}
}

func TestDoctorReportsWhatServeWouldFailWith(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	mustWrite(t, broken, "providers:\n  - slug: a\n    provider: openai\n    api_key: plain\n")
	open := filepath.Join(dir, "open.key")
	mustWrite(t, open, "a master key of a test")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "file")
	mustWrite(t, plain, "x")
	for _, tt := range []struct {
		name, args string
		code       int
		want       string
	}{
		{"settings", "--config " + broken, 1, "broken.yaml:4:"},
		{"settings for apply", "--config " + wholeState, 1, "failure  settings"},
		{"master key file", "--master-key-file " + filepath.Join(dir, "absent"), 1, "failure  flags"},
		{"key that others can read", "--master-key-file " + open, 0, "warning  files"},
		{"data folder", "--data " + plain, 1, "failure  data folder"},
		{"database address", "--database-url mysql://u:canary@h/d", 1, "not supported"},
		{"log address", "--logs-database-url mysql://u:canary@h/d", 1, "failure  log"},
		{"listen address", "--listen 192.0.2.1:1", 1, "failure  API address"},
		{"admin address without a token", "--admin-listen 0.0.0.0:0", 1, "MODELGATE_ADMIN_TOKEN"},
		{"public address", "--public-url http://127.0.0.1:1", 0, "warning  public_url"},
		{"time limit", "--timeout 0s", 2, ""},
		{"log level", "--log-level loud", 2, ""},
	} {
		args := append([]string{"doctor", "--data", filepath.Join(dir, "new"), "--listen", "127.0.0.1:0", "--admin-listen", "off"},
			strings.Fields(tt.args)...)
		code, out, errs := invoke(t, nil, "", args...)
		if code != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out+errs, "canary") {
			t.Errorf("%s: %d\n%s\n%s\nwant %d and %q", tt.name, code, out, errs, tt.code, tt.want)
		}
	}
}

func TestDoctorKnowsARunningGateway(t *testing.T) {
	data := t.TempDir()
	r := start(t, nil, "--data", data)
	address := strings.TrimPrefix(r.url, "http://")
	code, out, errs := invoke(t, nil, "", "doctor", "--data", data, "--listen", address, "--admin-listen", "off")
	if code != 0 || !strings.Contains(out, "a running gateway answers: ready") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	code, out, _ = invoke(t, nil, "", "doctor", "--data", data, "--listen", strings.TrimPrefix(other.URL, "http://"), "--admin-listen", "off")
	if code != 1 || !strings.Contains(out, "is in use by another program") {
		t.Errorf("%d %s", code, out)
	}
}
