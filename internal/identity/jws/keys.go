package jws

import (
	"cmp"
	"crypto"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Limits of a JSON Web Key Set and its RSA keys. Shorter keys can be forged, longer ones
// take too long to verify.
const (
	maxKeys    = 100
	minModulus = 2048 // bits
	maxModulus = 8192 // bits
)

// Key is a public key.
type Key struct {
	public    publicKey
	algorithm string // the one that it is for; empty for all of its kind
}

// publicKey is what the public keys of the standard library have in common.
type publicKey interface{ Equal(crypto.PublicKey) bool }

func (k *Key) equal(other *Key) bool {
	return k.algorithm == other.algorithm && k.public.Equal(other.public)
}

// KeySet holds the keys of an issuer by their kid. It is immutable; nil has no keys.
type KeySet struct{ byID map[string]*Key }

// Find returns the key with this kid, or nil.
func (s *KeySet) Find(kid string) *Key {
	if s == nil {
		return nil
	}
	return s.byID[kid]
}

// Len returns the number of keys.
func (s *KeySet) Len() int { return len(s.byID) }

// Equal reports whether both sets have the same keys.
func (s *KeySet) Equal(other *KeySet) bool { return maps.EqualFunc(s.byID, other.byID, (*Key).equal) }

// ParseKeys decodes the keys of a JSON Web Key Set (RFC 7517) that the rules allow. Keys
// for other uses are skipped; those that cannot be used are reported in unused, and two
// keys with the same kid cannot. The set may be empty.
func (r Rules) ParseKeys(text []byte) (set *KeySet, unused []error, err error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(text, &doc) != nil || doc.Keys == nil {
		return nil, nil, errors.New(`is not a JSON Web Key Set: an object with an array of "keys"`)
	}
	if len(doc.Keys) > maxKeys {
		return nil, nil, fmt.Errorf("has more than %d keys", maxKeys)
	}
	set = &KeySet{make(map[string]*Key)}
	twice := make(map[string]bool)
	for i, raw := range doc.Keys {
		kid, key, err := r.parseKey(raw)
		if err == nil && key != nil && set.byID[kid] != nil && !set.byID[kid].equal(key) {
			twice[kid], err = true, errors.New("has the kid of another key")
		}
		if err != nil {
			unused = append(unused, fmt.Errorf("keys[%d] %w", i, err))
		} else if key != nil {
			set.byID[kid] = key
		}
	}
	for kid := range twice { // an ambiguous id is not usable
		delete(set.byID, kid)
	}
	return set, unused, nil
}

// jwk is a key of a set (RFC 7518, section 6; RFC 8037, section 2).
type jwk struct {
	Type      string   `json:"kty"`
	Use       string   `json:"use"`
	Uses      []string `json:"key_ops"`
	Algorithm string   `json:"alg"`
	ID        string   `json:"kid"`
	Modulus   string   `json:"n"`
	Exponent  string   `json:"e"`
	Curve     string   `json:"crv"`
	X         string   `json:"x"`
	Y         string   `json:"y"`
}

// parseKey decodes one key. It returns nil for a key of another kind or use.
func (r Rules) parseKey(raw []byte) (kid string, key *Key, err error) {
	var j jwk
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &j) != nil || json.Unmarshal(raw, &all) != nil {
		return "", nil, errors.New("is not a JSON Web Key")
	}
	for _, name := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		if all[name] != nil {
			return "", nil, errors.New("contains a private part; give only the public key")
		}
	}
	if !r.allows(&j) {
		return "", nil, nil
	}
	if j.ID == "" && r.NeedKeyID || !validID(j.ID) {
		return "", nil, errors.New("has no kid of 1 to 255 characters")
	}
	public, err := j.public()
	if public == nil || err != nil {
		return "", nil, err
	}
	return j.ID, &Key{public, j.Algorithm}, nil
}

// allows reports whether the key may verify signatures of an allowed algorithm.
func (r Rules) allows(j *jwk) bool {
	if j.Use != "" && j.Use != cmp.Or(r.Use, "sig") || j.Uses != nil && !slices.Contains(j.Uses, "verify") {
		return false
	}
	kinds := map[string]string{"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
	return slices.ContainsFunc(r.Algorithms, func(alg string) bool {
		return kinds[alg[:2]] == j.Type && (j.Algorithm == "" || j.Algorithm == alg)
	})
}

// public returns the key itself, nil for a curve that is not supported.
func (j *jwk) public() (publicKey, error) {
	if j.Type == "RSA" {
		return j.rsa()
	}
	// Without certificates: nothing else of us reads them.
	text, err := json.Marshal(map[string]string{"kty": j.Type, "crv": j.Curve, "x": j.X, "y": j.Y})
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	var key jose.JSONWebKey
	switch err := key.UnmarshalJSON(text); {
	case errors.Is(err, jose.ErrUnsupportedKeyType):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("is not a key of the curve %.20q", j.Curve)
	}
	public, _ := key.Key.(publicKey)
	return public, nil
}

// rsa decodes an RSA key, which the library does up to 4096 bits only.
func (j *jwk) rsa() (publicKey, error) {
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
