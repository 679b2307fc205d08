package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

func TestGatewayKeys(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, r := range []struct{ method, path string }{
		{"POST", "/v1/chat/completions"}, {"POST", "/v1/completions"}, {"POST", "/v1/embeddings"}, {"POST", "/v1/images/generations"},
		{"POST", "/v1/prompts/p/completions"}, {"POST", "/v1/batches"}, {"GET", "/v1/batches"}, {"POST", "/v1/batches/b/cancel"},
		{"POST", "/v1/fine_tuning/jobs"}, {"GET", "/v1/fine_tuning/jobs/j"}, {"POST", "/v1/fine_tuning/jobs/j/cancel"},
		{"GET", "/v1/fine_tuning/jobs/j/checkpoints"}, {"GET", "/v1/files"}, {"GET", "/v1/files/f"}, {"GET", "/v1/responses/r"},
		{"GET", "/v1/models"}, {"GET", "/v1/logs"},
		{"GET", "/v1/logs/l"}, {"PUT", "/v1/any/thing"}, {"DELETE", "/v1/any/thing"},
	} {
		prove(t, "S-417 S-254", r.method+" "+r.path+" without a key", func(t *testing.T) {
			named := []string{"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p.url}
			for _, header := range [][]string{nil, named, append(named, "Authorization", "Bearer "+credential)} {
				g.do(t, r.method, r.path, "", header...).refused(t, http.StatusUnauthorized)
			}
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-417", "every route of the administration without a key", func(t *testing.T) {
		for _, r := range g.administration(t) {
			if got := g.do(t, r[0], r[1], ""); got.status != http.StatusUnauthorized {
				t.Errorf("%s %s: status %d, want 401", r[0], r[1], got.status)
			}
		}
	})
	chat := modelRoutes[0]
	for name, key := range map[string]string{
		"an empty key":            "",
		"a wrong key":             "mg-wrong",
		"a key with more behind":  bootstrapKey + "x",
		"a key cut short":         bootstrapKey[:len(bootstrapKey)-1],
		"a key in other capitals": strings.ToUpper(bootstrapKey),
		"the provider's key":      credential,
	} {
		prove(t, "S-422", name+" is refused", func(t *testing.T) {
			got := g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-api-key", key)[2:]...)
			got.refused(t, http.StatusUnauthorized)
			g.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", key, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p.url).
				refused(t, http.StatusUnauthorized)
			if key != "" && strings.Contains(string(got.body), key) {
				t.Errorf("the refusal repeats the key: %s", got.body)
			}
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-422 S-417", "a key that is set twice is refused", func(t *testing.T) {
		got := g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-api-key", "mg-other")...)
		if got.status != http.StatusUnauthorized && got.status != http.StatusBadRequest {
			t.Errorf("status %d, want 401 or 400", got.status)
		}
		p.wantNoRequests(t)
	})
	prove(t, "S-422", "a key that is created works until it is revoked", func(t *testing.T) {
		var made struct{ ID, Key string }
		out, errText, code := command(t, "keys", "create", "--data", g.data, "--name", "suite", "--json")
		if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 || made.Key == "" || made.ID == "" {
			t.Fatalf("modelgate keys create: exit %d, %v: %s %s", code, err, errText, out)
		}
		status := func() int {
			return g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-api-key", made.Key)[2:]...).status
		}
		waittest.Until(t, "the created key is taken", func() bool { return status() == http.StatusOK })
		if _, errText, code := command(t, "keys", "revoke", "--data", g.data, made.ID); code != 0 {
			t.Fatalf("modelgate keys revoke: exit %d: %s", code, errText)
		}
		waittest.Until(t, "the revoked key is refused", func() bool { return status() == http.StatusUnauthorized })
		p.forget()
	})
	prove(t, "S-422", "a secret that a rotation revokes at once is refused", func(t *testing.T) {
		made := g.as(t, bootstrapKey, "POST", "/v1/api-keys/workspace/service", `{"name":"rotated","workspace_id":"default","scopes":["completions.write","configs.list"]}`).wantOK(t).object(t)
		old, _ := made["key"].(string)
		status := func(key string) [2]int {
			return [2]int{g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-api-key", key)[2:]...).status, g.as(t, key, "GET", "/v1/configs", "").status}
		}
		waittest.Until(t, "the created key is taken", func() bool { return status(old) == [2]int{200, 200} })
		next, _ := g.as(t, bootstrapKey, "POST", "/v1/api-keys/"+fmt.Sprint(made["id"])+"/rotate", `{"key_transition_period_ms":0}`).wantOK(t).object(t)["key"].(string)
		waittest.Until(t, "the new secret is taken", func() bool { return status(next) == [2]int{200, 200} })
		if got := status(old); got != [2]int{401, 401} {
			t.Errorf("with the old secret requests get the status %d and the administration %d, want 401", got[0], got[1])
		}
		p.forget()
	})
}

// administration returns the method and a path of each route of the control plane
// but openRoutes.
func (g *gateway) administration(t *testing.T) (routes [][2]string) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(g.do(t, "GET", "/openapi.json", "").wantOK(t).body, &document); err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`{[^}]+}`)
	for path, methods := range document.Paths {
		for method := range methods {
			if method = strings.ToUpper(method); !slices.Contains(openRoutes, method+" "+path) {
				routes = append(routes, [2]string{method, parameter.ReplaceAllString(path, "x")})
			}
		}
	}
	if len(routes) < 100 {
		t.Fatalf("the description has %d routes that need a key", len(routes))
	}
	return routes
}

// openRoutes are the routes of the control plane by which people sign in.
var openRoutes = []string{"POST /v1/auth/claim", "POST /v1/auth/login", "POST /v1/auth/invites/accept", "POST /v1/auth/password", "GET /v1/auth/methods",
	"GET /v1/.well-known/oauth-authorization-server", "POST /v1/oauth/device_authorization", "POST /v1/oauth/token",
	"OPTIONS /v1/.well-known/oauth-authorization-server", "GET /v1/.well-known/oauth-authorization-server/{rest...}",
	"OPTIONS /v1/.well-known/oauth-authorization-server/{rest...}", "GET /v1/.well-known/openid-configuration",
	"OPTIONS /v1/.well-known/openid-configuration", "GET /v1/.well-known/openid-configuration/{rest...}",
	"OPTIONS /v1/.well-known/openid-configuration/{rest...}", "GET /v1/.well-known/oauth-protected-resource",
	"OPTIONS /v1/.well-known/oauth-protected-resource", "GET /v1/.well-known/oauth-protected-resource/{rest...}",
	"OPTIONS /v1/.well-known/oauth-protected-resource/{rest...}", "POST /v1/oauth/revoke", "POST /v1/oauth/register",
	"POST /v1/auth/owner", "POST /v1/auth/passkey", "POST /v1/auth/passkey/options"}

func TestProviderAuthenticationIsNeeded(t *testing.T) {
	g, stored := start(t)
	key := []string{"x-gateway-api-key", bootstrapKey}
	for _, r := range modelRoutes {
		for _, tt := range []struct {
			of, name string
			header   []string
			param    string
			word     string
		}{
			{"S-418 S-254", "no provider", nil, "x-gateway-provider", "x-gateway-provider"},
			{"S-418", "a credential alone", []string{"Authorization", "Bearer " + credential}, "x-gateway-provider", "x-gateway-provider"},
			{"S-418 S-254", "a provider alone", []string{"x-gateway-provider", "openai"}, "authorization", "Authorization"},
			{"S-418", "another provider alone", []string{"x-gateway-provider", "groq"}, "authorization", "Authorization"},
		} {
			prove(t, tt.of, r.path+" with "+tt.name, func(t *testing.T) {
				e := g.do(t, "POST", r.path, r.body, append(slices.Clone(key), tt.header...)...).refused(t, http.StatusBadRequest)
				if e["param"] != tt.param || !strings.Contains(e["message"].(string), tt.word) {
					t.Errorf("error = %v, want one that names %s and says to send %s", e, tt.param, tt.word)
				}
			})
		}
		prove(t, "S-255 S-427", r.path+" with the virtual key header", func(t *testing.T) {
			stored.forget()
			g.do(t, "POST", r.path, r.body, append(slices.Clone(key), "x-gateway-virtual-key", "stored")...).wantOK(t)
			if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
				t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
			}
		})
		prove(t, "S-426 S-042", r.path+" with a slug", func(t *testing.T) {
			stored.forget()
			g.do(t, "POST", r.path, r.body, managed("@stored")...).wantOK(t)
			if auth := stored.only(t).header.Get("Authorization"); auth != "Bearer "+storedKey {
				t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
			}
		})
	}
	prove(t, "S-254", "a gateway key is not a credential for a provider", func(t *testing.T) {
		p := newProvider(t, nil)
		for _, header := range [][]string{
			{"Authorization", "Bearer " + bootstrapKey},
			{"x-gateway-api-key", bootstrapKey, "Authorization", "Bearer " + bootstrapKey},
			{"x-gateway-api-key", bootstrapKey, "X-Api-Key", bootstrapKey},
		} {
			for _, provider := range []string{"openai", "anthropic"} {
				header := append(slices.Clone(header), "x-gateway-provider", provider)
				g.do(t, "GET", "/v1/things", "", header...).refused(t, http.StatusBadRequest)
				p.forget()
				g.do(t, "GET", "/v1/things", "", append(header, "x-gateway-custom-host", p.url)...).wantOK(t)
				if in := p.only(t); strings.Contains(in.head, bootstrapKey) {
					t.Errorf("%s got the gateway key of %v:\n%s", provider, header[:len(header)-2], in.head)
				}
			}
		}
	})
	prove(t, "S-427", "the virtual key may be written with @", func(t *testing.T) {
		stored.forget()
		g.do(t, "GET", "/v1/things", "", append(slices.Clone(key), "X-Gateway-Virtual-Key", "@stored")...).wantOK(t)
		stored.only(t)
	})
	prove(t, "S-426 S-042", "a credential of the client does not take the place of the stored one", func(t *testing.T) {
		stored.forget()
		g.do(t, "GET", "/v1/things", "", managed("@stored", "Authorization", "Bearer "+credential)...).wantOK(t)
		if auth := stored.only(t).header["Authorization"]; !slices.Equal(auth, []string{"Bearer " + storedKey}) {
			t.Errorf("Authorization at the provider = %q, want the stored credential", auth)
		}
	})
	prove(t, "S-426 S-042", "nor does one that is forwarded by name", func(t *testing.T) {
		for _, names := range []string{"Authorization", "AUTHORIZATION"} {
			stored.forget()
			g.do(t, "GET", "/v1/things", "", managed("@stored", "Authorization", "Bearer "+credential, "x-gateway-forward-headers", names)...).wantOK(t)
			in := stored.only(t)
			if auth := in.header["Authorization"]; !slices.Equal(auth, []string{"Bearer " + storedKey}) {
				t.Errorf("Authorization at the provider = %q, want the stored credential alone", auth)
			}
		}
	})
	prove(t, "S-042 S-426", "the stored credential goes to no host that the request names", func(t *testing.T) {
		thief := newProvider(t, nil)
		for _, more := range [][]string{
			{"x-gateway-provider", "@stored", "x-gateway-custom-host", thief.url},
			{"x-gateway-virtual-key", "stored", "x-gateway-custom-host", thief.url},
			{"x-gateway-config", `{"provider":"@stored","custom_host":"` + thief.url + `"}`},
		} {
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, append(slices.Clone(key), more...)...).refused(t, http.StatusBadRequest)
		}
		thief.wantNoRequests(t)
	})
	prove(t, "S-042 S-426", "a key of another workspace has no such slug", func(t *testing.T) {
		away := []string{"x-gateway-api-key", g.keyElsewhere(t)}
		stored.forget()
		for _, more := range [][]string{{"x-gateway-provider", "@stored"}, {"x-gateway-virtual-key", "stored"}, {"x-gateway-config", `{"provider":"@stored"}`}} {
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, append(slices.Clone(away), more...)...).refused(t, http.StatusNotFound)
		}
		stored.wantNoRequests(t)
	})
	prove(t, "S-042 S-426", "a model of the form @slug/model names it too", func(t *testing.T) {
		stored.forget()
		g.do(t, "POST", "/v1/chat/completions", `{"model":"@stored/m-9","messages":[{"role":"user","content":"x"}]}`, key...).wantOK(t)
		if got := stored.only(t).field(t, "model"); got != `"m-9"` {
			t.Errorf("model at the provider = %s, want m-9", got)
		}
	})
	for _, header := range [][]string{{"x-gateway-provider", "@unknown"}, {"x-gateway-virtual-key", "unknown"}, {"x-gateway-provider", "@"}, {"x-gateway-provider", "@Stored"}} {
		prove(t, "S-428", strings.Join(header, " "), func(t *testing.T) {
			stored.forget()
			got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, append(slices.Clone(key), header...)...)
			if got.status != http.StatusNotFound && got.status != http.StatusBadRequest {
				t.Errorf("status %d, want 404 or 400", got.status)
			}
			got.refused(t, got.status)
			stored.wantNoRequests(t)
		})
	}
	prove(t, "S-428", "in a config and in a model's name", func(t *testing.T) {
		stored.forget()
		for _, got := range []response{
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, append(slices.Clone(key), "x-gateway-config", `{"provider":"@unknown"}`)...),
			g.do(t, "POST", modelRoutes[0].path, strings.Replace(modelRoutes[0].body, "m-1", "@unknown/m-1", 1), key...),
		} {
			if got.status != http.StatusNotFound && got.status != http.StatusBadRequest {
				t.Errorf("status %d, want 404 or 400", got.status)
			}
			got.refused(t, got.status)
		}
		stored.wantNoRequests(t)
	})
}

