package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/waittest"
)

// canary is the mark of every secret that the cases of this file save.
const canary = "canary-4f1d"

// saveConfig saves a config and returns its slug.
func (g *gateway) saveConfig(t *testing.T, text string) string {
	t.Helper()
	return g.create(t, rootKey, "/v1/configs", fmt.Sprintf(`{"name":"saved","workspace_id":"default","config":%s}`, text), "data.slug")
}

// shownConfig returns a config as a read shows it.
func (g *gateway) shownConfig(t *testing.T, slug string) string {
	t.Helper()
	return g.as(t, rootKey, "GET", "/v1/configs/"+slug, "").ok(t).text(t, "data.config")
}

func TestMaskMovesNoCredential(t *testing.T) {
	g, p := start(t)
	thief := newProvider(t, nil)
	host := `"custom_host":"` + p.url + `"`
	leaf := `{"provider":"openai-compatible",` + host + `,"api_key":"` + canary + `-0123456789"}`
	tree := func(target string) string { return `{"strategy":{"mode":"fallback"},"targets":[` + target + `]}` }
	for _, tt := range []struct{ name, config, old, new string }{
		{"another host", leaf, p.url, thief.url},
		{"another host in camel case", leaf, host, `"customHost":"` + thief.url + `"`},
		{"no host", leaf, host + ",", ""},
		{"another provider", leaf, "openai-compatible", "openai"},
		{"a managed provider", leaf, `"openai-compatible",` + host, `"@stored"`},
		{"a virtual key too", leaf, `{"provider"`, `{"virtual_key":"stored","provider"`},
		{"a provider setting too", leaf, `{"provider"`, `{"huggingface_base_url":"` + thief.url + `","provider"`},
		{"a target's host", tree(leaf), p.url, thief.url},
		{"a host for all targets", tree(`{"provider":"openai-compatible","custom_host":"` + p.url + `","api_key":"` + canary + `-0123456789"}`), `,"custom_host":"` + p.url + `"`, ``},
		{"a host that is inherited", `{` + host + `,"strategy":{"mode":"single"},"targets":[{"provider":"openai-compatible","api_key":"` + canary + `-0123456789"}]}`, p.url, thief.url},
		{"the place of another target", tree(leaf), `[{`, `[{"provider":"openai-compatible","custom_host":"` + thief.url + `","api_key":"ca***89"},{`},
		{"a target of its own next to it", tree(leaf), `}]`, `},{"provider":"openai-compatible","custom_host":"` + thief.url + `","api_key":"ca***89"}]`},
		{"a parameter instead", leaf, `"api_key":"ca***89"`, `"override_params":{"token":"ca***89"}`},
		{"an option instead", leaf, `api_key`, `cloud_c_ad_token`},
		{"a tool's server", `{"provider":"openai-compatible",` + host + `,"override_params":{"server_url":"https://ours.example.com","authorization":"` + canary + `-0123456789"}}`, "https://ours.example.com", thief.url},
		{"a parameter's provider", `{"override_params":{"token":"` + canary + `-0123456789"},"strategy":{"mode":"single"},"targets":[{"provider":"openai-compatible",` + host + `}]}`, p.url, thief.url},
	} {
		attack(t, "credential theft", "a mask with "+tt.name, func(t *testing.T) {
			slug := g.saveConfig(t, tt.config)
			shown := g.shownConfig(t, slug)
			next := strings.Replace(shown, tt.old, tt.new, 1)
			if next == shown {
				t.Fatalf("%s has no %s", shown, tt.old)
			}
			body, err := json.Marshal(map[string]string{"config": next})
			if err != nil {
				t.Fatal(err)
			}
			g.as(t, rootKey, "PUT", "/v1/configs/"+slug+"?workspace_id=default", string(body)).refused(t, 400, "AB01", "mask")
			g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", slug)
			if thief.got(canary) {
				t.Error("the credential was sent to another host")
			}
			same, err := json.Marshal(map[string]string{"config": shown})
			if err != nil {
				t.Fatal(err)
			}
			g.as(t, rootKey, "PUT", "/v1/configs/"+slug+"?workspace_id=default", string(same)).ok(t)
		})
	}
}

