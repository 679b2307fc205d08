package security

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// h2Quick are settings with limits short enough to be waited for, except that of a body
// that pauses: what waits for it fails.
const h2Quick = "timeouts: {request_header: 2s, connection_idle: 2s, control_body: 2s, client: 2s, body_grace: 5m}\n"

// onBothHTTP2 runs f with a gateway that speaks HTTP/2 in the clear and with one
// that speaks it by TLS. Afterwards each must serve an ordinary request of either
// version of HTTP.
func onBothHTTP2(t *testing.T, name string, most int64, f func(t *testing.T, g *gateway, trust *tls.Config)) {
	t.Helper()
	ca := newIssuer(t)
	files := tlsFiles{t.TempDir()}
	cert, key := ca.server(t, "gateway")
	files.write(t, "cert.pem", cert)
	files.write(t, "key.pem", key)
	for _, tt := range []struct {
		name, settings string
		trust          *tls.Config
	}{
		{"in the clear", "version: 1\n" + h2Quick, nil},
		{"by TLS", files.settings("") + h2Quick, &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}}},
	} {
		attack(t, "exhaustion", "HTTP/2 "+tt.name+": "+name, func(t *testing.T) {
			g := launch(t, options{settings: tt.settings})
			g.serves(t, tt.trust)
			if risen := g.peakMemory(t, func() { f(t, g, tt.trust) }); risen > most {
				t.Errorf("it took %d MB, want at most %d", risen>>20, most>>20)
			}
			g.serves(t, tt.trust)
		})
	}
}

// serves requires that an ordinary request is served by HTTP/1.1 and HTTP/2.
func (g *gateway) serves(t *testing.T, trust *tls.Config) {
	t.Helper()
	for _, second := range []bool{false, true} {
		var p http.Protocols
		p.SetHTTP1(!second)
		p.SetHTTP2(second && trust != nil)
		p.SetUnencryptedHTTP2(second && trust == nil)
		tr := &http.Transport{Protocols: &p, DisableKeepAlives: true}
		if trust != nil {
			tr.TLSClientConfig = &tls.Config{RootCAs: trust.RootCAs}
		}
		req, _ := http.NewRequestWithContext(t.Context(), "GET", g.url+"/auth/me", nil)
		req.Header.Set("x-gateway-api-key", rootKey)
		res, err := (&http.Client{Transport: tr, Timeout: patience}).Do(req)
		if err != nil {
			t.Fatalf("an ordinary request: %v", err)
		}
		res.Body.Close()
		if want := map[bool]int{false: 1, true: 2}[second]; res.StatusCode != 200 || res.ProtoMajor != want {
			t.Errorf("an ordinary request: %s %d, want HTTP/%d with 200", res.Proto, res.StatusCode, want)
		}
	}
}

func TestHTTP2StreamsAreLimited(t *testing.T) {
	onBothHTTP2(t, "more streams than are announced", 48<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		const limit, more = 250, 50
		c := g.http2(t, trust)
		if got := c.settings[3]; got != limit {
			t.Errorf("%d streams are announced, want %d", got, limit)
		}
		request := h2Request("POST", "/v1/chat/completions", "x-gateway-api-key", rootKey, "content-type", "application/json", "content-length", "1000")
		for i := range uint32(limit + more) {
			c.send(h2Headers, h2EndHeaders, 2*i+1, request) // the body does not come
		}
		for i := range uint32(more) {
			refused := c.await(t, "refusal of a stream", func(f h2Frame) bool { return f.kind == h2Reset })
			if want := 2*(limit+i) + 1; refused.code() != h2ProtocolError || refused.stream != want {
				t.Fatalf("stream %d was reset with code %d, want %d with %d", refused.stream, refused.code(), want, h2ProtocolError)
			}
		}
	})
}

