package dataplane_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/upstream"
)

// providerKey is a credential that a client sends for a provider.
const providerKey = "sk-of-the-provider"

// asked answers like a chat provider and tells what it was asked with.
func asked(t *testing.T) (http.Handler, <-chan http.Header) {
	seen := make(chan http.Header, 16)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		h.Set("test-query", r.URL.RawQuery)
		select {
		case seen <- h:
		default: // nobody looks
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, chatBody)
	}), seen
}

func TestTheGatewayKeyNeverReachesAProvider(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		path   string
		header []string
		status int
		param  string
		sent   string // Authorization at the provider
	}{
		{"key in its own header", "/chat/completions", nil, 200, "", "Bearer " + gatewaytest.SimulatorKey},
		{"key as bearer token", "/chat/completions", []string{"x-gateway-api-key", "", "authorization", "Bearer " + gatewaytest.Key}, 200, "", "Bearer " + gatewaytest.SimulatorKey},
		{"key as x-api-key", "/chat/completions", []string{"x-gateway-api-key", "", "x-api-key", gatewaytest.Key}, 200, "", "Bearer " + gatewaytest.SimulatorKey},
		{"key as bearer token, passed through", "/any/path", []string{"x-gateway-api-key", "", "authorization", "Bearer " + gatewaytest.Key}, 200, "", "Bearer " + gatewaytest.SimulatorKey},
		{"key in both headers, own credential", "/chat/completions", []string{"authorization", "Bearer " + gatewaytest.Key, "x-gateway-provider", "openai"}, 400, "authorization", ""},
		{"key bare in authorization", "/chat/completions", []string{"authorization", gatewaytest.Key, "x-gateway-provider", "openai"}, 400, "authorization", ""},
		{"a bearer token that is empty", "/chat/completions", []string{"authorization", "Bearer ", "x-gateway-provider", "openai"}, 400, "authorization", ""},
		{"key in both headers, custom host", "/chat/completions", []string{"authorization", "Bearer " + gatewaytest.Key, "x-gateway-provider", "openai", "x-gateway-custom-host", "HOST"}, 200, "", ""},
		{"key forwarded as bearer token", "/chat/completions", []string{"x-gateway-api-key", "", "authorization", "Bearer " + gatewaytest.Key, "x-gateway-forward-headers", "Authorization"}, 400, "x-gateway-forward-headers", ""},
		{"key forwarded as x-api-key", "/chat/completions", []string{"x-gateway-api-key", "", "x-api-key", gatewaytest.Key, "x-gateway-forward-headers", "x-api-key"}, 400, "x-gateway-forward-headers", ""},
		{"key forwarded in any header", "/any/path", []string{"x-mine", gatewaytest.Key, "x-gateway-forward-headers", "x-mine"}, 400, "x-gateway-forward-headers", ""},
		{"own family forwarded", "/chat/completions", []string{"x-gateway-forward-headers", "x-gateway-api-key"}, 400, "X-Gateway-Forward-Headers", ""},
		{"further family forwarded", "/chat/completions", []string{"x-gateway-api-key", "", "x-old-api-key", gatewaytest.Key, "x-gateway-forward-headers", "X-OLD-api-key"}, 400, "x-gateway-forward-headers", ""},
		{"key in a further family", "/chat/completions", []string{"x-gateway-api-key", "", "x-old-api-key", gatewaytest.Key}, 200, "", "Bearer " + gatewaytest.SimulatorKey},
		{"key in a further family, passed through", "/any/path", []string{"x-gateway-api-key", "", "x-old-api-key", gatewaytest.Key}, 200, "", "Bearer " + gatewaytest.SimulatorKey},
		{"connection names authorization", "/any/path", []string{"connection", "authorization, x-gateway-api-key"}, 200, "", "Bearer " + gatewaytest.SimulatorKey},
		{"provider's own key", "/chat/completions", []string{"authorization", "Bearer " + providerKey, "x-gateway-provider", "openai", "x-gateway-custom-host", "HOST"}, 200, "", "Bearer " + providerKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			handler, seen := asked(t)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler, Settings: "compat: {header_prefixes: [x-old-]}\n"})
			for i := range tt.header {
				tt.header[i] = strings.ReplaceAll(tt.header[i], "HOST", g.Upstream)
			}
			res := g.Post(tt.path, plainChat, tt.header...)
			if res.Status != tt.status {
				t.Fatalf("status = %d, want %d: %s", res.Status, tt.status, res.Body)
			}
			if tt.status != 200 {
				if param := errorOf(t, string(res.Body))["param"]; param != tt.param {
					t.Errorf("param = %v, want %s: %s", param, tt.param, res.Body)
				}
				recorded(t, g.Entry(res), map[string]any{"status": tt.status})
				return
			}
			h := receive(t, seen, "the request at the provider")
			if got := h.Get("Authorization"); got != tt.sent {
				t.Errorf("the provider got Authorization %q, want %q", got, tt.sent)
			}
			for name, values := range h {
				if strings.Contains(strings.Join(values, " "), gatewaytest.Key) || strings.HasPrefix(name, "X-Gateway-") || strings.HasPrefix(name, "X-Old-") {
					t.Errorf("the provider got %s: %q", name, values)
				}
			}
		})
	}
}

