package server_test

import (
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// TestAServerDoesNotGetTheCodeOfAnother has a hostile authorization server that sends browsers on to an
// honest one, as the gateway's client there.
func TestAServerDoesNotGetTheCodeOfAnother(t *testing.T) {
	t.Parallel()
	for name, names := range map[string][2]bool{ // which of them announce the issuer: the honest one, the hostile one
		"neither": {false, false}, "the honest one": {true, false}, "the hostile one": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := func(a *toolservertest.Authorization, announces bool) {
				if !announces {
					a.Answer = url.Values{"iss": nil}
					a.Document = map[string]any{"authorization_response_iss_parameter_supported": nil}
				}
			}
			w := newSignInWorld(t, "", func(w *signInWorld) { set(w.auth, names[0]) })
			evil, evilAuth := toolservertest.New(t), toolservertest.NewAuthorization(t)
			set(evilAuth, names[1])
			evilAuth.Protect(evil, nil)
			mustDo(t, w.Gateway, "POST", "/mcp-integrations", `{"name":"evil","slug":"evil","transport":"http","auth_type":"oauth_auto","url":"`+evil.URL+`"}`)
			mustDo(t, w.Gateway, "PUT", "/mcp-integrations/evil/workspaces", `{"global_workspace_access":{"enabled":true}}`)
			mustDo(t, w.Gateway, "POST", "/mcp-servers", `{"name":"Evil","slug":"evil","mcp_integration_id":"evil","workspace_id":"default"}`)
			ann := w.user("ann")
			ann.signIn()
			if _, text := ann.call(w.Gateway); text == "" {
				t.Fatal("an honest server cannot be used")
			}
			honest := w.auth.Requests("/authorize")[0].Form
			text, err := url.Parse(ann.do(ann.session, "POST", "/auth/tool-connections", `{"mcp_server_id":"evil","workspace_id":"default"}`, 200)["link"].(string))
			if err != nil {
				t.Fatal(err)
			}
			asked, err := url.Parse(ann.begin(text.Query().Get("link")))
			if err != nil || !strings.HasPrefix(asked.String(), evilAuth.URL) {
				t.Fatal(asked, err)
			}
			q := asked.Query()
			for _, name := range []string{"client_id", "redirect_uri", "resource"} {
				q.Set(name, honest.Get(name))
			}
			ann.finish(w.follow(w.auth.URL+"/authorize?"+q.Encode()), 403)
			if n := len(evilAuth.Requests("/token")); n != 0 {
				t.Errorf("the hostile server got the code, %d times", n)
			}
		})
	}
}

func TestOnlyARefusedGrantEndsAConnection(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, `"client_id":"ours","client_secret":"the-secret-of-the-client"`, func(w *signInWorld) {
		w.auth.Client("ours", "the-secret-of-the-client", w.Root+"/oauth/callback")
	})
	ann := w.user("ann")
	ann.signIn()
	for name, f := range map[string]struct {
		path, body string
		status     int
	}{
		"a mistyped secret":            {"/token", `{"error":"invalid_client"}`, 401},
		"a proxy that wants a sign-in": {"/token", `<html>`, 401},
	} {
		w.auth.Expire()
		w.auth.Fail(func(path string, _ url.Values) (int, string) {
			if path == f.path {
				return f.status, f.body
			}
			return 0, ""
		})
		if _, text := ann.call(w.Gateway); text != "" || ann.state() != "active" {
			t.Errorf("%s: %q, the state is %v", name, text, ann.state())
		}
		w.auth.Fail(nil)
		waittest.Until(t, "calls work again after "+name, func() bool { _, text := ann.call(w.Gateway); return text != "" })
	}
	if log := w.Log.String(); !strings.Contains(log, "refuses the gateway as a client") {
		t.Error("the log does not say that the client was refused")
	}
	w.auth.Expire()
	w.auth.Fail(func(path string, _ url.Values) (int, string) {
		if path == "/token" {
			return 401, `{"error":"invalid_grant"}`
		}
		return 0, ""
	})
	if _, text := ann.call(w.Gateway); text != "" || ann.state() != "needs_reauth" {
		t.Errorf("invalid_grant with 401: %q, the state is %v", text, ann.state())
	}
}

