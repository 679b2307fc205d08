package jwt

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strings"
)

// Limits of a JSON Web Key Set and its keys. Shorter keys can be forged, longer ones
// take too long to verify.
const (
	maxKeys    = 100
	minModulus = 2048 // bits
	maxModulus = 8192 // bits
)

// keys are the keys of an issuer by id. They are immutable.
type keys struct{ byID map[string]*rsa.PublicKey }

// same reports whether both have the same keys.
func (k *keys) same(other *keys) bool {
	return maps.EqualFunc(k.byID, other.byID, func(a, b *rsa.PublicKey) bool { return a.Equal(b) })
}

// CheckJWKS returns an error if a configured JSON Web Key Set has no key for RS256, or
// has one that cannot be used or contains a private part.
func CheckJWKS(text string) error {
	_, unused, err := parseKeys([]byte(text))
	if err == nil && len(unused) > 0 {
		err = unused[0]
	}
	return err
}

// parseKeys decodes the keys for RS256 of a JSON Web Key Set (RFC 7517). Keys for other
// uses are skipped; those that cannot be used are reported in unused. A set without any
// key is an error.
func parseKeys(text []byte) (k *keys, unused []error, err error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(text, &doc) != nil || doc.Keys == nil {
		return nil, nil, errors.New(`is not a JSON Web Key Set: an object with an array of "keys"`)
	}
	if len(doc.Keys) > maxKeys {
		return nil, nil, fmt.Errorf("has more than %d keys", maxKeys)
	}
	k = &keys{make(map[string]*rsa.PublicKey)}
	twice := make(map[string]bool)
	for i, raw := range doc.Keys {
		kid, key, err := parseKey(raw)
		if err == nil && key != nil && k.byID[kid] != nil && !k.byID[kid].Equal(key) {
			twice[kid], err = true, errors.New("has the kid of another key")
		}
		if err != nil {
			unused = append(unused, fmt.Errorf("keys[%d] %w", i, err))
		} else if key != nil {
			k.byID[kid] = key
		}
	}
	for kid := range twice { // an ambiguous id is not usable
		delete(k.byID, kid)
	}
	if len(k.byID) == 0 {
		unused = append(unused, errors.New("has no RSA key for RS256 with a kid"))
		return nil, nil, unused[0]
	}
	return k, unused, nil
}

// jwk is a key of a set (RFC 7518, section 6.3).
type jwk struct {
	Type      string   `json:"kty"`
	Use       string   `json:"use"`
	Uses      []string `json:"key_ops"`
	Algorithm string   `json:"alg"`
	ID        string   `json:"kid"`
	Modulus   string   `json:"n"`
	Exponent  string   `json:"e"`
}

// secretParts are the private members of keys.
var secretParts = [...]string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// parseKey decodes one key. It returns nil for a key of another kind or use.
func parseKey(raw []byte) (kid string, key *rsa.PublicKey, err error) {
	var j jwk
	var all members
	if json.Unmarshal(raw, &j) != nil || json.Unmarshal(raw, &all) != nil {
		return "", nil, errors.New("is not a JSON Web Key")
	}
	for _, name := range secretParts {
		if all[name] != nil {
			return "", nil, errors.New("contains a private part; give only the public key")
		}
	}
	if j.Type != "RSA" || j.Use != "" && j.Use != "sig" || j.Algorithm != "" && j.Algorithm != "RS256" || !j.verifies() {
		return "", nil, nil
	}
	if j.ID == "" || !plain(j.ID) {
		return "", nil, errors.New("has no kid of 1 to 255 characters")
	}
	key, err = j.public()
	return j.ID, key, err
}

// verifies reports whether the key may be used to verify signatures.
func (j *jwk) verifies() bool {
	for _, use := range j.Uses {
		if use == "verify" {
			return true
		}
	}
	return j.Uses == nil
}

func (j *jwk) public() (*rsa.PublicKey, error) {
	n, err := decode(strings.TrimRight(j.Modulus, "="))
	if err != nil {
		return nil, errors.New("has a modulus (n) that is not base64url")
	}
	e, err := decode(strings.TrimRight(j.Exponent, "="))
	if err != nil {
		return nil, errors.New("has an exponent (e) that is not base64url")
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if bits := modulus.BitLen(); bits < minModulus || bits > maxModulus {
		return nil, fmt.Errorf("has %d bits; must have %d to %d", bits, minModulus, maxModulus)
	}
	if modulus.Bit(0) == 0 || exponent.BitLen() > 31 || exponent.BitLen() < 2 || exponent.Bit(0) == 0 {
		return nil, errors.New("is not an RSA key")
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}
