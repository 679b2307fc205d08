package security

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// quick are settings with limits short enough to be waited for.
const quick = `version: 1
timeouts: {request_header: 1s, body_grace: 1s, request_body: 4s, control_body: 3s, connection_idle: 1s}
limits: {body_rate: 2000, body_memory: 64 MB, header_count: 50, keyless_connections: 8}
`

// slowly sends a head, then each piece after a pause, until the gateway closes
// the connection, and returns what came back and how long that took.
func (g *gateway) slowly(t *testing.T, head, piece string, pause time.Duration) (received string, took time.Duration) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begun, done := time.Now(), make(chan string, 1)
	go func() {
		conn.SetReadDeadline(time.Now().Add(patience))
		b, _ := io.ReadAll(conn)
		done <- string(b)
	}()
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case text := <-done:
			return text, time.Since(begun)
		case <-time.After(pause):
			io.WriteString(conn, piece) // fails once the gateway has closed it
		}
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	g, p := launch(t, options{settings: quick}), newProvider(t, nil)
	host := "Host: " + strings.TrimPrefix(g.root, "http://") + "\r\n"
	root := "x-gateway-api-key: " + rootKey + "\r\n"
	key := root + "x-gateway-provider: openai-compatible\r\nx-gateway-custom-host: " + p.url + "\r\nAuthorization: Bearer " + clientKey + "\r\n"
	const json = "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
	const second = time.Second
	for _, tt := range []struct {
		name, head, piece string
		pause             time.Duration
		status            string // empty for a connection that is closed without a response
		words             []string
	}{
		{"headers that do not end", "GET /v1/models HTTP/1.1\r\n" + host, "X-A: b\r\n", second / 5, "", nil},
		{"a request line that does not end", "GET /v1/", "a", second / 5, "", nil},
		{"nothing at all", "", "", second, "", nil},
		{"a JSON body that stops", "POST /v1/chat/completions HTTP/1.1\r\n" + host + key + json + "{", "", second, "408", []string{"request_body_timeout", "timeouts.body_grace"}},
		{"a JSON body byte by byte", "POST /v1/chat/completions HTTP/1.1\r\n" + host + key + json + "{", " ", second / 10, "408", []string{"limits.body_rate"}},
		{"a JSON body that takes too long", "POST /v1/chat/completions HTTP/1.1\r\n" + host + key + json + "{", strings.Repeat(" ", 600), second / 10, "408", []string{"timeouts.request_body"}},
		{"a body of the messages dialect", "POST /v1/messages HTTP/1.1\r\n" + host + key + json + "{", "", second, "408", []string{`"type":"error"`, "timeouts.body_grace"}},
		{"a chunked body that stops", "POST /v1/chat/completions HTTP/1.1\r\n" + host + key + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "", second, "408", []string{"timeouts.body_grace"}},
		{"a form that stops", "POST /v1/audio/transcriptions HTTP/1.1\r\n" + host + key + "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n--b\r\n", "", second, "408", []string{"timeouts.body_grace"}},
		{"a pass-through upload that stops", "POST /v1/things HTTP/1.1\r\n" + host + key + "Content-Type: text/plain\r\nContent-Length: 100000\r\n\r\nabc", "", second, "408", []string{"timeouts.body_grace"}},
		{"a pass-through upload byte by byte", "POST /v1/things HTTP/1.1\r\n" + host + key + "Content-Type: text/plain\r\nContent-Length: 100000\r\n\r\nabc", "x", second / 10, "408", []string{"limits.body_rate"}},
		{"a control route", "POST /v1/configs HTTP/1.1\r\n" + host + root + json + "{", "", second, "408", []string{"timeouts.body_grace"}},
		{"a control route that takes too long", "POST /v1/configs HTTP/1.1\r\n" + host + root + json + "{", strings.Repeat(" ", 600), second / 10, "408", []string{"timeouts.control_body"}},
		{"signing in", "POST /v1/auth/login HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n{", " ", second / 10, "408", []string{"limits.body_rate"}},
		{"explain", "POST /v1/explain HTTP/1.1\r\n" + host + root + json + "{", "", second, "408", []string{"timeouts.body_grace"}},
		{"a body without a key", "POST /v1/chat/completions HTTP/1.1\r\n" + host + json + "{", " ", second / 10, "401", nil},
		{"a body to the log", "GET /v1/logs HTTP/1.1\r\n" + host + "Content-Length: 1000\r\n\r\n{", " ", second / 10, "401", nil},
		{"a body to health", "GET /health HTTP/1.1\r\n" + host + "Content-Length: 1000\r\n\r\n{", " ", second / 10, "200", nil},
		{"a body where nothing is", "POST /nothing HTTP/1.1\r\n" + host + "Content-Length: 1000\r\n\r\n{", " ", second / 10, "404", nil},
	} {
		attack(t, "exhaustion", "slow: "+tt.name, func(t *testing.T) {
			t.Parallel()
			received, took := g.slowly(t, tt.head, tt.piece, tt.pause)
			if took > 30*time.Second {
				t.Errorf("the connection was held for %s", took)
			}
			if tt.status == "" {
				return
			}
			if !strings.HasPrefix(received, "HTTP/1.1 "+tt.status+" ") {
				t.Fatalf("received %.400q, want a %s", received, tt.status)
			}
			for _, w := range tt.words {
				if !strings.Contains(received, w) {
					t.Errorf("the response does not name %q: %.600q", w, received)
				}
			}
		})
	}
}

