package keys_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/store"
)

func TestAKeyRefersToNothingOfAnotherWorkspace(t *testing.T) {
	b := newBench(t)
	c := b.Root()
	for slug, workspace := range map[string]string{"pc-here-000000": store.DefaultWorkspace, "pc-there-000000": other} {
		b.Exec(`INSERT INTO configs (id, organisation_id, workspace_id, slug, name, is_default, version_id, status, owner_id, updated_by, created_at, updated_at)
			VALUES ($1, $2, $3, $1, '', FALSE, '', 'active', '', '', 0, 0)`, slug, store.DefaultOrganisation, workspace)
	}
	with := func(config string) string { return `"defaults":{"config_id":"` + config + `"}` }
	k := mustMake(t, c, "workspace/service", plain+`,`+with("pc-here-000000")+`}`)
	for _, config := range []string{"pc-there-000000", "pc-none-000000"} {
		wantRefused(t, "POST "+config, c.Call("POST", "/api-keys/workspace/service", plain+`,`+with(config)+`}`), http.StatusNotFound, "AB02", "defaults.config_id")
		wantRefused(t, "PUT "+config, c.Call("PUT", "/api-keys/"+k.ID, `{`+with(config)+`}`), http.StatusNotFound, "AB02", "defaults.config_id")
	}
	b.Exec(`UPDATE configs SET status = 'archived'`)
	wantRefused(t, "an archived config", c.Call("PUT", "/api-keys/"+k.ID, `{`+with("pc-here-000000")+`}`), http.StatusNotFound, "AB02", "defaults.config_id")

	wantRefused(t, "PUT in another workspace", c.Call("PUT", "/api-keys/"+k.ID, `{"name":"x","workspace_id":"second"}`), http.StatusNotFound, "AB08", "id")
	wantRefused(t, "GET in another workspace", c.Call("GET", "/api-keys/"+k.ID+"?workspace_id=second", ""), http.StatusNotFound, "AB08", "id")
	c.Must("PUT", "/api-keys/"+k.ID, `{"name":"x","workspace_id":"default","organisation_id":"default"}`, nil)
}

func TestAKeyThatSaysNothingLastsAsLongAsItMay(t *testing.T) {
	b := newBench(t)
	for rules, want := range map[string]string{
		`{"user_api_key_ttl":7200,"user_api_key_max_ttl":3600}`: "2026-05-01T13:00:00.000Z",
		`{"user_api_key_ttl":1800,"user_api_key_max_ttl":3600}`: "2026-05-01T12:30:00.000Z",
		`{"user_api_key_max_ttl":3600}`:                         "2026-05-01T13:00:00.000Z",
		`{"user_api_key_ttl":7200}`:                             "2026-05-01T14:00:00.000Z",
		`{}`:                                                    "",
	} {
		b.Exec(`UPDATE workspaces SET settings = $1`, rules)
		got := ""
		if at := mustGet(b.Root(), mustMake(t, b.Root(), "workspace/user", plain+`,"user_id":"member"}`).ID).ExpiresAt; at != nil {
			got = *at
		}
		if got != want {
			t.Errorf("%s: ends %q, want %q", rules, got, want)
		}
	}
}

func TestDefaultsHoldSoManyEntriesAndNoMore(t *testing.T) {
	c := newBench(t).Root()
	for n, want := range map[int]int{64: http.StatusOK, 65: http.StatusBadRequest} {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = fmt.Sprintf(`"k%d":"v"`, i)
		}
		if a := c.Call("POST", "/api-keys/workspace/service", plain+`,"defaults":{"metadata":{`+strings.Join(entries, ",")+`}}}`); a.Status != want {
			t.Errorf("%d entries: %d %s", n, a.Status, a.Body)
		}
	}
}
