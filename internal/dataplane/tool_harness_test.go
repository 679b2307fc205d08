package dataplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// relay serves messages as the relay does, with servers that a test scripts.
type relay struct {
	// server answers a message that was sent. Nil answers with a short text.
	server func(ctx context.Context, c *dataplane.ToolCall, arguments string) (result string, end dataplane.ToolEnd)
	// serve replaces everything for other requests than calls.
	serve func(w http.ResponseWriter, r *http.Request, t *dataplane.ToolRequest) error
	price catalog.NanoDollars // of every tool but "free"

	mu   sync.Mutex
	sent []string // arguments that reached a server
}

var fine = dataplane.ToolEnd{Status: 200}

// CheckServer implements [dataplane.Tools].
func (f *relay) CheckServer(_ *snapshot.Snapshot, _ *access.Identity, slug string) error {
	if slug == "docs" {
		return nil
	}
	return apierr.New(apierr.NotFound, "no such server")
}

// ServeTools implements [dataplane.Tools].
func (f *relay) ServeTools(w http.ResponseWriter, r *http.Request, t *dataplane.ToolRequest) error {
	if f.serve != nil {
		return f.serve(w, r, t)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			URI       string          `json:"uri"`
			Arguments json.RawMessage `json:"arguments"`
			Session   string          `json:"session"`
			Meta      struct {
				Traceparent string `json:"traceparent"`
			} `json:"_meta"`
		} `json:"params"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return apierr.New(apierr.Invalid, "invalid")
	}
	t.MessageID, t.Session = m.ID, m.Params.Session
	t.SetTrace(m.Params.Meta.Traceparent)
	c := dataplane.ToolCall{Operation: api.ToolCall, Server: f.of(t.Slug), Name: m.Params.Name, Arguments: m.Params.Arguments, Size: int64(len(body))}
	switch m.Method {
	case "resources/read":
		c.Operation, c.Name = api.ToolResource, m.Params.URI
	case "tools/list":
		c.Operation = api.Tools
	}
	t.Describe(c.Operation, c.Server.Slug, c.Name)
	result, err := f.call(r.Context(), t, c)
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Denied {
		if c.Operation != api.ToolCall { // has no such result
			_, err = w.Write(dataplane.RPCError(m.ID, e))
			return err
		}
		result, err = string(dataplane.DeniedResult(e)), nil
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	return err
}

func (f *relay) of(slug string) *toolserver.Server {
	return &toolserver.Server{ID: "id-" + slug, Slug: slug, Own: toolserver.Rules{Prices: map[string]catalog.NanoDollars{"*": f.price, "free": 0}}}
}

// call sends one message.
func (f *relay) call(ctx context.Context, t *dataplane.ToolRequest, c dataplane.ToolCall) (string, error) {
	run, err := t.Begin(ctx, c)
	if err != nil {
		return "", err
	}
	arguments := string(run.Arguments())
	f.mu.Lock()
	f.sent = append(f.sent, arguments)
	f.mu.Unlock()
	result, end := `{"content":[{"type":"text","text":"done"}]}`, fine
	if f.server != nil {
		result, end = f.server(ctx, &c, arguments)
	}
	defer func() { run.End(end) }()
	if end.Err != nil || result == "" {
		return "", apierr.New(apierr.UpstreamFailed, "the server failed")
	}
	checked, err := run.CheckResult(ctx, json.RawMessage(result))
	return string(checked), err
}

// reached returns the number of messages that reached a server.
func (f *relay) reached() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sent)
}

// toolGateway is a gateway in front of scripted tool servers.
type toolGateway struct {
	*gatewaytest.Gateway
	t     testing.TB
	relay *relay
	key   string
}

func newToolGateway(t testing.TB, f *relay, o gatewaytest.Options) *toolGateway {
	t.Helper()
	o.Tools = f
	return &toolGateway{Gateway: gatewaytest.New(t, o), t: t, relay: f, key: gatewaytest.Key}
}

// withKey makes a key with further members, which the requests of g use from now on.
func (g *toolGateway) withKey(members string) {
	g.t.Helper()
	made := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["mcp.invoke"]`+members+`}`)
	if made.Status != 200 && made.Status != 201 {
		g.t.Fatalf("making a key: %d %s", made.Status, made.Body)
	}
	g.key = str(made.JSON(g.t)["key"])
	waittest.Until(g.t, "the key is known", func() bool { return g.send("GET", "/x/mcp", "", "x-gateway-api-key", g.key).Status != 401 })
}

// send sends a request without a credential.
func (g *toolGateway) send(method, path, body string, h ...string) gatewaytest.Response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.Root+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		req = g.Request(method, "/x", body)
		req.Header = http.Header{}
		req.URL.Path = path
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	return g.Do(req)
}

// call calls a tool of a server.
func (g *toolGateway) call(server, tool, arguments string, h ...string) gatewaytest.Response {
	g.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
	return g.send("POST", "/mcp/"+server, body, append([]string{"authorization", "Bearer " + g.key}, h...)...)
}

// rpcErrorOf returns the error of a response of JSON-RPC.
func rpcErrorOf(t testing.TB, res gatewaytest.Response) (code float64, name, message string) {
	t.Helper()
	e, ok := res.JSON(t)["error"].(map[string]any)
	if !ok {
		t.Fatalf("%d %s has no error of JSON-RPC", res.Status, res.Body)
	}
	data, _ := e["data"].(map[string]any)
	return e["code"].(float64), str(data["code"]), str(e["message"])
}