func TestCredentialsWithoutAProviderAreRefused(t *testing.T) {
	g, p := start(t)
	for _, tt := range []struct{ name, text string }{
		{"at the root", `{"retry":{"attempts":1},"api_key":"` + canary + `"}`},
		{"in camel case", `{"retry":{"attempts":1},"apiKey":"` + canary + `"}`},
		{"with a host alone", `{"retry":{"attempts":1},"custom_host":"` + p.url + `","api_key":"` + canary + `"}`},
		{"above targets", `{"api_key":"` + canary + `","strategy":{"mode":"single"},"targets":[{"provider":"@stored"}]}`},
		{"in a target for the request's provider", `{"strategy":{"mode":"single"},"targets":[{"passthrough":true,"api_key":"` + canary + `"}]}`},
		{"a key of a cloud", `{"retry":{"attempts":1},"cloud_a_secret_access_key":"` + canary + `"}`},
		{"a token of a cloud", `{"retry":{"attempts":1},"cloudCAdToken":"` + canary + `"}`},
		{"a service account", `{"retry":{"attempts":1},"cloud_b_service_account_json":{"private_key":"` + canary + `"}}`},
	} {
		attack(t, "credential theft", "a config with a credential and no provider, "+tt.name, func(t *testing.T) {
			thief := newProvider(t, nil)
			g.as(t, rootKey, "POST", "/v1/configs", fmt.Sprintf(`{"name":"n","workspace_id":"default","config":%s}`, tt.text)).refused(t, 400, "AB01", "is a credential without a provider")
			r := g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(rootKey, thief, "x-gateway-config", tt.text)...)
			r.refused(t, 400, "AB01", "is a credential without a provider")
			if thief.got(canary) || bytes.Contains(r.body, []byte(canary)) {
				t.Errorf("the credential left: %s", r.body)
			}
		})
	}
	for _, tt := range []struct{ name, text string }{
		{"at the root", `{"retry":{"attempts":1},"override_params":{"token":"` + canary + `"}}`},
		{"above a target for the request's provider", `{"default_params":{"token":"` + canary + `"},"strategy":{"mode":"single"},"targets":[{"provider":"@stored"},{"passthrough":true}]}`},
	} {
		attack(t, "credential theft", "a config with a credential in its parameters and no provider, "+tt.name, func(t *testing.T) {
			g.as(t, rootKey, "POST", "/v1/configs", fmt.Sprintf(`{"name":"n","workspace_id":"default","config":%s}`, tt.text)).refused(t, 400, "AB01", "is a credential without a provider")
		})
	}
}

func TestSettingsNextToAManagedProviderAreRefused(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	for _, tt := range []struct{ name, text, field string }{
		{"a key", `{"provider":"@stored","api_key":"` + canary + `"}`, "$.api_key"},
		{"a key next to the older name", `{"virtual_key":"stored","apiKey":"` + canary + `"}`, "$.api_key"},
		{"a key in a target", `{"strategy":{"mode":"single"},"targets":[{"provider":"@stored","api_key":"` + canary + `"}]}`, "$.targets[0].api_key"},
		{"a key of a cloud", `{"provider":"@stored","cloud_a_secret_access_key":"` + canary + `"}`, "$.cloud_a_secret_access_key"},
		{"a token of a cloud", `{"provider":"@stored","cloudCAdToken":"` + canary + `"}`, "$.cloud_c_ad_token"},
		{"a service account", `{"provider":"@stored","cloud_b_service_account_json":{"private_key":"` + canary + `"}}`, "$.cloud_b_service_account_json"},
		{"a region", `{"provider":"@stored","cloud_a_region":"us-east-1"}`, "$.cloud_a_region"},
	} {
		attack(t, "credential theft", "a config with settings that its managed provider does not use, "+tt.name, func(t *testing.T) {
			for _, r := range []response{
				g.as(t, rootKey, "POST", "/v1/configs", fmt.Sprintf(`{"name":"n","workspace_id":"default","config":%s}`, tt.text)),
				g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", tt.text),
				g.as(t, rootKey, "POST", "/v1/explain", fmt.Sprintf(`{"request":{"body":%s},"config":%s}`, chatBody, tt.text)),
			} {
				if !bytes.Contains(r.body, []byte("AB01")) || !bytes.Contains(r.body, []byte(tt.field)) || bytes.Contains(r.body, []byte(canary)) {
					t.Errorf("the response does not refuse %s: %s", tt.field, r.body)
				}
			}
		})
	}
}

