package security

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

const mb = 1 << 20

// heldMemory is the memory of bodies that the gateway counts.
func (g *gateway) heldMemory(t *testing.T) int {
	return int(metric(g.series(t), "modelgate_body_memory_bytes"))
}

// halfSent opens a connection whose request announces a body of size bytes, and sends
// that much of it that the gateway has to hold.
func (g *gateway) halfSent(t *testing.T, path, header string, size, sent int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\n"+header+fmt.Sprintf("Content-Length: %d\r\n\r\n", size)+"{"+strings.Repeat(" ", sent)) // may be refused
}

// Half-sent bodies of one key, or of all keys of one organisation, leave memory to others,
// and small bodies are read even where large ones have filled it.
func TestHalfSentBodiesLeaveMemoryToOthers(t *testing.T) {
	const memory = 64 * mb
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"} {
		g := launch(t, options{settings: "version: 1\nlimits: {body_memory: 64 MB}\n"})
		p := newProvider(t, nil)
		write := []string{"completions.write"}
		first, second, third := g.key(t, rootKey, "default", write, ""), g.key(t, rootKey, "default", write, ""), g.key(t, rootKey, "default", write, "")
		g.organisation(t, "rival")
		rival := g.do(t, "POST", "/v1/auth/login", fmt.Sprintf(`{"email":"owner@rival.example","password":%q}`, password)).ok(t).text(t, "token")
		other := g.key(t, rival, "default", write, "")
		flood := func(key string, size, n, atLeast int) {
			header := "x-gateway-api-key: " + key + "\r\nContent-Type: application/json\r\n"
			for range n {
				g.halfSent(t, path, header, size, size-2)
			}
			waittest.Until(t, "half-sent bodies are held", func() bool { return g.heldMemory(t) >= atLeast })
		}
		ask := func(key string, size int) response {
			return g.do(t, "POST", "/v1/chat/completions", chatBody[:len(chatBody)-1]+strings.Repeat(" ", size)+"}", toCustomHost(key, p)...)
		}
		flood(first, 3*mb, 40, 24*mb)
		attack(t, "exhaustion", "half-sent bodies of one key to "+path, func(t *testing.T) {
			if held := g.heldMemory(t); held > memory/2+mb {
				t.Errorf("one key holds %d MB of 64 MB, want at most half", held/mb)
			}
			ask(second, 2*mb).ok(t)
			ask(first, 1000).ok(t)
			ask(first, 100<<10).ok(t)
			ask(first, 6*mb).refused(t, 503, "body_memory_full", "this key", "limits.body_memory")
		})
		flood(second, 3*mb, 40, 36*mb)
		attack(t, "exhaustion", "half-sent bodies of an organisation to "+path, func(t *testing.T) {
			if held := g.heldMemory(t); held > memory/4*3+mb {
				t.Errorf("one organisation holds %d MB of 64 MB, want at most three quarters", held/mb)
			}
			ask(third, 1000).ok(t)
			ask(third, 8*mb).refused(t, 503, "body_memory_full", "this organisation", "limits.body_memory")
			ask(other, mb).ok(t)
			g.as(t, rival, "POST", "/v1/configs", `{"name":"c","workspace_id":"default","config":{"provider":"openai","api_key":"sk-x"}}`).ok(t)
		})
		flood(other, 3*mb, 40, 44*mb)
		attack(t, "exhaustion", "half-sent large bodies of two organisations to "+path, func(t *testing.T) {
			ask(third, 1000).ok(t)
			ask(other, 100<<10).ok(t)
			g.do(t, "POST", "/v1/auth/login", fmt.Sprintf(`{"email":"owner@rival.example","password":%q}`, password)).ok(t)
		})
	}
}

