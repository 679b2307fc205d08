package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// signInWorld is a gateway with a tool server that demands tokens of users.
type signInWorld struct {
	*gatewaytest.Gateway
	t      *testing.T
	server *toolservertest.Server
	auth   *toolservertest.Authorization
	back   string // what is behind /oauth/callback/ in the last redirect
}

// toolUser is a person with a key and a session.
type toolUser struct {
	w                *signInWorld
	id, key, session string
}

func newSignInWorld(t *testing.T, configurations string, set func(*signInWorld)) *signInWorld {
	t.Helper()
	w := &signInWorld{t: t, Gateway: gatewaytest.New(t, gatewaytest.Options{MasterKey: "a master key of a test, long enough"}), server: toolservertest.New(t), auth: toolservertest.NewAuthorization(t)}
	if set != nil {
		set(w)
	}
	w.auth.Protect(w.server, nil)
	w.addServer("oauth_auto", configurations)
	return w
}

func (w *signInWorld) addServer(auth, configurations string) {
	w.t.Helper()
	mustDo(w.t, w.Gateway, "POST", "/mcp-integrations", `{"name":"notes","slug":"notes","transport":"http","auth_type":"`+auth+`","url":"`+w.server.URL+`","configurations":{`+configurations+`}}`)
	mustDo(w.t, w.Gateway, "PUT", "/mcp-integrations/notes/workspaces", `{"global_workspace_access":{"enabled":true}}`)
	mustDo(w.t, w.Gateway, "POST", "/mcp-servers", `{"name":"Notes","slug":"notes","mcp_integration_id":"notes","workspace_id":"default"}`)
}

// user adds a member with a key of their own.
func (w *signInWorld) user(name string) *toolUser {
	w.t.Helper()
	link, _ := mustDo(w.t, w.Gateway, "POST", "/admin/users/invites", `{"email":"`+name+`@example.com","role":"member","workspaces":[{"id":"default","role":"member"}]}`).JSON(w.t)["invite_link"].(string)
	parsed, err := url.Parse(link)
	if err != nil {
		w.t.Fatal(err)
	}
	u := &toolUser{w: w}
	u.session, _ = mustDo(w.t, w.Gateway, "POST", "/auth/invites/accept", `{"token":"`+parsed.Query().Get("token")+`","password":"a long password of a test"}`).JSON(w.t)["token"].(string)
	u.id, _ = u.do(u.session, "GET", "/auth/me", "", 200)["user_id"].(string)
	u.key, _ = mustDo(w.t, w.Gateway, "POST", "/api-keys/workspace/user", `{"name":"k","workspace_id":"default","user_id":"`+u.id+`","scopes":["mcp.invoke"]}`).JSON(w.t)["key"].(string)
	waittest.Until(w.t, "the key of "+name+" is valid", func() bool {
		return w.Post("/mcp", `{}`, "x-gateway-api-key", u.key, "x-gateway-provider", "").Status != 401
	})
	return u
}

// do sends a request with a credential, and wants a status.
func (u *toolUser) do(credential, method, path, body string, status int) map[string]any {
	u.w.t.Helper()
	got := u.w.Do(u.w.Request(method, path, body, "x-gateway-api-key", credential))
	if got.Status != status {
		u.w.t.Fatalf("%s %s: %d %s, want %d", method, path, got.Status, got.Body, status)
	}
	out := map[string]any{}
	json.Unmarshal(got.Body, &out)
	return out
}

// Clients by what they declare.
const (
	plainClient = `{}`
	urlClient   = `{"elicitation":{"url":{}}}`
)

