package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"modelgate/internal/base/secret"
)

// maxSigned is the maximum length of a signed key, in bytes.
const maxSigned = 8 << 10

// newNonce returns a random text that makes two signed keys differ.
func newNonce() string {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	return hex.EncodeToString(nonce[:])
}

// newSigned returns a key with a prefix that says what v says.
func newSigned(prefix string, signing secret.String, v any) (secret.String, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return secret.String{}, err
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	return secret.New(prefix + payload + "." + base64.RawURLEncoding.EncodeToString(signature(prefix, signing, payload))), nil
}

// parseSigned decodes what a key says into v, and reports whether it has the prefix and is
// signed with the secret that signing returns, which may read v.
func parseSigned(prefix, key string, v any, signing func() (secret.String, bool)) bool {
	rest, isKey := strings.CutPrefix(key, prefix)
	payload, mac, isSigned := strings.Cut(rest, ".")
	if !isKey || !isSigned || len(key) > maxSigned {
		return false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil || json.Unmarshal(text, v) != nil {
		return false
	}
	sum, err := base64.RawURLEncoding.Strict().DecodeString(mac)
	if err != nil {
		return false
	}
	s, ok := signing()
	return ok && !s.Empty() && hmac.Equal(sum, signature(prefix, s, payload))
}

// signature returns the signature of a payload. Keys with another prefix have another.
func signature(prefix string, signing secret.String, payload string) []byte {
	h := hmac.New(sha256.New, []byte(signing.Reveal()))
	h.Write([]byte(prefix))
	h.Write([]byte(payload))
	return h.Sum(nil)
}
