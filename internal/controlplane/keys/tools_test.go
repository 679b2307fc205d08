package keys_test

import (
	"net/http"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

func TestAKeyMayUseNoMoreToolsThanItsMaker(t *testing.T) {
	b := newBench(t)
	k := mustMake(t, b.Root(), "workspace/service", `{"name":"maker","scopes":["mcp.invoke","workspace_service_api_keys.create","workspace_service_api_keys.update","workspace_service_api_keys.rotate","workspace_service_api_keys.read"],"tools":["issues/tool/*","files"]}`)
	free := mustMake(t, b.Root(), "workspace/service", `{"name":"free","scopes":["mcp.invoke"]}`)
	row, err := b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID)
	if err != nil {
		t.Fatal(err)
	}
	maker := b.As(*row.Identity())
	for tools, want := range map[string]int{
		`["issues/tool/create"]`: http.StatusOK, `[]`: http.StatusOK, `["files/prompt/*"]`: http.StatusOK,
		`["issues"]`: http.StatusForbidden, `["*"]`: http.StatusForbidden, `["wiki"]`: http.StatusForbidden, `["bad/pattern"]`: http.StatusBadRequest,
	} {
		if got := maker.Call("POST", "/api-keys/workspace/service", `{"name":"child","scopes":["mcp.invoke"],"tools":`+tools+`}`); got.Status != want {
			t.Errorf("a child with %s: %d %s, want %d", tools, got.Status, got.Body, want)
		}
	}
	child := mustMake(t, maker, "workspace/service", `{"name":"child","scopes":["mcp.invoke"]}`)
	stored, err := b.DB.Key(t.Context(), store.DefaultOrganisation, child.ID)
	if err != nil || len(stored.Tools) != 2 {
		t.Errorf("a child without tools has %v, %v", stored.Tools, err)
	}
	for _, body := range []string{`{"tools":null}`, `{"tools":["*"]}`} {
		if got := maker.Call("PUT", "/api-keys/"+child.ID, body); got.Status != http.StatusForbidden {
			t.Errorf("a child changed to %s: %d", body, got.Status)
		}
		if got := maker.Call("PUT", "/api-keys/"+k.ID, body); got.Status != http.StatusForbidden {
			t.Errorf("a key that changes its own to %s: %d", body, got.Status)
		}
	}
	if got := maker.Call("POST", "/api-keys/"+free.ID+"/rotate", `{}`); got.Status != http.StatusForbidden {
		t.Errorf("the secret of a key without a limit: %d %s", got.Status, got.Body)
	}
	b.Root().Must("PUT", "/api-keys/"+child.ID, `{"tools":null}`, nil)
	stored, err = b.DB.Key(t.Context(), store.DefaultOrganisation, child.ID)
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.DB.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []*access.Identity
	for _, k := range all {
		ids = append(ids, k.Identities()...)
	}
	for _, id := range access.Bind(ids) {
		if id.KeyID == child.ID && (stored.Tools != nil || len(id.Tools) != 1 || len(id.Tools[0]) != 2) {
			t.Errorf("the child, stored with %v, may use %v", stored.Tools, id.Tools)
		}
	}
	var shown struct{ Tools []string }
	b.Root().Must("GET", "/api-keys/"+k.ID, "", &shown)
	if len(shown.Tools) != 2 {
		t.Errorf("shown %v", shown.Tools)
	}
}
