package passkey_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"modelgate/internal/identity/passkey"
	"modelgate/internal/testing/passkeytest"
)

var site = passkey.Site{Host: "gateway.example.com", Origin: "https://gateway.example.com"}

func authenticator(t testing.TB) *passkeytest.Authenticator {
	return passkeytest.New(t, site.Host, site.Origin)
}

// register registers a's key.
func register(t *testing.T, a *passkeytest.Authenticator) passkey.Key {
	t.Helper()
	options, c, err := passkey.Register(site, passkey.Member{Handle: passkey.NewHandle(), Name: "ada@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := passkey.Registered(c, []byte(a.Create(options)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ask asks for any key, or for those given, and returns the options and the ceremony.
func ask(t *testing.T, keys ...passkey.Key) (json.RawMessage, passkey.Ceremony) {
	t.Helper()
	options, c, err := passkey.Ask(site, keys)
	if err != nil {
		t.Fatal(err)
	}
	return options, c
}

func finder(k passkey.Key) func([]byte) (passkey.Key, error) {
	return func([]byte) (passkey.Key, error) { return k, nil }
}

func TestRegistrationsAskForWhatTheStandardHas(t *testing.T) {
	a := authenticator(t)
	a.Flags |= passkeytest.BackupEligible | passkeytest.BackupState
	k := register(t, a)
	options, _, err := passkey.Register(site, passkey.Member{Handle: k.Handle, Name: "ada@example.com", Keys: []passkey.Key{k}})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"rp":{"name":"gateway.example.com","id":"gateway.example.com"}`, `"residentKey":"preferred"`, `"userVerification":"preferred"`,
		`"timeout":300000`, `"attestation":"none"`, `"excludeCredentials":[{"type":"public-key"`,
	} {
		if !strings.Contains(string(options), part) {
			t.Errorf("the options have no %s: %s", part, options)
		}
	}
	if len(k.Handle) != 64 || !k.UserVerified || !k.IsBackupEligible() || !k.IsBackedUp() || k.SignCount != 1 || len(k.AAGUID) != 16 ||
		strings.Join(k.Transports, " ") != "internal hybrid" {
		t.Errorf("the key %+v", k)
	}
}

func TestAnswersAreRefusedUnlessEverythingIsAsItWas(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*passkeytest.Authenticator, *passkey.Ceremony, *passkey.Key)
		ok     bool
	}{
		{"nothing", func(*passkeytest.Authenticator, *passkey.Ceremony, *passkey.Key) {}, true},
		{"another origin", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Origin = "https://evil.example"
		}, false},
		{"another port", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) { a.Origin += ":8443" }, false},
		{"without TLS", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Origin = "http://gateway.example.com"
		}, false},
		{"a host below", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Host = "a.gateway.example.com"
		}, false},
		{"the host above", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) { a.Host = "example.com" }, false},
		{"another challenge", func(_ *passkeytest.Authenticator, c *passkey.Ceremony, _ *passkey.Key) {
			c.Challenge = strings.Repeat("A", len(c.Challenge))
		}, false},
		{"an unverified user", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Flags &^= passkeytest.UserVerified
		}, false},
		{"an absent user", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Flags &^= passkeytest.UserPresent
		}, false},
		{"a key that never verified its user", func(_ *passkeytest.Authenticator, _ *passkey.Ceremony, k *passkey.Key) { k.UserVerified = false }, false},
		{"another backup eligibility", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Flags |= passkeytest.BackupEligible
		}, false},
		{"backed up and not eligible", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Flags |= passkeytest.BackupState
		}, false},
		{"another member", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) {
			a.Handle = passkey.NewHandle()
		}, false},
		{"no member", func(a *passkeytest.Authenticator, _ *passkey.Ceremony, _ *passkey.Key) { a.Handle = nil }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := authenticator(t)
			k := register(t, a)
			options, c := ask(t)
			tt.change(a, &c, &k)
			use, err := passkey.Answered(c, []byte(a.Get(options)), false, finder(k))
			if _, refused := errors.AsType[*passkey.Refusal](err); refused == tt.ok || tt.ok && (err != nil || use.Cloned || use.Key.SignCount != 2) {
				t.Errorf("Answered = %+v, %v", use, err)
			}
		})
	}
}

func TestAnotherKeysSignatureIsRefused(t *testing.T) {
	a, other := authenticator(t), authenticator(t)
	k := register(t, a)
	options, c := ask(t)
	other.ID, other.Handle, other.Count = a.ID, a.Handle, 9
	if _, err := passkey.Answered(c, []byte(other.Get(options)), false, finder(k)); err == nil {
		t.Error("the signature of another key was accepted")
	}
}

func TestACounterThatDoesNotRiseIsACopy(t *testing.T) {
	for _, tt := range []struct {
		name          string
		stored, given uint32
		cloned        bool
	}{
		{"it rises", 4, 5, false},
		{"it leaps", 4, 400, false},
		{"it stays", 4, 4, true},
		{"it falls", 4, 3, true},
		{"it became zero", 4, 0, true},
		{"there is none", 0, 0, false},
		{"it began", 0, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := authenticator(t)
			k := register(t, a)
			options, c := ask(t)
			k.SignCount, a.Count = tt.stored, tt.given
			use, err := passkey.Answered(c, []byte(a.Get(options)), false, finder(k))
			if err != nil || use.Cloned != tt.cloned {
				t.Errorf("Answered = %+v, %v", use, err)
			}
		})
	}
}

// TestAKeyLearnsToVerifyItsUserWithAnotherFactorOnly: whoever found a key without a PIN must
// not become able to sign in with only that.
func TestAKeyLearnsToVerifyItsUserWithAnotherFactorOnly(t *testing.T) {
	a := authenticator(t)
	a.Flags = passkeytest.UserPresent
	k := register(t, a)
	if k.UserVerified {
		t.Fatal("the key verified its user")
	}
	a.Flags |= passkeytest.UserVerified
	for _, trusted := range []bool{false, true} {
		options, c := ask(t, k)
		use, err := passkey.Answered(c, []byte(a.Get(options)), trusted, finder(k))
		if err != nil || use.Key.UserVerified != trusted {
			t.Errorf("trusted %t: %+v, %v", trusted, use.Key, err)
		}
	}
}

func TestLongAnswersAreRefusedUnread(t *testing.T) {
	long := []byte(`{"id":"` + strings.Repeat("A", passkey.MaxAnswer) + `"}`)
	if _, err := passkey.ParseAssertion(long); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("ParseAssertion: %v", err)
	}
	if _, err := passkey.ParseAttestation(long); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("ParseAttestation: %v", err)
	}
}

// FuzzAttestation reads answers of authenticators that make keys, whatever they are.
func FuzzAttestation(f *testing.F) {
	a := authenticator(f)
	options, c, err := passkey.Register(site, passkey.Member{Handle: passkey.NewHandle(), Name: "ada@example.com"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(a.Create(options)))
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","attestationObject":"oA"}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		k, err := passkey.Registered(c, answer)
		if _, refused := errors.AsType[*passkey.Refusal](err); err != nil && !refused {
			t.Errorf("an error other than a refusal: %v", err)
		}
		if err == nil && (len(k.ID) == 0 || len(k.ID) > 1023 || len(k.PublicKey) == 0 || len(k.Transports) > 10) {
			t.Errorf("the key %+v", k)
		}
	})
}

// FuzzAssertion reads answers of authenticators that use keys, whatever they are.
func FuzzAssertion(f *testing.F) {
	a := authenticator(f)
	a.Handle = passkey.NewHandle()
	options, c, err := passkey.Ask(site, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(a.Get(options)))
	f.Add([]byte(`{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"AA","signature":"AA"}}`))
	f.Add([]byte(`{}`))
	other := passkey.Key{ID: a.ID, Handle: a.Handle, UserVerified: true, PublicKey: []byte{0xa0}} // never the one that signs
	f.Fuzz(func(t *testing.T, answer []byte) {
		_, err := passkey.Answered(c, answer, false, finder(other))
		if _, refused := errors.AsType[*passkey.Refusal](err); !refused {
			t.Errorf("an answer was not refused: %v", err)
		}
	})
}
