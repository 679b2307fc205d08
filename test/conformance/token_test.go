package conformance

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tokenIssuer signs JSON Web Tokens and serves its keys by HTTPS.
type tokenIssuer struct {
	*gateway
	t    *testing.T
	key  *rsa.PrivateKey
	keys map[string]*rsa.PrivateKey // by kid, as they are served
	url  string
	org  string // id of the gateway's organisation
}

// newTokenIssuer starts a gateway whose organisation takes tokens of an issuer.
func newTokenIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	i := &tokenIssuer{t: t, key: mustRSA(t, 2048)}
	i.keys = map[string]*rsa.PrivateKey{"one": i.key}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(keySet(i.keys))) }))
	t.Cleanup(srv.Close)
	i.url = srv.URL + "/keys"
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	i.gateway = launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "SSL_CERT_FILE="+authority, "MODELGATE_MASTER_KEY=the master key of a conformance test")
	i.org, _ = i.as(t, bootstrapKey, "GET", "/v1/auth/me", "").wantOK(t).object(t)["organisation_id"].(string)
	i.trust(`{"jwks_url":"` + i.url + `"}`)
	return i
}

func mustRSA(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keySet(keys map[string]*rsa.PrivateKey) string {
	var list []string
	for kid, key := range keys {
		list = append(list, fmt.Sprintf(`{"kty":"RSA","use":"sig","alg":"RS256","kid":%q,"e":"AQAB","n":%q}`, kid, base64.RawURLEncoding.EncodeToString(key.N.Bytes())))
	}
	return `{"keys":[` + strings.Join(list, ",") + `]}`
}

// trust says whose tokens the organisation takes.
func (i *tokenIssuer) trust(settings string) {
	i.t.Helper()
	i.as(i.t, bootstrapKey, "PUT", "/v1/admin/organisation", `{"settings":{"jwt":`+settings+`}}`).wantOK(i.t)
}

// said are the claims of a good token with others in their place; nil is absent.
func (i *tokenIssuer) said(other map[string]any) map[string]any {
	claims := map[string]any{"gateway_oid": i.org, "gateway_workspace": "default", "scope": "configs.list", "sub": "ada", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, other)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// token returns a good token with other claims.
func (i *tokenIssuer) token(other map[string]any) string {
	return tokenOf(i.t, i.key, map[string]any{"alg": "RS256", "kid": "one"}, i.said(other))
}

func part(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func tokenOf(t *testing.T, key *rsa.PrivateKey, header, claims map[string]any) string {
	t.Helper()
	text := part(t, header) + "." + part(t, claims)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// bearer sends a request with a token as a bearer token.
func (i *tokenIssuer) bearer(t *testing.T, token, method, path, body string) response {
	t.Helper()
	return i.do(t, method, path, body, "Authorization", "Bearer "+token)
}

func TestTokensOfTheOrganisationsIssuer(t *testing.T) {
	i := newTokenIssuer(t)
	rs256 := map[string]any{"alg": "RS256", "kid": "one"}
	good := i.token(nil)
	cut := strings.LastIndexByte(good, '.')
	mac := hmac.New(sha256.New, []byte(keySet(i.keys)))
	hs256 := part(t, map[string]any{"alg": "HS256", "kid": "one"}) + "." + part(t, i.said(nil))
	mac.Write([]byte(hs256))

	prove(t, "S-458", "a bearer token opens the control plane", func(t *testing.T) {
		i.bearer(t, good, "GET", "/v1/configs", "").wantOK(t)
		i.as(t, good, "GET", "/v1/configs", "").wantOK(t)
	})
	for name, token := range map[string]string{
		"signed by another":      tokenOf(t, mustRSA(t, 2048), rs256, i.said(nil)),
		"with other claims":      strings.Split(good, ".")[0] + "." + part(t, i.said(map[string]any{"scope": "configs.create"})) + good[cut:],
		"without a signature":    good[:cut+1],
		"expired":                i.token(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"without an end":         i.token(map[string]any{"exp": nil}),
		"of tomorrow":            i.token(map[string]any{"nbf": time.Now().Add(24 * time.Hour).Unix()}),
		"alg none":               part(t, map[string]any{"alg": "none", "kid": "one"}) + "." + part(t, i.said(nil)) + ".",
		"alg HS256":              hs256 + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		"alg RS512":              tokenOf(t, i.key, map[string]any{"alg": "RS512", "kid": "one"}, i.said(nil)),
		"without kid":            tokenOf(t, i.key, map[string]any{"alg": "RS256"}, i.said(nil)),
		"with an extension":      tokenOf(t, i.key, map[string]any{"alg": "RS256", "kid": "one", "crit": []string{"exp"}}, i.said(nil)),
		"of another's":           i.token(map[string]any{"gateway_oid": "00000000-0000-7000-8000-0000000000ff"}),
		"that is three words":    "one.two.three",
		"longer than a token is": i.token(map[string]any{"x": strings.Repeat("x", 9000)}),
	} {
		prove(t, "S-458", "a token "+name+" is refused", func(t *testing.T) {
			for _, got := range []response{i.bearer(t, token, "GET", "/v1/configs", ""), i.as(t, token, "POST", "/v1/configs", `{"name":"a","config":{}}`)} {
				got.told(t, 401, "AB05")
				if strings.Contains(string(got.body), strings.Split(token, ".")[1]) {
					t.Errorf("the refusal repeats the token: %s", got.body)
				}
			}
		})
	}
	prove(t, "S-458", "refused tokens are in the audit log", func(t *testing.T) {
		i.bearer(t, i.token(map[string]any{"exp": 1700000000}), "POST", "/v1/configs", `{"name":"a","config":{}}`)
		log := i.as(t, bootstrapKey, "GET", "/v1/audit-logs?resource_type=token&start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&organisation_id="+i.org, "").wantOK(t).object(t)
		if records, _ := log["records"].([]any); len(records) == 0 {
			t.Errorf("the audit log has %v, want the refusals", log)
		}
	})
	prove(t, "S-561", "introspection reports the person of a token", func(t *testing.T) {
		token := i.token(map[string]any{"email_id": "ada@example.com"})
		got := i.as(t, bootstrapKey, "POST", "/v1/oauth/introspect", `{"token":"`+token+`"}`).wantOK(t).object(t)
		if got["active"] != true || got["email"] != "ada@example.com" || got["username"] != "ada@example.com" {
			t.Errorf("told %v", got)
		}
	})
	prove(t, "S-458", "a new key of the issuer counts, and one of a set that is written down", func(t *testing.T) {
		second := mustRSA(t, 2048)
		i.trust(`{"jwks":` + keySet(map[string]*rsa.PrivateKey{"two": second}) + `}`)
		i.bearer(t, tokenOf(t, second, map[string]any{"alg": "RS256", "kid": "two"}, i.said(nil)), "GET", "/v1/configs", "").wantOK(t)
		i.bearer(t, good, "GET", "/v1/configs", "").told(t, 401, "AB05")
		i.trust("null")
		i.bearer(t, good, "GET", "/v1/configs", "").told(t, 401, "AB05")
		i.trust(`{"jwks_url":"` + i.url + `"}`)
		i.bearer(t, good, "GET", "/v1/configs", "").wantOK(t)
	})
	prove(t, "S-458", "the issuer and the audience that the organisation names count", func(t *testing.T) {
		i.trust(`{"jwks_url":"` + i.url + `","issuer":"https://id.example.com","audience":"gateway"}`)
		defer i.trust(`{"jwks_url":"` + i.url + `"}`)
		i.bearer(t, i.token(map[string]any{"iss": "https://id.example.com", "aud": []string{"other", "gateway"}}), "GET", "/v1/configs", "").wantOK(t)
		for _, claims := range []map[string]any{
			{"aud": "gateway"}, {"iss": "https://id.example.com"}, {"iss": "https://evil.example.com", "aud": "gateway"}, {"iss": "https://id.example.com", "aud": "gateways"},
		} {
			i.bearer(t, i.token(claims), "GET", "/v1/configs", "").told(t, 401, "AB05")
		}
	})
	prove(t, "S-458", "a small key and a private address are refused when they are set", func(t *testing.T) {
		for _, settings := range []string{`{"jwks":` + keySet(map[string]*rsa.PrivateKey{"s": mustRSA(t, 1024)}) + `}`, `{"jwks_url":"https://10.0.0.1/keys"}`, `{"jwks_url":"http://id.example.com/keys"}`} {
			i.as(t, bootstrapKey, "PUT", "/v1/admin/organisation", `{"settings":{"jwt":`+settings+`}}`).told(t, 400, "AB01")
		}
	})
}

// scoped are kinds of objects, with where they are made and what makes one; empty
// where there is one called default.
var scoped = []struct{ resource, path, body string }{
	{"configs", "/v1/configs", `{"name":"C","workspace_id":"default","config":{"retry":{"attempts":1}}}`},
	{"guardrails", "/v1/guardrails", `{"name":"G","workspace_id":"default","checks":[{"id":"default.wordCount","parameters":{"maxWords":9}}],"actions":{}}`},
	{"workspace_integrations", "/v1/integrations", `{"name":"I","ai_provider_id":"openai","slug":"own","key":"sk-x","workspace_id":"default"}`},
	{"providers", "/v1/providers", `{"name":"P","integration_id":"own","slug":"second","workspace_id":"default"}`},
	{"virtual_keys", "/v1/virtual-keys", `{"name":"V","provider":"openai","key":"sk-y","workspace_id":"default"}`},
	{"workspace_service_api_keys", "/v1/api-keys/workspace/service", `{"name":"K","workspace_id":"default","scopes":["models.list"]}`},
	{"workspaces", "/v1/workspaces", ""},
}

func TestTokensListAndReadByTheirScopes(t *testing.T) {
	i := newTokenIssuer(t)
	for _, s := range scoped {
		id := "default"
		if s.body != "" {
			id = named(i.as(t, bootstrapKey, "POST", s.path, s.body).wantOK(t).object(t))
		}
		list := strings.TrimSuffix(s.path, "/workspace/service")
		for _, tt := range []struct {
			scope      string
			list, read int
		}{
			{s.resource + ".list", 200, 403},
			{s.resource + ".read", 403, 200},
			{"gateway." + s.resource + ":list " + s.resource + ".read", 200, 200},
			{s.resource + ".update", 403, 403},
			{"openid", 403, 403},
			{"*", 403, 403},
		} {
			prove(t, "S-459 S-562", s.resource+" with "+tt.scope, func(t *testing.T) {
				token := i.token(map[string]any{"scope": tt.scope})
				for path, want := range map[string]int{list: tt.list, list + "/" + id: tt.read} {
					got := i.bearer(t, token, "GET", path, "")
					if want == 403 {
						got.told(t, 403, "AB03")
					} else if got.status != want {
						t.Errorf("GET %s: %d %.300s, want %d", path, got.status, got.body, want)
					}
				}
			})
		}
	}
	prove(t, "S-459 S-562", "without a scope nothing opens, and defaults of the organisation count then", func(t *testing.T) {
		none := i.token(map[string]any{"scope": nil})
		i.bearer(t, none, "GET", "/v1/configs", "").told(t, 403, "AB03")
		i.trust(`{"jwks_url":"` + i.url + `","default_scopes":["configs.list"]}`)
		i.bearer(t, none, "GET", "/v1/configs", "").wantOK(t)
	})
	prove(t, "S-459 S-562", "a list of scopes does as well", func(t *testing.T) {
		token := i.token(map[string]any{"scope": nil, "scopes": []string{"guardrails.list"}})
		i.bearer(t, token, "GET", "/v1/guardrails", "").wantOK(t)
		i.bearer(t, token, "GET", "/v1/configs", "").told(t, 403, "AB03")
	})
	prove(t, "S-458 S-459", "what is an organisation's does not open to a token", func(t *testing.T) {
		token := i.token(map[string]any{"scope": "organisation_settings.read organisation_users.list audit_logs.list"})
		i.bearer(t, token, "GET", "/v1/admin/organisation", "").told(t, 403, "AB03")
		i.bearer(t, token, "GET", "/v1/admin/users", "").told(t, 403, "AB03")
	})
	prove(t, "S-384", "a token names the workspace of a policy", func(t *testing.T) {
		const policy = `"conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"api_key"}],"type":"requests","unit":"rpm","value":10}`
		token := i.token(map[string]any{"scope": "policies.create"})
		i.bearer(t, token, "POST", "/v1/policies/rate-limits", `{"organisation_id":"default","workspace_id":"default",`+policy).wantOK(t)
		got := i.bearer(t, token, "POST", "/v1/policies/rate-limits", `{"organisation_id":"default",`+policy)
		if e, _ := got.object(t)["error"].(map[string]any); got.status != 400 || e["param"] != "workspace_id" {
			t.Errorf("%d %s, want a refusal of workspace_id", got.status, got.body)
		}
	})
	prove(t, "S-385 S-457", "a token names the organisation of a policy", func(t *testing.T) {
		const policy = `"conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"api_key"}],"type":"requests","unit":"rpm","value":10}`
		got := i.bearer(t, i.token(map[string]any{"scope": "policies.create"}), "POST", "/v1/policies/rate-limits", `{"workspace_id":"default",`+policy)
		if e, _ := got.object(t)["error"].(map[string]any); got.status != 400 || e["param"] != "organisation_id" {
			t.Errorf("%d %s, want a refusal of organisation_id", got.status, got.body)
		}
	})
	prove(t, "S-458", "a token without its workspace is refused", func(t *testing.T) {
		i.bearer(t, i.token(map[string]any{"gateway_workspace": nil}), "GET", "/v1/configs", "").told(t, 403, "AB03")
		i.bearer(t, i.token(map[string]any{"gateway_workspace": "absent"}), "GET", "/v1/configs", "").told(t, 403, "AB03")
	})
}

// named returns by what an object that was made is found.
func named(made map[string]any) string {
	if data, ok := made["data"].(map[string]any); ok {
		made = data
	}
	for _, name := range []string{"id", "slug"} {
		if s, _ := made[name].(string); s != "" {
			return s
		}
	}
	return ""
}
