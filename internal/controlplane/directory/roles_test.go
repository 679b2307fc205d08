package directory_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/directory"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/store"
)

// workspace returns the id of the workspace with a name, empty for none.
func (b *bench) workspace(name string) string {
	b.Helper()
	list, _, err := b.db.Workspaces(b.Context(), store.WorkspaceQuery{Organisation: store.DefaultOrganisation, ExactName: name}, store.Page{})
	if err != nil {
		b.Fatal(err)
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].ID
}

func (b *bench) setMembers(group string, members ...string) {
	b.Helper()
	list := make([]map[string]string, len(members))
	for i, id := range members {
		list[i] = map[string]string{"value": id}
	}
	b.scim(200, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"replace","path":"members","value":`+toJSON(list)+`}]}`)
}

func TestNamesOfGroupsGiveRolesInWorkspaces(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		group := b.group("WS-Red Team-Role-Manager", ann)
		red := b.workspace("Red Team")
		if red == "" || b.role(red, ann) != "manager by group" {
			t.Fatalf("workspace %q, role %s", red, b.role(red, ann))
		}
		admins := b.group("ws-Red Team-role-admin", ann)
		if got := b.role(red, ann); got != "admin by group" {
			t.Errorf("of two groups the role is %s", got)
		}
		b.setMembers(admins)
		if got := b.role(red, ann); got != "manager by group" {
			t.Errorf("after leaving one the role is %s", got)
		}
		b.scim(200, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"replace","value":{"displayName":"ws-red team-role-member"}}]}`)
		if b.workspace("red team") == red {
			t.Error("names of workspaces ignore letter case")
		}
		b.scim(200, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"replace","value":{"displayName":"ws-Red Team-role-member"}}]}`)
		if got := b.role(red, ann); got != "member by group" {
			t.Errorf("after a rename the role is %s", got)
		}
		b.scim(204, "DELETE", "/Groups/"+group, "")
		if got := b.role(red, ann); got != "none" {
			t.Errorf("after the group was deleted the role is %s", got)
		}
		if list := b.admin(200, "GET", "/scim/workspaces?scim_group_id="+group, ""); list["total_count"] != 0.0 {
			t.Errorf("mappings of the deleted group: %v", list)
		}
	})
}

func TestMappingsGiveRolesInWorkspaces(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann, ben := b.user("ann"), b.user("ben")
		m := b.admin(200, "POST", "/scim/workspaces", `{"workspace_id":"default","role":"manager","scim_group_name":"Engineering"}`)
		group := b.group("engineering", ann)
		if group != m["scim_group_id"] {
			t.Fatalf("the group %s is not the one of the mapping, %v", group, m)
		}
		list := b.admin(200, "GET", "/scim/workspaces?workspace_id=default&role=manager&scim_group_id="+group, "")
		want := `{"mappings":[{"by_name":false,"created_at":"2026-05-01T12:00:00.000Z","id":"` + m["id"].(string) + `","role":"manager","scim_group":"engineering","scim_group_id":"` +
			group + `","workspace_id":"` + store.DefaultWorkspace + `"}],"total_count":1}`
		if got := toJSON(list); got != want {
			t.Errorf("listed %s\nwant %s", got, want)
		}
		for body, status := range map[string]int{
			`{"workspace_id":"default","role":"admin","scim_group_id":"` + group + `"}`:                       409,
			`{"workspace_id":"default","role":"admin","scim_group_id":"none"}`:                                404,
			`{"workspace_id":"none","role":"admin","scim_group_name":"x"}`:                                    404,
			`{"workspace_id":"other-ws","role":"admin","scim_group_name":"x"}`:                                404,
			`{"workspace_id":"default","role":"owner","scim_group_name":"x"}`:                                 400,
			`{"workspace_id":"default","role":"admin"}`:                                                       400,
			`{"workspace_id":"default","role":"admin","scim_group_name":"x","scim_group_id":"` + group + `"}`: 400,
			`{"workspace_id":"default","role":"admin","scim_group_name":"ws-A-role-admin"}`:                   400,
		} {
			b.admin(status, "POST", "/scim/workspaces", body)
		}
		b.scim(200, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"replace","path":"displayName","value":"R&D"},{"op":"add","path":"members","value":["`+ben+`"]}]}`)
		for _, user := range []string{ann, ben} {
			if got := b.role(store.DefaultWorkspace, user); got != "manager by group" {
				t.Errorf("after a rename the role of %s is %s", user, got)
			}
		}
		b.scim(200, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"remove","path":"members[value eq \"`+ben+`\"]"}]}`)
		if got := b.role(store.DefaultWorkspace, ben); got != "none" {
			t.Errorf("after leaving the group the role is %s", got)
		}
		if out := b.admin(200, "DELETE", "/scim/workspaces/"+m["id"].(string), ""); out["success"] != true {
			t.Errorf("deleted %v", out)
		}
		if got := b.role(store.DefaultWorkspace, ann); got != "none" {
			t.Errorf("without the mapping the role is %s", got)
		}
		b.admin(404, "DELETE", "/scim/workspaces/"+m["id"].(string), "")
		b.admin(200, "POST", "/scim/workspaces", `{"workspace_id":"default","role":"member","scim_group_id":"`+group+`"}`)
		if got := b.role(store.DefaultWorkspace, ann); got != "member by group" {
			t.Errorf("with a new mapping the role is %s", got)
		}
	})
}