func TestNoCredentialFollowsARedirect(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the other origin was asked: %s %s %v", r.Method, r.URL, r.Header)
	}))
	defer thief.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.RedirectHandler(thief.URL+"/v1/x", http.StatusTemporaryRedirect)})
	res := g.Post("/chat/completions", plainChat)
	if res.Status != 502 || res.Header.Get("Location") != "" || errorOf(t, string(res.Body))["code"] != "upstream_unreadable" || !strings.Contains(string(res.Body), thief.URL) {
		t.Errorf("unified: %d, Location %q: %s; want 502 that names %s", res.Status, res.Header.Get("Location"), res.Body, thief.URL)
	}
	recorded(t, g.Entry(res), map[string]any{"status": 502})
	res = g.Post("/any/path", plainChat)
	if res.Status != 502 || res.Header.Get("Location") != "" || errorOf(t, string(res.Body))["code"] != "redirect_refused" {
		t.Errorf("passed through: %d, Location %q: %s; want 502 without one", res.Status, res.Header.Get("Location"), res.Body)
	}
}

func TestOptionsInHeadersChooseTheAddress(t *testing.T) {
	t.Parallel()
	dialled := make(chan string, 4)
	g := gatewaytest.New(t, gatewaytest.Options{Reach: upstream.Options{Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
		dialled <- addr
		return nil, errors.New("no network in this test")
	}}})
	for _, tt := range []struct{ provider, path, header, want string }{
		{"bedrock-mantle", "/chat/completions", "x-gateway-region", "bedrock-mantle.eu-nowhere-7.api.aws:443"},
		{"bedrock", "/model/m/converse", "x-gateway-cloud-a-region", "bedrock-runtime.eu-nowhere-7.amazonaws.com:443"},
	} {
		g.Post(tt.path, plainChat, "x-gateway-provider", tt.provider, "authorization", "Bearer "+providerKey, tt.header, "eu-nowhere-7")
		if got := receive(t, dialled, "a call"); got != tt.want {
			t.Errorf("%s: called %s, want %s", tt.provider, got, tt.want)
		}
	}
}

func TestCustomHostsAreCheckedByRule(t *testing.T) {
	t.Parallel()
	handler, seen := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	for _, tt := range []struct{ host, rule string }{
		{"http://169.254.169.254/latest", "metadata"},
		{"http://[fd00:ec2::254]/", "metadata"},
		{"http://metadata.google.internal/v1", "metadata"},
		{"http://10.0.0.8/v1", "private"},
		{"http://192.168.1.1:8080/v1", "private"},
		{"http://169.254.10.10/v1", "link-local"},
		{"http://0.0.0.0/v1", "unspecified"},
		{"http://2130706433/v1", "ip-notation"},
		{"http://printer.local/v1", "blocked-suffix"},
		{"https://user:pw-canary@example.com/v1", "user-info"},
		{"https://example.com/v1?key=pw-canary", "query"},
		{"ftp://example.com", "scheme"},
		{"example.com/v1", "scheme"},
		{"https://exa mple.com/v1", "characters"},
		{"https://example.com:22/v1", "blocked-port"},
		{"https://" + strings.Repeat("a", 3000) + ".com", "length"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			for name, header := range map[string][]string{
				"header": {"x-gateway-custom-host", tt.host},
				"config": {"x-gateway-provider", "", "x-gateway-config", fmt.Sprintf(`{"provider":"openai","api_key":"k","custom_host":%q}`, tt.host)},
			} {
				h := append([]string{"x-gateway-provider", "openai", "authorization", "Bearer " + providerKey}, header...)
				res := g.Post("/chat/completions", plainChat, h...)
				e := errorOf(t, string(res.Body))
				if name == "config" && e["code"] == "AB01" {
					continue // refused still earlier
				}
				if res.Status != 400 || e["code"] != "custom_host_refused" || !strings.Contains(e["message"].(string), "rule "+tt.rule) {
					t.Errorf("%s: %d %s; want 400 custom_host_refused by rule %s", name, res.Status, res.Body, tt.rule)
				}
				if strings.Contains(string(res.Body), "canary") {
					t.Errorf("%s: the refusal repeats a secret: %s", name, res.Body)
				}
				recorded(t, g.Entry(res), map[string]any{"status": 400, "error.code": "custom_host_refused"})
			}
		})
	}
	res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "openai", "x-gateway-custom-host", g.Upstream, "authorization", "Bearer "+providerKey)
	if res.Status != 200 {
		t.Errorf("a trusted host: %d %s, want 200", res.Status, res.Body)
	}
	receive(t, seen, "the request at the provider")
	res = g.Post("/chat/completions", plainChat, "x-gateway-custom-host", g.Upstream)
	if e := errorOf(t, string(res.Body)); res.Status != 400 || e["code"] != "custom_host_refused" {
		t.Errorf("a managed provider at a custom host: %d %s, want 400", res.Status, res.Body)
	}
	if len(seen) > 0 {
		t.Error("a refused request reached the provider")
	}
}

