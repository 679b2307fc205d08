package security

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// methods are those that change something.
var methods = []string{"POST", "PUT", "DELETE"}

func TestSessionsEndEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		all := nodes(t, o)
		g := all[0]
		ended := func(t *testing.T, session string) {
			t.Helper()
			for i, node := range all {
				for _, path := range []string{"/v1/auth/me", "/v1/auth/sessions", "/v1/workspaces"} {
					if r := node.as(t, session, "GET", path, ""); r.status != http.StatusUnauthorized {
						t.Errorf("node %d: GET %s = %d: %.200s", i, path, r.status, r.body)
					}
				}
			}
		}
		for _, tt := range []struct {
			name string
			end  func(t *testing.T, user, session string)
		}{
			{"sign-out", func(t *testing.T, _, s string) { g.as(t, s, "POST", "/v1/auth/logout", "").ok(t) }},
			{"all own sessions", func(t *testing.T, _, s string) { g.as(t, s, "DELETE", "/v1/auth/sessions", "").ok(t) }},
			{"another own session", func(t *testing.T, user, s string) {
				id := sessionID(t, g, s)
				other := g.signIn(t, "203.0.113.1", user, password).ok(t).text(t, "token")
				g.as(t, other, "DELETE", "/v1/auth/sessions/"+id, "").ok(t)
			}},
			{"a password change elsewhere", func(t *testing.T, user, _ string) {
				other := g.signIn(t, "203.0.113.1", user, password).ok(t).text(t, "token")
				g.as(t, other, "PUT", "/v1/auth/password", `{"current_password":"`+password+`","password":"`+password+` 2"}`).ok(t)
				g.as(t, other, "GET", "/v1/auth/me", "").ok(t)
				g.signIn(t, "203.0.113.1", user, password).refused(t, http.StatusUnauthorized)
			}},
			{"a reset", func(t *testing.T, user, _ string) {
				link := g.create(t, rootKey, "/v1/admin/users/"+user+"/password-reset", "", "link")
				_, token, _ := strings.Cut(link, "token=")
				g.do(t, "POST", "/v1/auth/password", linkBody("", token)).ok(t)
			}},
			{"an admin", func(t *testing.T, user, _ string) {
				g.as(t, rootKey, "DELETE", "/v1/admin/users/"+user+"/sessions", "").ok(t)
			}},
			{"an admin, one of them", func(t *testing.T, user, s string) {
				g.as(t, rootKey, "DELETE", "/v1/admin/users/"+user+"/sessions/"+sessionID(t, g, s), "").ok(t)
			}},
			{"removal", func(t *testing.T, user, _ string) { g.as(t, rootKey, "DELETE", "/v1/admin/users/"+user, "").ok(t) }},
		} {
			attack(t, "sessions", "a session goes on after "+tt.name, func(t *testing.T) {
				name := strings.ReplaceAll(strings.ReplaceAll(tt.name, " ", "-"), ",", "")
				session := g.member(t, name, "member", "[]")
				for _, node := range all {
					node.as(t, session, "GET", "/v1/auth/me", "").ok(t)
				}
				tt.end(t, name+"@example.com", session)
				ended(t, session)
			})
		}
	})
}

// sessionID returns the id of a session.
func sessionID(t *testing.T, g *gateway, session string) string {
	t.Helper()
	var list struct {
		Data []struct {
			ID      string
			Current bool
		}
	}
	if err := json.Unmarshal(g.as(t, session, "GET", "/v1/auth/sessions", "").ok(t).body, &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Data {
		if s.Current {
			return s.ID
		}
	}
	t.Fatal("the current session is not listed")
	return ""
}

func TestSessionsBelongToTheirPerson(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: behindProxy})
	ann, bob := g.member(t, "ann", "member", "[]"), g.member(t, "bob", "admin", "[]")
	stranger := g.organisation(t, "elsewhere")
	id := sessionID(t, g, ann)
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	for _, tt := range []struct {
		name, token, method, path, body string
		status                          int
	}{
		{"ends another's as its own", bob, "DELETE", "/v1/auth/sessions/" + id, "", 404},
		{"ends another's as a member", ann, "DELETE", "/v1/admin/users/bob@example.com/sessions", "", 403},
		{"lists another's as a member", ann, "GET", "/v1/admin/users/bob@example.com/sessions", "", 403},
		{"resets another's password as a member", ann, "POST", "/v1/admin/users/bob@example.com/password-reset", "", 403},
		{"lists from another organisation", stranger, "GET", "/v1/admin/users/ann@example.com/sessions", "", 404},
		{"ends from another organisation", stranger, "DELETE", "/v1/admin/users/ann@example.com/sessions", "", 404},
		{"ends one from another organisation", stranger, "DELETE", "/v1/admin/users/ann@example.com/sessions/" + id, "", 404},
		{"resets from another organisation", stranger, "POST", "/v1/admin/users/ann@example.com/password-reset", "", 404},
		{"lists with a key", key, "GET", "/v1/auth/sessions", "", 403},
		{"ends all with a key", key, "DELETE", "/v1/auth/sessions", "", 403},
		{"changes a password with a key", key, "PUT", "/v1/auth/password", `{"current_password":"` + password + `","password":"` + password + ` 2"}`, 403},
		{"changes a password without the current one", ann, "PUT", "/v1/auth/password", `{"password":"` + password + ` 2"}`, 400},
		{"changes a password with a wrong one", ann, "PUT", "/v1/auth/password", `{"current_password":"wrong","password":"` + password + ` 2"}`, 400},
		{"lists without anything", "", "GET", "/v1/auth/sessions", "", 401},
		{"ends without anything", "", "DELETE", "/v1/auth/sessions", "", 401},
		{"a session without its last letter", ann[:len(ann)-1], "GET", "/v1/auth/me", "", 401},
		{"a session in capitals", strings.ToUpper(ann), "GET", "/v1/auth/me", "", 401},
		{"the id of a session", id, "GET", "/v1/auth/me", "", 401},
		{"a session as a key for models", ann, "POST", "/v1/chat/completions", chatBody, 401},
		{"a session in the query", "", "GET", "/v1/auth/me?token=" + ann, "", 401},
	} {
		attack(t, "sessions", tt.name, func(t *testing.T) {
			g.as(t, tt.token, tt.method, tt.path, tt.body).refused(t, tt.status)
		})
	}
	g.as(t, ann, "GET", "/v1/auth/me", "").ok(t)
}

