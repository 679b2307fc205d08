package keys_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/keys"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// storeKey returns a caller with a key that is made for it.
func storeKey(t *testing.T, b *routetest.Bench, scopes string) (*routetest.Caller, string) {
	t.Helper()
	k := mustMake(t, b.Root(), "workspace/service", `{"name":"maker","scopes":`+scopes+`}`)
	row, err := b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID)
	if err != nil {
		t.Fatal(err)
	}
	return b.As(*row.Identity()), k.ID
}

func TestKeyIsNotGivenScopesThatItsMakerLost(t *testing.T) {
	b := newBench(t)
	maker, id := storeKey(t, b, `["models.list","configs.read","workspace_service_api_keys.create"]`)
	child := mustMake(t, maker, "workspace/service", `{"name":"child","scopes":["models.list","configs.read"]}`)
	root := b.Root()
	root.Must("PUT", "/api-keys/"+id, `{"scopes":["models.list","workspace_service_api_keys.create"]}`, nil)
	root.Must("PUT", "/api-keys/"+child.ID, `{"scopes":["models.list"]}`, nil)
	for _, scope := range []string{"configs.read", "logs.list"} {
		a := root.Call("PUT", "/api-keys/"+child.ID, `{"scopes":["models.list","`+scope+`"]}`)
		if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03") || !strings.Contains(a.Body, scope) || !strings.Contains(a.Body, "maker") {
			t.Errorf("giving %s to the child: %d %s", scope, a.Status, a.Body)
		}
	}
	root.Must("PUT", "/api-keys/"+id, `{"scopes":["models.list","configs.read"]}`, nil)
	root.Must("PUT", "/api-keys/"+child.ID, `{"scopes":["models.list","configs.read"]}`, nil)
}

// keyList are the ids of keys as a list has them.
type keyList struct {
	Total int
	Data  []struct {
		ID        string
		CreatedBy *string  `json:"created_by"`
		MadeBy    []string `json:"made_by_keys"`
	}
}

func TestKeysAreListedAndRevokedByTheirMaker(t *testing.T) {
	b := newBench(t)
	manager, admin := session(b, "manager"), session(b, "admin")
	var ids []string
	for _, body := range []string{`{"name":"a","scopes":["models.list"],"workspace_id":"default"}`, `{"name":"b","scopes":["models.list"],"workspace_id":"default"}`} {
		ids = append(ids, mustMake(t, manager, "workspace/service", body).ID)
	}
	ids = append(ids, mustMake(t, manager, "workspace/user", plain+`,"user_id":"member"}`).ID)
	admins := mustMake(t, admin, "workspace/service", plain+`}`)
	slices.Sort(ids)

	var got keyList
	admin.Must("GET", "/api-keys?created_by=manager&workspace_id=default", "", &got)
	if got.Total != 3 || len(got.Data) != 3 || *got.Data[0].CreatedBy != "manager" || len(got.Data[0].MadeBy) != 0 {
		t.Errorf("keys that the manager made: %+v", got)
	}
	for _, pattern := range []string{"%25", "m_nager", "manage", "anager", "manager%25"} {
		if a := admin.Call("GET", "/api-keys?created_by="+pattern, ""); a.Status != http.StatusNotFound {
			t.Errorf("created_by=%s: %d %s, want 404", pattern, a.Status, a.Body)
		}
	}
	for _, tt := range []struct {
		name   string
		caller *routetest.Caller
		path   string
		status int
		ended  int
	}{
		{"no maker", admin, "/api-keys", http.StatusBadRequest, 0},
		{"a pattern", admin, "/api-keys?created_by=%25", http.StatusOK, 0},
		{"another workspace", service(b, other), "/api-keys?created_by=manager", http.StatusOK, 0},
		{"a caller without the scope", b.As(access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{"models.list"}}), "/api-keys?created_by=manager", http.StatusForbidden, 0},
		{"a member", session(b, "member"), "/api-keys?created_by=manager&workspace_id=default", http.StatusOK, 1}, // of themselves
		{"an outsider", session(b, "outsider"), "/api-keys?created_by=manager", http.StatusOK, 0},
		{"an admin", admin, "/api-keys?created_by=manager", http.StatusOK, 2},
		{"an admin again", admin, "/api-keys?created_by=manager", http.StatusOK, 0},
	} {
		a := tt.caller.Call("DELETE", tt.path, "")
		if a.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, a.Status, a.Body, tt.status)
		}
		ended := 0
		for _, id := range ids {
			if strings.Contains(a.Body, id) {
				ended++
			}
		}
		if ended != tt.ended {
			t.Errorf("%s ends %d keys, want %d: %s", tt.name, ended, tt.ended, a.Body)
		}
	}
	admin.Must("GET", "/api-keys/"+admins.ID, "", nil)
	for _, id := range ids {
		if a := admin.Call("GET", "/api-keys/"+id, ""); a.Status != http.StatusNotFound {
			t.Errorf("a key that was ended: %d %s", a.Status, a.Body)
		}
	}
}

