package conformance

import (
	"maps"
	"slices"
	"testing"

	"modelgate/internal/testing/toolservertest"
)

func TestMetadataOfToolServers(t *testing.T) {
	g, _ := start(t)
	g.as(t, bootstrapKey, "POST", "/v1/mcp-integrations",
		`{"name":"Issues","slug":"tracker","url":"https://tracker.example.com/mcp","transport":"http","auth_type":"none","workspace_id":"default"}`).wantOK(t)
	id, _ := g.as(t, bootstrapKey, "POST", "/v1/mcp-servers",
		`{"name":"Issues","slug":"issues","mcp_integration_id":"tracker","workspace_id":"default"}`).wantOK(t).object(t)["id"].(string)
	prove(t, "S-411", "of a server and of its integration", func(t *testing.T) {
		for _, path := range []string{"/v1/mcp-servers/" + id, "/v1/mcp-integrations/tracker"} {
			if got := g.as(t, bootstrapKey, "GET", path+"/metadata", "").wantOK(t).object(t); got["sync_status"] != "pending" {
				t.Errorf("%s: %v", path, got)
			}
		}
	})
	prove(t, "S-538", "of a server", func(t *testing.T) {
		if got := g.as(t, bootstrapKey, "GET", "/v1/mcp-servers/"+id+"/metadata", ""); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	prove(t, "S-412", "all fields are there, and null before the server was read", func(t *testing.T) {
		got := g.as(t, bootstrapKey, "GET", "/v1/mcp-servers/"+id+"/metadata", "").wantOK(t).object(t)
		want := []string{"capability_flags", "description", "icons", "last_synced_at", "protocol_version", "server_name", "server_version", "sync_error", "sync_status", "title"}
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
			t.Errorf("fields %q, want %q", names, want)
		}
		for name, v := range got {
			if v != nil && name != "sync_status" {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
	prove(t, "S-413", "an unknown server", func(t *testing.T) {
		for _, path := range []string{"/v1/mcp-servers/unknown/metadata", "/v1/mcp-integrations/unknown/metadata"} {
			if got := g.as(t, bootstrapKey, "GET", path, ""); got.status != 404 {
				t.Errorf("%s: %d", path, got.status)
			}
		}
	})
}

// TestToolServersNeedNoPlan registers and calls a tool server on a gateway without settings.
func TestToolServersNeedNoPlan(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	s := &nodes{list: []*gateway{g}}
	tools := toolservertest.New(t)
	prove(t, "S-558", "a tool is called without any setting", func(t *testing.T) {
		s.addTools(t, "tools", tools.URL, "")
		if !g.echoes(t, "tools__echo") {
			t.Errorf("the tool does not answer: %s", g.as(t, bootstrapKey, "POST", "/mcp", callText("tools__echo", "x")).body)
		}
	})
}