// ask sends a message of the modern era with the user's key, and returns the response.
func (u *toolUser) ask(g *gatewaytest.Gateway, method, params, capabilities string) (message map[string]any, text string) {
	u.w.t.Helper()
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
	header := []string{"x-gateway-api-key", u.key, "x-gateway-provider", "", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Accept", "application/json, text/event-stream"}
	if method == "tools/call" {
		header = append(header, "Mcp-Name", "echo")
	}
	got := g.Do(g.Request("POST", "/notes/mcp", body, header...))
	return messageOf(u.w.t, got), string(got.Body)
}

// messageOf returns the message in a response, JSON or the last event.
func messageOf(t *testing.T, got gatewaytest.Response) map[string]any {
	t.Helper()
	text := string(got.Body)
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	out := map[string]any{}
	if json.Unmarshal([]byte(text), &out) != nil {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	return out
}

const echoCall = `"name":"echo","arguments":{"text":"hello"}`

// call calls a tool; the text is empty if it did not succeed.
func (u *toolUser) call(g *gatewaytest.Gateway) (result map[string]any, text string) {
	u.w.t.Helper()
	m, raw := u.ask(g, "tools/call", echoCall, plainClient)
	result, _ = m["result"].(map[string]any)
	if result == nil || result["isError"] == true {
		return result, ""
	}
	return result, raw
}

// linkIn returns the link in a text.
func linkIn(t *testing.T, text string) string {
	t.Helper()
	i := strings.Index(text, "link=mgl_")
	if i < 0 {
		t.Fatalf("no link in %.500s", text)
	}
	link, err := url.QueryUnescape(text[i+len("link=") : i+strings.IndexAny(text[i:]+" ", " \"\\")])
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// begin opens a link and returns where the browser goes.
func (u *toolUser) begin(link string) string {
	u.w.t.Helper()
	out, _ := u.do(u.session, "POST", "/auth/tool-sign-in", `{"link":"`+link+`"}`, 200)["redirect_uri"].(string)
	return out
}

// follow signs in at the authorization server, and returns the query of the way back.
func (w *signInWorld) follow(address string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", address, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	res.Body.Close()
	back, err := res.Location()
	if err != nil || !strings.Contains(back.Path, "/oauth/callback") {
		w.t.Fatal(res.Status, back, err)
	}
	_, w.back, _ = strings.Cut(back.Path, "/oauth/callback")
	w.back = strings.TrimPrefix(w.back, "/")
	return back.RawQuery
}

// finish comes back from the authorization server.
func (u *toolUser) finish(query string, status int) map[string]any {
	u.w.t.Helper()
	body, _ := json.Marshal(map[string]string{"query": query, "callback": u.w.back})
	return u.do(u.session, "POST", "/auth/tool-sign-in/finish", string(body), status)
}

// signIn makes a call that needs a sign-in, and signs in.
func (u *toolUser) signIn() {
	u.w.t.Helper()
	m, text := u.ask(u.w.Gateway, "tools/call", echoCall, plainClient)
	if result, _ := m["result"].(map[string]any); result["isError"] != true {
		u.w.t.Fatalf("a call without a sign-in: %s", text)
	}
	u.finish(u.w.follow(u.begin(linkIn(u.w.t, text))), 200)
}

// state returns the state of the user's connection.
func (u *toolUser) state() any {
	u.w.t.Helper()
	list, _ := u.do(u.session, "GET", "/auth/tool-connections", "", 200)["data"].([]any)
	if len(list) != 1 {
		return nil
	}
	return list[0].(map[string]any)["state"]
}

func TestUsersSignInToToolServersLazily(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := newSignInWorld(t, "", func(w *signInWorld) { w.server.NoModern, w.server.NoLegacy = era == "legacy", era == "modern" })
			ann, bob := w.user("ann"), w.user("bob")
			m, text := ann.ask(w.Gateway, "tools/call", echoCall, urlClient)
			result, _ := m["result"].(map[string]any)
			if result["resultType"] != "input_required" || !strings.Contains(text, `"mode":"url"`) {
				t.Fatalf("a client that shows pages: %s", text)
			}
			if _, list := ann.ask(w.Gateway, "tools/list", "", plainClient); !strings.Contains(list, `"tools":[]`) || !strings.Contains(list, "modelgate/missing") {
				t.Errorf("the list of a user who has not signed in: %s", list)
			}
			if n := len(w.server.Requests("tools/call")); n != 0 {
				t.Errorf("%d calls reached the server without a token", n)
			}
			ann.signIn()
			if _, text := ann.call(w.Gateway); !strings.Contains(text, "hello") {
				t.Errorf("the repeated call: %s", text)
			}
			if _, list := ann.ask(w.Gateway, "tools/list", "", plainClient); !strings.Contains(list, `"echo"`) {
				t.Errorf("the list afterwards: %s", list)
			}
			state, _ := json.Marshal(result["requestState"])
			again, text := ann.ask(w.Gateway, "tools/call", echoCall+`,"requestState":`+string(state)+`,"inputResponses":{"modelgate/sign-in":{"action":"accept"}}`, urlClient)
			if result, _ := again["result"].(map[string]any); result["resultType"] != "complete" || !strings.Contains(text, "hello") {
				t.Errorf("the answer of a client that showed the page: %s", text)
			}
			if _, text := bob.call(w.Gateway); text != "" {
				t.Errorf("another user's call has the result %s", text)
			}
			for _, r := range w.server.Requests("") {
				for name, values := range r.Header {
					if text := strings.Join(values, " "); strings.Contains(text, ann.key) || strings.Contains(text, bob.key) || strings.Contains(text, "mgl_") {
						t.Errorf("the server got the credential of a caller in %s", name)
					}
				}
				if strings.Contains(string(r.Message.Raw), "modelgate/sign-in") || strings.Contains(string(r.Message.Raw), "mgq_") {
					t.Errorf("the server got what is the gateway's: %s", r.Message.Raw)
				}
			}
			for _, r := range w.auth.Requests("/token") {
				if r.Form.Get("resource") != w.server.URL {
					t.Errorf("a token was asked for the resource %q", r.Form.Get("resource"))
				}
			}
			if state := ann.state(); state != "active" {
				t.Errorf("the state is %v", state)
			}
			ann.do(ann.session, "DELETE", "/auth/tool-connections/notes", "", 200)
			if _, text := ann.call(w.Gateway); text != "" {
				t.Errorf("after the revocation: %s", text)
			}
			waittest.Until(t, "the tokens are revoked", func() bool { return len(w.auth.Requests("/revoke")) == 1 })
			if log := w.Log.String(); strings.Contains(log, "access-") || strings.Contains(log, "refresh-") || strings.Contains(log, "mgl_") {
				t.Error("the log has a token or a link")
			}
		})
	}
}

