package jwt_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/upstream"
)

func mustTokens(t testing.TB, issuers ...jwt.Issuer) *jwt.Verifier {
	t.Helper()
	k, _ := mustKeySets(t, upstream.Options{})
	return k.Tokens(issuers)
}

func TestATokenActsAsAKeyOfItsWorkspace(t *testing.T) {
	by := organisation()
	by.Workspaces[0].Logging.Workspace = access.LogFull
	by.Workspaces[0].Metadata = map[string]string{"team": "of the workspace", "plan": "paid"}
	token := sign(first(), header, claims.with(values{
		"email_id": "ada@example.com", "iat": noon.Unix(), "nbf": noon.Unix(), "iss": "https://id.example.com", "groups": []string{"a"},
		"defaults":     values{"config_id": "pc-main", "metadata": values{"team": "of the token", "seat": "4"}, "more": 1},
		"usage_limits": []values{}, "rate_limits": []values{},
	}))
	got, err := verify(mustTokens(t, by), token, noon)
	if err != nil {
		t.Fatal(err)
	}
	want := &access.Identity{
		KeyID: "jwt:ada@example.com", Type: access.Token, Name: "ada@example.com", Hash: access.HashKey(token), Organisation: "org", Workspace: "w1",
		Scopes: []access.Scope{"completions.write", "logs.view"}, Config: "pc-main", ExpiresAt: noon.Add(time.Hour),
		Metadata: map[string]string{"team": "of the workspace", "plan": "paid", "seat": "4"}, Logging: access.Logging{Workspace: access.LogFull},
		Claims: &access.Claims{User: "ada@example.com", IssuedAt: noon},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Verify() (-want +got)\n%s", diff)
	}
}

func TestClaimsMayBeSpelledInSeveralWays(t *testing.T) {
	tokens := mustTokens(t, organisation())
	for _, tt := range []struct {
		name   string
		claims values
		user   string
		scopes string
	}{
		{"gateway_oid", values{"organisation_id": nil, "gateway_oid": "org"}, "ada", "completions.write logs.view"},
		{"gateway_workspace", values{"workspace_slug": nil, "gateway_workspace": "main"}, "ada", "completions.write logs.view"},
		{"a workspace by its id", values{"workspace_slug": "w1"}, "ada", "completions.write logs.view"},
		{"email before sub before uid", values{"email_id": "e", "uid": "u"}, "e", "completions.write logs.view"},
		{"uid", values{"sub": nil, "uid": "u"}, "u", "completions.write logs.view"},
		{"an empty email is none", values{"email_id": ""}, "ada", "completions.write logs.view"},
		{"nobody", values{"sub": nil}, "", "completions.write logs.view"},
		{"a list", values{"scope": nil, "scopes": []string{"configs.list", "configs.read"}}, "ada", "configs.list configs.read"},
		{"a list as scope", values{"scope": []string{"configs.list"}}, "ada", "configs.list"},
		{"both", values{"scope": "openid configs.list", "scopes": "configs.read configs.list"}, "ada", "configs.list configs.read"},
		{"prefix and colon", values{"scope": "gateway.configs.list gateway.configs:read configs:update"}, "ada", "configs.list configs.read configs.update"},
		{"words of others", values{"scope": "openid profile admin"}, "ada", ""},
		{"everything is nothing", values{"scope": "* gateway.*"}, "ada", ""},
		{"what organisations' keys hold", values{"scope": "audit_logs.list organisation_users.read workspaces.create workspaces.read"}, "ada", "workspaces.read"},
		{"no scope", values{"scope": nil}, "ada", ""},
		{"empty", values{"scope": ""}, "ada", ""},
		{"a time with a fraction", values{"exp": json.Number("1777639845.75")}, "ada", "completions.write logs.view"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, err := verify(tokens, sign(first(), header, claims.with(tt.claims)), noon)
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, s := range id.Scopes {
				words = append(words, string(s))
			}
			if got := strings.Join(words, " "); got != tt.scopes || id.Claims.User != tt.user || id.UserID != "" {
				t.Errorf("user %q with %q, known as %q; want %q with %q", id.Claims.User, got, id.UserID, tt.user, tt.scopes)
			}
		})
	}
}

