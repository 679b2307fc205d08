package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"modelgate/internal/testing/oidctest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// machine is a workload whose issuer a gateway trusts.
type machine struct {
	issuer *oidctest.Provider
	key    string // id of the service key
	id     string // of the workload identity
}

// newMachine makes a service key with further fields and a workload identity of it.
func newMachine(t *testing.T, g *gateway, fields string) *machine {
	t.Helper()
	m := &machine{issuer: oidctest.New(t)}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{m.issuer.Key()}})
	if err != nil {
		t.Fatal(err)
	}
	m.key, _ = g.as(t, bootstrapKey, "POST", "/v1/api-keys/workspace/service",
		`{"name":"ci","workspace_id":"default","without_secret":true,"scopes":["completions.write","models.list"],"defaults":{"metadata":{"team":"shop"}}`+fields+`}`).
		wantOK(t).object(t)["id"].(string)
	body := fmt.Sprintf(`{"name":"CI","slug":"shop","type":"github-actions","api_key_id":%q,"audience":"https://gate.example.com","jwks":%q,"claims":{"repository":["acme/shop"]}}`,
		m.key, keys)
	m.id, _ = g.as(t, bootstrapKey, "POST", "/v1/workload-identities", body).wantOK(t).object(t)["id"].(string)
	return m
}

func (m *machine) token() string {
	now := time.Now()
	return m.issuer.Signed(map[string]any{
		"iss": "https://token.actions.githubusercontent.com", "aud": "https://gate.example.com", "sub": "repo:acme/shop:ref:refs/heads/main",
		"repository": "acme/shop", "event_name": "push", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	})
}

// form sends a form.
func (g *gateway) form(t *testing.T, path string, fields ...string) response {
	t.Helper()
	form := make(url.Values)
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return g.do(t, "POST", path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

func (m *machine) exchange(t *testing.T, g *gateway) response {
	t.Helper()
	return g.form(t, "/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange", "client_id", m.id,
		"subject_token", m.token(), "subject_token_type", "urn:ietf:params:oauth:token-type:jwt")
}

// mustExchange exchanges a token on a node that may not know the identity yet.
func (m *machine) mustExchange(t *testing.T, g *gateway) string {
	t.Helper()
	var got response
	waittest.Until(t, "the node knows the workload identity", func() bool {
		got = m.exchange(t, g)
		return got.status != http.StatusServiceUnavailable
	})
	key, _ := got.wantOK(t).object(t)["access_token"].(string)
	return key
}

func TestShortKeysOfWorkloadsWorkAndEndOnEveryNode(t *testing.T) {
	t.Parallel()
	s := launchNodes(t, 2, storetest.Postgres(t))
	m := newMachine(t, s.list[0], "")
	is := func(key string, status int) func(*gateway) bool {
		return func(g *gateway) bool { return g.as(t, key, "GET", "/v1/models", "").status == status }
	}
	body := `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	for _, g := range s.list {
		key := m.mustExchange(t, g)
		got := g.do(t, "POST", "/v1/chat/completions", body, to(s.provider, "x-gateway-api-key", key)[2:]...).wantOK(t)
		var entry map[string]any
		waittest.Until(t, "the request is in the log", func() bool {
			r := g.as(t, bootstrapKey, "GET", "/v1/logs/"+got.header.Get("x-gateway-request-id"), "")
			return r.status == http.StatusOK && json.Unmarshal(r.body, &entry) == nil
		})
		text := fmt.Sprint(entry["metadata"], entry["api_key"])
		for _, want := range []string{"workload_identity:shop", "workload_subject:repo:acme/shop:ref:refs/heads/main", "team:shop", m.key} {
			if !strings.Contains(text, want) {
				t.Errorf("the log entry has %s, want %s", text, want)
			}
		}
		s.arrival(t, "the key is valid", is(key, http.StatusOK))
		for path, body := range map[string]string{"POST /v1/oauth/introspect": `{"token":"` + key + `"}`, "GET /v1/api-keys/self": ""} {
			method, path, _ := strings.Cut(path, " ")
			sender := bootstrapKey
			if body == "" {
				sender = key
			}
			text := string(g.as(t, sender, method, path, body).wantOK(t).body)
			if !strings.Contains(text, `"expires_at":"2`) && !strings.Contains(text, `"active":true`) || strings.Contains(text, `"expires_at":null`) {
				t.Errorf("%s: %s", path, text)
			}
		}
	}
	for name, end := range map[string]func(){
		"disabled": func() {
			s.change(t, "PUT", "/v1/workload-identities/shop", `{"status":"disabled"}`)
			s.change(t, "PUT", "/v1/workload-identities/shop", `{"status":"active"}`)
		},
		"revoked": func() { s.change(t, "POST", "/v1/workload-identities/shop/revoke", "") },
	} {
		key := m.mustExchange(t, s.list[1])
		s.arrival(t, name+": the key is valid", is(key, http.StatusOK))
		end()
		t.Logf("%s: refused after %v", name, s.arrival(t, name+": the key is refused", is(key, http.StatusUnauthorized)))
	}
	key := m.mustExchange(t, s.list[0])
	s.arrival(t, "the key is valid", is(key, http.StatusOK))
	s.change(t, "DELETE", "/v1/workload-identities/shop", "")
	s.arrival(t, "the key of a deleted identity is refused", is(key, http.StatusUnauthorized))
	if got := m.exchange(t, s.list[1]); got.status != http.StatusBadRequest {
		t.Errorf("an exchange with a deleted identity: %d %s", got.status, got.body)
	}
}

