package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// TestToolsServeClientsWithQuirks replays what published clients are known to do, which has broken
// them at other gateways.
func TestToolsServeClientsWithQuirks(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\noauth: {registration: true}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	s := &nodes{list: []*gateway{g}}
	tools := toolservertest.New(t)
	tools.NoModern = true
	long := strings.Repeat("a_very_long_name_", 7)
	tools.Tools = append(slices.Clone(tools.Tools), `{"name":"`+long+`1","description":"","inputSchema":{"type":"object","properties":{}}}`,
		`{"name":"`+long+`2","description":"","inputSchema":{"type":"object"}}`)
	s.addTools(t, "tools", tools.URL, "")
	s.addTools(t, "other", toolservertest.New(t).URL, "")
	ask := func(t *testing.T, method, params string, header ...string) response {
		return g.do(t, "POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params), append(header, "Authorization", "Bearer "+bootstrapKey)...)
	}
	const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"client","version":"1"}}`

	t.Run("names of more than 60 characters are dropped by Cursor", func(t *testing.T) {
		var list struct {
			Result struct{ Tools []struct{ Name string } }
		}
		if err := json.Unmarshal(ask(t, "tools/list", "{}").wantOK(t).body, &list); err != nil || len(list.Result.Tools) != 10 {
			t.Fatalf("%+v, %v", list, err)
		}
		seen := map[string]bool{}
		for _, tool := range list.Result.Tools {
			if len(tool.Name) > 60 || !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(tool.Name) || seen[tool.Name] {
				t.Errorf("the name %q", tool.Name)
			}
			seen[tool.Name] = true
			if strings.HasPrefix(tool.Name, "tools__a_very") {
				ask(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool.Name)).wantOK(t)
			}
		}
		if tools.Count("tools/call "+long+"1") != 1 || tools.Count("tools/call "+long+"2") != 1 {
			t.Errorf("calls by short names reached %d and %d times what they stand for", tools.Count("tools/call "+long+"1"), tools.Count("tools/call "+long+"2"))
		}
	})
	t.Run("Cursor registers before it signs in", func(t *testing.T) {
		const body = `{"client_name":"Cursor","redirect_uris":["cursor://anysphere.cursor-mcp/oauth/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`
		got := g.do(t, "POST", "/oauth/register", body)
		if id, _ := got.object(t)["client_id"].(string); got.status != http.StatusCreated || id == "" {
			t.Errorf("with registration: %d %s", got.status, got.body)
		}
		off := launchFor(t, "version: 1\n")
		if got := off.do(t, "POST", "/oauth/register", body); got.status == http.StatusUnauthorized || got.status < 400 || got.object(t)["error"] == nil {
			t.Errorf("without registration: %d %s", got.status, got.body)
		}
		if document := off.do(t, "GET", "/.well-known/oauth-authorization-server", "").wantOK(t).object(t); document["registration_endpoint"] != nil {
			t.Errorf("registration is announced where it is refused: %v", document)
		}
	})
	t.Run("Claude Code takes 404 for the end of its session", func(t *testing.T) {
		for _, path := range []string{"/mcp", "/mcp/tools", "/tools/mcp", "/v1/mcp"} {
			if got := g.do(t, "GET", path, "", "x-gateway-api-key", bootstrapKey, "Accept", "text/event-stream"); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" {
				t.Errorf("GET %s without a session: %d %s", path, got.status, got.body)
			}
		}
	})
	t.Run("a challenge makes clients drop their key", func(t *testing.T) {
		for _, r := range [][2]string{{"tools/call", `{"name":"no_such_tool"}`}, {"resources/read", `{"uri":"no://such"}`}, {"no/such", `{}`}, {"tools/list", `{}`}} {
			if got := ask(t, r[0], r[1]); got.status == http.StatusUnauthorized || got.header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s with a valid key: %d, challenge %q", r[0], got.status, got.header.Get("WWW-Authenticate"))
			}
		}
	})
	t.Run("VS Code sends an older version than it agreed to", func(t *testing.T) {
		session := ask(t, "initialize", hello).wantOK(t).header.Get("Mcp-Session-Id")
		for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
			ask(t, "tools/list", `{}`, "Mcp-Session-Id", session, "Mcp-Protocol-Version", version).wantOK(t)
		}
		ask(t, "tools/list", `{}`, "Mcp-Session-Id", session).wantOK(t)
	})
	t.Run("claude.ai compares addresses by bytes", func(t *testing.T) {
		for _, path := range []string{"/mcp", "/mcp/tools", "/tools/mcp"} {
			challenge := g.do(t, "POST", path, "{}").header.Get("WWW-Authenticate")
			_, address, _ := strings.Cut(challenge, `resource_metadata="`)
			address, _, _ = strings.Cut(address, `"`)
			document := g.do(t, "GET", strings.TrimPrefix(address, g.root), "").wantOK(t).object(t)
			servers, _ := document["authorization_servers"].([]any)
			if document["resource"] != g.root+path || len(servers) != 1 || fmt.Sprint(document["scopes_supported"]) != "[mcp.invoke]" {
				t.Fatalf("%s: %v", path, document)
			}
			for _, name := range []string{"oauth-authorization-server", "openid-configuration"} {
				about := g.do(t, "GET", "/.well-known/"+name, "").wantOK(t).object(t)
				if about["issuer"] != servers[0] || fmt.Sprint(about["code_challenge_methods_supported"]) != "[S256]" {
					t.Errorf("%s of %v: %v", name, servers, about)
				}
			}
		}
	})
	t.Run("false hints and empty objects are lost elsewhere", func(t *testing.T) {
		list := string(ask(t, "tools/list", "{}").wantOK(t).body)
		for _, want := range []string{`"annotations":{"readOnlyHint":true,"destructiveHint":false}`, `"inputSchema":{"type":"object","properties":{}}`, `"x-unknown":1.0`} {
			if !strings.Contains(list, want) {
				t.Errorf("the list lacks %s", want)
			}
		}
	})
}

