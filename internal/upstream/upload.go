package upstream

import (
	"io"
	"net/http"
	"sync/atomic"
)

// upload records why reading a streamed request body ended, to distinguish a
// client that disconnected from a failing provider. A nil *upload never fails.
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

// Close closes the body. The transport calls it when the provider has finished
// reading or is gone; errors of later reads are not the client's fault.
func (u *upload) Close() error {
	u.closed.Store(true)
	return u.ReadCloser.Close()
}

func (u *upload) readError() error {
	if u == nil {
		return nil
	}
	if err := u.err.Load(); err != nil {
		return *err
	}
	return nil
}

// sendUpload sends a request whose body is a stream. Even if the context has
// ended, net/http does not return before a Read of the body does, so a client
// that stalls would hold up the attempt beyond every timeout. Therefore the
// transport runs in its own goroutine, which ends with that Read.
func sendUpload(t *http.Transport, req *http.Request) (*http.Response, error) {
	u := &upload{ReadCloser: req.Body}
	sent, written := traceWriting(req)
	sent.Body = u
	type result struct {
		resp *http.Response
		err  error
	}
	done, left := make(chan result), make(chan struct{})
	defer close(left)
	go func() {
		resp, err := t.RoundTrip(sent)
		select {
		case done <- result{resp, err}:
		case <-left:
			if resp != nil {
				resp.Body.Close()
			}
		}
	}()
	var err error
	select {
	case r := <-done:
		if r.err == nil {
			return r.resp, nil
		}
		err = r.err
	case <-req.Context().Done():
		err = req.Context().Err()
	}
	if !written.Load() {
		err = &unsentError{err}
	}
	return nil, failure(req, u, err)
}