// The limits of a service key count for all its short-lived keys together.
func TestAnotherExchangeRefillsNoLimit(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	p := newProvider(t, nil)
	m := newMachine(t, g, `,"rate_limits":[{"type":"requests","unit":"rpd","value":3}]`)
	var statuses []int
	for range 5 {
		key := m.mustExchange(t, g)
		statuses = append(statuses, g.do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
			to(p, "x-gateway-api-key", key)[2:]...).status)
	}
	if got := fmt.Sprint(statuses); got != "[200 200 200 429 429]" {
		t.Errorf("with a new key for each request, of which three are allowed: %s", got)
	}
	// A short-lived key is not sent to providers as their credential.
	key := m.mustExchange(t, g)
	before := len(p.requests())
	g.do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[]}`, "x-gateway-api-key", bootstrapKey, "Authorization", "Bearer "+key,
		"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p.url).refused(t, http.StatusBadRequest)
	if len(p.requests()) > before {
		t.Error("the provider got the key of the gateway")
	}
}

// So do its budgets.
func TestAnotherExchangeRefillsNoBudget(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	p := newProvider(t, nil)
	m := newMachine(t, g, `,"usage_limits":{"type":"tokens","credit_limit":100}`)
	waittest.Until(t, "the budget is used up, whichever key is sent", func() bool {
		return g.do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":40}`,
			to(p, "x-gateway-api-key", m.mustExchange(t, g))[2:]...).status == http.StatusPreconditionFailed
	})
	if n := len(p.requests()); n > 30 {
		t.Errorf("the provider answered %d requests", n)
	}
}

func TestACommandLineSignsInOverNodes(t *testing.T) {
	t.Parallel()
	s := launchNodes(t, 2, storetest.Postgres(t))
	one, two := s.list[0], s.list[1]
	link, _ := s.change(t, "POST", "/v1/admin/users/invites", `{"email":"ann@example.com","role":"member","workspaces":[]}`).object(t)["invite_link"].(string)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	session, _ := one.do(t, "POST", "/v1/auth/invites/accept", fmt.Sprintf(`{"token":%q,"password":"a long password of a test"}`, u.Query().Get("token"))).
		wantOK(t).object(t)["token"].(string)
	begin := func() map[string]any {
		t.Helper()
		return one.form(t, "/oauth/device_authorization", "client_id", "modelgate-cli", "device_name", "laptop").wantOK(t).object(t)
	}
	d := begin()
	poll := func(g *gateway) map[string]any {
		t.Helper()
		return g.form(t, "/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "client_id", "modelgate-cli",
			"device_code", fmt.Sprint(d["device_code"])).object(t)
	}
	if got := poll(two)["error"]; got != "authorization_pending" {
		t.Errorf("before it is approved: %v", got)
	}
	if got := poll(one)["error"]; got != "slow_down" {
		t.Errorf("at once, on the other node: %v", got)
	}
	d = begin() // which nobody asked for yet, so that no interval has to pass
	code := fmt.Sprint(d["user_code"])
	decide := func(header ...string) response {
		return two.do(t, "POST", "/v1/auth/device", fmt.Sprintf(`{"user_code":%q,"decision":"approve"}`, code), header...)
	}
	cookie := "mg_login=" + session
	for name, header := range map[string][]string{
		"another site":      {"Cookie", cookie, "Sec-Fetch-Site", "cross-site"},
		"another subdomain": {"Cookie", cookie, "Sec-Fetch-Site", "same-site"},
		"another origin":    {"Cookie", cookie, "Origin", "https://evil.example"},
	} {
		if got := decide(header...); got.status != http.StatusForbidden {
			t.Errorf("approved from %s: %d %s", name, got.status, got.body)
		}
	}
	decide("Cookie", cookie, "Sec-Fetch-Site", "same-origin").wantOK(t)
	page := one.do(t, "GET", "/device", "").wantOK(t)
	if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || page.header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the page may be framed: %s", csp)
	}
	line, _ := poll(one)["access_token"].(string)
	for _, g := range s.list {
		if got := g.as(t, line, "GET", "/v1/auth/me", ""); got.status != http.StatusOK {
			t.Errorf("the session of the command line: %d %s", got.status, got.body)
		}
	}
	if got := poll(two)["error"]; got != "invalid_grant" {
		t.Errorf("the code again, on the other node: %v", got)
	}
}
