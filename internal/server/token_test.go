package server_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

// issuer makes tokens, and serves its key by HTTPS.
type issuer struct {
	t    *testing.T
	key  *rsa.PrivateKey
	url  string
	pool *x509.CertPool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key, pool: x509.NewCertPool()}
	set := `{"keys":[{"kty":"RSA","kid":"one","e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(key.N.Bytes()) + `"}]}`
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(set)) }))
	t.Cleanup(srv.Close)
	i.url = srv.URL
	i.pool.AddCert(srv.Certificate())
	return i
}

// token returns a token for the default workspace that ends in an hour, with
// other claims than those. Nil takes one away.
func (i *issuer) token(other map[string]any) string {
	i.t.Helper()
	claims := map[string]any{"organisation_id": store.DefaultOrganisation, "workspace_slug": "default", "sub": "ada",
		"scope": "completions.write", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, other)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	body, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	b := base64.RawURLEncoding
	text := b.EncodeToString([]byte(`{"alg":"RS256","kid":"one"}`)) + "." + b.EncodeToString(body)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, i.key, crypto.SHA256, digest[:])
	if err != nil {
		i.t.Fatal(err)
	}
	return text + "." + b.EncodeToString(signature)
}

// newTrusting starts a gateway whose organisation takes tokens of i.
func newTrusting(t *testing.T, i *issuer, o gatewaytest.Options) *gatewaytest.Gateway {
	t.Helper()
	if o.Data == "" {
		o.Data = t.TempDir()
	}
	o.Reach = upstream.Options{RootCAs: i.pool}
	mustWriteSettings(t, o.Data, `{"jwt":{"jwks_url":"`+i.url+`"}}`)
	return gatewaytest.New(t, o)
}

// mustUpdate changes the database in data.
func mustUpdate(t *testing.T, data string, change func(tx *store.Tx) error) {
	t.Helper()
	db, err := store.Open(t.Context(), "file:"+filepath.Join(data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(t.Context(), nil, change); err != nil {
		t.Fatal(err)
	}
}

// mustWriteSettings writes settings of the organisation.
func mustWriteSettings(t *testing.T, data, settings string) {
	t.Helper()
	mustUpdate(t, data, func(tx *store.Tx) error {
		o, err := tx.Organisation(t.Context(), store.DefaultOrganisation)
		if err != nil {
			return err
		}
		o.UpdatedAt = time.Now()
		if err := json.Unmarshal([]byte(settings), &o.Settings); err != nil {
			return err
		}
		return tx.UpdateOrganisation(t.Context(), o)
	})
}

func TestATokenOpensModelsAsAKeyDoes(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := newTrusting(t, i, gatewaytest.Options{})
	good, ended := i.token(nil), i.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	for _, tt := range []struct {
		name   string
		header []string
		status int
		word   string
	}{
		{"in the key's header", []string{"x-gateway-api-key", good}, 200, ""},
		{"as a bearer token", []string{"x-gateway-api-key", "", "authorization", "Bearer " + good}, 200, ""},
		{"where official clients put a key", []string{"x-gateway-api-key", "", "x-api-key", good}, 200, ""},
		{"a bearer token next to a key is the provider's", []string{"x-gateway-api-key", gatewaytest.Key, "authorization", "Bearer " + ended}, 200, ""},
		{"a good one does not make up for a wrong key", []string{"x-gateway-api-key", "mg-wrong", "authorization", "Bearer " + good}, 401, "key is unknown"},
		{"one that ended", []string{"x-gateway-api-key", ended}, 401, "exp"},
		{"one that ended, as a bearer token", []string{"x-gateway-api-key", "", "authorization", "Bearer " + ended}, 401, "exp"},
		{"without the scope", []string{"x-gateway-api-key", i.token(map[string]any{"scope": "configs.list"})}, 403, "completions.write"},
		{"for another workspace", []string{"x-gateway-api-key", i.token(map[string]any{"workspace_slug": "other"})}, 403, "workspace"},
		{"for another organisation", []string{"x-gateway-api-key", i.token(map[string]any{"organisation_id": "other"})}, 401, "organisation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Post("/chat/completions", chat, tt.header...)
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.word) {
				t.Errorf("%d %s, want %d %q", res.Status, res.Body, tt.status, tt.word)
			}
			if strings.Contains(string(res.Body), strings.Split(good, ".")[2]) {
				t.Errorf("the response repeats the token: %s", res.Body)
			}
		})
	}
	e := g.Entry(g.Post("/chat/completions", chat, "x-gateway-api-key", good))
	if key, _ := e["api_key"].(map[string]any); key["id"] != "jwt:ada" || key["name"] != "ada" || e["workspace"] != store.DefaultWorkspace {
		t.Errorf("the record is of %v", e)
	}
	if log := g.Log.String(); strings.Contains(log, strings.Split(good, ".")[2]) {
		t.Errorf("the log has a token: %s", log)
	}
}