// Bodies without a key, and many small ones, have bounds of their own.
func TestSmallHalfSentBodiesLeaveMemoryToOthers(t *testing.T) {
	g := launch(t, options{settings: "version: 1\nlimits: {body_memory: 16 MB, keyless_connections: -1}\n"})
	p := newProvider(t, nil)
	first, second := g.key(t, rootKey, "default", []string{"completions.write"}, ""), g.key(t, rootKey, "default", []string{"completions.write"}, "")
	for _, tt := range []struct {
		name, path, header string
		most               int
	}{
		{"of one key", "/v1/chat/completions", "x-gateway-api-key: " + first + "\r\nContent-Type: application/json\r\n", 8 * mb},
		{"to sign in", "/v1/auth/login", "Content-Type: application/json\r\n", 9 * mb},
		{"to reset a password", "/v1/auth/password", "Content-Type: application/json\r\n", 9 * mb},
		{"to accept an invitation", "/v1/auth/invites/accept", "Content-Type: application/json\r\n", 9 * mb},
	} {
		attack(t, "exhaustion", "small half-sent bodies "+tt.name, func(t *testing.T) {
			for range 300 {
				g.halfSent(t, tt.path, tt.header, 63<<10, 60<<10)
			}
			waittest.Until(t, "half-sent bodies are held", func() bool { return g.heldMemory(t) > 512<<10 })
			if held := g.heldMemory(t); held > tt.most+256<<10 {
				t.Errorf("they hold %d KB of 16 MB, want at most %d KB", held>>10, tt.most>>10)
			}
			g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(second, p)...).ok(t)
			g.as(t, rootKey, "GET", "/v1/configs", "").ok(t)
		})
	}
}

// A client that keeps to the minimum rate holds memory for a limited time, wherever a body
// or a part of it is held until it is complete. A body that is passed on may take longer.
func TestHalfSentBodiesAreHeldForALimitedTime(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: "version: 1\ntimeouts: {body_grace: 5s, held_body: 2s}\nlimits: {body_rate: 100}\n"})
	p := newProvider(t, nil)
	slug := g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"no projects","organisation_id":"default","checks":[{"id":"default.contains","parameters":{"words":[%q],"operator":"none"}}],"actions":{"deny":true}}`, forbidden), "slug")
	host := "Host: x\r\nConnection: close\r\n"
	target := "x-gateway-provider: openai-compatible\r\nx-gateway-custom-host: " + p.url + "\r\nAuthorization: Bearer " + clientKey + "\r\n"
	root := host + "x-gateway-api-key: " + rootKey + "\r\n"
	guardedBy := root + `x-gateway-config: {"input_guardrails":["` + slug + `"],"provider":"openai-compatible","custom_host":"` + p.url + `","api_key":"k"}` + "\r\n"
	const length = "Content-Length: 400000\r\n\r\n"
	const json, form = "Content-Type: application/json\r\n" + length, "Content-Type: multipart/form-data; boundary=b\r\n" + length
	const part, file = "--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	for _, tt := range []struct{ name, head, piece string }{
		{"chat", "POST /v1/chat/completions HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"messages", "POST /v1/messages HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"responses", "POST /v1/responses HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"completions", "POST /v1/completions HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"embeddings", "POST /v1/embeddings HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"gemini", "POST /v1beta/models/m:generateContent HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"converse", "POST /model/m/converse HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"explain", "POST /v1/explain HTTP/1.1\r\n" + root + json + "{", " "},
		{"pass-through of short JSON", "POST /v1/things HTTP/1.1\r\n" + root + target + json + "{", " "},
		{"a chunked body", "POST /v1/chat/completions HTTP/1.1\r\n" + root + target + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "20\r\n" + strings.Repeat(" ", 32) + "\r\n"},
		{"a form whose model chooses the provider", "POST /v1/audio/transcriptions HTTP/1.1\r\n" + root + form + part, "a"},
		{"chunked JSON that a guardrail reads", "POST /v1/things HTTP/1.1\r\n" + guardedBy + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "20\r\n" + strings.Repeat(" ", 32) + "\r\n"},
		{"text that a guardrail reads", "POST /v1/things HTTP/1.1\r\n" + guardedBy + "Content-Type: text/plain\r\n" + length + strings.Repeat("a", 5000), "a"},
		{"a field that a guardrail reads", "POST /v1/things HTTP/1.1\r\n" + guardedBy + form + part, "a"},
		{"a row that a guardrail reads", "POST /v1/files HTTP/1.1\r\n" + guardedBy + form + file + `{"a":"`, "a"},
	} {
		attack(t, "exhaustion", "steadily half-sent: "+tt.name, func(t *testing.T) {
			t.Parallel()
			received, took := g.slowly(t, tt.head, strings.Repeat(tt.piece, max(1, 32/len(tt.piece))), 50*time.Millisecond)
			if took > 20*time.Second {
				t.Errorf("the connection was held for %s", took)
			}
			if !strings.HasPrefix(received, "HTTP/1.1 408 ") || !strings.Contains(received, "timeouts.held_body") {
				t.Errorf("received %.500q, want a 408 that names timeouts.held_body", received)
			}
		})
	}
	for _, tt := range []struct {
		name, head, piece, end string
		pieces                 int
	}{
		{"an upload that is passed on", "POST /v1/things HTTP/1.1\r\n" + root + target + "Content-Type: text/plain\r\n", strings.Repeat("a", 50), "", 80},
		{"rows that are short enough each", "POST /v1/files HTTP/1.1\r\n" + guardedBy + "Content-Type: multipart/form-data; boundary=b\r\n", `{"a":"` + strings.Repeat("a", 50) + "\"}\n", "\r\n--b--\r\n", 80},
	} {
		attack(t, "exhaustion", "steady client is served: "+tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			begin := ""
			if tt.end != "" {
				begin = file
			}
			fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", tt.head, len(begin)+tt.pieces*len(tt.piece)+len(tt.end), begin)
			for range tt.pieces { // for twice as long as a body may be held
				io.WriteString(conn, tt.piece)
				<-time.After(50 * time.Millisecond)
			}
			io.WriteString(conn, tt.end)
			conn.SetReadDeadline(time.Now().Add(patience))
			if b, _ := io.ReadAll(conn); !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
				t.Errorf("received %.400q, want 200", b)
			}
		})
	}
}

