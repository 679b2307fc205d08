package security

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestObjectsOfTheSameSlugAreTheirWorkspacesOwn(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		w := newTenants(t, o, nil)
		for _, way := range []struct {
			name string
			ask  func(n *tenant) response
		}{
			{"a config in a header", func(n *tenant) response { return w.ask(t, n, "x-gateway-config", `{"provider":"@same"}`) }},
			{"a saved config", func(n *tenant) response { return w.ask(t, n, "x-gateway-config", "cfg") }},
			{"a managed provider", func(n *tenant) response { return w.ask(t, n, "x-gateway-provider", "@same") }},
			{"a saved prompt", func(n *tenant) response { return w.prompt(t, n, "greet") }},
			{"a config with a prompt", func(n *tenant) response {
				return w.ask(t, n, "x-gateway-config", `{"provider":"@same","prompt_id":"greet"}`)
			}},
		} {
			attack(t, "isolation", way.name+" of the same text", func(t *testing.T) {
				for range 2 {
					for _, n := range w.all {
						w.provider.reset()
						way.ask(n).ok(t)
						if got, want := w.credentials(), []string{n.credential("same")}; !slices.Equal(got, want) {
							t.Errorf("the request of %s was sent with %v, want %v", n.name, got, want)
						}
						if strings.Contains(way.name, "prompt") && !w.provider.got("partial of "+n.name) {
							t.Errorf("%s did not get its own partial: %s", n.name, w.provider.seen()[0].body)
						}
					}
				}
			})
		}
	})
}

// foreign returns the ids of a tenant's objects, by their families.
func (w *tenants) foreign(t *testing.T, n *tenant) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	for family, slug := range map[string]string{"configs": "cfg-", "prompts": "greet-"} {
		id := w.as(t, n.owner, "GET", "/v1/"+family+"/"+slug+n.name+"?workspace_id="+n.workspace, "").ok(t)
		o := id.object(t)
		if data, ok := o["data"].(map[string]any); ok {
			o = data
		}
		names[family] = []string{slug + n.name, fmt.Sprint(o["id"])}
	}
	return names
}

func TestObjectsOfOtherWorkspacesAreNotThere(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		w := newTenants(t, o, nil)
		for _, owner := range w.all {
			names := w.foreign(t, owner)
			for _, n := range w.all {
				if n == owner {
					continue
				}
				kinds := map[string]func() []response{
					"provider": func() []response {
						return []response{
							w.ask(t, n, "x-gateway-provider", "@only-"+owner.name),
							w.ask(t, n, "x-gateway-config", `{"provider":"@only-`+owner.name+`"}`),
							w.ask(t, n, "x-gateway-config", `{"virtual_key":"only-`+owner.name+`"}`),
							w.as(t, n.key, "POST", "/v1/chat/completions", strings.Replace(chatBody, "gpt-4o", "@only-"+owner.name+"/gpt-4o", 1)),
							w.ask(t, n, "x-gateway-config", w.create(t, n.key, "/v1/configs", fmt.Sprintf(`{"name":"c","config":{"provider":"@only-%s"}}`, owner.name), "data.slug")),
						}
					},
					"config": func() (list []response) {
						for _, ref := range names["configs"] {
							list = append(list, w.ask(t, n, "x-gateway-config", ref), w.as(t, n.key, "GET", "/v1/configs/"+ref, ""),
								w.as(t, n.owner, "POST", "/v1/api-keys/workspace/service", fmt.Sprintf(`{"name":"k","workspace_id":%q,"scopes":["completions.write"],"defaults":{"config_id":%q}}`, n.workspace, ref)))
						}
						return list
					},
					"prompt": func() (list []response) {
						for _, ref := range names["prompts"] {
							list = append(list, w.prompt(t, n, ref), w.as(t, n.key, "POST", "/v1/prompts/"+ref+"/render", `{}`),
								w.ask(t, n, "x-gateway-config", fmt.Sprintf(`{"provider":"@same","prompt_id":%q}`, ref)))
						}
						return list
					},
				}
				attack(t, "isolation", n.name+" uses a partial of "+owner.name, func(t *testing.T) {
					w.provider.reset()
					body := fmt.Sprintf(`{"name":"p","workspace_id":%q,"string":"[{\"role\":\"user\",\"content\":\"{{>part-%s}}\"}]","parameters":{},"model":"gpt-4o","virtual_key":"same"}`, n.workspace, owner.name)
					made := w.as(t, n.owner, "POST", "/v1/prompts", body)
					if made.status != http.StatusOK { // it names what is not there
						made.refused(t, http.StatusNotFound, "part-"+owner.name)
						return
					}
					r := w.prompt(t, n, made.text(t, "slug"))
					if w.provider.got("partial of "+owner.name) || strings.Contains(string(r.body), "partial of "+owner.name) {
						t.Errorf("%s got the partial of %s: %d %.300s", n.name, owner.name, r.status, r.body)
					}
				})
				for kind, responses := range kinds {
					attack(t, "isolation", n.name+" uses a "+kind+" of "+owner.name, func(t *testing.T) {
						w.provider.reset()
						for i, r := range responses() {
							if r.status < 400 || r.status >= 500 || r.status == http.StatusUnauthorized {
								t.Errorf("way %d: status %d: %.300s", i, r.status, r.body)
							}
						}
						if got := w.credentials(); len(got) > 0 {
							t.Errorf("the provider received %v", got)
						}
					})
				}
			}
		}
	})
}

func TestModelListsAreTheirWorkspacesOwn(t *testing.T) {
	t.Parallel()
	w := newTenants(t, options{}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			respondChat(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"data":[{"id":"model-%s"}]}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer sk-"))
	})
	attack(t, "isolation", "lists of models of one address and one slug", func(t *testing.T) {
		for range 2 { // the second time from memory
			for _, n := range w.all {
				got := string(w.as(t, n.key, "GET", "/v1/models", "").ok(t).body)
				for _, other := range w.all {
					for _, name := range []string{"@same/model-" + other.name + "-same", "only-" + other.name} {
						if (n == other) != strings.Contains(got, name) {
							t.Errorf("the models of %s: %s listed is %t: %s", n.name, name, n != other, got)
						}
					}
				}
			}
		}
	})
}
