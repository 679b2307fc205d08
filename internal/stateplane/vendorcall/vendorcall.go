// Package vendorcall defines requests to the APIs of vendors that keep state, such as
// batches and fine-tuning jobs.
//
// A [Caller] sends a [Request] with the address and the credential of a provider; the
// package does not know how. A [Client] exchanges JSON through it: responses are limited in
// size, and every failure of a vendor is an *apierr.Error with the vendor's own message.
// [MayHaveArrived] decides whether a request that failed could still have had an effect.
package vendorcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"modelgate/internal/base/apierr"
)

// Request is a request to a vendor.
type Request struct {
	// Service is the address of the provider that is meant: empty for its own, otherwise
	// one of the constants of this package.
	Service string
	// Link is a complete address that the vendor returned, instead of Service, Path and
	// Query. It must be sent without credentials, and only to a public address. Empty for
	// none.
	Link   string
	Method string
	// Path is below the address, begins with a slash and is escaped.
	Path string
	// Query is encoded, without the question mark. Empty for none.
	Query  string
	Header http.Header // nil for none
	Body   io.Reader   // nil for none
	Length int64       // of Body in bytes; -1 if unknown
}

// Other addresses of a provider than its own.
const (
	// ServiceBedrock is the control plane of Bedrock, with custom models and jobs.
	ServiceBedrock = "bedrock"
	// ServiceHost is the host of the provider's own address, without its path.
	ServiceHost = "host"
	// ServiceS3 is Amazon S3 in the provider's region. A path begins with the bucket.
	ServiceS3 = "s3"
	// ServiceGCS is Google Cloud Storage. A path begins with the bucket.
	ServiceGCS = "gcs"
)

// Response is the response of a vendor. The receiver closes Body.
type Response struct {
	Status int
	Header http.Header
	Body   io.ReadCloser
	// Unsent is true for an error of the gateway: the vendor has not received the request.
	Unsent bool
}

// Caller sends requests to a provider. An error means that there is no response; it is an
// *apierr.Error of a kind like Invalid if nothing was sent. Implementations are safe for
// concurrent use.
type Caller interface {
	Call(ctx context.Context, r *Request) (*Response, error)
}

// maxResponse is how many bytes of JSON a vendor may send: a page of a hundred jobs with
// their events has less than one megabyte.
const maxResponse = 8 << 20

// Client exchanges JSON with a provider.
type Client struct {
	Caller   Caller
	Provider string // id of the provider, for messages
}

// JSON sends r with in as its body, and decodes the response into out. A nil in sends no
// body, a nil out ignores the response. It sets the body and the headers of r.
func (c Client) JSON(ctx context.Context, r *Request, in, out any) error {
	if err := encode(r, in); err != nil {
		return err
	}
	resp, err := c.Caller.Call(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case resp.Status < 200 || resp.Status > 299:
		return c.failure(resp, body)
	case err != nil:
		return c.broken("broke off its response", err)
	case len(body) > maxResponse:
		return c.broken("sent a response that is too large", nil)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return c.broken("sent a response that is not the JSON of its documentation", err)
	}
	return nil
}

func encode(r *Request, in any) error {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", "application/json")
	if in == nil {
		return nil
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.Length = bytes.NewReader(body), int64(len(body))
	return nil
}

func (c Client) broken(problem string, cause error) error {
	return apierr.New(apierr.UpstreamFailed, "provider %q %s; try again", c.Provider, problem).WithCause(cause)
}

// MayHaveArrived reports whether the request that ended with err may have had an effect at
// the vendor: there was no response, or one that does not exclude it.
func MayHaveArrived(err error) bool {
	if f, ok := errors.AsType[*statusError](err); ok {
		return !f.Unsent && f.Status >= 500 && f.Status != http.StatusNotImplemented || !f.Unsent && f.Status == http.StatusRequestTimeout
	}
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		return err != nil
	}
	switch e.Kind {
	case apierr.Internal, apierr.Timeout, apierr.ClientGone, apierr.UpstreamFailed, apierr.UpstreamTimeout, apierr.Unavailable:
		return true
	}
	return false
}
