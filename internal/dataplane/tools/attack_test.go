package tools_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
)

// TestMalformedMessagesAreRefused sends what parsers read differently, and what no server
// should have to read.
func TestMalformedMessagesAreRefused(t *testing.T) {
	up := modernServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}, limits: map[string][]string{"alice": {"one/tool/echo"}}})
	for name, tt := range map[string]struct {
		body         string
		status, code int
	}{
		"batch":                      {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 400, -32600},
		"empty":                      {``, 400, -32700},
		"not JSON":                   {`{`, 400, -32700},
		"two documents":              {`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, 400, -32700},
		"a number":                   {`7`, 400, -32600},
		"no version":                 {`{"id":1,"method":"ping"}`, 400, -32600},
		"no method":                  {`{"jsonrpc":"2.0","id":1}`, 400, -32600},
		"null id":                    {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600},
		"two methods":                {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, 400, -32600},
		"escaped second method":      {`{"jsonrpc":"2.0","id":1,"method":"ping","meth\u006fd":"tools/call"}`, 400, -32600},
		"two names":                  {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"add"}}`, 200, -32602},
		"two names, escaped":         {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","n\u0061me":"add"}}`, 200, -32602},
		"another spelling of a name": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"add"}}`, 200, -32602},
		"another spelling, folded":   {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","argument\u017f":{}}}`, 200, -32602},
		"another spelling of an id":  {`{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}`, 400, -32600},
		"two metas":                  {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{},"_meta":{}}}`, 200, -32602},
		"params as a list":           {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["echo"]}`, 200, -32602},
		"deep":                       {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}}`, 400, -32700},
		"long id":                    {`{"jsonrpc":"2.0","id":"` + strings.Repeat("a", 300) + `","method":"ping"}`, 400, -32600},
		"unknown method":             {`{"jsonrpc":"2.0","id":1,"method":"tools/install"}`, 200, -32601},
		"name of a number":           {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, 200, -32602},
		"cursor of nobody":           {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"abc"}}`, 200, -32602},
	} {
		res := g.send("POST", "/mcp/one", tt.body)
		if m := res.last(t); res.status != tt.status || m.Error == nil || m.Error.Code != tt.code {
			t.Errorf("%s: %d %q, want %d and %d", name, res.status, res.messages, tt.status, tt.code)
		}
	}
	if n := up.Count("tools/call"); n != 0 {
		t.Errorf("the server got %d calls", n)
	}
	if res := g.send("PUT", "/mcp/one", "{}"); res.status != 405 {
		t.Errorf("PUT: %d", res.status)
	}
	if res := g.send("GET", "/mcp/one", ""); res.status != 405 {
		t.Errorf("GET without a session: %d", res.status)
	}
}

