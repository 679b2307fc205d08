package conformance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// clientSecret is what the gateway has at the authorization server of [signedServer].
const clientSecret = "the secret of the gateway at a tool server"

// signedServer is a tool server that accepts the last token of its authorization server.
type signedServer struct {
	*toolservertest.Server
	url, tokenURL string

	mu     sync.Mutex
	tokens int  // given so far; guarded by mu, as are the fields below
	away   bool // the authorization server responds with 503
	seen   []http.Header
}

func newSignedServer(t *testing.T) *signedServer {
	t.Helper()
	s := &signedServer{Server: toolservertest.New(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.giveToken)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Header.Clone())
		ok := r.Header.Get("Authorization") == "Bearer token-"+strconv.Itoa(s.tokens)
		s.mu.Unlock()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url, s.tokenURL = server.URL+"/mcp", server.URL+"/token"
	return s
}

func (s *signedServer) giveToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	} else {
		secret = strings.ReplaceAll(secret, "+", " ")
	}
	switch {
	case s.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case id != "gateway" || secret != clientSecret || r.FormValue("grant_type") != "client_credentials" || r.FormValue("resource") != s.url:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
	default:
		s.tokens++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, s.tokens)
	}
}

// received returns how many tokens were given, and the headers of requests to the tool server.
func (s *signedServer) received() (tokens int, seen []http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens, slices.Clone(s.seen)
}

// setAway changes whether the authorization server is away.
func (s *signedServer) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// TestGatewaySignsInToToolServersAsAClient calls a server with credentials of the gateway. A
// failure of the authorization server is over when that answers again, all calls share one
// token, and no error or log has a secret.
func TestGatewaySignsInToToolServersAsAClient(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	tools := newSignedServer(t)
	tools.setAway(true)
	add := func(slug, secret string) {
		g.as(t, bootstrapKey, "POST", "/v1/mcp-integrations", fmt.Sprintf(`{"name":%q,"slug":%q,"url":%q,"transport":"http","workspace_id":"default",
			"auth_type":"oauth_client_credentials","configurations":{"client_id":"gateway","client_secret":%q,"token_url":%q}}`, slug, slug, tools.url, secret, tools.tokenURL)).wantOK(t)
		g.as(t, bootstrapKey, "POST", "/v1/mcp-servers", fmt.Sprintf(`{"name":%q,"slug":%q,"mcp_integration_id":%q,"workspace_id":"default"}`, slug, slug, slug)).wantOK(t)
	}
	add("signed", clientSecret)
	add("wrong", "another secret of the gateway")
	failed := func(tool, what string) bool {
		got := g.as(t, bootstrapKey, "POST", "/mcp", callText(tool, "x"))
		if strings.Contains(string(got.body), "unknown tool") { // until the server is there
			return false
		}
		if message := got.failsAlone(t, what); strings.Contains(message, "secret of the gateway") || got.header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %s, challenge %q", what, message, got.header.Get("WWW-Authenticate"))
		}
		return true
	}
	waittest.Until(t, "the server is there", func() bool { return failed("signed__echo", "without an authorization server") })
	tools.setAway(false)
	waittest.Until(t, "the call works once the authorization server does", func() bool { return g.echoes(t, "signed__echo") })

	var all sync.WaitGroup
	answers := make(chan response, 20)
	for range cap(answers) {
		req := g.request(t, "POST", "/mcp", strings.NewReader(callText("signed__echo", "x")), "x-gateway-api-key", bootstrapKey, "Authorization", "Bearer "+bootstrapKey, "Content-Type", "application/json")
		all.Go(func() { answers <- send(t, req) })
	}
	all.Wait()
	close(answers)
	for got := range answers {
		got.wantOK(t)
	}
	if n, _ := tools.received(); n != 1 {
		t.Errorf("%d tokens were asked for, want one for all calls", n)
	}
	if !failed("wrong__echo", "with a wrong secret") {
		t.Error("the server with a wrong secret is not there")
	}
	_, seen := tools.received()
	for _, h := range seen {
		if text := fmt.Sprint(h); strings.Contains(text, bootstrapKey) || strings.Contains(text, clientSecret) {
			t.Errorf("the tool server received %s", text)
		}
	}
	if text := g.errText.String(); strings.Contains(text, clientSecret) || strings.Contains(text, "token-1") {
		t.Errorf("the process log has a secret: %s", text)
	}
}