func TestTokensWithoutScopesGetThoseOfTheSettings(t *testing.T) {
	by := organisation()
	by.Scopes = []access.Scope{access.ScopeCompletions}
	tokens := mustTokens(t, by)
	for scope, want := range map[any]int{nil: 1, "": 0, "openid": 0, "configs.list configs.read": 2} {
		id, err := verify(tokens, sign(first(), header, claims.with(values{"scope": scope})), noon)
		if err != nil || len(id.Scopes) != want {
			t.Errorf("scope %v: %v, %v; want %d", scope, id, err, want)
		}
	}
}

func TestAClaimThatIsNotAsItMustBeIsRefused(t *testing.T) {
	tokens := mustTokens(t, organisation())
	many := make(values)
	for i := range 65 {
		many[strings.Repeat("x", i+1)] = "v"
	}
	for _, tt := range []struct {
		name       string
		claims     values
		code, word string
	}{
		{"no organisation", values{"organisation_id": nil}, "invalid_token", "organisation"},
		{"another organisation", values{"organisation_id": "other"}, "invalid_token", "organisation"},
		{"an organisation of another kind", values{"organisation_id": 7}, "invalid_token", "organisation_id"},
		{"both organisations, the first of which is unknown", values{"gateway_oid": "other"}, "invalid_token", "organisation"},
		{"no workspace", values{"workspace_slug": nil}, "token_workspace", "workspace"},
		{"an empty workspace", values{"workspace_slug": ""}, "token_workspace", "workspace"},
		{"another workspace", values{"workspace_slug": "other"}, "token_workspace", "workspace"},
		{"a workspace in other capitals", values{"workspace_slug": "MAIN"}, "token_workspace", "workspace"},
		{"a list of workspaces", values{"workspace_slug": []string{"main"}}, "invalid_token", "workspace_slug"},
		{"no end", values{"exp": nil}, "invalid_token", "exp"},
		{"an end in other capitals", values{"exp": nil, "EXP": noon.Add(time.Hour).Unix()}, "invalid_token", "exp"},
		{"a null end", values{"exp": json.RawMessage("null")}, "invalid_token", "exp"},
		{"a text for an end", values{"exp": "1777639845"}, "invalid_token", "exp"},
		{"an end beyond all years", values{"exp": json.Number("1e300")}, "invalid_token", "exp"},
		{"an end of zero", values{"exp": 0}, "invalid_token", "exp"},
		{"an end that was", values{"exp": noon.Add(-time.Hour).Unix()}, "expired_token", "exp"},
		{"the end of the leeway", values{"exp": noon.Add(-5 * time.Second).Unix()}, "expired_token", "exp"},
		{"not yet", values{"nbf": noon.Add(6 * time.Second).Unix()}, "invalid_token", "nbf"},
		{"nbf of another kind", values{"nbf": true}, "invalid_token", "nbf"},
		{"iat of another kind", values{"iat": "now"}, "invalid_token", "iat"},
		{"scopes of another kind", values{"scopes": 5}, "invalid_token", "scopes"},
		{"scopes with another kind among them", values{"scopes": []any{"a", 5}}, "invalid_token", "scopes"},
		{"a user of another kind", values{"sub": 5}, "invalid_token", "sub"},
		{"a user with a NUL", values{"sub": "a\x00"}, "invalid_token", "sub"},
		{"a user with a line break", values{"email_id": "a\nb"}, "invalid_token", "email_id"},
		{"a long user", values{"sub": strings.Repeat("é", 256)}, "invalid_token", "sub"},
		{"defaults of another kind", values{"defaults": []string{}}, "invalid_token", "defaults"},
		{"metadata of another kind", values{"defaults": values{"metadata": values{"a": 1}}}, "invalid_token", "defaults"},
		{"long metadata", values{"defaults": values{"metadata": values{"a": strings.Repeat("x", 129)}}}, "invalid_token", "defaults"},
		{"metadata without a name", values{"defaults": values{"metadata": values{"": "x"}}}, "invalid_token", "defaults"},
		{"much metadata", values{"defaults": values{"metadata": many}}, "invalid_token", "defaults"},
		{"a config of another kind", values{"defaults": values{"config_id": 5}}, "invalid_token", "defaults"},
		{"limits of another kind", values{"usage_limits": values{}}, "invalid_token", "usage_limits"},
		{"limits that can't be enforced", values{"usage_limits": []values{{"credit_limit": 5}}}, "invalid_token", "usage_limits"},
		{"rates without a user", values{"sub": nil, "rate_limits": rates("requests", "rpm", 3)}, "invalid_token", "rate_limits"},
		{"a rate of another type", values{"rate_limits": rates("cost", "rpm", 3)}, "invalid_token", "rate_limits"},
		{"a rate of another unit", values{"rate_limits": rates("requests", "monthly", 3)}, "invalid_token", "rate_limits"},
		{"a rate of requests in progress", values{"rate_limits": rates("requests", "concurrent", 3)}, "invalid_token", "rate_limits"},
		{"a rate of zero", values{"rate_limits": rates("requests", "rpm", 0)}, "invalid_token", "rate_limits"},
		{"a negative rate", values{"rate_limits": rates("requests", "rpm", -1)}, "invalid_token", "rate_limits"},
		{"a fraction", values{"rate_limits": rates("requests", "rpm", 1.5)}, "invalid_token", "rate_limits"},
		{"a rate beyond 2^53", values{"rate_limits": rates("requests", "rpm", 1<<53+1)}, "invalid_token", "rate_limits"},
		{"a rate twice", values{"rate_limits": append(rates("requests", "rpm", 3), rates("requests", "rpm", 4)...)}, "invalid_token", "rate_limits"},
		{"rates of another kind", values{"rate_limits": "many"}, "invalid_token", "rate_limits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			token := sign(first(), header, claims.with(tt.claims))
			_, err := verify(tokens, token, noon)
			wantRefused(t, tt.name, token, err, tt.code, tt.word)
			want := tt.word != "organisation" && tt.word != "organisation_id"
			if cause, ok := errors.AsType[*jwt.RejectedError](err); ok != want || ok && cause.Organisation != "org" {
				t.Errorf("the error names the organisation %v, want %t", cause, want)
			}
		})
	}
}