func TestMasksAreNotStored(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	g.as(t, rootKey, "POST", "/v1/integrations", `{"name":"m","slug":"masked","ai_provider_id":"openai","key":"`+canary+`-key-0123456789",
		"configurations":{"custom_headers":{"X-Team":"`+canary+`-team-0123456789"}}}`).ok(t)
	g.as(t, rootKey, "PUT", "/v1/integrations/masked/models", `{"models":[{"slug":"own","enabled":true,"configurations":
		{"custom_host":"https://models.example.com/v1","custom_headers":{"X-Team":"`+canary+`-team-0123456789"}}},{"slug":"plain","enabled":true}]}`).ok(t)
	for _, tt := range []struct{ name, path, body, field string }{
		{"of a header, at another address", "", `{"key":"` + canary + `","configurations":{"custom_host":"https://evil.example.com/v1","custom_headers":{"X-Team":"***"}}}`, "configurations.custom_headers.X-Team"},
		{"of another header", "", `{"configurations":{"custom_headers":{"X-Other":"***"}}}`, "configurations.custom_headers.X-Other"},
		{"of another value", "", `{"configurations":{"custom_headers":{"X-Team":"zz***zz"}}}`, "configurations.custom_headers.X-Team"},
		{"of a key, at another address", "", `{"key":"***","configurations":{"custom_host":"https://evil.example.com/v1"}}`, "key"},
		{"of another key", "", `{"key":"zz***zz"}`, "key"},
		{"of a model's header, at another address", "/models", `{"models":[{"slug":"own","enabled":true,"configurations":{"custom_host":"https://evil.example.com/v1","custom_headers":{"X-Team":"***"}}}]}`,
			"models[0].configurations.custom_headers.X-Team"},
		{"of the integration's header, in a model", "/models", `{"models":[{"slug":"plain","enabled":true,"configurations":{"custom_host":"https://evil.example.com/v1","custom_headers":{"X-Team":"***"}}}]}`,
			"models[0].configurations.custom_headers.X-Team"},
	} {
		attack(t, "credential theft", "a mask "+tt.name, func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/integrations/masked"+tt.path, tt.body).refused(t, 400, "AB01", tt.field)
		})
	}
	attack(t, "credential theft", "a mask at the same address keeps the secret", func(t *testing.T) {
		g.as(t, rootKey, "PUT", "/v1/integrations/masked", `{"key":"***","configurations":{"custom_headers":{"x-team":"***"}}}`).ok(t)
		r := g.as(t, rootKey, "GET", "/v1/integrations/masked", "").ok(t)
		if !bytes.Contains(r.body, []byte(`"x-team":"ca***89"`)) {
			t.Errorf("the header was not kept: %s", r.body)
		}
	})
}

// workingTarget calls p with credentials of its own.
func workingTarget(p *provider) string {
	return `{"provider":"openai-compatible","custom_host":"` + p.url + `","apiKey":"` + canary + `-key-0123456789","override_params":{"metadata":{"access_token":"` + canary + `-token-0123456789"}}}`
}

