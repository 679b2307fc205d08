package sessions_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/members"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// declareUser puts a person in the organisation as a file does: without a password.
func declareUser(t *testing.T, b *routetest.Bench, name, role string) {
	t.Helper()
	u := store.User{ID: name, Email: name + "@example.com", FirstName: "File", LastName: "Made", Status: store.Active, Role: role, CreatedAt: b.Clock, UpdatedAt: b.Clock}
	if err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.CreateUser(t.Context(), store.DefaultOrganisation, u) }); err != nil {
		t.Fatal(err)
	}
}

// account is what is stored of a person that a link could change.
func account(t *testing.T, b *routetest.Bench, name string) store.User {
	t.Helper()
	u, err := b.DB.User(t.Context(), store.DefaultOrganisation, name)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func signsIn(b *routetest.Bench, email, password string) bool {
	return b.Nobody().Call("POST", "/auth/login", `{"email":"`+email+`","password":"`+password+`"}`).Status == http.StatusOK
}

func token(t *testing.T, b *routetest.Bench, user string) string {
	t.Helper()
	var made struct {
		Link      string
		ExpiresAt string `json:"expires_at"`
	}
	b.Root().Must("POST", "/admin/users/"+user+"/link", "", &made)
	if want := b.Clock.Add(48 * time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"); made.ExpiresAt != want {
		t.Errorf("the link ends at %s, want %s", made.ExpiresAt, want)
	}
	secret, ok := strings.CutPrefix(made.Link, sessions.PasswordPath+"?token=")
	if !ok {
		t.Fatalf("the link is %q", made.Link)
	}
	return secret
}

func setting(token string) string {
	return `{"token":"` + token + `","first_name":"Self","password":"` + password + `"}`
}

func TestSomebodyOfAFileSetsTheirPasswordByALinkOnce(t *testing.T) {
	b, _ := claimInstallation(t)
	declareUser(t, b, "ann", "admin")
	before := len(b.Query(`SELECT id FROM audit_logs`))
	old, secret := token(t, b, "ann"), token(t, b, "ann@example.com")
	if rows := b.Query(`SELECT resource_type || ' ' || resource_id FROM audit_logs`); len(rows) != before+2 || rows[len(rows)-1] != "user ann" {
		t.Errorf("the audit log has %q", rows)
	}
	for _, rows := range [][]string{b.Query(`SELECT hash FROM password_links`), b.Query(`SELECT request_body || uri FROM audit_logs`)} {
		if strings.Contains(strings.Join(rows, " "), secret) {
			t.Errorf("the link is kept: %q", rows)
		}
	}
	if a := b.Nobody().Call("POST", "/auth/password", setting(old)); a.Status != http.StatusNotFound {
		t.Errorf("the link before: %d %s", a.Status, a.Body)
	}
	var s opened
	b.Nobody().Must("POST", "/auth/password", setting(secret), &s)
	if id, err := identify(b, s.Token, 0); err != nil || id.UserID != "ann" || !id.Allows("workspaces.create") {
		t.Errorf("the session is of %+v, %v", id, err)
	}
	if u := account(t, b, "ann"); u.FirstName != "Self" || u.LastName != "Made" || u.Role != "admin" {
		t.Errorf("stored %+v", u)
	}
	if !signsIn(b, "ann@example.com", password) {
		t.Error("the password does not open")
	}
	if a := b.Nobody().Call("POST", "/auth/password", setting(secret)); a.Status != http.StatusNotFound {
		t.Errorf("the link again: %d %s", a.Status, a.Body)
	}
	if a := b.Root().Call("POST", "/admin/users/ann/link", ""); a.Status != http.StatusConflict || !strings.Contains(a.Body, "AB07") {
		t.Errorf("a link for a user with a password: %d %s", a.Status, a.Body)
	}
}

func TestALinkCountsForWhomItIsAndAsLongAsTheyHaveNoPassword(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(b *routetest.Bench)
	}{
		{"48 hours later", func(b *routetest.Bench) { b.Clock = b.Clock.Add(48 * time.Hour) }},
		{"with a password", func(b *routetest.Bench) { b.Exec(`UPDATE users SET password_hash = 'theirs' WHERE id = 'ann'`) }},
		{"disabled", func(b *routetest.Bench) { b.Exec(`UPDATE users SET status = 'disabled' WHERE id = 'ann'`) }},
		{"taken out", func(b *routetest.Bench) { b.Root().Must("DELETE", "/admin/users/ann", "", nil) }},
		{"the owner", func(b *routetest.Bench) {
			b.Exec(`UPDATE organisation_members SET role = 'owner' WHERE user_id = 'ann'`)
		}},
		{"of another organisation too", addForeignMembership},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := claimInstallation(t)
			declareUser(t, b, "ann", "member")
			secret := token(t, b, "ann")
			tt.before(b)
			hash := b.Query(`SELECT password_hash FROM users WHERE id = 'ann'`)[0]
			if a := b.Nobody().Call("POST", "/auth/password", setting(secret)); a.Status != http.StatusNotFound {
				t.Errorf("the link: %d %s", a.Status, a.Body)
			}
			if after := b.Query(`SELECT password_hash FROM users WHERE id = 'ann'`)[0]; after != hash {
				t.Errorf("the password is %q now", after)
			}
		})
	}
}