func TestCapitalsOfAnAddressMakeNoFurtherLimits(t *testing.T) {
	tokens := mustTokens(t, organisation())
	counter := func(user string) string {
		t.Helper()
		id, err := verify(tokens, sign(first(), header, claims.with(values{"sub": user, "rate_limits": rates("requests", "rpm", 3)})), noon)
		if err != nil || len(id.Limits) != 1 {
			t.Fatalf("%s: %+v, %v", user, id, err)
		}
		return id.Limits[0].Counter
	}
	if a, b := counter("Ada@Example.com"), counter("ada@example.com"); a != b {
		t.Errorf("the counters are %s and %s", a, b)
	}
	for _, pair := range [][2]string{{"auth0|Ada", "auth0|ada"}, {"\u212aim@example.com", "kim@example.com"}} {
		if a, b := counter(pair[0]), counter(pair[1]); a == b {
			t.Errorf("%q and %q share the counter %s", pair[0], pair[1], a)
		}
	}
}

// rates returns a claim of one rate limit.
func rates(measure, unit string, value any) []values {
	return []values{{"type": measure, "unit": unit, "value": value}}
}

// members returns n members of metadata, each as long as metadata may be.
func members(n int) values {
	m := make(values)
	for i := range n {
		name := strings.Repeat("é", 100) + strconv.Itoa(1000+i)
		m[name+strings.Repeat("x", 128-100-4)] = strings.Repeat("é", 128)
	}
	return m
}

