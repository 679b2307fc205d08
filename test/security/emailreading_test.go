package security

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// alikes are addresses that look like kim@example.com, or become it in lower case, or are
// taken for it by some mail servers.
var alikes = map[string]string{
	"the Kelvin sign": "\u212aim@example.com", "a dotted capital I": "K\u0130M@example.com", "a dotless i": "k\u0131m@example.com", "a Cyrillic letter": "\u043aim@example.com",
	"a full-width letter": "\uff4bim@example.com", "a full-width at": "kim\uff20example.com", "a full-width stop": "kim@example\uff0ecom", "an ideographic stop": "kim@example\u3002com",
	"a zero-width space": "kim\u200b@example.com", "a zero-width joiner": "k\u200dim@example.com", "a byte order mark": "\ufeffkim@example.com", "a soft hyphen": "ki\u00adm@example.com",
	"an override of direction": "\u202ekim@example.com", "a variation selector": "kim\ufe0f@example.com", "a combining mark": "kim\u0307@example.com", "a dot at the end": "kim@example.com.",
	"a dot before the at": "kim.@example.com", "a space at the end": "kim@example.com ", "a space before": " kim@example.com", "a name": "Kim <kim@example.com>", "angle brackets": "<kim@example.com>",
	"a comment": "kim(x)@example.com", "quotes": "\"kim\"@example.com", "two addresses": "kim@example.com,ann@example.com", "a line break": "kim@example.com\n",
}

// TestAddressesAreReadInOneWay gives look-alikes of an account's address wherever an address
// names an account.
func TestAddressesAreReadInOneWay(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: behindProxy})
	session := g.member(t, "kim", "member", `[{"id":"default","role":"member"}]`)
	id := g.userID(t, session)
	client := 0
	at := func() string { client++; return fmt.Sprint("203.0.113.", client) }
	unknown := g.signIn(t, at(), "nobody@example.com", password).refused(t, http.StatusUnauthorized)
	key := g.create(t, rootKey, "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["models.list"],"alert_emails":["Kim@Example.com"]}`, "id")
	for name, address := range alikes {
		attack(t, "sessions", "a sign-in by an address with "+name, func(t *testing.T) {
			if r := g.signIn(t, at(), address, password).refused(t, http.StatusUnauthorized); string(r.body) != string(unknown.body) {
				t.Errorf("the answer is %s, for an unknown address %s", r.body, unknown.body)
			}
		})
		attack(t, "sessions", "an invitation of an address with "+name+", next to its account", func(t *testing.T) {
			g.as(t, rootKey, "POST", "/v1/admin/users/invites", fmt.Sprintf(`{"email":%q,"role":"member","workspaces":[]}`, address)).refused(t, http.StatusBadRequest, "email")
		})
		attack(t, "sessions", "a user named by an address with "+name, func(t *testing.T) {
			if r := g.as(t, rootKey, "POST", "/v1/admin/users/"+url.PathEscape(address)+"/password-reset", ""); r.status != http.StatusNotFound && r.status != http.StatusBadRequest {
				t.Errorf("a reset link: status %d: %s", r.status, r.body)
			}
			if r := g.as(t, rootKey, "GET", "/v1/admin/users?email="+url.QueryEscape(address), ""); r.status != http.StatusBadRequest && strings.Contains(string(r.body), id) {
				t.Errorf("the list has the account: %s", r.body)
			}
			g.as(t, rootKey, "POST", "/v1/workspaces/default/users", fmt.Sprintf(`{"users":[{"id":%q,"role":"admin"}]}`, address)).refused(t, http.StatusNotFound)
		})
		attack(t, "injection", "alerts to an address with "+name, func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+key, fmt.Sprintf(`{"alert_emails":["ann@example.com",%q]}`, address)).refused(t, http.StatusBadRequest, "alert_emails")
			g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", fmt.Sprintf(`{"name":"k","workspace_id":"default","scopes":["models.list"],"alert_emails":[%q]}`, address)).refused(t, http.StatusBadRequest, "alert_emails")
		})
	}
	for _, name := range []string{"the Kelvin sign", "a full-width letter", "a zero-width space", "a dot at the end", "a space at the end", "a name"} {
		address := alikes[name]
		attack(t, "sessions", "a reset by the operator of an address with "+name, func(t *testing.T) {
			if out, errText, code := command(t, append([]string{"users", "reset-password", "--email", address}, g.where()...)...); code == 0 || strings.Contains(out, "token=") {
				t.Errorf("exit %d: %s%s", code, out, errText)
			}
		})
		attack(t, "sessions", "a file with an address with "+name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, "version: 1\nmembers:\n  - {email: %q, role: admin}\n", address), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, errText, code := command(t, append(append([]string{"apply"}, g.where()...), file)...); code == 0 || !strings.Contains(errText, "email") {
				t.Errorf("apply: exit %d: %s%s", code, out, errText)
			}
		})
	}
	for _, address := range []string{"kim@example.com", "KIM@EXAMPLE.COM", "Kim@Example.com"} {
		if got := g.signIn(t, at(), address, password).ok(t).text(t, "user_id"); got != id {
			t.Errorf("%s signs in as %s, want %s", address, got, id)
		}
		g.as(t, rootKey, "GET", "/v1/admin/users/"+address, "").ok(t)
	}
}