// keyElsewhere returns a key of a new workspace, which has nothing in it.
func (g *gateway) keyElsewhere(t *testing.T) string {
	t.Helper()
	make := func(path, body string) map[string]any {
		return g.do(t, "POST", path, body, "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
	}
	workspace, _ := make("/v1/admin/workspaces", `{"name":"Elsewhere"}`)["id"].(string)
	key, _ := make("/v1/api-keys/workspace/service", `{"name":"e","workspace_id":"`+workspace+`","scopes":["completions.write"]}`)["key"].(string)
	waittest.Until(t, "the key is known", func() bool {
		return g.do(t, "GET", "/v1/models", "", "x-gateway-api-key", key).status != http.StatusUnauthorized
	})
	return key
}

// authForms are providers and where they want their credential.
var authForms = []struct{ provider, header, value, query string }{
	{"openai", "Authorization", "Bearer " + credential, ""},
	{"groq", "Authorization", "Bearer " + credential, ""},
	{"anthropic", "X-Api-Key", credential, ""},
	{"azure-openai", "Api-Key", credential, ""},
	{"google", "X-Goog-Api-Key", credential, ""},
	{"deepgram", "Authorization", "Token " + credential, ""},
	{"palm", "", "", "key=" + credential},
}

func TestCredentialsTakeTheProvidersForm(t *testing.T) {
	g, stored := start(t)
	p := newProvider(t, nil)
	check := func(t *testing.T, in received, header, value, query string) {
		t.Helper()
		for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
			want := ""
			if name == header {
				want = value
			}
			if got := strings.Join(in.header[name], "|"); got != want {
				t.Errorf("%s at the provider = %q, want %q", name, got, want)
			}
		}
		want := "/v1/things?api-version=1"
		if query != "" {
			want += "&" + query
		}
		if in.uri != want {
			t.Errorf("the provider was asked for %s, want %s", in.uri, want)
		}
	}
	for _, f := range authForms {
		prove(t, "S-424 S-425", f.provider+" from a bearer token", func(t *testing.T) {
			p.forget()
			g.do(t, "GET", "/v1/things?api-version=1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-provider", f.provider,
				"x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential).wantOK(t)
			check(t, p.only(t), f.header, f.value, f.query)
		})
		prove(t, "S-082 S-425 S-430", f.provider+" from a config", func(t *testing.T) {
			p.forget()
			config := `{"provider":"` + f.provider + `","api_key":"` + credential + `","custom_host":"` + p.url + `"}`
			g.do(t, "GET", "/v1/things?api-version=1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
			check(t, p.only(t), f.header, f.value, f.query)
		})
	}
	prove(t, "S-425 S-426", "a managed provider of another form", func(t *testing.T) {
		stored.forget()
		g.do(t, "GET", "/v1/things?api-version=1", "", managed("@native")...).wantOK(t)
		check(t, stored.only(t), "X-Api-Key", storedKey, "")
	})
	prove(t, "S-425", "a credential with letters that a query reserves", func(t *testing.T) {
		p.forget()
		const reserved = "k&admin=1 +%"
		config := `{"provider":"palm","api_key":"` + reserved + `","custom_host":"` + p.url + `"}`
		g.do(t, "GET", "/v1/things?a=1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
		_, query, _ := strings.Cut(p.only(t).uri, "?")
		if v, err := url.ParseQuery(query); err != nil || v.Get("key") != reserved || len(v) != 2 {
			t.Errorf("the provider was asked for %s, which it reads as %v, %v", query, v, err)
		}
	})
	prove(t, "S-425", "the client's own query stays next to the credential", func(t *testing.T) {
		p.forget()
		g.do(t, "GET", "/v1/things?b=2&a=1", "", "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "palm",
			"x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential).wantOK(t)
		if in := p.only(t); in.uri != "/v1/things?b=2&a=1&key="+credential {
			t.Errorf("the provider was asked for %s", in.uri)
		}
	})
}
