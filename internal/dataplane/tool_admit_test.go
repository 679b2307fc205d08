package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/dataplane"
	"modelgate/internal/testing/gatewaytest"
)

func TestToolRoutesAnswerErrorsOfAdmissionAsJSONRPC(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	g.withKey(``)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	bearer := "Bearer " + g.key
	for _, tt := range []struct {
		name    string
		path    string
		headers []string
		status  int
		code    string
		asked   bool // to sign in
	}{
		{"no credential", "/mcp/github", nil, 401, "missing_api_key", true},
		{"an unknown key", "/mcp/github", []string{"authorization", "Bearer nobody-knows-this-key-0123456789"}, 401, "invalid_api_key", true},
		{"two credentials", "/mcp/github", []string{"authorization", bearer, "x-gateway-api-key", gatewaytest.Key}, 400, "conflicting_credentials", false},
		{"two credentials, one invalid", "/mcp/github", []string{"authorization", "Bearer eyJhbGciOiJub25lIn0.e30.", "x-api-key", g.key}, 400, "conflicting_credentials", false},
		{"one credential twice", "/mcp/github", []string{"authorization", bearer, "x-gateway-api-key", g.key}, 200, "", false},
		{"a key as other clients send it", "/github/mcp", []string{"x-api-key", g.key}, 200, "", false},
		{"a config", "/mcp", []string{"authorization", bearer, "x-gateway-config", `{"retry":{"attempts":1}}`}, 400, "option_not_for_tools", false},
		{"a provider", "/v1/mcp/github", []string{"authorization", bearer, "x-gateway-provider", "@simulator"}, 400, "option_not_for_tools", false},
		{"forwarded headers", "/mcp", []string{"authorization", bearer, "x-gateway-forward-headers", "cookie"}, 400, "option_not_for_tools", false},
		{"another method in a header", "/mcp", []string{"authorization", bearer, "x-http-method-override", "GET"}, 400, "method_override", false},
	} {
		res := g.send("POST", tt.path, call, tt.headers...)
		if res.Status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, res.Status, tt.status, res.Body)
			continue
		}
		challenge := res.Header.Get("WWW-Authenticate")
		if want := `resource_metadata="` + g.Root + `/.well-known/oauth-protected-resource` + tt.path + `"`; strings.Contains(challenge, want) != tt.asked || (challenge != "") != tt.asked {
			t.Errorf("%s: WWW-Authenticate is %q, want %s in it: %t", tt.name, challenge, want, tt.asked)
		}
		if tt.status == 200 {
			continue
		}
		if body := res.JSON(t); body["jsonrpc"] != "2.0" || body["id"] != nil || !strings.Contains(string(res.Body), `"id":null`) {
			t.Errorf("%s: %s has no id null", tt.name, res.Body)
		}
		if code, name, _ := rpcErrorOf(t, res); name != tt.code || code >= -32768 && code <= -32000 && code != -32600 {
			t.Errorf("%s: code %v %s, want %s", tt.name, code, name, tt.code)
		}
	}
	if n := g.relay.reached(); n != 2 {
		t.Errorf("%d messages reached a server, want the 2 that were admitted", n)
	}
}

func TestToolRoutesNeedTheirScope(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	made := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`)
	g.key = str(made.JSON(t)["key"])
	for {
		res := g.call("github", "x", `{}`)
		if res.Status == 401 { // unknown so far
			continue
		}
		if _, name, message := rpcErrorOf(t, res); res.Status != 403 || name != "forbidden" || !strings.Contains(message, "mcp.invoke") {
			t.Errorf("%d %s", res.Status, res.Body)
		}
		if c := res.Header.Get("WWW-Authenticate"); c != "" {
			t.Errorf("a valid key is asked to sign in: %s", c)
		}
		return
	}
}

func TestToolMessagesAreBounded(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{Settings: "limits: {json_body: 2KB}\n"})
	if res := g.call("github", "x", `{"a":"`+strings.Repeat("x", 1000)+`"}`); res.Status != 200 {
		t.Errorf("a message within the limit: %d %s", res.Status, res.Body)
	}
	for _, length := range []bool{true, false} {
		req := g.Request("POST", "/x", `{"jsonrpc":"2.0","id":7,"params":"`+strings.Repeat("x", 3000)+`"}`, "x-gateway-provider", "")
		req.URL.Path = "/mcp/github"
		if !length {
			req.ContentLength = -1
		}
		res := g.Do(req)
		if _, name, _ := rpcErrorOf(t, res); res.Status != 413 || name != "request_too_large" {
			t.Errorf("with its length %t: %d %s", length, res.Status, res.Body)
		}
	}
}

func TestHeadersWithoutMeaningForToolsAreAnnounced(t *testing.T) {
	t.Parallel()
	g := newToolGateway(t, new(relay), gatewaytest.Options{})
	res := g.call("github", "x", `{}`, "x-gateway-cache-force-refresh", "true", "x-gateway-strict-compliance", "false", "x-gateway-azure-region", "x")
	if got := res.Header.Get("x-gateway-params"); res.Status != 200 || !strings.Contains(got, "x-gateway-azure-region;ignored") {
		t.Errorf("%d, x-gateway-params is %q", res.Status, got)
	}
}

func TestARevokedKeyEndsLongStreams(t *testing.T) {
	t.Parallel()
	begin, checked := make(chan struct{}), make(chan error, 1)
	f := &relay{serve: func(w http.ResponseWriter, r *http.Request, of *dataplane.ToolRequest) error {
		if r.Method != "GET" {
			return nil
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": open\n\n")
		http.NewResponseController(w).Flush()
		if _, err := of.Refresh(); err != nil {
			return fmt.Errorf("before: %w", err)
		}
		select {
		case begin <- struct{}{}:
		case <-r.Context().Done():
			return nil
		}
		for r.Context().Err() == nil {
			if _, err := of.Refresh(); err != nil {
				checked <- err
				return nil
			}
		}
		return nil
	}}
	g := newToolGateway(t, f, gatewaytest.Options{})
	made := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["mcp.invoke"]}`).JSON(t)
	g.key = str(made["key"])
	go func() {
		for t.Context().Err() == nil {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", g.Root+"/mcp", nil)
			req.Header.Set("authorization", "Bearer "+g.key)
			if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != 401 {
					return
				}
			}
		}
	}()
	receive(t, begin, "the stream")
	if res := g.Do(g.Request("DELETE", "/api-keys/"+str(made["id"]), "", "x-gateway-provider", "")); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	if err := receive(t, checked, "the end of the stream"); !strings.Contains(err.Error(), "unknown") {
		t.Errorf("the check says %v", err)
	}
}
