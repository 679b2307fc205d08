package security

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// Keys are limited to networks; a trusted proxy reports where requests are from.
func TestKeysAreLimitedToTheirAddresses(t *testing.T) {
	t.Parallel()
	const fileKey = "mg-a-key-of-the-settings-file-0123456789"
	hash := sha256.Sum256([]byte(fileKey))
	onBothDatabases(t, func(t *testing.T, o options) {
		o.settings = fmt.Sprintf("listener: {trusted_proxies: [127.0.0.1]}\nkeys:\n  - {name: f, sha256: %s, allowed_addresses: [10.0.0.0/8]}\n", hex.EncodeToString(hash[:]))
		g, p := launch(t, o), newProvider(t, nil)
		made := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service",
			`{"name":"k","workspace_id":"default","scopes":["completions.write","logs.list","workspace_service_api_keys.create","workspace_service_api_keys.update"],"allowed_addresses":["10.0.0.0/8","2001:db8::7"]}`).ok(t)
		apiKey, id := made.text(t, "key"), made.text(t, "id")
		where := []string{"--data", g.data}
		if o.database != "" {
			where = []string{"--database-url", o.database}
		}
		out, errText, code := command(t, append([]string{"keys", "create", "--name", "cli", "--from", "10.0.0.0/8,2001:db8::7"}, where...)...)
		if code != 0 {
			t.Fatalf("keys create: exit %d: %s", code, errText)
		}
		cliKey := strings.TrimSpace(out)
		from := func(address string) []string { return []string{"X-Forwarded-For", address} }
		keys := []struct{ name, key string }{{"of the API", apiKey}, {"of the command line", cliKey}, {"of the settings file", fileKey}}
		for _, k := range keys {
			waittest.Until(t, "the gateway knows the key", func() bool {
				return g.as(t, k.key, "GET", "/v1/auth/me", "", from("10.1.2.3")...).status == 200
			})
			for _, tt := range []struct{ name, method, path, body string }{
				{"a model", "POST", "/v1/chat/completions", chatBody},
				{"a path that passes through", "POST", "/v1/any/path", chatBody},
				{"the log", "GET", "/v1/logs", ""},
				{"the log as it grows", "GET", "/v1/logs/tail", ""},
				{"a dry run", "POST", "/v1/explain", `{"request":{"body":` + chatBody + `}}`},
				{"the control plane", "GET", "/v1/auth/me", ""},
				{"models", "GET", "/v1/models", ""},
			} {
				attack(t, "credential theft", "key "+k.name+" from another address asks for "+tt.name, func(t *testing.T) {
					p.reset()
					header := append(toCustomHost(k.key, p), from("192.0.2.1")...)
					g.do(t, tt.method, tt.path, tt.body, header...).refused(t, 403, "allowed_addresses", "192.0.2.1")
					if n := len(p.seen()); n > 0 {
						t.Errorf("the provider received %d requests", n)
					}
				})
			}
			attack(t, "credential theft", "key "+k.name+" claims an address that it may have", func(t *testing.T) {
				g.as(t, k.key, "POST", "/v1/chat/completions", chatBody, "X-Forwarded-For", "10.0.0.1, 192.0.2.1", "X-Real-Ip", "10.0.0.1", "Forwarded", "for=10.0.0.1").refused(t, 403, "address_not_allowed")
			})
			attack(t, "credential theft", "key "+k.name+" still works from its own network", func(t *testing.T) {
				g.do(t, "POST", "/v1/chat/completions", chatBody, append(toCustomHost(k.key, p), from("10.255.0.1")...)...).ok(t)
			})
		}
		attack(t, "escalation", "a limited key makes a key for every address", func(t *testing.T) {
			body := `{"name":"m","workspace_id":"default","scopes":["completions.write"],"allowed_addresses":["0.0.0.0/0"]}`
			g.as(t, apiKey, "POST", "/v1/api-keys/workspace/service", body, from("10.0.0.1")...).refused(t, 403, "allowed_addresses")
		})
		attack(t, "escalation", "a key that a limited key makes has its addresses", func(t *testing.T) {
			body := `{"name":"m","workspace_id":"default","scopes":["completions.write"]}`
			made := g.as(t, apiKey, "POST", "/v1/api-keys/workspace/service", body, from("10.0.0.1")...).ok(t).text(t, "key")
			waittest.Until(t, "the gateway knows the key", func() bool {
				return g.as(t, made, "GET", "/v1/auth/me", "", from("10.1.2.3")...).status == 200
			})
			g.do(t, "POST", "/v1/chat/completions", chatBody, append(toCustomHost(made, p), from("192.0.2.1")...)...).refused(t, 403, "allowed_addresses")
		})
		attack(t, "escalation", "a limited key lifts its own addresses", func(t *testing.T) {
			for _, body := range []string{`{"allowed_addresses":null}`, `{"allowed_addresses":[]}`, `{"allowed_addresses":["0.0.0.0/0","::/0"]}`} {
				if r := g.as(t, apiKey, "PUT", "/v1/api-keys/"+id, body, from("10.0.0.1")...); r.status != 403 {
					t.Errorf("%s: status %d, want 403: %.300s", body, r.status, r.body)
				}
			}
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+id, `{"defaults":{"metadata":{"a":"b"}}}`).ok(t) // says nothing of addresses
			g.do(t, "POST", "/v1/chat/completions", chatBody, append(toCustomHost(apiKey, p), from("192.0.2.1")...)...).refused(t, 403, "allowed_addresses")
		})
		for _, list := range []string{`["10.0.0.0/33"]`, `["example.com"]`, `["fe80::1%eth0"]`, `[""]`, `["` + strings.Repeat("1", 65) + `"]`, `[` + repeated(101, always(`"10.0.0.1"`)) + `]`} {
			attack(t, "injection", "allowed addresses "+list[:min(len(list), 20)], func(t *testing.T) {
				r := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"allowed_addresses":`+list+`}`)
				if r.status != 400 && r.status != 422 || !strings.Contains(string(r.body), "allowed_addresses") {
					t.Errorf("status %d: %.300s; want a refusal of allowed_addresses", r.status, r.body)
				}
			})
		}
	})
}

func TestMintedKeysFollowTheAddressesOfTheirMaker(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	for _, c := range []struct {
		name, maker, own string
		want             int
	}{
		{"a minted key without addresses", `["198.51.100.0/24"]`, "", http.StatusForbidden},
		{"a minted key with wider addresses", `["198.51.100.0/24"]`, `["127.0.0.0/8","198.51.100.0/24"]`, http.StatusForbidden},
		{"a minted key with other addresses", `["198.51.100.0/24"]`, `["127.0.0.1"]`, http.StatusForbidden},
		{"a minted key at an address of both", `["127.0.0.1"]`, `["127.0.0.0/8"]`, http.StatusOK},
	} {
		attack(t, "escalation", c.name+" is bound when its maker is limited later", func(t *testing.T) {
			maker := g.mint(t, rootKey, words(makes), "")
			more := ""
			if c.own != "" {
				more = `,"allowed_addresses":` + c.own
			}
			child := g.mint(t, maker.secret, words(makes), more)
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+maker.id, `{"allowed_addresses":`+c.maker+`}`).ok(t)
			waittest.Until(t, "the list of the maker holds", func() bool { return g.as(t, child.secret, "GET", "/v1/models", "").status == c.want })
		})
	}
}
