package totp_test

import (
	"encoding/base32"
	"net/url"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/totp"
)

// rfc is the secret of the vectors of RFC 6238, appendix B.
var rfc = secret.New(base32.StdEncoding.EncodeToString([]byte("12345678901234567890")))

func TestCodesAreThoseOfTheStandard(t *testing.T) {
	for at, want := range map[int64]string{ // the last six of eight digits
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got, err := totp.Code(rfc, time.Unix(at, 0)); err != nil || got != want {
			t.Errorf("Code at %d = %q, %v; want %q", at, got, err, want)
		}
	}
}

func TestACodeIsValidOneStepAroundItsOwnAndAfterTheLast(t *testing.T) {
	at := time.Unix(1111111111, 0)
	own := at.Unix() / 30
	code, err := totp.Code(rfc, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		code string
		off  time.Duration
		last int64
		want bool
	}{
		{"now", code, 0, 0, true},
		{"one step late", code, 30 * time.Second, 0, true},
		{"one step early", code, -30 * time.Second, 0, true},
		{"two steps late", code, 60 * time.Second, 0, false},
		{"two steps early", code, -60 * time.Second, 0, false},
		{"after an earlier code", code, 0, own - 1, true},
		{"again", code, 0, own, false},
		{"after a later code", code, 0, own + 1, false},
		{"no code", "", 0, 0, false},
		{"shorter", code[:5], 0, 0, false},
		{"longer", code + "0", 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := totp.Check(rfc, tt.code, at.Add(tt.off), tt.last)
			if err != nil || ok != tt.want || ok && got != own {
				t.Errorf("Check = %d, %t, %v; want %t", got, ok, err, tt.want)
			}
		})
	}
	if _, _, err := totp.Check(secret.New("no base32!"), code, at, 0); err == nil {
		t.Error("a malformed secret was accepted")
	}
}

func TestTheAddressForAppsNamesTheAccount(t *testing.T) {
	s := totp.NewSecret()
	u, err := url.Parse(totp.URI("gateway.example.com", "a b@example.com", s).Reveal())
	if err != nil || u.Scheme != "otpauth" || u.Host != "totp" || u.Path != "/gateway.example.com:a b@example.com" {
		t.Fatalf("URI = %v, %v", u, err)
	}
	if q := u.Query(); q.Get("secret") != s.Reveal() || q.Get("issuer") != "gateway.example.com" || len(s.Reveal()) != 32 {
		t.Errorf("the query %v", q)
	}
}
