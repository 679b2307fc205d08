package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"strings"
	"testing"

	"modelgate/internal/testing/oidctest"
)

// TestPeopleSignInAtAnIdentityProvider runs a sign-in with OpenID Connect as a browser does.
func TestPeopleSignInAtAnIdentityProvider(t *testing.T) {
	p := oidctest.New(t)
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "OIDC_CUSTOM_SCOPES= groups,phone,groups", "MODELGATE_MASTER_KEY=the master key of the sign-ins")
	must := func(method, path, body string, into any) {
		t.Helper()
		r := g.do(t, method, path, body, "x-gateway-api-key", bootstrapKey)
		r.wantOK(t)
		if err := json.Unmarshal(r.body, into); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	var provider struct{ ID string }
	must("POST", "/v1/identity-providers", fmt.Sprintf(`{"name":"Main","issuer":%q,"client_id":%q,"client_secret":%q,"domains":["example.com"]}`,
		p.URL, oidctest.ClientID, oidctest.ClientSecret), &provider)
	c := exec.CommandContext(t.Context(), program, "domains", "verify", "--data", g.data, "--name", "example.com")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	users := func() string {
		var list struct {
			Data []struct{ Email, Role string }
		}
		must("GET", "/v1/admin/users", "", &list)
		var words []string
		for _, u := range list.Data {
			words = append(words, u.Email+" "+u.Role)
		}
		return strings.Join(words, ", ")
	}
	signIn := func(t *testing.T) *http.Response {
		t.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Jar: jar}
		res, err := client.Get(g.root + "/v1/auth/sso/" + provider.ID + "?next=/v1/auth/me")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	prove(t, "S-526", "the flow asks for the base scopes and those of OIDC_CUSTOM_SCOPES", func(t *testing.T) {
		signIn(t)
		if got := p.Starts()[0].Get("scope"); got != "openid profile email offline_access groups phone" {
			t.Errorf("the scopes are %q", got)
		}
	})
	prove(t, "S-566", "the first sign-in of a subject makes a member", func(t *testing.T) {
		p.Claims = map[string]any{"sub": "first", "email": "first@example.com"}
		res := signIn(t)
		var me struct{ Email, Role string }
		if err := json.NewDecoder(res.Body).Decode(&me); err != nil || res.StatusCode != http.StatusOK || me.Email != "first@example.com" || me.Role != "member" {
			t.Errorf("status %d, %+v, %v", res.StatusCode, me, err)
		}
		if got := users(); !strings.Contains(got, "first@example.com member") {
			t.Errorf("the users are %q", got)
		}
	})
	prove(t, "S-566", "a waiting invite is accepted", func(t *testing.T) {
		must("POST", "/v1/admin/users/invites", `{"email":"second@example.com","role":"admin","workspaces":[],"workspace_api_key_details":{"scopes":["models.list"]}}`, new(any))
		p.Claims = map[string]any{"sub": "second", "email": "second@example.com"}
		signIn(t)
		if got := users(); !strings.Contains(got, "second@example.com admin") {
			t.Errorf("the users are %q", got)
		}
	})
	prove(t, "S-566", "an address that is not proved makes no member", func(t *testing.T) {
		p.Claims = map[string]any{"sub": "third", "email": "third@example.com", "email_verified": false}
		if res := signIn(t); res.StatusCode != http.StatusForbidden || strings.Contains(users(), "third") {
			t.Errorf("status %d, users %q", res.StatusCode, users())
		}
	})
}
