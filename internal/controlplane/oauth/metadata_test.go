package oauth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/oauth"
	"modelgate/internal/testing/routetest"
)

func TestClientsFindTheAuthorizationServer(t *testing.T) {
	w := newCodeWorld(t)
	for path, resource := range map[string]string{
		"":             "/mcp",
		"/mcp":         "/mcp",
		"/mcp/github":  "/mcp/github",
		"/mcp/none":    "/mcp/none", // as if it were there
		"/github/mcp":  "/github/mcp",
		"/v1/mcp":      "/v1/mcp",
		"/v1/mcp/x":    "/v1/mcp/x",
		"/mcp/a/b":     "",
		"/v1/chat":     "",
		"/mcp/a%20b":   "",
		"/mcp/%3Cb%3E": "",
	} {
		a := w.Nobody().Call("GET", "/.well-known/oauth-protected-resource"+path, "")
		want := `{"resource":"` + gateway + resource + `","authorization_servers":["` + gateway + `"],"scopes_supported":["mcp.invoke"],"bearer_methods_supported":["header"],"resource_name":"Tool servers of modelgate"}`
		if resource == "" && a.Status != http.StatusNotFound || resource != "" && (a.Status != http.StatusOK || a.Body != want) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if a.Status == http.StatusOK && a.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s may not be read by pages", path)
		}
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		var m map[string]any
		w.Nobody().Must("GET", path, "", &m)
		for name, want := range map[string]string{
			"issuer": `"` + gateway + `"`, "authorization_endpoint": `"` + gateway + `/oauth/authorize"`, "code_challenge_methods_supported": `["S256"]`,
			"authorization_response_iss_parameter_supported": "true", "client_id_metadata_document_supported": "true", "registration_endpoint": "null",
			"response_types_supported": `["code"]`, "token_endpoint_auth_methods_supported": `["none"]`,
		} {
			if got, _ := json.Marshal(m[name]); string(got) != want {
				t.Errorf("%s: %s is %s, want %s", path, name, got, want)
			}
		}
		if list := fmt.Sprint(m["grant_types_supported"]); !strings.Contains(list, "authorization_code") || !strings.Contains(list, "refresh_token") {
			t.Errorf("%s: the grants are %s", path, list)
		}
		if a := w.Nobody().Call("GET", path+"/other", ""); a.Status != http.StatusNotFound {
			t.Errorf("%s of another issuer: %d %s", path, a.Status, a.Body)
		}
		if a := w.Nobody().Call("OPTIONS", path, ""); a.Status != http.StatusNoContent || a.Header.Get("Access-Control-Allow-Headers") == "" {
			t.Errorf("%s: a preflight: %d %v", path, a.Status, a.Header)
		}
	}
	w.settings.Registration = true
	var m struct {
		Endpoint string `json:"registration_endpoint"`
	}
	if w.Nobody().Must("GET", "/.well-known/oauth-authorization-server", "", &m); m.Endpoint != gateway+"/oauth/register" {
		t.Errorf("clients register at %q", m.Endpoint)
	}
	for _, path := range []string{"/oauth/token", "/oauth/register", "/oauth/revoke"} {
		if a := w.Nobody().Call("POST", path, ""); a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("pages of other origins may read %s", path)
		}
	}
}

// TestTheDocumentsHaveThePublicAddress: with its path, which clients insert behind the well-known
// path or keep in front of it.
func TestTheDocumentsHaveThePublicAddress(t *testing.T) {
	const public = "https://gate.example/ai"
	b := routetest.New(t, controlplane.Families{OAuth: oauth.Routes{}}.Add)
	b.API.PublicURL = func() string { return public }
	for path, want := range map[string]string{
		"/oauth-protected-resource/mcp":          public + "/mcp",
		"/oauth-protected-resource/ai/mcp":       public + "/mcp",
		"/oauth-protected-resource/ai/v1/mcp/x":  public + "/v1/mcp/x",
		"/oauth-authorization-server":            public,
		"/oauth-authorization-server/ai":         public,
		"/openid-configuration/ai":               public,
		"/openid-configuration":                  public,
		"/oauth-protected-resource/other/ai/mcp": "",
		"/openid-configuration/other":            "",
	} {
		a := b.Nobody().Call("GET", "/.well-known"+path, "")
		var m struct {
			Issuer, Resource string
			Servers          []string `json:"authorization_servers"`
		}
		json.Unmarshal([]byte(a.Body), &m)
		switch {
		case want == "" && a.Status != http.StatusNotFound, want != "" && m.Issuer+m.Resource != want:
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		case m.Resource != "" && (len(m.Servers) != 1 || m.Servers[0] != public):
			t.Errorf("%s: the authorization server is %v", path, m.Servers)
		}
	}
}
