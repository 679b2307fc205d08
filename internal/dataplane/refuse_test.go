package dataplane_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const smallLimits = "limits: {json_body: 64 KB, upload_body: 128 KB}\n"

func keysFile(t *testing.T) string {
	t.Helper()
	key := func(name, more string) string {
		return fmt.Sprintf("  - {name: %s, sha256: %s%s}\n", name, access.HashKey("mg-key-of-the-"+name), more)
	}
	return smallLimits + "keys:\n" + key("narrow", ", providers: [openai]") + key("slug", ", providers: [simulator]") +
		key("reader", ", scopes: [logs.list, logs.view]") + key("lister", ", scopes: [models.list]") + key("none", ", scopes: []")
}

func TestEveryRefusalHasItsCodeAndIsRecorded(t *testing.T) {
	t.Parallel()
	handler, seen := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler, Settings: keysFile(t)})
	chatWith := func(member string) string { return strings.Replace(plainChat, "{", "{"+member+",", 1) }
	const chat = "/chat/completions"
	for _, tt := range []struct {
		name, path, body string
		header           []string
		status           int
		code, param      string
		says             string
	}{
		{"no key", chat, plainChat, []string{"x-gateway-api-key", ""}, 401, "missing_api_key", "x-gateway-api-key", ""},
		{"empty bearer", chat, plainChat, []string{"x-gateway-api-key", "", "authorization", "Bearer "}, 401, "missing_api_key", "x-gateway-api-key", ""},
		{"wrong key", chat, plainChat, []string{"x-gateway-api-key", "mg-wrong"}, 401, "invalid_api_key", "x-gateway-api-key", ""},
		{"wrong key on pass-through", "/any", plainChat, []string{"x-gateway-api-key", "mg-wrong"}, 401, "invalid_api_key", "x-gateway-api-key", ""},
		{"provider not allowed", chat, plainChat, []string{"x-gateway-api-key", "mg-key-of-the-narrow"}, 403, "provider_not_allowed", "", "@simulator"},
		{"row not allowed", chat, plainChat, []string{"x-gateway-api-key", "mg-key-of-the-slug", "x-gateway-provider", "openai", "authorization", "Bearer k"}, 403, "provider_not_allowed", "", "openai"},
		{"alias not allowed", chat, plainChat, []string{"x-gateway-api-key", "mg-key-of-the-slug", "x-gateway-provider", "vendora", "authorization", "Bearer k"}, 403, "provider_not_allowed", "", "openai"},
		{"scope of logs", chat, plainChat, []string{"x-gateway-api-key", "mg-key-of-the-reader"}, 403, "forbidden", "", "completions.write"},
		{"scope of models", "/any", plainChat, []string{"x-gateway-api-key", "mg-key-of-the-lister"}, 403, "forbidden", "", "completions.write"},
		{"no scope at all", chat, plainChat, []string{"x-gateway-api-key", "mg-key-of-the-none"}, 403, "forbidden", "", "completions.write"},
		{"not JSON", chat, "hello", nil, 400, "invalid_json", "", "line 1, column 1"},
		{"broken JSON", chat, "{\n  \"model\": \"m\",\n  \"messages\": [}\n", nil, 400, "invalid_json", "", "line 3, column 16"},
		{"JSON that ends early", chat, `{"model":"m"`, nil, 400, "invalid_json", "", "line 1"},
		{"more than one JSON", chat, plainChat + "{}", nil, 400, "invalid_json", "", "line 1"},
		{"an array", chat, `[1]`, nil, 400, "invalid_json", "", ""},
		{"a key twice", chat, chatWith(`"model":"other"`), nil, 400, "duplicate_key", "model", ""},
		{"no body", chat, "", []string{"content-type", "application/json"}, 400, "invalid_json", "", ""},
		{"wrong content type", chat, plainChat, []string{"content-type", "text/plain"}, 400, "invalid_request", "content-type", "application/json"},
		{"form to a JSON route", chat, plainChat, []string{"content-type", "multipart/form-data; boundary=x"}, 400, "invalid_request", "content-type", ""},
		{"JSON to a form route", "/audio/transcriptions", `{}`, nil, 400, "invalid_request", "content-type", "multipart/form-data"},
		{"body over the limit", chat, chatWith(`"pad":"` + strings.Repeat("x", 64<<10) + `"`), nil, 413, "request_too_large", "", "65536"},
		{"upload over the limit", "/files", strings.Repeat("x", 128<<10+1), []string{"content-type", "application/octet-stream"}, 413, "request_too_large", "", "131072"},
		{"no model", chat, `{"messages":[{"role":"user","content":"hi"}]}`, nil, 400, "missing_required_parameter", "model", ""},
		{"no provider", chat, plainChat, []string{"x-gateway-provider", ""}, 400, "missing_provider", "x-gateway-provider", ""},
		{"unknown provider", chat, plainChat, []string{"x-gateway-provider", "nobody"}, 400, "unknown_provider", "x-gateway-provider", "nobody"},
		{"unknown slug", chat, plainChat, []string{"x-gateway-provider", "@nobody"}, 404, "unknown_slug", "x-gateway-provider", "nobody"},
		{"missing credential", chat, plainChat, []string{"x-gateway-provider", "openai"}, 400, "missing_credential", "authorization", ""},
		{"timeout no number", chat, plainChat, []string{"x-gateway-request-timeout", "soon"}, 400, "invalid_request", "x-gateway-request-timeout", "milliseconds"},
		{"timeout negative", chat, plainChat, []string{"x-gateway-request-timeout", "-1"}, 400, "invalid_request", "x-gateway-request-timeout", ""},
		{"timeout of a year", chat, plainChat, []string{"x-gateway-request-timeout", "31536000000"}, 400, "invalid_request", "x-gateway-request-timeout", ""},
		{"metadata no JSON", chat, plainChat, []string{"x-gateway-metadata", "team=a"}, 400, "invalid_request", "x-gateway-metadata", ""},
		{"metadata null", chat, plainChat, []string{"x-gateway-metadata", "null"}, 400, "invalid_request", "x-gateway-metadata", ""},
		{"metadata nested", chat, plainChat, []string{"x-gateway-metadata", `{"a":{"b":1}}`}, 400, "invalid_request", "x-gateway-metadata", `"a"`},
		{"metadata too long", chat, plainChat, []string{"x-gateway-metadata", `{"a":"` + strings.Repeat("é", 513) + `"}`}, 400, "invalid_request", "x-gateway-metadata", "512"},
		{"trace id with a tab", chat, plainChat, []string{"x-gateway-trace-id", "a\tb"}, 400, "invalid_request", "x-gateway-trace-id", ""},
		{"trace id too long", chat, plainChat, []string{"x-gateway-trace-id", strings.Repeat("a", 257)}, 400, "invalid_request", "x-gateway-trace-id", ""},
		{"config no JSON", chat, plainChat, []string{"x-gateway-config", `{"retry":`}, 400, "AB01", "x-gateway-config", "AB01"},
		{"config unknown property", chat, plainChat, []string{"x-gateway-config", `{"provider":"openai","api_key":"k","tries":1}`}, 400, "AB01", "x-gateway-config", "tries"},
		{"config too large", chat, plainChat, []string{"x-gateway-config", `{"provider":"` + strings.Repeat("x", 65<<10) + `"}`}, 400, "AB01", "x-gateway-config", "65536"},
		{"config that is an array", chat, plainChat, []string{"x-gateway-config", `[{"provider":"@simulator"}]`}, 400, "AB01", "x-gateway-config", "AB01"},
		{"config that is a string", chat, plainChat, []string{"x-gateway-config", `"pc-nobody"`}, 400, "AB01", "x-gateway-config", "AB01"},
		{"config that is null", chat, plainChat, []string{"x-gateway-config", `null`}, 400, "AB01", "x-gateway-config", "AB01"},
		{"config that is a number", chat, plainChat, []string{"x-gateway-config", `12`}, 400, "AB01", "x-gateway-config", "AB01"},
		{"config that is not an id", chat, plainChat, []string{"x-gateway-config", `provider=openai`}, 400, "AB01", "x-gateway-config", "AB01"},
		{"config unknown name", chat, plainChat, []string{"x-gateway-config", "pc-nobody"}, 404, "unknown_config", "x-gateway-config", "pc-nobody"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Post(tt.path, tt.body, tt.header...)
			e := errorOf(t, string(res.Body))
			if res.Status != tt.status || e["code"] != tt.code {
				t.Fatalf("answer = %d %s; want %d with the code %s", res.Status, res.Body, tt.status, tt.code)
			}
			if param, _ := e["param"].(string); param != tt.param {
				t.Errorf("param = %q, want %q: %s", param, tt.param, res.Body)
			}
			if message, _ := e["message"].(string); !strings.Contains(message, tt.says) || e["source"] != "gateway" {
				t.Errorf("the error is %v; want a message with %q by the gateway", e, tt.says)
			}
			entry := g.Entry
			if tt.status == http.StatusUnauthorized {
				entry = g.KeylessEntry
			}
			recorded(t, entry(res), map[string]any{"status": tt.status, "error.code": tt.code, "error.source": "gateway"})
		})
	}
	if len(seen) > 0 {
		t.Errorf("%d refused requests reached the provider", len(seen))
	}
	if text := g.Log.String(); strings.Contains(text, "level=ERROR") {
		t.Errorf("a refusal was logged as an error:\n%s", text)
	}
	allowed := g.Post(chat, plainChat, "x-gateway-api-key", "mg-key-of-the-slug")
	if allowed.Status != 200 {
		t.Errorf("a key limited to the slug: %d %s, want 200", allowed.Status, allowed.Body)
	}
}

