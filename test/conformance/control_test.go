package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/waittest"
)

// as sends a request with a key or a session's token.
func (g *gateway) as(t *testing.T, token, method, path, body string) response {
	t.Helper()
	return g.do(t, method, path, body, "x-gateway-api-key", token)
}

// told wants an error of the control plane with this status and code.
func (r response) told(t *testing.T, status int, code string) {
	t.Helper()
	if r.status != status || !strings.Contains(string(r.body), `"errorCode":"`+code+`"`) {
		t.Errorf("status %d: %.300s; want %d with %s", r.status, r.body, status, code)
	}
}

// items returns a field of each item of a listing, in order.
func (r response) items(t *testing.T, field string) []string {
	t.Helper()
	list, _ := r.wantOK(t).object(t)["data"].([]any)
	out := []string{}
	for _, v := range list {
		item, _ := v.(map[string]any)
		out = append(out, fmt.Sprint(item[field]))
	}
	slices.Sort(out)
	return out
}

func wantItems(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

func TestWorkspacesAreListedByTheirState(t *testing.T) {
	h := populate(t)
	h.root(t, "POST", "/v1/workspaces", `{"name":"Here"}`)
	gone, _ := h.root(t, "POST", "/v1/workspaces", `{"name":"Gone"}`)["id"].(string)
	h.root(t, "DELETE", "/v1/workspaces/"+gone, `{"name":"Gone"}`)
	for query, want := range map[string][]string{
		"": {"Default", "Here"}, "?status=active": {"Default", "Here"}, "?status=archived": {"Gone"}, "?status=active,archived": {"Default", "Gone", "Here"},
	} {
		prove(t, "S-397 S-398 S-522", "with "+query, func(t *testing.T) {
			wantItems(t, h.as(t, h.sessions["admin"], "GET", "/v1/workspaces"+query, "").items(t, "name"), want...)
		})
	}
	prove(t, "S-398", "another state is refused", func(t *testing.T) {
		for _, status := range []string{"deleted", "active,none", "Active"} {
			h.as(t, h.sessions["admin"], "GET", "/v1/workspaces?status="+status, "").told(t, 400, "AB01")
		}
	})
	prove(t, "S-399", "who does not administer the organisation is shown none that are archived", func(t *testing.T) {
		service := h.made(t, "/v1/api-keys/workspace/service", `{"name":"w","workspace_id":"default","scopes":["workspaces.list"]}`)
		h.eventually(t, service)
		for _, token := range []string{h.sessions["member"], h.sessions["manager"], service} {
			h.as(t, token, "GET", "/v1/workspaces?status=archived", "").told(t, 403, "AB03")
			h.as(t, token, "GET", "/v1/workspaces?status=active,archived", "").told(t, 403, "AB03")
			h.as(t, token, "GET", "/v1/workspaces", "").wantOK(t)
		}
	})
}

// eventually waits until the gateway knows a key.
func (g *gateway) eventually(t *testing.T, key string) {
	t.Helper()
	waittest.Until(t, "the gateway knows the key", func() bool { return g.as(t, key, "GET", "/v1/auth/me", "").status == http.StatusOK })
}

func TestIntegrationsMakeTheirFirstProvider(t *testing.T) {
	h := populate(t)
	post := func(t *testing.T, more string) response {
		t.Helper()
		return h.as(t, bootstrapKey, "POST", "/v1/integrations", `{"name":"I","ai_provider_id":"openai","key":"sk-x","workspace_id":"default"`+more+`}`)
	}
	providers := func(t *testing.T) []string {
		t.Helper()
		return h.as(t, bootstrapKey, "GET", "/v1/providers?workspace_id=default", "").items(t, "slug")
	}
	before := providers(t)
	for _, step := range []struct{ of, name, more, makes string }{
		{"S-405 S-523", "of the name that is wanted", `,"slug":"one","default_provider_slug":"first"`, "first"},
		{"S-404 S-406", "none where it is not wanted", `,"slug":"two","create_default_provider":false`, ""},
		{"S-404 S-406", "none where it is not wanted, though it has a name", `,"slug":"two-named","create_default_provider":false,"default_provider_slug":"unwanted"`, ""},
		{"S-404 S-406", "one with the default", `,"slug":"three"`, "three"},
		{"S-404 S-523", "one where it is wanted", `,"slug":"four","create_default_provider":true`, "four"},
	} {
		prove(t, step.of, step.name, func(t *testing.T) {
			post(t, step.more).wantOK(t)
			if step.makes != "" {
				before = append(before, step.makes)
			}
			wantItems(t, providers(t), before...)
		})
	}
	prove(t, "S-405", "a name that is taken is refused, and nothing is made", func(t *testing.T) {
		post(t, `,"slug":"five","default_provider_slug":"first"`).told(t, 400, "AB01")
		h.as(t, bootstrapKey, "GET", "/v1/integrations/five", "").told(t, 404, "AB08")
		wantItems(t, providers(t), before...)
	})
	prove(t, "S-404 S-405", "other types are refused", func(t *testing.T) {
		post(t, `,"create_default_provider":"yes"`).told(t, 400, "AB01")
		post(t, `,"default_provider_slug":7`).told(t, 400, "AB01")
		post(t, `,"default_provider_slug":"no spaces"`).told(t, 400, "AB01")
	})
}

func TestWorkspacesAreGivenAnIntegrationInBulk(t *testing.T) {
	h := populate(t)
	for _, name := range []string{"Alpha", "Beta", "Gamma"} {
		h.root(t, "POST", "/v1/workspaces", `{"name":"`+name+`"}`)
	}
	slugs := map[string]string{}
	list, _ := h.root(t, "GET", "/v1/workspaces", "")["data"].([]any)
	for _, v := range list {
		w := v.(map[string]any)
		slugs[w["name"].(string)] = w["slug"].(string)
	}
	words := strings.NewReplacer("ALPHA", slugs["Alpha"], "BETA", slugs["Beta"], "GAMMA", slugs["Gamma"])
	grant := func(t *testing.T, integration, body string) response {
		t.Helper()
		return h.as(t, bootstrapKey, "PUT", "/v1/integrations/"+integration+"/workspaces", words.Replace(body))
	}
	providers := func(t *testing.T, workspace string) []string {
		t.Helper()
		return h.as(t, bootstrapKey, "GET", "/v1/providers?workspace_id="+slugs[workspace], "").items(t, "slug")
	}
	for _, slug := range []string{"each", "both", "wide"} {
		h.root(t, "POST", "/v1/integrations", `{"name":"I","ai_provider_id":"openai","key":"sk-x","slug":"`+slug+`","create_default_provider":false}`)
	}
	prove(t, "S-407 S-536", "with what each is to have", func(t *testing.T) {
		grant(t, "each", `{"workspaces":[{"id":"ALPHA","enabled":true,"default_provider_slug":"a"},{"id":"BETA","enabled":true,"create_default_provider":false}]}`).wantOK(t)
		wantItems(t, providers(t, "Alpha"), "a")
		wantItems(t, providers(t, "Beta"))
		wantItems(t, providers(t, "Gamma"))
	})
	prove(t, "S-408 S-409 S-536", "with what all are to have, which what one is to have beats", func(t *testing.T) {
		grant(t, "both", `{"default_provider_slug":"all","workspaces":[{"id":"ALPHA","enabled":true},{"id":"BETA","enabled":true,"default_provider_slug":"own"},{"id":"GAMMA","enabled":true,"create_default_provider":false}]}`).wantOK(t)
		wantItems(t, providers(t, "Alpha"), "a", "all")
		wantItems(t, providers(t, "Beta"), "own")
		wantItems(t, providers(t, "Gamma"))
	})
	prove(t, "S-408 S-409", "none for all, and one for one of them", func(t *testing.T) {
		grant(t, "wide", `{"create_default_provider":false,"workspaces":[{"id":"BETA","enabled":true},{"id":"GAMMA","enabled":true,"create_default_provider":true,"default_provider_slug":"mine"}]}`).wantOK(t)
		wantItems(t, providers(t, "Beta"), "own")
		wantItems(t, providers(t, "Gamma"), "mine")
	})
	prove(t, "S-408 S-536", "for those that get it with all others", func(t *testing.T) {
		alpha, gamma := providers(t, "Alpha"), providers(t, "Gamma")
		for _, slug := range []string{"none", "every"} {
			h.root(t, "POST", "/v1/integrations", `{"name":"I","ai_provider_id":"openai","key":"sk-x","slug":"`+slug+`","create_default_provider":false}`)
		}
		grant(t, "none", `{"create_default_provider":false,"global_workspace_access":{"enabled":true}}`).wantOK(t)
		wantItems(t, providers(t, "Alpha"), alpha...)
		grant(t, "every", `{"default_provider_slug":"of-all","global_workspace_access":{"enabled":true}}`).wantOK(t)
		wantItems(t, providers(t, "Alpha"), append(alpha, "of-all")...)
		wantItems(t, providers(t, "Gamma"), append(gamma, "of-all")...)
	})
	prove(t, "S-410", "an empty list of workspaces, with the flag alone", func(t *testing.T) {
		grant(t, "each", `{"workspaces":[]}`).told(t, 400, "AB01")
		for _, more := range []string{`,"global_workspace_access":{"enabled":false}`, ``} {
			grant(t, "each", `{"workspaces":[{"id":"ALPHA","enabled":true}]}`).wantOK(t)
			grant(t, "each", `{"workspaces":[],"override_existing_workspace_access":true`+more+`}`).wantOK(t)
			for _, v := range h.root(t, "GET", "/v1/integrations/each/workspaces", "")["workspaces"].([]any) {
				if v.(map[string]any)["enabled"] == true {
					t.Errorf("with {%s} still given: %v", more, v)
				}
			}
		}
	})
}

func TestTagsOfIntegrationsAndProviders(t *testing.T) {
	h := populate(t)
	make := map[string]string{
		"integrations": `{"name":"N","ai_provider_id":"openai","key":"sk-x","slug":"SLUG","create_default_provider":false,"workspace_id":"default","tags":TAGS}`,
		"providers":    `{"name":"N","integration_id":"base","slug":"SLUG","workspace_id":"default","tags":TAGS}`,
	}
	h.root(t, "POST", "/v1/integrations", strings.NewReplacer("SLUG", "base", "TAGS", `{}`).Replace(make["integrations"]))
	for family, of := range map[string]string{"integrations": "S-559", "providers": "S-560"} {
		with := func(t *testing.T, tags string) []string {
			t.Helper()
			return h.as(t, bootstrapKey, "GET", "/v1/"+family+"?workspace_id=default&tags="+tags, "").items(t, "slug")
		}
		prove(t, of, family+" have those they were made with, and are found by them", func(t *testing.T) {
			for slug, tags := range map[string]string{"red": `{"team":"a","tier":"1"}`, "blue": `{"team":"a"}`} {
				h.root(t, "POST", "/v1/"+family, strings.NewReplacer("SLUG", slug, "TAGS", tags).Replace(make[family]))
			}
			wantItems(t, with(t, "%7B%22team%22%3A%22a%22%7D"), "blue", "red")
			wantItems(t, with(t, "%7B%22team%22%3A%22a%22%2C%22tier%22%3A%221%22%7D"), "red")
			wantItems(t, with(t, "%7B%22team%22%3A%22b%22%7D"))
		})
		prove(t, of, family+" are given others", func(t *testing.T) {
			h.root(t, "PUT", "/v1/"+family+"/blue", `{"tags":{"team":"b"}}`)
			wantItems(t, with(t, "%7B%22team%22%3A%22b%22%7D"), "blue")
			wantItems(t, with(t, "%7B%22team%22%3A%22a%22%7D"), "red")
			h.root(t, "PUT", "/v1/"+family+"/blue", `{"name":"M"}`)
			if got := h.root(t, "GET", "/v1/"+family+"/blue", ""); fmt.Sprint(got["tags"]) != "map[team:b]" {
				t.Errorf("the tags after a change of the name are %v, want those that were set", got["tags"])
			}
		})
		prove(t, of, family+" take texts alone as tags", func(t *testing.T) {
			h.as(t, bootstrapKey, "PUT", "/v1/"+family+"/blue", `{"tags":{"team":7}}`).told(t, 400, "AB01")
			h.as(t, bootstrapKey, "GET", "/v1/"+family+"?workspace_id=default&tags=team", "").told(t, 400, "AB01")
		})
	}
}

func TestDeployments(t *testing.T) {
	h := populate(t)
	prove(t, "S-414 S-415 S-547 S-548", "are created of each type and read as created", func(t *testing.T) {
		h.root(t, "POST", "/v1/deployments", `{"name":"Frankfurt","slug":"fra"}`)
		h.root(t, "POST", "/v1/deployments", `{"name":"Trial","slug":"trial","type":"non-production","config":{"region":"x"},"workspaces":["default"]}`)
		id := h.root(t, "GET", "/v1/workspaces/default", "")["id"]
		got := h.root(t, "GET", "/v1/deployments/trial", "")
		config, _ := got["config"].(map[string]any)
		if got["slug"] != "trial" || got["type"] != "non-production" || config["region"] != "x" || got["allow_all_workspaces"] != false || fmt.Sprint(got["workspaces"]) != fmt.Sprint([]any{id}) {
			t.Errorf("read %v", got)
		}
		if got := h.root(t, "GET", "/v1/deployments/fra", ""); got["type"] != "production" || got["allow_all_workspaces"] != true {
			t.Errorf("read %v", got)
		}
	})
	prove(t, "S-414 S-547", "are listed by type", func(t *testing.T) {
		for query, want := range map[string][]string{"": {"fra", "trial"}, "?type=production": {"fra"}, "?type=non-production": {"trial"}} {
			wantItems(t, h.as(t, bootstrapKey, "GET", "/v1/deployments"+query, "").items(t, "slug"), want...)
		}
		h.as(t, bootstrapKey, "GET", "/v1/deployments?type=other", "").told(t, 400, "AB01")
	})
	prove(t, "S-415 S-547", "are changed to another type, config and workspaces", func(t *testing.T) {
		other := h.root(t, "POST", "/v1/workspaces", `{"name":"Other"}`)["id"]
		h.root(t, "POST", "/v1/deployments", `{"name":"Changed","slug":"changed","type":"non-production","config":{"region":"x"},"workspaces":["default"]}`)
		h.root(t, "PUT", "/v1/deployments/changed", fmt.Sprintf(`{"workspaces":[%q]}`, other))
		h.root(t, "PUT", "/v1/deployments/changed", `{"type":"production","config":{"zone":"y"}}`)
		got := h.root(t, "GET", "/v1/deployments/changed", "")
		if got["type"] != "production" || fmt.Sprint(got["config"]) != "map[zone:y]" || got["allow_all_workspaces"] != false || fmt.Sprint(got["workspaces"]) != fmt.Sprint([]any{other}) {
			t.Errorf("changed, read %v", got)
		}
		h.as(t, bootstrapKey, "PUT", "/v1/deployments/changed", `{"type":"staging"}`).told(t, 400, "AB01")
		h.root(t, "DELETE", "/v1/deployments/changed", "")
	})
	prove(t, "S-548", "have slugs of their own", func(t *testing.T) {
		h.as(t, bootstrapKey, "POST", "/v1/deployments", `{"name":"Again","slug":"fra"}`).told(t, 409, "AB07")
	})
	for verb, call := range map[string][3]string{
		"create": {"POST", "/v1/deployments", `{"name":"Made"}`}, "read": {"GET", "/v1/deployments/fra", ""},
		"update": {"PUT", "/v1/deployments/fra", `{"name":"Other"}`}, "list": {"GET", "/v1/deployments", ""},
		"delete": {"DELETE", "/v1/deployments/trial", ""},
	} {
		of := map[string]string{"create": "S-549", "read": "S-550", "update": "S-551", "delete": "S-552", "list": "S-553"}[verb]
		prove(t, of, "a key may "+verb+" them with only the scope for it", func(t *testing.T) {
			var others []string
			for _, v := range []string{"create", "read", "update", "delete", "list"} {
				if v != verb {
					others = append(others, `"deployments:`+v+`"`)
				}
			}
			without := h.made(t, "/v1/api-keys/organisation/service", `{"name":"k","scopes":[`+strings.Join(others, ",")+`]}`)
			with := h.made(t, "/v1/api-keys/organisation/service", `{"name":"k","scopes":["deployments:`+verb+`"]}`)
			h.eventually(t, with)
			h.as(t, without, call[0], call[1], call[2]).told(t, 403, "AB03")
			h.as(t, with, call[0], call[1], call[2]).wantOK(t)
		})
	}
}

func TestRolesInAWorkspace(t *testing.T) {
	h := populate(t)
	user := func(t *testing.T, name string) string {
		t.Helper()
		id, _ := h.as(t, h.sessions[name], "GET", "/v1/auth/me", "").wantOK(t).object(t)["user_id"].(string)
		return id
	}
	member, mate := user(t, "member"), user(t, "mate")
	prove(t, "S-556", "a manager makes a key for another, a member does not", func(t *testing.T) {
		body := `{"name":"k","workspace_id":"default","scopes":["models.list"],"user_id":"` + mate + `"}`
		made, _ := h.as(t, h.sessions["manager"], "POST", "/v1/api-keys/workspace/user", body).wantOK(t).object(t)["id"].(string)
		if of := h.root(t, "GET", "/v1/api-keys/"+made, "")["user_id"]; of != mate {
			t.Errorf("the key is that of %v, want %s", of, mate)
		}
		h.as(t, h.sessions["member"], "POST", "/v1/api-keys/workspace/user", body).told(t, 403, "AB03")
		h.as(t, h.sessions["member"], "POST", "/v1/api-keys/workspace/user", strings.Replace(body, mate, member, 1)).wantOK(t)
	})
	prove(t, "S-587", "a manager gives nobody a higher role than their own", func(t *testing.T) {
		h.join(t, "newcomer", "member", "member")
		newcomer := user(t, "newcomer")
		h.root(t, "DELETE", "/v1/workspaces/default/users/"+newcomer, "")
		add := func(role string) response {
			return h.as(t, h.sessions["manager"], "POST", "/v1/workspaces/default/users", `{"users":[{"id":"`+newcomer+`","role":"`+role+`"}]}`)
		}
		add("admin").told(t, 403, "AB03")
		add("member").wantOK(t)
		for _, id := range []string{mate, user(t, "manager")} {
			h.as(t, h.sessions["manager"], "PUT", "/v1/workspaces/default/users/"+id, `{"role":"admin"}`).told(t, 403, "AB03")
		}
		h.as(t, h.sessions["manager"], "PUT", "/v1/workspaces/default/users/"+mate, `{"role":"manager"}`).wantOK(t)
	})
	prove(t, "S-587", "nor does a key that a manager made, whatever its scopes", func(t *testing.T) {
		scopes, err := json.Marshal(access.Scopes(access.WorkspaceService))
		if err != nil {
			t.Fatal(err)
		}
		made := h.as(t, h.sessions["manager"], "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":`+string(scopes)+`}`).wantOK(t)
		key, _ := made.object(t)["key"].(string)
		h.eventually(t, key)
		add := func(role string) response {
			return h.as(t, key, "POST", "/v1/workspaces/default/users", `{"users":[{"id":"`+member+`","role":"`+role+`"}]}`)
		}
		add("admin").told(t, 403, "AB03")
		add("manager").wantOK(t)
		add("member").wantOK(t)
	})
}

func TestIntrospection(t *testing.T) {
	h := populate(t)
	ask := func(t *testing.T, token string) map[string]any {
		t.Helper()
		return h.as(t, bootstrapKey, "POST", "/v1/oauth/introspect", `{"token":"`+token+`"}`).wantOK(t).object(t)
	}
	prove(t, "S-561", "tells whose token it is", func(t *testing.T) {
		for _, token := range []string{h.sessions["member"], h.keys["member"]} {
			got := ask(t, token)
			if got["active"] != true || got["email"] != "member@example.com" || got["username"] == nil || got["username"] == "" {
				t.Errorf("told %v", got)
			}
		}
	})
	prove(t, "S-561", "returns nothing about an unknown key", func(t *testing.T) {
		if got := ask(t, "mg-nobody"); len(got) != 1 || got["active"] != false {
			t.Errorf("told %v", got)
		}
	})
	prove(t, "S-561", "tells another organisation nothing", func(t *testing.T) {
		owner := h.claim(t)
		for _, token := range []string{h.sessions["member"], h.keys["member"]} {
			got := h.as(t, owner, "POST", "/v1/oauth/introspect", `{"token":"`+token+`"}`).wantOK(t).object(t)
			if len(got) != 1 || got["active"] != false {
				t.Errorf("told %v", got)
			}
		}
	})
}

func TestVirtualKeysStillWork(t *testing.T) {
	h := populate(t)
	h.root(t, "POST", "/v1/virtual-keys", `{"name":"Old","provider":"openai-compatible","key":"`+storedKey+`","workspace_id":"default","customHost":"`+h.provider.url+`"}`)
	slugs := h.as(t, bootstrapKey, "GET", "/v1/virtual-keys?workspace_id=default", "").items(t, "slug")
	chat := modelRoutes[0]
	for _, header := range [][]string{{"x-gateway-virtual-key", slugs[0]}, {"x-gateway-provider", "@" + slugs[0]}} {
		prove(t, "S-598 S-426 S-427", "named by "+header[0], func(t *testing.T) {
			h.provider.forget()
			waittest.Until(t, "the gateway knows the entry", func() bool {
				return h.do(t, "POST", chat.path, chat.body, append([]string{"x-gateway-api-key", bootstrapKey}, header...)...).status == http.StatusOK
			})
			if got := h.provider.only(t).header.Get("Authorization"); got != "Bearer "+storedKey {
				t.Errorf("Authorization at the provider = %q", got)
			}
		})
	}
	prove(t, "S-598", "given another credential", func(t *testing.T) {
		h.root(t, "PUT", "/v1/virtual-keys/"+slugs[0]+"?workspace_id=default", `{"name":"Renamed","key":"another-credential"}`)
		if got := h.root(t, "GET", "/v1/virtual-keys/"+slugs[0]+"?workspace_id=default", ""); got["name"] != "Renamed" || got["provider"] != "openai-compatible" {
			t.Errorf("changed, it reads %v", got)
		}
		waittest.Until(t, "the gateway sends the other credential", func() bool {
			h.provider.forget()
			h.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", bootstrapKey, "x-gateway-virtual-key", slugs[0]).wantOK(t)
			return h.provider.only(t).header.Get("Authorization") == "Bearer another-credential"
		})
	})
	prove(t, "S-598", "listed with those of the settings, and removed", func(t *testing.T) {
		d := newDesk(t, nil)
		wantItems(t, d.as(t, bootstrapKey, "GET", "/v1/virtual-keys?workspace_id=default", "").items(t, "slug"), "stored")
		h.root(t, "DELETE", "/v1/virtual-keys/"+slugs[0]+"?workspace_id=default", "")
		wantItems(t, h.as(t, bootstrapKey, "GET", "/v1/virtual-keys?workspace_id=default", "").items(t, "slug"))
		waittest.Until(t, "the gateway knows it no longer", func() bool {
			return h.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", bootstrapKey, "x-gateway-virtual-key", slugs[0]).status != http.StatusOK
		})
	})
}

func TestTheProgramIsNumbered(t *testing.T) {
	prove(t, "S-519", "by a semantic version", func(t *testing.T) {
		out, _, code := command(t, "version")
		if !regexp.MustCompile(`\bv?\d+\.\d+\.\d+([-+][0-9A-Za-z.-]+)*\b`).MatchString(out) || code != 0 {
			t.Errorf("modelgate version = %q, exit %d", out, code)
		}
	})
}

// organs are bodies of the control plane that the specification leaves open, as
// clients of it are known to send and to read them.
var organs = []struct {
	name, method, path, body string
	fields                   []string
}{
	{"a workspace is made whole", "POST", "/v1/admin/workspaces", `{"name":"W"}`, []string{"id", "slug", "name", "created_at", "last_updated_at", "defaults", "organisation_id", "status", "object"}},
	{"people are listed", "GET", "/v1/admin/users?currentPage=0&pageSize=10", "", []string{"object", "total", "data"}},
	{"an invite has its link", "POST", "/v1/admin/users/invites", `{"email":"x@example.com","role":"member","workspaces":[]}`, []string{"id", "invite_link"}},
	{"a key is shown once", "POST", "/v1/api-keys/workspace/service", `{"name":"K","scopes":["models.list"],"workspace_id":"default"}`, []string{"id", "key", "object"}},
	{"keys are listed", "GET", "/v1/api-keys", "", []string{"object", "total", "data"}},
	{"a config is in its envelope", "POST", "/v1/configs", `{"name":"C","config":{"retry":{"attempts":1}},"workspace_id":"default"}`, []string{"success", "data"}},
	{"configs are in theirs", "GET", "/v1/configs?workspace_id=default", "", []string{"success", "data"}},
	{"a guardrail has a version", "POST", "/v1/guardrails", `{"name":"G","workspace_id":"default","checks":[{"id":"default.wordCount"}],"actions":{}}`, []string{"id", "slug", "version_id"}},
	{"an integration has a slug", "POST", "/v1/integrations", `{"name":"I","ai_provider_id":"openai"}`, []string{"id", "slug"}},
	{"a deployment has its credential once", "POST", "/v1/deployments", `{"name":"D"}`, []string{"id", "slug", "client_auth"}},
	{"a secret reference is named", "POST", "/v1/secret-references", `{"name":"S","manager_type":"hashicorp_vault","secret_path":"kv/p","auth_config":{"type":"token","address":"https://vault.example.com","token":"t-0123"}}`, []string{"id", "slug", "object"}},
}

func TestBodiesThatTheSpecificationLeavesOpen(t *testing.T) {
	h := populate(t)
	for _, tt := range organs {
		prove(t, "S-416", tt.name, func(t *testing.T) {
			got := h.root(t, tt.method, tt.path, tt.body)
			for _, field := range tt.fields {
				if _, ok := got[field]; !ok {
					t.Errorf("%s %s has no %s: %v", tt.method, tt.path, field, got)
				}
			}
		})
	}
	prove(t, "S-416", "an error has both shapes", func(t *testing.T) {
		got := h.as(t, bootstrapKey, "POST", "/v1/workspaces", `{}`).object(t)
		data, _ := got["data"].(map[string]any)
		fault, _ := got["error"].(map[string]any)
		if got["success"] != false || got["status"] != "failure" || data["errorCode"] != "AB01" || fault["message"] != data["message"] || fault["param"] != "name" {
			t.Errorf("told %v", got)
		}
	})
}
