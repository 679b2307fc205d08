package dataplane_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// TestAPIIsImportedSearchedAndGuarded has a gateway with nothing replaced: it fetches the document
// of an API, shows tools for searching instead of its operations, and calls one of them.
func TestAPIIsImportedSearchedAndGuarded(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/openapi.json" {
			io.WriteString(w, `{"openapi":"3.1.0","info":{"title":"Notes"},"servers":[{"url":"/v1"}],"paths":{"/notes":{"post":{"operationId":"addNote","requestBody":{"content":{"application/json":{}}}},
				"get":{"operationId":"readNotes"}},"/a":{"get":{}}}}`)
			return
		}
		mu.Lock()
		bodies = append(bodies, r.Method+" "+r.URL.Path+" "+string(body))
		mu.Unlock()
		io.WriteString(w, `{"note":"the secret is here"}`)
	}))
	t.Cleanup(api.Close)
	g := &toolGateway{Gateway: gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test of tools", Settings: pairSettings + "\ntools: {search_above: 2}\n"}),
		t: t, key: gatewaytest.Key}
	for _, call := range [][3]string{
		{"POST", "/mcp-integrations", `{"name":"Notes","slug":"notes","transport":"openapi","auth_type":"none","configurations":{"document_url":"` + api.URL + `/openapi.json"}}`},
		{"PUT", "/mcp-integrations/notes/workspaces", `{"workspaces":[{"id":"default","enabled":true}]}`},
		{"POST", "/mcp-servers", `{"name":"Notes","slug":"notes","mcp_integration_id":"notes","workspace_id":"default"}`},
		{"POST", "/mcp-servers/notes/sync?workspace_id=default", ``},
	} {
		if res := g.Do(g.Request(call[0], call[1], call[2], "x-gateway-provider", "")); res.Status != 200 || strings.HasSuffix(call[1], "default") && !strings.Contains(string(res.Body), `"synced"`) {
			t.Fatalf("%v: %d %s", call, res.Status, res.Body)
		}
	}
	g.guard(denySecret, denySecret)
	g.withKey("")
	call := func(tool, arguments string) string {
		t.Helper()
		res := g.send("POST", "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`,
			"authorization", "Bearer "+g.key, "accept", "application/json, text/event-stream")
		return string(res.Body)
	}
	waittest.Until(t, "the API is known and guarded", func() bool {
		got := call("call_tool", `{"name":"notes__readNotes"}`)
		return strings.Contains(got, `"isError":true`) && !strings.Contains(got, "secret is here")
	})
	if got := call("search_tools", `{"query":"note"}`); !strings.Contains(got, "notes__addNote") || !strings.Contains(got, "notes__readNotes") {
		t.Errorf("search_tools: %s", got)
	}
	if got := call("call_tool", `{"name":"notes__addNote","arguments":{"body":{"text":"the secret"}}}`); !strings.Contains(got, `"isError":true`) {
		t.Errorf("a denied argument: %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, b := range bodies {
		if b != "GET /v1/notes " {
			t.Errorf("the API got %s", b)
		}
	}
}
