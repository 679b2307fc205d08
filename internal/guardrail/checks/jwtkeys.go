package checks

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha512" // of RS384 and others
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/guardrail"
)

var jwtAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"}

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
	known   map[string]crypto.PublicKey // by kid, guarded by mu like the next two
	fetched time.Time
	asked   time.Time
}

// Limits of keys.
const (
	maxToken   = 32 << 10
	keyPause   = 10 * time.Second // between two requests because of an unknown key
	minKeyBits = 2048
	maxKeyBits = 8192
	maxKeys    = 100
)

// find returns the key with an id. Keys that are too old, or that lack the id,
// are fetched again.
func (k *keySource) find(ctx context.Context, s Services, in *guardrail.Input, kid string) (crypto.PublicKey, error) {
	now := time.Now()
	k.mu.Lock()
	key := k.known[kid]
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
		key, known = keys[kid], true
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
func (k *keySource) verify(ctx context.Context, s Services, in *guardrail.Input, token string, rules tokenRules) (map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		return nil, rejection("the header has no JSON Web Token")
	}
	var header struct {
		Algorithm string   `json:"alg"`
		Key       string   `json:"kid"`
		Critical  []string `json:"crit"`
	}
	var claims map[string]any
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || decodePart(parts[0], &header) != nil || decodePart(parts[1], &claims) != nil || claims == nil {
		return nil, rejection("the header has no JSON Web Token")
	}
	if !slices.Contains(rules.algorithms, header.Algorithm) || len(header.Critical) > 0 {
		return nil, rejection("the algorithm of the token is not allowed")
	}
	key, err := k.find(ctx, s, in, header.Key)
	if err != nil {
		return nil, err
	}
	if !signed(key, header.Algorithm, parts[0]+"."+parts[1], signature) {
		return nil, rejection("the signature of the token is wrong")
	}
	return claims, rules.checkTimes(claims, time.Now())
}

func decodePart(text string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return decode(raw, into, "token")
}

// signed reports whether the signature is of the key. RFC 7518, section 3.
func signed(key crypto.PublicKey, algorithm, text string, signature []byte) bool {
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[algorithm[2:]]
	h := hash.New()
	h.Write([]byte(text))
	sum := h.Sum(nil)
	switch key := key.(type) {
	case *rsa.PublicKey:
		if algorithm[:2] == "PS" {
			return rsa.VerifyPSS(key, hash, sum, signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		}
		return algorithm[:2] == "RS" && rsa.VerifyPKCS1v15(key, hash, sum, signature) == nil
	case *ecdsa.PublicKey:
		size := (key.Curve.Params().BitSize + 7) / 8
		curve := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[algorithm]
		if curve != key.Curve || len(signature) != 2*size {
			return false
		}
		return ecdsa.Verify(key, sum, new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	}
	return false
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

// parseKeys decodes the RSA and EC keys of a JSON Web Key Set (RFC 7517). Other
// keys are skipped.
func parseKeys(raw []byte) (map[string]crypto.PublicKey, error) {
	var set struct {
		Keys []struct {
			Type  string `json:"kty"`
			Use   string `json:"use"`
			ID    string `json:"kid"`
			N     string `json:"n"`
			E     string `json:"e"`
			Curve string `json:"crv"`
			X     string `json:"x"`
			Y     string `json:"y"`
		} `json:"keys"`
	}
	if !shallow(raw) || json.Unmarshal(raw, &set) != nil || len(set.Keys) > maxKeys {
		return nil, errors.New("must be a JSON Web Key Set")
	}
	keys := map[string]crypto.PublicKey{}
	for _, k := range set.Keys {
		if k.Use != "" && k.Use != "sig" {
			continue
		}
		switch k.Type {
		case "RSA":
			n, e := integer(k.N), integer(k.E)
			if bits := n.BitLen(); bits >= minKeyBits && bits <= maxKeyBits && e.BitLen() >= 2 && e.BitLen() <= 31 {
				keys[k.ID] = &rsa.PublicKey{N: n, E: int(e.Int64())}
			}
		case "EC":
			curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Curve]
			if curve == nil {
				continue
			}
			if key, err := ecdsa.ParseUncompressedPublicKey(curve, uncompressed(curve, integer(k.X), integer(k.Y))); err == nil {
				keys[k.ID] = key
			}
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("must have a usable RSA or EC key")
	}
	return keys, nil
}

// uncompressed returns a point in the form of SEC 1, section 2.3.3; nil for one whose
// coordinates are too large.
func uncompressed(curve elliptic.Curve, x, y *big.Int) []byte {
	size := (curve.Params().BitSize + 7) / 8
	if x.BitLen() > 8*size || y.BitLen() > 8*size {
		return nil
	}
	point := make([]byte, 1+2*size)
	point[0] = 4
	x.FillBytes(point[1 : 1+size])
	y.FillBytes(point[1+size:])
	return point
}

// integer decodes a number in base64url, zero if it is none.
func integer(text string) *big.Int {
	b, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "=")) // nothing is zero
	return new(big.Int).SetBytes(b)
}
