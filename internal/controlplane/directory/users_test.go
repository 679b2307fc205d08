package directory_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/directory"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// grantAll gives a user a session, a key of their own, and a service key that they made.
func (b *bench) grantAll(user string) {
	b.Helper()
	b.update(func(tx *store.Tx) error {
		return tx.CreateSession(b.Context(), store.Session{Hash: "session-" + user, ID: "session-" + user, UserID: user,
			Organisation: store.DefaultOrganisation, CreatedAt: b.clock, ExpiresAt: b.clock.AddDate(0, 0, 1)})
	})
	for _, k := range []store.Key{
		{ID: "own-" + user, Type: access.WorkspaceUser, UserID: user, Hash: access.HashKey("own" + user)},
		{ID: "made-" + user, Type: access.WorkspaceService, Hash: access.HashKey("made" + user), Origin: store.KeyOrigin{By: user}},
	} {
		k.Organisation, k.Workspace, k.Name, k.CreatedAt = store.DefaultOrganisation, store.DefaultWorkspace, k.ID, b.clock
		if err := b.db.CreateKey(b.Context(), k); err != nil {
			b.Fatal(err)
		}
	}
}

// keyStatus returns the status of a key.
func (b *bench) keyStatus(id string) string {
	b.Helper()
	k, err := b.db.Key(b.Context(), store.DefaultOrganisation, id)
	if err != nil {
		b.Fatal(err)
	}
	return k.Status
}

func (b *bench) setActive(status int, user, value string) map[string]any {
	b.Helper()
	return b.scim(status, "PATCH", "/Users/"+user, `{"Operations":[{"op":"replace","path":"active","value":`+value+`}]}`)
}

func TestDeactivationEndsAllAccessAndKeepsTheUser(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann@example.com")
		b.group("ws-Default-role-manager", ann)
		b.grantAll(ann)
		place := b.scim(200, "GET", "/Groups", "")["Resources"].([]any)
		b.setActive(200, ann, "false")
		if got := b.keyStatus("own-" + ann); got != store.KeyRevoked {
			t.Errorf("her key is %s", got)
		}
		if got := b.keyStatus("made-" + ann); got != store.KeyActive {
			t.Errorf("the service key that she made is %s", got)
		}
		if _, err := b.db.Session(t.Context(), "session-"+ann); err == nil {
			t.Error("her session goes on")
		}
		b.update(func(tx *store.Tx) error { // as one that began at the same time would
			return tx.CreateSession(t.Context(), store.Session{Hash: "late", ID: "late", UserID: ann, Organisation: store.DefaultOrganisation,
				CreatedAt: b.clock, ExpiresAt: b.clock.AddDate(0, 0, 1)})
		})
		if _, err := b.db.Session(t.Context(), "late"); err == nil {
			t.Error("a session that began late is valid")
		}
		if m, err := b.db.Membership(t.Context(), store.DefaultOrganisation, ann); err != nil || m.Role != "" || len(m.Workspaces) != 1 {
			t.Errorf("her membership is %+v, %v", m, err)
		}
		if u, organisation, err := b.db.UserByEmail(t.Context(), "ann@example.com"); err != nil || u.Status == store.Active {
			t.Errorf("at sign-in she is %s in %s, %v", u.Status, organisation, err)
		}
		list, _, err := b.db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, To: b.clock.AddDate(1, 0, 0), Action: "end_access"}, store.Page{})
		if err != nil || len(list) != 1 || !strings.Contains(list[0].RequestBody, "made-"+ann) {
			t.Errorf("the audit log has %+v, %v", list, err)
		}
		// The name stays hers.
		b.scim(409, "POST", "/Users", `{"userName":"ANN@example.com"}`)
		if again := b.setActive(200, ann, `"True"`); again["id"] != ann {
			t.Errorf("she is %v", again)
		}
		m, err := b.db.Membership(t.Context(), store.DefaultOrganisation, ann)
		if err != nil || m.Role != access.Member || len(m.Workspaces) != 1 {
			t.Errorf("again active, her membership is %+v, %v", m, err)
		}
		if len(place) != 1 {
			t.Errorf("groups: %v", place)
		}
	})
}

