package checks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"modelgate/internal/guardrail"
)

func tokenChecks(s Services) []guardrail.Definition {
	return []guardrail.Definition{{
		ID: "default.jwt", On: before, Facts: true, FailOnError: true, Timeout: 10 * time.Second, Transforms: true,
		Summary: "A header of the request has a JSON Web Token that is valid: signed with a key of the issuer, in time, and with the required claims; or a token that the issuer reports as active. Keys that cannot be fetched fail the check unless `failOnError` is `false`.",
		Params: []guardrail.Param{
			param("jwksUri", guardrail.String, "", "Address of the issuer's keys. One of `jwksUri`, `jwks` and `introspectEndpoint` is required."),
			param("jwks", guardrail.Object, "", "The issuer's keys themselves."),
			param("introspectEndpoint", guardrail.String, "", "Address that reports whether a token is active (RFC 7662)."),
			one("introspectContentType", "Format of requests to it.", "application/x-www-form-urlencoded", "application/json"),
			{Name: "introspectCacheMaxAge", Type: guardrail.Integer, Default: "60", Min: 0, Max: 86400,
				Doc: "Seconds for which its response is used again."},
			param("headerKey", guardrail.String, `"Authorization"`, "Header with the token; a leading `Bearer` is removed."),
			{Name: "cacheMaxAge", Type: guardrail.Integer, Default: "86400", Min: 1, Max: 604800, Doc: "Seconds for which fetched keys are used."},
			{Name: "clockTolerance", Type: guardrail.Integer, Default: "5", Min: 0, Max: 600, Doc: "Seconds by which clocks may differ."},
			param("maxTokenAge", guardrail.String, `"1d"`, "Greatest age of a token by its claim `iat`: a number with `s`, `m`, `h`, `d` or `w`."),
			{Name: "algorithms", Type: guardrail.StringList, Enum: jwtAlgorithms, Default: `["RS256"]`, Doc: "Allowed algorithms."},
			param("requiredClaims", guardrail.StringList, "", "Claims that must be there."),
			param("claimValues", guardrail.Object, "",
				"By claim an object with `values` and `matchType`: `exact` (default), `contains`, `containsAll` or `regex`."),
			param("headerPayloadMatch", guardrail.StringMap, "", "Claims by header: each header must occur once, with the value of its claim."),
			param("extractClaims", guardrail.StringList, "",
				"Claims that are sent to the provider as headers. What the client sends in these headers, in any spelling, or in parameters of the query with their names, is removed, also if the token lacks a claim or the check fails without a denial."),
			param("claimPrefix", guardrail.String, `"x-jwt-"`, "Beginning of the names of these headers."),
		},
		Compile: s.compileJWT,
	}}
}

// tokenCheck is the compiled check of tokens.
type tokenCheck struct {
	services  Services
	header    string
	keys      *keySource // nil with introspection only
	introspec *introspection
	rules     tokenRules
	claims    map[string]func(any) bool
	required  []string
	headers   map[string]string
	extract   []string
	prefix    string
}

