package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An admin's key for one workspace changes nothing in another one, also nothing archived.
func TestArchivedObjectsAreNotRestoredFromOtherWorkspaces(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		other := g.as(t, rootKey, "POST", "/v1/admin/workspaces", `{"name":"other"}`).ok(t).text(t, "id")
		admin := g.userID(t, g.member(t, "ann", "admin", `[{"id":"default","role":"admin"}]`))
		key := g.create(t, rootKey, "/v1/api-keys/workspace/user", fmt.Sprintf(`{"name":"k","workspace_id":"default","user_id":%q,"scopes":["configs.update","configs.list","configs.read","guardrails.update","workspaces.update"]}`, admin), "key")
		for _, kind := range []struct{ path, body string }{
			{"/v1/configs", `{"name":"gone","workspace_id":%q,"config":{"retry":{"attempts":1}}}`},
			{"/v1/guardrails", `{"name":"gone","workspace_id":%q,"checks":[{"id":"default.contains","parameters":{"words":["a"],"operator":"any"}}],"actions":{"deny":true}}`},
		} {
			for workspace, allowed := range map[string]bool{"default": true, other: false} {
				made := g.as(t, rootKey, "POST", kind.path, fmt.Sprintf(kind.body, workspace)).ok(t)
				id := made.object(t)["id"]
				if data, ok := made.object(t)["data"].(map[string]any); ok {
					id = data["id"]
				}
				path := fmt.Sprintf("%s/%v", kind.path, id)
				g.as(t, rootKey, "DELETE", path, "").ok(t)
				name := "an archived object of the key's workspace is restored: " + kind.path
				if !allowed {
					name = strings.Replace(name, "the key's", "another", 1)
				}
				attack(t, "escalation", name, func(t *testing.T) {
					if got := g.as(t, key, "POST", path+"/restore", ""); allowed {
						got.ok(t)
					} else {
						got.refused(t, http.StatusNotFound)
					}
				})
			}
		}
		g.as(t, rootKey, "DELETE", "/v1/admin/workspaces/"+other, `{"name":"other","force_delete":true}`).ok(t)
		attack(t, "escalation", "another workspace is restored with the key of one", func(t *testing.T) {
			g.as(t, key, "POST", "/v1/admin/workspaces/"+other+"/restore", "").refused(t, http.StatusNotFound)
		})
	})
}