func TestKeysOfAMakerEndAllOrNone(t *testing.T) {
	b := newBench(t)
	maker := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	plainKey := mustMake(t, b.Root(), "workspace/service", plain+`}`)
	boundless := store.Key{ID: "00000000-0000-7000-8000-0000000000ff", Name: "first", Hash: access.HashKey("first"), Scopes: []access.Scope{access.ScopeAll}, CreatedAt: b.Clock, Origin: store.KeyOrigin{By: "key-a"}}
	if err := b.DB.CreateKey(t.Context(), boundless); err != nil {
		t.Fatal(err)
	}
	if a := maker.Call("DELETE", "/api-keys?created_by=key-a", ""); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03") {
		t.Errorf("with a key among them that has every scope: %d %s", a.Status, a.Body)
	}
	b.Root().Must("GET", "/api-keys/"+plainKey.ID, "", nil)
}

func TestUsageIsNotResetBeforeItIsCounted(t *testing.T) {
	b := routetest.New(t, keys.Add)
	waited, failure := 0, errors.New("counting does not work")
	b.API.AwaitSpending = func(context.Context) error { waited++; return failure }
	k := mustMake(t, b.Root(), "workspace/service", `{"name":"k","scopes":["models.list"],"usage_limits":{"credit_limit":5}}`)
	a := b.Root().Call("PUT", "/api-keys/"+k.ID, `{"reset_usage":true}`)
	if a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "reset_usage") || waited != 1 {
		t.Errorf("while counting fails: %d %s after %d waits", a.Status, a.Body, waited)
	}
	b.Root().Must("PUT", "/api-keys/"+k.ID, `{"name":"other"}`, nil)
	failure = nil
	b.Root().Must("PUT", "/api-keys/"+k.ID, `{"reset_usage":true}`, nil)
	if got := b.Root().Call("GET", "/api-keys/"+k.ID, "").Body; waited != 2 || strings.Contains(got, `"last_reset_at":null`) {
		t.Errorf("after %d waits the key is %s", waited, got)
	}
}

func TestCappedPersonMakesNoKeyBeyondTheirOwn(t *testing.T) {
	b := newBench(t)
	root, manager := b.Root(), session(b, "manager")
	before := mustMake(t, root, "workspace/service", `{"name":"before","scopes":["models.list"],"workspace_id":"default","usage_limits":{"credit_limit":1}}`)
	free := mustMake(t, manager, "workspace/service", plain+`}`)
	capped := mustMake(t, root, "workspace/user", plain+`,"user_id":"manager","usage_limits":{"credit_limit":7}}`)
	for _, tt := range []struct{ name, method, path, body string }{
		{"a service key", "POST", "/api-keys/workspace/service", plain + `,"usage_limits":{"credit_limit":8}}`},
		{"a key for a member", "POST", "/api-keys/workspace/user", plain + `,"user_id":"member","usage_limits":{"credit_limit":8}}`},
		{"a key for themselves", "POST", "/api-keys/workspace/user", plain + `,"usage_limits":{"credit_limit":8}}`},
		{"another budget for a service key", "PUT", "/api-keys/" + free.ID, `{"usage_limits":{"credit_limit":8}}`},
		{"a further budget for a service key", "PUT", "/api-keys/" + free.ID, `{"usage_limits":{"credit_limit":6}}`},
		{"the secret of a service key without a budget", "POST", "/api-keys/" + free.ID + "/rotate", ""},
	} {
		if a := manager.Call(tt.method, tt.path, tt.body); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03") || !strings.Contains(a.Body, "7") {
			t.Errorf("a manager whose key may spend 7 dollars gets %s: %d %s", tt.name, a.Status, a.Body)
		}
	}
	if a := manager.Call("PUT", "/api-keys/"+before.ID, `{"reset_usage":true}`); a.Status != http.StatusForbidden {
		t.Errorf("a reset of the operator's budget: %d %s", a.Status, a.Body)
	}
	for _, body := range []string{plain + `}`, plain + `,"usage_limits":{"credit_limit":7}}`} {
		k := mustMake(t, manager, "workspace/service", body)
		row, err := b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID)
		if err != nil || !slices.Equal(row.Origin.Lineage, []string{capped.ID}) {
			t.Errorf("a service key within the limit counts against %q, %v; want the manager's key", row.Origin.Lineage, err)
		}
		manager.Must("PUT", "/api-keys/"+k.ID, `{"usage_limits":{"credit_limit":6}}`, nil)
		manager.Must("POST", "/api-keys/"+k.ID+"/rotate", "", nil)
	}
	manager.Must("PUT", "/api-keys/"+free.ID, `{"name":"still free"}`, nil)
	session(b, "admin").Must("POST", "/api-keys/workspace/service", plain+`,"usage_limits":{"credit_limit":8}}`, nil)
	manager.Must("DELETE", "/api-keys/"+capped.ID, "", nil)
	if a := manager.Call("POST", "/api-keys/workspace/service", plain+`}`); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "ask the user who set them") {
		t.Errorf("after the manager ended the key that was capped: %d %s", a.Status, a.Body)
	}
}