func (s Services) compileJWT(p *guardrail.Params) (guardrail.Compiled, error) {
	none := guardrail.Compiled{}
	c := &tokenCheck{services: s, header: p.String("headerKey"), required: p.Strings("requiredClaims"), headers: p.Map("headerPayloadMatch"),
		extract: p.Strings("extractClaims"), prefix: p.String("claimPrefix"), claims: map[string]func(any) bool{}}
	sources := 0
	for _, name := range []string{"jwksUri", "jwks", "introspectEndpoint"} {
		if p.Has(name) {
			sources++
		}
	}
	if sources != 1 {
		return none, &guardrail.ParamError{Path: "jwksUri", Message: "must be set, or jwks or introspectEndpoint, but only one of them"}
	}
	var err error
	switch {
	case p.Has("jwks"):
		c.keys = &keySource{}
		if c.keys.known, err = parseKeys(p.Raw("jwks")); err != nil {
			return none, &guardrail.ParamError{Path: "jwks", Message: err.Error()}
		}
	case p.Has("jwksUri"):
		c.keys = &keySource{life: seconds(p, "cacheMaxAge")}
		if c.keys.url, err = urlParam(p, "jwksUri"); err != nil {
			return none, err
		}
	default:
		c.introspec = &introspection{contentType: p.String("introspectContentType"), life: seconds(p, "introspectCacheMaxAge")}
		if c.introspec.url, err = urlParam(p, "introspectEndpoint"); err != nil {
			return none, err
		}
	}
	c.rules = tokenRules{algorithms: p.Strings("algorithms"), tolerance: seconds(p, "clockTolerance")}
	if c.rules.maxAge, err = parseAge(p.String("maxTokenAge")); err != nil {
		return none, &guardrail.ParamError{Path: "maxTokenAge", Message: err.Error()}
	}
	if err := c.compileClaims(p.Object("claimValues")); err != nil {
		return none, err
	}
	fields := make([]string, len(c.extract))
	for i, name := range c.extract {
		fields[i] = c.prefix + name
		if !validHeader(c.prefix+name, "") || !mayForward(c.prefix+name) {
			return none, &guardrail.ParamError{Path: fmt.Sprintf("extractClaims[%d]", i), Message: "must make a valid header with claimPrefix"}
		}
	}
	return guardrail.Compiled{Run: c.run, Reach: guardrail.Reach{Facts: true}, Remote: true, Transforms: len(c.extract) > 0, Fields: fields},
		nil
}

func seconds(p *guardrail.Params, name string) time.Duration {
	return time.Duration(p.Number(name)) * time.Second
}

var errAge = errors.New("must be a number with s, m, h, d or w, such as 12h")

// parseAge parses a duration such as 1d.
func parseAge(text string) (time.Duration, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	if len(text) < 2 {
		return 0, errAge
	}
	n, err := strconv.Atoi(strings.TrimSpace(text[:len(text)-1]))
	unit := units[text[len(text)-1]]
	if err != nil || unit == 0 || n < 1 || n > 10_000 {
		return 0, errAge
	}
	return time.Duration(n) * unit, nil
}

func (c *tokenCheck) compileClaims(object map[string]json.RawMessage) error {
	for name, raw := range object {
		var rule struct {
			Values    []any  `json:"values"`
			MatchType string `json:"matchType"`
		}
		wrong := &guardrail.ParamError{Path: "claimValues." + excerpt(name),
			Message: "must be an object with values, an array, and matchType: exact, contains, containsAll or regex"}
		if json.Unmarshal(raw, &rule) != nil || len(rule.Values) == 0 {
			return wrong
		}
		switch cmp.Or(rule.MatchType, "exact") {
		case "exact":
			c.claims[name] = func(v any) bool { return equalsAny(rule.Values, v) }
		case "contains":
			c.claims[name] = func(v any) bool {
				return slices.ContainsFunc(rule.Values, func(want any) bool { return holds(v, want) })
			}
		case "containsAll":
			c.claims[name] = func(v any) bool {
				return !slices.ContainsFunc(rule.Values, func(want any) bool { return !holds(v, want) })
			}
		case "regex":
			var patterns []func(string) bool
			for _, v := range rule.Values {
				text, _ := v.(string)
				test, err := comparison("regex", text)
				if err != nil {
					return wrong
				}
				patterns = append(patterns, test)
			}
			c.claims[name] = func(v any) bool {
				text, ok := v.(string)
				return ok && slices.ContainsFunc(patterns, func(test func(string) bool) bool { return test(text) })
			}
		default:
			return wrong
		}
	}
	return nil
}

// holds reports whether a claim is or contains a value: an entry of an array, a
// word of a string, or the value itself.
func holds(claim, want any) bool {
	switch claim := claim.(type) {
	case []any:
		return equalsAny(claim, want)
	case string:
		text, ok := want.(string)
		return ok && (claim == text || slices.Contains(strings.Fields(claim), text))
	}
	return equalsAny([]any{claim}, want)
}

