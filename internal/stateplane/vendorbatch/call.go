package vendorbatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/stateplane/vendorcall"
)

var (
	// ErrUnsupported is the error of an operation that a vendor does not have.
	ErrUnsupported = errors.New("the vendor has no such operation")
	// ErrUnanswered is the error of a create whose outcome is unknown: the vendor
	// may have accepted it. [Vendor].Find tells.
	ErrUnanswered = errors.New("the vendor did not answer the creation of the batch")
)

// maxReply is the most that is read of a description, or of a page of results.
const maxReply = 64 << 20

// client sends requests of one vendor.
type client struct {
	vendorcall.Caller
	vendor string // for messages
}

// open sends a request and returns a response that has a success status.
func (c *client) open(ctx context.Context, r *vendorcall.Request) (*vendorcall.Response, error) {
	res, err := c.Call(ctx, r)
	if closer, ok := r.Body.(io.Closer); ok {
		_ = closer.Close() // a reader of memory, whose reading has no effect
	}
	if err != nil {
		return nil, err
	}
	if res.Status >= 200 && res.Status < 300 {
		return res, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return nil, c.failure(res, body)
}

// failure returns the error for a response with an error status.
func (c *client) failure(res *vendorcall.Response, body []byte) *apierr.Error {
	e := apierr.New(kindOf(res.Status), "%s", dialect.FailureMessage(c.vendor, res.Status, body)).
		WithCode("provider_error").WithCause(statusError(res.Status))
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, 24*3600)) * time.Second
	}
	return e
}

// kindOf returns the kind of error for a vendor's status. A refused credential is not
// the client's.
func kindOf(status int) apierr.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return apierr.Invalid
	case http.StatusNotFound, http.StatusGone:
		return apierr.NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return apierr.Conflict
	case http.StatusRequestEntityTooLarge:
		return apierr.TooLarge
	case http.StatusTooManyRequests:
		return apierr.RateLimited
	case http.StatusServiceUnavailable, 529:
		return apierr.Unavailable
	case http.StatusGatewayTimeout:
		return apierr.UpstreamTimeout
	}
	return apierr.UpstreamFailed
}

// do sends a request and decodes its response into out, which may be nil.
func (c *client) do(ctx context.Context, r *vendorcall.Request, out any) error {
	_, err := c.doDated(ctx, r, out)
	return err
}

// doDated does what do does, and returns the Date of the response.
func (c *client) doDated(ctx context.Context, r *vendorcall.Request, out any) (date string, err error) {
	res, err := c.open(ctx, r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	return res.Header.Get("Date"), c.decode(res, out)
}

// decode decodes a response into out, which may be nil.
func (c *client) decode(res *vendorcall.Response, out any) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the response of %s: %w", c.vendor, err)
	case len(body) > maxReply:
		return c.unreadable(errors.New("the response is too long"))
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return c.unreadable(err)
	}
	return nil
}

// unreadable returns the error for a response that is not in the vendor's format.
func (c *client) unreadable(cause error) *apierr.Error {
	return apierr.New(apierr.UpstreamFailed, "%s returned a response that is not in its format", c.vendor).
		WithCode("provider_error").WithCause(fmt.Errorf("%w: %w", errUnreadable, cause))
}

// get reads a description.
func (c *client) get(ctx context.Context, path, query string, out any) error {
	return c.do(ctx, &vendorcall.Request{Method: http.MethodGet, Path: path, Query: query}, out)
}

// post sends body as JSON, nil as an empty object.
func (c *client) post(ctx context.Context, path string, body, out any) error {
	return c.send(ctx, &vendorcall.Request{Method: http.MethodPost, Path: path}, body, out)
}

// send sends r with body as JSON.
func (c *client) send(ctx context.Context, r *vendorcall.Request, body, out any) error {
	if body == nil {
		body = struct{}{}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a request to %s: %w", c.vendor, err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}}
	r.Body, r.Length = bytes.NewReader(data), int64(len(data))
	return c.do(ctx, r, out)
}

// statusError is the status of a vendor's error, as the cause of an [apierr.Error].
type statusError int

func (s statusError) Error() string { return "the vendor returned the status " + strconv.Itoa(int(s)) }

// errUnreadable is in the cause of an error for a response in another format.
var errUnreadable = errors.New("unreadable response")

// markUnanswered returns the error of a request that creates a batch: [ErrUnanswered]
// unless the vendor refused it or nothing was sent.
func markUnanswered(err error) error {
	if err == nil {
		return nil
	}
	if status, ok := errors.AsType[statusError](err); ok && (status < 500 || status == http.StatusNotImplemented) {
		return err
	} else if _, own := errors.AsType[*apierr.Error](err); own && !ok && !errors.Is(err, errUnreadable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnanswered, err)
}

// first returns the first value that is not zero.
func first[T comparable](values ...T) T { return cmp.Or(values...) }
