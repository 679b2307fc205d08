package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// stored are the headers of a request to the managed provider @stored.
func stored(key string, more ...string) []string {
	return append([]string{"x-gateway-api-key", key, "x-gateway-provider", "@stored"}, more...)
}

// TestPathsThatServersDisagreeAboutReachNoProvider sends paths that a provider
// or a proxy before it may resolve to another path, with a stored credential.
func TestPathsThatServersDisagreeAboutReachNoProvider(t *testing.T) {
	g, p := start(t)
	for _, target := range []string{
		"/v1//chat/completions", "/v1/chat//completions", "/v1/chat/completions//",
		"/v1/../../other", "/v1/../v1/chat/completions", "/v1/./chat/completions", "/v1/chat/./completions", "/v1/chat/completions/..", "/v1/x/../chat/completions",
		"/v1/%2e%2e/other", "/v1/%2E%2E/%2e%2e/other", "/v1/.%2e/other", "/v1/%2e./other", "/v1/%2e/chat/completions", "/v1/..;/other", "/v1/..;a=b/other", "/v1/%2e%2e;/other", "/v1/..%3b/other",
		"/v1/..%2fother", "/v1/..%2F..%2Fother", "/v1/x%2F..%2F..%2Fother", "/v1/%252e%252e/other", "/v1/%25252e%25252e/other", "/v1/..%252fother", "/v1/..%20/other",
		`/v1\chat\completions`, `/v1/..\other`, "/v1/..%5cother", "/v1/chat%5Ccompletions",
		"/v1/chat/completions%00", "/v1/%00/other", "/v1/x%0d%0aX-Injected:%201", "/v1/x%0a", "/v1/x%09y", "/v1/x%7f",
		"/v1/%c0%ae%c0%ae/other", "/v1/%c0%afother", "/v1/%e0%80%ae%e0%80%ae/other", "/v1/%f0%80%80%ae/other",
		"/v1/chat%2Fcompletions", "/v1/chat%2fcompletions", "/v1/CHAT/completions", "/v1/Chat/Completions", "/v1/chat;v=1/completions", "/v1/chat/completions;v=1", "/v1/messages%2Fcount_tokens", "/v1/prompts/p%2Fcompletions",
		"/v1/chat/completions/", "/v1/embeddings/", "/v1/messages/", "/v1/responses/", "/v1/audio/transcriptions/", "/v1/models/m:generateContent/", "/v1/models/m:GenerateContent", "/v1/models/m:generatecontent", "/v1/models/m%3AgenerateContent", "/v1/models/m;v=1:countTokens/", "/v1/models/m:embedContent;v=1", "/v1/prompts/p/completions/", "/v1/%63hat/completions/",
		"/v1beta/../v1/chat/completions", "/v1beta/models//m:generateContent", "/model/../v1/chat/completions", "/model/%2e%2e/converse", "/model/a%2F..%2Fb/converse",
	} {
		attack(t, "smuggling", "path "+target, func(t *testing.T) {
			p.reset()
			status, says := http.StatusBadRequest, "invalid_path"
			if strings.HasPrefix(target, "/v1/prompts/") { // the name of administration routes
				status, says = http.StatusNotFound, "AB08"
			}
			g.do(t, "POST", target, chatBody, stored(rootKey)...).refused(t, status, says)
			if got := g.do(t, "POST", target, chatBody); got.status != status && got.status != http.StatusUnauthorized {
				t.Errorf("without a key: status %d", got.status)
			}
			if seen := p.seen(); len(seen) != 0 {
				t.Errorf("the provider received %s %s", seen[0].method, seen[0].target)
			}
		})
	}
	for _, target := range []string{"//v1/chat/completions", "/v1/x#y", "/v1/%", "/v1/%zz", "/v1/%u002e%u002e/other"} {
		attack(t, "smuggling", "path that no client library sends: "+target, func(t *testing.T) {
			p.reset()
			got, _ := g.raw(t, "POST "+target+" HTTP/1.1\r\nHost: g\r\nX-Gateway-Api-Key: "+rootKey+"\r\nX-Gateway-Provider: @stored\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 400") || len(p.seen()) != 0 {
				t.Errorf("the provider received %d requests, the client %.200q", len(p.seen()), got)
			}
		})
	}
	for form, line := range map[string]string{
		"absolute form": "POST http://gateway.example/v1/../../other HTTP/1.1", "absolute form without a path": "POST http://gateway.example//v1/chat/completions HTTP/1.1",
		"authority form": "CONNECT gateway.example:443 HTTP/1.1", "asterisk form": "POST * HTTP/1.1",
	} {
		attack(t, "smuggling", form, func(t *testing.T) {
			p.reset()
			g.raw(t, line+"\r\nHost: g\r\nX-Gateway-Api-Key: "+rootKey+"\r\nX-Gateway-Provider: @stored\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if seen := p.seen(); len(seen) != 0 {
				t.Errorf("the provider received %s %s", seen[0].method, seen[0].target)
			}
		})
	}
	attack(t, "smuggling", "a refused path is counted and says whose request it was", func(t *testing.T) {
		got := g.do(t, "GET", "/v1/../x", "", stored(rootKey)...).refused(t, http.StatusBadRequest)
		id := got.header.Get("x-gateway-request-id")
		waittest.Until(t, "the refusal is in the log with its key", func() bool {
			r := g.as(t, rootKey, "GET", "/v1/logs/"+id, "")
			return r.status == http.StatusOK && strings.Contains(string(r.body), `"invalid_path"`) && strings.Contains(string(r.body), `"api_key":{`)
		})
		if m := g.metrics(t); !strings.Contains(m, "\nmodelgate_paths_refused_total ") || strings.Contains(m, "\nmodelgate_paths_refused_total 0") {
			t.Error("modelgate_paths_refused_total counts nothing")
		}
	})
}

