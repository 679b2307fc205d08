// Package passkey makes and checks the ceremonies of WebAuthn, with go-webauthn.
//
// It guarantees that an answer is accepted only for its own challenge, origin and host, that
// a credential's flags and counter are compared with those before, and that answers are
// bounded. It knows neither members nor the database, and does not keep challenges: callers
// must accept each once.
// https://www.w3.org/TR/webauthn-3/
package passkey

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// Time is how long a ceremony may take.
const Time = 5 * time.Minute

// MaxAnswer is the limit of an answer, in bytes. Attestations have certificates, which are not
// asked for.
const MaxAnswer = 32 << 10

// handleSize is the length of a member's random name at authenticators, in bytes: the most
// that the standard allows.
const handleSize = 64

// Site is where the gateway's pages are.
type Site struct {
	Host   string // without a port: the RP ID
	Origin string
}

// Key is a credential of an authenticator.
type Key struct {
	ID, PublicKey []byte
	Handle        []byte // of its member
	Flags         byte   // of the authenticator, all of them, at the last use
	UserVerified  bool   // has verified its user, together with another factor or at registration
	SignCount     uint32
	AAGUID        []byte
	Attachment    string
	Transports    []string
	Attestation   string // format
}

// IsBackupEligible reports whether the key may be on several devices.
func (k *Key) IsBackupEligible() bool {
	return protocol.AuthenticatorFlags(k.Flags).HasBackupEligible()
}

// IsBackedUp reports whether the key was on several devices at its last use.
func (k *Key) IsBackedUp() bool { return protocol.AuthenticatorFlags(k.Flags).HasBackupState() }

// Ceremony is what must be kept between a challenge and its answer.
type Ceremony struct {
	Challenge string `json:"challenge"`
	Host      string `json:"host"`
	Origin    string `json:"origin"`
	Handle    []byte `json:"handle,omitempty"`   // of the member who registers
	Verified  bool   `json:"verified,omitempty"` // the authenticator must verify its user
}

// Member is who registers a key.
type Member struct {
	Handle []byte // from [NewHandle], the same for all keys of the member
	Name   string
	Keys   []Key // that the member has
}

// NewHandle returns a new random name of a member.
func NewHandle() []byte {
	b := make([]byte, handleSize)
	rand.Read(b) // never fails: crypto/rand aborts the program instead
	return b
}

// Refusal is an error of an answer. Its text says which check failed, and has no values.
type Refusal struct{ text string }

// Error implements error.
func (r *Refusal) Error() string { return r.text }

func refuse(err error) error {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return &Refusal{fmt.Sprintf("%.300s", e.Details)}
	}
	return &Refusal{"the answer is not one of an authenticator"}
}

// user is a member in the form of the library.
type user struct{ Member }

func (u user) WebAuthnID() []byte          { return u.Handle }
func (u user) WebAuthnName() string        { return u.Name }
func (u user) WebAuthnDisplayName() string { return u.Name }

func (u user) WebAuthnCredentials() []webauthn.Credential {
	list := make([]webauthn.Credential, len(u.Keys))
	for i := range u.Keys {
		list[i] = u.Keys[i].credential()
	}
	return list
}

func (k *Key) credential() webauthn.Credential {
	c := webauthn.Credential{
		ID: k.ID, PublicKey: k.PublicKey, AttestationFormat: k.Attestation,
		Flags: webauthn.NewCredentialFlags(protocol.AuthenticatorFlags(k.Flags)),
		Authenticator: webauthn.Authenticator{
			AAGUID: k.AAGUID, SignCount: k.SignCount, Attachment: protocol.AuthenticatorAttachment(k.Attachment),
		},
	}
	c.Flags.UserVerified = k.UserVerified
	for _, t := range k.Transports {
		c.Transport = append(c.Transport, protocol.AuthenticatorTransport(t))
	}
	return c
}