func TestADuplicateHeaderIsRefusedByName(t *testing.T) {
	t.Parallel()
	handler, seen := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler, Settings: "compat: {header_prefixes: [x-old-]}\n"})
	for _, name := range []string{"x-gateway-api-key", "x-gateway-provider", "x-gateway-config", "x-gateway-trace-id",
		"x-gateway-custom-host", "x-gateway-metadata", "authorization", "x-api-key", "content-type"} {
		req := g.Request("POST", "/chat/completions", plainChat)
		req.Header.Set(name, "one")
		req.Header.Add(name, "two")
		res := g.Do(req)
		e := errorOf(t, string(res.Body))
		if res.Status != 400 || e["code"] != "duplicate_header" || e["param"] != name {
			t.Errorf("%s twice: %d %s; want 400 duplicate_header naming it", name, res.Status, res.Body)
		}
		entry := g.Entry
		if name == "x-gateway-api-key" { // no key is valid then
			entry = g.KeylessEntry
		}
		recorded(t, entry(res), map[string]any{"status": 400, "error.code": "duplicate_header"})
	}
	for range 20 { // the order of a map must not decide
		if res := g.Post("/chat/completions", plainChat, "x-old-provider", "@nobody"); res.Status != 200 {
			t.Fatalf("the own family did not win: %d %s", res.Status, res.Body)
		}
		receive(t, seen, "the request at the provider")
	}
}

// What a client writes must not become a header or a request of its own.
func TestNothingAClientWritesBecomesAHeader(t *testing.T) {
	t.Parallel()
	handler, seen := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	res := g.Post("/chat/completions", `{"model":"m\r\nx-evil: 1","messages":[{"role":"user","content":"hi"}]}`)
	if res.Header.Get("x-evil") != "" || strings.ContainsAny(res.Header.Get("x-gateway-model"), "\r\n") {
		t.Errorf("the model became a header: %v", res.Header)
	}
	if res.Status == 200 {
		if h := receive(t, seen, "the request at the provider"); h.Get("x-evil") != "" {
			t.Errorf("the provider got %v", h)
		}
	}
	res = g.Post("/chat/completions", `{"model":"@a\r\nx-evil: 1/m","messages":[{"role":"user","content":"hi"}]}`, "x-gateway-provider", "")
	if res.Status != 404 || res.Header.Get("x-evil") != "" {
		t.Errorf("a slug with a line end: %d %v, want 404", res.Status, res.Header)
	}
	for _, text := range []string{
		"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nx-gateway-api-key: a\rb\r\nContent-Length: 0\r\n\r\n",
		"POST /v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"POST /v1/x y HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n",
	} {
		if res := ask(t, g, text); res.Status != 400 {
			t.Errorf("%.60q: status %d, want 400", text, res.Status)
		}
	}
}

func TestHopByHopHeadersStayAtTheirHop(t *testing.T) {
	t.Parallel()
	handler, seen := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	body := "{}"
	res := ask(t, g, "POST /v1/any?b=2&a=1&a=%2F HTTP/1.1\r\nHost: g\r\nx-gateway-api-key: "+gatewaytest.Key+"\r\nx-gateway-provider: @simulator\r\n"+
		"Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nUpgrade: websocket\r\nProxy-Authorization: p\r\nCookie: c=1\r\nX-Forwarded-For: 1.2.3.4\r\nX-Stays: yes\r\n"+
		fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if res.Status != 200 {
		t.Fatalf("status = %d: %s", res.Status, res.Body)
	}
	h := receive(t, seen, "the request at the provider")
	for _, name := range []string{"X-Hop", "Te", "Upgrade", "Proxy-Authorization", "Cookie", "X-Forwarded-For", "Connection"} {
		if h.Get(name) != "" {
			t.Errorf("the provider got %s: %q", name, h.Get(name))
		}
	}
	if h.Get("X-Stays") != "yes" || h.Get("test-query") != "b=2&a=1&a=%2F" {
		t.Errorf("the provider got X-Stays %q and the query %q", h.Get("X-Stays"), h.Get("test-query"))
	}
}
