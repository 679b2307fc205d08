package providers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

type provider struct {
	ID, Slug, Name, Note, Status, Object string
	Integration                          string           `json:"integration_id"`
	UsageLimits                          map[string]any   `json:"usage_limits"`
	RateLimits                           []map[string]any `json:"rate_limits"`
	Tags                                 map[string]string
	ExpiresAt                            *string `json:"expires_at"`
	UpdatedAt                            string  `json:"last_updated_at"`
}

type list struct {
	Object string
	Total  int
	Data   []provider
}

// bench has an integration "main" that the default workspace may use, with its
// provider, and one "hidden" that it may not.
func bench(t *testing.T) (*routetest.Bench, *routetest.Caller) {
	t.Helper()
	b := routetest.New(t, integrations.Add, providers.Add)
	c := b.Root()
	c.Must("POST", "/integrations", `{"name":"main","slug":"main","ai_provider_id":"openai","key":"some-key-of-length"}`, nil)
	c.Must("POST", "/integrations", `{"name":"hidden","slug":"hidden","ai_provider_id":"openai","create_default_provider":false}`, nil)
	b.Clock = b.Clock.Add(time.Second)
	return b, c
}

func wantRefused(t *testing.T, name string, a routetest.Response, status int, code string) {
	t.Helper()
	if a.Status != status || !strings.Contains(a.Body, `"errorCode":"`+code+`"`) {
		t.Errorf("%s: %d %s, want %d %s", name, a.Status, a.Body, status, code)
	}
}

func read(t *testing.T, c *routetest.Caller, ref string) (p provider) {
	t.Helper()
	c.Must("GET", "/providers/"+ref, "", &p)
	return p
}

func TestAProviderIsReadAsItWasMade(t *testing.T) {
	_, c := bench(t)
	var m struct{ ID, Slug string }
	c.Must("POST", "/providers", `{"name":"My Prov","integration_id":"main","note":"n","tags":{"a":"b"},"expires_at":"2026-06-01T00:00:00Z",
		"usage_limits":{"credit_limit":10,"periodic_reset":"monthly"},"rate_limits":[]}`, &m)
	if !strings.HasPrefix(m.Slug, "my-pro-") {
		t.Errorf("slug %q", m.Slug)
	}
	for _, ref := range []string{m.ID, m.Slug} {
		p := read(t, c, ref)
		if p.ID != m.ID || p.Note != "n" || p.Tags["a"] != "b" || *p.ExpiresAt != "2026-06-01T00:00:00.000Z" || p.Status != "active" || p.Object != "provider" ||
			p.UsageLimits["credit_limit"] != 10.0 || p.UsageLimits["next_usage_reset_at"] != "2026-06-01T00:00:00.000Z" || p.RateLimits == nil {
			t.Errorf("read %+v", p)
		}
	}
}

func TestAProviderIsChangedFieldByField(t *testing.T) {
	b, c := bench(t)
	c.Must("PUT", "/providers/main", `{"note":"n","tags":{"a":"b"},"usage_limits":{"credit_limit":10},"expires_at":"2027-01-01"}`, nil)
	c.Must("PUT", "/providers/main", `{"name":"other"}`, nil)
	p := read(t, c, "main")
	if p.Name != "other" || p.Note != "n" || p.Tags["a"] != "b" || p.UsageLimits["credit_limit"] != 10.0 || p.ExpiresAt == nil {
		t.Errorf("after two changes %+v", p)
	}
	c.Must("PUT", "/providers/main", `{"note":null,"tags":null,"usage_limits":null,"rate_limits":null,"expires_at":null,"reset_usage":null}`, nil)
	if p = read(t, c, "main"); p.Note != "" || len(p.Tags)+len(p.RateLimits)+len(p.UsageLimits) != 0 || p.ExpiresAt != nil {
		t.Errorf("after nulls %+v", p)
	}
	call := func(ifMatch string) routetest.Response {
		return c.CallWith("PUT", "/providers/main", `{"name":"x"}`, http.Header{"If-Match": {ifMatch}})
	}
	first := read(t, c, "main").UpdatedAt
	if a := call(first); a.Status != 200 {
		t.Errorf("the state that is: %d %s", a.Status, a.Body)
	}
	wantRefused(t, "the state before", call(first), 412, "AB07")
	b.Clock = b.Clock.AddDate(2, 0, 0)
}

