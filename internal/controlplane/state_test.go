package controlplane_test

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// versioned are objects whose routes take If-Match: how one is made, where it is
// read and how it is changed and taken away.
var versioned = []struct {
	name, post, body     string
	path                 string // read, changed and taken away below this, by its slug or id
	put, remove, confirm string // bodies; an empty put changes nothing, an empty remove is not a route
}{
	{"config", "/configs", `{"name":"one","config":{"provider":"@openai"}}`, "/configs/", `{"name":"two"}`, "/configs/", ""},
	{"guardrail", "/guardrails", `{"name":"one","checks":[{"id":"default.wordCount","parameters":{"maxWords":9}}],"actions":{"deny":true}}`, "/guardrails/", `{"name":"two"}`, "/guardrails/", ""},
	{"rate-limit policy", "/policies/rate-limits", `{` + everyKey + `,"type":"tokens","unit":"rpd","value":5}`, "/policies/rate-limits/", `{"name":"two"}`, "/policies/rate-limits/", ""},
	{"usage-limit policy", "/policies/usage-limits", `{` + everyKey + `,"type":"tokens","credit_limit":500}`, "/policies/usage-limits/", `{"name":"two"}`, "/policies/usage-limits/", ""},
	{"deployment", "/deployments", `{"name":"one"}`, "/deployments/", `{"name":"two"}`, "/deployments/", ""},
	{"identity provider", "/identity-providers", `{"name":"one","issuer":"https://login.example.com","client_id":"gateway","client_secret":"of-one"}`, "/identity-providers/", `{"name":"two"}`, "/identity-providers/", ""},
	{"workload identity", "/workload-identities", `{"name":"one","api_key_id":"KEY","type":"oidc","issuer":"https://issuer.example.com","audience":"https://gate.example.com","claims":{"sub":["ci:build"]}}`, "/workload-identities/", `{"name":"two"}`, "/workload-identities/", ""},
	{"MCP integration", "/mcp-integrations", `{"name":"one","url":"https://tools.example.com/mcp","transport":"http","auth_type":"none","workspace_id":"default"}`, "/mcp-integrations/", `{"name":"two"}`, "/mcp-integrations/", ""},
	{"MCP server", "/mcp-servers", `{"name":"one","mcp_integration_id":"tools","workspace_id":"default"}`, "/mcp-servers/", `{"name":"two"}`, "/mcp-servers/", ""},
	{"agent integration", "/agent-integrations", `{"name":"one","url":"https://helper.example.com","auth_type":"none","workspace_id":"default"}`, "/agent-integrations/", `{"name":"two"}`, "/agent-integrations/", ""},
	{"agent", "/agent-servers", `{"name":"one","agent_integration_id":"helper","workspace_id":"default"}`, "/agent-servers/", `{"name":"two"}`, "/agent-servers/", ""},
	{"MCP bundle", "/mcp-bundles", `{"name":"one","tools":["*"],"workspace_id":"default"}`, "/mcp-bundles/", `{"name":"two"}`, "/mcp-bundles/", ""},
	{"workspace", "/admin/workspaces", `{"name":"one"}`, "/admin/workspaces/", `{"description":"two"}`, "/admin/workspaces/", `{"name":"one"}`},
	{"key", "/api-keys/workspace/service", `{"name":"one","scopes":["models.list"]}`, "/api-keys/", `{"name":"two"}`, "/api-keys/", ""},
	{"secret reference", "/secret-references", `{"name":"one","manager_type":"hashicorp_vault","auth_config":{"type":"token","address":"https://vault.example.com","token":"a-token-of-length"},"secret_path":"kv/a"}`, "/secret-references/", `{"name":"two"}`, "/secret-references/", ""},
	{"integration", "/integrations", `{"name":"one","ai_provider_id":"openai","key":"sk-of-some-length"}`, "/integrations/", `{"name":"two"}`, "/integrations/", ""},
	{"virtual key", "/virtual-keys", `{"name":"one","provider":"openai","key":"sk-of-some-length"}`, "/virtual-keys/", `{"note":"two"}`, "/virtual-keys/", ""},
	{"prompt", "/prompts", `{"name":"one","workspace_id":"default","string":"Hello","parameters":{},"model":"m"}`, "/prompts/", `{"name":"two"}`, "/prompts/", ""},
	{"partial", "/prompts/partials", `{"name":"one","workspace_id":"default","string":"Hello"}`, "/prompts/partials/", `{"string":"two"}`, "/prompts/partials/", ""},
	{"label", "/labels", `{"name":"one","workspace_id":"default"}`, "/labels/", `{"name":"two"}`, "/labels/", ""},
	{"collection", "/collections", `{"name":"one","workspace_id":"default"}`, "/collections/", `{"name":"two"}`, "/collections/", ""},
	{"webhook endpoint", "/webhook_endpoints", `{"name":"one","url":"https://hooks.example.com","event_types":["batch.failed"]}`, "/webhook_endpoints/", `{"name":"two"}`, "/webhook_endpoints/", ""},
	{"guardrail credential", "/guardrail-credentials", `{"partner":"lakera","workspace_id":"default","credentials":{"apiKey":"k-0123456789"}}`, "/guardrail-credentials/", `{"credentials":{"apiKey":"k-9876543210"}}`, "/guardrail-credentials/", ""},
}

