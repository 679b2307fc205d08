package agents_test

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
	"strings"
	"sync"
	"testing"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/agents"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider/table"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// Keys of two callers of one workspace, and of one of another.
const (
	aliceKey = "mg-alice-0123456789abcdef"
	bobKey   = "mg-bob-0123456789abcdef"
	otherKey = "mg-other-0123456789abcdef"
)

// agent is an agent that keeps its tasks as careless agents do: for everybody who knows their
// id.
type agent struct {
	*httptest.Server
	t testing.TB

	card  func(base string) string                                       // nil is a plain card of 1.0
	serve func(w http.ResponseWriter, r *http.Request, body string) bool // true if it has answered

	mu       sync.Mutex
	requests []*http.Request // with their headers; guarded by mu, as are the fields below
	bodies   []string
	tasks    int
}

func newAgent(t testing.TB) *agent {
	a := &agent{t: t}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

const plainCard = `{"name":"Echo","description":"Repeats","version":"1.2","supportedInterfaces":[
	{"url":"BASE/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"},
	{"url":"BASE/old","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
	{"url":"BASE/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},
	{"url":"https://grpc.example.com","protocolBinding":"GRPC","protocolVersion":"1.0"}],
	"capabilities":{"streaming":true,"pushNotifications":true,"extendedAgentCard":true},
	"securitySchemes":{"theirs":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"authorizationUrl":"https://evil.example.com"}}}}},
	"securityRequirements":[{"schemes":{"theirs":{"list":[]}}}],
	"skills":[{"id":"echo","name":"Echo","securityRequirements":[{"schemes":{"theirs":{"list":[]}}}]}],
	"signatures":[{"protected":"a","signature":"b"}],  "x-own": 1.50}`

// ServeHTTP implements [http.Handler].
func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	body := string(raw)
	if r.URL.Path == "/.well-known/agent-card.json" {
		text := plainCard
		if a.card != nil {
			text = a.card(a.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, strings.ReplaceAll(text, "BASE", a.URL))
		return
	}
	a.mu.Lock()
	a.requests, a.bodies = append(a.requests, r), append(a.bodies, body)
	a.tasks++
	n := a.tasks
	a.mu.Unlock()
	if a.serve != nil && a.serve(w, r, body) {
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ID      string
			Message struct{ ContextID string }
		}
	}
	json.Unmarshal(raw, &m)
	task := fmt.Sprintf(`{"id":"task-%d","contextId":"context-%d","status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m","role":"ROLE_AGENT","taskId":"task-%d","parts":[{"text":"done"}]}},"score":1.50}`, n, n, n)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path != "/rpc" && r.URL.Path != "/old":
		if strings.HasPrefix(r.URL.Path, "/rest/tasks/") {
			io.WriteString(w, task)
			return
		}
		io.WriteString(w, `{"task":`+task+`}`)
	case strings.HasSuffix(m.Method, "AgentCard"):
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, strings.ReplaceAll(plainCard, "BASE", a.URL))
	case strings.HasPrefix(m.Method, "Get"), strings.HasPrefix(m.Method, "Cancel"), strings.HasPrefix(m.Method, "tasks/"):
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"id":%q,"status":{"state":"TASK_STATE_COMPLETED"}}}`, m.ID, m.Params.ID)
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"task":%s}}`, m.ID, task)
	}
}

// last returns the last request to the agent that did not read its card, and its body.
func (a *agent) last() (*http.Request, string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.requests) == 0 {
		a.t.Fatal("the agent got no request")
	}
	return a.requests[len(a.requests)-1], a.bodies[len(a.bodies)-1]
}

// reached returns the number of requests to the agent that did not read its card.
func (a *agent) reached() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// gateway is a data plane with an agent.
type gateway struct {
	*httptest.Server
	t    testing.TB
	pool *bytepool.Pool // of bodies

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
	change func(s *toolserver.Server)
	limits map[string][]string // selections, by key
	scopes []access.Scope      // nil has that of agents
	client upstream.Options
	others []*toolserver.Server
}

