package toolservers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/routetest"
)

const secretText = "s3cret-of-the-header"

func TestSecretsOfIntegrationsAreNeverShown(t *testing.T) {
	w := newWorld(t)
	id := w.integration("issues", `"auth_type":"oauth_client_credentials","configurations":{"client_id":"gate","client_secret":"`+secretText+`","token_url":"https://login.example.com/token","custom_headers":{"X-Tenant":"`+secretText+`"}}`)
	w.server("issues", "issues")
	w.offers(nil)
	for _, call := range [][2]string{
		{"GET", "/mcp-integrations"}, {"GET", "/mcp-integrations/" + id}, {"GET", "/mcp-servers"}, {"GET", "/mcp-servers/issues?workspace_id=default"},
		{"POST", "/mcp-servers/issues/test?workspace_id=default"}, {"POST", "/mcp-servers/issues/sync?workspace_id=default"},
	} {
		got := w.root.Call(call[0], call[1], "")
		if got.Status != http.StatusOK || strings.Contains(got.Body, secretText) {
			t.Errorf("%s %s: %d %s", call[0], call[1], got.Status, got.Body)
		}
	}
	if h := w.probed.Headers["X-Tenant"]; h.Reveal() != secretText || w.probed.OAuth.Secret.Reveal() != secretText {
		t.Errorf("the server was asked with %v and %+v", w.probed.Headers, w.probed.OAuth)
	}
	for _, table := range []string{"mcp_integrations", "audit_logs"} {
		columns := "configurations || sealed"
		if table == "audit_logs" {
			columns = "request_body"
		}
		if stored := w.Query(`SELECT ` + columns + ` FROM ` + table); strings.Contains(fmt.Sprint(stored), secretText) {
			t.Errorf("%s has the secret: %s", table, stored)
		}
	}
}

func TestStoredSecretsAreNotSentToANewAddress(t *testing.T) {
	w := newWorld(t)
	w.integration("issues", `"auth_type":"headers","configurations":{"custom_headers":{"Authorization":"Bearer `+secretText+`"}}`)
	var read struct {
		Configurations struct {
			CustomHeaders map[string]string `json:"custom_headers"`
		}
	}
	w.root.Must("GET", "/mcp-integrations/issues", "", &read)
	mask := read.Configurations.CustomHeaders["Authorization"]
	keeping := `"configurations":{"custom_headers":{"Authorization":"` + mask + `"}}`
	for _, tt := range []struct {
		body string
		want int
	}{
		{`{"url":"https://evil.example.com/mcp"}`, http.StatusBadRequest},
		{`{"url":"https://evil.example.com/mcp",` + keeping + `}`, http.StatusBadRequest},
		{`{"url":"http://tools.example.com/mcp"}`, http.StatusBadRequest},
		{`{"configurations":{"custom_headers":{"Authorization":"Be***xx"}}}`, http.StatusBadRequest},
		{`{"url":"https://tools.example.com/other",` + keeping + `}`, http.StatusOK},
		{`{"url":"https://evil.example.com/mcp","configurations":{"custom_headers":{"Authorization":"Bearer of-my-own"}}}`, http.StatusOK},
	} {
		if got := w.root.Call("PUT", "/mcp-integrations/issues", tt.body); got.Status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.body, got.Status, got.Body, tt.want)
		}
	}
}

func TestTokensAreNotAskedForElsewhereWithTheStoredSecret(t *testing.T) {
	w := newWorld(t)
	w.integration("issues", `"auth_type":"oauth_client_credentials","configurations":{"client_id":"gate","client_secret":"`+secretText+`","token_url":"https://login.example.com/token"}`)
	for address, want := range map[string]int{"https://evil.example.com/token": http.StatusBadRequest, "https://login.example.com/other": http.StatusOK} {
		body := `{"configurations":{"client_id":"gate","client_secret":"***","token_url":"` + address + `"}}`
		if got := w.root.Call("PUT", "/mcp-integrations/issues", body); got.Status != want {
			t.Errorf("%s: %d %s, want %d", address, got.Status, got.Body, want)
		}
	}
}

