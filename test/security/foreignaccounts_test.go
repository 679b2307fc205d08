package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// unlike are the parts of responses and audit rows that differ between equal requests.
var unlike = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|mg[a-z]*-[\w-]+|token=[\w-]+|\d{4}-\d\d-\d\dT[\d:.]+Z|"sequence":\d+|"hash":"\w*"|"total":\d+`)

// TestInvitingDoesNotRevealAccountsElsewhere invites an address that has an account in
// another organisation and one that has none, and compares all that an inviter can see.
func TestInvitingDoesNotRevealAccountsElsewhere(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		g.organisation(t, "elsewhere") // owner@elsewhere.example
		addresses := []string{"owner@elsewhere.example", "other@elsewhere.example"}
		same := func(t *testing.T, f func(address string) string) {
			t.Helper()
			var got [2]string
			for i, address := range addresses {
				text := strings.ReplaceAll(f(address), address, "ADDRESS")
				got[i] = unlike.ReplaceAllString(strings.ReplaceAll(text, url.QueryEscape(address), "ADDRESS"), "…")
			}
			if got[0] != got[1] || got[0] == "" {
				t.Errorf("with an account elsewhere\n%s\nwithout\n%s", got[0], got[1])
			}
		}
		ids, tokens := map[string]string{}, map[string]string{}
		for _, body := range []string{
			`{"email":%q,"role":"admin","workspaces":[]}`, `{"email":%q,"role":"member","workspaces":[{"id":"default","role":"manager"}]}`,
			`{"email":%q,"role":"owner","workspaces":[]}`, `{"email":%q,"role":"member","workspaces":[{"id":"nowhere","role":"member"}]}`,
		} {
			attack(t, "isolation", "the response to an invitation "+body, func(t *testing.T) {
				same(t, func(address string) string {
					r := g.as(t, rootKey, "POST", "/v1/admin/users/invites", fmt.Sprintf(body, address))
					if r.status == http.StatusOK {
						ids[address] = r.text(t, "id")
						_, tokens[address], _ = strings.Cut(r.text(t, "invite_link"), "token=")
					}
					return fmt.Sprint(r.status, string(r.body))
				})
			})
		}
		for name, request := range map[string]func(address string) response{
			"a second invitation": func(address string) response {
				return g.as(t, rootKey, "POST", "/v1/admin/users/invites", fmt.Sprintf(`{"email":%q,"role":"member","workspaces":[]}`, address))
			},
			"the invitation": func(address string) response {
				return g.as(t, rootKey, "GET", "/v1/admin/users/invites/"+ids[address], "")
			},
			"the list of invitations": func(address string) response {
				return g.as(t, rootKey, "GET", "/v1/admin/users/invites?email="+url.QueryEscape(address), "")
			},
			"the user": func(address string) response { return g.as(t, rootKey, "GET", "/v1/admin/users/"+address, "") },
			"the list of users": func(address string) response {
				return g.as(t, rootKey, "GET", "/v1/admin/users?email="+url.QueryEscape(address), "")
			},
			"a link for the password": func(address string) response {
				return g.as(t, rootKey, "POST", "/v1/admin/users/"+address+"/password-reset", "")
			},
			"a first link for the password": func(address string) response {
				return g.as(t, rootKey, "POST", "/v1/admin/users/"+address+"/link", "")
			},
			"sending it again": func(address string) response {
				r := g.as(t, rootKey, "POST", "/v1/admin/users/invites/"+ids[address]+"/resend", "").ok(t)
				_, tokens[address], _ = strings.Cut(r.text(t, "inviteLink"), "token=")
				return r
			},
			"a short password for the link": func(address string) response {
				return g.do(t, "POST", "/v1/auth/invites/accept", fmt.Sprintf(`{"token":%q,"password":"short"}`, tokens[address]))
			},
		} {
			attack(t, "isolation", "what an inviter sees by "+name, func(t *testing.T) {
				same(t, func(address string) string {
					r := request(address)
					return fmt.Sprint(r.status, string(r.body))
				})
			})
		}
		attack(t, "isolation", "what the audit log has of invitations", func(t *testing.T) {
			same(t, func(address string) string { return g.auditsAbout(t, ids[address]) + g.auditsAbout(t, address) })
		})
		attack(t, "isolation", "the time that an invitation takes", func(t *testing.T) {
			best := map[string]time.Duration{addresses[0]: time.Hour, addresses[1]: time.Hour}
			unequal := func() bool {
				a, b := best[addresses[0]], best[addresses[1]]
				return a > 3*b || b > 3*a
			}
			// A busy machine delays single requests, but not the best of many.
			for round := 0; round < 15 || unequal() && round < 300; round++ {
				for _, address := range addresses {
					g.as(t, rootKey, "DELETE", "/v1/admin/users/invites/"+ids[address], "").ok(t)
					began := time.Now()
					ids[address] = g.create(t, rootKey, "/v1/admin/users/invites", fmt.Sprintf(`{"email":%q,"role":"member","workspaces":[]}`, address), "id")
					best[address] = min(best[address], time.Since(began))
				}
			}
			if unequal() {
				t.Errorf("with an account elsewhere it takes %s, without %s", best[addresses[0]], best[addresses[1]])
			}
		})
	})
}

// auditsAbout returns the audit rows that contain a text, oldest last.
func (g *gateway) auditsAbout(t *testing.T, text string) string {
	t.Helper()
	var log struct{ Records []json.RawMessage }
	if err := json.Unmarshal([]byte(g.audits(t, rootKey)), &log); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, r := range log.Records {
		if strings.Contains(string(r), text) {
			all.Write(r)
		}
	}
	return all.String()
}

// TestLinksDoNotRevealAccountsElsewhere creates links to passwords of members who have, and
// have not, an account in another organisation too, and opens links that cannot work.
func TestLinksDoNotRevealAccountsElsewhere(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		session := g.organisation(t, "elsewhere")
		g.member(t, "only-here", "member", "[]")
		g.apply(t, `{email: owner@elsewhere.example, role: member}`)
		attack(t, "isolation", "a reset of a member who has an account elsewhere", func(t *testing.T) {
			got := map[string]string{}
			for _, address := range []string{"owner@elsewhere.example", "only-here@example.com"} {
				r := g.as(t, rootKey, "POST", "/v1/admin/users/"+address+"/password-reset", "")
				got[address] = unlike.ReplaceAllString(fmt.Sprint(r.status, string(r.body), strings.ReplaceAll(g.auditsAbout(t, address+"/password-reset"), address, "ADDRESS")), "…")
			}
			if a, b := got["owner@elsewhere.example"], got["only-here@example.com"]; a != b || !strings.HasPrefix(a, "200") {
				t.Errorf("with an account elsewhere\n%s\nwithout\n%s", a, b)
			}
		})
		attack(t, "escalation", "a reset of a member takes over an account elsewhere", func(t *testing.T) {
			link := g.create(t, rootKey, "/v1/admin/users/owner@elsewhere.example/password-reset", "", "link")
			_, token, _ := strings.Cut(link, "token=")
			opened := g.do(t, "POST", "/v1/auth/password", linkBody("", token)).refused(t, http.StatusNotFound, "unknown, used or expired")
			unknown := g.do(t, "POST", "/v1/auth/password", linkBody("", "mgl-"+strings.Repeat("x", 43))).refused(t, http.StatusNotFound)
			if a, b := unlike.ReplaceAllString(string(opened.body), "…"), unlike.ReplaceAllString(string(unknown.body), "…"); a != b {
				t.Errorf("the link gets %s, an unknown one %s", a, b)
			}
			g.as(t, session, "GET", "/v1/auth/me", "").ok(t)
			g.signIn(t, "203.0.113.1", "owner@elsewhere.example", password).ok(t)
		})
		attack(t, "isolation", "a reset here does not end the operator's link", func(t *testing.T) {
			out, errText, code := command(t, append([]string{"users", "reset-password", "--email", "owner@elsewhere.example"}, g.where()...)...)
			_, token, ok := strings.Cut(strings.TrimSpace(out), "token=")
			if code != 0 || !ok {
				t.Fatalf("users reset-password: exit %d: %s%s", code, out, errText)
			}
			g.as(t, rootKey, "POST", "/v1/admin/users/owner@elsewhere.example/password-reset", "").ok(t)
			g.do(t, "POST", "/v1/auth/password", linkBody("", token)).ok(t)
		})
	})
}

// TestAnInviteThatCannotBeAcceptedDoesNotRevealWhy opens invites of addresses with an account
// elsewhere, and of accounts here that were removed or disabled since.
func TestAnInviteThatCannotBeAcceptedDoesNotRevealWhy(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		g.organisation(t, "elsewhere")
		accept := func(address string, before func()) string {
			link := g.create(t, rootKey, "/v1/admin/users/invites", fmt.Sprintf(`{"email":%q,"role":"member","workspaces":[]}`, address), "invite_link")
			before()
			_, token, _ := strings.Cut(link, "token=")
			r := g.do(t, "POST", "/v1/auth/invites/accept", fmt.Sprintf(`{"token":%q,"password":%q}`, token, password)).refused(t, http.StatusConflict)
			return unlike.ReplaceAllString(strings.ReplaceAll(string(r.body), address, "ADDRESS"), "…")
		}
		want := accept("owner@elsewhere.example", func() {})
		for name, state := range map[string]string{
			"is disabled": `{email: %s, role: member, disabled: true}`, "is the future owner": `{email: %s, role: owner}`,
		} {
			attack(t, "isolation", "an invite of an address whose account "+name, func(t *testing.T) {
				address := strings.ReplaceAll(name, " ", "-") + "@example.com"
				if got := accept(address, func() { g.apply(t, fmt.Sprintf(state, address)) }); got != want {
					t.Errorf("the answer is %s, with an account elsewhere %s", got, want)
				}
			})
		}
	})
}
