package secrets_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// routes read some external secrets of the host.
var routes = secrets.Routes{References: routetest.References()}

type item struct {
	ID, Slug, Name, Description string
	Manager                     string            `json:"manager_type"`
	Auth                        map[string]string `json:"auth_config"`
	Path                        string            `json:"secret_path"`
	Key                         string            `json:"secret_key"`
	All                         bool              `json:"allow_all_workspaces"`
	Workspaces                  []string          `json:"allowed_workspaces"`
	Tags                        map[string]string
}

const vault = `{"name":"Vault","slug":"v","manager_type":"hashicorp_vault","secret_path":"kv/app","secret_key":"k","tags":{"team":"a"},
	"auth_config":{"type":"token","address":"https://vault.example.com","token":"hv-canary-0123456789"}}`

func TestAReferenceIsReadAsItWasMadeWithMasks(t *testing.T) {
	b := routetest.New(t, routes.Add)
	c := b.Root()
	var made struct{ ID, Slug, Object string }
	c.Must("POST", "/secret-references", vault, &made)
	for _, ref := range []string{made.ID, "v"} {
		var got item
		c.Must("GET", "/secret-references/"+ref, "", &got)
		if got.Name != "Vault" || got.Manager != "hashicorp_vault" || got.Path != "kv/app" || got.Key != "k" || !got.All || got.Workspaces == nil ||
			got.Tags["team"] != "a" || got.Auth["token"] != "hv***89" || got.Auth["address"] != "https://vault.example.com" || made.Object != "secret-reference" {
			t.Errorf("read %+v of %+v", got, made)
		}
	}
	c.Must("PUT", "/secret-references/v", `{"name":"V2","allowed_workspaces":["default"],"tags":null,"auth_config":{"token":"hv***89","namespace":"n"}}`, nil)
	var got item
	c.Must("GET", "/secret-references/v", "", &got)
	if got.Name != "V2" || got.All || len(got.Workspaces) != 1 || got.Workspaces[0] != store.DefaultWorkspace || len(got.Tags) != 0 ||
		got.Auth["namespace"] != "n" || got.Auth["token"] != "hv***89" || got.Path != "kv/app" {
		t.Errorf("after the change %+v", got)
	}
	all := b.Query("SELECT auth_config || sealed FROM secret_references") // sealed by the bench's own master key
	all = append(all, b.Query("SELECT request_body || uri || request_headers || query_params FROM audit_logs")...)
	if strings.Contains(strings.Join(all, "\n"), "canary") {
		t.Errorf("the token is in: %s", all)
	}
	c.Must("DELETE", "/secret-references/v", "", nil)
	if a := c.Call("GET", "/secret-references/"+made.ID, ""); a.Status != 404 || !strings.Contains(a.Body, "AB08") {
		t.Errorf("after removing: %d %s", a.Status, a.Body)
	}
}

func TestAListIsFilteredAndPaged(t *testing.T) {
	c := routetest.New(t, routes.Add).Root()
	c.Must("POST", "/secret-references", vault, nil)
	c.Must("POST", "/secret-references", `{"name":"Env","slug":"e","manager_type":"environment","secret_path":"APP_KEY"}`, nil)
	c.Must("POST", "/secret-references", `{"name":"100%","manager_type":"file","secret_path":"/run/secrets/key"}`, nil)
	for query, want := range map[string][2]int{
		"": {3, 3}, "?manager_type=file": {1, 1}, "?search=vAu": {1, 1}, "?search=%25": {1, 1}, "?search=_": {0, 0},
		`?tags={"team":"a"}`: {1, 1}, "?page_size=2": {3, 2}, "?page_size=2&current_page=1": {3, 1},
	} {
		var list struct {
			Total int
			Data  []item
		}
		c.Must("GET", "/secret-references"+strings.NewReplacer(`{`, "%7B", `}`, "%7D", `"`, "%22").Replace(query), "", &list)
		if list.Total != want[0] || len(list.Data) != want[1] {
			t.Errorf("%q lists %d of %d, want %v", query, len(list.Data), list.Total, want)
		}
	}
}

