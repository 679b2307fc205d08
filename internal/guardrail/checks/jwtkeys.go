package checks

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"modelgate/internal/guardrail"
	"modelgate/internal/identity/jws"
)

var jwtAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// tokenRules are the rules for a token's header and times.
type tokenRules struct {
	algorithms        []string
	tolerance, maxAge time.Duration
}

// rejection is the reason why a token is not valid. It does not contain it.
type rejection string

// Error implements error.
func (r rejection) Error() string { return string(r) }

// keySource holds the keys of an issuer, fetched when they are needed.
type keySource struct {
	url  string // empty: known does not change
	life time.Duration

	mu      sync.Mutex
	known   *jws.KeySet // nil until first fetched; guarded by mu like the next two
	fetched time.Time
	asked   time.Time
}

// Limits of tokens and keys.
const (
	maxToken = 32 << 10
	keyPause = 10 * time.Second // between two requests because of an unknown key
)

// find returns the key with an id. Keys that are too old, or that lack the id,
// are fetched again.
func (k *keySource) find(ctx context.Context, s Services, in *guardrail.Input, kid string) (*jws.Key, error) {
	now := time.Now()
	k.mu.Lock()
	key := k.known.Find(kid)
	ask := k.url != "" && (now.Sub(k.fetched) > k.life || key == nil && now.Sub(k.asked) > keyPause)
	if ask {
		k.asked = now
	}
	known := k.known != nil
	k.mu.Unlock()
	if ask {
		raw, err := s.send(ctx, in, outgoing{method: http.MethodGet, url: k.url, chosen: true})
		if err != nil {
			return nil, err
		}
		keys, err := parseKeys(raw)
		if err != nil {
			return nil, errors.New("the keys of the issuer " + err.Error())
		}
		k.mu.Lock()
		k.known, k.fetched = keys, now
		k.mu.Unlock()
		key, known = keys.Find(kid), true
	}
	switch {
	case key != nil:
		return key, nil
	case !known:
		return nil, errors.New("the keys of the issuer are unavailable")
	}
	return nil, rejection("the token is signed with an unknown key")
}

// verify returns the claims of a valid token.
func (k *keySource) verify(ctx context.Context, s Services, in *guardrail.Input, text string, rules tokenRules) (map[string]any, error) {
	const malformed = rejection("the header has no JSON Web Token")
	if len(text) > maxToken {
		return nil, malformed
	}
	token, err := jws.Rules{Algorithms: rules.algorithms}.Parse(text)
	if errors.Is(err, jws.ErrAlgorithm) || errors.Is(err, jws.ErrCritical) {
		return nil, rejection("the algorithm of the token is not allowed")
	}
	var claims map[string]any
	if err != nil || decode(token.Claims, &claims, "token") != nil || claims == nil {
		return nil, malformed
	}
	key, err := k.find(ctx, s, in, token.KeyID)
	if err != nil {
		return nil, err
	}
	if token.Verify(key) != nil {
		return nil, rejection("the signature of the token is wrong")
	}
	return claims, rules.checkTimes(claims, time.Now())
}

// checkTimes checks exp, nbf and iat.
func (r tokenRules) checkTimes(claims map[string]any, now time.Time) error {
	at := func(name string) (time.Time, bool) {
		n, ok := claims[name].(float64)
		return time.Unix(int64(min(max(n, 0), 1e12)), 0), ok
	}
	if exp, ok := at("exp"); ok && now.After(exp.Add(r.tolerance)) || !ok && claims["exp"] != nil {
		return rejection("the token has expired")
	}
	if nbf, ok := at("nbf"); ok && now.Add(r.tolerance).Before(nbf) {
		return rejection("the token is not valid yet")
	}
	iat, ok := at("iat")
	switch {
	case !ok:
		return rejection("the token has no time of issue (iat)")
	case now.Add(r.tolerance).Before(iat):
		return rejection("the token was issued in the future")
	case now.Sub(iat) > r.maxAge+r.tolerance:
		return rejection("the token is too old")
	}
	return nil
}

// parseKeys decodes the keys of a JSON Web Key Set (RFC 7517) that are for one of
// jwtAlgorithms. Others are skipped.
func parseKeys(raw []byte) (*jws.KeySet, error) {
	if !shallow(raw) {
		return nil, errKeySet
	}
	set, _, err := jws.Rules{Algorithms: jwtAlgorithms}.ParseKeys(raw)
	if err != nil {
		return nil, errKeySet
	}
	if set.Len() == 0 {
		return nil, errors.New("must have a usable RSA, EC or Ed25519 key")
	}
	return set, nil
}

var errKeySet = errors.New("must be a JSON Web Key Set")