func TestHeadersOfIntegrationsAreChecked(t *testing.T) {
	w := newWorld(t)
	for _, configuration := range []string{
		`"custom_headers":{"X-A":"one\r\nX-Evil: two"}`, `"custom_headers":{"X-A":"one\u0000"}`, `"custom_headers":{"X-A\r\nX-Evil":"two"}`,
		`"custom_headers":{"X A":"b"}`, `"custom_headers":{"Host":"evil.example.com"}`, `"custom_headers":{"Content-Length":"5"}`,
		`"custom_headers":{"Transfer-Encoding":"chunked"}`, `"custom_headers":{"Connection":"close"}`, `"custom_headers":{"x-gateway-api-key":"b"}`,
		`"custom_headers":{"mcp-session-id":"b"}`, `"custom_headers":{"Mcp-Method":"b"}`, `"custom_headers":{"Accept":"*/*"}`,
		`"custom_headers":{"X-A":"b","x-a":"c"}`, `"custom_headers":{"Metadata-Flavor":"Google"}`, `"custom_headers":{"X-A":""}`,
		`"passthrough_headers":["Authorization"]`, `"passthrough_headers":["x-api-key"]`, `"passthrough_header":"cookie"`,
		`"passthrough_headers":["x-gateway-api-key"]`, `"passthrough_headers":["Mcp-Session-Id"]`, `"passthrough_headers":["a\r\nb"]`,
		`"scopes":["a b"]`, `"scopes":["a\"b"]`, `"client_id":"gate"`,
	} {
		body := `{"name":"n","url":"https://tools.example.com/mcp","transport":"http","auth_type":"none","configurations":{` + configuration + `}}`
		if got := w.root.Call("POST", "/mcp-integrations", body); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", configuration, got.Status, got.Body)
		}
	}
	w.integration("good", `"auth_type":"none","configurations":{"custom_headers":{"x-tenant":"a"},"passthrough_header":"x-trace"}`)
	if got := w.published(); len(got.ToolServers) != 0 {
		t.Errorf("%+v without a server", got.ToolServers)
	}
}

func TestAddressesOfIntegrationsAreChecked(t *testing.T) {
	w := newWorld(t)
	for _, address := range []string{
		"", "http://127.0.0.1/mcp", "http://localhost/mcp", "https://[::1]/mcp", "http://10.0.0.1/mcp", "http://192.168.1.1/mcp",
		"http://169.254.169.254/latest/meta-data", "http://metadata.google.internal/", "http://[::ffff:127.0.0.1]/", "http://2130706433/",
		"http://0x7f000001/", "http://user:pass@tools.example.com/mcp", "file:///etc/passwd", "ftp://tools.example.com/", "gopher://tools.example.com/",
		"https://tools.example.com/mcp?key=of-mine", "https://tools.example.com/mcp#x", "https://tools.example.com:22/mcp", "tools.example.com/mcp",
	} {
		for _, body := range []string{
			`{"name":"n","url":"` + address + `","transport":"http","auth_type":"none"}`,
			`{"name":"n","url":"https://tools.example.com/mcp","transport":"http","auth_type":"oauth_auto","configurations":{"client_id":"a","token_url":"` + address + `"}}`,
			`{"name":"n","url":"https://tools.example.com/mcp","transport":"http","auth_type":"oauth_auto","configurations":{"client_id":"a","authorization_url":"` + address + `"}}`,
		} {
			if address == "" && strings.Contains(body, "oauth") {
				continue
			}
			if got := w.root.Call("POST", "/mcp-integrations", body); got.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", body, got.Status, got.Body)
			}
		}
	}
	w.integration("issues", "")
	if got := w.root.Call("PUT", "/mcp-integrations/issues", `{"url":"http://169.254.169.254/"}`); got.Status != http.StatusBadRequest {
		t.Errorf("a change: %d %s", got.Status, got.Body)
	}
}