func TestAChangeOfAStateThatIsGoneIsRefused(t *testing.T) {
	b := routetest.New(t, controlplane.Families{}.Add)
	b.API.Guardrails = checks.New(checks.Services{})
	c := b.Root()
	var key struct{ ID string }
	c.Must("POST", "/api-keys/workspace/service", `{"name":"ci","scopes":["models.list"]}`, &key)
	c.Must("POST", "/agent-integrations", `{"name":"Helper","slug":"helper","url":"https://helper.example.com","auth_type":"none","workspace_id":"default"}`, nil)
	c.Must("POST", "/mcp-integrations", `{"name":"Tools","slug":"tools","url":"https://tools.example.com/mcp","transport":"http","auth_type":"none","workspace_id":"default"}`, nil)
	for _, tt := range versioned {
		t.Run(tt.name, func(t *testing.T) {
			var made struct {
				ID, Slug string
				Data     struct{ Slug string }
			}
			c.Must("POST", tt.post, strings.Replace(tt.body, "KEY", key.ID, 1), &made)
			ref := made.ID + made.Data.Slug
			changesOnce(t, b, c, tt.path+ref, tt.put, tt.put)
			read := stateOf(t, c, tt.path+ref)
			call := func(state string) routetest.Response {
				return c.CallWith("DELETE", tt.remove+ref, tt.confirm, http.Header{"If-Match": {state}})
			}
			if a := call(`"2026-05-01T00:00:00.000Z"`); a.Status != 412 || !strings.Contains(a.Body, "AB07") {
				t.Errorf("taking another state away: %d %s", a.Status, a.Body)
			}
			if a := call(read); a.Status != 200 {
				t.Errorf("taking it away as it was read: %d %s", a.Status, a.Body)
			}
		})
	}
}

func TestAChangeOfAnOldStateIsRefusedWhereNothingIsTakenAway(t *testing.T) {
	b := routetest.New(t, controlplane.Families{}.Add)
	c := b.Root()
	b.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ('u', 'u@example.com', '', '', '', 'active', 0, 0)`)
	b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ('` + store.DefaultOrganisation + `', 'u', 'member', 0, 0)`)
	c.Must("POST", "/integrations", `{"name":"one","slug":"i","ai_provider_id":"openai","key":"sk-of-some-length"}`, nil)
	c.Must("POST", "/admin/workspaces/default/users", `{"users":[{"id":"u","role":"member"}]}`, nil)
	changesOnce(t, b, c, "/admin/organisation", `{"name":"two"}`, `{"name":"three"}`)
	changesOnce(t, b, c, "/providers/i", `{"note":"two"}`, `{"note":"three"}`)
	changesOnce(t, b, c, "/admin/workspaces/default/users/u", `{"role":"admin"}`, `{"role":"manager"}`)
	changesOnce(t, b, c, "/admin/users/u", `{"role":"admin"}`, `{"role":"member"}`)
	for _, path := range []string{"/integrations/i/models", "/integrations/i/workspaces"} {
		body := `{"models":[]}`
		if strings.HasSuffix(path, "workspaces") {
			body = `{"workspaces":[],"override_existing_workspace_access":true}`
		}
		read := stateOf(t, c, "/integrations/i")
		for i, want := range []int{200, 412} {
			if a := c.CallWith("PUT", path, body, http.Header{"If-Match": {read}}); a.Status != want {
				t.Errorf("change %d of %s: %d %s, want %d", i, path, a.Status, a.Body, want)
			}
		}
	}
}