func addForeignMembership(b *routetest.Bench) {
	b.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at) VALUES ('elsewhere', 'elsewhere', '', '', '{}', '', 'active', 0, 0)`)
	b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ('elsewhere', 'ann', 'admin', 0, 0)`)
}

func TestNobodyMakesALinkForTheOwnerOrADisabledPerson(t *testing.T) {
	b, s := claimInstallation(t)
	declareUser(t, b, "boss2", "owner")
	declareUser(t, b, "gone", "member")
	b.Exec(`UPDATE users SET status = 'disabled' WHERE id = 'gone'`)
	for user, want := range map[string]int{s.UserID: http.StatusForbidden, "boss2": http.StatusForbidden, "gone": http.StatusConflict, "nobody": http.StatusNotFound} {
		if a := b.Root().Call("POST", "/admin/users/"+user+"/link", ""); a.Status != want {
			t.Errorf("a link for %s: %d %s, want %d", user, a.Status, a.Body, want)
		}
	}
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	if a := foreign.Call("POST", "/admin/users/gone/link", ""); a.Status != http.StatusNotFound {
		t.Errorf("from another organisation: %d %s", a.Status, a.Body)
	}
	if rows := b.Query(`SELECT user_id FROM password_links`); len(rows) != 0 {
		t.Errorf("links of %q", rows)
	}
}

// claiming is a bench whose organisation nobody owns, with a claim link.
func claiming(t *testing.T) *routetest.Bench {
	t.Helper()
	b := routetest.New(t, sessions.Routes{}.Add, members.Add, workspaces.Add)
	link(t, b, "the-link")
	return b
}

const claimBody = `{"token":"the-link","email":"Ann@example.com","password":"` + password + `"}`

func TestSomebodyOfAFileClaimsTheInstallation(t *testing.T) {
	for _, role := range []string{"owner", "member"} {
		b := claiming(t)
		declareUser(t, b, "ann", role)
		var s opened
		b.Nobody().Must("POST", "/auth/claim", claimBody, &s)
		o, err := b.DB.Organisation(t.Context(), store.DefaultOrganisation)
		if u := account(t, b, "ann"); err != nil || s.UserID != "ann" || o.OwnerID != "ann" || u.Role != "owner" || u.FirstName != "File" {
			t.Errorf("a file's %s: session of %q, owner %q, %+v, %v", role, s.UserID, o.OwnerID, u, err)
		}
		if !signsIn(b, "ann@example.com", password) {
			t.Errorf("a file's %s can't sign in", role)
		}
	}
}

