package organisations_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

type trust struct {
	Settings struct {
		JWT *struct {
			URL    string `json:"jwks_url"`
			Set    any    `json:"jwks"`
			Issuer string
			Scopes []string `json:"default_scopes"`
		}
	}
}

func mustTrust(c *routetest.Caller) trust {
	var o trust
	c.Must("GET", "/organisation", "", &o)
	return o
}

func TestAnOrganisationSaysWhoseTokensItTakes(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	set := `{"keys":[{"kty":"RSA","kid":"one","x5c":["MII"],"e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(key.N.Bytes()) + `"}]}`
	b := routetest.New(t, organisations.Routes{}.Add)
	c := b.Root()
	if got := mustTrust(c).Settings.JWT; got != nil {
		t.Errorf("at first: %+v", got)
	}
	c.Must("PUT", "/organisation", `{"settings":{"jwt":{"jwks_url":"https://id.example.com/keys","issuer":"i","default_scopes":["gateway.configs:read"]}}}`, nil)
	if got := mustTrust(c).Settings.JWT; got.URL != "https://id.example.com/keys" || got.Issuer != "i" || !slices.Equal(got.Scopes, []string{"configs.read"}) || got.Set != nil {
		t.Errorf("an address: %+v", got)
	}
	c.Must("PUT", "/organisation", `{"settings":{"user_api_key_ttl":60}}`, nil)
	if got := mustTrust(c).Settings.JWT; got == nil || got.URL == "" {
		t.Errorf("after a change of something else: %+v", got)
	}
	c.Must("PUT", "/organisation", `{"settings":{"jwt":{"jwks":`+set+`}}}`, nil)
	if got := mustTrust(c).Settings.JWT; got.URL != "" || got.Issuer != "" || got.Set == nil {
		t.Errorf("a set takes the place of all: %+v", got)
	}
	for body, field := range map[string]string{
		`{"jwks_url":"https://10.0.0.1/"}`:                                        "settings.jwt.jwks_url",
		`{"jwks_url":"http://id.example.com/"}`:                                   "settings.jwt.jwks_url",
		`{"jwks_url":"https://id.example.com/` + strings.Repeat("x", 2048) + `"}`: "settings.jwt.jwks_url",
		`{"jwks":{"keys":[]}}`:                                                    "settings.jwt.jwks",
		`{"jwks":{"keys":"x"}}`:                                                   "settings.jwt.jwks.keys",
		`{"jwks":{}}`:                                                             "settings.jwt.jwks",
		`{"jwks":` + strings.Replace(set, `"x5c":["MII"]`, `"d":"AQ"`, 1) + `}`:   "settings.jwt.jwks",
		`{"jwks":` + set + `,"jwks_url":"https://id.example.com/"}`:               "settings.jwt",
		`{"jwks":` + set + `,"jwks_uri":"x"}`:                                     "settings.jwt.jwks_uri",
		`{"jwks":` + set + `,"default_scopes":["*"]}`:                             "settings.jwt.default_scopes[0]",
		`{"jwks":` + set + `,"audience":"` + strings.Repeat("x", 256) + `"}`:      "settings.jwt.audience",
		`{}`: "settings.jwt",
	} {
		a := c.Call("PUT", "/organisation", `{"settings":{"jwt":`+body+`}}`)
		if a.Status != http.StatusBadRequest && a.Status != http.StatusUnprocessableEntity || !strings.Contains(a.Body, `"param":"`+field) || !strings.Contains(a.Body, "AB01") {
			t.Errorf("%.80s: %d %s, want AB01 of %s", body, a.Status, a.Body, field)
		}
	}
	if got := mustTrust(c).Settings.JWT; got == nil || got.Set == nil {
		t.Errorf("what is refused changed something: %+v", got)
	}
	if rows := strings.Join(b.Query("SELECT request_body FROM audit_logs"), "\n"); strings.Contains(rows, `"AQ"`) {
		t.Errorf("the audit log has a private part: %s", rows)
	}
	c.Must("PUT", "/organisation", `{"settings":{"jwt":null}}`, nil)
	if got := mustTrust(c).Settings.JWT; got != nil {
		t.Errorf("cleared: %+v", got)
	}
}

// Who says whose tokens are taken can make tokens of every scope.
func TestTrustingAnIssuerNeedsEveryScopeItCouldGrant(t *testing.T) {
	b := routetest.New(t, organisations.Routes{}.Add)
	const body = `{"settings":{"jwt":{"jwks_url":"https://id.example.com/keys"}}}`
	few := []access.Scope{"organisation_settings.read", "organisation_settings.update"}
	for _, tt := range []struct {
		name   string
		id     access.Identity
		status int
	}{
		{"a key of the organisation with few scopes", access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: few}, 403},
		{"one with all but one", access.Identity{Type: access.OrganisationService, Workspace: "-",
			Scopes: slices.DeleteFunc(access.Scopes(access.OrganisationService), func(s access.Scope) bool { return s == "configs.read" })}, 403},
		{"one with all", access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: access.Scopes(access.OrganisationService)}, 200},
		{"the owner", access.Identity{Type: access.Session, UserID: "u", Workspace: "-", Scopes: access.Scopes(access.Session)}, 200},
		{"a token", access.Identity{Type: access.Token, Scopes: access.Scopes(access.Token)}, 403},
	} {
		if a := b.As(tt.id).Call("PUT", "/organisation", body); a.Status != tt.status || tt.status == 403 && !strings.Contains(a.Body, "AB03") {
			t.Errorf("%s: %d %s, want %d", tt.name, a.Status, a.Body, tt.status)
		}
	}
	b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: few}).Must("PUT", "/organisation", `{"settings":{"jwt":null}}`, nil)
}
