package dataplane

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"modelgate/internal/bytepool"
)

// upload is a request body on its way through. It counts what passes; the
// transport may still be reading when the answer is written.
type upload struct {
	io.ReadCloser
	limit int64
	read  atomic.Int64
}

func newUpload(r *http.Request, limit int64) *upload {
	return &upload{ReadCloser: http.MaxBytesReader(nil, r.Body, limit), limit: limit}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.read.Add(int64(n))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = bodyError(bytepool.ErrTooLarge, u.limit)
	}
	return n, err
}
