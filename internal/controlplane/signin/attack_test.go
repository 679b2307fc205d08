package signin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// TestAProviderThatWasTurnedOffSignsNobodyIn: whoever turns a provider off, or gives
// it another issuer, must not wait for those who are there.
func TestAProviderThatWasTurnedOffSignsNobodyIn(t *testing.T) {
	for name, change := range map[string]string{
		"disabled": `{"status":"disabled"}`,
		"changed":  `{"client_id":"another","client_secret":"another"}`,
		"removed":  "",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Exchanging = func() {
				if change == "" {
					w.root.Must("DELETE", "/identity-providers/"+w.id, "", nil)
				} else {
					w.root.Must("PUT", "/identity-providers/"+w.id, change, nil)
				}
			}
			b := w.browser()
			if a := b.signIn(); a.Status != http.StatusForbidden || w.reason() != "provider_changed" {
				t.Errorf("%d %s", a.Status, w.reason())
			}
			if b.cookies[login] != "" || w.sessions() != 0 || w.users() != "" {
				t.Errorf("%d sessions, users %q", w.sessions(), w.users())
			}
		})
	}
}

// TestDomainsAreThoseOfTheEnd: what the provider may do is decided at the end.
func TestDomainsAreThoseOfTheEnd(t *testing.T) {
	w := newWorld(t)
	w.Exchanging = func() { w.root.Must("PUT", "/identity-providers/"+w.id, `{"domains":[]}`, nil) }
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "unproved_email" {
		t.Errorf("%d %s", a.Status, w.reason())
	}
}

// TestARemovedPersonComesBackOnlyIfTheyAreAsked: removing somebody is not undone by their
// next sign-in, and does not keep them out once they are added again.
func TestARemovedPersonComesBackOnlyIfTheyAreAsked(t *testing.T) {
	remove := func(t *testing.T, w *world) {
		t.Helper()
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
			t.Fatalf("%d %s", a.Status, w.reason())
		}
		w.root.Must("DELETE", "/admin/users/"+w.Query(`SELECT user_id FROM identities`)[0], "", nil)
		if w.sessions() != 0 {
			t.Fatal("the sessions go on")
		}
		for range 2 { // what a refusal did is undone
			if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "removed" || w.users() != "" {
				t.Fatalf("a removed person: %d %s, users %q", a.Status, w.reason(), w.users())
			}
		}
	}
	identities := func(w *world) []string { return w.Query(`SELECT subject || ' ' || user_id FROM identities`) }
	t.Run("invited", func(t *testing.T) {
		w := newWorld(t)
		remove(t, w)
		w.root.Must("POST", "/admin/users/invites", `{"email":"ada@example.com","role":"admin","workspaces":[{"id":"default","role":"member"}],"workspace_api_key_details":{"scopes":["models.list"]}}`, nil)
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.users() != "ada@example.com admin" {
			t.Errorf("%d %s, users %q", a.Status, w.reason(), w.users())
		}
	})
	t.Run("added", func(t *testing.T) {
		w := newWorld(t)
		remove(t, w)
		w.addUser("again", "ada@example.com", "member")
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther || !slices.Equal(identities(w), []string{"ada again"}) {
			t.Errorf("%d %s, identities %q", a.Status, w.reason(), identities(w))
		}
	})
	t.Run("another who has the address now", func(t *testing.T) {
		w := newWorld(t)
		remove(t, w)
		w.addUser("boss", "ada@example.com", "owner")
		if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "owner_must_link" {
			t.Errorf("%d %s", a.Status, w.reason())
		}
	})
}