func TestServiceKeysOfADeactivatedUserEndIfTheOrganisationAsks(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		b.settings(store.DirectorySettings{RevokeServiceKeys: true})
		ann := b.user("ann@example.com")
		b.grantAll(ann)
		b.setActive(200, ann, "false")
		if got := b.keyStatus("made-" + ann); got != store.KeyRevoked {
			t.Errorf("the service key is %s", got)
		}
	})
}

// settings changes the settings of the organisation's directory.
func (b *bench) settings(s store.DirectorySettings) {
	b.Helper()
	b.update(func(tx *store.Tx) error {
		o, err := tx.Organisation(b.Context(), store.DefaultOrganisation)
		if err != nil {
			return err
		}
		o.Settings.Directory = &s
		return tx.UpdateOrganisation(b.Context(), o)
	})
}

func TestTheLastOwnerStays(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann, ben := b.user("ann"), b.user("ben")
		own := func(user string) {
			b.update(func(tx *store.Tx) error {
				return tx.SetUserRole(t.Context(), store.DefaultOrganisation, user, "owner", b.clock)
			})
		}
		own(ann)
		b.grantAll(ann)
		b.setActive(409, ann, "false")
		b.scim(409, "DELETE", "/Users/"+ann, "")
		b.scim(409, "PUT", "/Users/"+ann, `{"userName":"ann","active":false}`)
		if got := b.keyStatus("own-" + ann); got != store.KeyActive {
			t.Errorf("her key is %s", got)
		}
		list, _, err := b.db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, To: b.clock.AddDate(1, 0, 0), Status: 409}, store.Page{})
		if err != nil || len(list) != 3 || list[0].UserType != "directory" || list[0].ResourceID != ann {
			t.Errorf("the audit log has %d refusals, %v", len(list), err)
		}
		own(ben)
		b.setActive(200, ann, "false")
	})
}

func TestDeletedUsersAreNotTheSameAgain(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann@example.com")
		b.group("Staff", ann)
		b.grantAll(ann)
		b.scim(204, "DELETE", "/Users/"+ann, "")
		b.scim(404, "GET", "/Users/"+ann, "")
		b.scim(404, "PATCH", "/Users/"+ann, `{"Operations":[{"op":"replace","path":"active","value":true}]}`)
		if got := b.keyStatus("own-" + ann); got != store.KeyRevoked {
			t.Errorf("her key is %s", got)
		}
		if again := b.user("ann@example.com"); again == ann {
			t.Error("the id was used again")
		}
		if g := b.scim(200, "GET", "/Groups?filter=displayName eq \"staff\"", ""); strings.Contains(toJSON(g), "members") {
			t.Errorf("the group has %v", g)
		}
	})
}

func TestUsersOfTwoOrganisationsKeepTheirAccount(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann@example.com")
		b.update(func(tx *store.Tx) error {
			return tx.JoinOrganisation(t.Context(), otherOrganisation, store.User{ID: ann, Role: "member", UpdatedAt: b.clock})
		})
		b.scim(200, "PUT", "/Users/"+ann, `{"userName":"eve@example.com","name":{"givenName":"Eve"},"active":false}`)
		u, err := b.db.User(t.Context(), otherOrganisation, ann)
		if err != nil || u.Email != "ann@example.com" || u.FirstName != "" || u.Status != store.Active {
			t.Errorf("in the other organisation she is %+v, %v", u, err)
		}
		if u, err := b.db.User(t.Context(), store.DefaultOrganisation, ann); err != nil || u.Status == store.Active {
			t.Errorf("in this organisation she is %+v, %v", u, err)
		}
		if m, err := b.db.Membership(t.Context(), otherOrganisation, ann); err != nil || m.Role != "member" {
			t.Errorf("her membership there is %+v, %v", m, err)
		}
		if _, organisation, err := b.db.UserByEmail(t.Context(), "ann@example.com"); err != nil || organisation != otherOrganisation {
			t.Errorf("she signs in to %s, %v", organisation, err)
		}
	})
}

