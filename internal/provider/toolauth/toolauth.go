// Package toolauth is the gateway as an OAuth client of tool servers.
//
// It finds the authorization server of a tool server, registers the gateway there, and gets,
// refreshes and revokes tokens. It guarantees that every request passes the address guard and
// the egress policies, that documents and redirects are bounded, that an issuer is compared
// byte for byte with what its own document says, and that no error has a token, a secret or
// text of a server. It stores nothing: who signed in, and where tokens are kept, is the job of
// the caller.
package toolauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
)

// Doer sends requests and does not follow redirects. A guarded request goes only where clients
// may send requests. upstream.Client is a Doer.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Allow returns an error for an address that the egress policies refuse.
type Allow func(*url.URL) error

// Limits of what is fetched.
const (
	maxDocument  = 64 << 10 // bytes
	maxRedirects = 3
	fetchTime    = 10 * time.Second
)

// Client fetches documents and tokens. It is safe for concurrent use.
type Client struct {
	doer      Doer
	now       func() time.Time
	documents documents
}

// New returns a client. A nil clock is time.Now.
func New(d Doer, now func() time.Time) *Client {
	if now == nil {
		now = time.Now
	}
	return &Client{doer: d, now: now}
}

// place is where requests go to, and what limits them.
type place struct {
	guarded  bool
	insecure bool // the tool server itself is reached without TLS, which its administrator chose
	allow    Allow
}

// parse returns an address that requests may go to.
func (p place) parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || len(text) > 2048 || u.Hostname() == "" || u.User != nil || u.Fragment != "" || strings.ContainsFunc(text, isUnsafe) {
		return nil, errors.New("an address is malformed")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !p.insecure) {
		return nil, errors.New("an address does not begin with https")
	}
	if p.allow == nil {
		return u, nil
	}
	return u, p.allow(u)
}

func isUnsafe(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\\"'<>`{}|^", r) }

// send sends the method, address and headers of q with a body, and returns the response with its
// body, which is bounded.
func (c *Client) send(ctx context.Context, p place, q *http.Request, body string) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == "" {
		req.Body, req.GetBody = http.NoBody, nil
	}
	req.Header = q.Header
	res, err := c.doer.Do(req, p.guarded)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") { // it does not end, and is not read
		return &response{status: res.StatusCode, header: res.Header}, nil
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("the response has more than %d bytes", maxDocument)
	}
	return &response{res.StatusCode, res.Header, text}, err
}

// response is a response that was read.
type response struct {
	status int
	header http.Header
	body   []byte
}

// isMissing reports whether there is no document at an address. It returns an error if the
// status does not say so: what is away for a moment is not missing.
func (r *response) isMissing() (bool, error) {
	switch {
	case r.status == http.StatusOK:
		return false, nil
	case r.status < 400 || r.status > 499 || r.status == http.StatusTooManyRequests || r.status == http.StatusRequestTimeout:
		return false, fmt.Errorf("a document is answered with the status %d", r.status)
	}
	return true, nil
}

// get returns the document at an address. It follows a few redirects, each of which passes the
// same checks.
func (c *Client) get(ctx context.Context, p place, address string) (*response, error) {
	u, err := p.parse(address)
	for range maxRedirects + 1 {
		if err != nil {
			return nil, err
		}
		var res *response
		if res, err = c.send(ctx, p, getDocument(u), ""); err != nil {
			return nil, err
		}
		if res.status < 300 || res.status > 399 {
			return res, nil
		}
		var next *url.URL
		if next, err = u.Parse(res.header.Get("Location")); err == nil {
			u, err = p.parse(next.String())
		}
	}
	return nil, fmt.Errorf("more than %d redirects", maxRedirects)
}

func getDocument(u *url.URL) *http.Request {
	return &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Accept": {"application/json"}}}
}

// unavailable returns the error for an authorization server that cannot be used now.
func unavailable(cause error, format string, a ...any) *apierr.Error {
	return apierr.New(apierr.UpstreamFailed, format, a...).WithCode("tool_server_sign_in_failed").WithCause(cause)
}
