package security

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestLinksToAccountsAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	id := g.userID(t, g.member(t, "person", "member", `[]`))
	invite := g.create(t, rootKey, "/v1/admin/users/invites", `{"email":"i@example.com","role":"member","workspaces":[]}`, "id")
	for _, c := range []struct{ path, action string }{
		{"/v1/admin/users/" + id + "/password-reset", "password_reset_link"},
		{"/v1/admin/users/invites/" + invite + "/resend", "resend"},
	} {
		attack(t, "log and export", "a link to somebody's account is in the audit log as "+c.action, func(t *testing.T) {
			g.as(t, rootKey, "POST", c.path, "").ok(t)
			at := func(d time.Duration) string { return url.QueryEscape(time.Now().Add(d).UTC().Format(time.RFC3339)) }
			body := string(g.as(t, rootKey, "GET", fmt.Sprintf("/v1/audit-logs?start_time=%s&end_time=%s", at(-time.Hour), at(time.Hour)), "").ok(t).body)
			if !strings.Contains(body, `"action":"`+c.action+`"`) || strings.Contains(body, "mgl-") {
				t.Errorf("the audit log: %.2000s", body)
			}
		})
	}
}