func open(s Site) (*webauthn.WebAuthn, error) {
	return webauthn.New(&webauthn.Config{
		RPID: s.Host, RPDisplayName: s.Host, RPOrigins: []string{s.Origin}, AttestationPreference: protocol.PreferNoAttestation,
		Timeouts: webauthn.TimeoutsConfig{
			Login: webauthn.TimeoutConfig{Timeout: Time, TimeoutUVD: Time}, Registration: webauthn.TimeoutConfig{Timeout: Time, TimeoutUVD: Time},
		},
		// Extensions are not used, so what they say means nothing here.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
}

// Register begins to register a key of a member, who must not be zero, and returns the
// options for the browser.
func Register(s Site, m Member) (options json.RawMessage, c Ceremony, err error) {
	w, err := open(s)
	if err != nil {
		return nil, c, err
	}
	begun, session, err := w.BeginRegistration(user{m},
		webauthn.WithAuthenticatorSelection(protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationPreferred,
		}), webauthn.WithExclusions(webauthn.Credentials(user{m}.WebAuthnCredentials()).CredentialDescriptors()))
	if err != nil {
		return nil, c, err
	}
	options, err = json.Marshal(begun.Response)
	return options, Ceremony{Challenge: session.Challenge, Host: s.Host, Origin: s.Origin, Handle: m.Handle}, err
}

// Registered returns the key in the answer to a ceremony of [Register]. Other errors than a
// *Refusal are of the site.
func Registered(c Ceremony, answer []byte) (Key, error) {
	parsed, err := ParseAttestation(answer)
	if err != nil {
		return Key{}, err
	}
	w, err := open(Site{c.Host, c.Origin})
	if err != nil {
		return Key{}, err
	}
	made, err := w.CreateCredential(user{Member{Handle: c.Handle}}, webauthn.SessionData{
		Challenge: c.Challenge, RelyingPartyID: c.Host, UserID: c.Handle, CredParams: webauthn.CredentialParametersDefault(),
		UserVerification: protocol.VerificationPreferred,
	}, parsed)
	if err != nil {
		return Key{}, refuse(err)
	}
	k := Key{
		ID: made.ID, PublicKey: made.PublicKey, Handle: c.Handle,
		Flags: byte(made.Flags.ProtocolValue()), UserVerified: made.Flags.UserVerified,
		SignCount: made.Authenticator.SignCount, AAGUID: made.Authenticator.AAGUID, Attachment: string(made.Authenticator.Attachment),
		Attestation: made.AttestationFormat,
	}
	for _, t := range made.Transport {
		if text := string(t); len(text) <= 32 && len(k.Transports) < 10 && !slices.Contains(k.Transports, text) {
			k.Transports = append(k.Transports, text)
		}
	}
	return k, nil
}

// Ask begins to ask for one of these keys, or for whichever one the authenticator has if there
// are none; it must verify its user then.
func Ask(s Site, keys []Key) (options json.RawMessage, c Ceremony, err error) {
	w, err := open(s)
	if err != nil {
		return nil, c, err
	}
	var begun *protocol.CredentialAssertion
	var session *webauthn.SessionData
	c = Ceremony{Host: s.Host, Origin: s.Origin, Verified: len(keys) == 0}
	if c.Verified {
		begun, session, err = w.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	} else {
		m := user{Member{Handle: keys[0].Handle, Keys: keys}}
		begun, session, err = w.BeginLogin(m, webauthn.WithUserVerification(protocol.VerificationPreferred))
	}
	if err != nil {
		return nil, c, err
	}
	c.Challenge = session.Challenge
	options, err = json.Marshal(begun.Response)
	return options, c, err
}

// Use is a use of a key that was verified.
type Use struct {
	Key    Key  // as it is now
	Cloned bool // the counter did not rise: another copy of the key was used
}

// Answered checks the answer to a ceremony of [Ask]. Find returns the key with an id; its
// errors are returned as they are. Trusted means that another factor was proved too, which
// lets a key learn that it verifies its user.
func Answered(c Ceremony, answer []byte, trusted bool, find func(id []byte) (Key, error)) (Use, error) {
	parsed, err := ParseAssertion(answer)
	if err != nil {
		return Use{}, err
	}
	k, err := find(parsed.RawID)
	if err != nil {
		return Use{}, err
	}
	if c.Verified && len(parsed.Response.UserHandle) == 0 {
		return Use{}, &Refusal{"the answer names no member"}
	}
	if c.Verified && !k.UserVerified {
		return Use{}, &Refusal{"the passkey did not verify its user when it was added"}
	}
	w, err := open(Site{c.Host, c.Origin})
	if err != nil {
		return Use{}, err
	}
	verification := protocol.VerificationPreferred
	if c.Verified {
		verification = protocol.VerificationRequired
	}
	now, err := w.ValidateLogin(user{Member{Handle: k.Handle, Keys: []Key{k}}}, webauthn.SessionData{
		Challenge: c.Challenge, RelyingPartyID: c.Host, UserID: k.Handle, AllowedCredentialIDs: [][]byte{k.ID},
		UserVerification: verification, AuthorizeUVInitialization: trusted,
	}, parsed)
	if err != nil {
		return Use{}, refuse(err)
	}
	k.Flags, k.UserVerified = byte(parsed.Response.AuthenticatorData.Flags), now.Flags.UserVerified
	k.SignCount = now.Authenticator.SignCount
	return Use{k, now.Authenticator.CloneWarning}, nil
}

// ParseAttestation parses the answer of an authenticator that made a key, without verifying
// it.
func ParseAttestation(answer []byte) (*protocol.ParsedCredentialCreationData, error) {
	if len(answer) > MaxAnswer {
		return nil, &Refusal{"the answer is too long"}
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return nil, refuse(err)
	}
	return parsed, nil
}

// ParseAssertion parses the answer of an authenticator that used a key, without verifying it.
func ParseAssertion(answer []byte) (*protocol.ParsedCredentialAssertionData, error) {
	if len(answer) > MaxAnswer {
		return nil, &Refusal{"the answer is too long"}
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return nil, refuse(err)
	}
	return parsed, nil
}
