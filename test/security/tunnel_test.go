package security

import (
	"net/http"
	"strings"
	"testing"
)

// A proxy in front of the gateway that passes CONNECT on takes a success for a tunnel: what
// follows on the connection would reach the gateway as the proxy's own requests.
func TestConnectOpensNoTunnel(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	for _, target := range []string{"127.0.0.1:22", "gateway.example:443", "/", "/v1/models", "/health", "/v1/auth/me", "/reference", "http://gateway/health"} {
		attack(t, "smuggling", "CONNECT "+target, func(t *testing.T) {
			text, closed := g.raw(t, "CONNECT "+target+" HTTP/1.1\r\nHost: gateway\r\n\r\nGET /v1/auth/me HTTP/1.1\r\nHost: gateway\r\nx-gateway-api-key: "+rootKey+"\r\n\r\n")
			if !closed || strings.Count(text, "HTTP/1.1 ") != 1 {
				t.Errorf("the connection stays open (%v): %.400q", !closed, text)
			}
			status := strings.Fields(text + " . .")[1]
			if status[0] != '4' {
				t.Errorf("status %s: %.200q", status, text)
			}
		})
	}
	g.as(t, rootKey, "GET", "/v1/auth/me", "").ok(t)
	if r := g.do(t, "OPTIONS", "/v1/models", ""); r.status == http.StatusOK {
		t.Errorf("OPTIONS without a key: %d", r.status)
	}
}
