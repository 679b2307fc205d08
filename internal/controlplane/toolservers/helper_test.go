package toolservers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/routetest"
)

// world is a control plane with a tool server that says what the test wants.
type world struct {
	*routetest.Bench
	t        *testing.T
	root     *routetest.Caller
	commands []string
	probed   *toolserver.Server // that was asked last
	found    func() (*toolserver.Found, error)
	fetch    func(*http.Request) (*http.Response, error)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.Bench = routetest.New(t, controlplane.Families{ToolServers: toolservers.Routes{
		Probe: func(_ context.Context, s *toolserver.Server, _ string) (*toolserver.Found, error) {
			w.probed = s
			return w.found()
		},
		Fetch:    func(r *http.Request) (*http.Response, error) { return w.fetch(r) },
		SignIn:   &toolservers.SignIn{Forget: func(string, string) {}},
		Commands: func() []string { return w.commands },
		Snapshot: w.snapshot,
	}}.Add)
	w.root = w.Root()
	return w
}

// published returns what requests read.
func (w *world) published() *publication.State {
	w.t.Helper()
	p, err := publication.Load(w.t.Context(), w.DB, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) snapshot() *snapshot.Snapshot {
	p := w.published()
	in := snapshot.Input{WorkspaceTools: p.Tools, Users: p.Users}
	for _, s := range p.ToolServers {
		t := store.ToolTarget(s.Integration, &s.Row, store.Secrets{})
		t.Own, t.Above, t.Users = store.ToolItemRules(s.Own), store.ToolItemRules(s.Above), s.Users
		in.ToolServers = append(in.ToolServers, t)
	}
	for _, b := range p.ToolBundles {
		in.ToolBundles = append(in.ToolBundles, &toolserver.Bundle{Slug: b.Slug, Name: b.Name, Workspace: b.Workspace, Selection: b.Selection})
	}
	s, err := snapshot.Build(in)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// integration creates an integration of the organisation with further fields, which all
// workspaces have.
func (w *world) integration(slug, fields string) (id string) {
	w.t.Helper()
	var out struct{ ID string }
	if fields == "" {
		fields = `"auth_type":"none"`
	}
	w.root.Must("POST", "/mcp-integrations", `{"name":"`+slug+`","slug":"`+slug+`","url":"https://tools.example.com/mcp","transport":"http",`+fields+`}`, &out)
	w.root.Must("PUT", "/mcp-integrations/"+slug+"/workspaces", `{"global_workspace_access":{"enabled":true}}`, nil)
	return out.ID
}

// server creates a server of the default workspace.
func (w *world) server(slug, integration string) (id string) {
	w.t.Helper()
	var out struct{ ID string }
	w.root.Must("POST", "/mcp-servers", `{"name":"`+slug+`","slug":"`+slug+`","mcp_integration_id":"`+integration+`","workspace_id":"default"}`, &out)
	return out.ID
}

// workspace creates a workspace and returns its id.
func (w *world) workspace(name string) string {
	w.t.Helper()
	var out struct{ ID string }
	w.root.Must("POST", "/workspaces", `{"name":"`+name+`"}`, &out)
	return out.ID
}

// offers makes the server offer tools with definitions, by their name.
func (w *world) offers(tools map[string]string) {
	w.found = func() (*toolserver.Found, error) {
		f := &toolserver.Found{Title: "Issues", Name: "issues", Version: "1.2", Protocol: "2026-07-28", Capabilities: map[string]bool{"tools": true}, Status: 200}
		for name, definition := range tools {
			f.Items = append(f.Items, toolserver.FoundItem{Item: toolserver.Item{Kind: toolserver.Tool, Name: name}, Definition: []byte(definition)})
		}
		return f, nil
	}
}

// capability is a capability in a response.
type capability struct {
	Name, Type, State string
	Enabled           bool
	Digest            *string
	Approved          *string  `json:"approved_digest"`
	Price             *float64 `json:"price_per_call"`
	Definition        json.RawMessage
}

// capabilities returns those of a server or an integration by name.
func (w *world) capabilities(path string) map[string]capability {
	w.t.Helper()
	var list struct{ Data []capability }
	w.root.Must("GET", path+"/capabilities?workspace_id=default", "", &list)
	out := make(map[string]capability)
	for _, c := range list.Data {
		out[c.Name] = c
	}
	return out
}
