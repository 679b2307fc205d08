package security

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// tenant is a workspace whose objects have the slugs of everybody's: the providers
// same and spare, the config cfg, the prompt greet and the partial part. The
// provider only-NAME, the config cfg-NAME and the prompt greet-NAME are its own.
type tenant struct {
	name         string
	owner        string // session or key that administers its organisation
	organisation string // slug
	workspace    string // slug
	key          string // of its workspace
}

// credential returns the provider credential behind one of the tenant's slugs.
func (n *tenant) credential(slug string) string { return "sk-" + n.name + "-" + slug + "-0123456789" }

// tenants are three workspaces of one gateway whose providers have one address:
// that of the first organisation, one of another organisation, and a second one of
// the first.
type tenants struct {
	*gateway
	provider *provider
	all      []*tenant
}

// tenantScopes are the scopes of every tenant's key.
var tenantScopes = []string{"completions.write", "models.list", "prompts.render", "logs.list", "logs.view", "logs.write", "logs.export", "configs.create", "configs.read", "configs.list"}

// newTenants starts a gateway with three tenants. A nil handler answers every chat.
func newTenants(t *testing.T, o options, handler http.HandlerFunc) *tenants {
	t.Helper()
	w := &tenants{gateway: launch(t, o), provider: newProvider(t, handler)}
	w.all = []*tenant{
		{name: "alder", owner: rootKey, organisation: "default", workspace: "default"},
		{name: "birch", owner: w.organisation(t, "birch"), organisation: "birch", workspace: "default"},
		{name: "cedar", owner: rootKey, organisation: "default", workspace: "team"},
	}
	for _, n := range w.all {
		w.applyTo(t, n, "workspaces: [{slug: "+n.workspace+"}]\n")
		for _, slug := range []string{"same", "spare", "only-" + n.name} {
			integration := n.name + "-" + slug
			w.as(t, n.owner, "POST", "/v1/integrations", fmt.Sprintf(`{"name":"I","slug":%q,"ai_provider_id":"openai","key":%q,"workspace_id":%q,"create_default_provider":false,"configurations":{"custom_host":%q}}`,
				integration, n.credential(slug), n.workspace, w.provider.url)).ok(t)
			w.as(t, n.owner, "POST", "/v1/providers", fmt.Sprintf(`{"name":"P","slug":%q,"integration_id":%q,"workspace_id":%q}`, slug, integration, n.workspace)).ok(t)
		}
		w.applyTo(t, n, n.objects())
		n.key = w.key(t, n.owner, n.workspace, tenantScopes, "")
		waittest.Until(t, "the objects of "+n.name+" are in use", func() bool {
			return w.ask(t, n, "x-gateway-config", "cfg-"+n.name).status != http.StatusNotFound && w.prompt(t, n, "greet-"+n.name).status != http.StatusNotFound
		})
	}
	w.provider.reset()
	return w
}

// objects returns what is applied for a tenant.
func (n *tenant) objects() string {
	var b strings.Builder
	fmt.Fprintf(&b, "prompt_partials:\n  - {slug: part, workspace: %s, versions: [{string: partial of %s}]}\n", n.workspace, n.name)
	fmt.Fprintf(&b, "  - {slug: part-%s, workspace: %s, versions: [{string: partial of %s}]}\n", n.name, n.workspace, n.name)
	for _, list := range [][2]string{{"prompts:\n", "- {slug: %s, workspace: %s, versions: [{string: '[{\"role\":\"user\",\"content\":\"{{>part}}\"}]', model: gpt-4o, virtual_key: same}]}\n"}, {"configs:\n", "- {slug: %s, workspace: %s, config: {provider: \"@same\"}}\n"}} {
		b.WriteString(list[0])
		base := map[string]string{"prompts:\n": "greet", "configs:\n": "cfg"}[list[0]]
		for _, slug := range []string{base, base + "-" + n.name} {
			fmt.Fprintf(&b, "  "+list[1], slug, n.workspace)
		}
	}
	return b.String()
}

// applyTo applies sections of a state file to a tenant's organisation.
func (w *tenants) applyTo(t *testing.T, n *tenant, sections string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+sections), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errText, code := command(t, append(append([]string{"apply", "--organisation", n.organisation}, w.where()...), file)...); code != 0 {
		t.Fatalf("apply for %s: exit %d: %s%s\n%s", n.name, code, out, errText, sections)
	}
}

// ask sends a chat request as a tenant.
func (w *tenants) ask(t *testing.T, n *tenant, header ...string) response {
	t.Helper()
	return w.as(t, n.key, "POST", "/v1/chat/completions", chatBody, header...)
}

// prompt runs a saved prompt as a tenant.
func (w *tenants) prompt(t *testing.T, n *tenant, ref string) response {
	t.Helper()
	return w.as(t, n.key, "POST", "/v1/prompts/"+ref+"/completions", `{}`)
}

// credentials returns the credentials that reached the provider since the last
// reset, in order.
func (w *tenants) credentials() []string {
	var list []string
	for _, r := range w.provider.seen() {
		list = append(list, strings.TrimPrefix(r.header.Get("Authorization"), "Bearer "))
	}
	return list
}

// failsFor answers with the status to requests with the credential, and any other as usual.
func failsFor(status int, credential string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+credential {
			respondChat(w, r)
			return
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, `{"error":{"message":"out of order"}}`)
	}
}

// A key of a workspace that names another workspace is refused, not served for its own.
func TestKeysOfAWorkspaceNameNoOther(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	g.create(t, rootKey, "/v1/admin/workspaces", `{"name":"other"}`, "id")
	key := g.key(t, rootKey, "default", []string{"configs.create", "configs.list", "configs.read", "analytics.view", "logs.export", "logs.list"}, "")
	for i, named := range []string{"other", "invented", "default", ""} {
		attack(t, "isolation", "a key of default names the workspace "+named, func(t *testing.T) {
			want, body := http.StatusOK, fmt.Sprintf(`{"name":"C%d","config":{"retry":{"attempts":1}},"workspace_id":%q}`, i, named)
			if i < 2 {
				want = http.StatusNotFound
			}
			const day = `"time_of_generation_min":"2026-01-01T00:00:00Z","time_of_generation_max":"2026-01-02T00:00:00Z"`
			export := fmt.Sprintf(`{"workspace_id":%q,"requested_data":["id"],"filters":{%s}}`, named, day)
			if named == "" {
				export = fmt.Sprintf(`{"requested_data":["id"],"filters":{%s}}`, day)
			}
			for path, got := range map[string]response{
				"POST /configs": g.as(t, key, "POST", "/v1/configs", body), "GET /configs": g.as(t, key, "GET", "/v1/configs?workspace_id="+named, ""),
				"GET /logs/exports": g.as(t, key, "GET", "/v1/logs/exports?workspace_id="+named, ""), "POST /logs/exports": g.as(t, key, "POST", "/v1/logs/exports", export),
				"GET /analytics": g.as(t, key, "GET", strings.TrimSuffix("/v1/analytics/groups/ai-models?workspace_id="+named, "?workspace_id="), ""),
			} {
				if got.status != want || i < 2 && !strings.Contains(string(got.body), "workspace_id") {
					t.Errorf("%s: answered %d %s, want %d", path, got.status, got.body, want)
				}
			}
		})
	}
}
