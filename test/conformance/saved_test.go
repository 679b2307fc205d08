package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// defaultedKey is a gateway key with a default config, lentKey one whose default
// config holds a credential.
const defaultedKey, lentKey = "mg-conformance-defaulted-0123456789", "mg-conformance-lent-0123456789"

func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// saved writes settings with saved configs for two providers. Their credential
// is in the environment, since a file holds none.
func saved(p []*provider) string {
	return strings.NewReplacer("FIRST", p[0].url, "SECOND", p[1].url, "DEFAULTED", hashOf(defaultedKey), "LENT", hashOf(lentKey)).Replace(`
version: 1
providers:
  - {slug: first, provider: openai-compatible, custom_host: "FIRST"}
  - {slug: second, provider: openai-compatible, custom_host: "SECOND"}
configs:
  - slug: pc-main
    config:
      strategy: {mode: fallback}
      targets:
        - {provider: "@first", override_params: {user: saved}}
        - {provider: "@second", override_params: {user: saved}}
  - slug: pc-lent
    config: {provider: openai-compatible, api_key: "${OPERATORS_KEY}", custom_host: "SECOND"}
  - slug: pc-lent-below
    config: {strategy: {mode: single}, custom_host: "SECOND", targets: [{provider: openai-compatible, api_key: "${OPERATORS_KEY}"}]}
keys:
  - {name: defaulted, sha256: DEFAULTED, config: pc-main}
  - {name: lent, sha256: LENT, config: pc-lent}
`)
}

func TestSavedConfigs(t *testing.T) {
	p := fleet(t, withStatuses(500), nil)
	g := launchFor(t, saved(p), "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	chat := modelRoutes[0]
	send := func(t *testing.T, key string, header ...string) response {
		t.Helper()
		p[0].forget()
		p[1].forget()
		return g.do(t, "POST", chat.path, chat.body, append([]string{"x-gateway-api-key", key}, header...)...)
	}
	for _, tt := range []struct {
		of, name, key string
		header        []string
		status        int
		index, user   string
	}{
		{"S-046 S-429", "by its id", bootstrapKey, []string{"x-gateway-config", "pc-main"}, 200, "config.targets[1]", `"saved"`},
		{"S-046 S-429", "as the default of a key", defaultedKey, nil, 200, "config.targets[1]", `"saved"`},
		{"S-436 S-046", "the request's own before the key's", defaultedKey, []string{"x-gateway-config", leaf(p[1])}, 200, "config", ""},
		{"S-436 S-046", "the request's own id before the key's", defaultedKey, []string{"x-gateway-config", "pc-lent"}, 200, "config", ""},
		{"S-046 S-429", "an id that is not there", bootstrapKey, []string{"x-gateway-config", "pc-absent"}, 404, "", ""},
		{"S-046 S-429", "an id in other capitals", bootstrapKey, []string{"x-gateway-config", "PC-MAIN"}, 404, "", ""},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			got := send(t, tt.key, tt.header...)
			if tt.status != http.StatusOK {
				got.refused(t, tt.status)
				p[0].wantNoRequests(t)
				p[1].wantNoRequests(t)
				return
			}
			got.wantOK(t)
			if index := got.header.Get("x-gateway-last-used-option-index"); index != tt.index {
				t.Errorf("x-gateway-last-used-option-index = %q, want %q", index, tt.index)
			}
			if user := p[1].only(t).field(t, "user"); user != tt.user {
				t.Errorf("user at the provider = %s, want %s", user, tt.user)
			}
		})
	}
	prove(t, "S-046 S-429", "by a key of another workspace", func(t *testing.T) {
		send(t, g.keyElsewhere(t), "x-gateway-config", "pc-lent").refused(t, http.StatusNotFound)
		p[1].wantNoRequests(t)
	})
	for _, name := range []string{"pc-lent", "pc-lent-below"} {
		prove(t, "S-046", "the credential of "+name+" goes to its own host", func(t *testing.T) {
			send(t, bootstrapKey, "x-gateway-config", name).wantOK(t)
			if auth := p[1].only(t).header.Get("Authorization"); auth != "Bearer "+operatorsKey {
				t.Errorf("Authorization at the provider = %q", auth)
			}
		})
		prove(t, "S-434 S-046", "the credential of "+name+" goes to no host that a request names", func(t *testing.T) {
			thief := newProvider(t, nil)
			send(t, bootstrapKey, "x-gateway-config", name, "x-gateway-custom-host", thief.url).refused(t, http.StatusBadRequest)
			thief.wantNoRequests(t)
		})
	}
	prove(t, "S-434 S-046", "nor that of a key's default", func(t *testing.T) {
		thief := newProvider(t, nil)
		send(t, lentKey, "x-gateway-custom-host", thief.url).refused(t, http.StatusBadRequest)
		thief.wantNoRequests(t)
	})
}