// TestALostRegistrationIsReplaced has an authorization server that forgets its clients.
func TestALostRegistrationIsReplaced(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	ann := w.user("ann")
	ann.signIn()
	w.auth.Expire()
	for at, code := range []string{"invalid_client", "unauthorized_client"} {
		w.auth.Fail(func(path string, f url.Values) (int, string) {
			if path == "/token" && f.Get("grant_type") == map[int]string{0: "refresh_token", 1: "authorization_code"}[at] {
				return 400, `{"error":"` + code + `"}`
			}
			return 0, ""
		})
		_, text := ann.ask(w.Gateway, "tools/call", echoCall, plainClient)
		if ann.state() != "needs_reauth" {
			t.Fatalf("%s: the state is %v", code, ann.state())
		}
		if at == 1 {
			ann.finish(w.follow(ann.begin(linkIn(t, text))), 502)
			w.auth.Fail(nil)
			_, text = ann.ask(w.Gateway, "tools/call", echoCall, plainClient)
			ann.finish(w.follow(ann.begin(linkIn(t, text))), 200)
		}
		if n := len(w.auth.Requests("/register")); n != 1+2*at {
			t.Errorf("%s: the gateway has registered %d times", code, n)
		}
	}
	w.auth.Answer = url.Values{"error": {"unauthorized_client"}, "code": nil}
	ann.do(ann.session, "DELETE", "/auth/tool-connections/notes", "", 200)
	_, text := ann.ask(w.Gateway, "tools/call", echoCall, plainClient)
	ann.finish(w.follow(ann.begin(linkIn(t, text))), 403)
	w.auth.Answer = nil
	ann.signIn()
	if n := len(w.auth.Requests("/register")); n != 4 {
		t.Errorf("after the callback the gateway has registered %d times", n)
	}
}

func TestScopesOfTheOrganisationAreNotWidened(t *testing.T) {
	t.Parallel()
	w := &signInWorld{t: t, Gateway: gatewaytest.New(t, gatewaytest.Options{MasterKey: "a master key of a test, long enough"}), server: toolservertest.New(t), auth: toolservertest.NewAuthorization(t)}
	w.auth.Client("machine", "the-secret-of-the-client")
	w.auth.Protect(w.server, func(x *toolservertest.Exchange) string {
		if x.Message.Method == "tools/call" {
			return "admin"
		}
		return ""
	})
	w.addServer("oauth_client_credentials", `"client_id":"machine","client_secret":"the-secret-of-the-client","scopes":["read"]`)
	waittest.Until(t, "the server is published", func() bool { return w.Post("/notes/mcp", `{}`, "x-gateway-provider", "").Status != 404 })
	if _, text := (&toolUser{w: w, key: gatewaytest.Key}).ask(w.Gateway, "tools/call", echoCall, plainClient); !strings.Contains(text, "rror") {
		t.Errorf("a call that needs more succeeded: %s", text)
	}
	for _, r := range w.auth.Requests("/token") {
		if got := r.Form.Get("scope"); got != "read" {
			t.Errorf("the gateway asked for the scopes %q", got)
		}
	}
}

func TestSignInsAreCheckedWhenTheyEnd(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, "", nil)
	ann := w.user("ann")
	begin := func() string {
		link, err := url.Parse(ann.do(ann.session, "POST", "/auth/tool-connections", `{"mcp_server_id":"notes","workspace_id":"default"}`, 200)["link"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return ann.begin(link.Query().Get("link"))
	}
	for range 25 { // more than may be on their way at once
		ann.finish(w.follow(begin()), 200)
	}
	ann.do(ann.session, "DELETE", "/auth/tool-connections/notes", "", 200)
	query := w.follow(begin())
	mustDo(t, w.Gateway, "DELETE", "/admin/workspaces/default/users/"+ann.id, "")
	ann.finish(query, 403)
	if state := ann.state(); state == "active" {
		t.Errorf("a user who was removed from the workspace has a connection")
	}
}
