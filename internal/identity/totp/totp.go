// Package totp makes and checks one-time codes of apps (RFC 6238): SHA-1, six digits, steps
// of 30 seconds, which are what all apps understand.
//
// It guarantees that comparing takes the same time for every code. It does not store
// secrets, nor which codes were used; its callers do.
package totp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"time"

	"modelgate/internal/base/secret"
)

const (
	digits     = 6
	period     = 30
	skew       = 1  // steps that a clock may be off
	secretSize = 20 // bytes, as RFC 4226 recommends
)

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewSecret returns a new secret in the form that people can type into an app.
func NewSecret() secret.String {
	b := make([]byte, secretSize)
	rand.Read(b) // never fails: crypto/rand aborts the program instead
	return secret.New(encoding.EncodeToString(b))
}

// URI returns the address that an app reads from a QR code.
func URI(issuer, account string, s secret.String) secret.String {
	q := url.Values{
		"secret": {s.Reveal()}, "issuer": {issuer}, "algorithm": {"SHA1"}, "digits": {fmt.Sprint(digits)}, "period": {fmt.Sprint(period)},
	}
	u := url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + account, RawQuery: q.Encode()}
	return secret.New(u.String())
}

// Code returns the code of a secret at a time. A secret that NewSecret did not make is an
// error.
func Code(s secret.String, at time.Time) (string, error) {
	key, err := encoding.DecodeString(s.Reveal())
	if err != nil {
		return "", fmt.Errorf("a secret of one-time codes is malformed")
	}
	return code(key, step(at)), nil
}

// Check returns the time step of a code that is valid at now, and ok if it is one after the
// step last. A code works until its step is last.
func Check(s secret.String, given string, now time.Time, last int64) (at int64, ok bool, err error) {
	key, err := encoding.DecodeString(s.Reveal())
	if err != nil {
		return 0, false, fmt.Errorf("a secret of one-time codes is malformed")
	}
	for n := step(now) - skew; n <= step(now)+skew; n++ {
		if subtle.ConstantTimeCompare([]byte(code(key, n)), []byte(given)) == 1 && n > last {
			at, ok = n, true
		}
	}
	return at, ok, nil
}

func step(at time.Time) int64 { return at.Unix() / period }

// code returns the code of a step (RFC 4226, section 5.3).
func code(key []byte, n int64) string {
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	sum := mac.Sum(nil)
	word := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&0xf:]) & 0x7fffffff
	return fmt.Sprintf("%0*d", digits, word%1_000_000)
}
