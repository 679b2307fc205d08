package agents_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

// otherAgent returns an agent of the workspace with another slug.
func otherAgent(t *testing.T, slug string, a *agent) *toolserver.Server {
	t.Helper()
	home, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &toolserver.Server{ID: "id-" + slug, Slug: slug, Workspace: "w", Organisation: "o", Name: slug, Transport: toolserver.A2A, URL: home}
}

// TestAgentsThatFailAreNotAsked has an agent that fails until it is mended. After its pause, one
// message finds out.
func TestAgentsThatFailAreNotAsked(t *testing.T) {
	a, fine := newAgent(t), newAgent(t)
	var mended atomic.Bool
	var probes atomic.Int32
	arrived, goOn := make(chan bool), make(chan bool)
	answer := sync.OnceFunc(func() { close(goOn) })
	defer answer()
	a.serve = func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if !mended.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		if probes.Add(1) == 1 {
			arrived <- true
			<-goOn
		}
		return false
	}
	g := newGateway(t, a, options{others: []*toolserver.Server{otherAgent(t, "fine", fine)}})
	const message = `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":` + hello + `}`
	// refused sends a message, and reports whether it was refused without asking the agent.
	refused := func() bool {
		t.Helper()
		before := a.reached()
		res := g.rpc("SendMessage", hello)
		asked := a.reached() - before
		switch code := res.find(t, "error", "data", "code"); {
		case res.status == 502 && code == "agent_failed" && asked == 1:
			return false
		case res.status == 503 && code == "agent_unavailable" && asked == 0 && res.header.Get("Retry-After") != "" && strings.Contains(res.body, "the agent failed repeatedly"):
			return true
		}
		t.Fatalf("%d %s, the agent was asked %d times", res.status, res.body, asked)
		return false
	}
	for n := range 5 {
		if refused() {
			t.Fatalf("message %d was refused: the agent has not failed often enough", n)
		}
	}
	waittest.Until(t, "the agent is not asked any more", refused)
	for path, body := range map[string]string{"/a2a/fine": message, "/a2a/fine/message:send": hello} {
		if res := g.send("POST", path, body); res.status != 200 {
			t.Errorf("%s of another agent: %d %s", path, res.status, res.body)
		}
	}
	if res := g.send("GET", "/a2a/helper/.well-known/agent-card.json", ""); res.status != 200 {
		t.Errorf("its card: %d %s", res.status, res.body)
	}

	mended.Store(true)
	answers := make(chan response)
	waittest.Until(t, "a message is sent to the agent again", func() bool {
		go func() { answers <- g.rpc("SendMessage", hello) }()
		select {
		case <-arrived:
			return true
		case res := <-answers:
			if res.status != 503 {
				t.Errorf("during the pause: %d %s", res.status, res.body)
			}
			return false
		}
	})
	if !refused() {
		t.Error("a second message was sent before the first was answered")
	}
	answer()
	if res := waittest.Receive(t, answers, "the answer"); res.status != 200 {
		t.Errorf("the first message after the pause: %d %s", res.status, res.body)
	}
	for range 3 {
		if res := g.rpc("SendMessage", hello); res.status != 200 {
			t.Errorf("after that: %d %s", res.status, res.body)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.entries {
		if e.Status == 503 && (e.Cost != 0 || e.ErrorCode == "" || len(e.Attempts) != 1 || e.Attempts[0].Status != 0) {
			t.Errorf("a message that was not sent has the entry %+v", e)
		}
	}
}

// names resolves each name to an address that a test changes.
type names struct{ at atomic.Value }

// LookupNetIP implements [upstream.Resolver].
func (n *names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(n.at.Load().(string))}, nil
}

// TestAgentsAreReachedAtAllowedAddressesOnly has an agent that leads to addresses inside in every way
// that it has.
func TestAgentsAreReachedAtAllowedAddressesOnly(t *testing.T) {
	t.Parallel()
	a, inside := newAgent(t), newAgent(t)
	var redirect atomic.Bool
	a.serve = func(w http.ResponseWriter, r *http.Request, _ string) bool {
		w.Header().Set("Connection", "close") // its name is resolved for each message
		if redirect.Load() {
			http.Redirect(w, r, inside.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}
		return redirect.Load()
	}
	resolver := new(names)
	resolver.at.Store("127.0.0.1")
	_, port, _ := strings.Cut(strings.TrimPrefix(a.URL, "http://"), ":")
	address := "http://agent.example.com:" + port
	a.card = func(string) string { return strings.ReplaceAll(plainCard, "BASE", address) }
	g := newFullAt(t, address, "", gatewaytest.Options{Reach: upstream.Options{Resolver: resolver, TrustedHosts: []string{"127.0.0.1"}}})

	for _, address := range []string{"http://10.0.0.1", "http://169.254.169.254", "http://[fd00::1]:8080", "http://2130706434", "ftp://agent.example.com"} {
		res := g.Do(g.Request("POST", "/agent-integrations", `{"name":"Inside","slug":"inside-at","url":"`+address+`","auth_type":"none"}`, "x-gateway-provider", ""))
		if res.Status != 400 {
			t.Errorf("an integration at %s: %d %s", address, res.Status, res.Body)
		}
	}
	if res := g.call("SendMessage", say("hello")); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	redirect.Store(true)
	if res := g.call("SendMessage", say("hello")); res.Status != 502 || !strings.Contains(string(res.Body), "redirects, which is not followed") {
		t.Errorf("a redirect: %d %s", res.Status, res.Body)
	}
	redirect.Store(false)
	before := a.reached()
	for _, address := range []string{"10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"} {
		resolver.at.Store(address)
		res := g.call("SendMessage", say("hello"))
		e := g.Entry(res)
		attempts, _ := e["attempts"].([]any)
		failure, _ := e["error"].(map[string]any)
		if res.Status != 502 || strings.Contains(string(res.Body), "tool server") || e["cost"] != 0.0 || failure["code"] != "agent_failed" || len(attempts) != 1 {
			t.Errorf("the name resolves to %s: %d %s, the entry is %v", address, res.Status, res.Body, e)
		}
	}
	if a.reached() != before || inside.reached() != 0 {
		t.Errorf("%d messages reached the agent, and %d another one", a.reached()-before, inside.reached())
	}
	resolver.at.Store("127.0.0.1")
	waittest.Until(t, "the agent is reached again", func() bool { return g.call("SendMessage", say("hello")).Status == 200 })
}