func TestUsersWhoWereInvitedBelongToNoDirectory(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		b.update(func(tx *store.Tx) error {
			return tx.CreateUser(t.Context(), store.DefaultOrganisation, store.User{ID: "cat", Email: "cat@example.com", Status: store.Active,
				Role: "admin", CreatedAt: b.clock, UpdatedAt: b.clock})
		})
		for _, body := range []string{`{"userName":"Cat@example.com"}`, `{"userName":"x","emails":[{"value":"cat@example.com"}]}`,
			`{"userName":"cat@example.com","emails":[{"value":"other@example.com"}]}`} {
			b.scim(409, "POST", "/Users", body)
		}
		b.scim(404, "GET", "/Users/cat", "")
		b.scim(404, "DELETE", "/Users/cat", "")
		if list := b.scim(200, "GET", `/Users?filter=userName eq "cat@example.com"`, ""); list["totalResults"] != 0.0 {
			t.Errorf("listed %v", list)
		}
		ann := b.user("ann@example.com")
		b.scim(409, "PUT", "/Users/"+ann, `{"userName":"ann@example.com","emails":[{"value":"cat@example.com"}]}`)
	})
}

func TestInvalidUsersAreRefusedByName(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		for _, tt := range []struct{ body, kind string }{
			{`{"active":true}`, "invalidValue"}, {`{"userName":""}`, "invalidValue"}, {`{"userName":7}`, "invalidValue"},
			{`{"userName":"` + strings.Repeat("a", 256) + `"}`, "invalidValue"}, {`[]`, "invalidSyntax"}, {`{`, "invalidSyntax"},
			{`{"userName":"a","username":"b"}`, "invalidSyntax"}, {`{"userName":"a","userName":"b"}`, "invalidSyntax"},
			{`{"schemas":["urn:other"],"userName":"a"}`, "invalidSyntax"}, {`{"userName":"a","active":"yes"}`, "invalidValue"},
			{`{"userName":"a","emails":"x","name":7}`, "invalidValue"}, {`{"userName":"a\u0000"}`, "invalidSyntax"},
			{`{"userName":"a","emails":[` + strings.Repeat(`{"value":"a"},`, 100) + `{"value":"b"}]}`, "invalidValue"},
		} {
			for _, c := range []call{{method: "POST", path: "/scim/v2/Users"}, {method: "PUT", path: "/scim/v2/Users/" + ann}} {
				c.body = tt.body
				w := b.send(c)
				if w.Code != 400 || !strings.Contains(w.Body.String(), `"scimType":"`+tt.kind+`"`) {
					t.Errorf("%s %.80s: %d %s, want %s", c.method, tt.body, w.Code, w.Body, tt.kind)
				}
			}
		}
		if w := b.send(call{method: "POST", path: "/scim/v2/Users", body: "a=b", header: http.Header{"Content-Type": {"text/plain"}}}); w.Code != 415 {
			t.Errorf("a form: %d %s", w.Code, w.Body)
		}
		u := b.scim(201, "POST", "/Users", `{"userName":"dan","active":"false","unknown":{"a":1},"password":"p"}`)
		if u["active"] != false || u["unknown"] != nil || u["password"] != nil {
			t.Errorf("created %v", u)
		}
	})
}

func TestVersionsGuardChanges(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		staff := b.group("Staff")
		for _, path := range []string{"/scim/v2/Users/" + ann, "/scim/v2/Groups/" + staff} {
			with := func(method, header, value, body string) int {
				w := b.send(call{method: method, path: path, body: body, header: http.Header{header: {value}}})
				if w.Code == 200 && w.Header().Get("Etag") == "" {
					t.Errorf("%s %s has no ETag", method, path)
				}
				return w.Code
			}
			body := `{"userName":"ann","displayName":"New"}`
			for i, got := range []int{
				with("GET", "If-None-Match", `W/"1"`, ""), with("GET", "If-None-Match", `W/"2"`, ""),
				with("PUT", "If-Match", `W/"7"`, body), with("PATCH", "If-Match", `"7"`, `{"Operations":[{"op":"add","path":"externalId","value":"e"}]}`),
				with("DELETE", "If-Match", `W/"7"`, ""), with("PUT", "If-Match", `W/"1"`, body), with("PUT", "If-Match", `W/"1"`, body),
				with("PUT", "If-Match", `*`, body), with("GET", "If-None-Match", `W/"1"`, ""), with("GET", "If-None-Match", `W/"1", W/"2"`, ""),
			} {
				if want := []int{304, 200, 412, 412, 412, 200, 412, 200, 200, 304}[i]; got != want {
					t.Errorf("%s: request %d: %d, want %d", path, i, got, want)
				}
			}
		}
	})
}
