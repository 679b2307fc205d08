package agents_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestCardsNameOnlyTheGateway(t *testing.T) {
	a := newAgent(t)
	g := newGateway(t, a, options{})
	for _, path := range []string{"/a2a/helper", "/v1/a2a/helper"} {
		res := g.send("GET", path+"/.well-known/agent-card.json", "")
		own := `"url":"` + g.URL + `/a2a/helper"`
		if res.status != 200 || strings.Count(res.body, own) != 3 || strings.Contains(res.body, a.URL) {
			t.Fatalf("the card is %d %s", res.status, res.body)
		}
		for _, gone := range []string{"evil", "theirs", "signatures", "GRPC", "grpc.example.com", `"pushNotifications":true`} {
			if strings.Contains(res.body, gone) {
				t.Errorf("the card has %s: %s", gone, res.body)
			}
		}
		if !strings.Contains(res.body, `"x-own": 1.50`) || res.find(t, "securitySchemes", "gateway", "httpAuthSecurityScheme", "scheme") != "Bearer" {
			t.Errorf("the card is %s", res.body)
		}
	}
	extended := g.rpc("GetExtendedAgentCard", "{}")
	if extended.status != 200 || strings.Contains(extended.body, a.URL) || strings.Contains(extended.body, "evil") {
		t.Errorf("the extended card is %d %s", extended.status, extended.body)
	}
	a.serve = func(w http.ResponseWriter, r *http.Request, _ string) bool { // cards that look like something else
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		card := strings.Replace(strings.ReplaceAll(plainCard, "BASE", a.URL), "{", `{"code":1,"status":{},`, 1)
		if r.Method == http.MethodPost {
			card = `{"jsonrpc":"2.0","id":7,"result":` + card + `}`
		}
		io.WriteString(w, card)
		return true
	}
	for _, res := range []response{g.rpc("GetExtendedAgentCard", "{}"), g.send("GET", "/a2a/helper/extendedAgentCard", "")} {
		if strings.Contains(res.body, a.URL) || strings.Contains(res.body, "evil") {
			t.Errorf("the extended card is %d %s", res.status, res.body)
		}
	}
	if res := g.send("GET", "/a2a/helper/.well-known/agent-card.json", "", "Authorization", "Bearer no"); res.status != 401 {
		t.Errorf("a card without a key: %d %s", res.status, res.body)
	}
}

func TestCardsOf03NameOnlyTheGateway(t *testing.T) {
	a := newAgent(t)
	a.card = func(string) string {
		return `{"protocolVersion":"0.3.0","name":"Old","url":"https://grpc.example.com/","preferredTransport":"GRPC",
			"additionalInterfaces":[{"url":"BASE/old","transport":"JSONRPC"},{"url":"https://grpc.example.com","transport":"GRPC"}],
			"capabilities":{},"security":[{"theirs":[]}],"skills":[]}`
	}
	g := newGateway(t, a, options{})
	res := g.send("GET", "/a2a/helper/.well-known/agent-card.json", "")
	if res.status != 200 || strings.Contains(res.body, "GRPC") || strings.Contains(res.body, "grpc.example.com") ||
		res.find(t, "url") != g.URL+"/a2a/helper" || res.find(t, "preferredTransport") != "JSONRPC" || res.find(t, "securitySchemes", "gateway", "scheme") != "bearer" {
		t.Errorf("the card is %d %s", res.status, res.body)
	}
	if sent := g.rpc("message/send", hello, "A2A-Version", ""); sent.status != 200 || sent.find(t, "result", "task", "score") != "1.5" {
		t.Errorf("message/send: %d %s", sent.status, sent.body)
	}
	if r, _ := a.last(); r.URL.Path != "/old" {
		t.Errorf("the message went to %s", r.URL.Path)
	}
}

func TestHostileCardsAreRefused(t *testing.T) {
	const rest = `"name":"E","capabilities":{},"skills":[]}`
	for name, card := range map[string]string{
		"another host":      `{"supportedInterfaces":[{"url":"http://evil.example.com","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],` + rest,
		"another spelling":  `{"supportedInterfaces":[{"url":"BASE/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"supported_interfaces":[{"url":"https://evil.example.com"}],` + rest,
		"another case":      `{"supportedInterfaces":[{"url":"BASE/rpc","protocolBinding":"JSONRPC","URL":"https://evil.example.com"}],` + rest,
		"duplicate":         `{"supportedInterfaces":[{"url":"BASE/rpc","url":"https://evil.example.com","protocolBinding":"JSONRPC"}],` + rest,
		"another scheme":    `{"supportedInterfaces":[{"url":"ftp://evil.example.com","protocolBinding":"JSONRPC"}],` + rest,
		"a password":        `{"supportedInterfaces":[{"url":"http://a:b@` + "HOST" + `/","protocolBinding":"JSONRPC"}],` + rest,
		"too large":         `{"supportedInterfaces":[{"url":"BASE/rpc","protocolBinding":"JSONRPC"}],"x":"` + strings.Repeat("x", 65<<10) + `",` + rest,
		"not an object":     `[]`,
		"hidden in a skill": `{"supportedInterfaces":[{"url":"BASE/rpc","protocolBinding":"JSONRPC"}],"name":"E","skills":[{"Security":[]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			a.card = func(base string) string { return strings.ReplaceAll(card, "HOST", strings.TrimPrefix(base, "http://")) }
			g := newGateway(t, a, options{})
			res := g.send("GET", "/a2a/helper/.well-known/agent-card.json", "")
			if res.status != 502 || strings.Contains(res.body, "evil") {
				t.Errorf("%d %s", res.status, res.body)
			}
		})
	}
}

func TestCardsAreReadWithoutRedirects(t *testing.T) {
	other := newAgent(t)
	a := newAgent(t)
	inner := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/agent-card.json" {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
			return
		}
		inner.ServeHTTP(w, r)
	})
	g := newGateway(t, a, options{})
	if res := g.rpc("SendMessage", hello); res.status != 502 || a.reached()+other.reached() != 0 {
		t.Errorf("%d %s", res.status, res.body)
	}
}
