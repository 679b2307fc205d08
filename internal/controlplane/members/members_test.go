package members_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/members"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

func user(t *testing.T, b *routetest.Bench, id, role string) {
	t.Helper()
	err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.CreateUser(t.Context(), store.DefaultOrganisation, store.User{ID: id, Email: id + "@example.com", FirstName: id, Status: "active", Role: role, CreatedAt: b.Clock, UpdatedAt: b.Clock})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPeopleAreListedAndChanged(t *testing.T) {
	b := routetest.New(t, members.Add)
	for id, role := range map[string]string{"boss": "owner", "ann": "member"} {
		user(t, b, id, role)
	}
	err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.SetWorkspaceMember(t.Context(), store.DefaultWorkspace, "ann", "manager", b.Clock)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := b.Root()
	var list struct {
		Total int
		Data  []struct {
			ID, Role, Object string
			Workspaces       []string `json:"workspace_ids"`
		}
	}
	for query, want := range map[string]int{"": 2, "?role=owner": 1, "?role=admin": 0, "?email=Ann@example.com": 1, "?pageSize=1": 2} {
		if c.Must("GET", "/admin/users"+query, "", &list); list.Total != want {
			t.Errorf("%q lists %d, want %d", query, list.Total, want)
		}
	}
	c.Must("GET", "/admin/users?role=member", "", &list)
	if one := list.Data[0]; one.Object != "user" || len(one.Workspaces) != 1 || one.Workspaces[0] != store.DefaultWorkspace {
		t.Errorf("listed %+v", one)
	}
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{"PUT", "/ann", `{"role":"admin"}`, 200},
		{"PUT", "/ann", `{"role":"admin"}`, 400},
		{"PUT", "/ann", `{"role":"owner"}`, 400},
		{"PUT", "/boss", `{"role":"member"}`, 400},
		{"DELETE", "/boss", ``, 400},
		{"DELETE", "/nobody", ``, 404},
		{"DELETE", "/ann", ``, 200},
		{"GET", "/ann", ``, 404},
	} {
		if a := c.Call(tt.method, "/admin/users"+tt.path, tt.body); a.Status != tt.want {
			t.Errorf("%s %s %s: %d %s, want %d", tt.method, tt.path, tt.body, a.Status, a.Body, tt.want)
		}
	}
}

func TestRemovedMembersLoseAllAccess(t *testing.T) {
	b := routetest.New(t, members.Add)
	user(t, b, "ann", "member")
	key := store.Key{ID: "k1", Type: access.WorkspaceUser, UserID: "ann", Name: "hers", Hash: access.HashKey("x"), CreatedAt: b.Clock}
	if err := b.DB.CreateKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	b.Root().Must("DELETE", "/admin/users/ann", "", nil)
	got, err := b.DB.Key(t.Context(), store.DefaultOrganisation, "k1")
	if err != nil || got.Status != store.KeyRevoked {
		t.Errorf("her key is %s, %v", got.Status, err)
	}
	if m, err := b.DB.Membership(t.Context(), store.DefaultOrganisation, "ann"); err != nil || m.Role != "" || len(m.Workspaces) != 0 {
		t.Errorf("her membership is %+v, %v", m, err)
	}
}

type invited struct {
	ID     string
	Link   string `json:"invite_link"`
	Resent string `json:"inviteLink"`
}

type invite struct {
	Status, Email, Role string
	Workspaces          []struct{ ID, Role string }
	Expires             string `json:"expires_at"`
}

func TestAnInviteGoesThroughItsStates(t *testing.T) {
	b := routetest.New(t, members.Add)
	c := b.Root()
	var made invited
	c.Must("POST", "/admin/users/invites", `{"email":"New@Example.com","role":"member","workspaces":[{"id":"default","role":"manager"}],"workspace_api_key_details":{"scopes":["completions.write"]}}`, &made)
	token, ok := strings.CutPrefix(made.Link, "/accept-invite?token=")
	if !ok {
		t.Fatalf("link %q", made.Link)
	}
	path := "/admin/users/invites/" + made.ID
	var got invite
	c.Must("GET", path, "", &got)
	if got.Status != "pending" || got.Email != "new@example.com" || got.Workspaces[0].ID != store.DefaultWorkspace || got.Expires != "2026-05-03T12:00:00.000Z" {
		t.Errorf("read %+v", got)
	}
	if i, err := b.DB.InviteByToken(t.Context(), access.HashKey(token).String()); err != nil || i.ID != made.ID {
		t.Errorf("by its token: %+v, %v", i, err)
	}
	if a := c.Call("POST", "/admin/users/invites", `{"email":"new@example.com","role":"admin","workspaces":[]}`); a.Status != http.StatusConflict {
		t.Errorf("a second one: %d %s", a.Status, a.Body)
	}
	var again invited
	c.Must("POST", path+"/resend", "", &again)
	if again.Resent == made.Link {
		t.Error("the link is the same")
	}
	if _, err := b.DB.InviteByToken(t.Context(), access.HashKey(token).String()); err == nil {
		t.Error("the link before still counts")
	}
	b.Clock = b.Clock.Add(49 * time.Hour)
	c.Must("GET", path, "", &got)
	if got.Status != "expired" {
		t.Errorf("after two days it is %s", got.Status)
	}
	var list struct{ Total int }
	for query, want := range map[string]int{"": 1, "?status=pending": 0, "?status=expired": 1, "?role=admin": 0, "?email=new@example.com": 1} {
		if c.Must("GET", "/admin/users/invites"+query, "", &list); list.Total != want {
			t.Errorf("%q lists %d, want %d", query, list.Total, want)
		}
	}
	c.Must("POST", "/admin/users/invites", `{"email":"new@example.com","role":"admin","workspaces":[]}`, nil)
	c.Must("DELETE", path, "", nil)
	for _, call := range [][2]string{{"DELETE", ""}, {"POST", "/resend"}} {
		if a := c.Call(call[0], path+call[1], ""); a.Status != http.StatusConflict {
			t.Errorf("%s%s of a cancelled one: %d %s", call[0], call[1], a.Status, a.Body)
		}
	}
}