func TestOnlyTheUserOfALinkSignsIn(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	ann, bob := w.user("ann"), w.user("bob")
	_, text := ann.ask(w.Gateway, "tools/call", echoCall, plainClient)
	link := linkIn(t, text)
	for what, credential := range map[string]string{"another person": bob.session, "a key": ann.key, "the owner's key": gatewaytest.Key} {
		ann.do(credential, "GET", "/auth/tool-sign-in?link="+url.QueryEscape(link), "", 403)
		ann.do(credential, "POST", "/auth/tool-sign-in", `{"link":"`+link+`"}`, 403)
		_ = what
	}
	ann.do(ann.session, "POST", "/auth/tool-sign-in", `{"link":"`+link[:len(link)/2]+`"}`, 400)
	if got := w.Do(w.Request("POST", "/auth/tool-sign-in", `{"link":"`+link+`"}`, "x-gateway-api-key", "")); got.Status != 401 {
		t.Errorf("without a session: %d", got.Status)
	}
	shown := ann.do(ann.session, "GET", "/auth/tool-sign-in?link="+url.QueryEscape(link), "", 200)
	if shown["slug"] != "notes" || shown["host"] != strings.TrimPrefix(strings.TrimSuffix(w.server.URL, "/mcp"), "http://") {
		t.Errorf("the page shows %v", shown)
	}
	address := ann.begin(link)
	ann.do(ann.session, "POST", "/auth/tool-sign-in", `{"link":"`+link+`"}`, 409)
	query := w.follow(address)
	altered := func(name, value string) string {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if q.Del(name); value != "" {
			q.Set(name, value)
		}
		return q.Encode()
	}
	bob.finish(query, 403)                       // mixed up: bob's browser with ann's response
	ann.finish(altered("state", "guessed"), 403) // another site made the browser open the callback
	ann.finish(altered("state", ""), 403)
	ann.finish(query+"&code=second", 403)
	ann.finish(query, 200)
	ann.finish(query, 403) // replayed
	if n := len(w.auth.Requests("/token")); n != 1 {
		t.Errorf("%d requests for tokens", n)
	}
	if _, text := bob.call(w.Gateway); text != "" {
		t.Errorf("bob's call: %s", text)
	}
	for name, values := range map[string]url.Values{
		"another issuer": {"iss": {"https://evil.example.com"}}, "a slash more": {"iss": {w.auth.URL + "/"}}, "no issuer": {"iss": nil},
		"an error": {"error": {"access_denied"}, "code": nil}, "no code": {"code": nil},
	} {
		w.auth.Answer = values
		_, text := bob.ask(w.Gateway, "tools/call", echoCall, plainClient)
		bob.finish(w.follow(bob.begin(linkIn(t, text))), 403)
		if n := len(w.auth.Requests("/token")); n != 1 {
			t.Errorf("%s: a code was exchanged", name)
		}
	}
	req := w.Request("GET", "", "", "x-gateway-api-key", "", "x-gateway-provider", "")
	req.URL.Path, req.URL.RawQuery = "/oauth/connect", url.Values{"link": {link}}.Encode()
	if got := w.Do(req); got.Status != 200 || !strings.Contains(string(got.Body), "<title>Sign in to a tool server") {
		t.Errorf("the page without a session: %d", got.Status)
	}
}

