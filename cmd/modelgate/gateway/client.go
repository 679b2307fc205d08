// Package gateway is the client of the command line for a running gateway: its address,
// credentials and errors.
//
// It guarantees that a key is sent to the host that the user named and to no other, and
// that errors contain no key. Errors are one line with the cause and what to do. It does
// not print (see the commands) or know routes (see admin).
package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
)

// maxResponse is the limit of a response that is held in memory, in bytes.
const maxResponse = 64 << 20

// Options say which gateway a client calls, and as whom.
type Options struct {
	// Address is the base address, with or without /v1.
	Address string
	// Key is a gateway key. Empty uses the session of login at the address, if there is one.
	Key string
	// Anonymous sends neither a key nor a session.
	Anonymous bool
	// CA is a file with certificates of authorities that are trusted in addition to those of
	// the system. Empty has none.
	CA string
	// Timeout limits a request with its response. Zero means unlimited.
	Timeout time.Duration
	// Agent is the User-Agent of requests.
	Agent string
}

// Client sends requests to one gateway. It is safe for concurrent use.
type Client struct {
	base  string // without /v1
	key   secret.String
	agent string
	http  *http.Client
}

// New returns a client.
func New(o Options) (*Client, error) {
	base := Base(o.Address)
	if u, err := url.Parse(base); err != nil || !isWeb(u) || u.User != nil || u.RawQuery != "" {
		return nil, ErrAddress
	}
	transport, err := transportWith(o.CA)
	if err != nil {
		return nil, err
	}
	var key secret.String
	switch {
	case o.Anonymous:
	case o.Key != "":
		key = secret.New(o.Key)
	default:
		key = Session(base)
	}
	if strings.ContainsFunc(key.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the key (--key or MODELGATE_BOOTSTRAP_KEY) has spaces or other characters that no key has; check how it was copied")
	}
	return &Client{base, key, o.Agent, &http.Client{
		Transport: transport, Timeout: o.Timeout,
		// The key is in a header that net/http would repeat at another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// ErrAddress is the error for an address that no gateway can have, which is wrong usage.
var ErrAddress = errors.New("--url (MODELGATE_URL) must be an http or https address without a password, such as https://gate.example, " +
	"and --listen (MODELGATE_LISTEN) host:port")

// isWeb reports whether an address is one of http or https.
func isWeb(u *url.URL) bool { return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") }

// Key returns the gateway key or session that requests have, empty for none.
func (c *Client) Key() secret.String { return c.key }

// Address returns the base address of the gateway, without /v1.
func (c *Client) Address() string { return c.base }

// Base returns a base address without /v1, with which clients use it, and without a slash.
func Base(address string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(address, "/"), "/v1"), "/")
}

// transportWith returns a transport that uses the proxies of the environment and trusts the
// authorities in a file too.
func transportWith(ca string) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if ca == "" {
		return transport, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading --ca (MODELGATE_CA): %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s (--ca or MODELGATE_CA) has no certificate in PEM format", ca)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	return transport, nil
}

// Request is a request to a route.
type Request struct {
	Method string
	Path   string // escaped, with /v1
	Query  url.Values
	Body   []byte    // nil for none
	Stream io.Reader // a body that is not held in memory, instead of Body
	Type   string    // of the body; empty is JSON
}

// Do sends a request and returns the body of a successful response. The error of any other
// response is a [*StatusError].
func (c *Client) Do(ctx context.Context, r Request) ([]byte, error) {
	body, err := c.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxResponse+1))
	if err == nil && len(text) > maxResponse {
		err = fmt.Errorf("the response is larger than %d MB; ask for less, for example with --limit", maxResponse>>20)
	}
	return text, err
}

// Open is [Client.Do] that returns the body of the response to read from, which the caller
// must close.
func (c *Client) Open(ctx context.Context, r Request) (io.ReadCloser, error) {
	address := c.base + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	body := r.Stream
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, body)
	if err != nil {
		return nil, errors.New("the address of the request is invalid")
	}
	if !c.key.Empty() {
		req.Header.Set("x-gateway-api-key", c.key.Reveal())
	}
	if body != nil {
		req.Header.Set("Content-Type", cmp.Or(r.Type, "application/json"))
	}
	return c.do(req)
}

