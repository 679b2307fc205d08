// Package oauth has the messages of our OAuth 2.0 authorization server.
//
// It guarantees that a request has one meaning (no parameter occurs twice) and that
// responses are never cached. It does not decide anything: grants are in the control
// plane.
package oauth

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Grant types.
const (
	CodeGrant     = "authorization_code"                              // RFC 6749
	RefreshGrant  = "refresh_token"                                   // RFC 6749
	DeviceGrant   = "urn:ietf:params:oauth:grant-type:device_code"    // RFC 8628
	ExchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693
)

// Types of tokens (RFC 8693, section 3).
const (
	TypeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	TypeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	TypeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// Codes of errors (RFC 6749, section 5.2; RFC 8628, section 3.5; RFC 8693, section 2.2.2).
const (
	InvalidRequest       = "invalid_request"
	InvalidClient        = "invalid_client"
	InvalidGrant         = "invalid_grant"
	InvalidScope         = "invalid_scope"
	InvalidTarget        = "invalid_target"
	UnsupportedGrant     = "unsupported_grant_type"
	UnsupportedResponse  = "unsupported_response_type"
	InvalidRedirect      = "invalid_redirect_uri"    // RFC 7591, section 3.2.2
	InvalidMetadata      = "invalid_client_metadata" // RFC 7591, section 3.2.2
	AuthorizationPending = "authorization_pending"
	SlowDown             = "slow_down"
	AccessDenied         = "access_denied"
	ExpiredToken         = "expired_token"
	Unavailable          = "temporarily_unavailable"
	ServerError          = "server_error"
)

// Error is the response to a request that failed.
type Error struct {
	Code        string        `json:"error"`
	Description string        `json:"error_description,omitempty"`
	Status      int           `json:"-"` // zero is 400
	RetryAfter  time.Duration `json:"-"` // zero is unknown
}

// NewError returns an error with the status 400.
func NewError(code, description string) *Error { return &Error{Code: code, Description: description} }

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// Write writes the response.
func (e *Error) Write(w http.ResponseWriter) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	Write(w, status, e)
}

// Write writes a response as JSON that is not cached (RFC 6749, section 5.1).
func Write(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	w.WriteHeader(status)
	_, err = w.Write(text)
	return err
}

// Token is the response with a token (RFC 6749, section 5.1; RFC 8693, section 2.2.1).
type Token struct {
	AccessToken  string `json:"access_token"`
	IssuedType   string `json:"issued_token_type,omitempty"`
	Type         string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
}

// Device is the response to a request for device authorization (RFC 8628, section 3.2).
type Device struct {
	DeviceCode  string `json:"device_code"`
	UserCode    string `json:"user_code"`
	URI         string `json:"verification_uri"`
	CompleteURI string `json:"verification_uri_complete"`
	ExpiresIn   int64  `json:"expires_in"` // seconds
	Interval    int64  `json:"interval"`   // seconds
}

// formType is the media type of requests.
const formType = "application/x-www-form-urlencoded"

// ParseForm returns the parameters of a request. A parameter that occurs twice is an error,
// and an empty one counts as absent (RFC 6749, section 3.2).
func ParseForm(contentType string, body []byte) (map[string]string, error) {
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != formType {
		return nil, errors.New("the body must be a form: " + formType)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("the body is not a form")
	}
	form := make(map[string]string, len(values))
	for name, list := range values {
		if len(list) > 1 {
			return nil, errors.New("a parameter occurs twice")
		}
		if list[0] != "" {
			form[name] = list[0]
		}
	}
	return form, nil
}