func TestHeadersOfTheModernEraAreChecked(t *testing.T) {
	up := modernServer(t)
	up.Tools = append(up.Tools, `{"name":"located","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"size":{"type":"integer","x-mcp-header":"Size"}}}}`)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	const call = `"name":"located","arguments":{"region":"Zürich","size":42}`
	const region, size = "Mcp-Param-Region", "Mcp-Param-Size"
	encoded := "=?base64?WsO8cmljaA==?="
	for name, tt := range map[string]struct {
		headers      []string
		status, code int
	}{
		"as they should be": {[]string{region, encoded, size, "42"}, 200, 0},
		"another spelling":  {[]string{region, encoded, size, "42.0"}, 200, 0},
		"no version":        {[]string{region, encoded, size, "42", "Mcp-Protocol-Version", ""}, 400, -32020},
		"another version":   {[]string{region, encoded, size, "42", "Mcp-Protocol-Version", "2025-11-25"}, 400, -32020},
		"another method":    {[]string{region, encoded, size, "42", "Mcp-Method", "tools/list"}, 400, -32020},
		"another name":      {[]string{region, encoded, size, "42", "Mcp-Name", "echo"}, 400, -32020},
		"broken name":       {[]string{region, encoded, size, "42", "Mcp-Name", "=?base64?%?="}, 400, -32020},
		"another region":    {[]string{region, "Bern", size, "42"}, 400, -32020},
		"no region":         {[]string{size, "42"}, 400, -32020},
		"another size":      {[]string{region, encoded, size, "43"}, 400, -32020},
		"not encoded":       {[]string{region, "Zürich", size, "42"}, 400, -32020},
	} {
		res := g.modern("/mcp/one", "tools/call", call, "{}", tt.headers...)
		m := res.last(t)
		if code := 0; m.Error != nil && m.Error.Code != tt.code || res.status != tt.status || m.Error == nil && tt.code != code {
			t.Errorf("%s: %d %q, want %d and %d", name, res.status, res.messages, tt.status, tt.code)
		}
	}
	for _, r := range up.Requests("tools/call") {
		if r.Header.Get(region) != encoded || r.Header.Get("Mcp-Name") != "located" {
			t.Errorf("the server got %v", r.Header)
		}
	}
	s := g.initialize("/mcp/one", "{}") // a client of the legacy era sends none of them
	before := up.Count("tools/call located")
	if m := s.call("tools/call", "{"+call+"}").last(t); m.Error != nil {
		t.Errorf("a legacy client: %+v", m.Error)
	}
	if sent := up.Requests("tools/call"); up.Count("tools/call located") != before+1 || sent[len(sent)-1].Header.Get(size) != "42" {
		t.Errorf("for a legacy client the server got %v", sent[len(sent)-1].Header)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`
	res := g.send("POST", "/mcp/one", body, "Mcp-Protocol-Version", "1900-01-01", "Mcp-Method", "tools/list")
	if m := res.last(t); res.status != 400 || m.Error == nil || m.Error.Code != -32022 || !strings.Contains(string(m.Error.Data), `"2026-07-28"`) || !strings.Contains(string(m.Error.Data), `"requested":"1900-01-01"`) {
		t.Errorf("an unknown version: %d %q", res.status, res.messages)
	}
}

func TestHostileDefinitionsAreLeftOut(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			tool := func(name, schema string) string {
				return fmt.Sprintf(`{"name":%q,"inputSchema":%s}`, name, schema)
			}
			up.Tools = []string{
				tool("good", `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"},"x-mcp-header":{"type":"string"}},"$defs":{"b":{}}}`),
				tool("leads out", `{"type":"object","properties":{"a":{"$ref":"https://attacker.example/schema"}}}`),
				tool("leads to a file", `{"$ref":"file:///etc/passwd"}`),
				tool("deep", `{"a":`+strings.Repeat(`{"not":`, 200)+"{}"+strings.Repeat("}", 200)+`}`),
				tool("bad header", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`),
				tool("header of a number", `{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`),
				tool("header in a list", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`),
				tool("two headers", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`),
				tool("no schema", `"object"`),
				tool("good", `{}`), // again
				tool("", `{}`),
				`{"name":"huge","description":"` + strings.Repeat("a", 300<<10) + `","inputSchema":{}}`,
				`{"name":"twice","name":"again","inputSchema":{}}`,
				`"text"`,
			}
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
			if got := names(t, g.modern("/mcp/one", "tools/list", "", "{}"), "tools", "name"); !slices.Equal(got, []string{"good"}) {
				t.Errorf("%.500q", got)
			}
		})
	}
}

// TestOneServerCannotFillTheList has a server that sends pages without end.
func TestOneServerCannotFillTheList(t *testing.T) {
	up := modernServer(t)
	up.Handle("tools/list", func(x *toolservertest.Exchange) {
		x.Result(fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{}}],"nextCursor":"","ttlMs":1000,"cacheScope":"public"}`, up.Count("tools/list")))
	})
	good := modernServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("endless", up.URL), server("good", good.URL)}})
	if got := names(t, g.modern("/mcp", "tools/list", "", "{}"), "tools", "name"); !slices.Contains(got, "good__echo") || len(got) > 200 {
		t.Errorf("%d names", len(got))
	}
	if n := up.Count("tools/list"); n > 64 {
		t.Errorf("the server was asked %d times", n)
	}
}