// Fetch is [Client.Open] for a link that the gateway returned. The key is not sent.
func (c *Client) Fetch(ctx context.Context, link string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil || !isWeb(req.URL) {
		return nil, errors.New("the link of the gateway is not an http or https address")
	}
	return c.do(req)
}

// do sends a request and returns the body of a successful response.
func (c *Client) do(req *http.Request) (io.ReadCloser, error) {
	req.Header.Set("User-Agent", c.agent)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.describeFailure(req, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		return nil, c.readError(res, text)
	}
	return &response{res.Body, req.URL.Host}, nil
}

// response is the body of a response, whose errors say what to do.
type response struct {
	io.ReadCloser
	host string
}

// Read implements io.Reader.
func (r *response) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("the response of the gateway at %s ended early: %s; try again, or wait longer with --timeout", r.host,
			cmp.Or(oserr.ConnectionReason(err), "connection lost"))
	}
	return n, err
}

// describeFailure returns the error for a request without a response.
func (c *Client) describeFailure(req *http.Request, err error) error {
	reason, fix := oserr.ConnectionReason(err), "check the address (--url or --listen) and that the gateway runs"
	certificate, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case isCertificate:
		reason = certificate.Err.Error()
		fix = "if its authority is your own, give its certificate with --ca FILE (MODELGATE_CA)"
	case errors.As(err, &timeout) && timeout.Timeout():
		reason, fix = "no response in time", "try again, or wait longer with --timeout"
	}
	return fmt.Errorf("cannot reach the gateway at %s: %s; %s", req.URL.Host, cmp.Or(reason, "no response"), fix)
}

// StatusError is an error that the gateway returned.
type StatusError struct {
	Code    int    // HTTP status
	Message string // of the gateway
	Body    []byte // at most 1 MB
	advice  string
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the gateway returned %d: %s", e.Code, e.Message)
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

// readError returns the error for a response that is not a success.
func (c *Client) readError(res *http.Response, body []byte) error {
	message, isOurs := messageOf(body)
	e := &StatusError{Code: res.StatusCode, Message: oneLine(message), Body: body}
	request := res.Header.Get("x-gateway-request-id")
	switch {
	case res.StatusCode/100 == 3:
		e.Message = "a redirect"
		if to, err := res.Location(); err == nil {
			e.Message += " to " + to.Scheme + "://" + to.Host
		}
		e.advice = "keys are not sent to other addresses; give the address of the gateway itself with --url"
	case !isOurs && request == "":
		e.Message = cmp.Or(http.StatusText(res.StatusCode), "no message")
		e.advice = "this is not a response of a gateway; check the address (--url) and proxies"
	case res.StatusCode == http.StatusUnauthorized && c.key.Empty():
		e.advice = "sign in with `modelgate login`, or give a key with --key (MODELGATE_BOOTSTRAP_KEY)"
	case res.StatusCode == http.StatusUnauthorized:
		e.advice = "check --key (MODELGATE_BOOTSTRAP_KEY), or sign in again with `modelgate login`"
	case res.StatusCode == http.StatusForbidden:
		e.advice = "use a key or session with this right, or ask an admin of the organisation"
	case res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") != "":
		e.advice = "try again in " + res.Header.Get("Retry-After") + " s"
	case res.StatusCode >= http.StatusInternalServerError && request != "":
		e.advice = "the gateway's log has the cause under the request id " + request
	}
	return e
}

// oneLine returns text without line breaks, of 1000 characters at most.
func oneLine(text string) string {
	const most = 1000
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}

// ErrorMessage returns the message of an error body, or the body if it has none.
func ErrorMessage(body []byte) string {
	text, _ := messageOf(body)
	return text
}

// messageOf is [ErrorMessage] that also reports whether the body is that of an error.
func messageOf(body []byte) (text string, ok bool) {
	var e struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil {
		if text := cmp.Or(e.Message, e.Error.Message); text != "" {
			return text, true
		}
	}
	return string(bytes.TrimSpace(body)), false
}
