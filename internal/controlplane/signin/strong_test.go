package signin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// TestSessionsOfAProviderAreStrongIfItSaysSo: what a provider does not say, or says in another
// word, leaves a second factor due.
func TestSessionsOfAProviderAreStrongIfItSaysSo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		setting string
		claims  map[string]any
		factor  bool // that the member has
		want    string
	}{
		{"amr", `["mfa"]`, map[string]any{"amr": []any{"pwd", "mfa"}}, true, ""},
		{"acr", `["phr"]`, map[string]any{"acr": "phr"}, true, ""},
		{"another value", `["mfa"]`, map[string]any{"amr": []any{"pwd"}, "acr": "mfa2"}, true, store.PendingFactor},
		{"no value", `["mfa"]`, nil, true, store.PendingFactor},
		{"an empty value", `["mfa",""]`, map[string]any{"acr": ""}, true, store.PendingFactor},
		{"no setting", `[]`, map[string]any{"amr": []any{"mfa"}}, true, store.PendingFactor},
		{"no factor", `["mfa"]`, nil, false, store.PendingEnrolment},
		{"no factor, and strong", `["mfa"]`, map[string]any{"amr": []any{"mfa"}}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if a := w.browser().signIn(); a.Status != http.StatusSeeOther { // makes the member
				t.Fatal(w.reason())
			}
			w.root.Must("PUT", "/identity-providers/login", `{"strong_authentication":`+tt.setting+`}`, nil)
			w.root.Must("PUT", "/admin/organisation", `{"settings":{"require_second_factor":true}}`, nil)
			if tt.factor {
				w.Exec(`INSERT INTO one_time_codes (organisation_id, user_id, sealed, last_step, created_at) SELECT $1, id, 's', 0, 0 FROM users`, store.DefaultOrganisation)
			}
			w.Claims = tt.claims
			b := w.browser()
			a := b.open(b.begin("?next=/console"))
			rows := w.Query(`SELECT pending || '/' || factor FROM sessions ORDER BY created_at DESC, rowid DESC LIMIT 1`)
			to, want := "/console", tt.want+"/sso"
			if tt.want != "" {
				to, want = "/login?next=%2Fconsole", tt.want+"/"
			}
			if a.Status != http.StatusSeeOther || a.Header.Get("Location") != to || rows[0] != want {
				t.Errorf("%d to %s, the session is %q; want %q", a.Status, a.Header.Get("Location"), rows, want)
			}
		})
	}
}

// TestNoProviderSaysThatAnOwnerIsStrong: admins choose which values count.
func TestNoProviderSaysThatAnOwnerIsStrong(t *testing.T) {
	w := newWorld(t)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Fatal(w.reason())
	}
	w.root.Must("PUT", "/identity-providers/login", `{"strong_authentication":["mfa"]}`, nil)
	w.Exec(`UPDATE organisation_members SET role = 'owner'`)
	w.Claims = map[string]any{"amr": []any{"mfa"}}
	w.browser().signIn()
	if rows := w.Query(`SELECT factor FROM sessions ORDER BY created_at DESC, rowid DESC LIMIT 1`); rows[0] != "" {
		t.Errorf("an owner's session has the factor %q", rows)
	}
}

// TestTheLastWayInOfAnOwnerStays: an admin must not lock the owners out.
func TestTheLastWayInOfAnOwnerStays(t *testing.T) {
	w := newWorld(t)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Fatal(w.reason())
	}
	w.Exec(`UPDATE organisation_members SET role = 'owner'`)
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"password_sign_in":false}}`, nil)
	user := w.Query(`SELECT user_id FROM identities`)[0]
	own := w.As(access.Identity{KeyID: "s", Type: access.Session, UserID: user, Scopes: access.RoleScopes("owner"), ProvedAt: w.API.Now()})
	for _, tt := range []struct {
		c                  *routetest.Caller
		method, path, body string
	}{
		{w.root, "PUT", "/identity-providers/" + w.id, `{"status":"disabled"}`},
		{w.root, "DELETE", "/identity-providers/" + w.id, ""},
		{own, "DELETE", "/auth/identities/" + w.Query(`SELECT id FROM identities`)[0], ""},
	} {
		if a := tt.c.Call(tt.method, tt.path, tt.body); a.Status != http.StatusConflict || !strings.Contains(a.Body, "no_other_sign_in") {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, a.Status, a.Body)
		}
	}
	if n := len(w.Query(`SELECT id FROM identities`)); n != 1 {
		t.Errorf("%d identities are left", n)
	}
}

// TestAConfirmationNeedsTheProviderToAskAgain: a browser that is signed in at the provider
// proves nothing about who sits there.
func TestAConfirmationNeedsTheProviderToAskAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		auth any // seconds from now; nil leaves it out
		ok   bool
	}{
		{"again", 0, true}, {"an hour ago", -3600, false}, {"two minutes ago", -120, false}, {"unknown", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if s, ok := tt.auth.(int); ok {
				w.Claims = map[string]any{"auth_time": time.Now().Add(time.Duration(s) * time.Second).Unix()}
			}
			b := w.browser()
			start := b.open("/auth/sso/" + w.id + "?confirm=true").Header.Get("Location")
			if !strings.Contains(start, "max_age=0") || !strings.Contains(start, "prompt=login") {
				t.Errorf("the browser is sent to %s", start)
			}
			a := b.open(b.visit(start))
			if (a.Status == http.StatusSeeOther) != tt.ok || !tt.ok && w.reason() != "auth_time" {
				t.Errorf("%d %s", a.Status, w.reason())
			}
		})
	}
}

// TestASilentSignInIsNotFresh: its session is as fresh as what the provider saw.
func TestASilentSignInIsNotFresh(t *testing.T) {
	w := newWorld(t)
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, tt := range []struct {
		claims map[string]any
		want   func(proved time.Time) bool
	}{
		{map[string]any{"auth_time": at.Unix()}, func(p time.Time) bool { return p.Equal(at) }},
		{map[string]any{"auth_time": at.Add(1000 * time.Hour).Unix()}, func(p time.Time) bool { return time.Since(p) < time.Minute && !p.After(time.Now()) }},
		{nil, func(p time.Time) bool { return time.Since(p) < time.Minute }},
	} {
		w.Claims = tt.claims
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
			t.Fatal(w.reason())
		}
		s, err := w.DB.Sessions(t.Context(), store.DefaultOrganisation, w.Query(`SELECT id FROM users`)[0])
		if err != nil {
			t.Fatal(err)
		}
		if newest := s[0]; !tt.want(newest.ProvedAt) {
			t.Errorf("%v: proved at %s", tt.claims, newest.ProvedAt)
		}
	}
}
