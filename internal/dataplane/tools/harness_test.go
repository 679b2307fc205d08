package tools_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider/table"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/upstream"
)

// Keys of the gateways of these tests: two callers of one workspace, and one of another.
const (
	aliceKey = "mg-alice-0123456789abcdef"
	bobKey   = "mg-bob-0123456789abcdef"
	otherKey = "mg-other-0123456789abcdef"
)

// gateway is a data plane with tool servers.
type gateway struct {
	*httptest.Server
	t      testing.TB
	holder *snapshot.Holder

	mu      sync.Mutex
	entries []*reqlog.Entry
}

// Record implements [reqlog.Recorder].
func (g *gateway) Record(_ context.Context, e *reqlog.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries = append(g.entries, e)
}

// options are what a test changes.
type options struct {
	servers []*toolserver.Server
	bundles []*toolserver.Bundle
	tools   tools.Options
	limits  map[string][]string // selections, by key
}

var key = secret.New("the master key of tests of tools")

func newBox(t testing.TB) *secret.Box {
	b, err := secret.NewBox(key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newGateway(t testing.TB, o options) *gateway {
	t.Helper()
	g := &gateway{t: t, holder: new(snapshot.Holder)}
	g.publish(o)
	pool := bytepool.New(64 << 20)
	client := upstream.New(upstream.Options{TrustLoopback: true})
	o.tools.Peers = peer.New(peer.Options{Client: client, Bodies: pool})
	o.tools.Box, o.tools.Version = newBox(t), "test"
	plane := dataplane.New(dataplane.Options{
		Snapshot: g.holder, Engine: &attempt.Engine{Client: client, Bounds: exchange.Bounds{Pool: pool}},
		Recorder: g, Logger: slog.New(slog.DiscardHandler), Tools: tools.New(o.tools),
	})
	g.Server = httptest.NewServer(plane)
	t.Cleanup(g.Close)
	return g
}

// publish makes the servers and bundles known.
func (g *gateway) publish(o options) {
	g.t.Helper()
	var keys []*access.Identity
	for id, text := range map[string]string{"alice": aliceKey, "bob": bobKey, "other": otherKey} {
		i := &access.Identity{KeyID: id, Type: access.WorkspaceService, Name: id, Hash: access.HashKey(text), Organisation: "o", Workspace: "w",
			Scopes: []access.Scope{access.ScopeTools, access.ScopeCompletions}}
		if id == "other" {
			i.Workspace = "elsewhere"
		}
		if patterns, ok := o.limits[id]; ok {
			i.Tools = append(i.Tools, patterns)
		}
		keys = append(keys, i)
	}
	s, err := snapshot.Build(snapshot.Input{Keys: keys, Specs: table.All(), ToolServers: o.servers, ToolBundles: o.bundles})
	if err != nil {
		g.t.Fatal(err)
	}
	g.holder.Publish(s)
}

// server returns a tool server of the workspace at an address.
func server(slug, address string) *toolserver.Server {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return &toolserver.Server{ID: "id-" + slug, Slug: slug, Workspace: "w", Organisation: "o", Name: slug, Transport: toolserver.HTTP, URL: u}
}

// legacyServer returns a tool server that speaks the legacy era only, and modernServer one of
// the modern era.
func legacyServer(t testing.TB) *toolservertest.Server {
	s := toolservertest.New(t)
	s.NoModern = true
	return s
}

func modernServer(t testing.TB) *toolservertest.Server {
	s := toolservertest.New(t)
	s.NoLegacy = true
	return s
}

// response is what a client receives.
type response struct {
	status   int
	header   http.Header
	messages []string // all, as text
}

// last returns the last message, decoded.
func (r response) last(t testing.TB) (m struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}) {
	t.Helper()
	if len(r.messages) == 0 {
		t.Fatalf("no message, status %d", r.status)
	}
	if err := json.Unmarshal([]byte(r.messages[len(r.messages)-1]), &m); err != nil {
		t.Fatalf("%v: %s", err, r.messages[len(r.messages)-1])
	}
	return m
}

// send sends a body with headers, which alternate with their values.
func (g *gateway) send(method, path, body string, h ...string) response {
	g.t.Helper()
	res := g.open(g.t.Context(), method, path, body, h...)
	defer res.Body.Close()
	out := response{status: res.StatusCode, header: res.Header}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		for m := range events(res.Body) {
			out.messages = append(out.messages, m)
		}
		return out
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	if len(raw) > 0 {
		out.messages = []string{string(raw)}
	}
	return out
}

// open sends a request and returns its response as soon as it has headers.
func (g *gateway) open(ctx context.Context, method, path, body string, h ...string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, g.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("X-Gateway-Api-Key", aliceKey)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	return res
}

// events yields the data of the events of a stream.
func events(r io.Reader) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 32<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !yield(data) {
				return
			}
		}
	}
}

// modern sends a request of the modern era. params is the inside of the object, and
// capabilities an object.
func (g *gateway) modern(path, method, params, capabilities string, h ...string) response {
	g.t.Helper()
	if params != "" {
		params += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`,
		method, params, capabilities)
	return g.send("POST", path, body, append(modernHeaders(method, params), h...)...)
}

func modernHeaders(method, params string) []string {
	h := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	var p struct{ Name, URI, TaskID string }
	if json.Unmarshal([]byte("{"+strings.TrimSuffix(params, ",")+"}"), &p) == nil && p.Name+p.URI+p.TaskID != "" {
		h = append(h, "Mcp-Name", p.Name+p.URI+p.TaskID)
	}
	return h
}

// session is a session of the legacy era.
type session struct {
	*gateway
	path, id, key string
}

// initialize begins a session with capabilities, an object.
func (g *gateway) initialize(path, capabilities string, h ...string) *session {
	g.t.Helper()
	res := g.send("POST", path, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+
		capabilities+`,"clientInfo":{"name":"test","version":"1"}}}`, h...)
	s := &session{gateway: g, path: path, id: res.header.Get("Mcp-Session-Id"), key: aliceKey}
	if at := slices.Index(h, "X-Gateway-Api-Key"); at >= 0 {
		s.key = h[at+1]
	}
	if res.status != 200 || s.id == "" {
		g.t.Fatalf("initialize: %d %q", res.status, res.messages)
	}
	if res := s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); res.status != 202 {
		g.t.Fatalf("initialized: %d %q", res.status, res.messages)
	}
	return s
}

// post sends a message in the session.
func (s *session) post(body string, h ...string) response {
	s.t.Helper()
	return s.send("POST", s.path, body, append([]string{"Mcp-Session-Id", s.id, "Mcp-Protocol-Version", "2025-11-25", "X-Gateway-Api-Key", s.key}, h...)...)
}

// call calls a method with parameters, an object.
func (s *session) call(method, params string, h ...string) response {
	s.t.Helper()
	return s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, time.Now().UnixNano(), method, params), h...)
}

// names returns the names of the items in a list.
func names(t testing.TB, r response, member, field string) (list []string) {
	t.Helper()
	var result map[string]json.RawMessage
	var items []map[string]any
	if err := json.Unmarshal(r.last(t).Result, &result); err != nil {
		t.Fatalf("%v: %q", err, r.messages)
	}
	if err := json.Unmarshal(result[member], &items); err != nil {
		t.Fatalf("%v: %q", err, r.messages)
	}
	for _, i := range items {
		list = append(list, fmt.Sprint(i[field]))
	}
	return list
}
