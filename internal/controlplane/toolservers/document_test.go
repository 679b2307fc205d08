package toolservers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/provider/toolserver/openapi"
	"modelgate/internal/store"
	"modelgate/internal/testing/waittest"
)

const petDocument = `{"openapi": "3.1.0", "info": {"title": "Pets", "version": "2"}, "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "pets.example.com"}}}],
	"paths": {"/pets": {"get": {"operationId": "listPets"}}, "/upload": {"post": {"requestBody": {"required": true, "content": {"multipart/form-data": {}}}}}}}`

const petYAML = "openapi: 3.0.3\ninfo: {title: Pets, version: '2'}\npaths:\n  /pets:\n    get:\n      operationId: listPets\n      responses:\n        200: {description: ok}\n"

// apiIntegration is what tests read of an integration.
type apiIntegration struct {
	URL            string
	Configurations struct {
		Document    string
		DocumentURL string `json:"document_url"`
	}
	API *struct {
		Title, Version string
		Tools          int
		LeftOut        []string `json:"left_out"`
	}
}

// importAPI creates an integration of an API, and returns the response.
func (w *world) importAPI(slug, fields, configurations string) (status int, body string) {
	got := w.root.Call("POST", "/mcp-integrations", `{"name":"`+slug+`","slug":"`+slug+`","transport":"openapi","auth_type":"none"`+fields+`,"configurations":`+configurations+`}`)
	return got.Status, got.Body
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

func TestDocumentOfAnAPIIsImported(t *testing.T) {
	w := newWorld(t)
	if status, body := w.importAPI("pets", "", `{"document":`+quoted(petDocument)+`}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	var got apiIntegration
	w.root.Must("GET", "/mcp-integrations/pets", "", &got)
	if got.URL != "https://pets.example.com/v1" || got.API == nil || got.API.Title != "Pets" || got.API.Tools != 1 ||
		len(got.API.LeftOut) != 1 || !strings.Contains(got.API.LeftOut[0], "POST /upload: a body must be JSON or a form") {
		t.Errorf("the integration is %+v, %+v", got, got.API)
	}
	var list struct{ Data []apiIntegration }
	if w.root.Must("GET", "/mcp-integrations", "", &list); list.Data[0].Configurations.Document != "" || list.Data[0].API == nil {
		t.Errorf("the list has %+v", list.Data[0])
	}
	w.root.Must("PUT", "/mcp-integrations/pets/workspaces", `{"global_workspace_access":{"enabled":true}}`, nil)
	w.server("pets", "pets")
	p := w.published().ToolServers
	if len(p) != 1 {
		t.Fatalf("%d servers are published", len(p))
	}
	s := store.ToolTarget(p[0].Integration, &p[0].Row, store.Secrets{})
	if s.Transport != toolserver.OpenAPI || s.URL.String() != "https://pets.example.com/v1" || !s.Guarded {
		t.Fatalf("the server is %+v", s)
	}
	if d, err := openapi.Parse([]byte(s.Document)); err != nil || d.Tool("listPets") == nil {
		t.Errorf("the document of the server: %v", err)
	}
	// A later document changes neither the address nor, for another host, keeps secrets.
	moved := strings.Replace(petDocument, "pets.example.com", "evil.example.com", 1)
	w.root.Must("PUT", "/mcp-integrations/pets", `{"configurations":{"document":`+quoted(moved)+`}}`, nil)
	if w.root.Must("GET", "/mcp-integrations/pets", "", &got); got.URL != "https://pets.example.com/v1" {
		t.Errorf("a document moved the integration to %s", got.URL)
	}
	w.root.Must("PUT", "/mcp-integrations/pets", `{"name":"Other"}`, nil)
	if w.root.Must("GET", "/mcp-integrations/pets", "", &got); got.Configurations.Document == "" || got.API.Tools != 1 {
		t.Errorf("a change of the name left %+v", got)
	}
}

func TestDocumentsInYAML(t *testing.T) {
	w := newWorld(t)
	if status, body := w.importAPI("pets", `,"url":"https://pets.example.com"`, `{"document":`+quoted(petYAML)+`}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for i, text := range []string{"%YAML 1.2\n---\n" + petYAML, "---\n" + petYAML + "...\n"} { // still one document
		if status, body := w.importAPI(fmt.Sprintf("pets-%d", i), `,"url":"https://pets.example.com"`, `{"document":`+quoted(text)+`}`); status != http.StatusOK {
			t.Errorf("%.40q: %d %s", text, status, body)
		}
	}
	var keys, nested strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	nested.WriteString("a: " + strings.Repeat("[", 100_000))
	for _, text := range []string{keys.String(), nested.String(), strings.Repeat("- ", 10_000), petYAML + "---\nopenapi: 3.0.3\n", petYAML + "paths: {}\n", petYAML + "...\nopenapi: 3.0.3\n", "a: &a [1]\nb: *a\n", "a: !!binary x\n", "a: " + strings.Repeat("x", 1<<20), "a: [", "- a\n", "\x00"} {
		if status, body := w.importAPI("other", `,"url":"https://pets.example.com"`, `{"document":`+quoted(text)+`}`); status != http.StatusBadRequest {
			t.Errorf("%.40q: %d %s", text, status, body)
		}
	}
}

func TestDocumentsAreReadAFewAtATime(t *testing.T) {
	w := newWorld(t)
	began, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan int)
	w.fetch = func(*http.Request) (*http.Response, error) {
		began <- struct{}{}
		<-goOn
		return nil, errors.New("refused")
	}
	for i := range 4 {
		go func() {
			status, _ := w.importAPI(fmt.Sprintf("pets-%d", i), "", `{"document_url":"https://docs.example.com/openapi.json"}`)
			ended <- status
		}()
	}
	for range 4 {
		waittest.Receive(t, began, "a document that is fetched")
	}
	if status, body := w.importAPI("pets", "", `{"document":`+quoted(petDocument)+`}`); status != http.StatusServiceUnavailable || !strings.Contains(body, "too_many_tests") {
		t.Errorf("a fifth document: %d %s", status, body)
	}
	close(goOn)
	for range 4 {
		waittest.Receive(t, ended, "the end of a request")
	}
	if status, body := w.importAPI("pets", "", `{"document":`+quoted(petDocument)+`}`); status != http.StatusOK {
		t.Errorf("a document afterwards: %d %s", status, body)
	}
}

func TestDocumentsAreFetchedThroughTheGuard(t *testing.T) {
	w := newWorld(t)
	var asked []*http.Request
	answer := func() (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(strings.Replace(petDocument, "https://{host}/v1", "/v2", 1)))}, nil
	}
	w.fetch = func(r *http.Request) (*http.Response, error) { asked = append(asked, r); return answer() }
	const from = `{"document_url":"https://docs.example.com/api/openapi.json","custom_headers":{"X-Secret":"` + secretText + `"}}`
	if status, body := w.importAPI("pets", "", from); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	var got apiIntegration
	if w.root.Must("GET", "/mcp-integrations/pets", "", &got); got.URL != "https://docs.example.com/v2" || got.Configurations.Document == "" {
		t.Errorf("the integration is %+v", got)
	}
	if len(asked) != 1 || asked[0].Header.Get("X-Secret") != "" || asked[0].URL.Host != "docs.example.com" {
		t.Errorf("the document was asked for with %+v", asked)
	}
	for name, with := range map[string]func() (*http.Response, error){
		"a redirect": func() (*http.Response, error) { return &http.Response{StatusCode: 302, Body: http.NoBody}, nil },
		"an error":   func() (*http.Response, error) { return nil, errors.New("refused") },
		"too much": func() (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(endless{})}, nil
		},
		"no document": func() (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("<html>"))}, nil
		},
	} {
		answer = with
		if status, body := w.importAPI("other", "", from); status != http.StatusBadRequest || strings.Contains(body, secretText) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	asked = nil
	for _, address := range []string{"http://169.254.169.254/latest", "file:///etc/passwd", "https://user:pass@docs.example.com", "https://127.0.0.1/x", "relative"} {
		if status, body := w.importAPI("other", "", `{"document_url":"`+address+`"}`); status != http.StatusBadRequest || len(asked) != 0 {
			t.Errorf("%s: %d %s", address, status, body)
		}
	}
}