// secretConfig holds a credential of every kind.
func secretConfig(p *provider) string {
	return `{"strategy":{"mode":"fallback"},"targets":[` + workingTarget(p) + `,` +
		`{"provider":"bedrock","cloud_a_region":"us-east-1","cloud_a_access_key_id":"` + canary + `-id","cloudASecretAccessKey":"` + canary + `-secret","cloud_a_session_token":"` + canary + `"},` +
		`{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{"private_key":"` + canary + `-account"}},` +
		`{"strategy":{"mode":"single"},"targets":[{"provider":"@stored","before_request_hooks":[{"id":"h","checks":[{"id":"webhook","parameters":{"webhookURL":"https://hooks.example.com/check","headers":{"X-Check":"` + canary + `-hook"}}}]}]}]}]}`
}

func TestCredentialsOfConfigsAreNowhere(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		text := secretConfig(p)
		slug := g.saveConfig(t, text)
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		asText := g.saveConfig(t, string(quoted))
		g.as(t, rootKey, "PUT", "/v1/configs/"+slug, fmt.Sprintf(`{"config":%s}`, strings.Replace(text, `"mode":"fallback"`, `"mode":"fallback","on_status_codes":[500]`, 1))).ok(t)
		g.as(t, rootKey, "POST", "/v1/configs", fmt.Sprintf(`{"name":"broken","workspace_id":"default","config":%s}`, strings.Replace(string(quoted), `}"`, `"`, 1))).refused(t, 400, "AB01")
		works := g.saveConfig(t, workingTarget(p))
		waittest.Until(t, "the credential of a saved config reaches its provider", func() bool {
			g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", works)
			return p.got(canary+"-key-0123456789") && p.got(canary+"-token-0123456789")
		})
		clean := func(t *testing.T, what string, content []byte) {
			t.Helper()
			if i := bytes.Index(content, []byte(canary)); i >= 0 {
				t.Errorf("%s holds a credential: …%s…", what, content[max(0, i-60):min(len(content), i+40)])
			}
		}
		question := fmt.Sprintf(`{"request":{"body":%s},"config":%q}`, chatBody, works)
		for _, tt := range []struct{ name, method, path, body string }{
			{"read as a string", "GET", "/v1/configs/" + slug, ""},
			{"read as an object", "GET", "/v1/configs/" + slug + "?format=object", ""},
			{"read of one that was sent as a string", "GET", "/v1/configs/" + asText, ""},
			{"list", "GET", "/v1/configs", ""},
			{"versions", "GET", "/v1/configs/" + slug + "/versions", ""},
			{"answer to an update", "PUT", "/v1/configs/" + asText, fmt.Sprintf(`{"config":%s}`, quoted)},
			{"explanation", "POST", "/v1/explain", question},
			{"audit log", "GET", "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z", ""},
			{"log", "GET", "/v1/logs", ""},
		} {
			attack(t, "log and export", "a config's credential in the "+tt.name, func(t *testing.T) {
				clean(t, tt.path, g.as(t, rootKey, tt.method, tt.path, tt.body).ok(t).body)
			})
		}
		where := []string{"--data", g.data}
		if o.database != "" {
			where = append(where, "--database-url", o.database)
		}
		for _, way := range []string{"sealed", "references", "none"} {
			attack(t, "log and export", "a config's credential in an export with secrets as "+way, func(t *testing.T) {
				out, errText, code := command(t, append([]string{"export", "--secrets", way}, where...)...)
				if code != 0 || !strings.Contains(out, slug) {
					t.Fatalf("exit %d: %s", code, errText)
				}
				clean(t, "the export", []byte(out+errText))
			})
		}
		attack(t, "log and export", "an export that is applied again changes nothing", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state.yaml")
			if _, errText, code := command(t, append([]string{"export", "-o", file}, where...)...); code != 0 {
				t.Fatal(errText)
			}
			if out, errText, code := command(t, append([]string{"apply", file, "--trusted-hosts", "127.0.0.1"}, where...)...); code != 0 || !strings.Contains(out, "nothing to change") {
				t.Errorf("exit %d: %s%s", code, out, errText)
			}
		})
		attack(t, "at rest", "a config's credential in files of the data folder", func(t *testing.T) {
			for path, content := range g.files(t) {
				clean(t, path, content)
			}
		})
		attack(t, "at rest", "a config's credential in rows of the database", func(t *testing.T) {
			dsn := o.database
			if dsn == "" {
				dsn = "file:" + filepath.Join(g.data, "modelgate.db")
			}
			db, err := store.Open(t.Context(), dsn, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			all, err := db.AllConfigs(t.Context(), store.DefaultOrganisation)
			if err != nil || len(all) != 3 {
				t.Fatalf("%d configs, %v", len(all), err)
			}
			for _, c := range all {
				versions, err := db.ConfigVersions(t.Context(), c.ID)
				if err != nil || len(versions) == 0 {
					t.Fatal(err)
				}
				for _, v := range versions {
					clean(t, "version "+v.ID, []byte(v.Text+v.Sealed))
				}
			}
		})
		attack(t, "log and export", "a config's credential in the process log", func(t *testing.T) { clean(t, "the process log", []byte(g.output.String())) })
		attack(t, "at rest", "the audit log verifies with its own command", func(t *testing.T) {
			if out, errText, code := command(t, append([]string{"audit", "verify"}, where...)...); code != 0 || !strings.Contains(out, " rows, ") {
				t.Errorf("exit %d: %s%s", code, out, errText)
			}
		})
	})
}

