package prompts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

const chat = `[{"role":"user","content":"Hello {{name}}"}]`

// created is the response of what makes something.
type created struct {
	ID, Slug  string
	VersionID string `json:"version_id"`
}

// toResponse is a version as it is read.
type toResponse struct {
	ID, Slug, Name, Status, Model, String string
	Collection                            string          `json:"collection_id"`
	Parameters                            json.RawMessage `json:"parameters"`
	Metadata                              json.RawMessage `json:"template_metadata"`
	Tools                                 json.RawMessage `json:"tools"`
	VirtualKey                            string          `json:"virtual_key"`
	Raw                                   int             `json:"is_raw_template"`
	Number                                int             `json:"prompt_version"`
	VersionID                             string          `json:"prompt_version_id"`
	Description                           string          `json:"prompt_version_description"`
	Label                                 *string         `json:"prompt_version_label_id"`
	Published                             bool            `json:"is_published"`
}

func save(t *testing.T, c *routetest.Caller, name string) created {
	t.Helper()
	var out created
	c.Must("POST", "/prompts", `{"name":"`+name+`","string":`+quoted(chat)+`,"parameters":{"temperature":0.5},"model":"m1","virtual_key":"@main","template_metadata":{"a":1},"version_description":"first"}`, &out)
	return out
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func findVersion(t *testing.T, c *routetest.Caller, ref string) (s toResponse) {
	t.Helper()
	c.Must("GET", "/prompts/"+ref, "", &s)
	return s
}

func TestAPromptIsReadAsItWasSaved(t *testing.T) {
	b := routetest.New(t, prompts.Add)
	c := b.Root()
	p := save(t, c, "My Prompt")
	if !strings.HasPrefix(p.Slug, "pp-my-pro-") || p.VersionID == "" {
		t.Errorf("made %+v", p)
	}
	for _, ref := range []string{p.ID, p.Slug, p.Slug + "@latest", p.Slug + "@1", p.Slug + "?version=default", p.Slug + "@9?version=1", p.Slug + "/versions/1", p.Slug + "/versions/" + p.VersionID} {
		s := findVersion(t, c, ref)
		if s.ID != p.ID || s.String != chat || s.Model != "m1" || string(s.Parameters) != `{"temperature":0.5}` || string(s.Metadata) != `{"a":1}` || s.VirtualKey != "main" ||
			s.Number != 1 || s.VersionID != p.VersionID || !s.Published || s.Description != "first" || s.Label != nil || s.Status != "active" || string(s.Tools) != "null" || s.Collection == "" {
			t.Errorf("%s: %+v", ref, s)
		}
	}
	for _, ref := range []string{"pp-none", p.Slug + "@2", p.Slug + "@production", p.Slug + "@0", p.Slug + "?version=x", p.Slug + "/versions/2"} {
		if a := c.Call("GET", "/prompts/"+ref, ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "AB08") {
			t.Errorf("%s: %d %s", ref, a.Status, a.Body)
		}
	}
	var list struct {
		Total int
		Data  []toResponse
	}
	for query, want := range map[string]int{"": 1, "?search=Pro": 1, "?search=x": 0, "?collection_id=co-default": 1, "?current_page=1&page_size=1": 0} {
		if c.Must("GET", "/prompts"+query, "", &list); len(list.Data) != want {
			t.Errorf("list%s: %+v", query, list)
		}
	}
	c.Must("DELETE", "/prompts/"+p.Slug, "", nil)
	if a := c.Call("GET", "/prompts/"+p.Slug, ""); a.Status != http.StatusNotFound {
		t.Errorf("archived: %d %s", a.Status, a.Body)
	}
	if c.Must("GET", "/prompts", "", &list); list.Total != 0 {
		t.Errorf("after archiving: %+v", list)
	}
}

// The messages may be given as the array that they are.
func TestMessagesMayBeGivenAsAnArray(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	var p created
	c.Must("POST", "/prompts", `{"name":"a","string":`+chat+`}`, &p)
	if s := findVersion(t, c, p.Slug); s.String != chat {
		t.Errorf("string %s", s.String)
	}
}

func TestAVersionIsPublishedByNameAlone(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	p := save(t, c, "a")
	var second struct {
		ID, Slug  string
		VersionID string `json:"prompt_version_id"`
	}
	c.Must("PUT", "/prompts/"+p.Slug, `{"string":"two {{x}}","parameters":{},"model":"m2"}`, &second)
	if second.ID != p.ID || second.Slug != p.Slug || second.VersionID == "" {
		t.Errorf("update %+v", second)
	}
	if s := findVersion(t, c, p.Slug); s.Number != 1 || s.String != chat {
		t.Errorf("published %+v, want the first", s)
	}
	if s := findVersion(t, c, p.Slug+"@latest"); s.Number != 2 || s.String != "two {{x}}" || s.Published || s.VirtualKey != "" || string(s.Metadata) != "{}" {
		t.Errorf("latest %+v", s)
	}
	c.Must("PUT", "/prompts/"+p.Slug+"/makeDefault", `{"version":2}`, nil)
	if s := findVersion(t, c, p.Slug); s.Number != 2 || !s.Published {
		t.Errorf("published %+v, want the second", s)
	}
	for body, status := range map[string]int{`{"version":3}`: 404, `{"version":0}`: 400, `{"version":"2"}`: 400, `{}`: 400} {
		if a := c.Call("PUT", "/prompts/"+p.Slug+"/makeDefault", body); a.Status != status {
			t.Errorf("makeDefault %s: %d %s, want %d", body, a.Status, a.Body, status)
		}
	}
	var list []struct {
		ID       string
		Number   int    `json:"prompt_version"`
		Template string `json:"prompt_template"`
		Prompt   string `json:"prompt_id"`
	}
	if mustList(c, "/prompts/"+p.Slug+"/versions", &list); len(list) != 2 || list[0].Number != 2 || list[0].ID != second.VersionID || list[1].Template != chat || list[1].Prompt != p.ID {
		t.Errorf("versions %+v", list)
	}
}

func TestAPatchFillsWhatIsMissingFromTheNewestVersion(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	p := save(t, c, "a")
	put := func(body string) toResponse {
		t.Helper()
		c.Must("PUT", "/prompts/"+p.Slug, body, nil)
		return findVersion(t, c, p.Slug+"@latest")
	}
	put(`{"string":"two","parameters":{"top_p":1},"model":"m2","virtual_key":"vk","metadata":{"b":2},"tools":[],"is_raw_template":1}`)
	if s := put(`{"patch":true,"parameters":{"temperature":1}}`); s.Number != 3 || s.String != "two" || s.Model != "m2" || string(s.Parameters) != `{"temperature":1}` ||
		string(s.Metadata) != `{"b":2}` || s.VirtualKey != "vk" || string(s.Tools) != "[]" || s.Raw != 1 {
		t.Errorf("patched parameters: %+v", s)
	}
	if s := put(`{"patch":true,"model":null,"parameters":null,"tools":null,"prompt_metadata":null,"is_raw_template":0}`); s.Number != 4 || s.String != "two" || s.Model != "" ||
		string(s.Parameters) != `{}` || string(s.Tools) != "null" || string(s.Metadata) != "{}" || s.Raw != 0 {
		t.Errorf("patched with null: %+v", s)
	}
	if s := findVersion(t, c, p.Slug); s.Number != 1 {
		t.Errorf("published %+v, want the first still", s)
	}
	for _, tt := range []struct {
		body  string
		param string
	}{
		{`{"string":"x"}`, `"param":"parameters"`}, {`{"parameters":{},"model":"m"}`, `"param":"string"`}, {`{"patch":false,"string":"x","parameters":{}}`, `"param":"model"`},
		{`{"patch":"yes","string":"x"}`, `"param":"patch"`}, {`{"patch":1}`, `"param":"patch"`}, {`{"patch":true,"string":null}`, `"param":"string"`},
		{`{"patch":true,"string":"{{#x}}"}`, `"param":"string"`}, {`{"patch":true,"parameters":[]}`, `"param":"parameters"`}, {`{"patch":true,"string":1}`, `"param":"string"`},
		{`{"patch":true,"is_raw_template":2}`, `"param":"is_raw_template"`}, {`{"patch":true,"tools":{}}`, `"param":"tools"`}, {`{"patch":true,"extra":1}`, `extra`},
		{`{"name":""}`, `"param":"name"`}, {`{"patch":true,"model":"` + strings.Repeat("m", 256) + `"}`, `"param":"model"`}, {`{"patch":true,"metadata":"x"}`, `"param":"metadata"`},
		{`{"patch":true,"string":` + quoted(strings.Repeat("x", 1<<20+1)) + `}`, `"param":"string"`},
	} {
		if a := c.Call("PUT", "/prompts/"+p.Slug, tt.body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, tt.param) || !strings.Contains(a.Body, "AB01") {
			t.Errorf("%.100s: %d %.300s, want 400 for %s", tt.body, a.Status, a.Body, tt.param)
		}
	}
	if s := findVersion(t, c, p.Slug+"@latest"); s.Number != 4 {
		t.Errorf("after refusals the newest is %d, want 4", s.Number)
	}
	if a := c.Call("PUT", "/prompts/"+p.Slug, `{"name":"New"}`); a.Status != http.StatusOK || !strings.Contains(a.Body, `"name":"New"`) || !strings.Contains(a.Body, `"object":"prompt"`) {
		t.Errorf("a name alone: %d %s", a.Status, a.Body)
	}
	if s := findVersion(t, c, p.Slug+"@latest"); s.Number != 4 || s.Name != "New" {
		t.Errorf("after a name alone: %+v", s)
	}
}

func TestVersionsMadeAtOnceAreAllThere(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	p := save(t, c, "a")
	const n = 20
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if a := c.Call("PUT", "/prompts/"+p.Slug, fmt.Sprintf(`{"patch":true,"string":"text %d"}`, i)); a.Status != http.StatusOK {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	all.Wait()
	var list []struct {
		Number   int    `json:"prompt_version"`
		Template string `json:"prompt_template"`
	}
	mustList(c, "/prompts/"+p.Slug+"/versions", &list)
	texts := make(map[string]bool)
	for i, v := range list {
		if texts[v.Template] = true; v.Number != len(list)-i {
			t.Errorf("version %d of %d has the number %d", len(list)-i, len(list), v.Number)
		}
	}
	if len(list) != n+1 || len(texts) != n+1 {
		t.Errorf("%d versions of %d texts, want %d", len(list), len(texts), n+1)
	}
}

func TestAPromptThatMakesNoRequestIsNotSaved(t *testing.T) {
	b := routetest.New(t, prompts.Add)
	c := b.Root()
	for body, param := range map[string]string{
		`{"name":"a"}`: "string", `{"string":"x"}`: "name", `{"name":"a","string":null}`: "string", `{"name":"a","string":{}}`: "string",
		`{"name":"a","string":"{{x"}`: "string", `{"name":"a","string":"[{\"role\":1]"}`: "string", `{"name":"a","string":["x"]}`: "string",
		`{"name":"a","string":"x","parameters":{"messages":[]}}`: "parameters", `{"name":"a","string":"x","parameters":"{}"}`: "parameters",
		`{"name":"a","string":"x","functions":1}`: "functions", `{"name":"a","string":"x","tools":["{{"]}`: "tools",
		`{"name":"a","string":"x","extra":1}`: "extra", `{"name":1,"string":"x"}`: "name", `{"name":"","string":"x"}`: "name",
	} {
		if a := c.Call("POST", "/prompts", body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"`+param) || !strings.Contains(a.Body, "AB01") {
			t.Errorf("%s: %d %s, want 400 for %s", body, a.Status, a.Body, param)
		}
	}
	if a := c.Call("POST", "/prompts", `{"name":"a","string":"x","collection_id":"co-none"}`); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "AB02") {
		t.Errorf("a collection that is not there: %d %s", a.Status, a.Body)
	}
	if b.Changes() != 0 {
		t.Errorf("%d changes, want none", b.Changes())
	}
}

func TestPartialsHaveVersionsToo(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	var p created
	c.Must("POST", "/prompts/partials", `{"name":"Tone","string":"Be {{how}}"}`, &p)
	if !strings.HasPrefix(p.Slug, "ppl-tone-") {
		t.Errorf("made %+v", p)
	}
	var second struct {
		VersionID string `json:"prompt_partial_version_id"`
	}
	c.Must("PUT", "/prompts/partials/"+p.Slug, `{"string":"Stay {{how}}","description":"d"}`, &second)
	text := func(ref string) string {
		t.Helper()
		var out struct{ String string }
		c.Must("GET", "/prompts/partials/"+ref, "", &out)
		return out.String
	}
	if text(p.Slug) != "Be {{how}}" || text(p.ID+"@latest") != "Stay {{how}}" || text(p.Slug+"@2") != "Stay {{how}}" {
		t.Errorf("texts %q and %q", text(p.Slug), text(p.Slug+"@latest"))
	}
	c.Must("PUT", "/prompts/partials/"+p.Slug+"/makeDefault", `{"version":2}`, nil)
	if text(p.Slug) != "Stay {{how}}" {
		t.Errorf("published %q", text(p.Slug))
	}
	c.Must("PUT", "/prompts/partials/"+p.Slug, `{"name":"Voice"}`, nil)
	var list []struct{ Slug, Name string }
	if mustList(c, "/prompts/partials?collection_id=co-default", &list); len(list) != 1 || list[0].Name != "Voice" {
		t.Errorf("partials %+v", list)
	}
	var versions []struct {
		ID     string `json:"prompt_partial_version_id"`
		Number int    `json:"version"`
	}
	if mustList(c, "/prompts/partials/"+p.Slug+"/versions", &versions); len(versions) != 2 || versions[0].ID != second.VersionID || versions[0].Number != 2 {
		t.Errorf("versions %+v", versions)
	}
	for body, status := range map[string]int{`{"string":"{{"}`: 400, `{"string":null}`: 400, `{"name":""}`: 400, `{"status":"gone"}`: 400, `{"other":1}`: 400} {
		if a := c.Call("PUT", "/prompts/partials/"+p.Slug, body); a.Status != status {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if a := c.Call("GET", "/prompts/"+p.Slug, ""); a.Status != http.StatusNotFound {
		t.Errorf("a partial as a prompt: %d %s", a.Status, a.Body)
	}
	c.Must("DELETE", "/prompts/partials/"+p.Slug, "", nil)
	if a := c.Call("GET", "/prompts/partials/"+p.Slug, ""); a.Status != http.StatusNotFound {
		t.Errorf("archived: %d %s", a.Status, a.Body)
	}
}

func TestALabelLeadsToOneVersion(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	p := save(t, c, "a")
	c.Must("PUT", "/prompts/"+p.Slug, `{"patch":true,"model":"m2"}`, nil)
	var labels struct{ Data []struct{ ID, Name string } }
	c.Must("GET", "/labels", "", &labels)
	ids := make(map[string]string)
	for _, l := range labels.Data {
		ids[l.Name] = l.ID
	}
	if len(ids) != 3 || ids["production"] == "" || ids["staging"] == "" || ids["development"] == "" {
		t.Fatalf("labels %v", ids)
	}
	var own struct{ ID string }
	c.Must("POST", "/labels", `{"name":"release:1","description":"d","color_code":"#abc"}`, &own)
	label := func(version, id string) routetest.Response {
		return c.Call("PUT", "/prompts/"+p.Slug+"/versions/"+version, `{"label_id":`+id+`}`)
	}
	for _, step := range []struct {
		version, label, name string
		want                 int
	}{
		{"1", quoted(ids["production"]), "production", 1}, {"2", quoted(ids["production"]), "production", 2}, {"2", quoted(own.ID), "release:1", 2},
		{"2", quoted(own.ID), "production", 0}, {"2", "null", "release:1", 0}, {"1", quoted(own.ID), "release:1", 1},
	} {
		if a := label(step.version, step.label); a.Status != http.StatusOK {
			t.Fatalf("%+v: %d %s", step, a.Status, a.Body)
		}
		a := c.Call("GET", "/prompts/"+p.Slug+"@"+step.name, "")
		if found := a.Status == http.StatusOK; found != (step.want > 0) || found && !strings.Contains(a.Body, fmt.Sprintf(`"prompt_version":%d,`, step.want)) {
			t.Errorf("%+v: %d %s", step, a.Status, a.Body)
		}
	}
	if s := findVersion(t, c, p.Slug+"@1"); s.Label == nil || *s.Label != own.ID {
		t.Errorf("the label of the version is %v", s.Label)
	}
	for body, want := range map[string]string{`{}`: "AB01", `{"label_id":"none"}`: "AB02", `{"string":"x"}`: "AB01"} {
		if a := c.Call("PUT", "/prompts/"+p.Slug+"/versions/1", body); !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	c.Must("PUT", "/labels/"+own.ID, `{"name":"stable"}`, nil)
	if s := findVersion(t, c, p.Slug+"@stable"); s.Number != 1 {
		t.Errorf("by its new name: %+v", s)
	}
	c.Must("DELETE", "/labels/"+own.ID, "", nil)
	if a := c.Call("GET", "/prompts/"+p.Slug+"@stable", ""); a.Status != http.StatusNotFound {
		t.Errorf("by a label that was removed: %d %s", a.Status, a.Body)
	}
}

func TestALabelsNameMeansNothingElse(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	for name, status := range map[string]int{
		"latest": 400, "Default": 400, "12": 400, "a@b": 400, "a b": 400, "a\tb": 400, "a:b:c": 400, "": 400, strings.Repeat("x", 256): 400, "production": 409,
		"v1": 200, "a.b": 200, "é": 200, "under_score-dash": 200,
	} {
		if a := c.Call("POST", "/labels", `{"name":`+quoted(name)+`}`); a.Status != status {
			t.Errorf("%q: %d %s, want %d", name, a.Status, a.Body, status)
		}
	}
	if a := c.Call("POST", "/labels", `{"name":"v1"}`); a.Status != http.StatusConflict || !strings.Contains(a.Body, "AB07") {
		t.Errorf("a duplicate name: %d %s", a.Status, a.Body)
	}
	const everybodys = "/labels/00000000-0000-7000-8000-000000000011"
	for _, call := range [][2]string{{"PUT", `{"name":"x"}`}, {"DELETE", ""}} {
		if a := c.Call(call[0], everybodys, call[1]); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03") {
			t.Errorf("%s of everybody's: %d %s", call[0], a.Status, a.Body)
		}
	}
}

func TestALabelOfTheOrganisationIsSeenAndNotChangedFromAWorkspace(t *testing.T) {
	b := routetest.New(t, prompts.Add)
	above := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	below := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	var l struct{ ID string }
	above.Must("POST", "/labels", `{"name":"all"}`, &l)
	below.Must("GET", "/labels/"+l.ID, "", nil)
	if a := below.Call("DELETE", "/labels/"+l.ID, ""); a.Status != http.StatusForbidden {
		t.Errorf("from a workspace: %d %s", a.Status, a.Body)
	}
	if a := below.Call("POST", "/labels", `{"name":"all"}`); a.Status != http.StatusConflict {
		t.Errorf("the same name in a workspace: %d %s", a.Status, a.Body)
	}
	above.Must("DELETE", "/labels/"+l.ID, "", nil)
	if a := above.Call("POST", "/labels", `{"name":"x","organisation_id":"other"}`); a.Status != http.StatusNotFound {
		t.Errorf("for another organisation: %d %s", a.Status, a.Body)
	}
}

func TestACollectionIsPutAwayWhenItIsEmpty(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	var above, below created
	c.Must("POST", "/collections", `{"name":"Team"}`, &above)
	c.Must("POST", "/collections", `{"name":"Part","parent_collection_id":"`+above.Slug+`"}`, &below)
	p := save(t, c, "a")
	c.Must("PUT", "/prompts/"+p.Slug, `{"collection_id":"`+below.Slug+`"}`, nil)
	if s := findVersion(t, c, p.Slug); s.Collection != below.ID {
		t.Errorf("collection %s, want %s", s.Collection, below.ID)
	}
	var list struct {
		Total int
		Data  []struct {
			ID        string
			IsDefault bool    `json:"is_default"`
			Parent    *string `json:"parent_collection_id"`
			Details   struct {
				Children int `json:"child_collections_count"`
				Prompts  int `json:"prompts_count"`
			} `json:"collection_details"`
		}
	}
	c.Must("GET", "/collections", "", &list)
	found := map[string]bool{}
	for _, k := range list.Data {
		found[k.ID] = true
		switch k.ID {
		case above.ID:
			if k.Details.Children != 1 || k.Parent != nil {
				t.Errorf("the upper one: %+v", k)
			}
		case below.ID:
			if k.Details.Prompts != 1 || k.Parent == nil || *k.Parent != above.ID {
				t.Errorf("the lower one: %+v", k)
			}
		default:
			if !k.IsDefault || k.Details.Prompts != 0 {
				t.Errorf("the default one: %+v", k)
			}
		}
	}
	if list.Total != 3 || len(found) != 3 || !found[above.ID] || !found[below.ID] {
		t.Errorf("%d collections %v, want 3 with %s and %s", list.Total, found, above.ID, below.ID)
	}
	for ref, status := range map[string]int{above.Slug: 409, below.ID: 409, "co-default": 404, "co-none": 404} {
		if a := c.Call("DELETE", "/collections/"+ref, ""); a.Status != status {
			t.Errorf("DELETE %s: %d %s, want %d", ref, a.Status, a.Body, status)
		}
	}
	c.Must("PUT", "/collections/"+below.Slug, `{"name":"Piece"}`, nil)
	c.Must("DELETE", "/prompts/"+p.Slug, "", nil)
	c.Must("DELETE", "/collections/"+below.Slug, "", nil)
	c.Must("DELETE", "/collections/"+above.Slug, "", nil)
	if a := c.Call("POST", "/collections", `{"name":"x","parent_collection_id":"`+above.Slug+`"}`); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "AB02") {
		t.Errorf("inside of one put away: %d %s", a.Status, a.Body)
	}
}

// A workspace that has no default collection gets one with its first prompt.
func TestEveryWorkspaceHasADefaultCollection(t *testing.T) {
	b := routetest.New(t, prompts.Add)
	b.Exec(`DELETE FROM prompt_collections`)
	c := b.Root()
	one, two := save(t, c, "a"), save(t, c, "b")
	if x, y := findVersion(t, c, one.Slug).Collection, findVersion(t, c, two.Slug).Collection; x == "" || x != y {
		t.Errorf("collections %q and %q", x, y)
	}
}

func TestForeignObjectsAreNotFound(t *testing.T) {
	b := routetest.New(t, prompts.Add)
	c := b.Root()
	const elsewhere = "00000000-0000-7000-8000-000000000009"
	b.Exec(`INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings, usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ($1, $2, 'ws-else', 'E', '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`, elsewhere, store.DefaultOrganisation)
	p := save(t, c, "a")
	var partial, label, folder created
	c.Must("POST", "/prompts/partials", `{"name":"p","string":"x"}`, &partial)
	c.Must("POST", "/labels", `{"name":"l"}`, &label)
	c.Must("POST", "/collections", `{"name":"c"}`, &folder)
	callers := map[string]*routetest.Caller{
		"another workspace":    b.As(access.Identity{Type: access.WorkspaceService, Workspace: elsewhere, Scopes: access.Scopes(access.WorkspaceService)}),
		"another organisation": b.As(access.Identity{Type: access.OrganisationService, Organisation: "other", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)}),
	}
	for name, other := range callers {
		for _, call := range [][3]string{
			{"GET", "/prompts/%s", ""}, {"PUT", "/prompts/%s", `{"name":"x"}`}, {"PUT", "/prompts/%s", `{"patch":true,"model":"x"}`}, {"DELETE", "/prompts/%s", ""},
			{"PUT", "/prompts/%s/makeDefault", `{"version":1}`}, {"GET", "/prompts/%s/versions", ""}, {"GET", "/prompts/%s/versions/1", ""}, {"PUT", "/prompts/%s/versions/1", `{"label_id":null}`},
			{"GET", "/prompts/partials/%s", ""}, {"PUT", "/prompts/partials/%s", `{"name":"x"}`}, {"DELETE", "/prompts/partials/%s", ""}, {"GET", "/prompts/partials/%s/versions", ""},
			{"PUT", "/prompts/partials/%s/makeDefault", `{"version":1}`}, {"GET", "/labels/%s", ""}, {"PUT", "/labels/%s", `{"name":"x"}`}, {"DELETE", "/labels/%s", ""},
			{"GET", "/collections/%s", ""}, {"PUT", "/collections/%s", `{"name":"x"}`}, {"DELETE", "/collections/%s", ""},
		} {
			for _, id := range []string{p.ID, partial.Slug, label.ID, folder.ID} {
				theirs := other.Call(call[0], fmt.Sprintf(call[1], id), call[2])
				nobodys := other.Call(call[0], fmt.Sprintf(call[1], "nothing"), call[2])
				if theirs.Status != http.StatusNotFound || strings.ReplaceAll(theirs.Body, id, "nothing") != nobodys.Body {
					t.Errorf("%s: %s %s: %d %s, and of nothing %d %s", name, call[0], call[1], theirs.Status, theirs.Body, nobodys.Status, nobodys.Body)
				}
			}
		}
	}
	other := callers["another workspace"]
	var own created
	other.Must("POST", "/prompts", `{"name":"own","string":"x"}`, &own)
	for body, call := range map[string][2]string{
		`{"collection_id":"` + folder.ID + `"}`:                               {"PUT", "/prompts/" + own.Slug},
		`{"label_id":"` + label.ID + `"}`:                                     {"PUT", "/prompts/" + own.Slug + "/versions/1"},
		`{"name":"x","string":"y","collection_id":"` + folder.ID + `"}`:       {"POST", "/prompts"},
		`{"name":"x","parent_collection_id":"` + folder.ID + `"}`:             {"POST", "/collections"},
		`{"name":"x","string":"partial","collection_id":"` + folder.ID + `"}`: {"POST", "/prompts/partials"},
	} {
		if a := other.Call(call[0], call[1], body); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "AB02") {
			t.Errorf("%v %s: %d %s, want AB02", call, body, a.Status, a.Body)
		}
	}
}

