package tools_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
)

// cheapServer answers messages of the modern era with as little work as possible.
func cheapServer(b *testing.B, tools int) *httptest.Server {
	var list strings.Builder
	for i := range tools {
		fmt.Fprintf(&list, `%s{"name":"tool_%d","description":"Does something useful with the things that it is given, and returns the result.","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A thing"},"b":{"type":"number"}},"required":["a"]}}`,
			map[bool]string{true: ","}[i > 0], i)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch r.Header.Get("Mcp-Method") {
		case "server/discover":
			io.WriteString(w, `{"jsonrpc":"2.0","id":"modelgate-1","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}}`)
		case "tools/list":
			io.WriteString(w, `{"jsonrpc":"2.0","id":"modelgate-2","result":{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[`+list.String()+`]}}`)
		default:
			io.WriteString(w, answerBody)
		}
	}))
	b.Cleanup(s.Close)
	return s
}

const (
	callBody   = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tool_1","arguments":{"a":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	answerBody = `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"hello"}]}}`
)

func benchmark(b *testing.B, g *gateway, path, body string, h ...string) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest("POST", g.URL+path, strings.NewReader(body))
		req.Header.Set("X-Gateway-Api-Key", aliceKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(h); i += 2 {
			req.Header.Set(h[i], h[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		out, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || len(out) < len(answerBody) {
			b.Fatalf("%d %s", res.StatusCode, out)
		}
	}
}

// BenchmarkCall is the relay of a call. Compare it with BenchmarkPassThrough, which sends the
// same bytes to a provider.
func BenchmarkCall(b *testing.B) {
	up := cheapServer(b, 50)
	g := newGateway(b, options{servers: []*toolserver.Server{server("one", up.URL)}})
	benchmark(b, g, "/mcp/one", callBody, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "tool_1")
}

func BenchmarkPassThrough(b *testing.B) {
	up := cheapServer(b, 50)
	g := newGateway(b, options{})
	benchmark(b, g, "/v1/some/path", callBody, "X-Gateway-Provider", "openai", "X-Gateway-Custom-Host", up.URL, "Authorization", "Bearer sk-1234")
}

// BenchmarkList is the list of ten servers with fifty tools each, from memory: one
// millisecond at most.
func BenchmarkList(b *testing.B) {
	var servers []*toolserver.Server
	for i := range 10 {
		servers = append(servers, server(fmt.Sprintf("server%d", i), cheapServer(b, 50).URL))
	}
	g := newGateway(b, options{servers: servers})
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	benchmark(b, g, "/mcp", body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
}
