package tools_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/dataplane/tools"
	"modelgate/internal/provider/toolserver"
)

// notesDocument returns a document of n operations on notes, with schemas of a usual size.
func notesDocument(n int) string {
	var b strings.Builder
	for i := range n {
		verb := []string{"create", "search", "delete", "archive"}[i%4]
		fmt.Fprintf(&b, `,"/notes%d/{id}":{"post":{"operationId":"%s_note_%d","summary":"%ss a note","description":"Works on notes of the team %d. It needs the right to write, and returns the note as it is afterwards.",
			"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"},"description":"Id of the note"}],
			"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"title":{"type":"string","description":"Title of at most 80 characters"},"body":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}},"due":{"type":"string","format":"date"}}}}}}}}`,
			i, verb, i, verb, i)
	}
	return `{"openapi":"3.1.0","paths":{` + b.String()[1:] + `,"/call":{"get":{"operationId":"call_tool","description":"Rings"}}}}`
}

func (g *gateway) text(path, tool, arguments string, h ...string) (text string, isError bool) {
	g.t.Helper()
	got := resultOf(g.t, g.modern(path, "tools/call", `"name":"`+tool+`","arguments":`+arguments, "{}", h...))
	return got.Content[0].Text, got.IsError
}

// newSearch returns a gateway with an API of n tools, whose addresses show 50 at most.
func newSearch(t *testing.T, n int, change func(*toolserver.Server)) (*gateway, *pets) {
	api := newPets(t)
	s := apiServer("notes", api.URL, notesDocument(n))
	s.SearchAbove = 50
	if change != nil {
		change(s)
	}
	selection, err := toolserver.ParseSelection([]string{"notes"})
	if err != nil {
		t.Fatal(err)
	}
	bundle := &toolserver.Bundle{ID: "b", Slug: "desk", Workspace: "w", Name: "Desk", Selection: selection, SearchAbove: 50}
	g := newGateway(t, options{servers: []*toolserver.Server{s}, bundles: []*toolserver.Bundle{bundle}, tools: tools.Options{SearchAbove: 50},
		limits: map[string][]string{"bob": {"notes/tool/search_*"}}})
	return g, api
}

var searchNames = []string{"search_tools", "describe_tool", "call_tool"}

func TestLongListsAreReplacedByTools(t *testing.T) {
	g, api := newSearch(t, 96, nil)
	for path, prefix := range map[string]string{"/mcp": "notes__", "/mcp/notes": "", "/mcp/desk": "notes__"} {
		if got := names(t, g.modern(path, "tools/list", "", "{}"), "tools", "name"); !slices.Equal(got, searchNames) {
			t.Errorf("%s lists %q", path, got)
		}
		if got := names(t, g.initialize(path, "{}").call("tools/list", "{}"), "tools", "name"); !slices.Equal(got, searchNames) {
			t.Errorf("%s lists %q to a legacy client", path, got)
		}
		got, isError := g.text(path, "search_tools", `{"query":"archive note, team 7","limit":2}`)
		if lines := strings.Split(got, "\n"); isError || len(lines) != 3 || lines[0] != prefix+"archive_note_7: archives a note Works on notes of the team 7. It needs the right to write, and returns the note as it is afterwards." ||
			!strings.Contains(lines[2], "more tools fit") {
			t.Errorf("%s: search found %q", path, got)
		}
		definition := string(definitionOf(t, notesDocument(96), "archive_note_7"))
		if got, _ := g.text(path, "describe_tool", `{"name":"`+prefix+`archive_note_7"}`); got != strings.Replace(definition, `"archive_note_7"`, `"`+prefix+`archive_note_7"`, 1) {
			t.Errorf("%s: the definition is %s", path, got)
		}
		if got, isError := g.text(path, "call_tool", `{"name":"`+prefix+`archive_note_7","arguments":{"path":{"id":"x"},"body":{"a": 1.50}}}`); isError || !strings.Contains(got, "/v1/notes7/x") {
			t.Errorf("%s: call_tool: %s", path, got)
		}
		if _, body := api.last(); body != `{"a": 1.50}` {
			t.Errorf("%s: the API received %s", path, body)
		}
		if got, isError := g.text(path, prefix+"archive_note_7", `{"path":{"id":"direct"}}`); isError || !strings.Contains(got, "/v1/notes7/direct") {
			t.Errorf("%s: a direct call: %s", path, got)
		}
		if got, isError := g.text(path, "call_tool", `{"name":"`+prefix+`call_tool"}`); isError || !strings.Contains(got, "/v1/call") {
			t.Errorf("%s: a tool with the name of one for searching: %s", path, got)
		}
	}
	if got, _ := g.text("/mcp", "search_tools", `{"query":""}`); len(strings.Split(got, "\n")) != 21 {
		t.Errorf("without words: %s", got)
	}
	if got, _ := g.text("/mcp", "search_tools", `{"query":"unheard of"}`); !strings.Contains(got, "more tools fit") { // "of" is in each description
		t.Errorf("a word that all have: %s", got)
	}
	if got, _ := g.text("/mcp", "search_tools", `{"query":"zebra"}`); got != "No tool fits; try other words." {
		t.Errorf("a word that none has: %s", got)
	}
	for _, bad := range []string{`{}`, `{"query":1}`, `{"query":"a","limit":21}`, `{"query":"a","limit":0}`, `{"query":"` + strings.Repeat("a", 501) + `"}`} {
		if got, isError := g.text("/mcp", "search_tools", bad); !isError {
			t.Errorf("%.50s: %s", bad, got)
		}
	}
	if got, isError := g.text("/mcp", "call_tool", `{"name":"notes__archive_note_7","path":{"id":"x"}}`); !isError || !strings.Contains(got, "belong into arguments") {
		t.Errorf("arguments at the wrong place: %s", got)
	}
}