// TestToolServersWithoutStreamsCauseNoStorm has a server that refuses streams and one that reports
// changes without a difference: the client receives one notification for the one change, and
// the server is not asked for a stream again and again.
func TestToolServersWithoutStreamsCauseNoStorm(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	s := &nodes{list: []*gateway{g}}
	mute, chatty := toolservertest.New(t), toolservertest.New(t)
	mute.NoModern, mute.NoStream, chatty.NoModern = true, true, true
	s.addTools(t, "mute", mute.URL, "")
	s.addTools(t, "chatty", chatty.URL, "")
	begun := g.as(t, bootstrapKey, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`).wantOK(t)
	session := g.open(t, "GET", "/mcp", "", "Mcp-Session-Id", begun.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	waittest.Until(t, "the server has a stream", func() bool { return chatty.Notify(changed) > 0 })
	read := chatty.Count("tools/list")
	for range 50 {
		chatty.Notify(changed)
	}
	waittest.Until(t, "the list is read again", func() bool { return chatty.Count("tools/list") > read })
	chatty.Handle("tools/list", func(x *toolservertest.Exchange) {
		x.Result(`{"tools":[{"name":"another","inputSchema":{"type":"object"}}]}`)
	})
	chatty.Notify(changed)
	if next := waittest.Receive(t, session.list, "the change"); !strings.Contains(next, "tools/list_changed") {
		t.Errorf("a change of the list causes %s", next)
	}
	waittest.Until(t, "the list is read a second time", func() bool { return chatty.Count("tools/list") > read+1 })
	for range 5 {
		chatty.Notify(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"after it"}}`)
		if next := waittest.Receive(t, session.list, "what follows the change"); !strings.Contains(next, "after it") {
			t.Errorf("changes without a difference cause %s", next)
		}
	}
	if n := mute.Count("GET"); n > 2 {
		t.Errorf("a server that refuses streams was asked for one %d times", n)
	}
}