func TestInviteErrorsNameTheField(t *testing.T) {
	b := routetest.New(t, members.Add)
	user(t, b, "ann", "member")
	before := b.Changes()
	c := b.Root()
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{"role":"member","workspaces":[]}`:                                                                                    {400, "email"},
		`{"email":"x","role":"member","workspaces":[]}`:                                                                        {400, "email"},
		`{"email":"not an address","role":"member","workspaces":[]}`:                                                           {400, "email"},
		`{"email":"A <a@example.com>","role":"member","workspaces":[]}`:                                                        {400, "email"},
		`{"email":"a@example.com","role":"owner","workspaces":[]}`:                                                             {400, "role"},
		`{"email":"a@example.com","role":"member"}`:                                                                            {400, "workspaces"},
		`{"email":"a@example.com","role":"member","workspaces":[{"id":"none","role":"admin"}]}`:                                {404, "AB02"},
		`{"email":"a@example.com","role":"member","workspaces":[{"id":"default","role":"x"}]}`:                                 {400, "workspaces[0].role"},
		`{"email":"ann@example.com","role":"member","workspaces":[]}`:                                                          {409, "AB07"},
		`{"email":"a@example.com","role":"member","workspaces":[],"workspace_api_key_details":{"scopes":["nonsense"]}}`:        {400, "scopes"},
		`{"email":"a@example.com","role":"member","workspaces":[],"workspace_api_key_details":{"scopes":null}}`:                {400, "scopes"},
		`{"email":"a@example.com","role":"member","workspaces":[],"workspace_api_key_details":{"scopes":["*"]}}`:               {400, "scopes"},
		`{"email":"a@example.com","role":"member","workspaces":[],"workspace_api_key_details":{"scopes":["audit_logs.list"]}}`: {400, "scopes"},
	} {
		if a := c.Call("POST", "/admin/users/invites", body); a.Status != want.status || !strings.Contains(a.Body, want.text) {
			t.Errorf("%s: %d %s, want %d and %s", body, a.Status, a.Body, want.status, want.text)
		}
	}
	if b.Changes() != before {
		t.Error("something was changed")
	}
}

func TestPeopleOfAnotherOrganisationAreNotThere(t *testing.T) {
	b := routetest.New(t, members.Add)
	user(t, b, "ann", "member")
	var made invited
	b.Root().Must("POST", "/admin/users/invites", `{"email":"a@example.com","role":"member","workspaces":[]}`, &made)
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	for _, call := range [][3]string{
		{"GET", "/ann", ""}, {"PUT", "/ann", `{"role":"admin"}`}, {"DELETE", "/ann", ""},
		{"GET", "/invites/" + made.ID, ""}, {"DELETE", "/invites/" + made.ID, ""}, {"POST", "/invites/" + made.ID + "/resend", ""},
	} {
		if a := foreign.Call(call[0], "/admin/users"+call[1], call[2]); a.Status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", call[0], call[1], a.Status, a.Body)
		}
	}
	workspace := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	if a := workspace.Call("GET", "/admin/users", ""); a.Status != http.StatusForbidden {
		t.Errorf("a key of a workspace: %d", a.Status)
	}
}

func TestInvitesAreRefusedWhereOnlyTheDirectoryAddsUsers(t *testing.T) {
	b := routetest.New(t, members.Add)
	c := b.Root()
	const body = `{"email":"a@example.com","role":"member","workspaces":[]}`
	var made invited
	c.Must("POST", "/admin/users/invites", body, &made)
	setOnly := func(only bool) {
		err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
			o, err := tx.Organisation(t.Context(), store.DefaultOrganisation)
			if err != nil {
				return err
			}
			o.Settings.Directory = &store.DirectorySettings{UsersOnly: only}
			return tx.UpdateOrganisation(t.Context(), o)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	setOnly(true)
	for path, body := range map[string]string{"": `{"email":"b@example.com","role":"member","workspaces":[]}`, "/" + made.ID + "/resend": ""} {
		if a := c.Call("POST", "/admin/users/invites"+path, body); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "users_only") {
			t.Errorf("POST %s: %d %s", path, a.Status, a.Body)
		}
	}
	setOnly(false)
	c.Must("POST", "/admin/users/invites/"+made.ID+"/resend", "", nil)
}
