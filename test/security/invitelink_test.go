package security

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestLinksOfInvitesGoToInviters(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	hire := g.create(t, rootKey, "/v1/api-keys/organisation/service", `{"name":"hr","scopes":["organisation_users.create","organisation_users.read","organisation_users.list"]}`, "key")
	g.awaitKey(t, hire)
	for i, c := range []struct{ name, role, workspaces string }{
		{"an admin", "admin", `[]`},
		{"an admin of a workspace", "member", `[{"id":"default","role":"admin"}]`},
		{"a manager of a workspace", "member", `[{"id":"default","role":"manager"}]`},
	} {
		attack(t, "escalation", "a key with few scopes doesn't get the link that invites "+c.name, func(t *testing.T) {
			r := g.as(t, rootKey, "POST", "/v1/admin/users/invites", fmt.Sprintf(`{"email":"a%d@example.com","role":%q,"workspaces":%s}`, i, c.role, c.workspaces)).ok(t)
			g.as(t, hire, "POST", "/v1/admin/users/invites/"+r.text(t, "id")+"/resend", "").refused(t, http.StatusForbidden, "AB03")
			u, err := url.Parse(r.text(t, "invite_link"))
			if err != nil {
				t.Fatal(err)
			}
			g.do(t, "POST", "/v1/auth/invites/accept", fmt.Sprintf(`{"token":%q,"password":%q}`, u.Query().Get("token"), password)).ok(t)
		})
	}
	attack(t, "escalation", "a key with few scopes gets the link that invites a member", func(t *testing.T) {
		id := g.create(t, rootKey, "/v1/admin/users/invites", `{"email":"m@example.com","role":"member","workspaces":[{"id":"default","role":"member"}]}`, "id")
		if link := g.create(t, hire, "/v1/admin/users/invites/"+id+"/resend", "", "inviteLink"); !strings.Contains(link, "token=") {
			t.Errorf("the link is %s", link)
		}
	})
}
