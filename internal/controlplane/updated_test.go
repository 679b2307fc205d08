package controlplane_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

func TestUpdatesReturnTheObjectWithItsETag(t *testing.T) {
	b := routetest.New(t, configs.Add, policies.Routes{}.Add)
	root := b.Root()
	for _, tt := range []struct{ path, create, update, member string }{
		{"/configs", `{"name":"a","config":{"retry":{"attempts":1}}}`, `{"name":"b"}`, "name"},
		{"/policies/rate-limits", `{"name":"a","conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":"api_key"}],"type":"requests","unit":"rpm","value":3}`, `{"name":"b"}`, "name"},
	} {
		var made struct {
			ID   string
			Data struct{ ID string }
		}
		root.Must("POST", tt.path, tt.create, &made)
		made.ID += made.Data.ID
		path := tt.path + "/" + made.ID
		read := root.Call("GET", path, "")
		tag := read.Header.Get("Etag")
		if read.Status != http.StatusOK || tag == "" {
			t.Fatalf("GET %s: %d %v %s, want an ETag", path, read.Status, read.Header, read.Body)
		}
		changed := root.CallWith("PUT", path, tt.update, http.Header{"If-Match": {tag}})
		var object map[string]any
		if json.Unmarshal([]byte(changed.Body), &object) != nil {
			t.Errorf("PUT %s: %d %s", path, changed.Status, changed.Body)
		}
		if data, ok := object["data"].(map[string]any); ok {
			object = data
		}
		if object[tt.member] != "b" || object["id"] != made.ID {
			t.Errorf("PUT %s: %d %s, want the object", path, changed.Status, changed.Body)
		}
		if next := changed.Header.Get("Etag"); next == "" || next == tag || next != root.Call("GET", path, "").Header.Get("Etag") {
			t.Errorf("PUT %s: ETag %s after %s", path, next, tag)
		}
		for _, old := range []string{tag, "W/" + tag} {
			if late := root.CallWith("PUT", path, tt.update, http.Header{"If-Match": {old}}); late.Status != http.StatusPreconditionFailed || late.Header.Get("Etag") != "" {
				t.Errorf("PUT %s with the ETag %s of an earlier state: %d %s, want 412", path, old, late.Status, late.Body)
			}
		}
		if again := root.CallWith("PUT", path, tt.update, http.Header{"If-Match": {"W/" + changed.Header.Get("Etag")}}); again.Status != http.StatusOK {
			t.Errorf("PUT %s with a weak ETag: %d %s", path, again.Status, again.Body)
		}
	}
	writer := b.As(access.Identity{Scopes: []access.Scope{"policies.update", "policies.create"}})
	var made struct{ ID string }
	writer.Must("POST", "/policies/rate-limits", `{"name":"a","conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":"api_key"}],"type":"requests","unit":"rpm","value":3}`, &made)
	if a := writer.Call("PUT", "/policies/rate-limits/"+made.ID, `{"name":"b"}`); a.Status != http.StatusOK || a.Body != "{}\n" {
		t.Errorf("the update of a caller who may not read: %d %s, want an empty object", a.Status, a.Body)
	}
}
