package exports_test

import (
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// join makes a person with a role in the organisation and in the workspace, and
// returns their session.
func (d *desk) join(name, role, within string) *routetest.Caller {
	d.t.Helper()
	d.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at)
		VALUES ($1, $1 || '@example.com', '', '', '', 'active', 0, 0)`, name)
	d.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`,
		store.DefaultOrganisation, name, role)
	if within != "" {
		d.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`,
			store.DefaultWorkspace, name, within)
	}
	return d.As(access.Identity{Type: access.Session, UserID: name, Workspace: "-", KeyID: name, Scopes: access.RoleScopes(role)})
}

// addKey gives a person a key.
func (d *desk) addKey(user, key string) {
	d.Exec(`INSERT INTO gateway_keys (id, type, organisation_id, workspace_id, user_id, name, description, hash, mask, scopes, providers, defaults,
			usage_limits, rate_limits, alert_emails, rotation_policy, creation_mode, status, created_at, updated_at)
		VALUES ($1, 'workspace-user', $2, $3, $4, '', '', $1, '', '[]', '[]', '{}', 'null', '[]', '[]', 'null', 'api', 'active', 0, 0)`,
		key, store.DefaultOrganisation, store.DefaultWorkspace, user)
}

// grant sets switches of the organisation.
func (d *desk) grant(s access.RolePermissions) {
	d.t.Helper()
	o, err := d.DB.Organisation(d.t.Context(), store.DefaultOrganisation)
	if err != nil {
		d.t.Fatal(err)
	}
	o.Settings.Security = s
	if err := d.DB.Update(d.t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateOrganisation(d.t.Context(), o) }); err != nil {
		d.t.Fatal(err)
	}
}

// made makes an export of a caller, and returns the keys of its rows.
func (d *desk) keysFor(c *routetest.Caller, filters string) string {
	d.t.Helper()
	var out struct{ ID string }
	c.Must("POST", "/logs/exports", `{"workspace_id":"default","format":"csv","requested_data":["config"],"filters":{`+lastDay+filters+`}}`, &out)
	c.Must("POST", "/logs/exports/"+out.ID+"/start", "", nil)
	d.runner.Next(d.t.Context())
	rows := strings.Split(d.file(c, out.ID), "\r\n")
	return strings.Join(rows[1:len(rows)-1], "")
}

// recorded writes an entry of each key, whose config is the key.
func (d *desk) recorded(keys ...string) {
	for _, k := range keys {
		d.record(&reqlog.Entry{Sender: reqlog.Sender{KeyID: k}, Input: reqlog.Input{Config: k}})
	}
}

func TestRowsAreThoseThatTheMakerMaySee(t *testing.T) {
	d := newDesk(t)
	member, boss := d.join("mia", "member", "member"), d.join("bo", "owner", "")
	d.addKey("mia", "m")
	d.recorded("s", "m", "x")
	service := d.As(access.Identity{Type: access.WorkspaceService, KeyID: "svc", Scopes: access.Scopes(access.WorkspaceService)})
	for name, c := range map[string]*routetest.Caller{"member": member, "owner": boss, "service": service} {
		if got := d.keysFor(c, ""); len(got) != 3 {
			t.Errorf("%s sees %q", name, got)
		}
	}
	d.grant(access.RolePermissions{"membersViewAllData": false})
	for filters, want := range map[string]string{"": "m", `,"api_key_ids":"m"`: "m"} {
		if got := d.keysFor(member, filters); got != want {
			t.Errorf("with own data alone and %s: %q, want %q", filters, got, want)
		}
		var out struct{ Total *int64 }
		member.Must("POST", "/logs/exports", `{"workspace_id":"default","requested_data":["id"],"filters":{`+lastDay+filters+`}}`, &out)
		if out.Total == nil || *out.Total != int64(len(want)) {
			t.Errorf("%s: %v were counted, want %d: others' rows", filters, out.Total, len(want))
		}
	}
	for _, keys := range []string{"s", "m,s", "nothing"} { // others' keys are not there
		if a := member.Call("POST", "/logs/exports", `{"workspace_id":"default","requested_data":["id"],"filters":{`+lastDay+`,"api_key_ids":"`+keys+`"}}`); a.Status != 404 {
			t.Errorf("with own data alone, keys %s: %d %s, want 404", keys, a.Status, a.Body)
		}
	}
	if got := d.keysFor(boss, ""); len(got) != 3 {
		t.Errorf("the owner sees %q", got)
	}
	d.grant(access.RolePermissions{"membersViewLogs": false})
	if a := member.Call("POST", "/logs/exports", `{"workspace_id":"default","requested_data":["id"],"filters":{`+lastDay+`}}`); a.Status != 403 {
		t.Errorf("without the right: %d %s", a.Status, a.Body)
	}
}

func TestVisibleKeysOfAnExportAreFixedAtItsStart(t *testing.T) {
	d := newDesk(t)
	member := d.join("mia", "member", "member")
	d.addKey("mia", "m")
	d.recorded("s", "m")
	before, after := createDraft(member, "csv", ""), createDraft(member, "csv", "")
	member.Must("POST", "/logs/exports/"+before+"/start", "", nil)
	d.grant(access.RolePermissions{"membersViewAllData": false})
	member.Must("POST", "/logs/exports/"+after+"/start", "", nil)
	for d.runner.Next(t.Context()) {
	}
	if n, m := strings.Count(d.file(member, before), "\n"), strings.Count(d.file(member, after), "\n"); n != 3 || m != 2 {
		t.Errorf("%d lines before and %d after, want 3 and 2", n, m)
	}
	third := createDraft(member, "csv", "")
	d.grant(access.RolePermissions{"membersViewLogs": false})
	for _, call := range [][2]string{{"POST", third + "/start"}, {"GET", before + "/download"}, {"GET", before}} {
		if a := member.Call(call[0], "/logs/exports/"+call[1], ""); a.Status != 403 {
			t.Errorf("%v without the right: %d %s", call, a.Status, a.Body)
		}
	}
	// A service's key that starts a person's draft starts it as theirs.
	if a := d.root.Call("POST", "/logs/exports/"+third+"/start", ""); a.Status != 403 {
		t.Errorf("somebody else's start: %d %s", a.Status, a.Body)
	}
}

func TestPeopleSeeTheirOwnExportsAndServicesAllOfTheirPlace(t *testing.T) {
	d := newDesk(t)
	mia, max := d.join("mia", "member", "member"), d.join("max", "member", "admin")
	d.Exec(`INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings,
			usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
			VALUES ('w2', $1, 'w2', 'w2', '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`, store.DefaultOrganisation)
	keyOf := func(id, workspace, user string, kind access.KeyType) *routetest.Caller {
		return d.As(access.Identity{Type: kind, KeyID: id, Workspace: workspace, UserID: user, Scopes: access.Scopes(access.WorkspaceService)})
	}
	callers := map[string]*routetest.Caller{
		"mia": mia, "max": max, "mia's key": keyOf("mk", "", "mia", access.WorkspaceUser), "service": keyOf("sk", "", "", access.WorkspaceService),
		"another tenant": keyOf("nk", "w2", "", access.WorkspaceService), "organisation": keyOf("ok", "-", "", access.OrganisationService),
	}
	ids := map[string]string{"mia": createDraft(mia, "csv", ""), "max": createDraft(max, "csv", ""), "service": createDraft(callers["service"], "csv", "")}
	for name, sees := range map[string]string{
		"mia": "mia", "max": "max", "mia's key": "mia", "service": "mia max service", "another tenant": "", "organisation": "mia max service",
	} {
		c := callers[name]
		var list struct{ Total int }
		c.Must("GET", "/logs/exports", "", &list)
		if list.Total != len(strings.Fields(sees)) {
			t.Errorf("%s lists %d, want %q", name, list.Total, sees)
		}
		for maker, id := range ids {
			want := 404
			if strings.Contains(" "+sees+" ", " "+maker+" ") {
				want = 200
			}
			if a := c.Call("GET", "/logs/exports/"+id, ""); a.Status != want {
				t.Errorf("%s reads that of %s: %d, want %d", name, maker, a.Status, want)
			}
		}
	}
	d.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('abroad', 'abroad', '', '', '{}', '', 'active', 0, 0)`)
	abroad := d.As(access.Identity{Type: access.OrganisationService, KeyID: "abroad", Organisation: "abroad", Workspace: "-", Scopes: []access.Scope{access.ScopeAll}})
	for _, path := range []string{"", "/download"} {
		if a := abroad.Call("GET", "/logs/exports/"+ids["service"]+path, ""); a.Status != 404 {
			t.Errorf("another organisation reads %s: %d", path, a.Status)
		}
	}
	d.Exec(`DELETE FROM workspace_members WHERE user_id = 'mia'`)
	if a := mia.Call("GET", "/logs/exports/"+ids["mia"], ""); a.Status != 404 {
		t.Errorf("who has left the workspace: %d", a.Status)
	}
}

func TestArchivedWorkspacesAreForAdministrators(t *testing.T) {
	d := newDesk(t)
	d.recorded("a")
	boss, member := d.join("bo", "admin", ""), d.join("mia", "member", "admin")
	id := createDraft(member, "csv", "")
	d.Exec(`UPDATE workspaces SET status = 'archived' WHERE id = $1`, store.DefaultWorkspace)
	service := d.As(access.Identity{Type: access.WorkspaceService, KeyID: "svc", Scopes: access.Scopes(access.WorkspaceService)})
	const body = `{"workspace_id":"default","requested_data":["id"],"filters":{` + lastDay + `}}`
	for name, c := range map[string]*routetest.Caller{"member": member, "service": service} {
		if a := c.Call("POST", "/logs/exports", body); a.Status != 404 {
			t.Errorf("%s drafts: %d %s", name, a.Status, a.Body)
		}
		if a := c.Call("GET", "/logs/exports/"+id, ""); a.Status != 404 {
			t.Errorf("%s reads: %d %s", name, a.Status, a.Body)
		}
	}
	if got := d.keysFor(boss, ""); got != "a" {
		t.Errorf("an admin of the organisation: %q", got)
	}
	if got := d.keysFor(d.root, ""); got != "a" {
		t.Errorf("the installation's own key: %q", got)
	}
	var list struct{ Total int }
	boss.Must("GET", "/logs/exports?workspace_id=default", "", &list)
	if list.Total != 1 {
		t.Errorf("an admin lists %d", list.Total)
	}
}