func TestTokensOfUsersAreRenewed(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	ann := w.user("ann")
	ann.signIn()
	if _, text := ann.call(w.Gateway); text == "" {
		t.Fatal("the call after the sign-in failed")
	}
	w.auth.Expire()
	if _, text := ann.call(w.Gateway); text == "" {
		t.Error("a call with a token that the server refuses is not repeated with another")
	}
	for _, status := range []int{500, 503, 429, 400, 403} { // what may pass
		w.auth.Expire()
		w.auth.Fail(func(path string, _ url.Values) (int, string) {
			if path == "/token" {
				return status, `{"error":"temporarily_unavailable"}`
			}
			return 0, ""
		})
		if _, text := ann.call(w.Gateway); text != "" || ann.state() != "active" {
			t.Errorf("status %d: the state is %v", status, ann.state())
		}
		w.auth.Fail(nil)
		waittest.Until(t, "calls work again", func() bool { _, text := ann.call(w.Gateway); return text != "" })
	}
	w.auth.End()
	if _, text := ann.call(w.Gateway); text != "" || ann.state() != "needs_reauth" {
		t.Errorf("after the grant ended: %s, %v", text, ann.state())
	}
	ann.signIn()
	if _, text := ann.call(w.Gateway); text == "" || ann.state() != "active" {
		t.Error("a sign-in after that has no effect")
	}
	// Tokens go nowhere but to the address that they were given for.
	other := toolservertest.New(t)
	mustDo(t, w.Gateway, "PUT", "/mcp-integrations/notes", `{"url":"`+other.URL+`"}`)
	waittest.Until(t, "the address is another", func() bool { ann.call(w.Gateway); _, text := ann.call(w.Gateway); return text == "" })
	for _, r := range other.Requests("") {
		if r.Header.Get("Authorization") != "" {
			t.Fatal("another address got the token")
		}
	}
}