func TestBrowsersSendNoSessionByThemselves(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: behindProxy})
	session := g.member(t, "ann", "member", "[]")
	for _, name := range []string{"session", "token", "x-gateway-api-key", "Authorization"} {
		attack(t, "sessions", "the cookie "+name, func(t *testing.T) {
			for _, method := range methods {
				path := map[string]string{"POST": "/v1/auth/logout", "PUT": "/v1/auth/password", "DELETE": "/v1/auth/sessions"}[method]
				g.do(t, method, path, "", "Cookie", name+"="+session, "Origin", "https://evil.example", "Content-Type", "text/plain").refused(t, http.StatusUnauthorized)
			}
		})
	}
	for _, path := range []string{"/v1/auth/login", "/v1/auth/me", "/v1/workspaces", "/claim", "/set-password"} {
		attack(t, "sessions", "another site reads "+path, func(t *testing.T) {
			for _, method := range []string{"OPTIONS", "GET", "POST"} {
				r := g.do(t, method, path, "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
				for name := range r.header {
					if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
						t.Errorf("%s %s sets %s: %s", method, path, name, r.header.Get(name))
					}
				}
			}
		})
	}
	attack(t, "sessions", "a planted token is not taken over", func(t *testing.T) {
		r := g.do(t, "POST", "/v1/auth/login", `{"email":"ann@example.com","password":"`+password+`"}`, "Cookie", "session="+session, "Authorization", "Bearer "+session).ok(t)
		if r.text(t, "token") == session || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the token is the planted one, or may be cached: %v", r.header)
		}
	})
	attack(t, "sessions", "a caller chooses the token", func(t *testing.T) {
		body := `{"email":"ann@example.com","password":"` + password + `","token":"mgs-chosen"}`
		if r := g.do(t, "POST", "/v1/auth/login", body); !slices.Contains([]int{400, 422}, r.status) {
			t.Errorf("status %d: %.300s", r.status, r.body)
		}
	})
}

// TestCookiesOfSessions covers sessions in cookies: only pages of the gateway's own origin
// may use them, and only for the administration.
func TestCookiesOfSessions(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: behindProxy})
	g.member(t, "ann", "member", "[]")
	r := g.do(t, "POST", "/v1/auth/login", `{"email":"ann@example.com","password":"`+password+`","cookie":{"path":"/"}}`).ok(t)
	set := r.header.Get("Set-Cookie")
	pair, attributes, _ := strings.Cut(set, ";")
	attack(t, "sessions", "a script reads the token", func(t *testing.T) {
		if strings.Contains(string(r.body), "mgs-") || !strings.Contains(attributes, "HttpOnly") || !strings.Contains(attributes, "SameSite=Strict") {
			t.Errorf("the response is %s with the cookie%s", r.body, attributes)
		}
	})
	g.do(t, "GET", "/v1/auth/me", "", "Cookie", pair, "Sec-Fetch-Site", "same-origin").ok(t)
	g.do(t, "GET", "/v1/auth/me", "", "Cookie", pair).ok(t)
	for name, header := range map[string][]string{
		"another site":            {"Sec-Fetch-Site", "cross-site"},
		"another host of a site":  {"Sec-Fetch-Site", "same-site"},
		"another origin":          {"Origin", "https://evil.example"},
		"the origin of a sandbox": {"Origin", "null"},
	} {
		attack(t, "sessions", name+" uses the session", func(t *testing.T) {
			for _, method := range []string{"POST", "PUT", "DELETE"} {
				path := map[string]string{"POST": "/v1/auth/logout", "PUT": "/v1/auth/password", "DELETE": "/v1/auth/sessions"}[method]
				g.do(t, method, path, "", append([]string{"Cookie", pair}, header...)...).refused(t, http.StatusForbidden)
			}
		})
	}
	attack(t, "sessions", "another site reads with the session", func(t *testing.T) {
		g.do(t, "GET", "/v1/auth/me", "", "Cookie", pair, "Sec-Fetch-Site", "cross-site").refused(t, http.StatusForbidden)
	})
	attack(t, "sessions", "a second cookie replaces the session", func(t *testing.T) {
		g.do(t, "GET", "/v1/auth/me", "", "Cookie", "mg_login=mgs-planted; "+pair).refused(t, http.StatusUnauthorized)
	})
	attack(t, "sessions", "a model request uses the session", func(t *testing.T) {
		g.do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[]}`, "Cookie", pair, "Sec-Fetch-Site", "same-origin").refused(t, http.StatusUnauthorized)
	})
	g.do(t, "POST", "/v1/auth/logout", "", "Cookie", pair, "Sec-Fetch-Site", "same-origin").ok(t)
	g.do(t, "GET", "/v1/auth/me", "", "Cookie", pair).refused(t, http.StatusUnauthorized)
}
