package server_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/toolservertest"
)

// clientDocument is what authorization servers read of the gateway.
type clientDocument struct {
	ID        string   `json:"client_id"`
	URI       string   `json:"client_uri"`
	Redirects []string `json:"redirect_uris"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
	Method    string   `json:"token_endpoint_auth_method"`
	Secret    *string  `json:"client_secret"`
}

// readDocument reads the document without a credential.
func readDocument(t *testing.T, g *gatewaytest.Gateway) (d clientDocument, status int) {
	t.Helper()
	req := g.Request("GET", "", "", "x-gateway-api-key", "", "x-gateway-provider", "")
	req.URL.Path = "/oauth/client.json"
	got := g.Do(req)
	if got.Status != 200 {
		return d, got.Status
	}
	if kind := got.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		t.Errorf("the type is %q", kind)
	}
	if err := json.Unmarshal(got.Body, &d); err != nil {
		t.Fatalf("%v: %s", err, got.Body)
	}
	return d, got.Status
}

// TestTheDocumentOfTheClientIsWhatItSends has an authorization server that reads the document, which the
// gateway has only at a public address with https.
func TestTheDocumentOfTheClientIsWhatItSends(t *testing.T) {
	t.Parallel()
	const root = "https://gateway.example.com/gateway"
	for setting, has := range map[string]bool{"": false, "http://gateway.example.com": false, root: true} {
		o := gatewaytest.Options{MasterKey: "a master key of a test, long enough"}
		if setting != "" {
			o.Settings = "version: 1\npublic_url: " + setting + "\n"
		}
		w := &signInWorld{t: t, Gateway: gatewaytest.New(t, o), server: toolservertest.New(t), auth: toolservertest.NewAuthorization(t)}
		w.auth.Document = map[string]any{"client_id_metadata_document_supported": true}
		w.auth.Protect(w.server, nil)
		w.addServer("oauth_auto", "")
		d, status := readDocument(t, w.Gateway)
		if (status == 200) != has || !has && status != 404 {
			t.Errorf("%q: the document has the status %d", setting, status)
		}
		ann := w.user("ann")
		if has {
			if d.ID != root+"/oauth/client.json" || d.URI != root || d.Method != "none" || d.Secret != nil ||
				!slices.Equal(d.Redirects, []string{root + "/oauth/callback"}) || !slices.Equal(d.Responses, []string{"code"}) ||
				!slices.Equal(d.Grants, []string{"authorization_code", "refresh_token"}) {
				t.Errorf("the document is %+v", d)
			}
			w.auth.Client(d.ID, "", d.Redirects...)
		}
		_, text := ann.ask(w.Gateway, "tools/call", echoCall, plainClient)
		if !strings.Contains(text, setting+"/oauth/connect") {
			t.Errorf("%q: the link is elsewhere: %s", setting, text)
		}
		asked, err := url.Parse(ann.begin(linkIn(t, text)))
		if err != nil {
			t.Fatal(err)
		}
		if got := asked.Query().Get("client_id") == root+"/oauth/client.json"; got != has {
			t.Errorf("%q: the client is %s", setting, asked.Query().Get("client_id"))
		}
		ann.finish(w.follow(asked.String()), 200) // the redirect URI is one of the document
		w.auth.Expire()
		if _, text := ann.call(w.Gateway); text == "" {
			t.Errorf("%q: the renewal failed", setting)
		}
		if n := len(w.auth.Requests("/register")); (n == 0) != has {
			t.Errorf("%q: the gateway has registered %d times", setting, n)
		}
		for _, r := range w.auth.Requests("/token") {
			if has && (r.Form.Get("client_id") != d.ID || r.Form.Has("client_secret")) {
				t.Errorf("a request for tokens has %v", r.Form)
			}
		}
	}
}