func TestAnExhaustedOrExpiredProviderComesBack(t *testing.T) {
	b, c := bench(t)
	c.Must("PUT", "/providers/main", `{"usage_limits":{"credit_limit":10},"expires_at":"2026-05-01T13:00:00Z"}`, nil)
	b.Exec(`INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) SELECT 'provider', id, 1, 10000000000, 0, 0, 0 FROM providers`)
	for body, want := range map[string]string{
		`{"name":"x"}`: "exhausted", `{"usage_limits":{"credit_limit":9}}`: "exhausted", `{"usage_limits":{"credit_limit":11}}`: "active",
		`{"usage_limits":null}`: "active", `{"reset_usage":true}`: "active", `{"reset_usage":false}`: "exhausted",
	} {
		b.Exec(`UPDATE providers SET status = 'exhausted', usage_limits = '{"type":"cost","credit_limit":10,"base":0}'`)
		c.Must("PUT", "/providers/main", body, nil)
		p := read(t, c, "main")
		if p.Status != want {
			t.Errorf("%s: %s, want %s", body, p.Status, want)
		}
		if since := p.UsageLimits["last_reset_at"]; (since != nil) != (body == `{"reset_usage":true}`) {
			t.Errorf("%s: counted since %v", body, since)
		}
	}
	b.Clock = b.Clock.Add(2 * time.Hour)
	b.Exec(`UPDATE providers SET status = 'expired', usage_limits = 'null'`)
	if p := read(t, c, "main"); p.Status != "expired" {
		t.Errorf("when its time has come: %s", p.Status)
	}
	c.Must("PUT", "/providers/main", `{"expires_at":null}`, nil)
	if p := read(t, c, "main"); p.Status != "active" {
		t.Errorf("with another end: %s", p.Status)
	}
}

func TestInvalidProvidersAreRefused(t *testing.T) {
	b, c := bench(t)
	before := b.Changes()
	long := strings.Repeat("x", 256)
	for _, more := range []string{
		`"name":""`, `"name":"` + long + `"`, `"slug":"a b"`, `"slug":"@a"`, `"slug":"` + long + `"`, `"note":"` + strings.Repeat("x", 1025) + `"`,
		`"expires_at":"soon"`, `"expires_at":"2026-04-01T00:00:00Z"`, `"tags":{"a":1}`, `"tags":[]`, `"usage_limits":{"credit_limit":0}`,
		`"usage_limits":[{"credit_limit":5},{"credit_limit":6}]`, `"usage_limits":{"credit_limit":5,"extra":1}`, `"rate_limits":[{"type":"requests","unit":"rps","value":1}]`, `"rate_limits":[{"type":"x","unit":"rpm","value":1}]`,
		`"rate_limits":[{"type":"requests","unit":"rpm","value":-1}]`, `"extra":1`, `"workspace_id":7`,
	} {
		body := `{"integration_id":"main","name":"x",` + more + `}`
		wantRefused(t, "POST "+more, c.Call("POST", "/providers", strings.Replace(body, `"name":"x","name"`, `"name"`, 1)), 400, "AB01")
		if !strings.HasPrefix(more, `"slug"`) {
			wantRefused(t, "PUT "+more, c.Call("PUT", "/providers/main", `{`+more+`}`), 400, "AB01")
		}
	}
	wantRefused(t, "no integration", c.Call("POST", "/providers", `{"name":"x"}`), 400, "AB01")
	wantRefused(t, "what is not there", c.Call("POST", "/providers", `{"name":"x","integration_id":"nothing"}`), 404, "AB02")
	wantRefused(t, "what the workspace has not", c.Call("POST", "/providers", `{"name":"x","integration_id":"hidden"}`), 404, "AB02")
	wantRefused(t, "another workspace", c.Call("POST", "/providers", `{"name":"x","integration_id":"main","workspace_id":"nowhere"}`), 404, "AB02")
	wantRefused(t, "a slug that is taken", c.Call("POST", "/providers", `{"name":"x","integration_id":"main","slug":"main"}`), 409, "AB07")
	if b.Changes() != before {
		t.Errorf("%d changes", b.Changes()-before)
	}
}