func TestPagesOfTheGatewayAreComplete(t *testing.T) {
	up := modernServer(t)
	up.Tools, up.PageSize, up.TTL = nil, 400, 60_000
	for i := range 2500 {
		up.Tools = append(up.Tools, fmt.Sprintf(`{"name":"tool_%04d","inputSchema":{}}`, i))
	}
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	var all []string
	cursor, mine := "", ""
	for range 10 {
		params := ""
		if cursor != "" {
			params, mine = fmt.Sprintf(`"cursor":%q`, cursor), cursor
		}
		res := g.modern("/mcp/one", "tools/list", params, "{}")
		all = append(all, names(t, res, "tools", "name")...)
		var page struct{ NextCursor string }
		json.Unmarshal(res.last(t).Result, &page)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(all) != 2500 || all[0] != "tool_0000" || all[2499] != "tool_2499" || !slices.IsSorted(all) {
		t.Errorf("%d tools", len(all))
	}
	for name, h := range map[string][]string{"another caller": {"X-Gateway-Api-Key", bobKey}} {
		if m := g.modern("/mcp/one", "tools/list", fmt.Sprintf(`"cursor":%q`, mine), "{}", h...).last(t); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: %.100s", name, m.Result)
		}
	}
	if m := g.modern("/mcp/one", "prompts/list", fmt.Sprintf(`"cursor":%q`, mine), "{}").last(t); m.Error == nil {
		t.Errorf("another list: %.100s", m.Result)
	}
}

func TestHeadersReachServersByNameOnly(t *testing.T) {
	up := modernServer(t)
	s := server("one", up.URL)
	s.PassHeaders = []string{"X-Team", "Authorization", "X-Gateway-Api-Key"}
	s.Headers = map[string]secret.String{"X-Api-Token": secret.New("of the server")}
	g := newGateway(t, options{servers: []*toolserver.Server{s}})
	g.modern("/mcp/one", "tools/call", `"name":"echo","arguments":{}`, "{}", "X-Team", "blue", "X-Other", "secret", "Cookie", "a=b", "Authorization", "Bearer "+aliceKey)
	sent := up.Requests("tools/call")
	if len(sent) != 1 {
		t.Fatalf("%d calls", len(sent))
	}
	h := sent[0].Header
	if h.Get("X-Team") != "blue" || h.Get("X-Api-Token") != "of the server" {
		t.Errorf("the server got %v", h)
	}
	for _, name := range []string{"X-Other", "Cookie", "Authorization", "X-Gateway-Api-Key"} {
		if h.Get(name) != "" {
			t.Errorf("%s reached the server: %q", name, h.Get(name))
		}
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	up := modernServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}, tools: tools.Options{Origins: []string{"https://app.example.com"},
		PublicURL: func() string { return "https://gateway.example.com/ai" }}})
	try := func(host, origin string) int {
		r := httptest.NewRequest("POST", "/mcp/one", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		req, _ := http.NewRequest("POST", g.URL+"/mcp/one", r.Body)
		req.Header.Set("X-Gateway-Api-Key", aliceKey)
		if host != "" {
			req.Host = host
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	own := strings.TrimPrefix(g.URL, "http://")
	for _, tt := range []struct {
		host, origin string
		want         int
	}{
		{"", "", 200}, {own, "http://" + own, 200}, {"localhost:80", "", 200}, {"gateway.example.com", "", 200},
		{"", "https://app.example.com", 200}, {"gateway.example.com", "https://gateway.example.com", 200},
		{"", "https://attacker.example", 403}, {"", "null", 403}, {"", "http://localhost:3000", 403},
		{"attacker.example", "http://attacker.example", 403}, {"attacker.example:8787", "", 403}, {"", "https://app.example.com.attacker.example", 403},
	} {
		if got := try(tt.host, tt.origin); got != tt.want {
			t.Errorf("host %q, origin %q: %d, want %d", tt.host, tt.origin, got, tt.want)
		}
	}
}

// TestMessagesWithoutAnIDCallNothing sends what some servers carry out although nobody waits for
// a response.
func TestMessagesWithoutAnIDCallNothing(t *testing.T) {
	up := legacyServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}, limits: map[string][]string{"alice": {"one/tool/echo"}}})
	s := g.initialize("/mcp/one", "{}")
	for _, method := range []string{"tools/call", "resources/read", "notifications/anything", "initialize"} {
		if res := s.post(`{"jsonrpc":"2.0","method":"` + method + `","params":{"name":"add","uri":"test://one"}}`); res.status != 202 {
			t.Errorf("%s: %d %q", method, res.status, res.messages)
		}
	}
	for _, method := range []string{"tools/call", "resources/read", "notifications/anything"} {
		if n := up.Count(method); n != 0 {
			t.Errorf("%s reached the server %d times", method, n)
		}
	}
}

