package guardrails_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

const partnerKey = "canary-partner-0123456789"

type partnerCredential struct {
	ID, Partner string
	Credentials map[string]string
	Workspace   *string `json:"workspace_id"`
	UpdatedAt   string  `json:"last_updated_at"`
}

func TestCredentialsOfPartnersAreStoredSealedAndShownMasked(t *testing.T) {
	b := routetest.New(t, guardrails.Routes{}.Add, runnable)
	c := b.Root()
	var made, read partnerCredential
	a := c.Call("POST", "/guardrail-credentials", `{"partner":"lakera","organisation_id":"default","credentials":{"apiKey":"`+partnerKey+`"}}`)
	bodies := []string{a.Body, c.Call("GET", "/guardrail-credentials", "").Body}
	if a.Status != 200 {
		t.Fatalf("storing: %d %s", a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil {
		t.Fatal(err)
	}
	bodies = append(bodies, c.Call("GET", "/guardrail-credentials/"+made.ID, "").Body)
	c.Must("GET", "/guardrail-credentials/"+made.ID, "", &read)
	if read.Partner != "lakera" || read.Workspace != nil || !strings.Contains(read.Credentials["apiKey"], "***") {
		t.Errorf("read %+v", read)
	}
	sealed := b.Query(`SELECT sealed FROM guardrail_credentials`)
	bodies = append(bodies, sealed...)
	bodies = append(bodies, b.Query(`SELECT masks || request_body FROM guardrail_credentials, audit_logs`)...)
	for _, text := range bodies {
		if strings.Contains(text, partnerKey) {
			t.Errorf("the credential is in %s", text)
		}
	}
	if len(sealed) != 1 || sealed[0] == "" {
		t.Fatalf("stored %q", sealed)
	}
	if a := c.Call("POST", "/guardrail-credentials", `{"partner":"lakera","organisation_id":"default","credentials":{"apiKey":"another-0123456789"}}`); a.Status != 409 || !strings.Contains(a.Body, `"partner"`) {
		t.Errorf("the same partner again: %d %s", a.Status, a.Body)
	}
	// A mask keeps the value, another rotates it.
	c.Must("PUT", "/guardrail-credentials/"+made.ID, `{"credentials":{"apiKey":"`+read.Credentials["apiKey"]+`"}}`, nil)
	kept := b.Query(`SELECT masks FROM guardrail_credentials`)[0]
	c.Must("PUT", "/guardrail-credentials/"+made.ID, `{"credentials":{"apiKey":"rotated-key-9876543210"}}`, &read)
	if after := b.Query(`SELECT masks FROM guardrail_credentials`)[0]; after == kept || b.Query(`SELECT sealed FROM guardrail_credentials`)[0] == sealed[0] {
		t.Errorf("the masks were %s and are %s", kept, after)
	}
	if a := c.CallWith("DELETE", "/guardrail-credentials/"+made.ID, "", http.Header{"If-Match": {`"2020-04-01T00:00:00.000Z"`}}); a.Status != 412 {
		t.Errorf("deleting another state: %d %s", a.Status, a.Body)
	}
	c.Must("DELETE", "/guardrail-credentials/"+made.ID, "", nil)
	if rows := b.Query(`SELECT id FROM guardrail_credentials`); len(rows) != 0 {
		t.Errorf("left %q", rows)
	}
}

func TestCredentialsOfPartnersAreCheckedWhenTheyAreStored(t *testing.T) {
	c := routetest.New(t, guardrails.Routes{}.Add, runnable).Root()
	for name, tt := range map[string]struct{ body, param string }{
		"an unknown partner":        {`{"partner":"nobody","credentials":{"apiKey":"k"}}`, "partner"},
		"a check without any":       {`{"partner":"default.contains","credentials":{"apiKey":"k"}}`, "partner"},
		"no partner":                {`{"credentials":{"apiKey":"k"}}`, "partner"},
		"none":                      {`{"partner":"lakera"}`, "credentials.apiKey"},
		"an unknown name":           {`{"partner":"lakera","credentials":{"apiKey":"k","host":"evil.example"}}`, "credentials.host"},
		"an empty one":              {`{"partner":"lakera","credentials":{"apiKey":" "}}`, "credentials.apiKey"},
		"the end of a line":         {`{"partner":"lakera","credentials":{"apiKey":"a\nb"}}`, "credentials.apiKey"},
		"a mask":                    {`{"partner":"lakera","credentials":{"apiKey":"sk***89"}}`, "credentials.apiKey"},
		"a long one":                {`{"partner":"lakera","credentials":{"apiKey":"` + strings.Repeat("k", 20_000) + `"}}`, "credentials.apiKey"},
		"a wrong host":              {`{"partner":"azure","credentials":{"apiKey":"k","resourceName":"evil.example/?"}}`, "credentials.resourceName"},
		"an address of the machine": {`{"partner":"aporia","credentials":{"apiKey":"k","apiEndpoint":"http://169.254.169.254"}}`, "credentials"},
		"one of two":                {`{"partner":"bedrock","credentials":{"awsAccessKeyId":"AKIA","awsRegion":"eu-west-1"}}`, "credentials.awsSecretAccessKey"},
		"an unknown reference":      {`{"partner":"lakera","secret_mappings":[{"target_field":"apiKey","secret_reference_id":"none"}]}`, "secret_mappings"},
		"an unknown field":          {`{"partner":"lakera","token":"k","credentials":{"apiKey":"k"}}`, "token"},
	} {
		if a := c.Call("POST", "/guardrail-credentials", tt.body); a.Status != 400 && a.Status != 404 || !strings.Contains(a.Body, `"`+tt.param+`"`) {
			t.Errorf("%s: %d %.300s, want an error at %s", name, a.Status, a.Body, tt.param)
		}
	}
}

// TestAStoredCredentialIsNotRedirected changes the address of stored credentials.
func TestAStoredCredentialIsNotRedirected(t *testing.T) {
	c := routetest.New(t, guardrails.Routes{}.Add, runnable).Root()
	var aporia, azure partnerCredential
	c.Must("POST", "/guardrail-credentials", `{"partner":"aporia","credentials":{"apiKey":"`+partnerKey+`"}}`, &aporia)
	c.Must("POST", "/guardrail-credentials", `{"partner":"azure","credentials":{"apiKey":"`+partnerKey+`","resourceName":"ours"}}`, &azure)
	for _, tt := range []struct {
		what, id, body, param string
	}{
		{"to another endpoint", aporia.ID, `{"credentials":{"apiEndpoint":"https://evil.example"}}`, "credentials.apiKey"},
		{"with the mask of the key", aporia.ID, `{"credentials":{"apiEndpoint":"https://evil.example","apiKey":"` + aporia.Credentials["apiKey"] + `"}}`, "credentials.apiKey"},
		{"to another resource", azure.ID, `{"credentials":{"resourceName":"theirs"}}`, "credentials.apiKey"},
		{"to a custom host", azure.ID, `{"credentials":{"customHost":"https://evil.example"}}`, "credentials.apiKey"},
	} {
		if a := c.Call("PUT", "/guardrail-credentials/"+tt.id, tt.body); a.Status != 400 || !strings.Contains(a.Body, `"`+tt.param+`"`) || !strings.Contains(a.Body, "new address") {
			t.Errorf("%s: %d %s, want a refusal of %s", tt.what, a.Status, a.Body, tt.param)
		}
	}
	c.Must("PUT", "/guardrail-credentials/"+aporia.ID, `{"credentials":{"apiEndpoint":"https://aporia.example","apiKey":"a-new-key-0123456789"}}`, nil)
	if a := c.Call("PUT", "/guardrail-credentials/"+azure.ID, `{"credentials":{"clientId":"id"}}`); a.Status != 200 {
		t.Errorf("a further credential for the same address: %d %s", a.Status, a.Body)
	}
}

func TestCredentialsOfPartnersBelongToTheirWorkspaceOrOrganisation(t *testing.T) {
	b := routetest.New(t, guardrails.Routes{}.Add, workspaces.Add, runnable)
	root := b.Root()
	b.Exec(`INSERT INTO organisations (id, slug, name, status, settings, data_key, owner_id, created_at, updated_at) VALUES ('rival', 'rival', 'Rival', 'active', '{}', '', 'o', 1, 1)`)
	var other struct{ ID string }
	root.Must("POST", "/workspaces", `{"name":"Other"}`, &other)
	var local, wide partnerCredential
	root.Must("POST", "/guardrail-credentials", `{"partner":"lakera","workspace_id":"default","credentials":{"apiKey":"`+partnerKey+`"}}`, &local)
	root.Must("POST", "/guardrail-credentials", `{"partner":"lakera","organisation_id":"default","credentials":{"apiKey":"`+partnerKey+`"}}`, &wide)
	all := []access.Scope{"guardrails.create", "guardrails.read", "guardrails.list", "guardrails.update", "guardrails.delete"}
	rival := b.As(access.Identity{Type: access.OrganisationService, Organisation: "rival", Workspace: "-", Scopes: append(all, "organisation_guardrails.create", "organisation_guardrails.delete")})
	neighbour := b.As(access.Identity{Type: access.WorkspaceService, Workspace: other.ID, Scopes: all})
	reader := b.As(access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{"guardrails.read", "guardrails.list"}})
	for _, tt := range []struct {
		what         string
		c            *routetest.Caller
		method, path string
		body         string
		status       int
	}{
		{"a neighbour reads", neighbour, "GET", local.ID, "", 404},
		{"a neighbour changes", neighbour, "PUT", local.ID, `{"credentials":{"apiKey":"x"}}`, 404},
		{"a neighbour deletes", neighbour, "DELETE", local.ID, "", 404},
		{"a neighbour reads the organisation's", neighbour, "GET", wide.ID, "", 200},
		{"a neighbour changes the organisation's", neighbour, "PUT", wide.ID, `{"credentials":{"apiKey":"x"}}`, 403},
		{"a neighbour deletes the organisation's", neighbour, "DELETE", wide.ID, "", 403},
		{"a neighbour stores for the organisation", neighbour, "POST", "", `{"partner":"aporia","organisation_id":"default","credentials":{"apiKey":"x"}}`, 403},
		{"a rival reads", rival, "GET", wide.ID, "", 404},
		{"a rival changes", rival, "PUT", wide.ID, `{"credentials":{"apiKey":"x"}}`, 404},
		{"a rival deletes", rival, "DELETE", local.ID, "", 404},
		{"a reader stores", reader, "POST", "", `{"partner":"aporia","credentials":{"apiKey":"x"}}`, 403},
		{"a reader changes", reader, "PUT", local.ID, `{"credentials":{"apiKey":"x"}}`, 403},
	} {
		if a := tt.c.Call(tt.method, strings.TrimSuffix("/guardrail-credentials/"+tt.path, "/"), tt.body); a.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.what, a.Status, a.Body, tt.status)
		}
	}
	for name, c := range map[string]*routetest.Caller{"a neighbour": neighbour, "a rival": rival} {
		if a := c.Call("GET", "/guardrail-credentials", ""); a.Status != 200 || strings.Contains(a.Body, local.ID) || strings.Contains(a.Body, wide.ID) != (name == "a neighbour") {
			t.Errorf("%s lists %d %s", name, a.Status, a.Body)
		}
	}
	root.Must("POST", "/guardrail-credentials", `{"partner":"lakera","workspace_id":"`+other.ID+`","credentials":{"apiKey":"`+partnerKey+`"}}`, nil)
	root.Must("DELETE", "/workspaces/"+other.ID, `{"name":"Other"}`, nil)
	if rows := b.Query(`SELECT id FROM guardrail_credentials`); len(rows) != 2 {
		t.Errorf("after a workspace was archived there are %d credentials, want 2", len(rows))
	}
}

