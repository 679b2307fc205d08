package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/toolservertest"
)

// askGateway sends a request to the control plane.
func askGateway(t *testing.T, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, stage.url+"/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", gatewayKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, path, res.StatusCode, text, err)
	}
}

// callTool answers an agent whose model is to call a tool of a server: it calls the one whose name
// ends in echo, and reports what the tool returns.
func (s *session) callTool(mark string, r *simulator.Report) *simulator.ScriptedResponse {
	i := slices.IndexFunc(r.Tools, func(name string) bool { return strings.HasSuffix(name, "echo") })
	for _, result := range r.Results {
		if strings.Contains(result.Text, "returned-"+mark) {
			s.turns = 2
			return &simulator.ScriptedResponse{Text: "Finished " + mark + " after a tool."}
		}
	}
	s.offered = r.Tools
	if i >= 0 && len(r.Results) == 0 {
		return &simulator.ScriptedResponse{Text: "I call a tool.", Calls: []simulator.ScriptedCall{{Name: r.Tools[i], Arguments: map[string]any{"text": "sent-" + mark}}}}
	}
	return &simulator.ScriptedResponse{Text: "No tool"}
}

// TestAgentsCallToolsThroughTheGateway lets agents call a tool of servers of both eras that they
// know by one address and key of the gateway.
func TestAgentsCallToolsThroughTheGateway(t *testing.T) {
	for era, configure := range map[string]func(s *toolservertest.Server){
		"modern": func(*toolservertest.Server) {},
		"legacy": func(s *toolservertest.Server) { s.NoModern = true },
	} {
		tools := toolservertest.New(t)
		configure(tools)
		tools.Handle("tools/call echo", func(x *toolservertest.Exchange) {
			var text string
			x.Argument("text", &text)
			x.Text("%s", strings.Replace(text, "sent-", "returned-", 1))
		})
		askGateway(t, "POST", "/mcp-integrations", fmt.Sprintf(`{"name":%q,"slug":%q,"url":%q,"transport":"http","auth_type":"none","workspace_id":"default"}`, era, era, tools.URL))
		askGateway(t, "POST", "/mcp-servers", fmt.Sprintf(`{"name":%q,"slug":%q,"mcp_integration_id":%q,"workspace_id":"default"}`, era, era, era))
		for name, command := range map[string]func(t *testing.T, home, address, prompt string) command{"claude": claudeWithTools, "codex": codexWithTools} {
			t.Run(name+" "+era, func(t *testing.T) {
				mark, s := begin(t)
				s.mu.Lock()
				s.tool = true
				s.mu.Unlock()
				home := t.TempDir()
				c := command(t, home, stage.url+"/mcp/"+era, fmt.Sprintf("Do %s now: call the tool and say when you have finished.", mark))
				c.dir = home
				out := launch(t, c)
				s.mu.Lock()
				defer s.mu.Unlock()
				called := false
				for _, r := range tools.Requests("tools/call") {
					called = called || strings.Contains(string(r.Message.Params), "sent-"+mark)
					if strings.Contains(fmt.Sprint(r.Header), gatewayKey) {
						t.Errorf("the tool server received the gateway key: %v", r.Header)
					}
				}
				if !called || s.turns != 2 || !strings.Contains(out, "Finished "+mark) {
					t.Errorf("the tool was called: %t; %d turns, want 2; the model was offered %q; the agent printed\n%.4000s", called, s.turns, s.offered, out)
				}
			})
		}
	}
}

func claudeWithTools(t *testing.T, home, address, prompt string) command {
	c := claude(t, home, "messages", prompt)
	file := filepath.Join(home, "tools.json")
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"company": map[string]any{
		"type": "http", "url": address, "headers": map[string]string{"x-gateway-api-key": gatewayKey}}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(config))
	c.args = []string{"-p", prompt, "--mcp-config", file, "--strict-mcp-config", "--allowedTools", "mcp__company"}
	return c
}

func codexWithTools(t *testing.T, home, address, prompt string) command {
	// The translation to messages makes single tools of the namespace in which it offers those of a server.
	return codexFor(t, home, models["messages"], fmt.Sprintf("\n[mcp_servers.company]\nurl = %q\nbearer_token_env_var = \"MODELGATE_KEY\"\n", address), prompt)
}