func (c *tokenCheck) run(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
	failed := func(why string) (guardrail.Verdict, error) { return verdict(false, false, "", why, nil), nil }
	if len(guardrail.FieldValues(in.Request.Header, c.header)) > 1 {
		return failed("the header " + excerpt(c.header) + " occurs more than once")
	}
	token := strings.TrimSpace(in.Request.Header.Get(c.header))
	if scheme, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(scheme, "bearer") {
		token = strings.TrimSpace(rest)
	}
	if token == "" {
		return failed("the header has no token")
	}
	var claims map[string]any
	var err error
	if c.introspec != nil {
		claims, err = c.introspec.ask(ctx, c.services, in, token)
	} else {
		claims, err = c.keys.verify(ctx, c.services, in, token, c.rules)
	}
	var rejected rejection
	if errors.As(err, &rejected) {
		return failed(string(rejected))
	} else if err != nil {
		return guardrail.Verdict{}, err
	}
	for _, name := range c.required {
		if claims[name] == nil {
			return failed("the claim " + excerpt(name) + " is missing")
		}
	}
	for name, test := range c.claims {
		if !test(claims[name]) {
			return failed("the claim " + excerpt(name) + " has another value")
		}
	}
	for header, name := range c.headers {
		values := guardrail.FieldValues(in.Request.Header, header)
		if want, ok := claims[name].(string); !ok || len(values) != 1 || values[0] != want {
			return failed("the header " + excerpt(header) + " is not the claim " + excerpt(name) + ", or occurs more than once")
		}
	}
	v := verdict(true, false, "", "the token is valid", nil)
	for _, name := range c.extract {
		if text := claimText(claims[name]); text != "" && len(text) <= 1000 && validHeader("x", text) {
			if v.Header == nil {
				v.Header = http.Header{}
			}
			v.Header.Set(c.prefix+name, text)
		}
	}
	return v, nil
}

func claimText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, _ := json.Marshal(v) // was JSON
	return string(b)
}

// introspection asks an issuer about tokens. https://www.rfc-editor.org/rfc/rfc7662
type introspection struct {
	url, contentType string
	life             time.Duration

	mu    sync.Mutex
	known map[[32]byte]introspected // guarded by mu
}

type introspected struct {
	claims map[string]any // nil: not active
	until  time.Time
}

func (i *introspection) ask(ctx context.Context, s Services, in *guardrail.Input, token string) (map[string]any, error) {
	key := sha256.Sum256([]byte(token))
	i.mu.Lock()
	found := i.known[key]
	i.mu.Unlock()
	if time.Now().After(found.until) {
		body := []byte(url.Values{"token": {token}}.Encode())
		if i.contentType == "application/json" {
			body, _ = json.Marshal(map[string]string{"token": token}) // strings always marshal
		}
		raw, err := s.send(ctx, in,
			outgoing{method: http.MethodPost, url: i.url, header: http.Header{"Content-Type": {i.contentType}}, body: body, chosen: true})
		if err != nil {
			return nil, err
		}
		var claims map[string]any
		if err := decode(raw, &claims, "the introspection endpoint"); err != nil {
			return nil, err
		}
		active, ok := claims["active"].(bool)
		if !ok {
			return nil, errors.New("the response of the introspection endpoint has no boolean active")
		}
		found = introspected{claims, time.Now().Add(i.life)}
		if !active {
			found.claims = nil
		}
		i.mu.Lock()
		if i.known == nil || len(i.known) >= maxTokens {
			i.known = map[[32]byte]introspected{}
		}
		i.known[key] = found
		i.mu.Unlock()
	}
	if exp, ok := found.claims["exp"].(float64); found.claims == nil || ok && float64(time.Now().Unix()) > exp {
		return nil, rejection("the token is not active")
	}
	return found.claims, nil
}