func TestSteadyClientsAreServed(t *testing.T) {
	g, p := launch(t, options{settings: quick}), newProvider(t, nil)
	host := "Host: " + strings.TrimPrefix(g.root, "http://") + "\r\n"
	key := "x-gateway-api-key: " + rootKey + "\r\nx-gateway-provider: openai-compatible\r\nx-gateway-custom-host: " + p.url + "\r\nAuthorization: Bearer " + clientKey + "\r\n"
	for _, path := range []string{"/v1/chat/completions", "/v1/things"} {
		attack(t, "exhaustion", "steady client is served: "+path, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body := chatBody[:len(chatBody)-1] + strings.Repeat(" ", 9000) + "}"
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\n%s%sConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, host, key, len(body))
			for len(body) > 0 { // 6000 bytes a second, for longer than the grace
				n := min(600, len(body))
				io.WriteString(conn, body[:n])
				body = body[n:]
				<-time.After(100 * time.Millisecond)
			}
			conn.SetReadDeadline(time.Now().Add(patience))
			if b, _ := io.ReadAll(conn); !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
				t.Errorf("received %.400q, want 200", b)
			}
		})
	}
}

// isServed reports whether a client with a key is served on a new connection. Its
// request fails if the gateway refuses the connection before it is sent.
func (g *gateway) isServed(t *testing.T) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", g.url+"/auth/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", rootKey)
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func TestConnectionsWithoutAKeyDoNotShutOutOthers(t *testing.T) {
	g := launch(t, options{settings: quick})
	address := strings.TrimPrefix(g.root, "http://")
	silent := make([]net.Conn, 0, 400) // more than 16 times the limit
	attack(t, "exhaustion", "connections that send nothing", func(t *testing.T) {
		memory := g.peakMemory(t, func() {
			for range cap(silent) {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Errorf("dialling: %v", err)
					return
				}
				silent = append(silent, conn)
			}
			waittest.Until(t, "connections are refused", func() bool {
				return strings.Contains(g.series(t), `modelgate_connections_refused_total{reason="keyless_limit"}`)
			})
		})
		if memory > 32<<20 {
			t.Errorf("400 connections took %d MB", memory>>20)
		}
	})
	attack(t, "exhaustion", "a client of the same address is served in the meantime", func(t *testing.T) {
		// Connections of the last two seconds are not closed for new ones.
		waittest.Until(t, "a new client is served", func() bool { return g.isServed(t) })
	})
	for _, c := range silent {
		c.Close()
	}
	waittest.Until(t, "the silent connections count no more", func() bool { return metric(g.series(t), "modelgate_keyless_connections") == 0 })
	attack(t, "exhaustion", "old connections make room for a client of the same address", func(t *testing.T) {
		g := launch(t, options{settings: "version: 1\nlimits: {keyless_connections: 8}\n"}) // silent connections stay open for long
		for range 16 * 8 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
			if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("a connection without a key within 16 times the limit: %v", err)
			}
		}
		waittest.Until(t, "a client with a key is served", func() bool { return g.isServed(t) })
		if got := g.metric(t, `modelgate_connections_refused_total{reason="keyless_oldest"}`); got == "" {
			t.Error("no old connection was closed for a new one")
		}
	})
	attack(t, "exhaustion", "connections that showed a key count no more", func(t *testing.T) {
		g := launch(t, options{settings: "version: 1\nlimits: {keyless_connections: 8}\n"})
		var open []net.Conn
		ask := func(i int) {
			fmt.Fprintf(open[i], "GET /v1/auth/me HTTP/1.1\r\nHost: a\r\nx-gateway-api-key: %s\r\n\r\n", rootKey)
			res, err := http.ReadResponse(bufio.NewReader(open[i]), nil)
			if err != nil {
				t.Fatalf("connection %d of %d: %v", i+1, len(open), err)
			}
			io.Copy(io.Discard, res.Body)
			if res.StatusCode != http.StatusOK {
				t.Fatalf("connection %d of %d: status %d", i+1, len(open), res.StatusCode)
			}
		}
		for i := range 20 * 8 { // more than 16 times the limit
			conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			open = append(open, conn)
			ask(i)
		}
		for i := range open {
			ask(i)
		}
	})
	attack(t, "exhaustion", "too many headers", func(t *testing.T) {
		var more []string
		for i := range 60 {
			more = append(more, fmt.Sprintf("X-A%d", i), "b")
		}
		g.as(t, rootKey, "GET", "/v1/models", "", more...).refused(t, 431, "limits.header_count", "request_headers_too_large")
	})
	attack(t, "exhaustion", "headers larger than the limit", func(t *testing.T) {
		g.do(t, "GET", "/v1/models", "", "X-A", strings.Repeat("a", 140<<10)).refused(t, 431)
	})
	attack(t, "exhaustion", "a large body to sign in", func(t *testing.T) {
		g.do(t, "POST", "/v1/auth/login", `{"email":"`+strings.Repeat("a", 70<<10)+`"}`).refused(t, 413, "65536")
	})
	for _, path := range []string{"/v1/auth/claim", "/v1/auth/invites/accept", "/v1/auth/password"} {
		attack(t, "exhaustion", "a large body to "+path, func(t *testing.T) {
			g.do(t, "POST", path, `{"token":"`+strings.Repeat("a", 70<<10)+`"}`).refused(t, 413, "65536")
		})
	}
	attack(t, "bodies", "control-plane bodies count against the body memory", func(t *testing.T) {
		body := fmt.Sprintf("Host: %s\r\nx-gateway-api-key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", address, rootKey, 4<<20-1)
		for range 4 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, "POST /v1/configs HTTP/1.1\r\n"+body+strings.Repeat(" ", 3<<20))
		}
		waittest.Until(t, "the bodies are counted", func() bool { return metric(g.series(t), "modelgate_body_memory_bytes") > 3<<20 })
		waittest.Until(t, "they are returned when they stall", func() bool { return metric(g.series(t), "modelgate_body_memory_bytes") == 0 })
	})
}

func (g *gateway) series(t *testing.T) string {
	t.Helper()
	res, err := client.Get(g.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metric returns the sum of a metric over its labels.
func metric(text, name string) (sum float64) {
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); ok && base == name {
			var v float64
			fmt.Sscan(value, &v)
			sum += v
		}
	}
	return sum
}
