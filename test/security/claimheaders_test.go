package security

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// A guardrail of the organisation tells the provider by headers what is in the client's token:
// what the client itself sends in these headers, in any spelling, reaches no provider.
func TestClientsSetNoHeaderThatIsSetFromTheirToken(t *testing.T) {
	t.Parallel()
	const forged = "forged-administrator"
	trusted, unknown := newTokenSigner(t), newTokenSigner(t)
	claims := func(more string) map[string]any {
		m := map[string]any{"sub": "ann", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
		if more != "" {
			m["role"] = more
		}
		return m
	}
	valid, roleless, other := trusted.token(t, claims("user")), trusted.token(t, claims("")), unknown.token(t, claims("user"))
	spellings, ways := []string{"x-jwt-role", "X-JWT-ROLE", "X_Jwt_Role", "x.jwt.role", "x-jwt-sub"}, []string{"pass-through", "a forwarded header", "a fallback", "twice"}
	for i, guard := range []struct{ name, params, actions string }{
		{"that denies", "", `{"deny":true}`},
		{"that passes", `,"failOnError":false`, `{}`},
		{"that is async", "", `{"async":true}`},
		{"in shadow mode", "", `{"mode":"shadow"}`},
	} {
		if i == 1 { // the first has tried each way with each spelling
			spellings, ways = spellings[2:4], ways[:2]
		}
		g, p := launch(t, options{}), newProvider(t, nil)
		slug := g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"token","organisation_id":"default","checks":[{"id":"default.jwt","parameters":{"jwks":%s,"headerKey":"x-user-token","extractClaims":["role","sub"]%s}}],"actions":%s}`, trusted.set(), guard.params, guard.actions), "slug")
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, slug)).ok(t)
		waittest.Until(t, "the guardrail applies", func() bool {
			p.reset()
			g.do(t, "POST", "/v1/invented", `{"a":1}`, toCustomHost(key, p, "x-user-token", valid, "x-jwt-role", "early")...)
			return !p.got("early")
		})
		for _, token := range []struct{ name, text string }{{"a valid token", valid}, {"a token without the claim", roleless}, {"a token of another issuer", other}, {"no token", ""}} {
			for _, spelling := range spellings {
				for _, way := range ways {
					attack(t, "injection", spelling+" by "+way+" with "+token.name+" reaches a provider past a check "+guard.name, func(t *testing.T) {
						p.reset()
						header := []string{"x-gateway-api-key", key, spelling, forged}
						if token.text != "" {
							header = append(header, "x-user-token", token.text)
						}
						target := fmt.Sprintf(`"provider":"openai-compatible","custom_host":%q,"api_key":%q`, p.url, clientKey)
						path, body, config := "/v1/invented", `{"a":1}`, "{"+target+"}"
						switch way {
						case "a forwarded header":
							path, body, config = "/v1/chat/completions", chatBody, fmt.Sprintf(`{%s,"forward_headers":[%q,"x-jwt-role"]}`, target, spelling)
						case "a fallback":
							config = fmt.Sprintf(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"openai-compatible","custom_host":"http://127.0.0.1:1/v1","api_key":"k"},{%s}]}`, target)
						case "twice":
							header = append(header, spelling, forged)
						}
						g.do(t, "POST", path, body, append(header, "x-gateway-config", config)...)
						if p.got(forged) {
							t.Errorf("the provider received %v", p.seen()[0].header)
						}
						if seen := p.seen(); token.text == valid && guard.actions == `{"deny":true}` {
							if len(seen) == 0 || seen[0].header.Get("X-Jwt-Role") != "user" || seen[0].header.Get("X-Jwt-Sub") != "ann" {
								t.Errorf("the provider did not receive the claims: %v", seen)
							}
						}
					})
				}
			}
		}
		attack(t, "injection", "a config's own check sets a header of the organisation's past a check "+guard.name, func(t *testing.T) {
			own := unknown.token(t, claims(forged))
			p.reset()
			config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":%q,"input_guardrails":[{"default.jwt":{"jwks":%s,"headerKey":"x-own-token","extractClaims":["role"]}},{"default.jwt":{"jwks":%s,"headerKey":"x-own-token","claimPrefix":"x_jwt_","extractClaims":["role"]}}]}`, p.url, clientKey, unknown.set(), unknown.set())
			g.do(t, "POST", "/v1/invented", `{"a":1}`, "x-gateway-api-key", key, "x-gateway-config", config, "x-user-token", roleless, "x-own-token", own)
			for _, r := range p.seen() {
				for name, values := range r.header {
					if strings.Contains(strings.Join(values, " "), forged) {
						t.Errorf("the provider received %s: %s", name, values)
					}
				}
			}
		})
		for _, query := range []string{"x-jwt-role=F", "a=b&X_JWT_ROLE=F", "x%2djwt%2Drole=F&a=b", "x.jwt.sub=F", "a=b;x-jwt-role=F", "x-jwt-role[]=F"} {
			attack(t, "injection", "the parameter "+query+" reaches a provider past a check "+guard.name, func(t *testing.T) {
				p.reset()
				g.do(t, "POST", "/v1/invented?"+strings.ReplaceAll(query, "F", forged), `{"a":1}`, toCustomHost(key, p, "x-user-token", valid)...)
				if seen := p.seen(); len(seen) != 1 || strings.Contains(seen[0].target, forged) || strings.HasSuffix(seen[0].target, "?a=b") != strings.Contains(query, "a=b") {
					t.Errorf("the provider received %v", seen)
				}
			})
		}
		attack(t, "injection", "a trailer of the client is a header of the organisation's past a check "+guard.name, func(t *testing.T) {
			p.reset()
			g.raw(t, fmt.Sprintf("POST /v1/invented HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-gateway-api-key: %s\r\nx-gateway-provider: openai-compatible\r\nx-gateway-custom-host: %s\r\nauthorization: Bearer %s\r\nx-user-token: %s\r\ncontent-type: application/octet-stream\r\ntransfer-encoding: chunked\r\ntrailer: x-jwt-role\r\n\r\n3\r\n\x00\x01\x02\r\n0\r\nx-jwt-role: %s\r\n\r\n", key, p.url, clientKey, roleless, forged))
			for _, r := range p.seen() {
				if strings.Contains(fmt.Sprint(r.header), forged) || strings.Contains(fmt.Sprint(r.header["Trailer"]), "jwt") {
					t.Errorf("the provider received %v", r.header)
				}
			}
		})
	}
}