func TestNodesRefreshATokenOnce(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	o := gatewaytest.Options{MasterKey: "a master key of a test, long enough", Database: dsn}
	w := &signInWorld{t: t, Gateway: gatewaytest.New(t, o), server: toolservertest.New(t), auth: toolservertest.NewAuthorization(t)}
	two := gatewaytest.New(t, o)
	w.auth.Protect(w.server, nil)
	w.addServer("oauth_auto", "")
	ann := w.user("ann")
	ann.signIn()
	waittest.Until(t, "the other node has the connection", func() bool { _, text := ann.call(two); return text != "" })
	for range 5 {
		w.auth.Expire()
		before := len(w.auth.Requests("/token"))
		var all sync.WaitGroup
		failed := make(chan string, 20)
		for i := range 20 {
			all.Go(func() {
				g := []*gatewaytest.Gateway{w.Gateway, two}[i%2]
				if _, text := ann.call(g); text == "" {
					failed <- fmt.Sprint("call ", i)
				}
			})
		}
		all.Wait()
		close(failed)
		for what := range failed {
			t.Errorf("%s failed", what)
		}
		if n := len(w.auth.Requests("/token")) - before; n != 1 {
			t.Errorf("%d refreshes", n)
		}
	}
	if ann.state() != "active" {
		t.Errorf("the state is %v", ann.state())
	}
	ann.do(gatewaytest.Key, "DELETE", "/mcp-servers/notes/connections?workspace_id=default&user_id="+ann.id, "", 200)
	waittest.Until(t, "the other node knows of the revocation", func() bool { _, text := ann.call(two); return text == "" })
}

