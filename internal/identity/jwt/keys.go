package jwt

import (
	"errors"

	"modelgate/internal/identity/jws"
)

// rules returns what tokens of organisations' issuers and the issuers' keys must satisfy.
func rules() jws.Rules { return jws.Rules{Algorithms: []string{"RS256"}, NeedKeyID: true} }

// CheckJWKS returns an error if a configured JSON Web Key Set has no key for RS256, or
// has one that cannot be used or contains a private part.
func CheckJWKS(text string) error {
	_, unused, err := parseKeys([]byte(text))
	if err == nil && len(unused) > 0 {
		err = unused[0]
	}
	return err
}

// parseKeys decodes the keys for RS256 of a JSON Web Key Set. A set without any is an
// error.
func parseKeys(text []byte) (set *jws.KeySet, unused []error, err error) {
	set, unused, err = rules().ParseKeys(text)
	if err == nil && set.Len() == 0 {
		unused = append(unused, errors.New("has no RSA key for RS256 with a kid"))
		return nil, nil, unused[0]
	}
	return set, unused, err
}