// Hooks that never answer take memory, in the background or not: it is counted, and one key
// cannot take that of others.
func TestHooksThatNeverAnswerAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, list, more, check, parameters string }{
		{"webhooks before, in the background", "input_guardrails", `,"async":true`, "default.webhook", `"webhookURL":"%[1]s/%[2]d","timeout":60000`},
		{"logs before, in the background", "input_guardrails", `,"async":true`, "default.log", `"logURL":"%[1]s/%[2]d","timeout":60000`},
		{"webhooks after, in the background", "output_guardrails", `,"async":true`, "default.webhook", `"webhookURL":"%[1]s/%[2]d","timeout":60000`},
		{"logs after, in the background", "output_guardrails", `,"async":true`, "default.log", `"logURL":"%[1]s/%[2]d","timeout":60000`},
		{"partners after, in the background", "output_guardrails", `,"async":true`, "akto.scan", `"credentials":{"apiToken":"t","apiUrl":"%[1]s/%[2]d"},"timeout":60000`},
		{"webhooks before", "input_guardrails", "", "default.webhook", `"webhookURL":"%[1]s/%[2]d","timeout":60000`},
		{"logs after", "output_guardrails", "", "default.log", `"logURL":"%[1]s/%[2]d","timeout":60000`},
	} {
		attack(t, "exhaustion", "hooks that never answer: "+tt.name, func(t *testing.T) {
			g := launch(t, options{settings: "version: 1\nlimits: {body_memory: 16 MB}\n"})
			p, hook := newProvider(t, nil), newSilent(t)
			write := []string{"completions.write"}
			key, other := g.key(t, rootKey, "default", write, ""), g.key(t, rootKey, "default", write, "")
			config := strings.Replace(targetAt(p, ""), "{", "{"+hooksOf(10, tt.list, tt.check, tt.parameters, hook.root, tt.more)+",", 1)
			body := chatBody[:len(chatBody)-1] + strings.Repeat(" ", 60<<10) + "}"
			refused := make(chan bool, 100)
			for range cap(refused) {
				go func() {
					req, _ := http.NewRequestWithContext(t.Context(), "POST", g.url+"/chat/completions", strings.NewReader(body))
					req.Header = http.Header{"Content-Type": {"application/json"}, "X-Gateway-Api-Key": {key}, "X-Gateway-Config": {config}}
					res, err := client.Do(req)
					if err != nil {
						return
					}
					defer res.Body.Close()
					text, _ := io.ReadAll(res.Body)
					refused <- res.StatusCode == 503 && strings.Contains(string(text), "limits.body_memory")
				}()
			}
			waittest.Until(t, "a request is refused", func() bool {
				select {
				case no := <-refused:
					return no
				default:
					return false
				}
			})
			if held := g.heldMemory(t); held < 3*mb || held > 8*mb+256<<10 {
				t.Errorf("%d KB are counted, want some and at most half of 16 MB", held>>10)
			}
			g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(other, p)...).ok(t)
			g.do(t, "POST", "/v1/chat/completions", body, toCustomHost(other, p)...).ok(t)
			hook.server.CloseClientConnections()
			waittest.Until(t, "the memory is returned", func() bool {
				hook.server.CloseClientConnections() // of requests that were admitted since
				return g.heldMemory(t) == 0
			})
		})
	}
}