// TestEncodedRoutesAreTheRoutesThatTheyEncode sends encodings of routes that have
// a handling of their own.
func TestEncodedRoutesAreTheRoutesThatTheyEncode(t *testing.T) {
	g, p := start(t)
	for _, target := range []string{"/v1/%63hat/completions", "/%76%31/chat/completions", "/v1/chat/%63%6F%6D%70%6C%65%74%69%6F%6E%73"} {
		attack(t, "smuggling", target+" is the unified route", func(t *testing.T) {
			p.reset()
			got := g.do(t, "POST", target, chatBody, stored(rootKey)...).ok(t)
			g.do(t, "POST", target, `{"model":1}`, stored(rootKey)...).refused(t, http.StatusBadRequest)
			if seen := p.seen(); len(seen) != 1 || seen[0].target != "/v1/chat/completions" {
				t.Errorf("the provider received %v", seen)
			}
			id := got.header.Get("x-gateway-request-id")
			waittest.Until(t, "the log has the canonical path", func() bool {
				r := g.as(t, rootKey, "GET", "/v1/logs/"+id, "")
				return r.status == http.StatusOK && strings.Contains(string(r.body), `"path":"/v1/chat/completions"`) && strings.Contains(string(r.body), `"operation":"chat"`)
			})
		})
	}
	plain := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	for _, target := range []string{"/v1/%6cogs", "/v1/%6Cogs/exports", "/v1/%61pi-keys", "/v1/%69ntegrations", "/v1/admin/%75sers", "/%76%31/configs"} {
		attack(t, "escalation", "GET "+target+" is the control plane's", func(t *testing.T) {
			p.reset()
			if got := g.do(t, "GET", target, "", stored(plain)...); got.status == http.StatusOK {
				t.Errorf("status 200: %.200s", got.body)
			}
			if seen := p.seen(); len(seen) != 0 {
				t.Errorf("the provider received %s %s", seen[0].method, seen[0].target)
			}
		})
	}
	for _, target := range []string{"/v1//api-keys", "/v1/./api-keys", "/v1/x/../api-keys", "/v1/api-keys/..", "/reference//", "/./health", "/v1/logs/../configs", "/v1/logs//x", "/%2e%2e/health", "/reference/..", "/\\health"} {
		attack(t, "smuggling", "GET "+target+" on every route", func(t *testing.T) {
			g.as(t, rootKey, "GET", target, "").refused(t, http.StatusBadRequest, "invalid_path")
		})
	}
	admin := &gateway{root: g.admin}
	for _, target := range []string{"/metrics//", "/./metrics", "/x/../metrics", "/%2e%2e/metrics", "/metrics%00", "/\\metrics"} {
		attack(t, "smuggling", "GET "+target+" on the admin listener", func(t *testing.T) {
			admin.do(t, "GET", target, "").refused(t, http.StatusBadRequest, "invalid_path")
		})
	}
}

// TestLegitimatePathsArriveAsSent shows what stays exact on pass-through.
func TestLegitimatePathsArriveAsSent(t *testing.T) {
	g, p := start(t)
	for _, target := range []string{"/v1/things/a%20b.txt", "/v1/models/org%2Fmodel", "/v1/models/org%2fmodel/", "/v1/things/https%3A%2F%2Fexample.com%2Fx", "/v1/x;p=1/y@z?b=2&a=%41&a=", "/v1/%E2%82%AC", "/v1/%252e%2532"} {
		attack(t, "smuggling", "legitimate: "+target, func(t *testing.T) {
			p.reset()
			g.do(t, "GET", target, "", stored(rootKey)...).ok(t)
			if seen := p.seen(); len(seen) != 1 || seen[0].target != target {
				t.Errorf("the provider received %v, want %s", seen, target)
			}
		})
	}
}

// TestMethodAndModelCannotRedirectARequest sends a second method, and models
// that would climb out of a provider's path.
func TestMethodAndModelCannotRedirectARequest(t *testing.T) {
	g, p := start(t)
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "x-http-method-override"} {
		attack(t, "smuggling", name, func(t *testing.T) {
			p.reset()
			g.do(t, "POST", "/v1/things/f", "", stored(rootKey, name, "DELETE")...).refused(t, http.StatusBadRequest, "method_override", strings.ToLower(name))
			if len(p.seen()) != 0 {
				t.Error("the provider received the request")
			}
		})
	}
	for _, model := range []string{"..", "../../x", "a/../b", "..%2f..%2fx", "%2e%2e", "..;x", `..\x`} {
		for _, provider := range []string{"replicate", "google", "bedrock"} {
			attack(t, "injection", fmt.Sprintf("model %s for %s", model, provider), func(t *testing.T) {
				up := newProvider(t, nil)
				g.do(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "gpt-4o", strings.ReplaceAll(model, `\`, `\\`), 1), "x-gateway-api-key", rootKey,
					"x-gateway-provider", provider, "x-gateway-custom-host", up.url, "Authorization", "Bearer "+clientKey, "x-gateway-cloud-a-region", "eu-west-1")
				for _, r := range up.seen() {
					path, _, _ := strings.Cut(r.target, "?")
					if strings.Contains(strings.ToLower(path), "/..") || strings.Contains(path, `\`) || strings.Contains(strings.ToLower(path), "%2f..") {
						t.Errorf("the provider received %s", r.target)
					}
				}
			})
		}
	}
}

// metrics returns what the admin listener shows.
func (g *gateway) metrics(t *testing.T) string {
	t.Helper()
	return string((&gateway{root: g.admin}).do(t, "GET", "/metrics", "").ok(t).body)
}
