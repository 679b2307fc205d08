package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"modelgate/internal/testing/samltest"
)

func TestPeopleSignInWithSAML(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	g := launchFor(t, "version: 1\n", "MODELGATE_MASTER_KEY=the master key of the sign-ins")
	metadata, err := json.Marshal(p.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	id, _ := g.as(t, bootstrapKey, "POST", "/v1/identity-providers",
		fmt.Sprintf(`{"name":"Company","type":"saml","metadata":%s,"domains":["example.com"]}`, metadata)).wantOK(t).object(t)["id"].(string)
	c := exec.CommandContext(t.Context(), program, "domains", "verify", "--data", g.data, "--name", "example.com")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// signIn returns where the gateway sends the browser at the end, and what /auth/me says then.
	signIn := func(t *testing.T, r samltest.Response) (status int, email string) {
		t.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		begin, err := browser.Get(g.root + "/v1/auth/sso/" + id)
		if err != nil {
			t.Fatal(err)
		}
		begin.Body.Close()
		r.Request = samltest.Read(t, begin.Header.Get("Location"))
		end, err := browser.PostForm(g.root+"/v1/auth/sso/"+id+"/acs", url.Values{
			"SAMLResponse": {p.Respond(r)}, "RelayState": {r.Request.State},
		})
		if err != nil {
			t.Fatal(err)
		}
		end.Body.Close()
		res, err := browser.Get(g.root + "/v1/auth/me")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var me struct{ Email string }
		if err := json.NewDecoder(res.Body).Decode(&me); err != nil {
			t.Fatal(err)
		}
		return end.StatusCode, me.Email
	}
	attributes := map[string][]string{"email": {"ada@example.com"}}
	prove(t, "S-043", "a person signs in with SAML", func(t *testing.T) {
		status, email := signIn(t, samltest.Response{NameID: "ada", Attributes: attributes})
		if status != http.StatusSeeOther || email != "ada@example.com" {
			t.Errorf("status %d, then /auth/me says %q", status, email)
		}
	})
	prove(t, "S-566", "the first sign-in with SAML makes a member", func(t *testing.T) {
		signIn(t, samltest.Response{NameID: "bob", Attributes: map[string][]string{"email": {"bob@example.com"}}})
		if got := string(g.as(t, bootstrapKey, "GET", "/v1/admin/users", "").wantOK(t).body); !strings.Contains(got, "bob@example.com") {
			t.Errorf("the users are %s", got)
		}
	})
	prove(t, "S-043", "an assertion by another key is refused", func(t *testing.T) {
		other := samltest.New(t, p.EntityID)
		key := p.Key
		p.Key = other.Key
		defer func() { p.Key = key }()
		status, email := signIn(t, samltest.Response{NameID: "ada", Attributes: attributes})
		if status != http.StatusForbidden || email != "" {
			t.Errorf("status %d, then /auth/me says %q", status, email)
		}
	})
}
