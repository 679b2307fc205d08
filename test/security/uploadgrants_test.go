package security

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// uploads starts a gateway with a provider of files and returns what begins an upload
// with further header lines: the address to which its content goes.
func uploads(t *testing.T, public string) (g *gateway, p *provider, begin func(lines string) string) {
	t.Helper()
	p = newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Goog-Upload-Url", "http://"+r.Host+"/upload/v1beta/files?upload_id=7")
		fmt.Fprint(w, `{"file":{"name":"files/1"}}`)
	})
	g = launch(t, options{
		settings: "version: 1\nproviders:\n  - {slug: files, provider: google, api_key: \"${STORED_KEY}\", custom_host: \"" + p.root + "\"}\n",
		env:      []string{"STORED_KEY=" + storedKey, "MODELGATE_PUBLIC_URL=" + public},
	})
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	return g, p, func(lines string) string {
		t.Helper()
		text, _ := g.raw(t, "POST /upload/v1beta/files HTTP/1.1\r\n"+lines+"\r\nx-gateway-api-key: "+key+"\r\nx-gateway-provider: @files\r\nX-Goog-Upload-Protocol: resumable\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		for _, r := range responses(t, text) {
			if address := r.header.Get("X-Goog-Upload-Url"); address != "" {
				return address
			}
		}
		return ""
	}
}

func TestUploadGrantsReachNoProvider(t *testing.T) {
	t.Parallel()
	g, p, begin := uploads(t, "")
	address := begin("Host: 127.0.0.1")
	query, sealed, ok := strings.Cut(address, "&gateway_grant=")
	if !ok {
		t.Fatalf("the address is %q", address)
	}
	_, query, _ = strings.Cut(query, "?")
	path := "/upload/v1beta/files?"
	for name, target := range map[string]string{
		"at the end": path + query + "&gateway_grant=" + sealed, "before the query": path + "gateway_grant=" + sealed + "&" + query, "twice": path + query + "&gateway_grant=" + sealed + "&gateway_grant=" + sealed,
		"in capitals": path + query + "&GATEWAY_GRANT=" + sealed, "with an escape": path + query + "&gateway%5Fgrant=" + sealed, "with an escaped letter": path + query + "&%67ateway_grant=" + sealed,
		"of another upload": path + "upload_id=8&gateway_grant=" + sealed, "with another parameter": path + query + "&gateway_grant=" + sealed + "&x=1", "alone": path + "gateway_grant=" + sealed,
		"at another path": "/v1beta/files?pageSize=1&gateway_grant=" + sealed, "at a model": "/v1beta/models?gateway_grant=" + sealed, "cut": path + query + "&gateway_grant=" + sealed[:len(sealed)/2],
	} {
		for _, c := range []struct {
			who     string
			headers []string
		}{{"without a key", nil}, {"with a key", []string{"x-gateway-api-key", rootKey, "x-gateway-provider", "@files"}}} {
			for _, method := range []string{"POST", "GET"} {
				attack(t, "credential theft", method+" with an upload grant "+name+", "+c.who, func(t *testing.T) {
					p.reset()
					r := g.do(t, method, target, map[string]string{"POST": "content"}[method], append([]string{"Content-Type", "text/plain"}, c.headers...)...)
					plain, _ := url.QueryUnescape(sealed)
					for _, part := range []string{sealed[:20], plain[:20], "_grant", "_GRANT", "%5Fgrant"} {
						if p.got(part) {
							t.Errorf("the provider received %q: %d %.200s", part, r.status, r.body)
						}
					}
				})
			}
		}
	}
	p.reset()
	g.do(t, "POST", path+query+"&gateway_grant="+sealed, "content", "Content-Type", "text/plain").ok(t)
	if seen := p.seen(); len(seen) != 1 || seen[0].target != path+query || !p.got(storedKey) {
		t.Errorf("with its grant the content arrives as %+v", seen)
	}
}

func TestForgedHostsLeadNoUploadOrAccountLinkAway(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"", "https://gateway.example.com"} {
		g, _, begin := uploads(t, public)
		own := public
		if own == "" {
			own = g.root
		}
		g.member(t, "ann", "member", "[]")
		for _, forged := range []string{
			"Host: thief.example", "Host: 127.0.0.1\r\nX-Forwarded-Host: thief.example", "Host: 127.0.0.1\r\nForwarded: host=thief.example;proto=https", "Host: thief.example:80",
			"Host: 127.0.0.1\r\nX-Forwarded-Server: thief.example", "Host: 127.0.0.1\r\nX-Original-Host: thief.example\r\nX-Host: thief.example", "Host: 127.0.0.1\r\nOrigin: https://thief.example\r\nReferer: https://thief.example/",
		} {
			attack(t, "injection", fmt.Sprintf("an upload with %q, public address %q", forged, public), func(t *testing.T) {
				if address := begin(forged); !strings.HasPrefix(address, own+"/upload/") || strings.Contains(address, "thief") {
					t.Errorf("the content goes to %q, want below %s", address, own)
				}
			})
			attack(t, "injection", fmt.Sprintf("a reset link with %q, public address %q", forged, public), func(t *testing.T) {
				text, _ := g.raw(t, "POST /v1/admin/users/ann@example.com/password-reset HTTP/1.1\r\n"+forged+"\r\nx-gateway-api-key: "+rootKey+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				if strings.Contains(text, "thief") || !strings.Contains(text, `"link":"`+public+"/set-password?") {
					t.Errorf("the response is %s", text)
				}
			})
		}
		attack(t, "injection", "a claim link, public address "+public, func(t *testing.T) {
			out, _, code := command(t, append([]string{"organisations", "create", "--name", "claimed", "--slug", "claimed"}, g.where()...)...)
			if code != 0 || strings.Contains(out, "thief") || !strings.Contains(out, "/claim?token=") {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
}

// A key in a header of a further family is a second key, too.
func TestRequestsWithTwoKeysInHeaderFamiliesAreRefused(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: "version: 1\ncompat: {header_prefixes: [x-example-]}\n"})
	weak := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	p := newProvider(t, nil)
	for name, header := range map[string][]string{
		"twice in the family": {"x-example-api-key", rootKey, "x-example-api-key", weak}, "in both families": {"x-example-api-key", weak, "x-gateway-api-key", rootKey},
		"in both, the other way": {"x-gateway-api-key", weak, "x-example-api-key", rootKey}, "in other capitals": {"x-example-api-key", weak, "X-EXAMPLE-API-KEY", rootKey},
		"the same key twice": {"x-example-api-key", rootKey, "x-example-api-key", rootKey},
	} {
		for _, route := range []struct{ method, path, body string }{{"GET", "/v1/configs", ""}, {"POST", "/v1/configs", `{"name":"c","workspace_id":"default","config":{}}`}, {"GET", "/v1/logs", ""}, {"GET", "/v1/auth/me", ""}, {"POST", "/v1/chat/completions", chatBody}} {
			attack(t, "escalation", "a key "+name+" on "+route.method+" "+route.path, func(t *testing.T) {
				p.reset()
				g.do(t, route.method, route.path, route.body, append([]string{"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p.url, "Authorization", "Bearer " + clientKey}, header...)...).refused(t, http.StatusBadRequest, "api-key")
				if len(p.seen()) > 0 {
					t.Error("the provider received the request")
				}
			})
		}
	}
	g.do(t, "GET", "/v1/configs", "", "x-example-api-key", rootKey).ok(t)
}