func TestInvalidConfigsAreNotSaved(t *testing.T) {
	p := fleet(t, nil, nil)
	good := saved(p)
	const fault = "$.targets[0].retyr"
	bad := strings.Replace(good, "user: saved}}", "user: saved}, retyr: {attempts: 1}}", 1)
	prove(t, "S-480 S-479", "modelgate check refuses the settings", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "modelgate.yaml")
		for text, want := range map[string]int{good: 0, bad: 1} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errText, code := command(t, "check", "--trusted-hosts", "127.0.0.1", file)
			if code != want {
				t.Errorf("exit %d, want %d: %s%s", code, want, out, errText)
			}
			if said := strings.Contains(errText, "AB01") && strings.Contains(errText, fault) && strings.Contains(errText, "configs[0]"); said != (want == 1) {
				t.Errorf("modelgate check said %q, want AB01 with configs[0] and %s for the bad file alone", errText, fault)
			}
		}
	})
	prove(t, "S-480", "a config whose provider is not there is refused too", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "modelgate.yaml")
		for _, name := range []string{"@absent", "no-such-provider"} {
			text := strings.Replace(good, `"@first", override`, `"`+name+`", api_key: "${OPERATORS_KEY}", override`, 1)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, errText, code := command(t, "check", "--trusted-hosts", "127.0.0.1", file); code != 1 || !strings.Contains(errText, name) || !strings.Contains(errText, "targets[0]") {
				t.Errorf("%s: exit %d, want 1 and its place: %s%s", name, code, out, errText)
			}
		}
	})
	prove(t, "S-480", "modelgate check refuses the config alone", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "config.json")
		for text, want := range map[string]int{leaf(p[0]): 0, leaf(p[0], `"retyr":{}`): 1, `{}`: 1} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, errText, code := command(t, "check", "--trusted-hosts", "127.0.0.1", file); code != want || strings.Contains(errText, "AB01") != (want == 1) {
				t.Errorf("%s: exit %d, want %d: %s%s", text, code, want, out, errText)
			}
		}
	})
	prove(t, "S-480", "no gateway starts with it", func(t *testing.T) {
		g, err := launch(bad)
		if err == nil {
			g.stop()
		}
		if err == nil || !strings.Contains(err.Error(), "AB01") || !strings.Contains(err.Error(), fault) {
			t.Errorf("the start said %v, want AB01 with %s", err, fault)
		}
	})
	prove(t, "S-480", "a reload leaves the running settings alone", func(t *testing.T) {
		g := launchFor(t, good, "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
		file := filepath.Join(g.data, "modelgate.yaml")
		settle := func(text, gauge string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, gauge, func() bool {
				res, err := http.Get(g.admin + "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				var b strings.Builder
				if _, err := io.Copy(&b, res.Body); err != nil {
					t.Fatal(err)
				}
				return strings.Contains(b.String(), "\n"+gauge+"\n")
			})
		}
		ask := func(config string) int { return g.ask(t, config).status }
		settle(bad, "modelgate_settings_ok 0")
		if got := ask("pc-main"); got != http.StatusOK {
			t.Errorf("status %d, want the saved config as it was", got)
		}
		settle(strings.ReplaceAll(good, "pc-main", "pc-other"), "modelgate_settings_ok 1")
		if old, now := ask("pc-main"), ask("pc-other"); old != http.StatusNotFound || now != http.StatusOK {
			t.Errorf("statuses %d and %d, want 404 for the old id and 200 for the new", old, now)
		}
	})
}

// TestInvalidConfigsAreNotStored asks the route that stores them.
func TestInvalidConfigsAreNotStored(t *testing.T) {
	g := launchFor(t, "version: 1\n")
	call := func(t *testing.T, method, path, body string) response {
		t.Helper()
		return g.do(t, method, path, body, "x-gateway-api-key", bootstrapKey)
	}
	prove(t, "S-480 S-479", "when one is made", func(t *testing.T) {
		for _, bad := range []string{`{"retyr":{"attempts":1}}`, `{}`, `{"strategy":{"mode":"single"}}`, `"{\"retyr\":{}}"`} {
			got := call(t, "POST", "/v1/configs", `{"name":"bad","config":`+bad+`}`)
			if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "AB01") {
				t.Errorf("%s: status %d: %s, want 400 with AB01", bad, got.status, got.body)
			}
		}
		if list := call(t, "GET", "/v1/configs", "").wantOK(t); strings.Contains(string(list.body), `"bad"`) {
			t.Errorf("stored configs: %s", list.body)
		}
	})
	prove(t, "S-480", "when one is changed", func(t *testing.T) {
		made := call(t, "POST", "/v1/configs", `{"name":"good","config":{"retry":{"attempts":1}}}`).wantOK(t).object(t)
		slug, _ := at(made, "data", "slug").(string)
		if got := call(t, "PUT", "/v1/configs/"+slug, `{"config":{"retry":{"attempts":"many"}}}`); got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "AB01") {
			t.Errorf("status %d: %s, want 400 with AB01", got.status, got.body)
		}
		if now := call(t, "GET", "/v1/configs/"+slug, "").wantOK(t); !strings.Contains(string(now.body), "attempts") || strings.Contains(string(now.body), "many") {
			t.Errorf("the stored config is now %s", now.body)
		}
		call(t, "PUT", "/v1/configs/"+slug, `{"config":{"retry":{"attempts":2}}}`).wantOK(t)
	})
}
