package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// sealedPrefix begins every text that a box seals and names the form of the
// rest.
const sealedPrefix = "sealed:v1:"

// ErrWrongKey is returned for a text that was sealed with another master key
// or was altered.
var ErrWrongKey = errors.New("the sealed value does not open with this master key")

// Box seals credentials for storage with a master key: AES-256-GCM with a
// random nonce. It is safe for concurrent use.
type Box struct {
	aead     cipher.AEAD
	previous []cipher.AEAD
	nonces   [sha256.Size]byte // key of SealStably's nonces
}

// NewBox returns a box for a master key. The key is any text of at least 16
// bytes of real randomness, such as `openssl rand -base64 32` prints. Previous
// keys open what they sealed and seal nothing; empty ones are ignored.
func NewBox(master String, previous ...String) (*Box, error) {
	aead, err := masterCipher(master)
	if err != nil {
		return nil, err
	}
	b := &Box{aead: aead, nonces: sha256.Sum256([]byte("modelgate nonce key v1\x00" + master.value))}
	for _, p := range previous {
		if p.Empty() {
			continue
		}
		if aead, err = masterCipher(p); err != nil {
			return nil, fmt.Errorf("of the previous keys: %w", err)
		}
		b.previous = append(b.previous, aead)
	}
	return b, nil
}

func masterCipher(master String) (cipher.AEAD, error) {
	if len(master.value) < 16 {
		return nil, errors.New("the master key must have at least 16 bytes; make one with: openssl rand -base64 32")
	}
	key := sha256.Sum256([]byte("modelgate master key v1\x00" + master.value))
	return newCipher(key[:])
}

// newCipher returns AES-256-GCM for a key of 32 bytes.
func newCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal returns s as a string that only a box with the same master key opens.
func (b *Box) Seal(s String) string { return seal(b.aead, sealedPrefix, s.value, "") }

// SealDeterministic is [Box.Seal] with the same result each time for the same credential
// at the same place, so that two files can be compared. Anyone who sees both results
// learns whether the credentials are equal, and nothing else. The nonce derives from the
// sealed content (as in SIV), so that it is never reused for other content.
func (b *Box) SealDeterministic(place string, s String) string {
	code := hmac.New(sha256.New, b.nonces[:])
	fmt.Fprintf(code, "%d:%s%s", len(place), place, s.value)
	nonce := code.Sum(nil)[:b.aead.NonceSize():b.aead.NonceSize()]
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(b.aead.Seal(nonce, nonce, []byte(s.value), nil))
}

// IsSealed reports whether text is in the form that Seal returns.
func IsSealed(text string) bool { return strings.HasPrefix(text, sealedPrefix) }

// Open returns what was sealed. The error is ErrWrongKey, or says that the
// text is malformed; it never holds the text.
func (b *Box) Open(text string) (String, error) {
	raw, err := unpack(b.aead, sealedPrefix, text)
	if err != nil {
		return String{}, err
	}
	plain, _, err := b.open(raw, "")
	return String{string(plain)}, err
}

// open opens raw with the master key or else with a previous one.
func (b *Box) open(raw []byte, bound string) (plain []byte, previous bool, err error) {
	if plain, err = open(b.aead, raw, bound); err == nil {
		return plain, false, nil
	}
	for _, aead := range b.previous {
		if plain, err = open(aead, raw, bound); err == nil {
			return plain, true, nil
		}
	}
	return nil, false, err
}

// seal returns plain sealed behind prefix, bound to a text that opening needs.
func seal(aead cipher.AEAD, prefix, plain, bound string) string {
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return prefix + base64.RawStdEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(plain), []byte(bound)))
}

// unpack returns the bytes that seal wrote behind prefix.
func unpack(aead cipher.AEAD, prefix, text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	raw, err := base64.RawStdEncoding.DecodeString(rest)
	if !ok || err != nil || len(raw) < aead.NonceSize() {
		return nil, fmt.Errorf("a sealed value has the form %s<base64>", prefix)
	}
	return raw, nil
}

func open(aead cipher.AEAD, raw []byte, bound string) ([]byte, error) {
	n := aead.NonceSize()
	plain, err := aead.Open(nil, raw[:n], raw[n:], []byte(bound))
	if err != nil {
		return nil, ErrWrongKey
	}
	return plain, nil
}