func TestReferencesAreChecked(t *testing.T) {
	b := routetest.New(t, routes.Add)
	c := b.Root()
	c.Must("POST", "/secret-references", vault, nil)
	const head = `{"name":"n","secret_path":"/run/secrets/p",`
	for _, tt := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "", `{}`, 400, "AB01"},
		{"POST", "", head + `"manager_type":"other"}`, 400, "manager_type"},
		{"POST", "", head + `"manager_type":"file","color":"red"}`, 400, "color"},
		{"POST", "", head + `"manager_type":"file","auth_config":{"type":"token"}}`, 400, "auth_config.type"},
		{"POST", "", head + `"manager_type":"hashicorp_vault"}`, 400, "auth_config.type"},
		{"POST", "", head + `"manager_type":"hashicorp_vault","auth_config":{"type":"token"}}`, 400, "auth_config.address"},
		{"POST", "", head + `"manager_type":"cloud_c_vault","auth_config":{"type":"token","vault_url":"https://v"}}`, 400, "auth_config.type"},
		{"POST", "", head + `"manager_type":"file","allow_all_workspaces":false}`, 400, "allowed_workspaces"},
		{"POST", "", head + `"manager_type":"file","allow_all_workspaces":true,"allowed_workspaces":["default"]}`, 400, "allow_all_workspaces"},
		{"POST", "", head + `"manager_type":"file","allowed_workspaces":["nowhere"]}`, 404, "AB02"},
		{"POST", "", head + `"manager_type":"file","slug":"v"}`, 409, "AB07"},
		{"POST", "", head + `"manager_type":"file","tags":{"":"x"}}`, 400, "tags"},
		{"PUT", "/v", `{"auth_config":{"address":"https://evil.example.com"}}`, 400, "sent again"},
		{"PUT", "/v", `{"auth_config":{"address":"https://evil.example.com","token":"hv***89"}}`, 400, "sent again"},
		{"PUT", "/v", `{"auth_config":{"address":"https://evil.example.com","token":"***"}}`, 400, "sent again"},
		{"PUT", "/v", `{"auth_config":{"token":"zz***zz"}}`, 400, "auth_config.token"},
		{"PUT", "/v", `{"auth_config":{"secret_id":"***"}}`, 400, "auth_config.secret_id"},
		{"PUT", "/v", `{"auth_config":{"colour":"red"}}`, 400, "auth_config.colour"},
		{"POST", "", `{"name":"n","secret_path":"/etc/passwd","manager_type":"file"}`, 400, "secrets.files"},
		{"POST", "", `{"name":"n","secret_path":"HOME","manager_type":"environment"}`, 400, "secrets.environment"},
		{"POST", "", head + `"manager_type":"cloud_a_secrets","auth_config":{"type":"serviceRole","region":"eu-west-1"}}`, 400, "secrets.own_identity"},
		{"POST", "", head + `"manager_type":"cloud_c_vault","auth_config":{"type":"managed","vault_url":"https://a.vault.azure.net"}}`, 400, "secrets.own_identity"},
		{"POST", "", head + `"manager_type":"hashicorp_vault","auth_config":{"type":"kubernetes","address":"https://v","role":"r"}}`, 400, "secrets.vaults"},
		{"PUT", "/v", `{"secret_path":"../sys/seal"}`, 400, "secret_path"},
		{"PUT", "/v", `{"auth_config":{"type":"approle"}}`, 400, "auth_config.role_id"},
		{"PUT", "/v", `{"manager_type":"file"}`, 400, "manager_type"},
		{"PUT", "/none", `{"name":"n"}`, 404, "AB08"},
		{"DELETE", "/none", ``, 404, "AB08"},
	} {
		if a := c.Call(tt.method, "/secret-references"+tt.path, tt.body); a.Status != tt.status || !strings.Contains(a.Body, tt.says) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", tt.method, tt.path, tt.body, a.Status, a.Body, tt.status, tt.says)
		}
	}
	if n := len(b.Query("SELECT id FROM secret_references")); n != 1 {
		t.Errorf("%d references after refusals, want 1", n)
	}
	c.Must("PUT", "/secret-references/v", `{"auth_config":{"address":"https://other.example.com","token":"another-token-4711"}}`, nil)
}

func TestAReferenceInUseStays(t *testing.T) {
	b := routetest.New(t, routes.Add, integrations.Add)
	c := b.Root()
	c.Must("POST", "/secret-references", vault, nil)
	c.Must("POST", "/integrations", `{"name":"A","slug":"a","ai_provider_id":"openai","create_default_provider":false,"secret_mappings":[{"target_field":"key","secret_reference_id":"v"}]}`, nil)
	if a := c.Call("DELETE", "/secret-references/v", ""); a.Status != 400 || !strings.Contains(a.Body, "secret_mappings") {
		t.Errorf("removing what is used: %d %s", a.Status, a.Body)
	}
	c.Must("PUT", "/integrations/a", `{"key":"sk-0123456789abcdef","secret_mappings":[]}`, nil)
	c.Must("DELETE", "/secret-references/v", "", nil)
}

func TestForeignObjectsAreNotFound(t *testing.T) {
	b := routetest.New(t, routes.Add)
	b.Root().Must("POST", "/secret-references", vault, nil)
	b.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at) VALUES ('elsewhere', 'elsewhere', '', '', '{}', '', 'active', 0, 0)`)
	other := b.As(access.Identity{Organisation: "elsewhere", Workspace: "-", Scopes: []access.Scope{access.ScopeAll}})
	for _, call := range []struct{ method, path, body string }{{"GET", "", ""}, {"PUT", "", `{"name":"x"}`}, {"DELETE", "", ""}, {"POST", "/test", ""}} {
		theirs, none := other.Call(call.method, "/secret-references/v"+call.path, call.body), other.Call(call.method, "/secret-references/w"+call.path, call.body)
		if theirs.Status != 404 || theirs.Status != none.Status {
			t.Errorf("%s: %d %s, and %d for what is not there", call.method, theirs.Status, theirs.Body, none.Status)
		}
	}
	if a := other.Call("GET", "/secret-references", ""); a.Status != 200 || strings.Contains(a.Body, "Vault") {
		t.Errorf("listing: %d %s", a.Status, a.Body)
	}
	for _, scope := range []access.Scope{"secret_references.read", "secret_references.list"} {
		if a := b.As(access.Identity{Scopes: []access.Scope{scope}}).Call("DELETE", "/secret-references/v", ""); a.Status != 403 {
			t.Errorf("removing with %s: %d", scope, a.Status)
		}
	}
}

func TestWithoutAMasterKeyNoSecretIsTaken(t *testing.T) {
	c := routetest.New(t, func(a *route.API) { a.Secrets = nil; routes.Add(a) }).Root()
	if a := c.Call("POST", "/secret-references", vault); a.Status != 503 || !strings.Contains(a.Body, "no_master_key") {
		t.Errorf("without a master key: %d %s", a.Status, a.Body)
	}
	c.Must("POST", "/secret-references", `{"name":"Env","manager_type":"environment","secret_path":"APP_KEY"}`, nil)
}