func TestServersGetMoreScopesOnce(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	needs := "write"
	w.auth.Protect(w.server, func(x *toolservertest.Exchange) string {
		if x.Message.Method == "tools/call" {
			return needs
		}
		return ""
	})
	ann := w.user("ann")
	ann.signIn()
	_, text := ann.ask(w.Gateway, "tools/call", echoCall, plainClient)
	ann.finish(w.follow(ann.begin(linkIn(t, text))), 200)
	requests := w.auth.Requests("/authorize")
	if got := requests[len(requests)-1].Form.Get("scope"); got != "read write" {
		t.Errorf("the scopes are %q, want the union", got)
	}
	if _, text := ann.call(w.Gateway); text == "" {
		t.Error("the call with more scopes failed")
	}
	w.auth.Protect(w.server, func(x *toolservertest.Exchange) string { return "" })
	w.server.Handle("tools/call", toolservertest.Status(403, "WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`))
	if _, text := ann.ask(w.Gateway, "tools/call", echoCall, plainClient); strings.Contains(text, "mgl_") {
		t.Errorf("the user is asked again for what they gave: %s", text)
	}
}

func TestListsShowWhatWasReadBeforeASignIn(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	ann, bob := w.user("ann"), w.user("bob")
	mustDo(t, w.Gateway, "PUT", "/admin/users/"+ann.id, `{"role":"admin"}`)
	ann.do(ann.session, "POST", "/mcp-servers/notes/sync?workspace_id=default", "", 409)
	link, err := url.Parse(fmt.Sprint(ann.do(ann.session, "POST", "/auth/tool-connections", `{"mcp_server_id":"notes","workspace_id":"default"}`, 200)["link"]))
	if err != nil {
		t.Fatal(err)
	}
	ann.finish(w.follow(ann.begin(link.Query().Get("link"))), 200)
	ann.do(ann.session, "POST", "/mcp-servers/notes/sync?workspace_id=default", "", 200)
	waittest.Until(t, "the list of a user who has not signed in has tools", func() bool {
		_, list := bob.ask(w.Gateway, "tools/list", "", plainClient)
		return strings.Contains(list, `"echo"`)
	})
	if _, text := bob.call(w.Gateway); text != "" {
		t.Errorf("a call of another user has the result %s", text)
	}
	mustDo(t, w.Gateway, "DELETE", "/admin/users/"+ann.id, "")
	waittest.Until(t, "a removed user can call nothing", func() bool {
		return w.Post("/notes/mcp", `{}`, "x-gateway-api-key", ann.key, "x-gateway-provider", "").Status == 401
	})
	list, _ := mustDo(t, w.Gateway, "GET", "/mcp-servers/notes/connections?workspace_id=default", "").JSON(t)["data"].([]any)
	if len(list) != 0 {
		t.Errorf("connections outlive their user: %v", list)
	}
}

func TestKeysWithoutAUserCannotSignIn(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	nobody := &toolUser{w: w, key: gatewaytest.Key}
	if _, text := nobody.ask(w.Gateway, "tools/call", echoCall, urlClient); !strings.Contains(text, "use the key of a user") || strings.Contains(text, "mgl_") {
		t.Errorf("a key without a user: %s", text)
	}
	nobody.do(gatewaytest.Key, "POST", "/auth/tool-connections", `{"mcp_server_id":"notes","workspace_id":"default"}`, 403)
}

func TestRegisteredClientsAreUsed(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, `"client_id":"ours","client_secret":"the-secret-of-the-client"`, func(w *signInWorld) {
		w.auth.Client("ours", "the-secret-of-the-client", w.Root+"/oauth/callback")
	})
	ann := w.user("ann")
	ann.signIn()
	w.auth.Expire()
	if _, text := ann.call(w.Gateway); text == "" || len(w.auth.Requests("/register")) != 0 {
		t.Errorf("the call failed, or the gateway registered %d times", len(w.auth.Requests("/register")))
	}
	w.auth.Document = map[string]any{"registration_endpoint": nil}
	none := newSignInWorld(t, "", func(w *signInWorld) { w.auth.Document = map[string]any{"registration_endpoint": nil} })
	bob := none.user("bob")
	_, text := bob.ask(none.Gateway, "tools/call", echoCall, plainClient)
	got := bob.do(bob.session, "POST", "/auth/tool-sign-in", `{"link":"`+linkIn(t, text)+`"}`, 409)
	if text := fmt.Sprint(got); !strings.Contains(text, "set client_id") || !strings.Contains(text, "/oauth/callback") {
		t.Errorf("without a way to register: %v", got)
	}
}

func TestMetadataOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]map[string]any{
		"another issuer": {"issuer": "https://other.example.com"}, "no PKCE": {"code_challenge_methods_supported": []string{"plain"}},
		"a page of a script": {"authorization_endpoint": "javascript:alert(1)"}, "a private token endpoint": {"token_endpoint": "http://10.0.0.1/token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSignInWorld(t, "", func(w *signInWorld) { w.auth.Document = document })
			ann := w.user("ann")
			_, text := ann.ask(w.Gateway, "tools/call", echoCall, plainClient)
			link := linkIn(t, text)
			got := w.Do(w.Request("POST", "/auth/tool-sign-in", `{"link":"`+link+`"}`, "x-gateway-api-key", ann.session))
			if name == "a private token endpoint" && got.Status == 200 { // refused when it is used
				u, _ := got.JSON(t)["redirect_uri"].(string)
				body, _ := json.Marshal(map[string]string{"query": w.follow(u)})
				got = w.Do(w.Request("POST", "/auth/tool-sign-in/finish", string(body), "x-gateway-api-key", ann.session))
			}
			if got.Status < 400 || ann.state() != nil {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
}

func TestTheGatewayItselfSignsInToToolServers(t *testing.T) {
	t.Parallel()
	w := &signInWorld{t: t, Gateway: gatewaytest.New(t, gatewaytest.Options{MasterKey: "a master key of a test, long enough"}), server: toolservertest.New(t), auth: toolservertest.NewAuthorization(t)}
	w.auth.Client("machine", "the-secret-of-the-client")
	w.auth.Protect(w.server, func(x *toolservertest.Exchange) string {
		if x.Message.Method == "tools/call" {
			return "write"
		}
		return ""
	})
	w.addServer("oauth_client_credentials", `"client_id":"machine","client_secret":"the-secret-of-the-client"`)
	failures := 1
	w.auth.Fail(func(path string, _ url.Values) (int, string) {
		if path == "/token" && failures > 0 {
			failures--
			return 503, "{}"
		}
		return 0, ""
	})
	any := &toolUser{w: w, key: gatewaytest.Key}
	call := func() string {
		_, text := any.ask(w.Gateway, "tools/call", echoCall, plainClient)
		if strings.Contains(text, `"error"`) || strings.Contains(text, `"isError":true`) {
			t.Log(text)
			return ""
		}
		return text
	}
	waittest.Until(t, "the server is published", func() bool { return w.Post("/notes/mcp", `{}`, "x-gateway-provider", "").Status != 404 })
	if call() == "" {
		t.Fatal("the first call failed: the token endpoint failed once, and the server asked for more scopes")
	}
	w.auth.Expire()
	if call() == "" {
		t.Error("a token that the server refuses is not replaced")
	}
}
