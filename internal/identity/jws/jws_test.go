package jws_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // of RS384 and others
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/identity/jws"
)

var all = jws.Rules{Algorithms: []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}}

// values is a JSON object.
type values map[string]any

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func object(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return encode(b)
}

// signers holds a key of each kind and curve.
var signers = sync.OnceValue(func() map[string]crypto.Signer {
	list := make(map[string]crypto.Signer)
	var err error
	if list["RSA"], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		panic(err)
	}
	for name, curve := range map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()} {
		if list[name], err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
			panic(err)
		}
	}
	_, list["Ed25519"], err = ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return list
})

// kinds are the keys that an algorithm is for.
var kinds = map[string]string{
	"RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
	"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519",
}

// sign returns a token that key signs as the algorithm wants (RFC 7518, section 3).
func sign(t testing.TB, key crypto.Signer, alg string, header values) string {
	t.Helper()
	head := values{"alg": alg, "kid": "one"}
	maps.Copy(head, header)
	text := object(head) + "." + object(values{"sub": "ada"})
	return text + "." + encode(signature(t, key, alg, text))
}

func signature(t testing.TB, key crypto.Signer, alg, text string) []byte {
	t.Helper()
	if _, ok := key.(ed25519.PrivateKey); ok {
		return ed25519.Sign(key.(ed25519.PrivateKey), []byte(text))
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[2:]]
	h := hash.New()
	h.Write([]byte(text))
	if key, ok := key.(*ecdsa.PrivateKey); ok {
		r, s, err := ecdsa.Sign(rand.Reader, key, h.Sum(nil))
		if err != nil {
			t.Fatal(err)
		}
		size := (key.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	}
	var how crypto.SignerOpts = hash
	if alg[:2] == "PS" {
		how = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	sum, err := key.Sign(rand.Reader, h.Sum(nil), how)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// public returns the public key as a JSON Web Key with the kid "one".
func public(t testing.TB, key crypto.Signer) values {
	t.Helper()
	switch key := key.Public().(type) {
	case *rsa.PublicKey:
		return values{"kty": "RSA", "kid": "one", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		size := len(point) / 2
		return values{"kty": "EC", "kid": "one", "crv": key.Params().Name, "x": encode(point[1 : 1+size]), "y": encode(point[1+size:])}
	case ed25519.PublicKey:
		return values{"kty": "OKP", "kid": "one", "crv": "Ed25519", "x": encode(key)}
	}
	t.Fatalf("a key of the type %T", key)
	return nil
}

func (v values) with(name string, value any) values {
	out := values{name: value}
	for n, w := range v {
		if n != name {
			out[n] = w
		}
	}
	return out
}

func keySet(t testing.TB, keys ...values) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mustKey(t testing.TB, v values) *jws.Key {
	t.Helper()
	set, unused, err := all.ParseKeys([]byte(keySet(t, v)))
	if err != nil || len(unused) > 0 || set.Find("one") == nil {
		t.Fatalf("ParseKeys(%v) = %v, %v, %v", v, set, unused, err)
	}
	return set.Find("one")
}

func TestAKeyVerifiesTheAlgorithmsOfItsKind(t *testing.T) {
	for kind, signer := range signers() {
		key, other := mustKey(t, public(t, signer)), signers()["RSA"]
		for _, alg := range all.Algorithms {
			by := signers()[kinds[alg]]
			token, err := all.Parse(sign(t, by, alg, nil))
			if err != nil || string(token.Claims) != `{"sub":"ada"}` || token.KeyID != "one" {
				t.Fatalf("%s: %+v, %v", alg, token, err)
			}
			if err := token.Verify(key); (err == nil) != (kinds[alg] == kind) {
				t.Errorf("%s by a key of %s: %v", alg, kind, err)
			}
		}
		if kind == "RSA" {
			continue
		}
		// What is signed with another key of the same name is not valid.
		forged, err := all.Parse(sign(t, other, "RS256", nil))
		if err != nil || forged.Verify(key) == nil {
			t.Errorf("a token of another key is valid by one of %s (%v)", kind, err)
		}
	}
}

// A curve is part of an algorithm: SHA-256 with P-521 is none.
func TestAnAlgorithmHasOneCurve(t *testing.T) {
	for alg, curve := range map[string]string{"ES256": "P-384", "ES384": "P-521", "ES512": "P-256"} {
		signer := signers()[curve]
		token, err := all.Parse(sign(t, signer, alg, nil))
		if err != nil {
			t.Fatal(err)
		}
		if token.Verify(mustKey(t, public(t, signer))) == nil {
			t.Errorf("%s by a key of %s is valid", alg, curve)
		}
	}
}

func TestAKeyIsForItsOwnAlgorithmAlone(t *testing.T) {
	signer := signers()["RSA"]
	key := mustKey(t, public(t, signer).with("alg", "RS256"))
	for alg, want := range map[string]bool{"RS256": true, "RS512": false, "PS256": false} {
		token, err := all.Parse(sign(t, signer, alg, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := token.Verify(key); (err == nil) != want {
			t.Errorf("%s by a key for RS256: %v", alg, err)
		}
	}
}

func TestTokensAreRead(t *testing.T) {
	signer := signers()["RSA"]
	good := sign(t, signer, "RS256", nil)
	body := good[:strings.LastIndexByte(good, '.')]
	hmacOf := func(secret string) string {
		text := object(values{"alg": "HS256", "kid": "one"}) + "." + object(values{})
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		return text + "." + encode(mac.Sum(nil))
	}
	rules := jws.Rules{Algorithms: []string{"RS256"}, NeedKeyID: true}
	for name, tt := range map[string]struct{ token, word string }{
		"good":              {good, ""},
		"two parts":         {body, "three parts"},
		"four parts":        {good + ".x", "three parts"},
		"none":              {object(values{"alg": "none", "kid": "one"}) + "." + object(values{}) + ".", "(alg)"},
		"a shared secret":   {hmacOf(keySet(t, public(t, signer))), "(alg)"},
		"another algorithm": {sign(t, signer, "PS256", nil), "(alg)"},
		"an algorithm that is a list": {
			encode([]byte(`{"alg":["RS256"],"kid":"one"}`)) + strings.TrimPrefix(good, strings.Split(good, ".")[0]), "(alg)",
		},
		"extensions":          {sign(t, signer, "RS256", values{"crit": []string{"b64"}, "b64": false}), "(crit)"},
		"a kid that is a 1":   {sign(t, signer, "RS256", values{"kid": 1}), "kid"},
		"a long kid":          {sign(t, signer, "RS256", values{"kid": strings.Repeat("k", 256)}), "kid"},
		"a kid with a NUL":    {sign(t, signer, "RS256", values{"kid": "a\x00"}), "kid"},
		"no kid":              {sign(t, signer, "RS256", values{"kid": ""}), "which key"},
		"no signature":        {body + ".", "signature"},
		"a padded signature":  {good + "=", "signature"},
		"claims in no base64": {strings.Split(good, ".")[0] + ".!." + strings.Split(good, ".")[2], "claims"},
		"a duplicate name":    {encode([]byte(`{"alg":"none","alg":"RS256"}`)) + ".e30.e30", "header"},
		"a header of text":    {encode([]byte(`"RS256"`)) + ".e30.e30", "header"},
	} {
		token, err := rules.Parse(tt.token)
		if got := err == nil; got != (tt.word == "") || err != nil && !strings.Contains(err.Error(), tt.word) {
			t.Errorf("%s: Parse() = %+v, %v; want %q", name, token, err, tt.word)
		}
	}
	if token, err := (jws.Rules{Algorithms: rules.Algorithms}).Parse(sign(t, signer, "RS256", values{"kid": ""})); err != nil || token.KeyID != "" {
		t.Errorf("without a kid, which is not needed: %+v, %v", token, err)
	}
}

func TestKeysThatCannotVerifyAreSkippedOrReported(t *testing.T) {
	ec, ed := public(t, signers()["P-256"]), public(t, signers()["Ed25519"])
	for name, tt := range map[string]struct {
		key  values
		keys int
		word string // of the error that reports it; empty for none
	}{
		"EC":                        {ec, 1, ""},
		"Ed25519":                   {ed, 1, ""},
		"without a kid":             {ec.with("kid", nil), 1, ""},
		"for another use":           {ec.with("use", "enc"), 0, ""},
		"for signing":               {ec.with("key_ops", []string{"sign"}), 0, ""},
		"for encryption by its alg": {ec.with("alg", "ECDH-ES"), 0, ""},
		"another curve":             {ec.with("crv", "secp256k1"), 0, ""},
		"another curve of Edwards":  {ed.with("crv", "Ed448"), 0, ""},
		"another kind":              {values{"kty": "AKP", "kid": "one"}, 0, ""},
		"certificates":              {ec.with("x5c", []string{"MII"}).with("x5t", "a"), 1, ""},
		"not on the curve":          {ec.with("y", ec["x"]), 0, `"P-256"`},
		"a short coordinate":        {ec.with("x", "AA"), 0, `"P-256"`},
		"without a coordinate":      {ec.with("y", nil), 0, `"P-256"`},
		"of too few bytes":          {ed.with("x", "AAAA"), 0, `"Ed25519"`},
		"a private key":             {ed.with("d", "AAAA"), 0, "private part"},
	} {
		set, unused, err := all.ParseKeys([]byte(keySet(t, tt.key)))
		if err != nil || set.Len() != tt.keys || (len(unused) > 0) != (tt.word != "") || !strings.Contains(fmt.Sprint(unused), tt.word) {
			t.Errorf("%s: ParseKeys() = %d keys, %v, %v; want %d and %q", name, set.Len(), unused, err, tt.keys, tt.word)
		}
	}
	set, unused, err := jws.Rules{Algorithms: []string{"RS256"}}.ParseKeys([]byte(keySet(t, ec, ed)))
	if err != nil || set.Len() != 0 || len(unused) != 0 {
		t.Errorf("other kinds than the rules allow: %d keys, %v, %v; want none", set.Len(), unused, err)
	}
	set, unused, err = all.ParseKeys([]byte(keySet(t, ec, ed)))
	if err != nil || set.Len() != 0 || len(unused) != 1 {
		t.Errorf("two keys with one kid: %d keys, %v, %v; want none", set.Len(), unused, err)
	}
}
