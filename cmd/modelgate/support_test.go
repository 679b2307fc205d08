package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/server/bundle"
	"modelgate/internal/server/diagnosis"
	"modelgate/internal/testing/storetest"
)

// unreachable is a network without hosts.
type unreachable struct{}

func (unreachable) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no network")
}

func (unreachable) dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no network")
}

// secretSettings has a secret of each kind that settings may have.
const secretSettings = `# canary-comment
public_url: https://gateway.support.example
upstream: {trusted_hosts: [10.20.30.40]}
cache: {store: redis, url: "${SUPPORT_REDIS}"}
telemetry:
  endpoint: https://canary-user:canary-password@collector.support.example/canary-path?key=canary-query
  headers: {authorization: "${SUPPORT_HEADER}", model: "${SUPPORT_HEADER}"}
alerts:
  webhooks: [{url: "https://hooks.support.example/services/canary-T000/canary-B000", secret: "${SUPPORT_WEBHOOK}"}]
  email: {server: "smtp.support.example:587", from: "Canary Sender <canary-from@support.example>", to: [canary-to@support.example],
    user: canary-mail, password: "${SUPPORT_MAIL}"}
logs: {redact: {custom: [{name: x, pattern: canary-pattern}]}}
keys: [{name: canary key, sha256: cafecafecafecafecafecafecafecafecafecafecafecafecafecafecafecafe, metadata: {canary-name: canary-value}}]
providers:
  - {slug: main, provider: openai, api_key: "${SUPPORT_PROVIDER}", custom_host: "https://models.support.example/canary-tenant/v1"}
configs:
  - slug: talk
    config:
      provider: "@main"
      override_params: {model: canary-model, messages: [{role: system, content: "canary-prompt text"}], seed: 424242424242}
      input_guardrails: [{default.contains: {words: [canary-word]}, deny: true}]
`

// inBundle returns the files of a bundle.
func inBundle(t *testing.T, data []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "modelgate-support/")] = string(text)
	}
}

// checkAbsent fails if a text contains a secret in any encoding.
func checkAbsent(t *testing.T, where, text, canary string) {
	t.Helper()
	raw := []byte(canary)
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		hex.EncodeToString(raw), url.QueryEscape(canary), url.PathEscape(canary)} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
			t.Errorf("%s contains %s as %s:\n%s", where, canary, form, text)
			return
		}
	}
}

