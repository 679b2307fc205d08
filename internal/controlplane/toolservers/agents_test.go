package toolservers_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
)

// agent makes an agent and its integration, next to an MCP server.
func (w *world) agent() (integration, server string) {
	w.t.Helper()
	var i, s struct{ ID string }
	w.integration("issues", "")
	w.root.Must("POST", "/mcp-servers", `{"name":"Issues","slug":"issues","mcp_integration_id":"issues","workspace_id":"default"}`, nil)
	w.root.Must("POST", "/agent-integrations", `{"name":"Travel","slug":"travel-at","url":"https://travel.example.com","auth_type":"none","workspace_id":"default"}`, &i)
	w.root.Must("POST", "/agent-servers", `{"name":"Travel","slug":"travel","agent_integration_id":"travel-at","workspace_id":"default"}`, &s)
	return i.ID, s.ID
}

func TestAgentsAndMCPServersAreApart(t *testing.T) {
	w := newWorld(t)
	integration, server := w.agent()
	for _, path := range []string{
		"/mcp-integrations/travel-at", "/mcp-integrations/" + integration, "/mcp-servers/travel?workspace_id=default", "/mcp-servers/" + server,
		"/mcp-servers/" + server + "/capabilities", "/agent-integrations/issues", "/agent-servers/issues?workspace_id=default",
	} {
		if got := w.root.Call("GET", path, ""); got.Status != http.StatusNotFound {
			t.Errorf("GET %s: %d %s", path, got.Status, got.Body)
		}
		if path, _, isCapability := strings.Cut(path, "/capabilities"); !isCapability {
			if got := w.root.Call("DELETE", path, ""); got.Status != http.StatusNotFound {
				t.Errorf("DELETE %s: %d %s", path, got.Status, got.Body)
			}
		}
	}
	for path, want := range map[string]string{"/mcp-integrations": "issues", "/mcp-servers": "issues", "/agent-integrations": "travel-at", "/agent-servers": "travel"} {
		var list struct {
			Total int
			Data  []struct{ Slug, Object, URL string }
		}
		w.root.Must("GET", path, "", &list)
		if list.Total != 1 || list.Data[0].Slug != want || strings.HasPrefix(list.Data[0].Object, "agent") != strings.HasPrefix(path, "/agent") {
			t.Errorf("GET %s: %+v", path, list)
		}
		if path == "/agent-servers" && !strings.HasSuffix(list.Data[0].URL, "/a2a/travel") {
			t.Errorf("the address is %s", list.Data[0].URL)
		}
	}
	s, workspace := w.snapshot(), w.published().ToolServers[0].Row.Workspace
	if _, ok := s.Agent(workspace, "travel"); !ok || len(s.ToolServers(workspace)) != 1 {
		t.Errorf("published as tool servers: %+v", s.ToolServers(workspace))
	}
	if _, ok := s.ToolServer(workspace, "travel"); ok {
		t.Error("an agent is published as a tool server")
	}
	if _, ok := s.Agent(workspace, "issues"); ok {
		t.Error("a tool server is published as an agent")
	}
}

func TestSettingsThatAgentsLackAreRefused(t *testing.T) {
	w := newWorld(t)
	w.agent()
	integration := func(members string) string {
		return `{"name":"n","slug":"n","url":"https://n.example.com","auth_type":"none"` + members + `}`
	}
	for _, tt := range []struct{ path, body, param string }{
		{"/agent-integrations", integration(`,"transport":"http"`), "transport"},
		{"/mcp-integrations", integration(`,"transport":"a2a"`), "transport"},
		{"/mcp-integrations", integration(``), "transport"},
		{"/agent-integrations", integration(`,"command":"x"`), "command"},
		{"/agent-integrations", strings.Replace(integration(``), `"none"`, `"oauth_auto"`, 1), "auth_type"},
		{"/agent-integrations", integration(`,"configurations":{"writes":"deny"}`), "configurations"},
		{"/agent-integrations", integration(`,"configurations":{"destroys":"ask"}`), "configurations"},
		{"/agent-integrations", integration(`,"configurations":{"trust_annotations":true}`), "configurations"},
		{"/agent-integrations", strings.Replace(integration(``), "https://n.example.com", "http://169.254.169.254", 1), "url"},
		{"/agent-servers", `{"name":"n","slug":"n-n","mcp_integration_id":"issues","workspace_id":"default"}`, "mcp_integration_id"},
		{"/agent-servers", `{"name":"n","slug":"n-n","agent_integration_id":"issues","workspace_id":"default"}`, "agent_integration_id"},
		{"/agent-servers", `{"name":"n","slug":"n-n","workspace_id":"default"}`, "agent_integration_id"},
		{"/agent-servers", `{"name":"n","slug":"n-n","agent_integration_id":"travel-at","workspace_id":"default","writes":"deny"}`, "writes"},
		{"/agent-servers", `{"name":"n","slug":"issues","agent_integration_id":"travel-at","workspace_id":"default"}`, "slug"},
		{"/mcp-servers", `{"name":"n","slug":"n-n","mcp_integration_id":"travel-at","workspace_id":"default"}`, "mcp_integration_id"},
		{"/mcp-servers", `{"name":"n","slug":"n-n","agent_integration_id":"travel-at","workspace_id":"default"}`, "agent_integration_id"},
	} {
		if got := w.root.Call("POST", tt.path, tt.body); !slices.Contains([]int{400, 404, 409}, got.Status) || !strings.Contains(string(got.Body), `"param":"`+tt.param+`"`) {
			t.Errorf("%s %s: %d %s, want %s", tt.path, tt.body, got.Status, got.Body, tt.param)
		}
	}
	if got := w.root.Call("PUT", "/agent-servers/travel?workspace_id=default", `{"destroys":"deny"}`); got.Status != 400 {
		t.Errorf("a rule of an agent: %d %s", got.Status, got.Body)
	}
}

func TestCardsAreApprovedAndPriced(t *testing.T) {
	w := newWorld(t)
	w.agent()
	w.found = func() (*toolserver.Found, error) {
		return &toolserver.Found{Title: "Travel", Items: []toolserver.FoundItem{{Item: toolserver.Message, Definition: []byte(`{"name":"Travel"}`)}}}, nil
	}
	w.root.Must("POST", "/agent-servers/travel/sync?workspace_id=default", "", nil)
	if w.probed.Transport != toolserver.A2A {
		t.Errorf("%+v was asked", w.probed)
	}
	w.root.Must("PUT", "/agent-servers/travel/capabilities?workspace_id=default", `{"capabilities":[{"type":"tool","name":"message","price_per_call":0.5}]}`, nil)
	w.root.Must("PUT", "/agent-servers/travel?workspace_id=default", `{"hold_changed":true}`, nil)
	a, ok := w.snapshot().Agent(w.published().ToolServers[0].Row.Workspace, "travel")
	if !ok {
		t.Fatal("the agent is not published")
	}
	if a.Price("message") != 500_000_000 || !a.Shows(toolserver.Message, toolserver.Digest([]byte(`{"name": "Travel"}`))) ||
		a.Shows(toolserver.Message, toolserver.Digest([]byte(`{"name":"Other"}`))) {
		t.Errorf("the agent is published as %+v", a)
	}
}
