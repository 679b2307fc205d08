package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// sealedPrefix begins every sealed text and names the form of the rest.
const sealedPrefix = "sealed:v1:"

// ErrWrongKey is returned for a text that was sealed with another master key
// or was altered.
var ErrWrongKey = errors.New("the sealed value does not open with this master key")

// Box seals credentials for storage with a master key: AES-256-GCM with a
// random nonce. It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// NewBox returns a box for a master key. The key is any text of at least 16
// bytes of real randomness, such as `openssl rand -base64 32` prints.
func NewBox(master String) (*Box, error) {
	if len(master.value) < 16 {
		return nil, errors.New("the master key must have at least 16 bytes; make one with: openssl rand -base64 32")
	}
	key := sha256.Sum256([]byte("modelgate master key v1\x00" + master.value))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead}, nil
}

// Seal returns s as a text that only a box with the same master key opens.
func (b *Box) Seal(s String) string {
	nonce := make([]byte, b.aead.NonceSize(), b.aead.NonceSize()+len(s.value)+b.aead.Overhead())
	rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(b.aead.Seal(nonce, nonce, []byte(s.value), nil))
}

// Sealed reports whether text is in the form that Seal returns.
func Sealed(text string) bool { return strings.HasPrefix(text, sealedPrefix) }

// Open returns what was sealed. The error is ErrWrongKey, or says that the
// text is malformed; it never holds the text.
func (b *Box) Open(text string) (String, error) {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimPrefix(text, sealedPrefix))
	if err != nil || !Sealed(text) || len(raw) < b.aead.NonceSize() {
		return String{}, fmt.Errorf("a sealed value has the form %s<base64>", sealedPrefix)
	}
	plain, err := b.aead.Open(nil, raw[:b.aead.NonceSize()], raw[b.aead.NonceSize():], nil)
	if err != nil {
		return String{}, ErrWrongKey
	}
	return String{string(plain)}, nil
}
