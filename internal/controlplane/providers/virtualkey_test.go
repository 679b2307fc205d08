package providers_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

type virtualKey struct {
	Slug, Name, Note, Status, Object, Provider string
	MaskedKey                                  string         `json:"masked_api_key"`
	Config                                     map[string]any `json:"model_config"`
}

func makeKey(t *testing.T, c *routetest.Caller, body string) string {
	t.Helper()
	var m struct {
		Success bool
		Data    struct{ Slug string }
	}
	if c.Must("POST", "/virtual-keys", body, &m); !m.Success || m.Data.Slug == "" {
		t.Fatalf("%+v", m)
	}
	return m.Data.Slug
}

func readKey(t *testing.T, c *routetest.Caller, slug string) (k virtualKey) {
	t.Helper()
	c.Must("GET", "/virtual-keys/"+slug, "", &k)
	return k
}

func TestAVirtualKeyIsAProviderWithAnIntegrationOfItsOwn(t *testing.T) {
	b, c := bench(t)
	slug := makeKey(t, c, `{"name":"vk","provider":"cloud_c","key":"some-key-of-length","note":"n","resourceName":"r","deploymentConfig":[{"apiVersion":"v1","deploymentName":"d","alias":"a","is_default":true}],"usage_limits":{"credit_limit":3}}`)
	k := readKey(t, c, slug)
	if k.Name != "vk" || k.Note != "n" || k.Provider != "azure-openai" || k.MaskedKey != "so***th" || k.Object != "virtual-key" ||
		fmt.Sprint(k.Config) != "map[deploymentConfig:[map[alias:a apiVersion:v1 deploymentName:d is_default:true]] resourceName:r]" {
		t.Errorf("%+v", k)
	}
	p := read(t, c, slug)
	if p.UsageLimits["credit_limit"] != 3.0 {
		t.Errorf("as a provider %+v", p)
	}
	i, err := b.DB.Integration(t.Context(), store.DefaultOrganisation, p.Integration)
	if err != nil || !i.Implicit || i.Workspace != store.DefaultWorkspace {
		t.Errorf("its integration %+v, %v", i, err)
	}
	var l struct{ Total int }
	if c.Must("GET", "/virtual-keys?page_size=1", "", &l); l.Total != 2 {
		t.Errorf("%d virtual keys are listed, want those of integrations too", l.Total)
	}
	c.Must("DELETE", "/virtual-keys/"+slug, "", nil)
	if _, err := b.DB.Integration(t.Context(), store.DefaultOrganisation, i.ID); err == nil {
		t.Error("its integration is left")
	}
}

func TestAVirtualKeyIsChangedFieldByField(t *testing.T) {
	b, c := bench(t)
	slug := makeKey(t, c, `{"name":"vk","provider":"bedrock","accessKeyId":"access-key-of-length","secretAccessKey":"secret-key-of-length","region":"eu-west-1"}`)
	c.Must("PUT", "/virtual-keys/"+slug, `{"region":"eu-west-2","note":"n"}`, nil)
	c.Must("PUT", "/virtual-keys/"+slug, `{"model_config":{"cloud_a_external_id":"x"},"provider":"cloud_a"}`, nil)
	k := readKey(t, c, slug)
	if fmt.Sprint(k.Config) != "map[accessKeyId:ac***th externalId:x region:eu-west-2 secretAccessKey:se***th]" || k.Note != "n" || k.Name != "vk" {
		t.Errorf("%+v", k)
	}
	c.Must("PUT", "/virtual-keys/"+slug, `{"externalId":null,"key":"some-key-of-length","accessKeyId":null,"secretAccessKey":null}`, nil)
	if k = readKey(t, c, slug); fmt.Sprint(k.Config) != "map[region:eu-west-2]" || k.MaskedKey != "so***th" {
		t.Errorf("%+v", k)
	}
	if n := len(b.Query(`SELECT id FROM integrations WHERE implicit`)); n != 1 {
		t.Errorf("%d integrations", n)
	}
}

func TestInvalidVirtualKeysAreRefused(t *testing.T) {
	b, c := bench(t)
	slug := makeKey(t, c, `{"name":"vk","provider":"openai","key":"some-key-of-length"}`)
	before := b.Changes()
	for _, body := range []string{
		`{"provider":"openai"}`, `{"name":"x"}`, `{"name":"x","provider":"nobody"}`, `{"name":"x","provider":"openai","nonsense":"y"}`,
		`{"name":"x","provider":"openai","key":7}`, `{"name":"` + strings.Repeat("x", 256) + `","provider":"openai"}`,
		`{"name":"x","provider":"openai","customHost":"http://127.0.0.1"}`, `{"name":"x","provider":"azure-openai","resourceName":"r","deploymentConfig":[]}`,
		`{"name":"x","provider":"azure-openai","resourceName":"r","deploymentConfig":[{"apiVersion":"v1"}]}`,
		`{"name":"x","provider":"azure-openai","resourceName":"r","apiVersion":"` + strings.Repeat("1", 31) + `"}`,
		`{"name":"x","provider":"azure-openai","resourceName":"r","cloud_c_resource_name":"r"}`,
	} {
		wantRefused(t, body, c.Call("POST", "/virtual-keys", body), 400, "AB01")
	}
	for _, body := range []string{`{"provider":"anthropic"}`, `{"nonsense":"x"}`, `{"customHost":"https://evil.example.com"}`, `{"expires_at":"soon"}`} {
		wantRefused(t, body, c.Call("PUT", "/virtual-keys/"+slug, body), 400, "AB01")
	}
	wantRefused(t, "the key of an integration", c.Call("PUT", "/virtual-keys/main", `{"key":"another"}`), 400, "AB01")
	if b.Changes() != before {
		t.Errorf("%d changes", b.Changes()-before)
	}
	if a := c.Call("PUT", "/virtual-keys/main", `{"note":"n"}`); a.Status != 200 || readKey(t, c, "main").Note != "n" {
		t.Errorf("a note: %d %s", a.Status, a.Body)
	}
}
