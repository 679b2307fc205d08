package secretref

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider/auth"
	"modelgate/internal/upstream"
)

// maxResponse is the limit of a manager's response, in bytes.
const maxResponse = 1 << 20

// managerRequest is a request to a manager.
type managerRequest struct {
	client      auth.Doer
	method, url string
	header      map[string]string
	body        []byte
	guarded     bool                              // a tenant chose the address
	sign        func(*http.Request, []byte) error // nil for most managers
}

// ask sends a request and returns the status and body of the response.
func (r *Resolver) ask(ctx context.Context, q managerRequest) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, bytes.NewReader(q.body))
	if err != nil {
		return 0, nil, apierr.New(apierr.Invalid, "the manager's address or the secret's path is malformed").WithCode("secret_malformed")
	}
	if len(q.body) == 0 {
		req.Body, req.GetBody = http.NoBody, nil
	}
	for name, v := range q.header {
		req.Header.Set(name, v)
	}
	if q.sign != nil {
		if err := q.sign(req, q.body); err != nil {
			return 0, nil, signingError(err)
		}
	}
	res, err := q.client.Do(req, q.guarded)
	if err != nil {
		return 0, nil, noResponseError(ctx, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	switch {
	case err != nil:
		return 0, nil, noResponseError(ctx, err)
	case len(body) > maxResponse:
		return 0, nil, failed("the manager's response has more than %d bytes", maxResponse)
	}
	return res.StatusCode, body, nil
}

func failed(format string, args ...any) *apierr.Error {
	return apierr.New(apierr.UpstreamFailed, format, args...).WithCode("secret_manager_failed")
}

func refused(format string, args ...any) *apierr.Error {
	return apierr.New(apierr.UpstreamFailed, format, args...).WithCode("secret_manager_refused")
}

// noResponseError returns the error for a missing response, without its content.
func noResponseError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return apierr.New(apierr.UpstreamTimeout, "the manager did not respond in time").WithCode("secret_manager_failed")
	}
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return failed("the manager could not be reached: %s", f.Reason())
	}
	return failed("the manager could not be reached")
}

// signingError converts an error of signing, which mentions providers, to one of a manager.
// What it says about a credential is kept.
func signingError(err error) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		return failed("the credential for the manager could not be used")
	}
	return refused("the credential for the manager could not be used: %s", e.Message)
}

// statusError returns the error for an unsuccessful status.
func statusError(status int) error {
	switch {
	case status == http.StatusNotFound:
		return apierr.New(apierr.UpstreamFailed, "the manager has no secret at this path").WithCode("secret_not_found")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return refused("the manager rejected the credential with status %d; check the credential and its permissions", status)
	case status == http.StatusTooManyRequests, status >= 500:
		return failed("the manager returned status %d", status)
	}
	return refused("the manager rejected the request with status %d; check the path and the settings of the reference", status)
}

func success(status int) bool { return status >= 200 && status <= 299 }

// clientFor returns a client that trusts only these authorities, the usual client if
// they are empty.
func (r *Resolver) clientFor(authorities string) (auth.Doer, error) {
	if authorities == "" {
		return r.Client, nil
	}
	pool := x509.NewCertPool()
	if r.ClientWith == nil || !pool.AppendCertsFromPEM([]byte(authorities)) {
		return nil, invalid("auth_config.ca_cert", "is not a certificate in PEM")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.clients[authorities]
	if !ok {
		const many = 64
		if len(r.clients) >= many {
			clear(r.clients)
		}
		c = r.ClientWith(pool)
		r.clients[authorities] = c
	}
	return c, nil
}