// endless is a body without an end.
type endless struct{}

// Read implements [io.Reader].
func (endless) Read(p []byte) (int, error) { return copy(p, strings.Repeat(" ", len(p))), nil }

func TestDocumentsBelongToTheirTransport(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		`{"name":"x","transport":"http","url":"https://a.example.com","auth_type":"none","configurations":{"document":"{}"}}`,
		`{"name":"x","transport":"http","url":"https://a.example.com","auth_type":"none","configurations":{"document_url":"https://a.example.com"}}`,
		`{"name":"x","transport":"openapi","url":"https://a.example.com","auth_type":"none"}`,
		`{"name":"x","transport":"openapi","url":"https://a.example.com","auth_type":"none","command":"x","configurations":{"document":` + quoted(petDocument) + `}}`,
		`{"name":"x","transport":"openapi","url":"https://a.example.com?key=1","auth_type":"none","configurations":{"document":` + quoted(petDocument) + `}}`,
		`{"name":"x","transport":"openapi","url":"http://169.254.169.254/","auth_type":"none","configurations":{"document":` + quoted(petDocument) + `}}`,
		`{"name":"x","transport":"openapi","auth_type":"none","configurations":{"document":` + quoted(strings.Replace(petDocument, "https://{host}/v1", "/v1", 1)) + `}}`,
		`{"name":"x","transport":"openapi","auth_type":"none","configurations":{"document":` + quoted(strings.Replace(petDocument, "pets.example.com", "169.254.169.254", 1)) + `}}`,
		`{"name":"x","transport":"openapi","auth_type":"none","configurations":{"document":"{\"swagger\":\"2.0\"}"}}`,
	} {
		if got := w.root.Call("POST", "/mcp-integrations", body); got.Status != http.StatusBadRequest {
			t.Errorf("%.150s: %d %s", body, got.Status, got.Body)
		}
	}
}

