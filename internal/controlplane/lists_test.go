package controlplane_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/testing/routetest"
)

// operation is an operation of the OpenAPI document.
type operation struct {
	Parameters []struct{ Name, In string }
	Responses  map[string]struct {
		Content map[string]struct {
			Schema struct {
				Ref  string `json:"$ref"`
				Type any
			}
		}
	}
}

// takes reports whether the operation has all these parameters.
func (o *operation) takes(in string, names ...string) bool {
	for _, name := range names {
		if !slices.ContainsFunc(o.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name && p.In == in }) {
			return false
		}
	}
	return true
}

// document is the part of the OpenAPI document that tests read.
type document struct {
	Paths      map[string]map[string]operation
	Components struct {
		Schemas map[string]struct{ Properties map[string]json.RawMessage }
	}
}

// documentOf returns the document of a control plane.
func documentOf(t *testing.T, b *routetest.Bench) (d document) {
	t.Helper()
	text, err := b.API.OpenAPI()
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || len(d.Paths) < 50 {
		t.Fatalf("%d paths, %v", len(d.Paths), err)
	}
	return d
}

// cursorLists are lists whose pages have no numbers, since they grow at the front.
var cursorLists = []string{"/v1/guardrails/{guardrail}/results", "/v1/logs/traces"}

// vendorLists are lists that a vendor's client libraries also page by its own parameter.
var vendorLists = []string{"/v1/webhook_endpoints after", "/v1/mcp-integrations/{tool_integration}/capabilities page", "/v1/mcp-servers/{tool_server}/capabilities page",
	"/v1/agent-integrations/{tool_integration}/capabilities page", "/v1/agent-servers/{tool_server}/capabilities page"}

func TestEveryListHasOneForm(t *testing.T) {
	d := documentOf(t, routetest.New(t, controlplane.Families{}.Add))
	lists := 0
	for path, item := range d.Paths {
		get := item["get"]
		schema := get.Responses["200"].Content["application/json"].Schema
		if types, _ := schema.Type.([]any); schema.Type == "array" || slices.Contains(types, any("array")) {
			t.Errorf("GET %s returns an array instead of a list", path)
		}
		properties := d.Components.Schemas[strings.TrimPrefix(schema.Ref, "#/components/schemas/")].Properties
		if !strings.Contains(string(properties["data"]), "array") {
			continue
		}
		lists++
		for _, name := range []string{"object", "has_more", "next_cursor"} {
			if properties[name] == nil {
				t.Errorf("the list GET %s has no %s", path, name)
			}
		}
		if !get.takes("query", "cursor", "limit") || !slices.Contains(cursorLists, path) && !get.takes("query", "current_page", "page_size") {
			t.Errorf("the list GET %s lacks parameters of pages", path)
		}
		for _, old := range []string{"page", "offset", "per_page", "currentPage", "pageSize", "starting_after", "after"} {
			if get.takes("query", old) && !slices.Contains(vendorLists, path+" "+old) {
				t.Errorf("the list GET %s names a page by %s", path, old)
			}
		}
	}
	if lists < 30 {
		t.Errorf("%d lists, want those of every object", lists)
	}
}

// named are the objects with a name: where they are, and a body for a name.
var named = []struct{ path, body string }{
	{"/configs", `{"name":"NAME","workspace_id":"default","config":{"retry":{"attempts":1}}}`},
	{"/guardrails", `{"name":"NAME","workspace_id":"default","checks":[{"id":"default.contains"}],"actions":{}}`},
	{"/guardrail-modules", `{"name":"NAME","workspace_id":"default","code":"` + smallModule + `"}`},
	{"/policies/rate-limits", `{"name":"NAME","workspace_id":"default",` + everyKey + `,"type":"requests","unit":"rpm","value":10}`},
	{"/policies/usage-limits", `{"name":"NAME","workspace_id":"default",` + everyKey + `,"type":"cost","credit_limit":10}`},
	{"/integrations", `{"name":"NAME","ai_provider_id":"openai","key":"sk-of-some-length"}`},
	{"/providers", `{"name":"NAME","integration_id":"main","workspace_id":"default"}`},
	{"/virtual-keys", `{"name":"NAME","provider":"openai","key":"sk-vk-of-some-length","workspace_id":"default"}`},
	{"/prompts", `{"name":"NAME","workspace_id":"default","string":"Hello","parameters":{},"model":"m"}`},
	{"/prompts/partials", `{"name":"NAME","workspace_id":"default","string":"Hello"}`},
	{"/labels", `{"name":"NAME","workspace_id":"default"}`},
	{"/collections", `{"name":"NAME","workspace_id":"default"}`},
	{"/secret-references", `{"name":"NAME","manager_type":"hashicorp_vault","auth_config":{"type":"token","address":"https://vault.example.com","token":"a-token-of-length"},"secret_path":"kv/a"}`},
	{"/deployments", `{"name":"NAME"}`},
	{"/identity-providers", `{"name":"NAME","issuer":"https://login.example.com","client_id":"gateway","client_secret":"of-one"}`},
	{"/domains", `{"name":"NAME.example.com"}`},
	{"/workload-identities", `{"name":"NAME","api_key_id":"KEY","type":"oidc","issuer":"https://issuer.example.com","audience":"https://gate.example.com","claims":{"sub":["ci:build"]}}`},
	{"/mcp-integrations", `{"name":"NAME","url":"https://tools.example.com/mcp","transport":"http","auth_type":"none"}`},
	{"/mcp-servers", `{"name":"NAME","mcp_integration_id":"tools","workspace_id":"default"}`},
	{"/agent-integrations", `{"name":"NAME","url":"https://helper.example.com","auth_type":"none"}`},
	{"/agent-servers", `{"name":"NAME","agent_integration_id":"helper","workspace_id":"default"}`},
	{"/mcp-bundles", `{"name":"NAME","tools":["*"],"workspace_id":"default"}`},
	{"/admin/workspaces", `{"name":"NAME"}`},
	{"/api-keys/workspace/service", `{"name":"NAME","workspace_id":"default","scopes":["models.list"]}`},
}