// changesOnce changes what is at path twice as it was read once.
func changesOnce(t *testing.T, b *routetest.Bench, c *routetest.Caller, path, first, second string) {
	t.Helper()
	b.Clock = b.Clock.Add(time.Second)
	read := stateOf(t, c, path)
	before := b.Changes()
	tag := ""
	for i, tt := range []struct {
		state, body string
		want        int
	}{{"2026-05-01T00:00:00.000Z", first, 412}, {"soon", first, 412}, {read, first, 200}, {read, second, 412}} {
		a := c.CallWith("PUT", path, tt.body, http.Header{"If-Match": {tt.state}})
		if tag = cmp.Or(a.Header.Get("Etag"), tag); a.Status == 200 && (a.Header.Get("Etag") == "" || !strings.Contains(a.Body, strings.Trim(tag, `"`))) {
			t.Errorf("PUT %s: ETag %q, %s, want that of the object", path, tag, a.Body)
		}
		if a.Status != tt.want || tt.want == 412 && !strings.Contains(a.Body, "AB07") {
			t.Errorf("PUT %s, %d, of %s: %d %s, want %d", path, i, tt.state, a.Status, a.Body, tt.want)
		}
	}
	if n := b.Changes() - before; n != 1 {
		t.Errorf("%s was changed %d times, want once", path, n)
	}
	if now := stateOf(t, c, path); now == read || tag != `"`+now+`"` {
		t.Errorf("%s is of %s after a change of %s, which had the ETag %s", path, now, read, tag)
	}
}

// stateOf returns the last_updated_at of what is at path.
func stateOf(t *testing.T, c *routetest.Caller, path string) string {
	t.Helper()
	a := c.Call("GET", path, "")
	_, rest, ok := strings.Cut(a.Body, `"last_updated_at":"`)
	state, _, _ := strings.Cut(rest, `"`)
	if a.Status != 200 || !ok {
		t.Fatalf("GET %s: %d %s", path, a.Status, a.Body)
	}
	return state
}

func TestAStateIsNotTakenWhereNothingLooksAtIt(t *testing.T) {
	b := routetest.New(t, controlplane.Families{}.Add)
	h := http.Header{"If-Match": {"*"}}
	if a := b.Root().CallWith("POST", "/configs", `{"name":"one","config":{"provider":"@openai"}}`, h); a.Status != 400 || !strings.Contains(a.Body, `"If-Match"`) {
		t.Errorf("making something: %d %s", a.Status, a.Body)
	}
	if a := b.Root().CallWith("GET", "/configs", "", h); a.Status != 200 {
		t.Errorf("reading: %d %s", a.Status, a.Body)
	}
	versioned := 0
	for _, r := range b.Routes() {
		if r.Versioned {
			versioned++
		}
		if r.Resource == "session" || r.Resource == "second_factor" || strings.HasPrefix(r.Resource, "directory_") || strings.HasPrefix(r.Resource, "oauth_") { // show no state, or never change
			continue
		}
		if r.Versioned != (r.Resource != "" && (r.Method == "PUT" || r.Method == "DELETE" || r.Name == "rotate-key") && r.Name != "cancel-invite" && r.Name != "label-guardrail-result" && r.Name != "delete-keys") {
			t.Errorf("%s: versioned is %t", r.Name, r.Versioned)
		}
	}
	if versioned < 10 {
		t.Errorf("%d routes are versioned, want those of every resource", versioned)
	}
}