// TestASecretReferenceFillsAPartnersCredential maps references that may and may not be
// sent to the partner.
func TestASecretReferenceFillsAPartnersCredential(t *testing.T) {
	c := routetest.New(t, guardrails.Routes{}.Add, secrets.Routes{References: routetest.References()}.Add, runnable).Root()
	for slug, more := range map[string]string{
		"free": ``, "local": `,"allowed_workspaces":["default"],"allow_all_workspaces":false`, "providers": `,"allowed_providers":["openai"]`, "hosts": `,"allowed_hosts":["ours.cognitiveservices.azure.com"]`,
	} {
		c.Must("POST", "/secret-references", `{"name":"r","slug":"`+slug+`","manager_type":"hashicorp_vault","secret_path":"kv/app","secret_key":"k",
			"auth_config":{"type":"token","address":"https://vault.example.com","token":"hv-0123456789"}`+more+`}`, nil)
	}
	mapped := func(partner, place, values, reference string) string {
		return `{"partner":"` + partner + `",` + place + values + `"secret_mappings":[{"target_field":"apiKey","secret_reference_id":"` + reference + `"}]}`
	}
	const ours, resource = `"organisation_id":"default",`, `"credentials":{"resourceName":"ours"},`
	for _, tt := range []struct {
		what, body string
		status     int
		want       string
	}{
		{"to the partner's own address", mapped("lakera", ours, "", "free"), 200, `"secret_reference_id"`},
		{"of one workspace for all", mapped("pillar", ours, "", "local"), 404, "secret_mappings"},
		{"of one workspace for it", mapped("pillar", "", "", "local"), 200, ""},
		{"with providers", mapped("walledai", "", "", "providers"), 403, "only to the providers in its allowed_providers"},
		{"to a resource", mapped("azure", "", resource, "free"), 403, "may not be sent to https://ours"},
		{"to a listed resource", mapped("azure", "", resource, "hosts"), 200, ""},
		{"set twice", mapped("exa", "", `"credentials":{"apiKey":"k"},`, "free"), 400, "secret_mappings[0].target_field"},
		{"an address", mapped("acuvity", "", "", "free"), 400, "secret_mappings[0].target_field"},
	} {
		if a := c.Call("POST", "/guardrail-credentials", tt.body); a.Status != tt.status || !strings.Contains(a.Body, tt.want) {
			t.Errorf("%s: %d %s, want %d with %q", tt.what, a.Status, a.Body, tt.status, tt.want)
		}
	}
	if a := c.Call("DELETE", "/secret-references/free", ""); a.Status != 400 || !strings.Contains(a.Body, "in use") {
		t.Errorf("deleting a reference in use: %d %s", a.Status, a.Body)
	}
}
