package server_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// token returns the Authorization with which the user calls a tool.
func (u *toolUser) token() string {
	u.w.t.Helper()
	u.signIn()
	waittest.Until(u.w.t, "the call works", func() bool { _, text := u.call(u.w.Gateway); return text != "" })
	requests := u.w.server.Requests("tools/call")
	return requests[len(requests)-1].Header.Get("Authorization")
}

func (w *signInWorld) accepts(token string) bool {
	valid, _ := w.auth.Allows(token, w.server.URL, "")
	return valid
}

func TestDeletedTokensAreRevoked(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, `"client_id":"ours","client_secret":"the-secret-of-the-client"`, func(w *signInWorld) {
		w.auth.Client("ours", "the-secret-of-the-client", w.Root+"/oauth/callback")
	})
	stays := w.user("stays")
	other := stays.token()
	ended := 0
	ends := func(what, token string, change func()) {
		t.Helper()
		if !w.accepts(token) {
			t.Fatalf("%s: the token is not valid before", what)
		}
		change()
		waittest.Until(t, what+": the token is revoked", func() bool { return !w.accepts(token) })
		if ended++; len(w.auth.Requests("/revoke")) != ended {
			t.Errorf("%s: %d requests to revoke, want %d", what, len(w.auth.Requests("/revoke")), ended)
		}
	}
	ann, bob, cid := w.user("ann"), w.user("bob"), w.user("cid")
	ends("a member of the workspace", ann.token(), func() {
		mustDo(t, w.Gateway, "DELETE", "/admin/workspaces/default/users/"+ann.id, "")
	})
	ends("a user", bob.token(), func() { mustDo(t, w.Gateway, "DELETE", "/admin/users/"+bob.id, "") })
	if !w.accepts(other) {
		t.Fatal("the tokens of another user were revoked")
	}
	ends("the user ends it", cid.token(), func() { cid.do(cid.session, "DELETE", "/auth/tool-connections/notes", "", 200) })
	got := w.Do(w.Request("DELETE", "/mcp-servers/notes?workspace_id=default", "", "If-Match", `"1"`))
	if got.Status != 412 {
		t.Fatalf("a deletion of another version: %d", got.Status)
	}
	ends("a server", other, func() { mustDo(t, w.Gateway, "DELETE", "/mcp-servers/notes?workspace_id=default", "") })
	mustDo(t, w.Gateway, "POST", "/mcp-servers", `{"name":"Notes","slug":"notes","mcp_integration_id":"notes","workspace_id":"default"}`)
	waittest.Until(t, "the server is there again", func() bool {
		return w.Post("/notes/mcp", `{}`, "x-gateway-api-key", stays.key, "x-gateway-provider", "").Status != 404
	})
	ends("an integration", stays.token(), func() { mustDo(t, w.Gateway, "DELETE", "/mcp-integrations/notes", "") })
	for _, r := range w.auth.Requests("/revoke") {
		if r.Form.Get("token") == "" || r.Form.Has("client_secret") {
			t.Errorf("a revocation has %v", r.Form)
		}
	}
}

// TestFailedRevocationsAreLogged has an authorization server that revokes nothing.
func TestFailedRevocationsAreLogged(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	w.auth.Fail(func(path string, _ url.Values) (int, string) {
		if path == "/revoke" {
			return 503, `{"error":"access-1 refresh-1"}`
		}
		return 0, ""
	})
	users := make([]*toolUser, 5)
	for i := range users {
		users[i] = w.user(string(rune('a' + i)))
		users[i].token()
	}
	mustDo(t, w.Gateway, "DELETE", "/mcp-servers/notes?workspace_id=default", "")
	waittest.Until(t, "the log says so", func() bool { return strings.Contains(w.Log.String(), "were not revoked") })
	if n := len(w.auth.Requests("/revoke")); n != 3 {
		t.Errorf("a server that does not revoke was asked %d times, want 3", n)
	}
	log := w.Log.String()
	if !strings.Contains(log, `"count":5`) && !strings.Contains(log, "count=5") {
		t.Error("the log does not have the number of tokens that stay")
	}
	if strings.Contains(log, "access-") || strings.Contains(log, "refresh-") {
		t.Error("the log has a token")
	}
}

// legacyClient is a session of the revision 2025-11-25.
type legacyClient struct {
	*toolUser
	session string
}

func (u *toolUser) initialize(capabilities string) *legacyClient {
	u.w.t.Helper()
	got := u.w.Do(u.w.Request("POST", "/notes/mcp",
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"x","version":"1"}}}`,
		"x-gateway-api-key", u.key, "x-gateway-provider", "", "Accept", "application/json, text/event-stream"))
	id := got.Header.Get("Mcp-Session-Id")
	if got.Status != 200 || id == "" {
		u.w.t.Fatalf("initialize: %d %s", got.Status, got.Body)
	}
	return &legacyClient{u, id}
}

// send sends a request in the session.
func (c *legacyClient) send(method, params string) map[string]any {
	c.w.t.Helper()
	got := c.w.Do(c.w.Request("POST", "/notes/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`,
		"x-gateway-api-key", c.key, "x-gateway-provider", "", "Mcp-Session-Id", c.session, "Mcp-Protocol-Version", "2025-11-25",
		"Accept", "application/json, text/event-stream"))
	if got.Status != 200 {
		c.w.t.Fatalf("%s: %d %s", method, got.Status, got.Body)
	}
	return messageOf(c.w.t, got)
}

