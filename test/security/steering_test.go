package security

import (
	"net/http"
	"testing"
)

// steering are headers by which a provider would command the proxy in front of
// the gateway, or change what clients do at its address.
var steering = map[string]string{
	"X-Accel-Redirect": "/internal/file", "X-Accel-Limit-Rate": "1", "X-Accel-Expires": "86400", "X-Sendfile": "/etc/passwd", "X-Lighttpd-Send-File": "/etc/passwd",
	"X-Reproxy-Url": "http://10.0.0.1/", "Alt-Svc": `h3="evil.example.com:443"`, "Strict-Transport-Security": "max-age=0", "Clear-Site-Data": `"*"`, "Service-Worker-Allowed": "/",
	"X-Gateway-Provider": "forged", "Connection": "X-Per-Hop", "X-Per-Hop": "1",
}

func TestProvidersSteerNothingBeyondTheirAnswer(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range steering {
			w.Header().Set(name, value)
		}
		w.Header().Set("Set-Cookie", "session=forged")
		w.Header().Set("X-Request-Id", "req_1")
		answerChat(w, r)
	})
	g, _ := start(t)
	for name, body := range map[string]string{
		"/v1/chat/completions": chatBody,
		"/v1/other":            chatBody,
		"/v1/messages":         `{"model":"gpt-4o","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`,
	} {
		got := g.do(t, "POST", name, body, "x-gateway-api-key", rootKey, "x-gateway-provider", "openai",
			"x-gateway-custom-host", p.url, "authorization", "Bearer "+clientKey).ok(t)
		for header, value := range steering {
			attack(t, "injection", header+" of a provider at "+name, func(t *testing.T) {
				if got.header.Get(header) == value {
					t.Errorf("the client received %s: %s", header, value)
				}
			})
		}
		attack(t, "injection", "Set-Cookie of a provider at "+name, func(t *testing.T) {
			// On pass-through the client speaks with the provider's own API.
			if passes := got.header.Get("Set-Cookie") != ""; passes != (name == "/v1/other") {
				t.Errorf("Set-Cookie = %q at %s", got.header.Get("Set-Cookie"), name)
			}
		})
		if got.header.Get("X-Request-Id") != "req_1" {
			t.Errorf("%s: the provider's own header X-Request-Id did not arrive", name)
		}
	}
}
