package security

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestLinksToAccountsAreInTheAuditLog creates links that open somebody's account, and
// looks for who did it, to whom, and for the links.
func TestLinksToAccountsAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	person, admin := g.userID(t, g.member(t, "person", "member", `[]`)), g.member(t, "admin", "admin", `[]`)
	caller := g.userID(t, admin)
	invite := g.create(t, rootKey, "/v1/admin/users/invites", `{"email":"i@example.com","role":"member","workspaces":[]}`, "id")
	for _, c := range []struct{ name, path, action, link, about string }{
		{"a password", "/v1/admin/users/" + person + "/password-reset", "password_reset_link", "link", person},
		{"a password, by address", "/v1/admin/users/person@example.com/password-reset", "password_reset_link", "link", person},
		{"an invite", "/v1/admin/users/invites/" + invite + "/resend", "resend", "inviteLink", invite},
	} {
		attack(t, "log and export", "a link to somebody's account is in the audit log as "+c.action+": "+c.name, func(t *testing.T) {
			link := g.create(t, admin, c.path, "", c.link)
			body := g.audits(t, rootKey)
			var log struct {
				Records []struct {
					Action       string
					User         string `json:"user_id"`
					ResourceType string `json:"resource_type"`
					Resource     string `json:"resource_id"`
					URI          string
				}
			}
			if err := json.Unmarshal([]byte(body), &log); err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, r := range log.Records {
				if r.Action == c.action && r.URI == c.path {
					found++
					if r.User != caller || r.Resource != c.about {
						t.Errorf("the row is %+v, want one of the user %s about %s", r, caller, c.about)
					}
				}
			}
			u, err := url.Parse(link)
			if err != nil || u.Query().Get("token") == "" {
				t.Fatalf("the link is %q", link)
			}
			if found != 1 || strings.Contains(body, "mgl-") || strings.Contains(body, u.Query().Get("token")) {
				t.Errorf("%d rows, or one has the link: %.2000s", found, body)
			}
		})
	}
}
