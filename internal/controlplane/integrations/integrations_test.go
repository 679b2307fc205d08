package integrations_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

const canary = "sk-canary-5f2d81c7aa"

type created struct{ ID, Slug string }

type integration struct {
	ID, Slug, Name, Description, Status string
	Provider                            string  `json:"ai_provider_id"`
	Workspace                           *string `json:"workspace_id"`
	MaskedKey                           string  `json:"masked_key"`
	Configurations                      map[string]any
	Tags                                map[string]string
	AllowAllModels                      bool   `json:"allow_all_models"`
	Workspaces                          int    `json:"workspace_count"`
	UpdatedAt                           string `json:"last_updated_at"`
	Global                              struct{ Enabled bool }
}

type provider struct {
	ID, Slug, Name, Note, Status string
	Integration                  string `json:"integration_id"`
	Tags                         map[string]string
}

type providerList struct {
	Total int
	Data  []provider
}

func bench(t *testing.T) *routetest.Bench {
	return routetest.New(t, integrations.Add, providers.Add, welcoming)
}

func create(t *testing.T, c *routetest.Caller, more string) created {
	t.Helper()
	var out created
	c.Must("POST", "/integrations", `{"name":"My Integration","ai_provider_id":"openai","key":"`+canary+`"`+more+`}`, &out)
	return out
}

func read(t *testing.T, c *routetest.Caller, ref string) integration {
	t.Helper()
	var out integration
	c.Must("GET", "/integrations/"+ref, "", &out)
	return out
}

func providersOf(t *testing.T, c *routetest.Caller, workspace string) providerList {
	t.Helper()
	var out providerList
	c.Must("GET", "/providers?workspace_id="+workspace, "", &out)
	return out
}