func TestSettingsFileHoldsNoPlainCredentialOfAConfig(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{provider: openai, api_key: ` + canary + `}`, `{provider: openai, apiKey: ` + canary + `}`,
		`{strategy: {mode: single}, targets: [{provider: bedrock, cloud_a_access_key_id: ` + canary + `, cloud_a_secret_access_key: ` + canary + `}]}`,
	} {
		attack(t, "at rest", "a plain credential in a config of modelgate.yaml: "+text[1:20], func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "modelgate.yaml")
			if err := os.WriteFile(file, []byte("configs: [{slug: pc, config: "+text+"}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, errText, code := command(t, "check", file); code != 1 || !strings.Contains(errText, "plaintext credentials are not allowed") || strings.Contains(out+errText, canary) {
				t.Errorf("exit %d: %s%s", code, out, errText)
			}
		})
	}
}

func TestForgedHostsLeadNoLinkAway(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"", "https://gateway.example.com"} {
		g := launch(t, options{env: []string{"MODELGATE_PUBLIC_URL=" + public}})
		for i, forged := range []string{
			"Host: thief.example", "Host: 127.0.0.1\r\nX-Forwarded-Host: thief.example", "Host: 127.0.0.1\r\nForwarded: host=thief.example;proto=https",
			"Host: 127.0.0.1\r\nX-Forwarded-Server: thief.example", "Host: 127.0.0.1\r\nX-Original-Host: thief.example\r\nX-Host: thief.example", "Host: 127.0.0.1\r\nOrigin: https://thief.example\r\nReferer: https://thief.example/",
			"Host: thief.example:80@127.0.0.1",
		} {
			attack(t, "injection", fmt.Sprintf("an invite with %q, public address %q", forged, public), func(t *testing.T) {
				body := fmt.Sprintf(`{"email":"h%d@example.com","role":"member","workspaces":[{"id":"default","role":"member"}]}`, i)
				text, _ := g.raw(t, fmt.Sprintf("POST /v1/admin/users/invites HTTP/1.1\r\n%s\r\nx-gateway-api-key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", forged, rootKey, len(body), body))
				if strings.Contains(text, "thief") {
					t.Errorf("the response leads away: %s", text)
				}
				if strings.HasPrefix(text, "HTTP/1.1 200") && !strings.Contains(text, `"invite_link":"`+public+"/accept-invite") {
					t.Errorf("the link does not begin with %q: %s", public, text)
				}
			})
		}
	}
}