func TestClaimsMayBeAsLargeAsTheirBounds(t *testing.T) {
	tokens := mustTokens(t, organisation())
	for _, tt := range []struct {
		name         string
		claims       values
		code, refuse string // empty for a token that counts
	}{
		{"a user of 255 characters", values{"sub": strings.Repeat("é", 255)}, "", ""},
		{"a user with a space", values{"sub": "Ada Lovelace"}, "", ""},
		{"a user with a DEL", values{"sub": "ada\x7f"}, "invalid_token", "sub"},
		{"a user with a unit separator", values{"sub": "ada\x1f"}, "invalid_token", "sub"},
		{"metadata of 128 characters under names of 128", values{"defaults": values{"metadata": members(6)}}, "", ""},
		{"a name of metadata of 129 characters", values{"defaults": values{"metadata": values{strings.Repeat("é", 129): "x"}}}, "invalid_token", "defaults"},
		{"metadata with a line break", values{"defaults": values{"metadata": values{"a": "b\nc"}}}, "invalid_token", "defaults"},
		{"a name of metadata with a line break", values{"defaults": values{"metadata": values{"b\nc": "a"}}}, "invalid_token", "defaults"},
		{"a config with a line break", values{"defaults": values{"config_id": "a\nb"}}, "invalid_token", "defaults"},
		{"an end at the last second of the year 9999", values{"exp": 253402300799}, "", ""},
		{"an end in the year 10000", values{"exp": 253402300800}, "invalid_token", "exp"},
		{"a beginning in the first second", values{"nbf": 1}, "", ""},
		{"a beginning before the first second", values{"nbf": 0.5}, "invalid_token", "nbf"},
		{"a beginning before 1970", values{"nbf": -1}, "invalid_token", "nbf"},
	} {
		token := sign(first(), header, claims.with(tt.claims))
		if _, err := verify(tokens, token, noon); tt.code != "" {
			wantRefused(t, tt.name, token, err, tt.code, tt.refuse)
		} else if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestMetadataOfATokenHasSixtyFourMembersAtMost(t *testing.T) {
	tokens := mustTokens(t, organisation())
	for n, counts := range map[int]bool{64: true, 65: false} {
		metadata := make(values)
		for i := range n {
			metadata["name "+strconv.Itoa(i)] = "v"
		}
		token := sign(first(), header, claims.with(values{"defaults": values{"metadata": metadata}}))
		if _, err := verify(tokens, token, noon); !counts {
			wantRefused(t, strconv.Itoa(n)+" members", token, err, "invalid_token", "defaults")
		} else if err != nil {
			t.Errorf("%d members: %v", n, err)
		}
	}
}

func TestATokenSaysWhichNameResponsesGiveTheirModel(t *testing.T) {
	tokens := mustTokens(t, organisation())
	for name, ok := range map[any]bool{"requested": true, "served": true, "": true, "other": false, 1: false} {
		token := sign(first(), header, claims.with(values{"defaults": values{"response_model": name}}))
		switch id, err := verify(tokens, token, noon); {
		case !ok:
			wantRefused(t, fmt.Sprint(name), token, err, "invalid_token", "defaults")
		case err != nil || string(id.ResponseModel) != name:
			t.Errorf("response_model %q: %v, %v", name, id, err)
		}
	}
}

func TestAHeaderAndClaimsHaveAHundredMembersAtMost(t *testing.T) {
	tokens := mustTokens(t, organisation())
	upTo := func(v values, n int) values {
		v = v.with(nil)
		for i := 0; len(v) < n; i++ {
			v["further "+strconv.Itoa(i)] = 1
		}
		return v
	}
	for _, tt := range []struct {
		name, token, word string
	}{
		{"a header with 100", sign(first(), upTo(header, 100), claims), ""},
		{"a header with 101", sign(first(), upTo(header, 101), claims), "header"},
		{"100 claims", sign(first(), header, upTo(claims, 100)), ""},
		{"101 claims", sign(first(), header, upTo(claims, 101)), "claims"},
	} {
		if _, err := verify(tokens, tt.token, noon); tt.word != "" {
			wantRefused(t, tt.name, tt.token, err, "invalid_token", tt.word)
		} else if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// tokenOf returns a token of this length.
func tokenOf(t *testing.T, length int) string {
	t.Helper()
	for head := range 4 { // a part of a token can't have every length
		for fill := (length - 700) / 4 * 3; fill < length; fill++ {
			h, c := header.with(values{"x": strings.Repeat("x", head)}), claims.with(values{"x": strings.Repeat("x", fill)})
			switch n := len(encoded(h)) + len(encoded(c)) + base64.RawURLEncoding.EncodedLen(256) + 2; {
			case n == length:
				return sign(first(), h, c)
			case n > length:
				fill = length
			}
		}
	}
	t.Fatalf("no token has %d bytes", length)
	return ""
}

func TestATokenHas8192BytesAtMost(t *testing.T) {
	tokens := mustTokens(t, organisation())
	if _, err := verify(tokens, tokenOf(t, 8192), noon); err != nil {
		t.Errorf("a token of 8192 bytes: %v", err)
	}
	long := tokenOf(t, 8193)
	_, err := verify(tokens, long, noon)
	wantRefused(t, "a token of 8193 bytes", long, err, "invalid_token", "8192")
}

func TestATokenHasThreePartsWithDotsBetween(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a": false, "a.b": false, "a.b.c": true, "..": true, "a.b.c.d": false, "mg-key": false,
	} {
		if got := jwt.LooksLikeToken(text); got != want {
			t.Errorf("Like(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestClocksMayDifferALittle(t *testing.T) {
	tokens := mustTokens(t, organisation())
	for name, c := range map[string]values{
		"an end just past":    {"exp": noon.Add(-4 * time.Second).Unix()},
		"a beginning to come": {"nbf": noon.Add(5 * time.Second).Unix()},
		"made in the future":  {"iat": noon.Add(time.Minute).Unix()},
	} {
		if _, err := verify(tokens, sign(first(), header, claims.with(c)), noon); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIssuerAndAudienceAreWantedWhereTheyAreSet(t *testing.T) {
	by := organisation()
	by.Name, by.Audience = "https://id.example.com", "modelgate"
	tokens := mustTokens(t, by)
	for _, tt := range []struct {
		name   string
		claims values
		word   string
	}{
		{"both", values{"iss": by.Name, "aud": "modelgate"}, ""},
		{"among others", values{"iss": by.Name, "aud": []string{"x", "modelgate"}}, ""},
		{"no issuer", values{"aud": "modelgate"}, "iss"},
		{"another issuer", values{"iss": by.Name + "/", "aud": "modelgate"}, "iss"},
		{"no audience", values{"iss": by.Name}, "aud"},
		{"another audience", values{"iss": by.Name, "aud": "modelgate2"}, "aud"},
		{"part of an audience", values{"iss": by.Name, "aud": "x modelgate"}, "aud"},
		{"an audience of another kind", values{"iss": by.Name, "aud": values{"modelgate": 1}}, "aud"},
	} {
		token := sign(first(), header, claims.with(tt.claims))
		if _, err := verify(tokens, token, noon); tt.word != "" {
			wantRefused(t, tt.name, token, err, "invalid_token", tt.word)
		} else if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// signHMAC is signed by HS256 with a text that everybody knows.
func signHMAC(secret []byte, header values) string {
	text := encoded(header) + "." + encoded(claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestOnlyASignatureByTheIssuersKeyCounts(t *testing.T) {
	tokens := mustTokens(t, organisation())
	good := sign(first(), header, claims)
	body, signature := good[:strings.LastIndexByte(good, '.')], good[strings.LastIndexByte(good, '.')+1:]
	der, err := x509.MarshalPKIXPublicKey(&first().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for _, tt := range []struct{ name, token, word string }{
		{"none", encoded(header.with(values{"alg": "none"})) + "." + encoded(claims) + ".", "alg"},
		{"none with a signature", encoded(header.with(values{"alg": "none"})) + "." + encoded(claims) + "." + signature, "alg"},
		{"None", sign(first(), header.with(values{"alg": "None"}), claims), "alg"},
		{"RS256 without a signature", body + ".", "signature"},
		{"HS256 with the public key in PEM", signHMAC(block, header.with(values{"alg": "HS256"})), "alg"},
		{"HS256 with the public key in DER", signHMAC(der, header.with(values{"alg": "HS256"})), "alg"},
		{"HMAC under the name of RS256", signHMAC(block, header), "signature"},
		{"RS512", sign(first(), header.with(values{"alg": "RS512"}), claims), "alg"},
		{"PS256", sign(first(), header.with(values{"alg": "PS256"}), claims), "alg"},
		{"small letters", sign(first(), header.with(values{"alg": "rs256"}), claims), "alg"},
		{"no alg", sign(first(), header.with(values{"alg": nil}), claims), "alg"},
		{"alg in other capitals", sign(first(), header.with(values{"alg": nil, "ALG": "RS256"}), claims), "alg"},
		{"alg as a list", sign(first(), header.with(values{"alg": []string{"RS256"}}), claims), "alg"},
		{"alg twice", sign(first(), `{"alg":"none","alg":"RS256","kid":"one"}`, claims), "header"},
		{"no kid", sign(first(), header.with(values{"kid": nil}), claims), "kid"},
		{"an empty kid", sign(first(), header.with(values{"kid": ""}), claims), "does not say which key"},
		{"a kid of another kind", sign(first(), header.with(values{"kid": 1}), claims), "kid"},
		{"an unknown kid", sign(first(), header.with(values{"kid": "../one"}), claims), "kid"},
		{"crit", sign(first(), header.with(values{"crit": []string{"exp"}}), claims), "crit"},
		{"an empty crit", sign(first(), header.with(values{"crit": []string{}}), claims), "crit"},
		{"a null crit", sign(first(), header.with(values{"crit": json.RawMessage("null")}), claims), "crit"},
		{"another's key", sign(second(), header, claims), "signature"},
		{"another's key in the header", sign(second(), header.with(values{"jwk": public("one", second())}), claims), "signature"},
		{"an address of keys in the header", sign(second(), header.with(values{"jku": "https://evil.example.com/keys"}), claims), "signature"},
		{"other claims under the signature", encoded(header) + "." + encoded(claims.with(values{"workspace_slug": "w1"})) + "." + signature, "signature"},
		{"another header over the signature", encoded(header.with(values{"typ": "JOSE"})) + "." + encoded(claims) + "." + signature, "signature"},
		{"a signature cut short", good[:len(good)-4], "signature"},
		{"a signature with more behind", good + "AAAA", "signature"},
	} {
		_, err := verify(tokens, tt.token, noon)
		wantRefused(t, tt.name, tt.token, err, "invalid_token", tt.word)
	}
	if _, err := verify(tokens, good, noon); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func TestMalformedTokensAreRefused(t *testing.T) {
	tokens := mustTokens(t, organisation())
	good := sign(first(), header, claims)
	parts := strings.Split(good, ".")
	many := claims.with(nil)
	for i := range 101 {
		many[strings.Repeat("c", i+1)] = 1
	}
	last := strings.IndexByte(alphabet, good[len(good)-1])
	for name, token := range map[string]string{
		"nothing":                "..",
		"no dots":                "token",
		"two parts":              parts[0] + "." + parts[1],
		"four parts":             good + "." + parts[2],
		"an encrypted one":       good + "." + parts[1] + "." + parts[2],
		"padding":                parts[0] + "=." + parts[1] + "." + parts[2],
		"another alphabet":       strings.NewReplacer("-", "+", "_", "/").Replace(parts[0]) + "." + parts[1] + "." + parts[2] + "+",
		"a line break":           parts[0] + "\n." + parts[1] + "." + parts[2],
		"a line break at an end": good + "\n",
		"a space":                " " + good,
		"a list":                 sign(first(), header, `[1]`),
		"a header that is text":  sign(first(), `"RS256"`, claims),
		"two objects":            sign(first(), header, `{"organisation_id":"org","workspace_slug":"main","exp":2000000000}{}`),
		"bits that are not used": good[:len(good)-1] + alphabet[last+1:last+2],
		"cut off":                sign(first(), header, `{"a":1`),
		"deep":                   sign(first(), header, `{"a":`+strings.Repeat("[", 5000)),
		"a claim twice":          sign(first(), header, `{"exp":1,"exp":2}`),
		"many claims":            sign(first(), header, many),
		"a header with many":     sign(first(), many, claims),
		"too long":               sign(first(), header, claims.with(values{"x": strings.Repeat("x", 8000)})),
	} {
		_, err := verify(tokens, token, noon)
		wantRefused(t, name, token, err, "invalid_token", "the token ")
	}
	if _, err := verify(tokens, sign(first(), header, " "+`{"organisation_id":"org","workspace_slug":"main","exp":2000000000}`+"\n"), noon); err != nil {
		t.Errorf("white space around the claims: %v", err)
	}
}

func TestAVerifiedTokenExpires(t *testing.T) {
	tokens := mustTokens(t, organisation())
	token := sign(first(), header, claims)
	one, err := verify(tokens, token, noon)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := verify(tokens, token, noon.Add(time.Hour)); err != nil || again != one {
		t.Errorf("within the leeway: %p, %v; want %p, verified before", again, err, one)
	}
	_, err = verify(tokens, token, noon.Add(time.Hour+5*time.Second))
	wantRefused(t, "after its end", token, err, "expired_token", "exp")
}

func TestTokensOfOneOrganisationSayNothingOfAnother(t *testing.T) {
	one, other := organisation(), organisation()
	other.Organisation, other.Set = "other", set(public("one", second()))
	other.Workspaces = []jwt.Workspace{{ID: "w2", Slug: "main"}}
	tokens := mustTokens(t, one, other)
	token := sign(first(), header, claims.with(values{"organisation_id": "other"}))
	_, err := verify(tokens, token, noon)
	wantRefused(t, "signed by the first for the other", token, err, "invalid_token", "signature")
	if id, err := verify(tokens, sign(second(), header, claims.with(values{"organisation_id": "other"})), noon); err != nil || id.Workspace != "w2" {
		t.Errorf("the other's own: %v, %v", id, err)
	}
	token = sign(first(), header, claims.with(values{"workspace_slug": "w2"}))
	_, err = verify(tokens, token, noon)
	wantRefused(t, "another's workspace", token, err, "token_workspace", "workspace")
}

// FuzzVerify wants nothing to count that was not signed.
func FuzzVerify(f *testing.F) {
	tokens := mustTokens(f, organisation())
	good := sign(first(), header, claims)
	f.Add(good)
	f.Add("..")
	f.Add(signHMAC([]byte("x"), header))
	f.Add(encoded(header.with(values{"alg": "none"})) + "." + encoded(claims) + ".")
	f.Add(sign(first(), header, `{"exp":1e9,"exp":[[]],"organisation_id":"org"}`))
	f.Fuzz(func(t *testing.T, token string) {
		id, err := tokens.Verify(token, access.HashKey(token), noon)
		if (err == nil) != (id != nil) {
			t.Fatalf("Verify() = %v, %v", id, err)
		}
		if err == nil && token != good {
			t.Errorf("a token counts that nobody signed: %q", token)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	tokens := mustTokens(b, organisation())
	token := sign(first(), header, claims)
	hash := access.HashKey(token)
	b.Run("verified before", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tokens.Verify(token, hash, noon); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hashed and verified before", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tokens.Verify(token, access.HashKey(token), noon); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("for the first time", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			fresh := access.Hash{1, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
			if _, err := tokens.Verify(token, fresh, noon); err != nil {
				b.Fatal(err)
			}
		}
	})
}