// slugs are those of a workspace's providers, in their order.
func slugs(t *testing.T, c *routetest.Caller, workspace string) string {
	t.Helper()
	var all []string
	for _, p := range providersOf(t, c, workspace).Data {
		all = append(all, p.Slug)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// wantRefused checks that a call is answered with a status and an error code.
func wantRefused(t *testing.T, name string, a routetest.Response, status int, code string) {
	t.Helper()
	if a.Status != status || !strings.Contains(a.Body, `"errorCode":"`+code+`"`) || strings.Contains(a.Body, canary) {
		t.Errorf("%s: %d %s, want %d %s", name, a.Status, a.Body, status, code)
	}
}

func TestAnIntegrationIsReadAsItWasStoredWithItsSecretsMasked(t *testing.T) {
	b := bench(t)
	c := b.Root()
	m := create(t, c, `,"slug":"main","description":"d","tags":{"team":"a"},"configurations":{"vendora_organization":"org-1","custom_host":"https://models.example.com/v1","custom_headers":{"X-Tenant":"`+canary+`"}}`)
	if m.Slug != "main" {
		t.Errorf("slug %q", m.Slug)
	}
	for _, ref := range []string{m.ID, "main"} {
		got := read(t, c, ref)
		if got.ID != m.ID || got.Provider != "openai" || got.MaskedKey != "sk***aa" || got.Description != "d" || got.Workspace != nil ||
			got.Tags["team"] != "a" || !got.AllowAllModels || got.Workspaces != 1 || got.Status != "active" {
			t.Errorf("read %+v", got)
		}
		want := `map[custom_headers:map[X-Tenant:sk***aa] custom_host:https://models.example.com/v1 vendora_organization:org-1]`
		if text := fmt.Sprint(got.Configurations); text != want {
			t.Errorf("configurations %s, want %s", text, want)
		}
	}
	if b.Changes() != 1 {
		t.Errorf("%d changes were reported, want 1", b.Changes())
	}
}

func TestCreatingMakesADefaultProviderUnlessToldNotTo(t *testing.T) {
	c := bench(t).Root()
	create(t, c, `,"slug":"one","tags":{"team":"a"}`)
	create(t, c, `,"slug":"two","create_default_provider":false`)
	create(t, c, `,"slug":"three","default_provider_slug":"mine","create_default_provider":true`)
	create(t, c, `,"slug":"mine"`)
	create(t, c, `,"slug":"own","workspace_id":"default","default_provider_slug":"theirs"`)
	got := slugs(t, c, "default")
	if !strings.HasPrefix(got, "mine mine-") || !strings.HasSuffix(got, " one theirs") || strings.Count(got, " ") != 3 {
		t.Errorf("providers %q", got)
	}
	list := providersOf(t, c, "default").Data
	first := list[slices.IndexFunc(list, func(p provider) bool { return p.Slug == "one" })]
	if !strings.Contains(first.Note, "automatically") || first.Tags["team"] != "a" || first.Name != "My Integration" {
		t.Errorf("the default provider %+v", first)
	}
	wantRefused(t, "a slug that is taken", c.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai","slug":"five","default_provider_slug":"one"}`), 400, "AB01")
	wantRefused(t, "what was to be made with it", c.Call("GET", "/integrations/five", ""), 404, "AB08")
	wantRefused(t, "a type", c.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai","create_default_provider":"yes"}`), 400, "AB01")
	wantRefused(t, "a type of slug", c.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai","default_provider_slug":7}`), 400, "AB01")
}

func TestIntegrationErrorsNameTheField(t *testing.T) {
	b := bench(t)
	c := b.Root()
	create(t, c, `,"slug":"main","create_default_provider":false`)
	long := strings.Repeat("x", 256)
	for body, field := range map[string]string{
		`{"ai_provider_id":"openai"}`:                       "name",
		`{"name":"","ai_provider_id":"openai"}`:             "name",
		`{"name":"` + long + `","ai_provider_id":"openai"}`: "name",
		`{"name":"x"}`:                                                                                                 "ai_provider_id",
		`{"name":"x","ai_provider_id":"nobody"}`:                                                                       "ai_provider_id",
		`{"name":"x","ai_provider_id":"openai","slug":"a b"}`:                                                          "slug",
		`{"name":"x","ai_provider_id":"openai","slug":"` + long + `"}`:                                                 "slug",
		`{"name":"x","ai_provider_id":"openai","default_provider_slug":"../x"}`:                                        "default_provider_slug",
		`{"name":"x","ai_provider_id":"openai","key":7}`:                                                               "key",
		`{"name":"x","ai_provider_id":"openai","key":"a\nb"}`:                                                          "key",
		`{"name":"x","ai_provider_id":"openai","extra":1}`:                                                             "extra",
		`{"name":"x","ai_provider_id":"openai","tags":{"a":1}}`:                                                        "tags.a",
		`{"name":"x","ai_provider_id":"openai","tags":{"":"v"}}`:                                                       "tags",
		`{"name":"x","ai_provider_id":"openai","tags":{"a":"` + long + `"}}`:                                           "tags.a",
		`{"name":"x","ai_provider_id":"openai","configurations":{"nonsense":"x"}}`:                                     "configurations.nonsense",
		`{"name":"x","ai_provider_id":"openai","configurations":{"cloud_a_region":"x"}}`:                               "configurations.cloud_a_region",
		`{"name":"x","ai_provider_id":"openai","configurations":{"custom_host":"http://10.0.0.1/v1"}}`:                 "configurations.custom_host",
		`{"name":"x","ai_provider_id":"openai","configurations":{"custom_host":"http://169.254.169.254/"}}`:            "configurations.custom_host",
		`{"name":"x","ai_provider_id":"openai","configurations":{"custom_host":"localhost"}}`:                          "configurations.custom_host",
		`{"name":"x","ai_provider_id":"openai","configurations":{"custom_headers":{"a b":"c"}}}`:                       "configurations.custom_headers",
		`{"name":"x","ai_provider_id":"openai","configurations":{"custom_headers":{"Host":"c"}}}`:                      "configurations.custom_headers",
		`{"name":"x","ai_provider_id":"openai","configurations":{"custom_headers":{"X-A":"b\r\nX-B: c"}}}`:             "configurations.custom_headers.X-A",
		`{"name":"x","ai_provider_id":"openai","configurations":{"custom_headers":{"X-A":"1","x-a":"2"}}}`:             "configurations.custom_headers",
		`{"name":"x","ai_provider_id":"openai","pricing_adjustments":{"multiplier":{"default":-1}}}`:                   "pricing_adjustments.multiplier.default",
		`{"name":"x","ai_provider_id":"openai","pricing_adjustments":[]}`:                                              "pricing_adjustments",
		`{"name":"x","ai_provider_id":"openai","secret_mappings":[{"target_field":"name","secret_reference_id":"x"}]}`: "secret_mappings[0].target_field",
		`{"name":"x","ai_provider_id":"openai-compatible"}`:                                                            "configurations.custom_host",
		`{"name":"x","ai_provider_id":"azure-openai"}`:                                                                 "configurations.cloud_c_resource_name",
		`{"name":"x","ai_provider_id":"bedrock","configurations":{"cloud_a_auth_type":"magic"}}`:                       "configurations.cloud_a_auth_type",
		`{"name":"x","ai_provider_id":"azure-ai","configurations":{"cloud_c_foundry_url":"http://127.0.0.1"}}`:         "configurations.cloud_c_foundry_url",
		`{"name":"x","ai_provider_id":"bedrock","configurations":{"cloud_a_s3_url":"http://127.0.0.1"}}`:               "configurations.cloud_a_s3_url",
		`{"name":"x","ai_provider_id":"bedrock","configurations":{"cloud_a_bedrock_url":"ftp://a.example.com"}}`:       "configurations.cloud_a_bedrock_url",
		`{"name":"x","ai_provider_id":"bedrock","configurations":{"cloud_a_region":"evil.net/x"}}`:                     "configurations.cloud_a_region",
	} {
		a := c.Call("POST", "/integrations", body)
		wantRefused(t, body, a, http.StatusBadRequest, "AB01")
		var e struct{ Error struct{ Param string } }
		if json.Unmarshal([]byte(a.Body), &e); e.Error.Param != field {
			t.Errorf("%s: param %q, want %q", body, e.Error.Param, field)
		}
	}
	wantRefused(t, "a slug that is taken", c.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai","slug":"main"}`), 409, "AB07")
	wantRefused(t, "a reference to nothing", c.Call("POST", "/integrations",
		`{"name":"x","ai_provider_id":"openai","secret_mappings":[{"target_field":"key","secret_reference_id":"x"}]}`), 404, "AB02")
	wantRefused(t, "a workspace that is not there", c.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai","workspace_id":"nowhere"}`), 404, "AB02")
	if b.Changes() != 1 {
		t.Errorf("%d changes, want that of the valid one alone", b.Changes())
	}
}

func TestAMaskThatIsSentBackLeavesTheSecret(t *testing.T) {
	b := bench(t)
	c := b.Root()
	m := create(t, c, `,"configurations":{"custom_headers":{"X-A":"first-header-value","X-B":"second-header-value"}}`)
	opened := func() string { return reveal(t, b, m.ID) }
	before := opened()
	c.Must("PUT", "/integrations/"+m.Slug, `{"name":"n","key":"sk***aa","configurations":{"custom_headers":{"X-A":"fi***ue","X-B":"se***ue"}}}`, nil)
	if got := opened(); got != before {
		t.Errorf("after masks: %s, want %s", got, before)
	}
	c.Must("PUT", "/integrations/"+m.Slug, `{"description":"d"}`, nil)
	if got := opened(); got != before || read(t, c, m.ID).Name != "n" {
		t.Errorf("after another field: %s, want %s", got, before)
	}
	c.Must("PUT", "/integrations/"+m.Slug, `{"configurations":{"vendora_project":"p","custom_headers":{"X-A":"fi***ue"}}}`, nil)
	if got, want := opened(), `{"key":"`+canary+`","headers":{"X-A":"first-header-value"}}`; got != want {
		t.Errorf("after other settings: %s, want %s", got, want)
	}
	c.Must("PUT", "/integrations/"+m.Slug, `{"key":"another-key-of-some-length","configurations":null}`, nil)
	if got, want := opened(), `{"key":"another-key-of-some-length"}`; got != want {
		t.Errorf("after another key: %s, want %s", got, want)
	}
	c.Must("PUT", "/integrations/"+m.Slug, `{"key":null}`, nil)
	if got := opened(); got != "" || read(t, c, m.ID).MaskedKey != "" {
		t.Errorf("after no key: %s", got)
	}
}

func TestAStoredSecretDoesNotFollowTheAddress(t *testing.T) {
	c := bench(t).Root()
	m := create(t, c, "")
	for _, body := range []string{
		`{"configurations":{"custom_host":"https://evil.example.com/v1"}}`,
		`{"key":"sk***aa","configurations":{"custom_host":"https://evil.example.com/v1"}}`,
	} {
		wantRefused(t, body, c.Call("PUT", "/integrations/"+m.ID, body), 400, "AB01")
	}
	c.Must("PUT", "/integrations/"+m.ID, `{"key":"`+canary+`","configurations":{"custom_host":"https://good.example.com/v1"}}`, nil)
	c.Must("PUT", "/integrations/"+m.ID, `{"configurations":{"custom_host":"https://good.example.com/v2"}}`, nil)
	wantRefused(t, "another host again", c.Call("PUT", "/integrations/"+m.ID, `{"configurations":{"custom_host":"https://evil.example.com/v2"}}`), 400, "AB01")
	c.Must("PUT", "/integrations/"+m.ID, `{"configurations":{}}`, nil)
}

func TestAStoredSecretDoesNotFollowTheAddressOfABucket(t *testing.T) {
	c := bench(t).Root()
	const options = `"cloud_b_region":"europe-west4","cloud_b_project_id":"p","cloud_b_storage_bucket_name":"b"`
	var m struct{ ID string }
	c.Must("POST", "/integrations", `{"name":"v","ai_provider_id":"vertex-ai","key":"`+canary+`","configurations":{`+options+`}}`, &m)
	for _, host := range []string{"https://evil.example.com", "https://storage.googleapis.com"} {
		body := `{"configurations":{` + options + `,"cloud_b_storage_url":"` + host + `"}}`
		wantRefused(t, body, c.Call("PUT", "/integrations/"+m.ID, body), 400, "AB01")
	}
	c.Must("PUT", "/integrations/"+m.ID, `{"key":"`+canary+`","configurations":{`+options+`,"cloud_b_storage_url":"https://good.example.com"}}`, nil)
	c.Must("PUT", "/integrations/"+m.ID, `{"configurations":{`+options+`,"cloud_b_storage_url":"https://good.example.com"}}`, nil)
	c.Must("PUT", "/integrations/"+m.ID, `{"configurations":{`+options+`}}`, nil)
}

func TestAnArchivedIntegrationTakesItsProvidersAndSecretsAlong(t *testing.T) {
	b := bench(t)
	c := b.Root()
	m := create(t, c, `,"slug":"main"`)
	c.Must("POST", "/providers", `{"name":"p","integration_id":"main","slug":"second"}`, nil)
	c.Must("DELETE", "/integrations/main", "", nil)
	wantRefused(t, "reading it", c.Call("GET", "/integrations/main", ""), 404, "AB08")
	wantRefused(t, "archiving it again", c.Call("DELETE", "/integrations/"+m.ID, ""), 404, "AB08")
	wantRefused(t, "a provider of it", c.Call("GET", "/providers/second", ""), 404, "AB08")
	if got := slugs(t, c, "default"); got != "" {
		t.Errorf("providers %q are left", got)
	}
	if again := create(t, c, `,"slug":"main"`); again.ID == m.ID || slugs(t, c, "default") != "main" {
		t.Errorf("the slug is not free again: %v, providers %q", again, slugs(t, c, "default"))
	}
}

func TestIntegrationsAreFoundByTypeTagsAndPage(t *testing.T) {
	b := bench(t)
	c := b.Root()
	create(t, c, `,"slug":"a","tags":{"team":"x","env":"prod"}`)
	b.Clock = b.Clock.Add(time.Second)
	create(t, c, `,"slug":"b","tags":{"team":"x"}`)
	b.Clock = b.Clock.Add(time.Second)
	create(t, c, `,"slug":"c","workspace_id":"default","tags":{"team":"y"}`)
	c.Must("PUT", "/integrations/b", `{"tags":{"team":"z"}}`, nil)
	for query, want := range map[string]string{
		"": "c b a", "?type=all": "c b a", "?type=organisation": "b a", "?type=workspace": "c", "?workspace_id=default": "c b a",
		`?tags={"team":"x"}`: "a", `?tags={"team":"z"}`: "b", `?tags={"env":"prod","team":"x"}`: "a", `?tags={"team":"nobody"}`: "",
		"?page_size=2": "c b", "?page_size=2&current_page=1": "a", `?tags={"team":"x"}&page_size=1&current_page=1`: "",
	} {
		var list struct {
			Object string
			Total  int
			Data   []integration
		}
		c.Must("GET", "/integrations"+strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D").Replace(query), "", &list)
		var got []string
		for _, i := range list.Data {
			got = append(got, i.Slug)
		}
		if strings.Join(got, " ") != want || list.Object != "list" {
			t.Errorf("%q: %v, want %q", query, got, want)
		}
		if strings.Contains(query, "page_size=2") && list.Total != 3 {
			t.Errorf("%q: total %d", query, list.Total)
		}
	}
	for _, query := range []string{"?type=mine", "?page_size=0", "?page_size=1001", "?current_page=-1", "?tags=x", "?extra=1", "?tags=%7B%22a%22:1%7D"} {
		wantRefused(t, query, c.Call("GET", "/integrations"+query, ""), 400, "AB01")
	}
}

func TestAnotherStateIsNotChanged(t *testing.T) {
	b := bench(t)
	c := b.Root()
	m := create(t, c, "")
	first := read(t, c, m.ID).UpdatedAt
	call := func(ifMatch, name string) routetest.Response {
		return c.CallWith("PUT", "/integrations/"+m.ID, `{"name":"`+name+`"}`, http.Header{"If-Match": {ifMatch}})
	}
	if a := call(first, "n1"); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	wantRefused(t, "the state before", call(first, "n2"), 412, "AB07")
	if a := call(`"`+read(t, c, m.ID).UpdatedAt+`"`, "n3"); a.Status != 200 || read(t, c, m.ID).Name != "n3" {
		t.Errorf("the state that is: %d %s", a.Status, a.Body)
	}
}

func TestAFieldIsFilledByOneSecretReference(t *testing.T) {
	b := bench(t)
	c := b.Root()
	b.Exec(`
		INSERT INTO secret_references (id, organisation_id, slug, name, description, manager_type, auth_config, sealed, secret_path, secret_key,
			allow_all_workspaces, allowed_workspaces, allowed_providers, allowed_hosts, tags, created_at, updated_at)
		VALUES ('ref-id', $1, 'ref', 'r', '', '', '{}', '', '', '', TRUE, '[]', '[]', '["https://*.openai.azure.com"]', '{}', 0, 0)`, store.DefaultOrganisation)
	mapping := `{"target_field":"key","secret_reference_id":"ref"}`
	body := `{"name":"x","slug":"main","ai_provider_id":"azure-openai","configurations":{"resource_name":"r"},"secret_mappings":[` + mapping + `,{"target_field":"configurations.entra_client_secret","secret_reference_id":"ref-id","value_format":"json"}]}`
	c.Must("POST", "/integrations", body, nil)
	var got struct {
		Mappings []map[string]string `json:"secret_mappings"`
	}
	c.Must("GET", "/integrations/main", "", &got)
	if len(got.Mappings) != 2 || got.Mappings[0]["secret_reference_id"] != "ref-id" || got.Mappings[1]["value_format"] != "json" {
		t.Errorf("%+v", got)
	}
	wantRefused(t, "twice the same", c.Call("PUT", "/integrations/main", `{"secret_mappings":[`+mapping+`,`+mapping+`]}`), 400, "AB01")
	wantRefused(t, "of another", c.Call("PUT", "/integrations/main", `{"secret_mappings":[{"target_field":"key","secret_reference_id":"other"}]}`), 404, "AB02")
	c.Must("PUT", "/integrations/main", `{"secret_mappings":null}`, nil)
}
