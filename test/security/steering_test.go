package security

import (
	"net/http"
	"strings"
	"testing"
)

// steering are headers by which a provider would command the proxy in front of
// the gateway, or change what clients do at its address.
var steering = map[string]string{
	"X-Accel-Redirect": "/internal/file", "X-Accel-Limit-Rate": "1", "X-Accel-Expires": "86400", "X-Sendfile": "/etc/passwd", "X-Lighttpd-Send-File": "/etc/passwd",
	"X-Reproxy-Url": "http://10.0.0.1/", "Alt-Svc": `h3="evil.example.com:443"`, "Strict-Transport-Security": "max-age=0", "Clear-Site-Data": `"*"`, "Service-Worker-Allowed": "/",
	"X-Litespeed-Location": "/internal/file", "X-Litespeed-Cache-Control": "public", "Cdn-Cache-Control": "max-age=86400", "Example-Cdn-Cache-Control": "max-age=86400", "Surrogate-Control": "max-age=86400",
	"Surrogate-Key": "all", "Edge-Control": "max-age=86400", "Public-Key-Pins-Report-Only": `pin-sha256="x"`, "Expect-Ct": "max-age=86400", "Critical-Ch": "Sec-CH-UA-Model", "Set-Cookie2": "session=forged",
	"Nel": `{"report_to":"g","max_age":86400}`, "Report-To": `{"group":"g","max_age":86400,"endpoints":[{"url":"https://evil.example.com"}]}`, "Reporting-Endpoints": `g="https://evil.example.com"`,
	"Accept-Ch": "Sec-CH-UA-Model", "Origin-Agent-Cluster": "?0", "Set-Login": "logged-out", "Public-Key-Pins": `pin-sha256="x"; max-age=86400`,
	"X_gateway_provider": "forged", "X_accel_redirect": "/internal/file",
	"X-Gateway-Provider": "forged", "Connection": "X-Per-Hop", "X-Per-Hop": "1",
}

func TestProvidersSteerNothingBeyondTheirResponse(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range steering {
			w.Header().Set(name, value)
		}
		w.Header().Set("Set-Cookie", "session=forged")
		w.Header().Set("X-Request-Id", "req_1")
		respondChat(w, r)
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

// Caches keep responses to Authorization to themselves, but do not know that the gateway's
// own header holds a key.
func TestProvidersShareNoResponseThroughCaches(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	for sent, want := range map[string]string{
		"public, max-age=600":                    "private, max-age=600",
		"PUBLIC":                                 "private",
		"max-age=5, s-maxage=600":                "private, max-age=5",
		`private="set-cookie", s-maxage =9`:      "private",
		"max-age=5":                              "max-age=5",
		"no-store":                               "no-store",
		"public, no-store":                       "private, no-store",
		"max-age=5\npublic":                      "private, max-age=5", // two lines
		"Expires: Thu, 01 Jan 2099 00:00:00 GMT": "",
		"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT": "",
		`Etag: "one"`: "",
	} {
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			name, value, other := strings.Cut(sent, ": ")
			if !other {
				name, value = "Cache-Control", sent
			}
			w.Header()[name] = strings.Split(value, "\n")
			for _, name := range []string{"CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "Surrogate-Control", "Edge-Control", "X-Accel-Expires"} {
				w.Header().Set(name, "max-age=600")
			}
			w.Header().Set("Vary", "Accept")
			respondChat(w, r)
		})
		for _, path := range []string{"/v1/chat/completions", "/v1/other"} {
			attack(t, "injection", "Cache-Control: "+sent+" of a provider at "+path, func(t *testing.T) {
				got := g.do(t, "POST", path, chatBody, toCustomHost(rootKey, p)...).ok(t)
				if v := strings.Join(got.header["Cache-Control"], ", "); v != want {
					t.Errorf("Cache-Control: %s, want %s", v, want)
				}
				if v := strings.Join(got.header["Vary"], ", "); v != "Accept, X-Gateway-Api-Key, Authorization, X-Api-Key, X-Goog-Api-Key" {
					t.Errorf("Vary: %s", v)
				}
				for _, name := range []string{"Cdn-Cache-Control", "Cloudflare-Cdn-Cache-Control", "Surrogate-Control", "Edge-Control", "X-Accel-Expires"} {
					if v := got.header.Get(name); v != "" {
						t.Errorf("%s: %s", name, v)
					}
				}
			})
		}
	}
}

// Some servers do not tell a dash from an underscore in the name of a header, and some
// take the path or the method from one.
func TestHeadersInOtherSpellingsReachNoProvider(t *testing.T) {
	t.Parallel()
	g, p := launch(t, options{}), newProvider(t, nil)
	for _, name := range []string{
		"X_Gateway_Api_Key", "X-Gateway_Api-Key", "x_gateway_config", "X_Forwarded_For", "X_Forwarded-Host", "X_Real_IP", "Metadata_Flavor", "X_aws_ec2_metadata_token",
		"X_Api_Key", "Api_Key", "X_Goog_Api_Key", "X_HTTP_Method_Override", "X_Http-Method", "X_Method_Override", "Transfer_Encoding", "Proxy_Authorization",
		"X-Original-URL", "X_Original_URL", "X-Rewrite-Url", "X-Original-URI",
	} {
		attack(t, "smuggling", name+" reaches the provider", func(t *testing.T) {
			p.reset()
			g.do(t, "POST", "/v1/invented", chatBody, toCustomHost(rootKey, p, name, "sentinel", "X-Own_Header", "kept")...).ok(t)
			if p.got("sentinel") || !p.got("kept") {
				t.Errorf("the provider received %v", p.seen()[0].header)
			}
		})
	}
}