func TestSearchAboveIsPublished(t *testing.T) {
	w := newWorld(t)
	w.integration("issues", `"auth_type":"none","configurations":{"search_above":40}`)
	w.server("issues", "issues")
	w.root.Must("POST", "/mcp-bundles", `{"name":"Desk","slug":"desk","workspace_id":"default","tools":["issues"],"search_above":30}`, nil)
	p := w.published()
	if s := store.ToolTarget(p.ToolServers[0].Integration, &p.ToolServers[0].Row, store.Secrets{}); s.SearchAbove != 40 || p.ToolBundles[0].SearchAbove != 30 {
		t.Errorf("published %d and %d", s.SearchAbove, p.ToolBundles[0].SearchAbove)
	}
	w.root.Must("PUT", "/mcp-bundles/desk?workspace_id=default", `{"name":"Other"}`, nil)
	var got struct {
		SearchAbove int `json:"search_above"`
	}
	if w.root.Must("GET", "/mcp-bundles/desk?workspace_id=default", "", &got); got.SearchAbove != 30 {
		t.Errorf("a change of the name left %d", got.SearchAbove)
	}
	w.root.Must("PUT", "/mcp-bundles/desk?workspace_id=default", `{"search_above":0}`, nil)
	if w.published().ToolBundles[0].SearchAbove != 0 {
		t.Error("0 does not list all")
	}
	for _, n := range []string{"-1", "5001", "1.5", `"3"`} {
		if got := w.root.Call("PUT", "/mcp-bundles/desk?workspace_id=default", `{"search_above":`+n+`}`); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", n, got.Status, got.Body)
		}
	}
}
