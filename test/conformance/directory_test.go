package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
)

// directory is an organisation's directory, which calls SCIM.
type directory struct {
	*gateway
	token string
}

func newDirectory(t *testing.T, env ...string) directory {
	t.Helper()
	g := launchFor(t, "version: 1\n", env...)
	token, _ := g.do(t, "POST", "/v1/scim/tokens", `{"name":"directory"}`, "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)["token"].(string)
	return directory{g, token}
}

// call sends a request to SCIM and returns the response, which must have the status.
func (d directory) call(t *testing.T, status int, method, path, body string) response {
	t.Helper()
	got := d.do(t, method, "/v1/scim/v2"+path, body, "authorization", "Bearer "+d.token, "content-type", "application/scim+json")
	if got.status != status {
		t.Fatalf("%s %s: status %d, want %d: %.300s", method, path, got.status, status, got.body)
	}
	return got
}

func (d directory) add(t *testing.T, path, body string) string {
	t.Helper()
	id, _ := d.call(t, http.StatusCreated, "POST", path, body).object(t)["id"].(string)
	return id
}

// role returns the role of a user in the first workspace, empty for none.
func (d directory) role(t *testing.T, user string) string {
	t.Helper()
	got := d.do(t, "GET", "/v1/workspaces/default/users/"+user, "", "x-gateway-api-key", bootstrapKey)
	if got.status == http.StatusNotFound {
		return ""
	}
	role, _ := got.wantOK(t).object(t)["role"].(string)
	return role
}

func TestDirectorySyncManagesMembers(t *testing.T) {
	const addAnn = `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add","path":"members","value":[{"value":"ANN"}]}]}`
	prove(t, "S-533", "users name their groups, and members of groups are ignored", func(t *testing.T) {
		d := newDirectory(t, "SCIM_MEMBERSHIP_USER_MODE=ON")
		ann := d.add(t, "/Users", `{"userName":"ann@example.com"}`)
		group := d.add(t, "/Groups", `{"displayName":"ws-default-role-manager"}`)
		d.call(t, http.StatusOK, "PATCH", "/Groups/"+group, strings.ReplaceAll(addAnn, "ANN", ann))
		if got := d.role(t, ann); got != "" {
			t.Errorf("a member that the group names has the role %q", got)
		}
		body := `{"userName":"ann@example.com","groups":[{"value":"` + group + `"}]}`
		if got := d.call(t, http.StatusOK, "PUT", "/Users/"+ann, body); !strings.Contains(string(got.body), group) {
			t.Errorf("the user is %s", got.body)
		}
		if got := d.role(t, ann); got != "manager" {
			t.Errorf("a user who names the group has the role %q", got)
		}
	})
	prove(t, "S-534", "groups name their members unless that mode is on", func(t *testing.T) {
		d := newDirectory(t)
		ann := d.add(t, "/Users", `{"userName":"ann@example.com"}`)
		group := d.add(t, "/Groups", `{"displayName":"ws-default-role-manager"}`)
		d.call(t, http.StatusOK, "PUT", "/Users/"+ann, `{"userName":"ann@example.com","groups":[{"value":"`+group+`"}]}`)
		if got := d.role(t, ann); got != "" {
			t.Errorf("a user who names the group has the role %q", got)
		}
		d.call(t, http.StatusOK, "PATCH", "/Groups/"+group, strings.ReplaceAll(addAnn, "ANN", ann))
		if got := d.role(t, ann); got != "manager" {
			t.Errorf("a member that the group names has the role %q", got)
		}
	})
	prove(t, "S-544", "directory sync is on unless it is turned off", func(t *testing.T) {
		d := newDirectory(t)
		d.call(t, http.StatusOK, "GET", "/ServiceProviderConfig", "")
		d.do(t, "GET", "/scim/v2/Users", "", "authorization", "Bearer "+d.token).wantOK(t)
		d.do(t, "GET", "/v1/scim/workspaces", "", "x-gateway-api-key", bootstrapKey).wantOK(t)
	})
}

func TestDeactivatedUsersLoseTheirKeysOnEveryNode(t *testing.T) {
	prove(t, "S-588", "a deactivated user's key ends on every node", func(t *testing.T) {
		s := launchNodes(t, 2, storetest.Postgres(t))
		token, _ := s.change(t, "POST", "/v1/scim/tokens", `{"name":"directory"}`).object(t)["token"].(string)
		d := directory{s.list[0], token}
		ann := d.add(t, "/Users", `{"userName":"ann@example.com"}`)
		d.add(t, "/Groups", `{"displayName":"ws-default-role-member","members":[{"value":"`+ann+`"}]}`)
		key, _ := s.change(t, "POST", "/v1/api-keys/workspace/user",
			`{"name":"hers","workspace_id":"default","scopes":["models.list"],"user_id":"`+ann+`"}`).object(t)["key"].(string)
		is := func(status int) func(*gateway) bool {
			return func(g *gateway) bool { return g.as(t, key, "GET", "/v1/models", "").status == status }
		}
		s.arrival(t, "the key is valid", is(http.StatusOK))
		d.call(t, http.StatusOK, "PATCH", "/Users/"+ann, `{"Operations":[{"op":"replace","value":{"active":false}}]}`)
		t.Logf("the key was refused after %v", s.arrival(t, "the key is refused", is(http.StatusUnauthorized)))
	})
}

func TestDirectoryGroupsAreMappedToWorkspaces(t *testing.T) {
	prove(t, "S-588", "members of a mapped group have its role until the mapping is deleted", func(t *testing.T) {
		d := newDirectory(t)
		ann := d.add(t, "/Users", `{"userName":"ann@example.com"}`)
		made := d.do(t, "POST", "/v1/scim/workspaces", `{"workspace_id":"default","role":"manager","scim_group_name":"Engineering"}`,
			"x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
		id, _ := made["id"].(string)
		group := d.add(t, "/Groups", `{"displayName":"Engineering","members":[{"value":"`+ann+`"}]}`)
		if got := d.role(t, ann); got != "manager" {
			t.Errorf("the role is %q", got)
		}
		list := d.do(t, "GET", "/v1/scim/workspaces?scim_group_id="+group+"&role=manager", "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
		if mappings, _ := list["mappings"].([]any); len(mappings) != 1 || fmt.Sprint(list["total_count"]) != "1" {
			t.Errorf("listed %v", list)
		}
		if got := d.do(t, "DELETE", "/v1/scim/workspaces/"+id, "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t); got["success"] != true {
			t.Errorf("deleted %v", got)
		}
		if got := d.role(t, ann); got != "" {
			t.Errorf("without the mapping the role is %q", got)
		}
	})
	prove(t, "S-588", "a deactivated user's key ends at once", func(t *testing.T) {
		d := newDirectory(t)
		ann := d.add(t, "/Users", `{"userName":"ann@example.com"}`)
		d.add(t, "/Groups", `{"displayName":"ws-default-role-member","members":[{"value":"`+ann+`"}]}`)
		key, _ := d.do(t, "POST", "/v1/api-keys/workspace/user", `{"name":"hers","workspace_id":"default","scopes":["models.list"],"user_id":"`+ann+`"}`,
			"x-gateway-api-key", bootstrapKey).wantOK(t).object(t)["key"].(string)
		d.do(t, "GET", "/v1/models", "", "x-gateway-api-key", key).wantOK(t)
		d.call(t, http.StatusOK, "PATCH", "/Users/"+ann, `{"Operations":[{"op":"Replace","path":"active","value":"False"}]}`)
		if got := d.do(t, "GET", "/v1/models", "", "x-gateway-api-key", key); got.status != http.StatusUnauthorized {
			t.Errorf("the key is answered with %d: %.300s", got.status, got.body)
		}
	})
}
