// Package jws verifies JSON Web Tokens by the public keys of their issuer.
//
// [Rules] say which algorithms an issuer may use: of RSA, of elliptic curves, or EdDSA.
// They read its keys and its tokens. The package guarantees that a token has one
// meaning (its parts are canonical base64url, no name of its header occurs twice), that
// a key verifies only the algorithms of its kind and of its own alg, and that no error
// contains a token. It does not read claims, and it does not fetch keys.
package jws

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"modelgate/internal/format/jsonedit"
)

const (
	maxHeader = 100 // members of a header
	maxKeyID  = 255 // characters
)

// Rules are what the tokens and keys of an issuer must satisfy.
type Rules struct {
	// Algorithms are the allowed values of alg (RFC 7518, section 3.1). Secrets that
	// are shared with the issuer, as for HS256, are not supported.
	Algorithms []string

	// NeedKeyID reports that tokens and keys must have a kid.
	NeedKeyID bool

	// Use is the only use that keys may have, if they have one. Empty is sig.
	Use string
}

// Token is a token whose signature is not verified yet.
type Token struct {
	KeyID  string // empty if absent
	Claims []byte // not verified, and of any form

	compact   string
	algorithm string
}

// Errors of [Rules.Parse]. They complete "the token …", like its other errors.
var (
	ErrAlgorithm = errors.New("has an algorithm that is not allowed (alg)")
	ErrCritical  = errors.New("requires unknown extensions (crit)")
	ErrClaims    = errors.New("has claims that are not a JSON object in base64url, or have duplicate or too many names")
)

// Parse splits a token and checks its header (RFC 7515, section 4.1). The caller limits
// its length.
func (r Rules) Parse(token string) (*Token, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("does not have three parts with dots between them")
	}
	t := &Token{compact: token}
	if err := r.readHeader(t, parts[0]); err != nil {
		return nil, err
	}
	if signature, err := decode(parts[2]); err != nil || len(signature) == 0 {
		return nil, errors.New("has a signature that is not base64url")
	}
	var err error
	if t.Claims, err = decode(parts[1]); err != nil {
		return nil, ErrClaims
	}
	return t, nil
}

func (r Rules) readHeader(t *Token, part string) error {
	var head jsonedit.Doc
	text, err := decode(part)
	if err != nil || head.Scan(text) != nil || head.Len() > maxHeader {
		return errors.New("has a header that is not a JSON object in base64url, or has duplicate or too many names")
	}
	alg, _ := head.Find("alg")
	t.algorithm, _ = alg.Text()
	if !slices.Contains(r.Algorithms, t.algorithm) {
		return ErrAlgorithm
	}
	if _, ok := head.Find("crit"); ok {
		return ErrCritical
	}
	if kid, ok := head.Find("kid"); ok {
		if t.KeyID, ok = kid.Text(); !ok || !validID(t.KeyID) {
			return errors.New("has a kid that is not a string of at most 255 characters")
		}
	}
	if t.KeyID == "" && r.NeedKeyID {
		return errors.New("does not say which key it is signed with (kid)")
	}
	return nil
}

// Verify returns an error if the token is not signed with key.
func (t *Token) Verify(key *Key) error {
	if key.algorithm != "" && key.algorithm != t.algorithm {
		return errors.New("has another algorithm than its key (alg)")
	}
	signed, err := jose.ParseSignedCompact(t.compact, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(t.algorithm)})
	if err == nil {
		_, err = signed.Verify(key.public)
	}
	return err
}

// decode decodes canonical base64url without padding.
func decode(part string) ([]byte, error) {
	if strings.ContainsAny(part, "\r\n") { // accepted by package base64
		return nil, errors.New("line breaks")
	}
	return base64.RawURLEncoding.Strict().DecodeString(part)
}

// validID reports whether a kid is short and can be logged.
func validID(s string) bool {
	return len([]rune(s)) <= maxKeyID && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
