// Package jwt checks the JSON Web Tokens of organisations' own issuers.
//
// A [Verifier] holds one state: which organisations take tokens, whose keys sign
// them and which workspaces they may name. A [KeySetCache] keeps the keys of issuers
// through all states and asks an issuer for them again when they are old or when a
// token names one that is not among them. It promises that a token counts only if
// it is signed by RS256 with a key of its organisation's issuer, that it acts as a
// key of one workspace and never as more, that a token which was checked is not
// checked again until something about it changes, and that no error quotes a token.
// What scopes allow is left to access, where keys may be fetched from to the [Doer].
package jwt

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"strings"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
)

// Issuer is whose tokens an organisation takes.
type Issuer struct {
	Organisation string // id

	// Either URL is where a JSON Web Key Set is available, or Set is one.
	URL string
	Set string

	Name     string         // the iss that tokens need; empty takes any
	Audience string         // that aud has to name; empty takes any
	Scopes   []access.Scope // of tokens that bring none

	Workspaces []Workspace // that tokens may name
}

// Workspace is one that tokens may name, by its slug or id.
type Workspace struct {
	ID       string
	Slug     string
	Metadata map[string]string // added to that of tokens; wins over it
	Logging  access.Logging    // of its tokens
}

// RejectedError is the cause of every error of a token that names an organisation
// which takes tokens.
type RejectedError struct{ Organisation string }

// Error implements error.
func (r *RejectedError) Error() string { return "a token for the organisation " + r.Organisation }

// leeway is how far the clocks of an issuer and of the gateway may differ.
const leeway = 5 * time.Second

// Verifier checks the tokens of one state. It is safe for concurrent use.
type Verifier struct {
	issuers map[string]*issuer // by organisation
	judged  cache
}

// issuer is an Issuer with its keys available.
type issuer struct {
	Issuer
	source     *source
	workspaces map[string]*Workspace // by slug and id
}

// LooksLikeToken reports whether text has the form of a token: three parts with dots
// between them.
func LooksLikeToken(text string) bool { return strings.Count(text, ".") == 2 }

// Verify returns what a token proves at now; hash is its own. For a token that
// was checked before it costs one look into a map. Otherwise it may wait a short
// while for the keys of an issuer. Errors are *apierr.Error: Unauthenticated for
// what is no valid token, Forbidden for a workspace that is not there, Unavailable
// while the issuer's keys were never to be had.
func (t *Verifier) Verify(token string, hash access.Hash, now time.Time) (*access.Identity, error) {
	if j := t.judged.get(hash); j != nil && j.counts(now) {
		return j.identity, nil
	}
	p, err := parse(token)
	if err != nil {
		return nil, err
	}
	by := t.issuers[p.organisation]
	if by == nil {
		return nil, rejected("names no organisation that takes tokens, in gateway_oid or organisation_id")
	}
	j, err := by.judge(p, hash, now)
	if err != nil {
		return nil, apierr.From(err).WithCause(&RejectedError{by.Organisation})
	}
	t.judged.put(hash, j)
	return j.identity, nil
}

// verifiedToken is a token that was found good.
type verifiedToken struct {
	identity *access.Identity
	ends     time.Time
	source   *source
	keys     *keys // that it was checked by
}

// counts reports whether the judgement holds at now: the token has not ended and
// its issuer's keys are the same.
func (j *verifiedToken) counts(now time.Time) bool {
	return now.Before(j.ends) && j.source.current(now) == j.keys
}

func (by *issuer) judge(p *parsed, hash access.Hash, now time.Time) (*verifiedToken, error) {
	key, set, err := by.source.find(p.kid, now)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(p.signed))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], p.signature) != nil {
		return nil, rejected("has a signature that does not match the key it names")
	}
	c, err := readClaims(p.claims)
	if err != nil {
		return nil, err
	}
	if err := by.check(c, now); err != nil {
		return nil, err
	}
	w := by.workspaces[c.workspace]
	if w == nil {
		return nil, apierr.New(apierr.Forbidden, "the token names no active workspace of its organisation, in gateway_workspace or workspace_slug").
			WithParam("x-gateway-api-key").WithCode("token_workspace")
	}
	return &verifiedToken{by.identity(c, w, hash), c.expires.Add(leeway), by.source, set}, nil
}

// check checks what a token says of itself: when it counts, who made it and for
// whom.
func (by *issuer) check(c *claims, now time.Time) error {
	switch {
	case !now.Before(c.expires.Add(leeway)):
		return rejected("has expired (exp)").WithCode("expired_token")
	case now.Add(leeway).Before(c.notBefore):
		return rejected("is not valid yet (nbf)")
	case by.Name != "" && c.issuer != by.Name:
		return rejected("has an issuer (iss) that the organisation does not trust")
	case by.Audience != "" && !c.names(by.Audience):
		return rejected("has the wrong audience (aud)")
	}
	return nil
}

// rejected is the error of a token of which this is said.
func rejected(what string) *apierr.Error {
	return apierr.New(apierr.Unauthenticated, "the token %s", what).WithParam("x-gateway-api-key").WithCode("invalid_token")
}
