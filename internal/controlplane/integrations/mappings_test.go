package integrations_test

import (
	"testing"

	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

func TestAMappingNamesASecretFieldAndAReferenceOfTheWorkspace(t *testing.T) {
	b := routetest.New(t, integrations.Add, providers.Add, secrets.Routes{References: routetest.References()}.Add, workspaces.Add)
	c := b.Root()
	var w struct{ Slug string }
	c.Must("POST", "/workspaces", `{"name":"Other"}`, &w)
	reference := func(slug, more string) {
		t.Helper()
		c.Must("POST", "/secret-references", `{"name":"n","slug":"`+slug+`","manager_type":"environment","secret_path":"APP_KEY"`+more+`}`, nil)
	}
	reference("all", "")
	reference("other", `,"allowed_workspaces":["`+w.Slug+`"]`)
	mapping := func(target, ref string) string {
		return `"secret_mappings":[{"target_field":"` + target + `","secret_reference_id":"` + ref + `"}]`
	}
	for _, tt := range []struct {
		provider, target, ref, workspace string
		status                           int
		code                             string
	}{
		{"openai", "key", "all", "default", 200, ""},
		{"openai", "key", "other", w.Slug, 200, ""},
		{"openai", "key", "other", "", 200, ""}, // checked when it is used
		{"openai", "key", "other", "default", 404, "AB02"},
		{"openai", "key", "none", "", 404, "AB02"},
		{"openai", "configurations.organization", "all", "", 400, "AB01"}, // it is shown, as by /v1/explain
		{"azure-openai", "configurations.resource_name", "all", "", 400, "AB01"},
		{"bedrock", "configurations.region", "all", "", 400, "AB01"},
		{"openai", "configurations.custom_headers.X-Token", "all", "", 200, ""},
		{"openai", "configurations.custom_headers.Host", "all", "", 400, "AB01"},
		{"openai", "configurations.custom_host", "all", "", 400, "AB01"},
		{"openai", "configurations.colour", "all", "", 400, "AB01"},
		{"openai", "configurations.custom_headers", "all", "", 400, "AB01"},
		{"bedrock", "configurations.cloud_a_secret_access_key", "all", "", 200, ""},
		{"bedrock", "model_config.secretAccessKey", "all", "", 200, ""},
		{"bedrock", "configurations.cloud_a_auth_type", "all", "", 400, "AB01"},
		{"azure-ai", "configurations.cloud_c_foundry_url", "all", "", 400, "AB01"},
		{"azure-openai", "configurations.deployment_config", "all", "", 400, "AB01"},
	} {
		body := `{"name":"x","ai_provider_id":"` + tt.provider + `",` + mapping(tt.target, tt.ref)
		if tt.workspace != "" {
			body += `,"workspace_id":"` + tt.workspace + `"`
		}
		a := c.Call("POST", "/integrations", body+`}`)
		if tt.status != 200 {
			wantRefused(t, tt.target+" from "+tt.ref+" in "+tt.workspace, a, tt.status, tt.code)
		} else if a.Status != 200 {
			t.Errorf("%+v: %d %s", tt, a.Status, a.Body)
		}
	}
	wantRefused(t, "one field by two names", c.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"bedrock","secret_mappings":[
		{"target_field":"configurations.cloud_a_secret_access_key","secret_reference_id":"all"},
		{"target_field":"model_config.secretAccessKey","secret_reference_id":"all"}]}`), 400, "AB01")
	wantRefused(t, "a virtual key of another workspace", c.Call("POST", "/virtual-keys", `{"name":"v","provider":"openai",`+mapping("key", "other")+`}`), 404, "AB02")
	var made struct{ Data struct{ Slug string } }
	c.Must("POST", "/virtual-keys", `{"name":"v","provider":"openai",`+mapping("key", "all")+`}`, &made)
	wantRefused(t, "a change of it", c.Call("PUT", "/virtual-keys/"+made.Data.Slug, `{`+mapping("key", "other")+`}`), 404, "AB02")
	own := b.As(access.Identity{Workspace: store.DefaultWorkspace, Scopes: []access.Scope{"workspace_integrations.create", "workspace_integrations.update"}})
	wantRefused(t, "a workspace's own key", own.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai",`+mapping("key", "other")+`}`), 404, "AB02")
}

func TestAReferenceThatIsRemovedConcurrentlyIsNotFound(t *testing.T) {
	b := bench(t)
	var do func()
	d := b.Deps
	d.Secrets = routetest.Interleaved{Sealer: d.Secrets, Do: &do}
	b.API = route.New(d)
	integrations.Add(b.API)
	providers.Add(b.API)
	secrets.Routes{References: routetest.References()}.Add(b.API)
	c := b.Root()
	create(t, c, `,"slug":"main"`)
	var vk struct{ Data struct{ Slug string } }
	c.Must("POST", "/virtual-keys", `{"name":"vk","provider":"openai","key":"some-key-of-length"}`, &vk)
	mapping := `"secret_mappings":[{"target_field":"configurations.custom_headers.X-Token","secret_reference_id":"r"}]`
	for name, call := range map[string][3]string{
		"a new integration": {"POST", "/integrations", `{"name":"x","ai_provider_id":"openai","key":"sk-0123456789",` + mapping + `}`},
		"an integration":    {"PUT", "/integrations/main", `{"key":"sk-0123456789",` + mapping + `}`},
		"a new virtual key": {"POST", "/virtual-keys", `{"name":"x","provider":"openai","key":"sk-0123456789",` + mapping + `}`},
		"a virtual key":     {"PUT", "/virtual-keys/" + vk.Data.Slug, `{"key":"sk-0123456789",` + mapping + `}`},
	} {
		c.Must("POST", "/secret-references", `{"name":"n","slug":"r","manager_type":"environment","secret_path":"APP_KEY"}`, nil)
		do = func() { c.Must("DELETE", "/secret-references/r", "", nil) }
		wantRefused(t, name, c.Call(call[0], call[1], call[2]), 404, "AB02")
	}
	if n := len(b.Query(`SELECT id FROM integrations WHERE secret_mappings <> '[]'`)); n != 0 {
		t.Errorf("%d integrations refer to what is gone", n)
	}
}