func TestOnlyTheDirectoryAddsUsersIfItShould(t *testing.T) {
	w := newWorld(t)
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"directory":{"users_only":true}}}`, nil)
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "directory_only" || w.users() != "" {
		t.Errorf("%d %s, users %q", a.Status, w.reason(), w.users())
	}
	w.addUser("ada", "ada@example.com", "member")
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Errorf("a user of the directory: %d %s", a.Status, w.reason())
	}
}

// TestAddressesThatLookAlikeAreNotTheSame: no spelling of an address is the account of
// another, but letter case makes no difference.
func TestAddressesThatLookAlikeAreNotTheSame(t *testing.T) {
	for _, tt := range []struct{ email, want string }{
		{"ADA@EXAMPLE.COM", ""},
		{"ada+admin@example.com", "another user"},
		{"a.da@example.com", "another user"},
		{"\u212Aate@example.com", "no_email"}, // the Kelvin sign is k in lower case
		{"аda@example.com", "no_email"},       // a Cyrillic а
		{"ada@example.com.", "no_email"},
		{"ada@example.com\u200b", "no_email"},
		{"\"ada\"@example.com", "no_email"},
		{"Ada <ada@example.com>", "no_email"},
		{"ada@evil.example,ada@example.com", "no_email"},
		{"ada@evil.example@example.com", "no_email"},
		{"ada@sub.example.com", "unproved_email"},
		{"ada@example.com.evil.example", "unproved_email"},
		{"ada@example.net", "unproved_email"}, // one of the provider's domains that is not verified
	} {
		w := newWorld(t)
		w.addUser("ada", "ada@example.com", "admin")
		w.addUser("kate", "kate@example.com", "admin")
		w.Claims = map[string]any{"email": tt.email}
		a := w.browser().signIn()
		users := w.Query(`SELECT user_id FROM identities`)
		switch {
		case tt.want == "" && !slices.Equal(users, []string{"ada"}):
			t.Errorf("%q: %d %s, user %q", tt.email, a.Status, w.reason(), users)
		case tt.want == "another user" && (len(users) != 1 || users[0] == "ada"):
			t.Errorf("%q: %d %s, user %q", tt.email, a.Status, w.reason(), users)
		case tt.want != "" && tt.want != "another user" && (a.Status != http.StatusForbidden || w.reason() != tt.want || len(users) != 0):
			t.Errorf("%q: %d %s, user %q, want %s", tt.email, a.Status, w.reason(), users, tt.want)
		}
	}
}

// TestARemovedDomainProvesNothing: it proves nothing either when it is added again, or when
// another organisation proves it.
func TestARemovedDomainProvesNothing(t *testing.T) {
	w := newWorld(t)
	refused := func(when string) {
		t.Helper()
		if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "unproved_email" {
			t.Errorf("%s: %d %s", when, a.Status, w.reason())
		}
	}
	old := w.records
	w.root.Must("DELETE", "/domains/example.com", "", nil)
	refused("removed")
	w.root.Must("POST", "/domains", `{"name":"example.com"}`, nil)
	refused("added again")
	w.records = old // the record of the first time is still in the DNS
	if a := w.root.Call("POST", "/domains/example.com/verify", ""); a.Status != http.StatusConflict {
		t.Errorf("the old record proves it: %d %s", a.Status, a.Body)
	}
	refused("with the old record")
	other := w.other()
	var d struct {
		Record string `json:"record_value"`
	}
	other.Must("POST", "/domains", `{"name":"example.com"}`, &d)
	w.records = []string{d.Record}
	other.Must("POST", "/domains/example.com/verify", "", nil)
	refused("proved by another organisation")
	if a := w.root.Call("POST", "/domains/example.com/verify", ""); a.Status != http.StatusConflict {
		t.Errorf("two organisations have it: %d %s", a.Status, a.Body)
	}
}

// TestAnInviteIsOfItsOrganisation: the provider of one organisation accepts no invite of
// another, and gives no access there.
func TestAnInviteIsOfItsOrganisation(t *testing.T) {
	w := newWorld(t)
	other := w.other()
	var home struct{ ID string }
	other.Must("POST", "/admin/workspaces", `{"name":"Home"}`, &home)
	other.Must("POST", "/admin/users/invites",
		`{"email":"ada@example.com","role":"admin","workspaces":[{"id":"`+home.ID+`","role":"member"}],"workspace_api_key_details":{"scopes":["models.list"]}}`, nil)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.users() != "ada@example.com member" {
		t.Errorf("%d %s, users %q", a.Status, w.reason(), w.users())
	}
	if got := w.Query(`SELECT status FROM invites`); !slices.Equal(got, []string{"pending"}) {
		t.Errorf("the invite is %q", got)
	}
}

// other returns an administrator of another organisation.
func (w *world) other() *routetest.Caller {
	w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('other', 'other', 'Other', '', '{}', '', 'active', 0, 0)`)
	return w.As(access.Identity{Organisation: "other", Scopes: []access.Scope{access.ScopeAll}})
}