// TestEgressPoliciesBindToolServersAtRequestTime forbids the host of a tool server that is used
// already: calls name the policy, nothing reaches the server, and others are not affected.
func TestEgressPoliciesBindToolServersAtRequestTime(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1,localhost", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	s := &nodes{list: []*gateway{g}}
	one, two := toolservertest.New(t), toolservertest.New(t)
	s.addTools(t, "one", one.URL, "")
	allowed := strings.TrimSuffix(strings.Replace(two.URL, "127.0.0.1", "localhost", 1), "/mcp")
	s.addTools(t, "two", allowed+"/mcp", "")
	s.arrival(t, "both work", func(g *gateway) bool { return g.echoes(t, "one__echo") && g.echoes(t, "two__echo") })
	s.change(t, "PUT", "/v1/admin/organisation", fmt.Sprintf(`{"settings":{"egress_policy":{"custom_hosts":[%q]}}}`, allowed))
	s.arrival(t, "calls are refused", func(g *gateway) bool { return !g.echoes(t, "one__echo") })
	reached := one.Count("POST")
	got := g.as(t, bootstrapKey, "POST", "/mcp", callText("one__echo", "x"))
	if message := got.failsAlone(t, "a host that is not allowed"); !strings.Contains(message, "custom_hosts") || !strings.Contains(string(got.body), "egress_refused") {
		t.Errorf("the call is refused with %d %s", got.status, got.body)
	}
	list := g.as(t, bootstrapKey, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).wantOK(t)
	if text := string(list.body); strings.Contains(text, `"one__echo"`) || !strings.Contains(text, `"two__echo"`) {
		t.Errorf("the list is %s", text)
	}
	if !g.echoes(t, "two__echo") {
		t.Error("the server with an allowed host does not answer")
	}
	if n := one.Count("POST"); n != reached {
		t.Errorf("%d requests reached the server", n-reached)
	}
	s.change(t, "PUT", "/v1/admin/organisation", `{"settings":{"egress_policy":null}}`)
	s.arrival(t, "calls are allowed again", func(g *gateway) bool { return g.echoes(t, "one__echo") })
}

// programEnv is the environment of gateways with the tool server of [launchProgram].
const programEnv = "MODELGATE_MASTER_KEY=the master key of a conformance test"

// launchProgram returns a gateway that runs a tool server as a program, and the ids of that process
// and of one that it has started. Neither ends with its input or by SIGTERM.
func launchProgram(t *testing.T) (g *gateway, pids []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf("version: 1\ntools:\n  commands:\n    child: {path: %q, args: [\"-test.run=^TestToolServerProcess$\"], env: {%s: stdio, MODELGATE_BINARY: %q, MODELGATE_BINARY_STALE: \"on\", TMPDIR: %q, PATH: %q}}\n",
		self, toolServerAt, program, t.TempDir(), os.Getenv("PATH"))
	g = launchFor(t, settings, programEnv)
	g.as(t, bootstrapKey, "POST", "/v1/mcp-integrations", `{"name":"Child","slug":"child","transport":"stdio","command":"child","auth_type":"none"}`).wantOK(t)
	g.as(t, bootstrapKey, "PUT", "/v1/mcp-integrations/child/workspaces", `{"workspaces":[{"id":"default","enabled":true}]}`).wantOK(t)
	g.as(t, bootstrapKey, "POST", "/v1/mcp-servers", `{"name":"Child","slug":"child","mcp_integration_id":"child","workspace_id":"default"}`).wantOK(t)
	waittest.Until(t, "the program answers", func() bool {
		got := g.as(t, bootstrapKey, "POST", "/mcp/child", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pids","arguments":{}}}`)
		_, text, ok := strings.Cut(string(got.body), `"text":"`)
		text, _, _ = strings.Cut(text, `"`)
		for word := range strings.FieldsSeq(text) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatalf("%s: %v", got.body, err)
			}
			pids = append(pids, pid)
		}
		return ok
	})
	for _, pid := range pids {
		if !runs(pid) {
			t.Fatalf("the process %d of %v does not run", pid, pids)
		}
	}
	return g, pids
}

func TestProgramsOfToolServersEndWithTheGateway(t *testing.T) {
	t.Parallel()
	g, pids := launchProgram(t)
	g.again(t, programEnv)
	for i, what := range []string{"the program", "what it started"} {
		waittest.Until(t, what+" has ended with the gateway", func() bool { return !runs(pids[i]) })
	}
}

func TestProgramsOfToolServersEndWhenTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	g, pids := launchProgram(t)
	defer func() {
		syscall.Kill(pids[1], syscall.SIGKILL) // the kernel ends the program only
		if t.Failed() {
			syscall.Kill(pids[0], syscall.SIGKILL)
		}
	}()
	for range 20 { // so that threads of the gateway end, one of which has started the program
		g.as(t, bootstrapKey, "GET", "/v1/mcp-servers", "").wantOK(t)
	}
	if !runs(pids[0]) {
		t.Fatal("the program has ended before the gateway")
	}
	g.process.Process.Kill()
	waittest.Receive(t, g.exited, "the end of the gateway")
	waittest.Until(t, "the program has ended", func() bool { return !runs(pids[0]) })
	if err := g.begin([]string{programEnv}); err != nil {
		t.Fatal(err)
	}
}

// runs reports whether a process has not ended. One that nobody waits for has ended.
func runs(pid int) bool {
	state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(state), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
