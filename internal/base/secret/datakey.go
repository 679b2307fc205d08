package secret

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	wrappedPrefix = "wrapped:v1:"
	valuePrefix   = "sealed:v2:"
)

// ErrWrongDataKey is returned for a value that was sealed for another
// organisation, with a data key that is gone, or was altered.
var ErrWrongDataKey = errors.New("the sealed value does not open with the data key of its organisation")

// DataKey seals the values of one organisation: AES-256-GCM with a random
// nonce, bound to the organisation. It is kept wrapped by a master key, so that
// a new master key leaves the values as they are. It is safe for concurrent use.
type DataKey struct {
	aead         cipher.AEAD
	signing      [sha256.Size]byte // key of Sign
	messages     [sha256.Size]byte // key that those of messages derive from
	organisation string
}

// NewDataKey makes the data key of an organisation and returns it wrapped.
func (b *Box) NewDataKey(organisation string) (wrapped string) {
	key := make([]byte, 32)
	rand.Read(key) // never fails: crypto/rand ends the program instead
	return b.wrap(organisation, key)
}

func (b *Box) wrap(organisation string, key []byte) string {
	return seal(b.aead, wrappedPrefix, string(key), "data key of "+organisation)
}

// unwrap also reports whether it took a previous master key.
func (b *Box) unwrap(organisation, wrapped string) (key []byte, previous bool, err error) {
	raw, err := unpack(b.aead, wrappedPrefix, wrapped)
	if err == nil {
		key, previous, err = b.open(raw, "data key of "+organisation)
	}
	if err != nil {
		return nil, false, fmt.Errorf("the data key of organisation %s: %w", organisation, err)
	}
	return key, previous, nil
}

// DataKey unwraps the data key of an organisation. The error is ErrWrongKey, or
// says that the text is malformed.
func (b *Box) DataKey(organisation, wrapped string) (*DataKey, error) {
	key, _, err := b.unwrap(organisation, wrapped)
	if err != nil {
		return nil, err
	}
	aead, err := newCipher(key)
	if err != nil {
		return nil, fmt.Errorf("the data key of organisation %s: %w", organisation, err)
	}
	signing := sha256.Sum256(append([]byte("modelgate signing key v1\x00"), key...))
	messages := sha256.Sum256(append([]byte("modelgate message key v1\x00"), key...))
	return &DataKey{aead, signing, messages, organisation}, nil
}

// Rewrap returns the same data key wrapped by the master key. One that is
// already comes back as it is. Errors are those of DataKey.
func (b *Box) Rewrap(organisation, wrapped string) (string, error) {
	key, previous, err := b.unwrap(organisation, wrapped)
	if err != nil {
		return "", err
	}
	if !previous {
		return wrapped, nil
	}
	return b.wrap(organisation, key), nil
}

// Seal returns s as a string that only this data key opens.
func (k *DataKey) Seal(s String) string {
	return seal(k.aead, valuePrefix, s.value, "value of "+k.organisation)
}

// Open returns what was sealed. The error is ErrWrongDataKey, or says that the
// text is malformed; it never holds the text.
func (k *DataKey) Open(text string) (String, error) {
	raw, err := unpack(k.aead, valuePrefix, text)
	if err != nil {
		return String{}, err
	}
	plain, err := open(k.aead, raw, "value of "+k.organisation)
	if err != nil {
		return String{}, ErrWrongDataKey
	}
	return String{string(plain)}, nil
}

// Sign returns the code (HMAC-SHA256) of a text, which only the same data key
// makes. Each kind of text must begin with a name of its own.
func (k *DataKey) Sign(text string) string {
	code := hmac.New(sha256.New, k.signing[:])
	fmt.Fprintf(code, "%d:%s%s", len(k.organisation), k.organisation, text)
	return hex.EncodeToString(code.Sum(nil))
}

// Verify reports whether a signature is the one that Sign returns for a text.
func (k *DataKey) Verify(text, signature string) bool {
	return hmac.Equal([]byte(k.Sign(text)), []byte(signature))
}

// SealedByDataKey reports whether text is in the form that DataKey.Seal returns.
func SealedByDataKey(text string) bool { return strings.HasPrefix(text, valuePrefix) }

// messageSalt is the length in bytes of the salt of a message.
const messageSalt = 32

// SealMessage returns plain sealed, as bytes that only OpenMessage with the same
// bound opens. Each message has a key of its own, derived from the data key and a
// random salt, so that any number of messages may be sealed.
func (k *DataKey) SealMessage(plain []byte, bound string) []byte {
	salt := make([]byte, messageSalt, messageSalt+len(plain)+16)
	rand.Read(salt) // never fails: crypto/rand ends the program instead
	aead := k.messageCipher(salt)
	return aead.Seal(salt, make([]byte, aead.NonceSize()), plain, []byte("message of "+k.organisation+"\x00"+bound))
}

// OpenMessage returns what SealMessage sealed. The error is ErrWrongDataKey.
func (k *DataKey) OpenMessage(sealed []byte, bound string) ([]byte, error) {
	if len(sealed) < messageSalt {
		return nil, ErrWrongDataKey
	}
	aead := k.messageCipher(sealed[:messageSalt])
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), sealed[messageSalt:], []byte("message of "+k.organisation+"\x00"+bound))
	if err != nil {
		return nil, ErrWrongDataKey
	}
	return plain, nil
}

// messageCipher returns the cipher of the message with a salt, which is used once:
// its nonce is zero.
func (k *DataKey) messageCipher(salt []byte) cipher.AEAD {
	code := hmac.New(sha256.New, k.messages[:])
	code.Write(salt)
	aead, err := newCipher(code.Sum(nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	return aead
}
