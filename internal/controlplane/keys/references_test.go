package keys_test

import (
	"net/http"
	"testing"

	"modelgate/internal/store"
)

func TestAKeyRefersToNothingOfAnotherWorkspace(t *testing.T) {
	b := house(t)
	c := b.Root()
	for slug, workspace := range map[string]string{"pc-here-000000": store.DefaultWorkspace, "pc-there-000000": other} {
		b.Exec(`INSERT INTO configs (id, organisation_id, workspace_id, slug, name, is_default, version_id, status, owner_id, updated_by, created_at, updated_at)
			VALUES ($1, $2, $3, $1, '', FALSE, '', 'active', '', '', 0, 0)`, slug, store.DefaultOrganisation, workspace)
	}
	with := func(config string) string { return `"defaults":{"config_id":"` + config + `"}` }
	k := mustMake(t, c, "workspace/service", plain+`,`+with("pc-here-000000")+`}`)
	for _, config := range []string{"pc-there-000000", "pc-none-000000"} {
		refused(t, "POST "+config, c.Call("POST", "/api-keys/workspace/service", plain+`,`+with(config)+`}`), http.StatusNotFound, "AB02", "defaults.config_id")
		refused(t, "PUT "+config, c.Call("PUT", "/api-keys/"+k.ID, `{`+with(config)+`}`), http.StatusNotFound, "AB02", "defaults.config_id")
	}
	b.Exec(`UPDATE configs SET status = 'archived'`)
	refused(t, "an archived config", c.Call("PUT", "/api-keys/"+k.ID, `{`+with("pc-here-000000")+`}`), http.StatusNotFound, "AB02", "defaults.config_id")

	refused(t, "PUT in another workspace", c.Call("PUT", "/api-keys/"+k.ID, `{"name":"x","workspace_id":"second"}`), http.StatusNotFound, "AB08", "id")
	refused(t, "GET in another workspace", c.Call("GET", "/api-keys/"+k.ID+"?workspace_id=second", ""), http.StatusNotFound, "AB08", "id")
	c.Must("PUT", "/api-keys/"+k.ID, `{"name":"x","workspace_id":"default","organisation_id":"default"}`, nil)
}