func TestBodiesThatLieAboutTheirLength(t *testing.T) {
	t.Parallel()
	handler, _ := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler, Settings: smallLimits})
	head := "POST %s HTTP/1.1\r\nHost: g\r\nConnection: close\r\nx-gateway-api-key: " + gatewaytest.Key + "\r\nx-gateway-provider: @simulator\r\nx-gateway-trace-id: %s\r\nContent-Type: %s\r\n"
	half := func(conn net.Conn) { conn.(*net.TCPConn).CloseWrite() }
	keep := func(net.Conn) {}
	for _, tt := range []struct {
		name, path, contentType, rest string
		then                          func(net.Conn)
		status                        int
		code                          string
	}{
		{"shorter than announced", "/v1/chat/completions", "application/json", "Content-Length: 500\r\n\r\n" + plainChat, half, 400, "body_incomplete"},
		{"chunked and cut", "/v1/chat/completions", "application/json", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"mod", half, 400, "body_incomplete"},
		{"chunked over the limit", "/v1/chat/completions", "application/json", "Transfer-Encoding: chunked\r\n\r\n" + sized(strings.Repeat(" ", 64<<10+1)) + "0\r\n\r\n", keep, 413, "request_too_large"},
		{"announced over the limit", "/v1/chat/completions", "application/json", "Content-Length: 99999999\r\n\r\n", keep, 413, "request_too_large"},
		{"chunked upload over the limit", "/v1/files", "application/octet-stream", "Transfer-Encoding: chunked\r\n\r\n" + sized(strings.Repeat("x", 128<<10+1)) + "0\r\n\r\n", keep, 413, "request_too_large"},
		{"a chunk that is none", "/v1/chat/completions", "application/json", "Transfer-Encoding: chunked\r\n\r\nzz\r\n", keep, 400, "body_incomplete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, g)
			trace := strings.ReplaceAll(tt.name, " ", "-")
			fmt.Fprintf(conn, head+tt.rest, tt.path, trace, tt.contentType)
			tt.then(conn)
			response, _ := io.ReadAll(conn)
			line, _, _ := strings.Cut(string(response), "\r\n")
			if !strings.HasPrefix(line, fmt.Sprintf("HTTP/1.1 %d ", tt.status)) || !strings.Contains(string(response), tt.code) {
				t.Errorf("answer = %q; want %d with the code %s", response, tt.status, tt.code)
			}
			recorded(t, entryOf(t, g, trace), map[string]any{"status": tt.status, "error.code": tt.code})
		})
	}
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	handler, _ := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/any/path", 200}, {"POST", "/any/path", 200}, {"PUT", "/any/path", 200}, {"DELETE", "/any/path", 200},
		{"PATCH", "/any/path", 405}, {"HEAD", "/any/path", 405}, {"OPTIONS", "/chat/completions", 405}, {"TRACE", "/x", 405}, {"BREW", "/x", 405},
		{"GET", "/chat/completions", 200}, // lists stored completions at the provider
		{"PUT", "/logs", 405},
	} {
		res := g.Do(g.Request(tt.method, tt.path, ""))
		if res.Status != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, res.Status, res.Body, tt.status)
		}
		if tt.status == 405 && res.Header.Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow", tt.method, tt.path)
		}
		if tt.status == 405 && tt.path != "/logs" {
			recorded(t, g.Entry(res), map[string]any{"status": 405, "error.code": "method_not_allowed", "method": tt.method})
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", g.Root+"/v2/anything", nil)
	if res := g.Do(req); res.Status != 404 || errorOf(t, string(res.Body))["code"] != "not_found" {
		t.Errorf("a path outside: %d %s, want 404", res.Status, res.Body)
	}
}

func TestAKeyThatExpiresIsRefusedFromThenOn(t *testing.T) {
	t.Parallel()
	handler, _ := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	made := g.Post("/api-keys/workspace/service", `{"name":"short","workspace_id":"default","scopes":["completions.write"]}`, "x-gateway-provider", "").JSON(t)
	key, _ := made["key"].(string)
	id, _ := made["id"].(string)
	ask := func() gatewaytest.Response {
		return g.Post("/chat/completions", plainChat, "x-gateway-api-key", key)
	}
	waittest.Until(t, "the key is taken", func() bool { return ask().Status == 200 })
	expire(t, g, id)
	waittest.Until(t, "the key has expired", func() bool { return ask().Status == 401 })
	res := ask()
	if code := errorOf(t, string(res.Body))["code"]; code != "expired_api_key" {
		t.Errorf("code = %v, want expired_api_key", code)
	}
}