func TestMembershipsSetByHandStay(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		b.update(func(tx *store.Tx) error {
			return tx.SetWorkspaceMember(t.Context(), store.DefaultWorkspace, ann, "manager", b.clock)
		})
		group := b.group("ws-default-role-member", ann)
		if got := b.role(store.DefaultWorkspace, ann); got != "manager by manual" {
			t.Errorf("a lower role of a group makes it %s", got)
		}
		b.scim(200, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"replace","path":"displayName","value":"ws-default-role-admin"}]}`)
		if got := b.role(store.DefaultWorkspace, ann); got != "admin by group" {
			t.Errorf("a higher role of a group makes it %s", got)
		}
		b.update(func(tx *store.Tx) error {
			return tx.SetWorkspaceMember(t.Context(), store.DefaultWorkspace, ann, "member", b.clock)
		})
		if got := b.role(store.DefaultWorkspace, ann); got != "admin by group" {
			t.Errorf("a lower role set by hand makes it %s", got)
		}
		b.setMembers(group)
		if got := b.role(store.DefaultWorkspace, ann); got != "member by manual" {
			t.Errorf("without the group it is %s", got)
		}
	})
}

func TestSourcesHaveRolesOfTheirOwn(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		b.group("ws-default-role-member", ann)
		b.admin(200, "POST", "/scim/workspaces", `{"workspace_id":"default","role":"manager","scim_group_name":"Leads"}`)
		assign := func(groups ...string) {
			b.update(func(tx *store.Tx) error {
				return directory.Assign(t.Context(), tx, people.Groups{Organisation: store.DefaultOrganisation, User: ann, Source: "oidc:one",
					Names: groups, Now: b.clock})
			})
		}
		for _, tt := range []struct {
			groups []string
			want   string
		}{
			{[]string{"leads", "unknown"}, "manager by group"}, {[]string{"leads", "WS-Default-role-ADMIN"}, "admin by group"},
			{[]string{"unknown"}, "member by group"}, {[]string{"leads"}, "manager by group"}, {nil, "member by group"},
		} {
			if assign(tt.groups...); b.role(store.DefaultWorkspace, ann) != tt.want {
				t.Errorf("with the groups %v the role is %s, want %s", tt.groups, b.role(store.DefaultWorkspace, ann), tt.want)
			}
		}
		if assign("ws-New-role-admin"); b.workspace("New") != "" {
			t.Error("a sign-in has created a workspace")
		}
	})
}

func TestNamesOfGroupsGiveRolesInTheOrganisationIfItAsks(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		role := func() string {
			u, err := b.db.User(t.Context(), store.DefaultOrganisation, ann)
			if err != nil {
				t.Fatal(err)
			}
			return u.Role
		}
		group := b.group("org-role-admin", ann)
		if got := role(); got != "member" {
			t.Errorf("without the setting the role is %s", got)
		}
		b.settings(store.DirectorySettings{OrganisationRoles: true, GroupPrefix: "gw", GroupSeparator: "."})
		b.scim(200, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"replace","path":"displayName","value":"Org.Role.Admin"}]}`)
		if got := role(); got != "admin" {
			t.Errorf("with the setting the role is %s", got)
		}
		b.group("gw.default.role.manager", ann)
		if got := b.role(store.DefaultWorkspace, ann); got != "manager by group" {
			t.Errorf("with another form the role in the workspace is %s", got)
		}
		b.setMembers(group)
		if got := role(); got != "member" {
			t.Errorf("without the group the role is %s", got)
		}
		b.group("ws-default-role-admin", ann)
		if got := b.role(store.DefaultWorkspace, ann); got != "manager by group" {
			t.Errorf("the form before gives %s", got)
		}
	})
}

func TestHostileNamesOfGroupsAreNames(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		for _, name := range []string{
			`ws-%-role-admin`, `ws-'; DROP TABLE users; ---role-member`, `ws-<script>-role-member`, `ws-a-role-admin-role-member`, `ws-.*-role-member`,
		} {
			b.group(name)
			want := strings.TrimPrefix(name[:strings.LastIndex(name, "-role-")], "ws-")
			if b.workspace(want) == "" {
				t.Errorf("the group %q made no workspace %q", name, want)
			}
		}
		before, _, err := b.db.Workspaces(t.Context(), store.WorkspaceQuery{Organisation: store.DefaultOrganisation}, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ws--role-admin", "ws- -role-admin", "ws-A-role-owner", "ws-A-role-", "xws-A-role-admin", "ws-role-admin", "İws-A-role-admin"} {
			b.group(name)
		}
		after, _, err := b.db.Workspaces(t.Context(), store.WorkspaceQuery{Organisation: store.DefaultOrganisation}, store.Page{})
		if err != nil || len(after) != len(before) {
			t.Errorf("%d workspaces, then %d, %v", len(before), len(after), err)
		}
	})
}

func TestDeactivatedUsersKeepTheirGroupsAndGetNoRoleInAnother(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		b.setActive(200, ann, "false")
		group := b.group("ws-default-role-admin", ann)
		if m, err := b.db.Membership(t.Context(), store.DefaultOrganisation, ann); err != nil || m.RoleIn(store.DefaultWorkspace) != "" {
			t.Errorf("deactivated, the membership is %+v, %v", m, err)
		}
		b.setActive(200, ann, "true")
		if m, err := b.db.Membership(t.Context(), store.DefaultOrganisation, ann); err != nil || m.RoleIn(store.DefaultWorkspace) != "admin" {
			t.Errorf("active, the membership is %+v, %v", m, err)
		}
		b.scim(204, "DELETE", "/Groups/"+group, "")
		if got := b.role(store.DefaultWorkspace, ann); got != "none" {
			t.Errorf("without the group the role is %s", got)
		}
	})
}