// TestTheHostOfARequestIsNotBelieved: it would be the address to which a code is sent.
func TestTheHostOfARequestIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	for _, public := range []string{"", "https://gateway.example.com/prefix"} {
		w.API.PublicURL = func() string { return public }
		host := "listen.example:8787"
		if public != "" {
			host = "gateway.example.com"
		}
		a := w.Nobody().CallWith("GET", "/auth/sso/"+w.id, "", http.Header{
			"Host": {"evil.example"}, "X-Forwarded-Host": {"evil.example"}, "Forwarded": {"host=evil.example"}, "X-Forwarded-Prefix": {"//evil.example"},
		})
		u, err := url.Parse(a.Header.Get("Location"))
		if err != nil || a.Status != http.StatusFound {
			t.Fatalf("%d %s", a.Status, a.Header.Get("Location"))
		}
		if back, err := url.Parse(u.Query().Get("redirect_uri")); err != nil || back.Host != host || strings.Contains(a.Header.Get("Location"), "evil") {
			t.Errorf("public_url %q: the code goes to %s", public, u.Query().Get("redirect_uri"))
		}
	}
}

// TestOrganisationsWithoutProvidersLookUnknown compares the complete responses.
func TestOrganisationsWithoutProvidersLookUnknown(t *testing.T) {
	w := newWorld(t)
	other := w.other()
	ask := func(name string) string {
		a := w.Nobody().Call("GET", "/auth/methods?organisation="+url.QueryEscape(name), "")
		a.Header.Del("X-Gateway-Request-Id")
		var out strings.Builder
		if err := a.Header.Write(&out); err != nil {
			t.Fatal(err)
		}
		return out.String() + a.Body
	}
	unknown := ask("unknown")
	if !strings.Contains(unknown, `"sso":[]`) {
		t.Fatalf("an unknown organisation: %s", unknown)
	}
	if got := ask("other"); got != unknown {
		t.Errorf("an organisation without providers: %s\nan unknown one: %s", got, unknown)
	}
	other.Must("POST", "/identity-providers", `{"name":"n","slug":"n","issuer":"https://a.example","client_id":"c","client_secret":"s","status":"disabled"}`, nil)
	for _, name := range []string{"other", "' OR 1=1 --", "%", strings.Repeat("a", 255)} {
		if got := ask(name); got != unknown {
			t.Errorf("%q: %s\nan unknown one: %s", name, got, unknown)
		}
	}
}

// TestADirectoryKeepsDeactivatedPeopleOut: also those whose account is linked, and those who
// sign in for the first time.
func TestADirectoryKeepsDeactivatedPeopleOut(t *testing.T) {
	w := newWorld(t)
	directory := w.As(access.Identity{Type: access.Directory, Organisation: store.DefaultOrganisation})
	scim := func(method, path, body string) string {
		t.Helper()
		a := directory.CallWith(method, "/scim/v2"+path, body, http.Header{"Content-Type": {"application/scim+json"}})
		var out struct{ ID string }
		if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.Status >= http.StatusBadRequest {
			t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
		return out.ID
	}
	set := func(id string, active bool) {
		t.Helper()
		scim("PATCH", "/Users/"+id, fmt.Sprintf(`{"Operations":[{"op":"replace","value":{"active":%t}}]}`, active))
	}
	id := scim("POST", "/Users", `{"userName":"ada@example.com","active":false}`)
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "must_link" {
		t.Errorf("never active: %d %s", a.Status, w.reason())
	}
	set(id, true)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.sessions() != 1 {
		t.Fatalf("active: %d %s", a.Status, w.reason())
	}
	w.Exchanging = func() { set(id, false) }
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "disabled" || w.sessions() != 0 {
		t.Errorf("deactivated at the provider: %d %s, %d sessions", a.Status, w.reason(), w.sessions())
	}
	w.Exchanging = nil
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "disabled" {
		t.Errorf("deactivated: %d %s", a.Status, w.reason())
	}
}

// TestAProviderThatIsAwayIsNamedWithItsTime: people must know whether to wait.
func TestAProviderThatIsAwayIsNamedWithItsTime(t *testing.T) {
	w := newWorld(t)
	w.Document = map[string]any{"token_endpoint": nil}
	named := regexp.MustCompile(`The identity provider Main login cannot be used since 20[0-9-]{8} [0-9:]{5} UTC\.`)
	for range 2 { // the second time, nobody asks the provider
		a := w.browser().open("/auth/sso/" + w.id)
		if a.Status != http.StatusBadGateway || !named.MatchString(a.Body) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
}
