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
	err atomic.Pointer[error]
}

// watchUpload returns the request to send. Only a body that can be read once
// is watched: one with GetBody comes from memory and does not fail.
func watchUpload(req *http.Request) (*http.Request, *upload) {
	if req.Body == nil || req.Body == http.NoBody || req.GetBody != nil {
		return req, nil
	}
	u := &upload{ReadCloser: req.Body}
	sent := *req
	sent.Body = u
	return &sent, u
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		u.err.CompareAndSwap(nil, &err)
	}
	return n, err
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
