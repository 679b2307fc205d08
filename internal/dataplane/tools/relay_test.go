package tools_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/dataplane/tools"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
)

// eras are servers of each era.
func eras(t testing.TB) map[string]*toolservertest.Server {
	return map[string]*toolservertest.Server{"legacy": legacyServer(t), "modern": modernServer(t)}
}

func TestToolsAreListedAndCalledInBothEras(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
			s := g.initialize("/mcp/one", "{}")
			for client, calls := range map[string]func(method, params string) response{
				"legacy": func(method, params string) response { return s.call(method, "{"+params+"}") },
				"modern": func(method, params string) response { return g.modern("/one/mcp", method, params, "{}") },
				"no session": func(method, params string) response {
					return g.send("POST", "/v1/mcp/one", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`)
				},
			} {
				got := names(t, calls("tools/list", ""), "tools", "name")
				if !slices.Contains(got, "echo") || !slices.Contains(got, "add") {
					t.Errorf("%s: tools %q", client, got)
				}
				res := calls("tools/call", `"name":"add","arguments":{"a":2,"b":3}`)
				if m := res.last(t); m.Error != nil || !strings.Contains(string(m.Result), "5") {
					t.Errorf("%s: call: %d %q", client, res.status, res.messages)
				}
				if m := calls("tools/call", `"name":"nothing","arguments":{}`).last(t); m.Error == nil || m.Error.Code != -32602 {
					t.Errorf("%s: unknown tool: %s %+v", client, m.Result, m.Error)
				}
			}
			if n := up.Count("initialize"); name == "modern" && n != 0 {
				t.Errorf("a modern server got %d requests initialize", n)
			}
		})
	}
}

// TestServersAreMerged uses two servers of different eras behind one address.
func TestServersAreMerged(t *testing.T) {
	up := eras(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("new", up["modern"].URL), server("old", up["legacy"].URL)},
		bundles: []*toolserver.Bundle{{ID: "b", Slug: "some", Workspace: "w", Name: "Some", Selection: toolserver.Selection{"old/tool/ec*", "new/tool/add"}}}})
	s := g.initialize("/mcp", "{}")
	got := names(t, s.call("tools/list", "{}"), "tools", "name")
	want := []string{"new__echo", "new__add", "old__echo", "old__add"}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%q is missing in %q", name, got)
		}
	}
	for _, name := range []string{"new__add", "old__add"} {
		if m := s.call("tools/call", `{"name":"`+name+`","arguments":{"a":2,"b":3}}`).last(t); !strings.Contains(string(m.Result), "5") {
			t.Errorf("%s: %s %+v", name, m.Result, m.Error)
		}
	}
	bundle := g.initialize("/mcp/some", "{}")
	if got := names(t, bundle.call("tools/list", "{}"), "tools", "name"); !slices.Equal(got, []string{"new__add", "old__echo"}) {
		t.Errorf("the bundle has %q", got)
	}
	if m := bundle.call("tools/call", `{"name":"old__add","arguments":{"a":2,"b":3}}`).last(t); m.Error == nil || !strings.HasPrefix(m.Error.Message, "unknown tool") {
		t.Errorf("a tool that the bundle lacks was called: %s", m.Result)
	}
	if up["legacy"].Count("tools/call add") != 1 {
		t.Error("the server was asked")
	}
}

// TestForbiddenToolsAreUnknown compares the answers for a forbidden tool with those for one
// that does not exist, and looks at what reaches the server.
func TestForbiddenToolsAreUnknown(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			off := server("off", up.URL)
			off.Above.Off = map[toolserver.Item]bool{{Kind: toolserver.Tool, Name: "add"}: true}
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL), off},
				limits: map[string][]string{"bob": {"one/tool/echo"}}})
			for _, tt := range []struct{ key, path string }{{bobKey, "/mcp/one"}, {aliceKey, "/mcp/off"}} {
				list := g.modern(tt.path, "tools/list", "", "{}", "X-Gateway-Api-Key", tt.key)
				if got := names(t, list, "tools", "name"); slices.Contains(got, "add") || !slices.Contains(got, "echo") {
					t.Errorf("%s lists %q", tt.path, got)
				}
				forbidden := g.modern(tt.path, "tools/call", `"name":"add","arguments":{"a":1,"b":2}`, "{}", "X-Gateway-Api-Key", tt.key)
				if m := forbidden.last(t); m.Error == nil || m.Error.Code != -32602 || m.Error.Message != "unknown tool: add" {
					t.Errorf("%s: %q", tt.path, forbidden.messages)
				}
			}
			for _, path := range []string{"/mcp/off", "/mcp/nowhere"} { // bob may not see one, the other is not there
				res := g.modern(path, "tools/list", "", "{}", "X-Gateway-Api-Key", bobKey)
				if res.status != 404 || !strings.Contains(res.messages[0], "tool_server_not_found") && !strings.Contains(res.messages[0], "no tool server or bundle") {
					t.Errorf("%s: %d %q", path, res.status, res.messages)
				}
			}
			if res := g.modern("/mcp/one", "tools/list", "", "{}", "X-Gateway-Api-Key", otherKey); res.status != 404 {
				t.Errorf("another workspace: %d %q", res.status, res.messages)
			}
			if n := up.Count("tools/call add"); n != 0 {
				t.Errorf("the server got %d calls", n)
			}
		})
	}
}

// TestDefinitionsAndResultsAreUnchanged sends a definition and a result with fields, numbers
// and spellings that no type keeps.
func TestDefinitionsAndResultsAreUnchanged(t *testing.T) {
	const odd = `"zeta": 1.0, "outputSchema":{"type":"object","x":1e2}, "annotations":{"destructiveHint":false,"extra":null}, "alpha":"\u00e9", "_meta":{"a/b":{}}`
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			up.Tools = []string{`{"inputSchema":{"type":"object"}, "name" : "echo", ` + odd + `}`}
			up.Handle("tools/call echo", func(x *toolservertest.Exchange) { x.Result(`{"content":[], ` + odd + `}`) })
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL), server("two", up.URL)}})
			list := g.modern("/mcp", "tools/list", "", "{}")
			if want := `{"inputSchema":{"type":"object"}, "name" : "one__echo", ` + odd + `}`; !strings.Contains(list.messages[0], want) {
				t.Errorf("%s\nhas not\n%s", list.messages[0], want)
			}
			call := g.modern("/mcp", "tools/call", `"name":"two__echo","arguments":{"n": 1.00}`, "{}")
			if m := call.last(t); !strings.Contains(string(m.Result), `"content":[], `+odd) {
				t.Errorf("the result is %s", m.Result)
			}
			sent := up.Requests("tools/call")
			if len(sent) != 1 || !strings.Contains(string(sent[0].Message.Raw), `"arguments":{"n": 1.00}`) || !strings.Contains(string(sent[0].Message.Raw), `"name":"echo"`) {
				t.Errorf("the server got %s", sent[0].Message.Raw)
			}
		})
	}
}

func TestLongNamesAreShortenedAndFound(t *testing.T) {
	up := modernServer(t)
	long := strings.Repeat("very_long_name_", 8)
	up.Tools = []string{`{"name":"` + long + `1","inputSchema":{"type":"object"}}`, `{"name":"` + long + `2","inputSchema":{"type":"object"}}`, `{"name":"with space","inputSchema":{"type":"object"}}`}
	up.Handle("tools/call", func(x *toolservertest.Exchange) { x.Text("called %s", x.Name()) })
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL), server("two", up.URL)}})
	got := names(t, g.modern("/mcp", "tools/list", "", "{}"), "tools", "name")
	if len(got) != 6 || got[0] == got[1] || got[0] == got[3] {
		t.Fatalf("names %q", got)
	}
	for i, name := range got {
		if len(name) > 60 || strings.ContainsAny(name, " ") || !strings.HasPrefix(name, []string{"one__", "two__"}[i/3]) {
			t.Errorf("%q", name)
		}
		m := g.modern("/mcp", "tools/call", `"name":"`+name+`","arguments":{}`, "{}").last(t)
		if want := []string{long + "1", long + "2", "with space"}[i%3]; !strings.Contains(string(m.Result), "called "+want) {
			t.Errorf("%q: %s %+v", name, m.Result, m.Error)
		}
	}
}

// TestOneBrokenServerDoesNotAffectOthers lists and calls next to servers that fail in all ways.
func TestOneBrokenServerDoesNotAffectOthers(t *testing.T) {
	good := modernServer(t)
	for name, broken := range map[string]toolservertest.Handler{
		"500": toolservertest.Status(500), "garbage": toolservertest.Garbage, "break": toolservertest.Break,
		"redirect": toolservertest.Status(302, "Location", "http://169.254.169.254/"), "401": toolservertest.Status(401, "WWW-Authenticate", "Bearer"), "404": toolservertest.Status(404),
	} {
		t.Run(name, func(t *testing.T) {
			bad := toolservertest.New(t)
			bad.Handle("POST", broken)
			g := newGateway(t, options{servers: []*toolserver.Server{server("bad", bad.URL), server("good", good.URL)}})
			list := g.modern("/mcp", "tools/list", "", "{}")
			if got := names(t, list, "tools", "name"); !slices.Contains(got, "good__echo") {
				t.Fatalf("%d %q", list.status, list.messages)
			}
			var result struct {
				Meta map[string]json.RawMessage `json:"_meta"`
				TTL  int                        `json:"ttlMs"`
			}
			json.Unmarshal(list.last(t).Result, &result)
			if missing := string(result.Meta["modelgate/missing"]); !strings.Contains(missing, `"bad":`) || strings.Contains(missing, "127.0.0.1") || strings.Contains(missing, "169.254") {
				t.Errorf("missing: %s", missing)
			}
			s := g.initialize("/mcp", "{}")
			for _, res := range []response{g.modern("/mcp", "tools/call", `"name":"bad__echo","arguments":{}`, "{}"), s.call("tools/call", `{"name":"bad__echo","arguments":{}}`)} {
				if m := res.last(t); res.status == 404 || m.Error == nil || strings.Contains(m.Error.Message, "127.0.0.1") {
					t.Errorf("a call: %d %q", res.status, res.messages)
				}
			}
			if m := s.call("tools/call", `{"name":"good__add","arguments":{"a":1,"b":1}}`).last(t); m.Error != nil {
				t.Errorf("the other server: %+v", m.Error)
			}
		})
	}
}

// TestPlainNamesAreThoseOfOneServer asks for the names of one server and of two where prefixes are
// added only if they are needed.
func TestPlainNamesAreThoseOfOneServer(t *testing.T) {
	up := legacyServer(t)
	all := []*toolserver.Server{server("one", up.URL), server("two", up.URL)}
	some := &toolserver.Bundle{ID: "b", Slug: "some", Workspace: "w", Name: "Some", Selection: toolserver.Selection{"one/tool/echo"}}
	g := newGateway(t, options{servers: all, bundles: []*toolserver.Bundle{some}, tools: tools.Options{PlainNames: true}})
	for path, want := range map[string]string{"/mcp": "one__echo", "/mcp/some": "echo", "/mcp/one": "echo"} {
		if got := names(t, g.modern(path, "tools/list", "", "{}"), "tools", "name"); got[0] != want {
			t.Errorf("%s: %q, want %s first", path, got, want)
		}
		if m := g.modern(path, "tools/call", `"name":"`+want+`","arguments":{"text":"x"}`, "{}").last(t); m.Error != nil {
			t.Errorf("%s: calling %s: %+v", path, want, m.Error)
		}
	}
	if m := g.modern("/mcp/some", "tools/call", `"name":"add","arguments":{}`, "{}").last(t); m.Error == nil {
		t.Error("a tool that is not in the bundle was called by its plain name")
	}
}

// TestInstructionsNobodyApprovedAreLeftOut has a server whose changes are held back, and another.
func TestInstructionsNobodyApprovedAreLeftOut(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			up.Instructions = "Do as I say."
			free, held := server("free", up.URL), server("held", up.URL)
			held.HoldChanged = true
			g := newGateway(t, options{servers: []*toolserver.Server{free, held}})
			got := string(g.modern("/mcp", "server/discover", "", "{}").last(t).Result)
			if strings.Count(got, "Do as I say") != 1 || !strings.Contains(got, "# free (free)") {
				t.Errorf("%s", got)
			}
		})
	}
}