func TestHTTP2HeadersAreBounded(t *testing.T) {
	field := func(i int) []byte { return block(fmt.Sprint("x-", i), strings.Repeat("a", 1000)) }
	flood := func(t *testing.T, c *h2Conn, next func(i int) []byte) {
		c.send(h2Headers, 0, 1, h2Request("GET", "/v1/models"))
		for i := range 1 << 16 { // 64 MB of fields of 1 KB
			if !c.send(h2Continuation, 0, 1, next(i)) {
				break
			}
		}
		c.ended(t)
	}
	onBothHTTP2(t, "CONTINUATION frames without end", 16<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		flood(t, g.http2(t, trust), field)
	})
	onBothHTTP2(t, "headers that do not end", 16<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		c := g.http2(t, trust)
		c.send(h2Headers, 0, 1, h2Request("GET", "/v1/models"))
		c.ended(t)
	})
	onBothHTTP2(t, "a connection without a request", 16<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		g.http2(t, trust).ended(t)
	})
	onBothHTTP2(t, "a small block that unfolds to 60 MB of headers", 16<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		c := g.http2(t, trust)
		entry := appendText(appendText([]byte{0x40}, "x-a"), strings.Repeat("a", 3900)) // enters the dynamic table
		request := append(h2Request("GET", "/v1/models", "x-gateway-api-key", rootKey), entry...)
		c.send(h2Headers, h2EndHeaders|h2EndStream, 1, append(request, bytes.Repeat([]byte{0xbe}, 10<<10)...))
		if body := c.bodyOf(t, 1); !strings.Contains(body, "431") {
			t.Errorf("received %.300q, want a 431", body)
		}
	})
	onBothHTTP2(t, "too many headers", 16<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		c := g.http2(t, trust)
		request := h2Request("GET", "/v1/models", "x-gateway-api-key", rootKey)
		for i := range 250 {
			request = append(request, block(fmt.Sprint("x-", i), "a")...)
		}
		c.send(h2Headers, h2EndHeaders|h2EndStream, 1, request)
		if body := c.bodyOf(t, 1); !strings.Contains(body, "request_headers_too_large") || !strings.Contains(body, "limits.header_count") {
			t.Errorf("received %.300q, want a refusal that names limits.header_count", body)
		}
	})
}

func TestHTTP2StreamsThatAreResetAtOnceCostLittle(t *testing.T) {
	for _, tt := range []struct {
		name string
		more []string
	}{
		{"without a key", nil},
		{"with a key", []string{"x-gateway-api-key", rootKey, "content-type", "application/json"}},
	} {
		onBothHTTP2(t, "streams that are reset at once, "+tt.name, 160<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
			before := metric(g.series(t), "go_goroutines")
			request := h2Request("POST", "/v1/chat/completions", tt.more...)
			for range 4 {
				c := g.http2(t, trust)
				for i := range uint32(10_000) {
					c.SetWriteDeadline(time.Now().Add(patience))
					both := append(frame(h2Headers, h2EndHeaders, 2*i+1, request), frame(h2Reset, 0, 2*i+1, []byte{0, 0, 0, 8})...)
					if _, err := c.Write(both); err != nil {
						break // the gateway may end the connection
					}
				}
				g.serves(t, trust)
				c.Close()
			}
			waittest.Until(t, "nothing of the streams is left", func() bool { return metric(g.series(t), "go_goroutines") < before+50 })
		})
	}
}

func TestHTTP2StreamsWithoutAKeyAreNotHeld(t *testing.T) {
	onBothHTTP2(t, "a slow body without a key", 48<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		c := g.http2(t, trust)
		request := h2Request("POST", "/v1/chat/completions", "content-type", "application/json", "content-length", "100000")
		begun := append([]byte("{"), bytes.Repeat([]byte(" "), 16<<10-1)...) // enough that reading it opens the window
		for i := range uint32(1000) {                                        // four times what may be open at once
			c.send(h2Headers, h2EndHeaders, 2*i+1, request)
			if i > 0 { // the first sends nothing of its body
				c.send(h2Data, 0, 2*i+1, begun)
			}
			c.read = func(f h2Frame) {
				if f.kind == h2Window && f.stream == 2*i+1 {
					t.Fatalf("stream %d: the gateway reads the body of a request without a key", f.stream)
				}
			}
			if body := c.bodyOf(t, 2*i+1); !strings.Contains(body, "invalid_api_key") && !strings.Contains(body, "missing_api_key") {
				t.Fatalf("stream %d: received %.300q, want a refusal for want of a key", 2*i+1, body)
			}
		}
	})
	onBothHTTP2(t, "responses that are not taken, without a key", 48<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		c := g.http2(t, trust, 4, 0) // no byte of a response may be sent
		const streams = 250
		for i := range uint32(streams) {
			c.send(h2Headers, h2EndHeaders|h2EndStream, 2*i+1, h2Request("GET", "/v1/models"))
		}
		for range streams {
			c.await(t, "end of a stream", func(f h2Frame) bool { return f.kind == h2Reset })
		}
	})
	onBothHTTP2(t, "a large page that is not taken, without a key", 48<<20, func(t *testing.T, g *gateway, trust *tls.Config) {
		c := g.http2(t, trust, 4, 0)
		c.send(h2Headers, h2EndHeaders|h2EndStream, 1, h2Request("GET", "/reference"))
		c.await(t, "end of the stream", func(f h2Frame) bool { return f.kind == h2Reset })
	})
}
