// Package passkeytest is an authenticator for tests, with the browser that it is in. It does
// what the standard says unless a test has it misbehave.
// https://www.w3.org/TR/webauthn-3/
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// Flags of authenticator data.
const (
	UserPresent    = 1 << 0
	UserVerified   = 1 << 2
	BackupEligible = 1 << 3
	BackupState    = 1 << 4
	attested       = 1 << 6
)

// Authenticator has one credential. Fields may be changed between its uses.
type Authenticator struct {
	Origin string // that the browser writes into its answers
	Host   string // RP ID for which it signs
	Flags  byte
	Count  uint32 // of the next signature; rises by itself unless it is zero

	ID     []byte
	Handle []byte

	t   testing.TB
	key *ecdsa.PrivateKey
}

// New returns an authenticator that verifies its user, in a browser at an origin.
func New(t testing.TB, host, origin string) *Authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 32)
	rand.Read(id)
	return &Authenticator{Origin: origin, Host: host, Flags: UserPresent | UserVerified, Count: 1, ID: id, t: t, key: key}
}

// sentOptions are those that the gateway sends to a browser.
type sentOptions struct {
	Challenge string `json:"challenge"`
	User      struct {
		ID string `json:"id"`
	} `json:"user"`
}

var encoding = base64.RawURLEncoding

func (a *Authenticator) clientData(kind, challenge string) []byte {
	a.t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": false})
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

// data returns the authenticator data, with the counter of a next signature.
func (a *Authenticator) data(flags byte) []byte {
	host := sha256.Sum256([]byte(a.Host))
	out := append(host[:], flags)
	out = binary.BigEndian.AppendUint32(out, a.Count)
	if a.Count > 0 {
		a.Count++
	}
	return out
}

func (a *Authenticator) encode(v any) []byte {
	a.t.Helper()
	out, err := webauthncbor.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

// Create answers the options of a registration.
func (a *Authenticator) Create(options json.RawMessage) string {
	a.t.Helper()
	o := a.read(options)
	handle, err := encoding.DecodeString(o.User.ID)
	if err != nil {
		a.t.Fatal(err)
	}
	a.Handle = handle
	public, err := a.key.PublicKey.Bytes()
	if err != nil {
		a.t.Fatal(err)
	}
	data := a.data(a.Flags | attested)
	data = append(data, make([]byte, 16)...) // AAGUID
	data = binary.BigEndian.AppendUint16(data, uint16(len(a.ID)))
	data = append(data, a.ID...)
	data = append(data, a.encode(map[int]any{1: 2, 3: -7, -1: 1, -2: public[1:33], -3: public[33:]})...)
	object := a.encode(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data})
	return a.answer(map[string]any{
		"clientDataJSON":    encoding.EncodeToString(a.clientData("webauthn.create", o.Challenge)),
		"attestationObject": encoding.EncodeToString(object),
		"transports":        []string{"internal", "hybrid"},
	})
}

// Get answers the options of a sign-in.
func (a *Authenticator) Get(options json.RawMessage) string {
	a.t.Helper()
	o := a.read(options)
	client, data := a.clientData("webauthn.get", o.Challenge), a.data(a.Flags)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(data, hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, sum[:])
	if err != nil {
		a.t.Fatal(err)
	}
	return a.answer(map[string]any{
		"clientDataJSON": encoding.EncodeToString(client), "authenticatorData": encoding.EncodeToString(data),
		"signature": encoding.EncodeToString(signature), "userHandle": encoding.EncodeToString(a.Handle),
	})
}

func (a *Authenticator) read(options json.RawMessage) (o sentOptions) {
	a.t.Helper()
	if err := json.Unmarshal(options, &o); err != nil || o.Challenge == "" {
		a.t.Fatalf("the options %s: %v", options, err)
	}
	return o
}

func (a *Authenticator) answer(response map[string]any) string {
	a.t.Helper()
	id := encoding.EncodeToString(a.ID)
	out, err := json.Marshal(map[string]any{
		"id": id, "rawId": id, "type": "public-key", "response": response, "clientExtensionResults": map[string]any{},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return string(out)
}
