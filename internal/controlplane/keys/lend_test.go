package keys_test

import (
	"strings"
	"testing"

	"modelgate/internal/store"
)

// TestAKeyDoesNothingThatItsMakersRoleKeepsThemFrom is about keys that outlive
// their maker's bounds: those of services, and those of other people.
func TestAKeyDoesNothingThatItsMakersRoleKeepsThemFrom(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		switches, user, path, scope, of string
		status                          int
	}{
		{``, "manager", "workspace/service", "configs.create", "", 200},
		{`"managersWriteConfigs":false`, "manager", "workspace/service", "configs.create", "", 403},
		{`"managersWriteConfigs":false`, "manager", "workspace/service", "configs.read", "", 200},
		{`"managersWriteConfigs":false`, "manager", "workspace/user", "configs.create", "admin", 403},
		{`"managersWriteConfigs":false`, "manager", "workspace/user", "configs.create", "manager", 200},
		{`"managersWriteConfigs":false`, "admin", "workspace/service", "configs.create", "", 200},
		{`"managersWriteConfigs":false`, "owner", "workspace/user", "configs.create", "member", 200},
		{`"managersViewAllData":false`, "manager", "workspace/service", "logs.view", "", 403},
		{`"managersViewAllData":false`, "manager", "workspace/service", "logs.list", "", 403},
		{`"managersViewAllData":false`, "manager", "workspace/service", "analytics.view", "", 403},
		{`"managersViewAllData":false`, "manager", "workspace/service", "completions.write", "", 200},
		{`"managersViewAllData":false`, "manager", "workspace/user", "logs.view", "manager", 200},
	} {
		b.Exec(`UPDATE organisations SET settings = $1 WHERE id = $2`, `{"security_settings":{`+tt.switches+`}}`, store.DefaultOrganisation)
		of := ""
		if tt.of != "" {
			of = `,"user_id":"` + tt.of + `"`
		}
		a := session(b, tt.user).Call("POST", "/api-keys/"+tt.path, `{"name":"x","workspace_id":"default","scopes":["`+tt.scope+`"]`+of+`}`)
		if a.Status != tt.status || tt.status == 403 && !strings.Contains(a.Body, `"param":"scopes[0]"`) {
			t.Errorf("%s by %s: %s %s of %s: %d %s", tt.switches, tt.user, tt.path, tt.scope, tt.of, a.Status, a.Body)
		}
	}
}

func TestAManagerDoesNotRotateTheirWayToMore(t *testing.T) {
	b := newBench(t)
	root := b.Root()
	ids := map[string]string{
		"writer": mustMake(t, root, "workspace/service", `{"name":"w","scopes":["configs.create"]}`).ID,
		"reader": mustMake(t, root, "workspace/service", `{"name":"r","scopes":["configs.read"]}`).ID,
		"logs":   mustMake(t, root, "workspace/service", `{"name":"l","scopes":["logs.view"]}`).ID,
	}
	b.Exec(`UPDATE organisations SET settings = $1`, `{"security_settings":{"managersWriteConfigs":false,"managersViewAllData":false}}`)
	c := session(b, "manager")
	for name, want := range map[string]int{"writer": 403, "reader": 200, "logs": 403} {
		if a := c.Call("POST", "/api-keys/"+ids[name]+"/rotate", ""); a.Status != want {
			t.Errorf("rotating the %s: %d %s, want %d", name, a.Status, a.Body, want)
		}
		if a := c.Call("PUT", "/api-keys/"+ids[name], `{"scopes":["configs.create"]}`); a.Status != map[bool]int{true: 200, false: 403}[name == "writer"] {
			t.Errorf("giving configs.create to the %s: %d %s", name, a.Status, a.Body)
		}
	}
}