func TestAClaimTakesOverNoOther(t *testing.T) {
	for name, before := range map[string]func(b *routetest.Bench){
		"with a password":             func(b *routetest.Bench) { b.Exec(`UPDATE users SET password_hash = 'theirs' WHERE id = 'ann'`) },
		"disabled":                    func(b *routetest.Bench) { b.Exec(`UPDATE users SET status = 'disabled' WHERE id = 'ann'`) },
		"of another organisation too": addForeignMembership,
		"of another organisation": func(b *routetest.Bench) {
			addForeignMembership(b)
			b.Exec(`DELETE FROM organisation_members WHERE organisation_id <> 'elsewhere'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := claiming(t)
			declareUser(t, b, "ann", "member")
			before(b)
			hash := b.Query(`SELECT password_hash FROM users WHERE id = 'ann'`)[0]
			if a := b.Nobody().Call("POST", "/auth/claim", claimBody); a.Status != http.StatusConflict || !strings.Contains(a.Body, "AB07") {
				t.Errorf("claimed: %d %s", a.Status, a.Body)
			}
			if after := b.Query(`SELECT password_hash FROM users WHERE id = 'ann'`)[0]; after != hash {
				t.Errorf("the password is %q now", after)
			}
			var s opened
			b.Nobody().Must("POST", "/auth/claim", strings.Replace(claimBody, "Ann@", "other@", 1), &s) // the link counts still
		})
	}
}

func TestAnInviteAdoptsAUserMadeByAFileConcurrently(t *testing.T) {
	invited := func(t *testing.T) (*routetest.Bench, string) {
		b, _ := claimInstallation(t)
		var made struct {
			Link string `json:"invite_link"`
		}
		b.Root().Must("POST", "/admin/users/invites", `{"email":"ann@example.com","role":"admin","workspaces":[{"id":"default","role":"admin"}]}`, &made)
		_, secret, _ := strings.Cut(made.Link, "token=")
		return b, setting(secret)
	}
	t.Run("and leaves their roles", func(t *testing.T) {
		b, body := invited(t)
		declareUser(t, b, "ann", "member")
		b.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, 'ann', 'member', 0, 0)`, store.DefaultWorkspace)
		b.Nobody().Must("POST", "/auth/invites/accept", body, nil)
		m, err := b.DB.Membership(t.Context(), store.DefaultOrganisation, "ann")
		if err != nil || m.Role != "member" || m.RoleIn(store.DefaultWorkspace) != "member" || !signsIn(b, "ann@example.com", password) {
			t.Errorf("membership %+v, %v", m, err)
		}
	})
	t.Run("but nobody whom the directory added", func(t *testing.T) {
		b, body := invited(t)
		declareUser(t, b, "ann", "member")
		b.Exec(`INSERT INTO directory_users (organisation_id, id, name_key, external_id, display_key, given_key, family_key, active, attributes, version, created_at, updated_at)
			VALUES ($1, 'ann', 'ann', '', '', '', '', TRUE, '{}', 1, 0, 0)`, store.DefaultOrganisation)
		if a := b.Nobody().Call("POST", "/auth/invites/accept", body); a.Status != http.StatusConflict || signsIn(b, "ann@example.com", password) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
	t.Run("and puts them in workspaces where they are not", func(t *testing.T) {
		b, body := invited(t)
		declareUser(t, b, "ann", "member")
		b.Nobody().Must("POST", "/auth/invites/accept", body, nil)
		if m, err := b.DB.Membership(t.Context(), store.DefaultOrganisation, "ann"); err != nil || m.RoleIn(store.DefaultWorkspace) != "admin" {
			t.Errorf("membership %+v, %v", m, err)
		}
	})
	for name, before := range map[string]func(t *testing.T, b *routetest.Bench){
		"but nobody with a password": func(t *testing.T, b *routetest.Bench) {
			declareUser(t, b, "ann", "member")
			b.Exec(`UPDATE users SET password_hash = 'theirs' WHERE id = 'ann'`)
		},
		"but no owner": func(t *testing.T, b *routetest.Bench) { declareUser(t, b, "ann", "owner") },
		"but nobody who is disabled": func(t *testing.T, b *routetest.Bench) {
			declareUser(t, b, "ann", "member")
			b.Exec(`UPDATE users SET status = 'disabled' WHERE id = 'ann'`)
		},
		"but nobody of another organisation": func(t *testing.T, b *routetest.Bench) {
			declareUser(t, b, "ann", "member")
			addForeignMembership(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, body := invited(t)
			before(t, b)
			hash := account(t, b, "ann").PasswordHash
			if a := b.Nobody().Call("POST", "/auth/invites/accept", body); a.Status != http.StatusConflict || !strings.Contains(a.Body, "AB07") {
				t.Errorf("accepted: %d %s", a.Status, a.Body)
			}
			if after := account(t, b, "ann").PasswordHash; after != hash {
				t.Errorf("the password is %q now", after)
			}
		})
	}
}

func TestRemovedPeopleCanBeInvitedAgain(t *testing.T) {
	b, _ := claimInstallation(t)
	invite := func() string {
		var made struct {
			Link string `json:"invite_link"`
		}
		b.Root().Must("POST", "/admin/users/invites", `{"email":"ann@example.com","role":"member","workspaces":[]}`, &made)
		_, secret, _ := strings.Cut(made.Link, "token=")
		return secret
	}
	var before, after struct {
		User string `json:"user_id"`
	}
	b.Nobody().Must("POST", "/auth/invites/accept", setting(invite()), &before)
	b.Root().Must("DELETE", "/admin/users/"+before.User, "", nil)
	if signsIn(b, "ann@example.com", password) {
		t.Error("who was taken out signs in")
	}
	b.Nobody().Must("POST", "/auth/invites/accept", setting(invite()), &after)
	if after.User == before.User || !signsIn(b, "ann@example.com", password) {
		t.Errorf("invited again as %q, who was %q", after.User, before.User)
	}
}
