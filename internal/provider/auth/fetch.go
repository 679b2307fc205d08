package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
)

const (
	maxResponse = 1 << 20
	// longest is the timeout of one request to a token endpoint; the context
	// may end earlier.
	longest = 30 * time.Second
)

// tokenRequest is a request to a token endpoint.
type tokenRequest struct {
	method, url string
	header      map[string]string
	body        string
	guarded     bool                      // the address is from a credential
	sign        func(*http.Request) error // optional
}

// form returns a request with a form as its body.
func form(address string, values url.Values) tokenRequest {
	return tokenRequest{method: http.MethodPost, url: address, body: values.Encode(),
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}}
}

// do returns the body of a successful response. Error texts are the gateway's
// own: a response may contain what was sent.
func (s *Signer) do(ctx context.Context, q tokenRequest) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, q.method, q.url, strings.NewReader(q.body))
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "the address of the token endpoint is malformed").WithCode("credential_malformed")
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	if q.body == "" {
		req.Body, req.GetBody = http.NoBody, nil
	}
	if q.sign != nil {
		if err := q.sign(req); err != nil {
			return nil, err
		}
	}
	res, err := s.Client.Do(req, q.guarded)
	if err != nil {
		return nil, connectionError(ctx, req, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return nil, connectionError(ctx, req, err)
	}
	return body, responseError(req, res.StatusCode, body)
}

func connectionError(ctx context.Context, req *http.Request, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the token endpoint %s: %w", req.URL.Host, context.Cause(ctx))
	case req.Context().Err() != nil:
		return apierr.New(apierr.UpstreamTimeout, "the token endpoint %s did not respond within %v", req.URL.Host, longest).
			WithCode("token_endpoint_failed")
	}
	return apierr.New(apierr.UpstreamFailed, "the token endpoint %s could not be reached", req.URL.Host).
		WithCode("token_endpoint_failed").WithCause(err)
}

// responseError returns the error for a response, nil for a successful one.
func responseError(req *http.Request, status int, body []byte) error {
	switch {
	case len(body) > maxResponse:
		return apierr.New(apierr.UpstreamFailed, "the token endpoint %s returned more than %d bytes", req.URL.Host, maxResponse).
			WithCode("token_endpoint_failed")
	case status >= 200 && status <= 299:
		return nil
	case status >= 500, status == http.StatusTooManyRequests, status >= 300 && status <= 399:
		return apierr.New(apierr.UpstreamFailed, "the token endpoint %s returned status %d", req.URL.Host, status).
			WithCode("token_endpoint_failed")
	}
	return apierr.New(apierr.Unauthenticated,
		"the token endpoint %s rejected the credential of this provider with status %d%s; check the credential and its permissions",
		req.URL.Host, status, reason(body)).WithCode("credential_refused")
}

// reasons are the error codes of OAuth (RFC 6749, 5.2), STS and Google Cloud
// that explain why a credential was rejected. Nothing else of a response is put
// into an error.
var reasons = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"invalid_target", "invalid_resource", "access_denied", "PERMISSION_DENIED", "UNAUTHENTICATED", "NOT_FOUND", "INVALID_ARGUMENT",
	"AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidIdentityToken", "IDPRejectedClaim",
	"RegionDisabledException", "ValidationError",
}

// entraReason matches the number of an Entra error.
// https://learn.microsoft.com/entra/identity-platform/reference-error-codes
var entraReason = regexp.MustCompile(`AADSTS[0-9]{4,9}`)

func reason(body []byte) string {
	if number := entraReason.Find(body); number != nil {
		return " (" + string(number) + ")"
	}
	for _, word := range reasons {
		if bytes.Contains(body, []byte(`"`+word+`"`)) || bytes.Contains(body, []byte(">"+word+"<")) {
			return " (" + word + ")"
		}
	}
	return ""
}

// grant is a response with an access token in the format of OAuth. Some
// services send numbers as strings, and some send a time instead of a duration.
type grant struct {
	Token     string  `json:"access_token"`
	ExpiresIn seconds `json:"expires_in"`
	ExpiresOn seconds `json:"expires_on"`
}

type seconds int64

// UnmarshalJSON reads a number or a number in a string; anything else is zero.
func (n *seconds) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	if err == nil && f > 0 && f < 1<<40 {
		*n = seconds(f)
	}
	return nil
}

// token requests an access token and returns when it expires.
func (s *Signer) token(ctx context.Context, q tokenRequest) (secret.String, time.Time, error) {
	body, err := s.do(ctx, q)
	if err != nil {
		return secret.String{}, time.Time{}, err
	}
	var g grant
	if err := json.Unmarshal(body, &g); err != nil || !sendable(g.Token) {
		return secret.String{}, time.Time{}, noToken(q)
	}
	end := s.Now().Add(time.Duration(g.ExpiresIn) * time.Second)
	if g.ExpiresIn == 0 && g.ExpiresOn != 0 {
		end = time.Unix(int64(g.ExpiresOn), 0)
	}
	return secret.New(g.Token), s.capExpiry(end), nil
}

func noToken(q tokenRequest) error {
	host := ""
	if u, err := url.Parse(q.url); err == nil {
		host = u.Host
	}
	return apierr.New(apierr.UpstreamFailed, "the token endpoint %s returned no token", host).WithCode("token_endpoint_failed")
}

// capExpiry limits an expiry reported by a service to a day from now.
func (s *Signer) capExpiry(end time.Time) time.Time {
	if latest := s.Now().Add(24 * time.Hour); end.After(latest) {
		return latest
	}
	return end
}

// sendable reports whether token is valid in a header.
func sendable(token string) bool {
	return token != "" && strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