func TestStreamsOfACallerAreBounded(t *testing.T) {
	up := legacyServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	s := g.initialize("/mcp/one", "{}")
	for n := range 25 {
		res := g.open(t.Context(), "GET", "/mcp/one", "", "Mcp-Session-Id", s.id)
		defer res.Body.Close()
		if want := 200; n < 20 && res.StatusCode != want || n >= 20 && res.StatusCode != 429 {
			t.Fatalf("stream %d: %d", n, res.StatusCode)
		}
	}
	other := g.initialize("/mcp/one", "{}", "X-Gateway-Api-Key", bobKey)
	if res := g.open(t.Context(), "GET", "/mcp/one", "", "Mcp-Session-Id", other.id, "X-Gateway-Api-Key", bobKey); res.StatusCode != 200 {
		t.Errorf("another caller: %d", res.StatusCode)
	}
}

// TestAmbiguousResourcesAreNotRead has two servers with the same URI, one of them with a
// template that fits.
func TestAmbiguousResourcesAreNotRead(t *testing.T) {
	good, bad := modernServer(t), modernServer(t)
	bad.Templates = []string{`{"uriTemplate":"test://on{rest}","name":"all"}`}
	g := newGateway(t, options{servers: []*toolserver.Server{server("bad", bad.URL), server("good", good.URL)}})
	if m := g.modern("/mcp", "resources/read", `"uri":"test://one"`, "{}").last(t); m.Error == nil {
		t.Errorf("%s", m.Result)
	}
	if m := g.modern("/mcp", "resources/read", `"uri":"good+test://one"`, "{}").last(t); m.Error != nil {
		t.Errorf("%+v", m.Error)
	}
	if n := bad.Count("resources/read"); n != 0 {
		t.Errorf("the other server got %d requests", n)
	}
}

func TestResourcesThatAreOffCannotBeRespelled(t *testing.T) {
	up := modernServer(t)
	up.Resources = []string{`{"uri":"db:///users","name":"u"}`, `{"uri":"db:///orders","name":"o"}`, `{"uri":"srv:///a/b","name":"b"}`}
	up.Templates = []string{`{"uriTemplate":"log:///{day}","name":"log"}`}
	s := server("one", up.URL)
	s.Own.Off = map[toolserver.Item]bool{{Kind: toolserver.Resource, Name: "db:///users"}: true, {Kind: toolserver.Template, Name: "log:///{day}"}: true}
	g := newGateway(t, options{servers: []*toolserver.Server{s}, limits: map[string][]string{"bob": {"one/resource/srv:///a/*"}}})
	read := func(key, uri string) bool {
		return g.modern("/mcp/one", "resources/read", `"uri":"`+uri+`"`, "{}", "X-Gateway-Api-Key", key).last(t).Error == nil
	}
	if !read(aliceKey, "db:///orders") || !read(bobKey, "srv:///a/b") {
		t.Error("what is allowed cannot be read")
	}
	before := up.Count("resources/read")
	for _, uri := range []string{"db:///users", "db:///%75sers", "db:///%2575sers", "DB:///USERS", "log:///monday", "log:///%6donday"} {
		if read(aliceKey, uri) {
			t.Errorf("%s was read", uri)
		}
	}
	for _, uri := range []string{"srv:///a/../b", "srv:///a/%2e%2e/b", "srv:///a/%252e%252e/b", `srv:///a/..%5cb`, "db:///orders"} {
		if read(bobKey, uri) {
			t.Errorf("%s was read with a key for srv:///a/*", uri)
		}
	}
	if n := up.Count("resources/read"); n != before {
		t.Errorf("the server got %d requests", n-before)
	}
}
