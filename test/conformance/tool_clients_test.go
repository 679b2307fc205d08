package conformance

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
)

// toolClient is a client of tool servers that an administrator registered, and a person who uses it.
type toolClient struct {
	id, session string
}

const (
	toolCallback = "https://client.example/callback"
	toolVerifier = "0123456789012345678901234567890123456789abc"
)

// newToolClient invites a member of the default workspace and registers a client.
func newToolClient(t *testing.T, s *nodes) *toolClient {
	t.Helper()
	link, _ := s.change(t, "POST", "/v1/admin/users/invites", `{"email":"ann@example.com","role":"member","workspaces":[{"id":"default","role":"member"}]}`).
		object(t)["invite_link"].(string)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	c := new(toolClient)
	c.session, _ = s.list[0].do(t, "POST", "/v1/auth/invites/accept", fmt.Sprintf(`{"token":%q,"password":"a long password of a test"}`, u.Query().Get("token"))).
		wantOK(t).object(t)["token"].(string)
	c.id, _ = s.change(t, "POST", "/v1/oauth/clients", `{"name":"Portal","redirect_uris":["`+toolCallback+`"]}`).object(t)["id"].(string)
	return c
}

// mustSignIn consents on one node, and returns the tokens that the client gets of another.
func (c *toolClient) mustSignIn(t *testing.T, one, two *gateway) map[string]any {
	t.Helper()
	sum := sha256.Sum256([]byte(toolVerifier))
	request := url.Values{
		"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {toolCallback}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	}.Encode()
	asked := one.as(t, c.session, "GET", "/v1/auth/consent?request="+url.QueryEscape(request), "").wantOK(t).object(t)
	target, _ := one.as(t, c.session, "POST", "/v1/auth/consent", fmt.Sprintf(`{"request":%q,"consent_token":%q,"decision":"allow"}`, request, asked["consent_token"])).
		wantOK(t).object(t)["redirect_uri"].(string)
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return two.form(t, "/oauth/token", "grant_type", "authorization_code", "client_id", c.id, "redirect_uri", toolCallback,
		"code", u.Query().Get("code"), "code_verifier", toolVerifier).wantOK(t).object(t)
}

// bearer sends a request with an access token.
func (g *gateway) bearer(t *testing.T, token any, method, path, body string) response {
	t.Helper()
	return g.do(t, method, path, body, "Authorization", fmt.Sprint("Bearer ", token))
}

func TestClientsOfToolServersSignInAndOutOnEveryNode(t *testing.T) {
	t.Parallel()
	s := launchNodes(t, 2, storetest.Postgres(t))
	one, two := s.list[0], s.list[1]
	c := newToolClient(t, s)
	tokens := c.mustSignIn(t, one, two)
	valid := func(tokens map[string]any, want bool) func(*gateway) bool {
		return func(g *gateway) bool {
			return (g.bearer(t, tokens["access_token"], "POST", "/mcp", `{}`).status != http.StatusUnauthorized) == want
		}
	}
	s.arrival(t, "the access token is valid", valid(tokens, true))
	for _, g := range s.list { // nowhere else
		for _, r := range [][3]string{
			{"POST", "/v1/chat/completions", `{"model":"m","messages":[]}`}, {"GET", "/v1/models", ""}, {"GET", "/v1/auth/me", ""}, {"GET", "/v1/auth/grants", ""},
			{"GET", "/v1/logs/tail", ""}, {"GET", "/scim/v2/Users", ""}, {"POST", "/mcp/other", `{}`}, {"POST", "/other/mcp", `{}`}, {"POST", "/v1/files", ""},
		} {
			got := g.bearer(t, tokens["access_token"], r[0], r[1], r[2])
			if got.status != http.StatusUnauthorized && (got.status != http.StatusForbidden || !strings.HasPrefix(r[1], "/scim")) {
				t.Errorf("%s %s with an access token: %d %s", r[0], r[1], got.status, got.body)
			}
		}
	}
	root := strings.TrimSuffix(one.url, "/v1")
	for path, want := range map[string]string{
		"/mcp":        `resource_metadata="` + root + `/.well-known/oauth-protected-resource/mcp", scope="mcp.invoke"`,
		"/mcp/x":      `resource_metadata="` + root + `/.well-known/oauth-protected-resource/mcp/x", scope="mcp.invoke"`,
		"/v1/x/mcp":   `resource_metadata="` + root + `/.well-known/oauth-protected-resource/v1/x/mcp", scope="mcp.invoke"`,
		"/v1/models/": "",
	} {
		if got := one.do(t, "POST", path, `{}`); got.status != http.StatusUnauthorized || want != "" && got.header.Get("WWW-Authenticate") != "Bearer "+want {
			t.Errorf("%s without a credential: %d, challenge %q, want %q", path, got.status, got.header.Get("WWW-Authenticate"), want)
		}
	}
	if got := one.bearer(t, "mg-unknown", "POST", "/mcp", `{}`).header.Get("WWW-Authenticate"); !strings.HasPrefix(got, `Bearer error="invalid_token", `) {
		t.Errorf("the challenge for an unknown token is %q", got)
	}
	if got := one.as(t, bootstrapKey, "POST", "/mcp", `{}`); got.status == http.StatusUnauthorized || got.header.Get("WWW-Authenticate") != "" {
		t.Errorf("a gateway key: %d, challenge %q", got.status, got.header.Get("WWW-Authenticate"))
	}
	got := one.do(t, "POST", "/mcp", `{}`, "x-gateway-api-key", bootstrapKey, "Authorization", fmt.Sprint("Bearer ", tokens["access_token"]))
	if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "conflicting_credentials") || got.header.Get("WWW-Authenticate") != "" {
		t.Errorf("a key and a token: %d %s", got.status, got.body)
	}

	for name, end := range map[string]func(tokens map[string]any){
		"revoked by the person": func(map[string]any) {
			list := one.as(t, c.session, "GET", "/v1/auth/grants", "").wantOK(t).object(t)["data"].([]any)
			for _, g := range list {
				two.as(t, c.session, "DELETE", fmt.Sprint("/v1/auth/grants/", g.(map[string]any)["id"]), "").wantOK(t)
			}
		},
		"reused": func(tokens map[string]any) {
			next := fmt.Sprint(tokens["refresh_token"])
			for range 2 { // the first is two steps behind then
				next = fmt.Sprint(two.form(t, "/oauth/token", "grant_type", "refresh_token", "client_id", c.id, "refresh_token", next).wantOK(t).object(t)["refresh_token"])
			}
			got := one.form(t, "/oauth/token", "grant_type", "refresh_token", "client_id", c.id, "refresh_token", fmt.Sprint(tokens["refresh_token"]))
			if got.status != http.StatusBadRequest {
				t.Errorf("a refresh token that was replaced: %d %s", got.status, got.body)
			}
		},
	} {
		tokens := c.mustSignIn(t, two, one)
		s.arrival(t, name+": the access token is valid", valid(tokens, true))
		end(tokens)
		t.Logf("%s: refused after %v", name, s.arrival(t, name+": the access token is refused", valid(tokens, false)))
	}
	tokens = c.mustSignIn(t, one, one)
	s.arrival(t, "the access token is valid", valid(tokens, true))
	user := one.as(t, c.session, "GET", "/v1/auth/me", "").wantOK(t).object(t)["user_id"]
	s.change(t, "DELETE", fmt.Sprint("/v1/admin/users/", user), "")
	s.arrival(t, "the access token of a removed member is refused", valid(tokens, false))
	if got := two.form(t, "/oauth/token", "grant_type", "refresh_token", "client_id", c.id, "refresh_token", fmt.Sprint(tokens["refresh_token"])); got.status != http.StatusBadRequest {
		t.Errorf("refreshing it: %d %s", got.status, got.body)
	}
}
