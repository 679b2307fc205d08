package security

import (
	"fmt"
	"strings"
	"testing"
)

// marker is the target of a request that an attacker hides in another one. No
// provider may receive it, and no response may be its response.
const marker = "/v1/smuggled"

// TestHiddenRequestsAreNotServed sends requests that a proxy in front of the
// gateway may read differently. The hidden one must never be served: either the
// gateway refuses, or its connection ends with the response.
func TestHiddenRequestsAreNotServed(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	p := newProvider(t, nil)
	host := strings.TrimPrefix(g.root, "http://")
	key := "x-gateway-api-key: " + rootKey + "\r\nx-gateway-provider: openai-compatible\r\nx-gateway-custom-host: " + p.url + "\r\n"
	hidden := "GET " + marker + " HTTP/1.1\r\nHost: " + host + "\r\n" + key + "\r\n"
	const post = "POST /v1/things HTTP/1.1\r\n"
	length := func(s string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(s)) }
	for _, tt := range []struct {
		name, line, headers, body string
		statuses                  string // of the first response, separated by spaces
	}{
		{"CL.TE", post, length("0\r\n\r\n"+hidden) + "Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + hidden, "200"},
		{"TE.CL", post, "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "1\r\nZ\r\n0\r\n\r\n" + hidden, "200"},
		{"TE and CL of zero", post, "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + hidden, "200"},
		{"TE.TE with an unknown one", post, "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n", "0\r\n\r\n" + hidden, "501"},
		{"TE.TE twice chunked", post, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + hidden, "501"},
		{"TE list", post, "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n" + hidden, "501"},
		{"TE identity with CL", post, "Transfer-Encoding: identity\r\n" + length("ab"), "ab" + hidden, "501"},
		{"TE in quotes", post, "Transfer-Encoding: \"chunked\"\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "501"},
		{"TE with a parameter", post, "Transfer-Encoding: chunked;a=b\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "501"},
		{"TE with a vertical tab", post, "Transfer-Encoding: \vchunked\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "400 501"},
		{"TE with a null byte", post, "Transfer-Encoding: chunked\x00\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "400 501"},
		{"TE in capitals", post, "TRANSFER-ENCODING: CHUNKED\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "200"},
		{"TE with a tab", post, "Transfer-Encoding:\tchunked\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "200"},
		{"TE folded", post, "Transfer-Encoding:\r\n chunked\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "200 400 501"},
		{"TE folded without CL", post, "Transfer-Encoding:\r\n\tchunked\r\n", "0\r\n\r\n" + hidden, "200 400 501"},
		{"TE folded into another header", post, "X-A: b\r\n Transfer-Encoding: chunked\r\n" + length("ab"), "ab" + hidden, "200"},
		{"TE with a space before the colon", post, "Transfer-Encoding : chunked\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "400"},
		{"TE behind a space", post, " Transfer-Encoding: chunked\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "400"},
		{"TE with an underscore", post, "Transfer_Encoding: chunked\r\n" + length("ab"), "ab" + hidden, "200"},
		{"TE in HTTP/1.0", "POST /v1/things HTTP/1.0\r\nConnection: keep-alive\r\n", "Transfer-Encoding: chunked\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "200"},
		{"TE without CL in HTTP/1.0", "POST /v1/things HTTP/1.0\r\nConnection: keep-alive\r\n", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + hidden, "200"},
		{"CL twice and different", post, "Content-Length: 0\r\n" + length(hidden), hidden, "400"},
		{"CL as a list", post, "Content-Length: 0, 0\r\n", hidden, "400"},
		{"CL with a sign", post, "Content-Length: +0\r\n", hidden, "400"},
		{"CL negative", post, "Content-Length: -1\r\n", hidden, "400"},
		{"CL hexadecimal", post, "Content-Length: 0x0\r\n", hidden, "400"},
		{"CL too large for a number", post, "Content-Length: 99999999999999999999\r\n", hidden, "400"},
		{"CL with a space before the colon", post, "Content-Length : 0\r\n", hidden, "400"},
		{"CL with letters", post, "Content-Length: 0a\r\n", hidden, "400"},
		{"chunk size negative", post, "Transfer-Encoding: chunked\r\n", "-1\r\n\r\n" + hidden, "400 502"},
		{"chunk size with a sign", post, "Transfer-Encoding: chunked\r\n", "+1\r\nZ\r\n0\r\n\r\n" + hidden, "400 502"},
		{"chunk size with 0x", post, "Transfer-Encoding: chunked\r\n", "0x1\r\nZ\r\n0\r\n\r\n" + hidden, "400 502"},
		{"chunk size too large for a number", post, "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n" + hidden, "400 502"},
		{"chunk size empty", post, "Transfer-Encoding: chunked\r\n", "\r\n" + hidden, "400 502"},
		{"chunk extension", post, "Transfer-Encoding: chunked\r\n", "1;a=\"b\r\"\r\nZ\r\n0\r\n\r\n" + hidden, "200 400 502"},
		{"chunk line without end", post, "Transfer-Encoding: chunked\r\n", "1;" + strings.Repeat("a", 70_000) + "\r\nZ\r\n0\r\n\r\n" + hidden, "400 502"},
		{"chunk line with a bare LF", post, "Transfer-Encoding: chunked\r\n", "1\nZ\r\n0\r\n\r\n" + hidden, "400 502"},
		{"chunk without its CRLF", post, "Transfer-Encoding: chunked\r\n", "1\r\nZZ0\r\n\r\n" + hidden, "400 502"},
		{"trailer that names a length", post, "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "0\r\nContent-Length: 5\r\n\r\n" + hidden, "200 400"},
		{"header name with a control character", post, "X-\x01A: b\r\n" + length("ab"), "ab" + hidden, "400"},
		{"header name with a space", post, "X A: b\r\n" + length("ab"), "ab" + hidden, "400"},
		{"header without a name", post, ": b\r\n" + length("ab"), "ab" + hidden, "400"},
		{"header without a colon", post, "X-A b\r\n" + length("ab"), "ab" + hidden, "400"},
		{"header value with a carriage return", post, "X-A: b\rTransfer-Encoding: chunked\r\n" + length("0\r\n\r\n"), "0\r\n\r\n" + hidden, "400"},
		{"two Host headers", "GET /v1/things HTTP/1.1\r\nHost: other.example\r\n", "", hidden, "400"},
		{"Host with a path", "GET /v1/things HTTP/1.1\r\n", "Host: a/b\r\n", hidden, "400"},
		{"a method with a space", "GET  /v1/things HTTP/1.1\r\n", "", hidden, "400"},
		{"HTTP/1.1 spelled otherwise", "GET /v1/things http/1.1\r\n", "", hidden, "400"},
		{"an unknown version", "GET /v1/things HTTP/9.9\r\n", "", hidden, "400 505"},
	} {
		attack(t, "smuggling", tt.name, func(t *testing.T) {
			p.reset()
			hostLine := "Host: " + host + "\r\n"
			if strings.HasPrefix(tt.headers, "Host:") {
				hostLine = ""
			}
			received, closed := g.raw(t, tt.line+hostLine+key+tt.headers+"\r\n"+tt.body)
			all := responses(t, received)
			if !closed {
				t.Errorf("the connection stays open: %.300q", received)
			}
			if len(all) != 1 || !strings.Contains(tt.statuses, fmt.Sprint(all[0].status)) {
				t.Errorf("%d responses, want one with status %s: %.1200q", len(all), tt.statuses, received)
			}
			for _, r := range p.seen() {
				if strings.Contains(r.target, "smuggled") {
					t.Errorf("the provider received the hidden request %s", r.target)
				}
			}
		})
	}
	// An honest pipeline of two requests is served.
	received, _ := g.raw(t, strings.Repeat("GET /v1/things HTTP/1.1\r\nHost: "+host+"\r\n"+key+"\r\n", 2))
	if all := responses(t, received); len(all) != 2 || all[0].status != 200 || all[1].status != 200 {
		t.Errorf("an honest pipeline gets %d responses, want both: %.1200q", len(all), received)
	}
}

// TestRefusedBodiesAreNotReadAsRequests refuses a request before its body was
// read, with a body that looks like a request.
func TestRefusedBodiesAreNotReadAsRequests(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	host := strings.TrimPrefix(g.root, "http://")
	for _, tt := range []struct {
		name, line, headers string
		keyed               bool // with a valid key, for a provider
		chunked             bool
		status              int
	}{
		{"without a key", "POST /v1/chat/completions", "", false, false, 401},
		{"with a wrong key", "POST /v1/chat/completions", "x-gateway-api-key: mg-wrong\r\n", false, false, 401},
		{"without a key, chunked", "POST /v1/chat/completions", "", false, true, 401},
		{"a control route without a key", "POST /v1/api-keys/workspace/service", "", false, false, 401},
		{"a method that is not allowed", "PATCH /v1/things", "", true, false, 405},
		{"a path without a canonical form", "POST /v1/../x", "", true, false, 400},
		{"nothing at the path", "POST /nothing", "", false, false, 404},
		{"a wrong content type", "POST /v1/chat/completions", "Content-Type: text/plain\r\n", true, false, 400},
	} {
		attack(t, "smuggling", "body as request: "+tt.name, func(t *testing.T) {
			t.Parallel() // the connection stays open
			p := newProvider(t, nil)
			key := "x-gateway-api-key: " + rootKey + "\r\nx-gateway-provider: openai-compatible\r\nx-gateway-custom-host: " + p.url + "\r\n"
			hidden := "GET " + marker + " HTTP/1.1\r\nHost: " + host + "\r\n" + key + "\r\n"
			headers := tt.headers
			if tt.keyed {
				headers = key + headers
			}
			framing, body := fmt.Sprintf("Content-Length: %d\r\n", len(hidden)), hidden
			if tt.chunked {
				framing, body = "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
			}
			received, _ := g.raw(t, tt.line+" HTTP/1.1\r\nHost: "+host+"\r\n"+headers+framing+"\r\n"+body)
			all := responses(t, received)
			if len(all) != 1 || all[0].status != tt.status || len(p.seen()) != 0 {
				t.Errorf("%d responses, the provider saw %v; want one %d and nothing sent on: %.1200q", len(all), p.seen(), tt.status, received)
			}
		})
	}
}
