package oidc

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
)

// algorithms are those in which ID tokens may be signed: not none, and none with a
// secret that a client has.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// skew is how far the provider's clock may be from the gateway's.
const skew = time.Minute

// SignIn is a successful sign-in.
type SignIn struct {
	Person
	IDToken string // to end the session at the provider later
}

// Callback checks the query with which the provider sent the browser back, and returns the
// authorization code in it. Issuer mix-ups are refused where the provider names itself
// (RFC 9207).
func (p *Provider) Callback(q url.Values, f Flow) (code string, err error) {
	if q.Get("state") == "" || q.Get("state") != f.State {
		return "", refuse("state", "the response is not of the sign-in that this browser began")
	}
	switch iss := q["iss"]; {
	case len(iss) > 0 && (len(iss) > 1 || iss[0] != p.set.Issuer):
		return "", refuse("mix_up", "the response is of the issuer %.200q, but the sign-in began at %.200q", strings.Join(iss, " "), p.set.Issuer)
	case len(iss) == 0 && p.doc.NamesItself:
		return "", refuse("mix_up", "the response does not name its issuer, although the provider's document says that it does")
	}
	if name := q.Get("error"); name != "" {
		return "", refuse("provider", "the identity provider refused: %.100q: %.300q", name, q.Get("error_description"))
	}
	if code = q.Get("code"); code == "" || len(q["code"]) > 1 {
		return "", refuse("code", "the response has no authorization code")
	}
	return code, nil
}

// Finish exchanges the code of a callback and verifies the ID token. The error is a
// *Refusal.
func (p *Provider) Finish(ctx context.Context, code string, f Flow) (*SignIn, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.doc.client), requestTime)
	defer cancel()
	options := []oauth2.AuthCodeOption{oauth2.VerifierOption(f.Verifier)}
	if p.set.Method == PrivateKey {
		assertion, err := p.assertion()
		if err != nil {
			return nil, refuse("private_key", "the client's private key cannot be used: %s", short(err))
		}
		options = append(options, oauth2.SetAuthURLParam("client_assertion", assertion),
			oauth2.SetAuthURLParam("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"))
	}
	token, err := p.oauth().Exchange(ctx, code, options...)
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.Response != nil {
		text := fmt.Sprintf("the token endpoint refused with status %d: %.100q: %.300q", e.Response.StatusCode, e.ErrorCode, e.ErrorDescription)
		return nil, &Refusal{Reason: "exchange", Err: &explained{text, e}}
	}
	if err != nil {
		return nil, refuse("exchange", "the request to the token endpoint failed: %s", short(err))
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return nil, refuse("exchange", "the token endpoint sent no ID token; the client must be allowed the scope openid")
	}
	return p.verify(ctx, raw, token, f)
}

// explained is an error with another text, because the library's has the response.
type explained struct {
	text  string
	cause error
}

// Error implements error.
func (e *explained) Error() string { return e.text }

// Unwrap returns the cause.
func (e *explained) Unwrap() error { return e.cause }