func TestProvidersAreFoundByTagsAndPage(t *testing.T) {
	b, c := bench(t)
	for i := range 3 {
		b.Clock = b.Clock.Add(time.Second)
		c.Must("POST", "/providers", fmt.Sprintf(`{"name":"x","integration_id":"main","slug":"p%d","tags":{"n":"%d"}}`, i, i%2), nil)
	}
	c.Must("PUT", "/providers/p1", `{"tags":{"n":"0","m":"1"}}`, nil)
	for query, want := range map[string]string{
		"": "p2 p1 p0 main", "?page_size=1&current_page=2": "p0", "?tags=%7B%22n%22:%220%22%7D": "p2 p1 p0",
		"?tags=%7B%22n%22:%220%22,%22m%22:%221%22%7D": "p1", "?tags=%7B%7D": "p2 p1 p0 main", "?workspace_id=default": "p2 p1 p0 main",
	} {
		var l list
		c.Must("GET", "/providers"+query, "", &l)
		var got []string
		for _, p := range l.Data {
			got = append(got, p.Slug)
		}
		if strings.Join(got, " ") != want || l.Object != "list" {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
	for _, query := range []string{"?tags=x", "?tags=[]", "?page_size=0", "?current_page=-1", "?extra=1"} {
		wantRefused(t, query, c.Call("GET", "/providers"+query, ""), 400, "AB01")
	}
	org := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	wantRefused(t, "an organisation's key without a workspace", org.Call("GET", "/providers", ""), 400, "AB01")
	wantRefused(t, "a slug without a workspace", org.Call("GET", "/providers/main", ""), 400, "AB01")
	if id := read(t, c, "main").ID; read(t, org, id).Slug != "main" || read(t, org, "main?workspace_id=default").ID != id {
		t.Error("an organisation's key does not find it")
	}
}

func TestAnArchivedProviderIsGoneAndItsIntegrationIsNot(t *testing.T) {
	_, c := bench(t)
	c.Must("DELETE", "/providers/main", "", nil)
	wantRefused(t, "reading it", c.Call("GET", "/providers/main", ""), 404, "AB08")
	wantRefused(t, "archiving it again", c.Call("DELETE", "/providers/main", ""), 404, "AB08")
	c.Must("POST", "/providers", `{"name":"x","integration_id":"main","slug":"main"}`, nil)
}

func TestAnothersProviderIsNotThere(t *testing.T) {
	b, c := bench(t)
	c.Must("POST", "/virtual-keys", `{"name":"vk","provider":"openai","key":"some-key-of-length"}`, nil)
	other := "00000000-0000-7000-8000-000000000077"
	b.Exec(`
		INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings,
			usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ($1, $2, 'other', 'other', '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`, other, store.DefaultOrganisation)
	all := access.Scopes(access.WorkspaceService)
	id := read(t, c, "main").ID
	for name, caller := range map[string]*routetest.Caller{
		"another workspace":    b.As(access.Identity{Type: access.WorkspaceService, Workspace: other, Scopes: all}),
		"another organisation": b.As(access.Identity{Type: access.OrganisationService, Organisation: "other", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)}),
	} {
		for _, call := range [][2]string{{"GET", ""}, {"PUT", `{"name":"x"}`}, {"DELETE", ""}} {
			for _, path := range []string{"/providers/" + id, "/virtual-keys/" + id, "/providers/" + id + "?workspace_id=default", "/providers/main?workspace_id=default"} {
				if a := caller.Call(call[0], path, call[1]); a.Status != 404 {
					t.Errorf("%s: %s %s: %d %s", name, call[0], path, a.Status, a.Body)
				}
			}
		}
	}
	reader := b.As(access.Identity{Type: access.WorkspaceUser, Scopes: []access.Scope{"providers.read"}})
	wantRefused(t, "without the scope", reader.Call("DELETE", "/providers/main", ""), 403, "AB03")
	wantRefused(t, "without the older scope", reader.Call("GET", "/virtual-keys/main", ""), 403, "AB03")
	wantRefused(t, "without a key", b.Nobody().Call("GET", "/providers", ""), 401, "AB05")
}