func TestBundlesContainNoSecrets(t *testing.T) {
	values := map[string]string{
		"SUPPORT_REDIS": "redis://canary-user:p%40ss+canary-redis@redis.support.example:6379", "SUPPORT_HEADER": "Bearer canary-header",
		"SUPPORT_WEBHOOK": "whsec_" + base64.StdEncoding.EncodeToString([]byte("canary-webhook-0123456789")), "SUPPORT_MAIL": "canary-smtp-password",
		"SUPPORT_PROVIDER": "sk-canary-provider-key",
	}
	others := []string{"HTTPS_PROXY=http://canary-proxy:secret-of-proxy@proxy.support.example:3128", "MODELGATE_BOOTSTRAP_KEY=canary-bootstrap-key-0123",
		"MODELGATE_ADMIN_TOKEN=canary-admin-token-0123", "UNKNOWN_TOKEN=ghp_0123456789abcdefghij0123456789abcdef", "canary-odd=1"}
	canaries := []string{"canary", "cafecafe", "424242424242", "p%40ss", "secret-of-proxy", "ghp_0123456789", "master key of a test",
		"@support.example", values["SUPPORT_WEBHOOK"]}
	env := others
	for name, v := range values {
		t.Setenv(name, v)
		canaries = append(canaries, v)
		env = append(env, name+"="+v)
	}
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	mustWrite(t, file, secretSettings)
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		data := t.TempDir()
		state := append([]string{masterKey, "DATABASE_URL=" + dsn, "MODELGATE_DATA=" + data}, secretsOf...)
		if code, out, errs := invoke(t, state, "", "apply", wholeState); code != 0 {
			t.Fatalf("apply: %d %s %s", code, out, errs)
		}
		env := append(append(state, env...), "MODELGATE_CONFIG="+file)
		key := ""
		if code, out, errs := invoke(t, state, "", "keys", "create", "--name", "canary key"); code != 0 {
			t.Fatalf("keys create: %d %s", code, errs)
		} else if key = printedKey.FindString(out); key == "" {
			t.Fatalf("no key in %s", out)
		}
		running := start(t, append([]string{"MODELGATE_ADMIN_TOKEN=canary-admin-token-0123"}, state...), "--admin-listen", "127.0.0.1:0")
		_, admin, _ := strings.Cut(running.out.String(), "metrics and health at http://")
		admin, _, _ = strings.Cut(admin, "/metrics")
		running.status(t, key)
		for _, hide := range []bool{false, true} {
			files := testBundle(t, env, hide, "--admin-listen", admin)
			all := ""
			for name, text := range files {
				all += text
				for _, canary := range append(canaries, key, dsn) {
					if canary == dsn && !strings.Contains(dsn, "@") { // the path of a file
						continue
					}
					checkAbsent(t, name, text, canary)
				}
				if hide {
					checkAbsent(t, name, text, "support.example")
					checkAbsent(t, name, text, "10.20.30.40")
				}
			}
			for name, want := range map[string]string{"doctor.json": `"check": "database"`, "version.json": `"go": "go`, "settings.yaml": "slug: main",
				"environment.txt": "SUPPORT_REDIS=[", "database.json": `"workspaces": `, "jobs.json": "[", "ledger.json": `"segments"`,
				"health.txt": "/ready: 200 ready", "metrics.txt": "go_goroutines"} {
				if !strings.Contains(files[name], want) {
					t.Errorf("%s lacks %q:\n%.2000s", name, want, files[name])
				}
			}
			if shown := strings.Contains(files["settings.yaml"], "https://collector.support.example/[path]"); shown == hide {
				t.Errorf("hide %t:\n%s", hide, files["settings.yaml"])
			}
		}
	})
}

// testBundle writes a bundle in a network without hosts.
func testBundle(t *testing.T, env []string, hide bool, args ...string) map[string]string {
	t.Helper()
	p := &program{strings.NewReader(""), new(output), new(output), environment(env), env}
	f := p.flags("support", "Writes a bundle.", "modelgate support")
	d := newDoctorFlags(f)
	var o diagnosis.Options
	c := f.run(func(ctx context.Context) (err error) {
		o, err = d.options(ctx, p)
		return err
	})
	c.SetArgs(args)
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Server.Upstream.Dial, o.Server.Upstream.Resolver = unreachable{}.dial, unreachable{}
	var b bytes.Buffer
	if _, err := bundle.Write(t.Context(), &b, bundle.Options{Diagnosis: o, Environ: env, HideHosts: hide}); err != nil {
		t.Fatal(err)
	}
	return inBundle(t, b.Bytes())
}

func TestSupportWritesAFileOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "support.tar.gz")
	args := []string{"support", "--data", filepath.Join(t.TempDir(), "new"), "--offline", file}
	code, out, errs := invoke(t, nil, "", args...)
	data, err := os.ReadFile(file)
	if code != 0 || err != nil || !strings.Contains(out, "settings.yaml") || !strings.Contains(out, "nothing was sent") {
		t.Fatalf("%d %s %s %v", code, out, errs, err)
	}
	if files := inBundle(t, data); len(files) != 9 {
		t.Errorf("the bundle has %d files", len(files))
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the bundle is open to others: %v %v", info.Mode(), err)
	}
	if code, _, errs := invoke(t, nil, "", args...); code != 1 || !strings.Contains(errs, "exists") {
		t.Errorf("a second time: %d %s", code, errs)
	}
	if code, _, _ := invoke(t, nil, "", "support", "--offline", "bundle.zip"); code != 2 {
		t.Errorf("another name: %d, want 2", code)
	}
}