func TestShortListsAreShown(t *testing.T) {
	g, _ := newSearch(t, 49, nil)
	if got := names(t, g.modern("/mcp/notes", "tools/list", "", "{}"), "tools", "name"); len(got) != 50 {
		t.Errorf("%d tools are listed", len(got))
	}
	if got, isError := g.text("/mcp/notes", "call_tool", `{}`); isError || !strings.Contains(got, "/v1/call") {
		t.Errorf("the server's own call_tool: %s", got)
	}
}

// TestSearchReachesNothingThatListsHide tries to reach by the tools for searching what the list
// would not have.
func TestSearchReachesNothingThatListsHide(t *testing.T) {
	g, api := newSearch(t, 250, func(s *toolserver.Server) {
		s.Own.Off = map[toolserver.Item]bool{{Kind: toolserver.Tool, Name: "search_note_5"}: true}
		s.HoldChanged = true
		s.Own.Approved = map[toolserver.Item]string{}
		for i := range 250 {
			if name := fmt.Sprintf("search_note_%d", i); i%4 == 1 && i != 9 {
				s.Own.Approved[toolserver.Item{Kind: toolserver.Tool, Name: name}] = toolserver.Digest(definitionOf(t, notesDocument(250), name))
			}
		}
	})
	key := []string{"X-Gateway-Api-Key", bobKey}
	for _, name := range []string{"delete_note_2", "search_note_5", "search_note_9", "no_tool", "search_tools", "call_tool"} { // of the key, off, held, none
		for _, path := range []string{"/mcp", "/mcp/notes"} {
			inner := name
			if path == "/mcp" {
				inner = "notes__" + name
			}
			if got, _ := g.text(path, "search_tools", `{"query":"`+strings.ReplaceAll(name, "_", " ")+`"}`, key...); strings.Contains(got, name+":") {
				t.Errorf("%s: found %s", path, got)
			}
			if got, isError := g.text(path, "describe_tool", `{"name":"`+inner+`"}`, key...); !isError {
				t.Errorf("%s: described %s", path, got)
			}
			direct := g.modern(path, "tools/call", `"name":"`+inner+`x","arguments":{"path":{"id":"1"}}`, "{}", key...).last(t)
			m := g.modern(path, "tools/call", `"name":"call_tool","arguments":{"name":"`+inner+`","arguments":{"path":{"id":"1"}}}`, "{}", key...).last(t)
			if m.Error == nil || m.Error.Code != direct.Error.Code || !strings.HasPrefix(m.Error.Message, "unknown tool: ") {
				t.Errorf("%s: called %s: %s", path, inner, m.Result)
			}
		}
	}
	if n := api.count(); n != 0 {
		t.Errorf("the API received %d requests", n)
	}
	if got, isError := g.text("/mcp", "call_tool", `{"name":"notes__search_note_1","arguments":{"path":{"id":"1"}}}`, key...); isError || api.count() != 1 {
		t.Errorf("an allowed tool: %s", got)
	}
}

// TestRulesApplyToToolsThatAreFound has a server whose rule denies tools that write.
func TestRulesApplyToToolsThatAreFound(t *testing.T) {
	g, api := newSearch(t, 96, func(s *toolserver.Server) { s.Writes = toolserver.Deny })
	call := func(tool, arguments string) string {
		return strings.Join(g.modern("/mcp/notes", "tools/call", `"name":"`+tool+`","arguments":`+arguments, "{}").messages, "")
	}
	direct, found := call("create_note_0", `{"path":{"id":"1"}}`), call("call_tool", `{"name":"create_note_0","arguments":{"path":{"id":"1"}}}`)
	if direct != found || !strings.Contains(found, "isError") && !strings.Contains(found, "error") || api.count() != 0 {
		t.Errorf("a direct call: %s, by call_tool: %s", direct, found)
	}
}

func TestSearchSavesMostOfAList(t *testing.T) {
	for n, least := range map[int]int{96: 95, 251: 98, 508: 99} { // per cent
		g, _ := newSearch(t, n-1, nil)
		short := len(g.modern("/mcp", "tools/list", "", "{}").messages[0])
		all, _ := newSearch(t, n-1, func(s *toolserver.Server) { s.SearchAbove = 0 })
		long := len(all.modern("/mcp/notes", "tools/list", "", "{}").messages[0])
		found, _ := g.text("/mcp", "search_tools", `{"query":"archive note 7"}`)
		about, _ := g.text("/mcp", "describe_tool", `{"name":"notes__archive_note_7"}`)
		if saved := 100 - 100*short/long; saved < least {
			t.Errorf("%d tools: %d bytes instead of %d save %d %%, want %d", n, short, long, saved, least)
		}
		t.Logf("%d tools: %d bytes instead of %d; a search has %d, a definition %d", n, short, long, len(found), len(about))
	}
}