func TestListsSelectByName(t *testing.T) {
	for _, tt := range named { // a world each, since some create others
		b := routetest.New(t, controlplane.Families{Guardrails: guardrails.Routes{CheckModule: new(checks.Modules).Check}}.Add)
		c := b.Root()
		c.Must("POST", "/integrations", `{"name":"Main","slug":"main","ai_provider_id":"openai","key":"sk-of-some-length"}`, nil)
		c.Must("POST", "/agent-integrations", `{"name":"Helper","slug":"helper","url":"https://helper.example.com","auth_type":"none","workspace_id":"default"}`, nil)
		c.Must("POST", "/mcp-integrations", `{"name":"Tools","slug":"tools","url":"https://tools.example.com/mcp","transport":"http","auth_type":"none","workspace_id":"default"}`, nil)
		var key struct{ ID string }
		if tt.path == "/workload-identities" {
			c.Must("POST", "/api-keys/workspace/service", `{"name":"ci","scopes":["models.list"]}`, &key)
		}
		for _, name := range []string{"alpha-one", "alpha-two", "beta"} {
			c.Must("POST", tt.path, strings.NewReplacer("NAME", name, "KEY", key.ID).Replace(tt.body), nil)
		}
		path := strings.TrimSuffix(tt.path, "/workspace/service")
		query := "?workspace_id=default&name=alpha"
		if slices.Contains([]string{"/admin/workspaces", "/deployments", "/secret-references", "/identity-providers", "/domains", "/workload-identities", "/mcp-integrations", "/agent-integrations"}, path) {
			query = "?name=alpha"
		}
		var list struct {
			Object string
			Total  int
			Data   []struct{ Name string }
			More   bool    `json:"has_more"`
			Next   *string `json:"next_cursor"`
		}
		c.Must("GET", path+query+"&limit=1", "", &list)
		if list.Object != "list" || list.Total != 2 || len(list.Data) != 1 || !strings.HasPrefix(list.Data[0].Name, "alpha") || !list.More || list.Next == nil {
			t.Errorf("GET %s%s: %+v, want a page with one of two", path, query, list)
			continue
		}
		first := list.Data[0].Name
		if c.Must("GET", path+query+"&cursor="+*list.Next, "", &list); len(list.Data) != 1 || list.Data[0].Name == first || list.More || list.Next != nil {
			t.Errorf("the next page of GET %s: %+v, want the other", path, list)
		}
	}
}

func TestListsOfVersionsHavePages(t *testing.T) {
	b := routetest.New(t, controlplane.Families{}.Add)
	c := b.Root()
	for _, tt := range []struct{ path, create, update string }{
		{"/configs/", `{"name":"a","workspace_id":"default","config":{"retry":{"attempts":1}}}`, `{"config":{"retry":{"attempts":2}}}`},
		{"/guardrails/", `{"name":"a","workspace_id":"default","checks":[{"id":"default.contains"}],"actions":{}}`, `{"actions":{"deny":true}}`},
		{"/prompts/", `{"name":"a","workspace_id":"default","string":"one","parameters":{},"model":"m"}`, `{"patch":true,"model":"n"}`},
		{"/prompts/partials/", `{"name":"a","workspace_id":"default","string":"one"}`, `{"string":"two"}`},
	} {
		var made struct {
			ID   string
			Data struct{ ID string }
		}
		c.Must("POST", strings.TrimSuffix(tt.path, "/"), tt.create, &made)
		path := tt.path + made.ID + made.Data.ID
		c.Must("PUT", path, tt.update, nil)
		var list struct {
			Object string
			Total  int
			Data   []map[string]any
			More   bool    `json:"has_more"`
			Next   *string `json:"next_cursor"`
		}
		if c.Must("GET", path+"/versions?limit=1", "", &list); list.Object != "list" || list.Total != 2 || len(list.Data) != 1 || !list.More || list.Next == nil {
			t.Errorf("GET %s/versions: %+v, want a page with one of two", path, list)
			continue
		}
		if c.Must("GET", path+"/versions?cursor="+*list.Next, "", &list); len(list.Data) != 1 || list.More {
			t.Errorf("the next page of GET %s/versions: %+v", path, list)
		}
		if a := c.Call("GET", path+"/versions?page=2", ""); a.Status != http.StatusBadRequest {
			t.Errorf("GET %s/versions with a parameter that does not exist: %d", path, a.Status)
		}
	}
}
