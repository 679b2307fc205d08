package upstream

import (
	"io"
	"net/http"
	"sync/atomic"
)

// upload remembers why reading a streamed request body ended, so that a client
// that broke off is not taken for a provider that did. A nil *upload is one
// that never fails.
type upload struct {
	io.ReadCloser
	err    atomic.Pointer[error]
	closed atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !u.closed.Load() {
		u.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Close is called by the transport when the provider is done with the body or
// gone. What a Read returns from then on is no fault of the client.
func (u *upload) Close() error {
	u.closed.Store(true)
	return u.ReadCloser.Close()
}

func (u *upload) failed() error {
	if u == nil {
		return nil
	}
	if err := u.err.Load(); err != nil {
		return *err
	}
	return nil
}

// sendUpload sends a request whose body is a stream. net/http waits for a Read
// of the body to return before it returns an error itself, even if the context
// has ended: a client that stalls would hold the attempt past every limit. So
// the transport runs on a goroutine of its own, which ends with that Read.
func sendUpload(t *http.Transport, req *http.Request) (*http.Response, error) {
	u := &upload{ReadCloser: req.Body}
	sent := *req
	sent.Body = u
	type result struct {
		resp *http.Response
		err  error
	}
	done, left := make(chan result), make(chan struct{})
	defer close(left)
	go func() {
		resp, err := t.RoundTrip(&sent)
		select {
		case done <- result{resp, err}:
		case <-left:
			if resp != nil {
				resp.Body.Close()
			}
		}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, failure(req, u, r.err)
		}
		return r.resp, nil
	case <-req.Context().Done():
		return nil, failure(req, u, req.Context().Err())
	}
}
