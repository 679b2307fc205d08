package configs_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/configs"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

const valid = `{"strategy":{"mode":"single"},"targets":[{"provider":"@main"}]}`

type saved struct {
	Data struct{ ID, Slug string }
}

func save(t *testing.T, c *routetest.Caller, name string) saved {
	t.Helper()
	var out saved
	c.Must("POST", "/configs", `{"name":"`+name+`","config":`+valid+`}`, &out)
	return out
}

func TestAConfigIsReadAsItWasSaved(t *testing.T) {
	b := routetest.New(t, configs.Add)
	c := b.Root()
	first := save(t, c, "My Config")
	if !strings.HasPrefix(first.Data.Slug, "pc-my-con-") {
		t.Errorf("slug %q", first.Data.Slug)
	}
	for _, ref := range []string{first.Data.ID, first.Data.Slug} {
		var one struct {
			Success bool
			Data    struct{ Config, Name, Status string }
		}
		c.Must("GET", "/configs/"+ref, "", &one)
		if !one.Success || one.Data.Config != valid || one.Data.Name != "My Config" || one.Data.Status != "active" {
			t.Errorf("read %+v", one)
		}
	}
	var object struct {
		Data struct{ Config json.RawMessage }
	}
	c.Must("GET", "/configs/"+first.Data.Slug+"?format=object", "", &object)
	if string(object.Data.Config) != valid {
		t.Errorf("as an object %s", object.Data.Config)
	}
	if b.Changes() != 1 {
		t.Errorf("%d changes were reported, want 1", b.Changes())
	}
}

func TestAnotherTextMakesAnotherVersion(t *testing.T) {
	c := routetest.New(t, configs.Add).Root()
	s := save(t, c, "a")
	c.Must("PUT", "/configs/"+s.Data.Slug, `{"name":"b"}`, nil)
	text, _ := json.Marshal(`{"retry": {"attempts": 2}}`)
	c.Must("PUT", "/configs/"+s.Data.Slug, `{"config":`+string(text)+`}`, nil)
	var list struct {
		Data []struct {
			Version int
			Config  string
		}
	}
	c.Must("GET", "/configs/"+s.Data.Slug+"/versions", "", &list)
	if len(list.Data) != 2 || list.Data[0].Version != 2 || list.Data[0].Config != `{"retry":{"attempts":2}}` || list.Data[1].Config != valid {
		t.Errorf("versions %+v", list)
	}
}

func TestAnInvalidConfigIsNotSaved(t *testing.T) {
	b := routetest.New(t, configs.Add)
	c := b.Root()
	s := save(t, c, "a")
	for name, body := range map[string]string{
		"an unknown property":  `{"name":"x","config":{"retry":{"attempts":1},"nonsense":1}}`,
		"a type":               `{"name":"x","config":{"retry":{"attempts":"two"}}}`,
		"text that is no JSON": `{"name":"x","config":"{"}`,
		"no group":             `{"name":"x","config":{}}`,
		"too large":            `{"name":"x","config":{"retry":{"attempts":1},"name":"` + strings.Repeat("x", 70000) + `"}}`,
		"no name":              `{"config":` + valid + `}`,
		"an empty name":        `{"name":"","config":` + valid + `}`,
		"an unknown field":     `{"name":"x","config":` + valid + `,"extra":1}`,
		"no JSON":              `{`,
	} {
		for _, call := range [][2]string{{"POST", "/configs"}, {"PUT", "/configs/" + s.Data.Slug}} {
			if call[0] == "PUT" && (name == "no name") {
				continue
			}
			a := c.Call(call[0], call[1], body)
			if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"errorCode":"AB01"`) || !strings.Contains(a.Body, `"code":"AB01"`) {
				t.Errorf("%s, %s: %d %s", name, call[0], a.Status, a.Body)
			}
		}
	}
	if b.Changes() != 1 {
		t.Errorf("%d changes, want that of the valid one alone", b.Changes())
	}
}

func TestAnotherWorkspacesConfigIsNotThere(t *testing.T) {
	b := routetest.New(t, configs.Add)
	s := save(t, b.Root(), "a")
	all := access.Scopes(access.WorkspaceService)
	other := b.As(access.Identity{Type: access.WorkspaceService, Workspace: "00000000-0000-7000-8000-000000000009", Scopes: all})
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "other", Workspace: "-", Scopes: all})
	for name, c := range map[string]*routetest.Caller{"another workspace": other, "another organisation": foreign} {
		for _, call := range [][3]string{{"GET", "", ""}, {"PUT", "", `{"name":"x"}`}, {"DELETE", "", ""}, {"GET", "/versions", ""}} {
			if a := c.Call(call[0], "/configs/"+s.Data.ID+call[1], call[2]); a.Status != http.StatusNotFound {
				t.Errorf("%s: %s%s: %d %s", name, call[0], call[1], a.Status, a.Body)
			}
		}
	}
	reader := b.As(access.Identity{Type: access.WorkspaceUser, Scopes: []access.Scope{"configs.read"}})
	if a := reader.Call("DELETE", "/configs/"+s.Data.ID, ""); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03") {
		t.Errorf("without the scope: %d %s", a.Status, a.Body)
	}
	if a := b.Nobody().Call("GET", "/configs", ""); a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "AB05") {
		t.Errorf("without a key: %d %s", a.Status, a.Body)
	}
}

func TestAnArchivedConfigIsGone(t *testing.T) {
	c := routetest.New(t, configs.Add).Root()
	s := save(t, c, "a")
	c.Must("DELETE", "/configs/"+s.Data.Slug, "", nil)
	if a := c.Call("GET", "/configs/"+s.Data.Slug, ""); a.Status != http.StatusNotFound {
		t.Errorf("after archiving: %d %s", a.Status, a.Body)
	}
	var list struct{ Total int }
	c.Must("GET", "/configs", "", &list)
	if list.Total != 0 {
		t.Errorf("%d configs are listed", list.Total)
	}
	c.Must("POST", "/configs", `{"name":"default","isDefault":1,"config":`+valid+`}`, &s)
	if a := c.Call("DELETE", "/configs/"+s.Data.Slug, ""); a.Status != http.StatusConflict {
		t.Errorf("archiving the default: %d %s", a.Status, a.Body)
	}
}