func TestPublishingHasAScopeOfItsOwn(t *testing.T) {
	b := routetest.New(t, prompts.Add)
	p := save(t, b.Root(), "a")
	for scope, call := range map[access.Scope][3]string{
		"prompts.publish": {"PUT", "/prompts/" + p.Slug + "/makeDefault", `{"version":1}`}, "prompts.read": {"GET", "/prompts/" + p.Slug, ""},
		"prompts.list": {"GET", "/prompts", ""}, "prompts.update": {"PUT", "/prompts/" + p.Slug, `{"name":"b"}`}, "prompts.create": {"POST", "/prompts", `{"name":"c","string":"x"}`},
	} {
		with := b.As(access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{scope}})
		var others []access.Scope
		for _, s := range access.Scopes(access.WorkspaceService) {
			if s != scope {
				others = append(others, s)
			}
		}
		without := b.As(access.Identity{Type: access.WorkspaceService, Scopes: others})
		if a := with.Call(call[0], call[1], call[2]); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", scope, a.Status, a.Body)
		}
		if a := without.Call(call[0], call[1], call[2]); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03") {
			t.Errorf("without %s: %d %s", scope, a.Status, a.Body)
		}
	}
}

// mustList decodes the data of a list.
func mustList[T any](c *routetest.Caller, path string, into *[]T) {
	list := struct{ Data *[]T }{into}
	c.Must("GET", path, "", &list)
}
