// Package jwt verifies the JSON Web Tokens of organisations' issuers.
//
// A [Verifier] holds one state: the organisations that accept tokens, the issuers' keys
// and the workspaces that tokens may name. A [KeySetCache] caches issuers' keys across
// states and fetches them again when they are old or when a token names an unknown key.
// The package guarantees that a token is valid only if it is signed with RS256 and a
// key of its organisation's issuer, that it never has more rights than a key of one
// workspace, that a verified token is not verified again until something about it
// changes, and that no error contains a token. It does not verify signatures (see jws),
// define what scopes allow (see access) or where keys may be fetched from (see [Doer]).
package jwt

import (
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jws"
)

// Issuer is the issuer whose tokens an organisation accepts.
type Issuer struct {
	Organisation string // id

	// Either URL is the address of a JSON Web Key Set, or Set is one.
	URL string
	Set string

	Name     string         // required iss of tokens; empty accepts any
	Audience string         // value that aud must contain; empty accepts any
	Scopes   []access.Scope // scopes of tokens without scopes

	Workspaces []Workspace // workspaces that tokens may name
}

// Workspace is a workspace that tokens may name by slug or id.
type Workspace struct {
	ID       string
	Slug     string
	Metadata map[string]string // added to the metadata of tokens; takes precedence
	Logging  access.Logging    // of its tokens
}

// RejectedError is the cause of every error of a token that names an organisation which
// accepts tokens.
type RejectedError struct{ Organisation string }

// Error implements error.
func (r *RejectedError) Error() string { return "a token for the organisation " + r.Organisation }

// leeway is the accepted difference between the clocks of an issuer and the gateway.
const leeway = 5 * time.Second

// Verifier verifies the tokens of one state. It is safe for concurrent use.
type Verifier struct {
	issuers map[string]*issuer // by organisation
	judged  cache
}

// issuer is an Issuer with its keys.
type issuer struct {
	Issuer
	source     *source
	workspaces map[string]*Workspace // by slug and id
}

// LooksLikeToken reports whether text looks like a token: three parts separated by
// dots.
func LooksLikeToken(text string) bool { return strings.Count(text, ".") == 2 }

// Verify returns the identity that a token proves at now; hash is the token's hash. A
// token verified before costs one map lookup. Otherwise it may wait briefly for the
// issuer's keys. Errors are *apierr.Error: Unauthenticated for an invalid token,
// Forbidden for an unknown workspace, Unavailable if the issuer's keys could never be
// fetched.
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
	j, err := by.verify(p, hash, now)
	if err != nil {
		return nil, apierr.From(err).WithCause(&RejectedError{by.Organisation})
	}
	t.judged.put(hash, j)
	return j.identity, nil
}

// verifiedToken is a valid token.
type verifiedToken struct {
	identity *access.Identity
	ends     time.Time
	source   *source
	keys     *jws.KeySet // keys used to verify it
}

// counts reports whether the result is still valid at now: the token has not expired
// and its issuer's keys are the same.
func (j *verifiedToken) counts(now time.Time) bool {
	return now.Before(j.ends) && j.source.current(now) == j.keys
}

func (by *issuer) verify(p *parsed, hash access.Hash, now time.Time) (*verifiedToken, error) {
	key, set, err := by.source.find(p.token.KeyID, now)
	if err != nil {
		return nil, err
	}
	if p.token.Verify(key) != nil {
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
		return nil, apierr.New(apierr.Forbidden,
			"the token names no active workspace of its organisation, in gateway_workspace or workspace_slug").
			WithParam("x-gateway-api-key").WithCode("token_workspace")
	}
	return &verifiedToken{by.identity(c, w, hash), c.expires.Add(leeway), by.source, set}, nil
}

// check checks the token's validity period, issuer and audience.
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

// rejected returns the error for an invalid token; what completes "the token …".
func rejected(what string) *apierr.Error {
	return apierr.New(apierr.Unauthenticated, "the token %s", what).WithParam("x-gateway-api-key").WithCode("invalid_token")
}