func TestCommandsRunOnlyIfTheNodeNamesThem(t *testing.T) {
	w := newWorld(t)
	create := func(c string, by func(method, path, body string) int) int {
		return by("POST", "/mcp-integrations", `{"name":"n","transport":"stdio","auth_type":"none",`+c+`}`)
	}
	root := func(method, path, body string) int { return w.root.Call(method, path, body).Status }
	if got := create(`"command":"files"`, root); got != http.StatusBadRequest {
		t.Errorf("a node without commands: %d", got)
	}
	w.commands = []string{"files"}
	for _, c := range []string{`"command":"sh"`, `"command":"files -c"`, `"command":""`, `"command":"files","url":"https://tools.example.com"`,
		`"command":"files","configurations":{"custom_headers":{"A":"b"}}`} {
		if got := create(c, root); got != http.StatusBadRequest {
			t.Errorf("%s: %d", c, got)
		}
	}
	workspace := w.As(access.Identity{KeyID: "k", Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	if got := create(`"command":"files"`, func(method, path, body string) int { return workspace.Call(method, path, body).Status }); got != http.StatusForbidden {
		t.Errorf("a key of a workspace: %d", got)
	}
	if got := create(`"command":"files","workspace_id":"default"`, root); got != http.StatusForbidden {
		t.Errorf("in a workspace: %d", got)
	}
	if got := create(`"command":"files"`, root); got != http.StatusOK {
		t.Errorf("allowed: %d", got)
	}
	if got := w.root.Call("POST", "/mcp-integrations", `{"name":"n","url":"https://tools.example.com","transport":"http","command":"files","auth_type":"none"}`); got.Status != http.StatusBadRequest {
		t.Errorf("a command over HTTP: %d", got.Status)
	}
}

func TestIntegrationsOfOthersAreOutOfReach(t *testing.T) {
	w := newWorld(t)
	w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('elsewhere', 'elsewhere', '', '', '{}', '', 'active', 0, 0)`)
	id := w.integration("issues", "")
	second := w.workspace("Second")
	abroad := w.As(access.Identity{KeyID: "a", Organisation: "elsewhere", Workspace: "-", Type: access.OrganisationService, Scopes: access.Scopes(access.Session)})
	w.Exec(`INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings, usage_limits,
		rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ('abroad', 'elsewhere', 'abroad', '', '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`)
	for _, ref := range []string{id, "issues"} {
		if got := abroad.Call("POST", "/mcp-servers", `{"name":"n","slug":"stolen","mcp_integration_id":"`+ref+`","workspace_id":"abroad"}`); got.Status != http.StatusNotFound {
			t.Errorf("a server of the integration %s of another organisation: %d %s", ref, got.Status, got.Body)
		}
	}
	w.root.Must("PUT", "/mcp-integrations/issues/workspaces", `{"workspaces":[{"id":"`+second+`","enabled":false}]}`, nil)
	body := func(workspace string) string {
		return `{"name":"n","slug":"issues","mcp_integration_id":"issues","workspace_id":"` + workspace + `"}`
	}
	if got := w.root.Call("POST", "/mcp-servers", body(second)); got.Status != http.StatusNotFound {
		t.Errorf("a server in a workspace without a grant: %d %s", got.Status, got.Body)
	}
	w.root.Must("POST", "/mcp-servers", body("default"), nil)
	if got := w.published().ToolServers; len(got) != 1 {
		t.Fatalf("%+v, want one", got)
	}
	for name, change := range map[string][2]string{
		"revoked":  {"/mcp-integrations/issues/workspaces", `{"workspaces":[{"id":"default","enabled":false}]}`},
		"disabled": {"/mcp-integrations/issues", `{"status":"disabled"}`},
	} {
		w.root.Must("PUT", change[0], change[1], nil)
		if got := w.published().ToolServers; len(got) != 0 {
			t.Errorf("%s: %+v is published", name, got)
		}
		w.root.Must("PUT", "/mcp-integrations/issues/workspaces", `{"override_existing_workspace_access":true}`, nil)
		w.root.Must("PUT", "/mcp-integrations/issues", `{"status":"active"}`, nil)
	}
	w.root.Must("DELETE", "/mcp-integrations/issues", "", nil)
	if left := w.Query(`SELECT slug FROM mcp_servers`); len(left) != 0 || len(w.published().ToolServers) != 0 {
		t.Errorf("left after the integration was deleted: %s", left)
	}
}

func TestSettingsOfIntegrationsReachRequests(t *testing.T) {
	w := newWorld(t)
	w.integration("issues", `"auth_type":"oauth_auto","configurations":{"client_id":"gate","scopes":["a","b"],"token_url":"https://login.example.com/token",
		"authorization_url":"https://login.example.com/authorize","call_timeout":30,"idle_timeout":5,"trust_annotations":true,"hold_changed":true,"passthrough_header":"x-trace"}`)
	w.server("issues", "issues")
	s, ok := w.snapshot().ToolServer(w.published().ToolServers[0].Row.Workspace, "issues")
	if !ok || s.CallTimeout != 30*time.Second || s.IdleTimeout != 5*time.Second || !s.TrustAnnotations || !s.HoldChanged || s.Auth != toolserver.AuthUser ||
		s.URL.String() != "https://tools.example.com/mcp" || len(s.PassHeaders) != 1 || s.PassHeaders[0] != "X-Trace" {
		t.Errorf("requests see %+v", s)
	}
	if o := s.OAuth; o == nil || o.ID != "gate" || len(o.Scopes) != 2 || o.TokenURL != "https://login.example.com/token" || o.AuthorizeURL != "https://login.example.com/authorize" {
		t.Errorf("requests see %+v", o)
	}
}

// TestWaysToSignInThatAreNotThereAreRefused has a gateway that cannot sign users in.
func TestWaysToSignInThatAreNotThereAreRefused(t *testing.T) {
	b := routetest.New(t, controlplane.Families{}.Add)
	for body, want := range map[string]string{
		`"auth_type":"oauth_auto"`: "auth_type cannot be",
		`"auth_type":"oauth_client_credentials","configurations":{"client_id":"a"}`: "configurations must have client_id and client_secret",
	} {
		got := b.Root().Call("POST", "/mcp-integrations", `{"name":"n","url":"https://tools.example.com/mcp","transport":"http",`+body+`}`)
		if got.Status != http.StatusBadRequest || !strings.Contains(string(got.Body), want) {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
}