// verify checks an ID token, and adds claims that only the userinfo endpoint has.
func (p *Provider) verify(ctx context.Context, raw string, token *oauth2.Token, f Flow) (*SignIn, error) {
	now := p.now()
	verified, err := p.doc.provider.Verifier(&oidc.Config{
		ClientID: p.set.ClientID, SupportedSigningAlgs: algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true,
	}).Verify(ctx, raw)
	if err != nil {
		return nil, refusedToken(err)
	}
	var c claims
	if err := verified.Claims(&c.raw); err != nil {
		return nil, refuse("token", "the claims of the ID token cannot be read")
	}
	party, _ := c.raw["azp"].(string)
	switch {
	case !slices.Contains(verified.Audience, p.set.ClientID):
		return nil, refuse("audience", "the ID token is for %.200q, not for the client %.200q", verified.Audience, p.set.ClientID)
	case party != "" && party != p.set.ClientID, party == "" && len(verified.Audience) > 1:
		return nil, refuse("authorized_party", "the ID token was issued to another client (azp %.200q)", party)
	case !now.Before(verified.Expiry.Add(skew)):
		return nil, refuse("expired", "the ID token expired at %s, and here it is %s; compare the clocks", stamp(verified.Expiry), stamp(now))
	case verified.IssuedAt.IsZero() || verified.IssuedAt.After(now.Add(skew)):
		return nil, refuse("issued_at", "the ID token was issued at %s, and here it is %s; compare the clocks",
			stamp(verified.IssuedAt), stamp(now))
	case c.after("nbf", now.Add(skew)):
		return nil, refuse("not_before", "the ID token is not valid yet; compare the clocks")
	case verified.Nonce != f.Nonce:
		return nil, refuse("nonce", "the ID token is not of the sign-in that this browser began")
	case verified.Subject == "":
		return nil, refuse("subject", "the ID token names no subject")
	case verified.AccessTokenHash != "" && verified.VerifyAccessToken(token.AccessToken) != nil:
		return nil, refuse("access_token", "the access token does not belong to the ID token")
	}
	if !c.complete(p.set.GroupsClaim) && p.doc.provider.UserInfoEndpoint() != "" {
		p.addUserInfo(ctx, &c, verified.Subject, token)
	}
	return &SignIn{Person: c.person(verified.Issuer, verified.Subject, &p.set), IDToken: raw}, nil
}

// addUserInfo adds claims of the userinfo endpoint that the ID token does not have. What
// it says of another subject, and errors, add nothing.
func (p *Provider) addUserInfo(ctx context.Context, c *claims, subject string, token *oauth2.Token) {
	info, err := p.doc.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil || info.Subject != subject {
		return
	}
	var more map[string]any
	if info.Claims(&more) != nil {
		return
	}
	for name, value := range more {
		if _, has := c.raw[name]; !has {
			c.raw[name] = value
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// refusedToken says why the library refused a token.
func refusedToken(err error) *Refusal {
	text := short(err)
	for _, known := range []struct{ part, reason string }{
		{"issued by a different provider", "issuer"}, {"malformed jwt", "algorithm"}, {"not signed", "algorithm"},
		{"fetching keys", "keys"}, {"failed to verify", "signature"},
	} {
		if strings.Contains(text, known.part) {
			return refuse(known.reason, "the token was refused: %s", text)
		}
	}
	return refuse("token", "the token was refused: %s", text)
}

// assertionTime is how long the assertion of a client is valid.
const assertionTime = time.Minute

// assertion returns the assertion with which the client authenticates (RFC 7523).
func (p *Provider) assertion() (string, error) {
	key, err := parseKey(p.set.Secret.Reveal())
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	now := p.now()
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: p.set.ClientID, Subject: p.set.ClientID, Audience: jwt.Audience{p.doc.Token}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionTime)),
	}).Serialize()
}

// CheckKey returns an error unless text is a private key for [PrivateKey].
func CheckKey(text string) error {
	_, err := parseKey(text)
	return err
}

var errKey = errors.New("must be a private key as JWK or as PEM (PKCS #8), RSA, P-256 or Ed25519")

// parseKey reads a private key. Its errors do not contain it.
func parseKey(text string) (jose.SigningKey, error) {
	if block, _ := pem.Decode([]byte(text)); block != nil {
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return jose.SigningKey{}, errKey
		}
		return signingKey(key, "", "")
	}
	var k jose.JSONWebKey
	if json.Unmarshal([]byte(text), &k) != nil || !k.Valid() || k.IsPublic() {
		return jose.SigningKey{}, errKey
	}
	return signingKey(k.Key, k.KeyID, k.Algorithm)
}

func signingKey(key any, id, algorithm string) (jose.SigningKey, error) {
	a := jose.SignatureAlgorithm(algorithm)
	switch key.(type) {
	case *rsa.PrivateKey:
		a = cmp.Or(a, jose.RS256)
	case *ecdsa.PrivateKey:
		a = cmp.Or(a, jose.ES256)
	case ed25519.PrivateKey:
		a = cmp.Or(a, jose.EdDSA)
	default:
		return jose.SigningKey{}, errKey
	}
	return jose.SigningKey{Algorithm: a, Key: jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(a)}}, nil
}
