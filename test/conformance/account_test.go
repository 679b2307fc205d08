package conformance

import (
	"net/http"
	"strings"
	"testing"
)

// claim makes a second organisation, with the slug second, and returns the session
// of its owner.
func (g *gateway) claim(t *testing.T) (owner string) {
	t.Helper()
	out, errText, code := command(t, "organisations", "create", "--data", g.data, "--name", "Second", "--slug", "second")
	_, link, ok := strings.Cut(strings.TrimSpace(out), "/claim?token=")
	if code != 0 || !ok {
		t.Fatalf("exit %d: %s%s", code, out, errText)
	}
	body := `{"token":"` + link + `","email":"owner@second.example","password":"a long password of a test"}`
	owner, _ = g.do(t, "POST", "/v1/auth/claim", body).wantOK(t).object(t)["token"].(string)
	return owner
}

// TestOrganisationsSeeNothingOfEachOther makes a second organisation next to a
// running gateway, claims it, and has a key of each ask for the same things.
func TestOrganisationsSeeNothingOfEachOther(t *testing.T) {
	h := populate(t)
	owner := h.claim(t)
	theirs, _ := h.as(t, owner, "POST", "/v1/api-keys/workspace/service",
		`{"name":"theirs","workspace_id":"default","scopes":["completions.write","logs.list","logs.view","configs.list","configs.read","configs.create"]}`).wantOK(t).object(t)["key"].(string)
	id := h.ask(t, theirs)
	config, _ := h.as(t, theirs, "POST", "/v1/configs", `{"name":"Theirs","config":{"retry":{"attempts":1}}}`).wantOK(t).object(t)["data"].(map[string]any)
	slug, _ := config["slug"].(string)
	config, _ = h.root(t, "POST", "/v1/configs", `{"name":"Ours","workspace_id":"default","config":{"retry":{"attempts":1}}}`)["data"].(map[string]any)
	ours, _ := config["slug"].(string)

	prove(t, "S-423", "in the log", func(t *testing.T) {
		for name, c := range map[string]struct{ key, sees, not string }{
			"theirs": {theirs, id, h.requests["service"]}, "ours": {h.keys["service"], h.requests["service"], id}, "our admin's": {h.sessions["admin"], h.requests["service"], id},
		} {
			listed := string(h.as(t, c.key, "GET", "/v1/logs", "").wantOK(t).body)
			if !strings.Contains(listed, c.sees) || strings.Contains(listed, c.not) {
				t.Errorf("%s is shown %.600s", name, listed)
			}
			h.as(t, c.key, "GET", "/v1/logs/"+c.sees, "").wantOK(t)
			for _, path := range []string{"/v1/logs/", "/v1/explain/"} {
				if got := h.as(t, c.key, "GET", path+c.not, ""); got.status != http.StatusNotFound {
					t.Errorf("%s reads %s of the other with %d", name, path, got.status)
				}
			}
		}
	})
	prove(t, "S-423", "in what is stored", func(t *testing.T) {
		wantItems(t, h.as(t, owner, "GET", "/v1/configs?workspace_id=default", "").items(t, "slug"), slug)
		for _, token := range []string{h.sessions["admin"], bootstrapKey} {
			wantItems(t, h.as(t, token, "GET", "/v1/configs?workspace_id=default", "").items(t, "slug"), ours)
			wantItems(t, h.as(t, token, "GET", "/v1/configs", "").items(t, "slug"), ours)
		}
		h.as(t, h.sessions["admin"], "GET", "/v1/configs/"+slug, "").told(t, http.StatusNotFound, "AB08")
		if got := h.as(t, h.sessions["admin"], "GET", "/v1/workspaces", "").items(t, "name"); len(got) != 1 {
			t.Errorf("our admin sees the workspaces %q", got)
		}
	})
	prove(t, "S-423", "in every list", func(t *testing.T) {
		for _, o := range organs {
			if o.method == http.MethodPost {
				h.root(t, o.method, o.path, o.body)
			}
		}
		h.root(t, "POST", "/v1/prompts", `{"name":"Ours","string":"Hello","parameters":{},"model":"m","workspace_id":"default"}`)
		organisation, _ := h.root(t, "GET", "/v1/admin/organisation", "")["id"].(string)
		shown := 0
		for _, r := range h.administration(t) {
			if r[0] != http.MethodGet {
				continue
			}
			got := h.as(t, owner, r[0], r[1], "")
			if got.status == http.StatusBadRequest {
				got = h.as(t, owner, r[0], r[1]+"?workspace_id=default", "")
			}
			if got.status == http.StatusOK {
				shown++
			}
			for _, mark := range []string{organisation, h.requests["service"], ours, "member@example.com"} {
				if strings.Contains(string(got.body), mark) {
					t.Errorf("GET %s shows the other's %s: %.300s", r[1], mark, got.body)
				}
			}
		}
		if shown < 30 {
			t.Errorf("%d lists were shown", shown)
		}
	})
	prove(t, "S-423", "in requests", func(t *testing.T) {
		chat := modelRoutes[0]
		if got := h.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", h.keys["service"], "x-gateway-config", slug); got.status != http.StatusNotFound {
			t.Errorf("our key uses their config with %d", got.status)
		}
	})
}