// elicitation returns the page in an error, nil if there is none.
func elicitation(message map[string]any) map[string]any {
	e, _ := message["error"].(map[string]any)
	data, _ := e["data"].(map[string]any)
	list, _ := data["elicitations"].([]any)
	if e["code"] != -32042.0 || len(list) != 1 {
		return nil
	}
	page, _ := list[0].(map[string]any)
	return page
}

func TestLegacyClientsAreAskedAsTheyDeclare(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	ann := w.user("ann")
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`} {
		plain := ann.initialize(capabilities)
		m := plain.send("tools/call", echoCall)
		result, _ := m["result"].(map[string]any)
		content, _ := result["content"].([]any)
		if result["isError"] != true || len(content) != 1 {
			t.Fatalf("%s: %v", capabilities, m)
		}
		if text, _ := content[0].(map[string]any)["text"].(string); !strings.Contains(text, "/oauth/connect?link=mgl_") {
			t.Errorf("%s: the text has no link: %s", capabilities, text)
		}
		if m := plain.send("tools/list", ""); m["result"] == nil {
			t.Errorf("%s: tools/list: %v", capabilities, m)
		}
	}
	c := ann.initialize(urlClient)
	for _, method := range []string{"tools/list", "tools/call"} {
		m := c.send(method, map[string]string{"tools/call": echoCall}[method])
		page := elicitation(m)
		if page == nil || page["mode"] != "url" || page["elicitationId"] == "" || page["message"] == "" || m["result"] != nil {
			t.Fatalf("%s: %v", method, m)
		}
		if method == "tools/call" {
			address, _ := page["url"].(string)
			ann.finish(w.follow(ann.begin(linkIn(t, address))), 200)
		}
	}
	if result, _ := c.send("tools/call", echoCall)["result"].(map[string]any); result == nil || result["isError"] == true {
		t.Errorf("the call after the sign-in: %v", result)
	}
}

// TestClientsWithAStreamLearnOfASignIn has two sessions with streams, of which one asked.
func TestClientsWithAStreamLearnOfASignIn(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", func(w *signInWorld) { w.server.NoModern = true })
	ann := w.user("ann")
	asks, other, plain := ann.initialize(urlClient), ann.initialize(urlClient), ann.initialize(plainClient)
	var events [3]<-chan string
	for i, c := range []*legacyClient{asks, other, plain} {
		events[i] = c.listen()
	}
	signIn := func(page map[string]any) {
		address, _ := page["url"].(string)
		ann.finish(w.follow(ann.begin(linkIn(t, address))), 200)
		want := `"method":"notifications/elicitation/complete","params":{"elicitationId":"` + page["elicitationId"].(string) + `"}`
		waittest.Until(t, "the session is notified", func() bool { return isReceived(events[0], want) })
	}
	plain.send("tools/call", echoCall)
	page := elicitation(asks.send("tools/call", echoCall))
	if page == nil {
		t.Fatal("the call is not refused")
	}
	signIn(page)
	if result, _ := asks.send("tools/call", echoCall)["result"].(map[string]any); result["isError"] == true || result == nil {
		t.Error("the call after the notification failed")
	}
	// A sign-in for more rights is complete when the user gave them, not before.
	w.auth.Protect(w.server, func(x *toolservertest.Exchange) string {
		if x.Message.Method == "tools/call" {
			return "write"
		}
		return ""
	})
	if page = elicitation(asks.send("tools/call", echoCall)); page == nil {
		t.Fatal("the call that needs more is not refused")
	}
	signIn(page)
	if result, _ := asks.send("tools/call", echoCall)["result"].(map[string]any); result["isError"] == true || result == nil {
		t.Error("the call with more rights failed after the notification")
	}
	for _, e := range events[1:] {
		if isReceived(e, "elicitation/complete") {
			t.Error("another session was notified")
		}
	}
	// What the server itself reports passes with its id.
	waittest.Until(t, "the notification of the server comes", func() bool {
		w.server.Notify(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"of-the-server"}}`)
		return isReceived(events[0], `"of-the-server"`)
	})
}

// listen opens the stream of the session, and returns its events.
func (c *legacyClient) listen() <-chan string {
	c.w.t.Helper()
	req := c.w.Request("GET", "/notes/mcp", "", "x-gateway-api-key", c.key, "x-gateway-provider", "", "Mcp-Session-Id", c.session,
		"Mcp-Protocol-Version", "2025-11-25", "Accept", "text/event-stream")
	res, err := http.DefaultTransport.RoundTrip(req.WithContext(c.w.t.Context()))
	if err != nil || res.StatusCode != 200 {
		c.w.t.Fatal(res, err)
	}
	events := make(chan string, 1000)
	go func() {
		defer res.Body.Close()
		defer close(events)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data:") {
				events <- lines.Text()
			}
		}
	}()
	return events
}

// isReceived reports whether an event with a string has come, and takes the events before it.
func isReceived(events <-chan string, want string) bool {
	for len(events) > 0 {
		if strings.Contains(<-events, want) {
			return true
		}
	}
	return false
}