func newGateway(t testing.TB, a *agent, o options) *gateway {
	t.Helper()
	g := &gateway{t: t}
	home, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := &toolserver.Server{ID: "id-helper", Slug: "helper", Workspace: "w", Organisation: "o", Name: "Helper", Transport: toolserver.A2A, URL: home,
		Headers: map[string]secret.String{"Authorization": secret.New("Bearer of-the-agent")},
		Own:     toolserver.Rules{Prices: map[string]catalog.NanoDollars{"message": 2_000_000}}}
	if o.change != nil {
		o.change(server)
	}
	elsewhere := *server
	elsewhere.ID, elsewhere.Workspace = "id-elsewhere", "elsewhere"
	if o.scopes == nil {
		o.scopes = []access.Scope{access.ScopeAgents}
	}
	var keys []*access.Identity
	for id, text := range map[string]string{"alice": aliceKey, "bob": bobKey, "other": otherKey} {
		i := &access.Identity{KeyID: id, Type: access.WorkspaceService, Name: id, Hash: access.HashKey(text), Organisation: "o", Workspace: "w", Scopes: o.scopes}
		if id == "other" {
			i.Workspace = "elsewhere"
		}
		if patterns, ok := o.limits[id]; ok {
			i.Tools = append(i.Tools, patterns)
		}
		keys = append(keys, i)
	}
	s, err := snapshot.Build(snapshot.Input{Keys: keys, Specs: table.All(), ToolServers: append([]*toolserver.Server{server, &elsewhere}, o.others...)})
	if err != nil {
		t.Fatal(err)
	}
	holder := new(snapshot.Holder)
	holder.Publish(s)
	pool := bytepool.New(64 << 20)
	g.pool = pool
	o.client.TrustLoopback = true
	client := upstream.New(o.client)
	peers := peer.New(peer.Options{Client: client, Bodies: pool})
	box, err := secret.NewBox(secret.New("the master key of tests of agents"))
	if err != nil {
		t.Fatal(err)
	}
	relay := tools.New(tools.Options{Peers: peers, Box: box})
	plane := dataplane.New(dataplane.Options{
		Snapshot: holder, Engine: &attempt.Engine{Client: client, Bounds: exchange.Bounds{Pool: pool}},
		Recorder: g, Logger: slog.New(slog.DiscardHandler), Tools: agents.New(relay, peers, relay),
	})
	g.Server = httptest.NewServer(plane)
	t.Cleanup(g.Close)
	return g
}

// response is what a client receives.
type response struct {
	status int
	header http.Header
	body   string
	events []string // types and data of a stream
}

// find returns a value in the body by its path, as text.
func (r response) find(t testing.TB, path ...any) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v: %d %s", err, r.status, r.body)
	}
	for _, step := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[fmt.Sprint(step)]
		case []any:
			v = at[step.(int)]
		default:
			t.Fatalf("no %v in %s", path, r.body)
		}
	}
	return fmt.Sprint(v)
}

// send sends a request with headers, which alternate with their values.
func (g *gateway) send(method, path, body string, h ...string) response {
	g.t.Helper()
	res := g.open(g.t.Context(), method, path, body, h...)
	defer res.Body.Close()
	out := response{status: res.StatusCode, header: res.Header}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 32<<20)
		for kind := ""; lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kind = text + " "
			} else if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				out.events = append(out.events, kind+text)
				kind = ""
			}
		}
		return out
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	out.body = string(raw)
	return out
}

// open sends a request and returns its response as soon as it has headers.
func (g *gateway) open(ctx context.Context, method, path, body string, h ...string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, g.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+aliceKey)
	req.Header.Set("A2A-Version", "1.0")
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

// rpc sends a request of JSON-RPC. params is an object.
func (g *gateway) rpc(method, params string, h ...string) response {
	g.t.Helper()
	return g.send("POST", "/a2a/helper", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params), h...)
}

const hello = `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}],"n":1.0}}`

func as(key string) []string { return []string{"Authorization", "Bearer " + key} }