func TestATokenBringsItsConfigAndMetadata(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := newTrusting(t, i, gatewaytest.Options{})
	slug := slugOf(t, saveConfig(g, "of the token"))
	token := i.token(map[string]any{"defaults": map[string]any{"config_id": slug, "metadata": map[string]string{"team": "a"}}})
	res := g.Post("/chat/completions", chat, "x-gateway-api-key", token, "x-gateway-provider", "")
	if res.Status != 200 || res.Header.Get("x-gateway-last-used-option-index") != "config.targets[0]" {
		t.Errorf("by the token's config: %d %s %v", res.Status, res.Body, res.Header)
	}
	if m, _ := g.Entry(res)["metadata"].(map[string]any); m["team"] != "a" {
		t.Errorf("the metadata is %v", m)
	}
	absent := i.token(map[string]any{"defaults": map[string]any{"config_id": "pc-absent"}})
	if res := g.Post("/chat/completions", chat, "x-gateway-api-key", absent, "x-gateway-provider", ""); res.Status != 404 {
		t.Errorf("by a config that is not there: %d %s", res.Status, res.Body)
	}
}

func TestATokenIsNeverSentToAProvider(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var sent http.Header
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		w.Write([]byte(`{}`))
	})
	g := newTrusting(t, i, gatewaytest.Options{Upstream: up})
	token := i.token(nil)
	for _, h := range [][]string{
		{"x-gateway-api-key", gatewaytest.Key, "authorization", "Bearer " + token},
		{"x-gateway-api-key", token, "authorization", "Bearer " + token},
		{"x-gateway-api-key", "", "authorization", "Bearer " + token},
		{"x-gateway-api-key", gatewaytest.Key, "authorization", token},
	} {
		sent = nil
		h = append(h, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", g.Upstream)
		if res := g.Post("/things", `{}`, h...); res.Status != 200 || sent == nil {
			t.Errorf("%v: %d %s", h[:1], res.Status, res.Body)
		}
		for name, values := range sent {
			if strings.Contains(strings.Join(values, ""), token) {
				t.Errorf("the provider got the token in %s", name)
			}
		}
	}
}

func TestATokenOpensTheControlPlaneByItsScopes(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := newTrusting(t, i, gatewaytest.Options{})
	slug := slugOf(t, saveConfig(g, "seen"))
	list, read := i.token(map[string]any{"scope": "configs.list"}), i.token(map[string]any{"scopes": []string{"gateway.configs:read"}, "scope": nil})
	for _, tt := range []struct {
		name, token, path string
		status            int
	}{
		{"list by list", list, "/configs", 200},
		{"read by list", list, "/configs/" + slug, 403},
		{"list by read", read, "/configs", 403},
		{"read by read", read, "/configs/" + slug, 200},
		{"what is an organisation's", i.token(map[string]any{"scope": "audit_logs.list *"}), "/audit-logs?start_time=2026-01-01T00:00:00Z&end_time=2036-01-01T00:00:00Z&organisation_id=" + store.DefaultOrganisation, 403},
		{"forged", list[:len(list)-8] + "AAAAAAAA", "/configs", 401},
	} {
		if res := g.Get(tt.path, "x-gateway-api-key", "", "authorization", "Bearer "+tt.token); res.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, res.Status, res.Body, tt.status)
		}
	}
}

func TestRefusedTokensAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := newTrusting(t, i, gatewaytest.Options{})
	ended := i.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	g.Get("/configs", "x-gateway-api-key", ended)
	g.Post("/configs", `{"name":"a","config":{}}`, "x-gateway-api-key", i.token(map[string]any{"workspace_slug": "other"}))
	g.Post("/configs", `{"name":"a","config":{}}`, "x-gateway-api-key", "a.b.c")
	const all = "/audit-logs?resource_type=token&start_time=2026-01-01T00:00:00Z&end_time=2036-01-01T00:00:00Z&organisation_id=" + store.DefaultOrganisation
	res := g.Get(all)
	var out struct {
		Records []struct {
			URI    string `json:"uri"`
			Method string
			Status int `json:"response_status_code"`
		}
	}
	if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	if len(out.Records) != 2 || out.Records[0].Status != 403 || out.Records[1].Status != 401 || out.Records[1].Method != "GET" || out.Records[1].URI != "/v1/configs" {
		t.Errorf("the audit log has %+v", out.Records)
	}
	if strings.Contains(string(res.Body), ended) {
		t.Error("the audit log has a token")
	}
	for range 100 {
		g.Get("/configs", "x-gateway-api-key", ended)
	}
	if err := json.Unmarshal(g.Get(all+"&page_size=100").Body, &out); err != nil || len(out.Records) > 2*60 || len(out.Records) < 60 {
		t.Errorf("of 102 refused tokens in a minute the log has %d, want 60 or so: %v", len(out.Records), err)
	}
}

func TestASessionAKeyAndATokenReadTheirOwnDetails(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := newTrusting(t, i, gatewaytest.Options{NoKey: true})
	claimed := g.Post("/auth/claim", `{"token":"`+g.Server.Claim().Reveal()+`","email":"boss@example.com","password":"correct horse battery"}`, "x-gateway-api-key", "")
	var session struct{ Token string }
	if err := json.Unmarshal(claimed.Body, &session); err != nil || claimed.Status != 200 {
		t.Fatalf("claiming: %d %s", claimed.Status, claimed.Body)
	}
	token := i.token(nil)
	for key, want := range map[string]map[string]any{
		session.Token:                {"type": "session", "workspace_id": nil, "status": "active"},
		g.Server.FirstKey().Reveal(): {"type": "workspace-service", "name": "first", "token": nil},
		token:                        {"type": "token", "id": "jwt:ada", "workspace_id": store.DefaultWorkspace, "name": "ada", "user_id": nil},
	} {
		for _, path := range []string{"/v1/api-keys/self/details", "/v1/api-keys/self", "/v2/api-keys/self/details"} {
			req := g.Request("GET", "/x", "", "x-gateway-api-key", key)
			req.URL.Path = path
			res := g.Do(req)
			got := res.JSON(t)
			for name, value := range want {
				if got[name] != value {
					t.Errorf("%s of a %v: %s = %v, want %v", path, want["type"], name, got[name], value)
				}
			}
			if o, _ := got["organisation_details"].(map[string]any); o["id"] != store.DefaultOrganisation {
				t.Errorf("%s of a %v: %s", path, want["type"], res.Body)
			}
			if said, ok := got["token"].(map[string]any); ok != (key == token) || ok && said["user"] != "ada" {
				t.Errorf("%s of a %v: token = %v", path, want["type"], said)
			}
		}
	}
	for _, path := range []string{"/v2/models", "/v2/api-keys", "/v2/configs", "/v1/v2/api-keys/self/details"} {
		req := g.Request("GET", "/x", "", "x-gateway-api-key", token, "x-gateway-provider", "")
		req.URL.Path = path
		if res := g.Do(req); res.Status == 200 {
			t.Errorf("%s: %d %s", path, res.Status, res.Body)
		}
	}
}

func TestIntrospectionReportsTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := newTrusting(t, i, gatewaytest.Options{})
	ask := func(token string) map[string]any {
		t.Helper()
		return g.Post("/oauth/introspect", `{"token":"`+token+`"}`).JSON(t)
	}
	got := ask(i.token(map[string]any{"email_id": "ada@example.com", "iat": 1770000000}))
	if got["active"] != true || got["token_type"] != "jwt" || got["email"] != "ada@example.com" || got["username"] != "ada@example.com" ||
		got["sub"] != "ada@example.com" || got["scope"] != "completions.write" || got["client_id"] != "jwt:ada@example.com" || got["iat"] != 1770000000.0 {
		t.Errorf("a good one: %v", got)
	}
	for name, token := range map[string]string{
		"ended":             i.token(map[string]any{"exp": 1700000000}),
		"for no workspace":  i.token(map[string]any{"workspace_slug": nil}),
		"another's":         i.token(map[string]any{"organisation_id": "other"}),
		"forged":            i.token(nil) + "A",
		"three empty parts": "..",
	} {
		if got := ask(token); len(got) != 1 || got["active"] != false {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTokensEndWithTheSettingsOfTheirOrganisation(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	data := t.TempDir()
	g := newTrusting(t, i, gatewaytest.Options{Data: data})
	token := i.token(nil)
	status := func() int { return g.Post("/chat/completions", chat, "x-gateway-api-key", token).Status }
	if got := status(); got != 200 {
		t.Fatalf("at first: %d", got)
	}
	mustWriteSettings(t, data, `{"jwt":null}`)
	waittest.Until(t, "the token is refused", func() bool { return status() == 401 })
	mustWriteSettings(t, data, `{"jwt":{"jwks_url":"`+i.url+`"}}`)
	waittest.Until(t, "it counts again", func() bool { return status() == 200 })
}

func TestRateLimitsOfATokenBindItsUser(t *testing.T) {
	i := newIssuer(t)
	g := newTrusting(t, i, gatewaytest.Options{})
	limits := []map[string]any{{"type": "requests", "unit": "rpw", "value": 3}}
	ask := func(other map[string]any) gatewaytest.Response {
		token := i.token(other)
		return g.Do(g.Request("POST", "/chat/completions", chat, "x-gateway-api-key", token))
	}
	for n := range 4 { // each token is another one
		want := 200
		if n == 3 {
			want = 429
		}
		res := ask(map[string]any{"rate_limits": limits, "jti": n})
		if res.Status != want {
			t.Errorf("request %d: %d %s", n, res.Status, res.Body)
		}
		if want == 429 && (!strings.Contains(string(res.Body), "this key's user") || res.Header.Get("Retry-After") == "" || res.Header.Get("x-ratelimit-limit-requests") != "3") {
			t.Errorf("the refusal is %s with %v", res.Body, res.Header)
		}
	}
	if res := ask(map[string]any{"rate_limits": limits, "sub": "grace"}); res.Status != 200 {
		t.Errorf("another user: %d %s", res.Status, res.Body)
	}
	if res := ask(map[string]any{"usage_limits": []map[string]any{{"credit_limit": 5}}}); res.Status != 401 || !strings.Contains(string(res.Body), "usage_limits") {
		t.Errorf("budgets: %d %s", res.Status, res.Body)
	}
	own := g.Do(g.Request("GET", "/limits", "", "x-gateway-api-key", i.token(map[string]any{"rate_limits": limits})))
	if own.Status != 200 || !strings.Contains(string(own.Body), `"owner":"user"`) || !strings.Contains(string(own.Body), `"limit":3,"used":3,"reserved":0,"remaining":0`) {
		t.Errorf("GET /limits: %d %s", own.Status, own.Body)
	}
	made := g.Do(g.Request("POST", "/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"]}`,
		"x-gateway-api-key", i.token(map[string]any{"rate_limits": limits, "scope": "completions.write workspace_service_api_keys.create"})))
	if made.Status != 403 || !strings.Contains(string(made.Body), "rate_limits") {
		t.Errorf("a key that would not be limited: %d %s", made.Status, made.Body)
	}
}
