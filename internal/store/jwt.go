package store

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
)

// JWTSettings configures the issuer whose JSON Web Tokens an organisation accepts: the
// part "jwt" of its settings. Exactly one of URL and Set is set.
type JWTSettings struct {
	URL string `json:"jwks_url,omitempty" maxLength:"2048" doc:"https address of the issuer's JSON Web Key Set"`
	Set JWKS   `json:"jwks,omitzero" doc:"A JSON Web Key Set; replaces jwks_url"`

	Issuer   string         `json:"issuer,omitempty" maxLength:"255" doc:"Required iss of tokens; defaults to any"`
	Audience string         `json:"audience,omitempty" maxLength:"255" doc:"Value that the aud of tokens must contain; defaults to any"`
	Scopes   []access.Scope `json:"default_scopes,omitempty" maxItems:"200" doc:"Scopes of tokens without scope or scopes"`
}

// JWKS is a JSON Web Key Set (RFC 7517) with public keys only. Unknown members are
// kept.
type JWKS struct {
	Keys []map[string]any `json:"keys" maxItems:"100"`
}

// IsZero reports whether there is no set.
func (s JWKS) IsZero() bool { return s.Keys == nil }

// Checked returns s in stored form, or an *apierr.Error that names the invalid field
// with the prefix field. CheckHost checks the host of an address.
func (s JWTSettings) Checked(field string, checkHost func(raw string) (*url.URL, error)) (JWTSettings, error) {
	if (s.URL == "") == s.Set.IsZero() {
		return s, fieldError(field, "must have either jwks_url or jwks")
	}
	if s.URL != "" {
		if err := checkKeyAddress(s.URL, checkHost); err != nil {
			return s, fieldError(field+".jwks_url", "%v", err)
		}
	} else if err := jwt.CheckJWKS(text(s.Set)); err != nil {
		return s, fieldError(field+".jwks", "%v", err)
	}
	s.Scopes = slices.Clone(s.Scopes)
	for i, word := range s.Scopes {
		scope, err := access.ParseScope(string(word))
		if err == nil && scope == access.ScopeAll {
			err = fmt.Errorf("%q is allowed only for installation keys", word)
		}
		if err == nil {
			err = scope.CheckHolder(access.Token)
		}
		if err != nil {
			return s, fieldError(fmt.Sprintf("%s.default_scopes[%d]", field, i), "%v", err)
		}
		s.Scopes[i] = scope
	}
	return s, nil
}

// checkKeyAddress checks the address of a key set. Whoever can change the keys in
// transit can create tokens, so the connection must be encrypted.
func checkKeyAddress(address string, checkHost func(raw string) (*url.URL, error)) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Contains(address, "#") {
		return errors.New("must be an https address without user name and fragment")
	}
	_, err = checkHost(u.Scheme + "://" + u.Host)
	return err
}

func fieldError(field, format string, args ...any) error {
	return apierr.New(apierr.Invalid, field+": "+format, args...).WithParam(field)
}
