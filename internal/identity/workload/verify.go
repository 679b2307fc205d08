package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/jws"
)

// Limits of tokens.
const (
	MaxToken   = 16 << 10 // bytes
	maxClaims  = 200
	maxSubject = 255            // characters
	skew       = time.Minute    // tolerated between two clocks
	maxAge     = 24 * time.Hour // from iat to exp
)

// Refusal is why a token is not accepted. Reason is one word for the audit log.
type Refusal struct {
	Reason string
	Err    error
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of a refusal, and "internal" of other errors.
func ReasonOf(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return "internal"
}

// Request asks for the verification of a token.
type Request struct {
	Trust *Trust
	Token string
	Now   time.Time

	// Allow returns an error for an address that the organisation lets nothing be requested
	// from. Nil allows all.
	Allow func(*url.URL) error
}

// checkAllowed returns an error unless an address may be requested.
func (r *Request) checkAllowed(address string) error {
	if r.Allow == nil {
		return nil
	}
	u, err := url.Parse(address)
	if err == nil {
		err = r.Allow(u)
	}
	if err != nil {
		return &Refusal{"egress", err}
	}
	return nil
}

// Verify returns the subject (sub) of a token that is accepted. An error is a [Refusal] with
// its reason.
func (v *Verifier) Verify(ctx context.Context, r Request) (subject string, err error) {
	t, token, now := r.Trust, r.Token, r.Now
	if len(token) > MaxToken {
		return "", refuse("token", "the token is longer than %d bytes", MaxToken)
	}
	signed, err := t.rules().Parse(token)
	switch {
	case errors.Is(err, jws.ErrAlgorithm):
		return "", refuse("algorithm", "the token %s", err)
	case err != nil:
		return "", refuse("token", "the token %s", err)
	}
	claims, err := readClaims(signed.Claims)
	if err != nil {
		return "", err
	}
	// The issuer is compared before keys are fetched: tokens of others cause no requests.
	if iss, ok := scalar(claims["iss"]); t.Issuer != "" && (!ok || iss != t.Issuer) {
		return "", refuse("issuer", "the token is of the issuer %.200q, not %.200q", iss, t.Issuer)
	}
	key, err := v.find(ctx, &r, signed.KeyID)
	if err != nil {
		return "", err
	}
	if signed.Verify(key) != nil {
		return "", refuse("signature", "the signature does not match the key that the token names")
	}
	for _, check := range []func() error{
		func() error { return t.verifyAudience(claims["aud"]) },
		func() error { return checkTimes(claims, now) },
		func() error { return t.checkClaims(claims) },
	} {
		if err := check(); err != nil {
			return "", err
		}
	}
	subject, ok := scalar(claims["sub"])
	if !ok || subject == "" || len([]rune(subject)) > maxSubject || !isPlain(subject) {
		return "", refuse("subject", "the token has no subject (sub) of 1 to %d characters", maxSubject)
	}
	return subject, nil
}

// readClaims decodes claims. A duplicate name is an error, because readers disagree on
// which one counts.
func readClaims(text []byte) (map[string]json.RawMessage, error) {
	var doc jsonedit.Doc
	if doc.Scan(text) != nil || doc.Len() > maxClaims {
		return nil, refuse("token", "the token %s", jws.ErrClaims)
	}
	m := make(map[string]json.RawMessage, doc.Len())
	for name, value := range doc.Members() {
		m[name.String()] = value.Raw()
	}
	return m, nil
}

// verifyAudience returns an error for a token that was issued for others too, who could
// use it here.
func (t *Trust) verifyAudience(raw json.RawMessage) error {
	var list []string
	if one, ok := scalar(raw); ok {
		list = []string{one}
	} else if json.Unmarshal(raw, &list) != nil {
		list = nil
	}
	switch {
	case len(list) > 1:
		return refuse("audience", "the token has %d audiences; request one for %.200q alone", len(list), t.Audience)
	case len(list) == 0 || list[0] != t.Audience:
		return refuse("audience", "the audience of the token is %.200q, not %.200q", first(list), t.Audience)
	}
	return nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// checkTimes checks exp, nbf and iat (RFC 7519, section 4.1).
func checkTimes(claims map[string]json.RawMessage, now time.Time) error {
	var at [3]time.Time
	for i, name := range []string{"exp", "nbf", "iat"} {
		var err error
		if at[i], err = moment(name, claims[name]); err != nil {
			return err
		}
	}
	expires, notBefore, issued := at[0], at[1], at[2]
	since := issued
	if since.IsZero() {
		since = now
	}
	switch {
	case expires.IsZero():
		return refuse("expired", "the token does not say when it expires (exp)")
	case !now.Before(expires.Add(skew)):
		return refuse("expired", "the token expired at %s", expires.UTC().Format(time.RFC3339))
	case now.Add(skew).Before(notBefore):
		return refuse("not_before", "the token is not valid before %s", notBefore.UTC().Format(time.RFC3339))
	case now.Add(skew).Before(issued):
		return refuse("issued_at", "the token was issued in the future, at %s; compare the clocks", issued.UTC().Format(time.RFC3339))
	case expires.Sub(since) > maxAge:
		return refuse("lifetime", "the token is valid for more than %s; request one that expires sooner", maxAge)
	}
	return nil
}

// moment decodes a time in Unix seconds. An absent time is zero.
func moment(name string, raw json.RawMessage) (time.Time, error) {
	const last = 253402300799 // in the year 9999
	if raw == nil {
		return time.Time{}, nil
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil || seconds < 1 || seconds > last {
		return time.Time{}, refuse("token", "the claim %s is not a time in Unix seconds", name)
	}
	return time.Unix(int64(seconds), 0), nil
}
