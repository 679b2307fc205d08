package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// TestToolServersOfRequestsReachProvidersThatHaveThem sends requests that name tool servers for
// the provider to call, with credentials of the client for them.
func TestToolServersOfRequestsReachProvidersThatHaveThem(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + `
  - {slug: claude, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: gpt, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
	for _, tt := range []struct{ provider, path, body, answer, beta string }{
		{"@gpt", "/v1/responses", `{"model":"gpt-4.1", "input":"hi","tools":[{"type":"mcp","server_label":"docs","server_url":"https://docs.example.com/mcp" ,"authorization":"token-of-the-client","headers":{"X-A":"b"},"allowed_tools":["ask"],"require_approval":"never"}]}`,
			`{"id":"resp_1","object":"response","status":"completed","model":"gpt-4.1","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, ""},
		{"@claude", "/v1/messages", `{"model":"claude-3-5-haiku-20241022", "max_tokens":9,"messages":[{"role":"user","content":"hi"}],"mcp_servers":[{"type":"url","name":"docs","url":"https://docs.example.com/mcp" ,"authorization_token":"token-of-the-client"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"docs"}]}`,
			`{"id":"m","type":"message","role":"assistant","model":"claude-3-5-haiku-20241022","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, "mcp-client-2025-11-20"},
	} {
		head := begin(t, g.Request("POST", tt.path, tt.body, "x-gateway-provider", tt.provider, "anthropic-beta", tt.beta))
		c := u.next()
		c.w.Header().Set("Content-Type", "application/json")
		c.send(tt.answer)
		c.finish()
		res := receive(t, head, "the head")
		res.Body.Close()
		if string(c.Body) != tt.body || res.StatusCode != 200 || c.Header.Get("anthropic-beta") != tt.beta {
			t.Errorf("%s: the provider got %s (%q), status %d", tt.path, c.Body, c.Header.Get("anthropic-beta"), res.StatusCode)
		}
	}
}

// modelTools is a gateway whose tool servers models may call, and what providers got.
type modelTools struct {
	*toolGateway
	got chan string // bodies
}

// modelCalls are requests that name the tool server docs of the gateway, without its address.
var modelCalls = []struct{ provider, path, before, after, address, credential string }{
	{"@gpt", "/responses", `{"model":"gpt-4.1", "input":"hi","tools":[{"type":"web_search"},{"type":"mcp","server_label":"docs", "server_url":"`,
		`","allowed_tools":["ask"]},{"type":"mcp","server_label":"x","server_url":"https://docs.example.com/mcp"}]}`, "server_url", "authorization"},
	{"@claude", "/messages", `{"model":"claude-3-5-haiku-20241022", "max_tokens":9,"messages":[{"role":"user","content":"hi"}],"mcp_servers":[{"type":"url","name":"docs", "url":"`,
		`"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"docs"}]}`, "url", "authorization_token"},
}

func newModelTools(t *testing.T, settings string) *modelTools {
	t.Helper()
	got := make(chan string, 64)
	provider := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/messages") {
			io.WriteString(w, `{"id":"m","type":"message","role":"assistant","model":"claude-3-5-haiku-20241022","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
			return
		}
		io.WriteString(w, `{"id":"resp_1","object":"response","status":"completed","model":"gpt-4.1","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`)
	})
	g := newToolGateway(t, &relay{}, gatewaytest.Options{Upstream: provider, MasterKey: "the master key of this test", Settings: settings + pairSettings + `
  - {slug: claude, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: gpt, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
	return &modelTools{g, got}
}

const publicURL = "public_url: https://gateway.example.com/ai\n"

// ask sends a request to a model with the key of the gateway.
func (g *modelTools) ask(path, provider, body string, h ...string) gatewaytest.Response {
	g.t.Helper()
	return g.send("POST", "/v1"+path, body, append([]string{"authorization", "Bearer " + g.key, "x-gateway-provider", provider}, h...)...)
}

// TestModelsGetAddressesOfTheGatewaysToolServers follows a credential from the request of a model
// to the call of a tool, and tries it elsewhere.
func TestModelsGetAddressesOfTheGatewaysToolServers(t *testing.T) {
	t.Parallel()
	g := newModelTools(t, publicURL)
	const config = `{"cache":{"mode":"simple"}}`
	for _, tt := range modelCalls {
		res := g.ask(tt.path, tt.provider, tt.before+`modelgate:\/\/docs`+tt.after, "x-gateway-config", config)
		if res.Status != 200 {
			t.Fatalf("%s: %d %s", tt.path, res.Status, res.Body)
		}
		body := receive(t, g.got, "the request")
		given := regexp.MustCompile(`"` + tt.address + `":"(https://gateway[^"]*)"`).FindStringSubmatch(body)
		credential := regexp.MustCompile(`"` + tt.credential + `":"([^"]*)"`).FindStringSubmatch(body)
		if given == nil || credential == nil || given[1] != "https://gateway.example.com/ai/mcp/docs" {
			t.Fatalf("%s: the provider got %s", tt.path, body)
		}
		want := tt.before + given[1] + tt.after
		if got := strings.Replace(body, `,"`+tt.credential+`":"`+credential[1]+`"`, "", 1); got != want {
			t.Errorf("%s: the provider got\n%s\nwant\n%s", tt.path, got, want)
		}
		if strings.Contains(body, g.key) {
			t.Errorf("%s: the provider got the key", tt.path)
		}

		asked := g.Entry(res)
		call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{}}}`
		used := g.send("POST", "/mcp/docs", call, "authorization", "Bearer "+credential[1])
		if used.Status != 200 || !strings.Contains(string(used.Body), "done") {
			t.Fatalf("%s: the call is answered by %d %s", tt.path, used.Status, used.Body)
		}
		called := g.Entry(used)
		for _, name := range []string{"api_key", "workspace", "trace_id"} {
			if fmt.Sprint(called[name]) != fmt.Sprint(asked[name]) || called[name] == nil {
				t.Errorf("%s: the call has the %s %v, the request %v", tt.path, name, called[name], asked[name])
			}
		}
		for _, other := range []struct{ path, body string }{
			{"/mcp/other", call}, {"/mcp", call}, {"/v1/chat/completions", `{"model":"m","messages":[]}`}, {"/a2a/docs", call},
			{"/v1/mcp-servers", ""}, {"/v1/models", ""},
		} {
			method := map[bool]string{true: "GET", false: "POST"}[other.body == ""]
			if res := g.send(method, other.path, other.body, "authorization", "Bearer "+credential[1], "x-gateway-provider", "@gpt"); res.Status != 401 {
				t.Errorf("%s: with the credential, %s is answered by %d %s", tt.path, other.path, res.Status, res.Body)
			}
		}
		again := g.ask(tt.path, tt.provider, tt.before+`modelgate:\/\/docs`+tt.after, "x-gateway-config", config)
		if got := again.Header.Get("x-gateway-cache-status"); got != "HIT" {
			t.Errorf("%s: an equal request has the cache status %q", tt.path, got)
		}
	}
}

func TestModelsGetNoAddressOfToolServersThatTheirCallerMayNotUse(t *testing.T) {
	t.Parallel()
	g := newModelTools(t, publicURL)
	good := g.key
	for _, tt := range []struct{ name, members, server, more, code string }{
		{"unknown", "", "modelgate://other", "", "tool_server_not_found"},
		{"all", "", "modelgate://", "", "tool_server_not_found"},
		{"credential", "", "modelgate://docs", `,"CREDENTIAL":"x"`, "tool_server_credential"},
		{"headers", "", "modelgate://docs", `,"headers":{"x":"y"}`, "tool_server_credential"},
		{"scope", `["completions.write"]`, "modelgate://docs", "", "tool_server_scope"},
		{"addresses", `["completions.write","mcp.invoke"],"allowed_addresses":["127.0.0.0/8","::1/128"]`, "modelgate://docs", "", "tool_server_addresses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.key = good
			if tt.members != "" {
				made := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":`+tt.members+`}`)
				g.key = str(made.JSON(t)["key"])
			}
			for _, c := range modelCalls {
				body := c.before + tt.server + `"` + strings.Replace(tt.more, "CREDENTIAL", c.credential, 1) + strings.TrimPrefix(c.after, `"`)
				res := g.ask(c.path, c.provider, body)
				if !strings.Contains(string(res.Body), tt.code) || res.Status/100 != 4 {
					t.Errorf("%s is answered by %d %s", c.path, res.Status, res.Body)
				}
			}
		})
	}
	if n := len(g.got); n > 0 {
		t.Errorf("providers got %d requests", n)
	}
	g = newModelTools(t, "")
	for _, c := range modelCalls {
		if res := g.ask(c.path, c.provider, c.before+"modelgate://docs"+c.after); !strings.Contains(string(res.Body), "tool_server_unreachable") {
			t.Errorf("without public_url, %s is answered by %d %s", c.path, res.Status, res.Body)
		}
	}
}

// A credential ends with its key.
func TestCredentialsOfModelsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	g := newModelTools(t, publicURL)
	made := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["mcp.invoke","completions.write"]}`).JSON(t)
	g.key = str(made["key"])
	c := modelCalls[1]
	waittest.Until(t, "the key is known", func() bool { return g.ask(c.path, c.provider, c.before+"modelgate://docs"+c.after).Status == 200 })
	credential := regexp.MustCompile(`"authorization_token":"([^"]*)"`).FindStringSubmatch(receive(t, g.got, "the request"))[1]
	call := func() int {
		return g.send("POST", "/mcp/docs", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{}}}`, "authorization", "Bearer "+credential).Status
	}
	if status := call(); status != 200 {
		t.Fatalf("the call is answered by %d", status)
	}
	req := g.Request("DELETE", "/api-keys/"+str(made["id"]), "")
	if res := g.Do(req); res.Status/100 != 2 {
		t.Fatalf("deleting the key: %d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the credential ends", func() bool { return call() == 401 })
}
