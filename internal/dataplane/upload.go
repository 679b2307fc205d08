package dataplane

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"modelgate/internal/bytepool"
	"modelgate/internal/upstream"
)

// upload is a request body on its way through. It counts what passes; the
// transport may still be reading when the answer is written.
type upload struct {
	io.ReadCloser
	limit int64
	read  atomic.Int64

	// trailer has the announced fields that may pass, nil without any. Their
	// values come from sent, where the server puts them at the body's end.
	trailer, sent http.Header
}

func newUpload(r *http.Request, limit int64) *upload {
	u := &upload{ReadCloser: http.MaxBytesReader(nil, r.Body, limit), limit: limit}
	if len(r.Trailer) > 0 {
		u.sent, u.trailer = r.Trailer, make(http.Header, len(r.Trailer))
		upstream.CopyRequestHeader(u.trailer, r.Trailer)
	}
	return u
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.read.Add(int64(n))
	if err == io.EOF {
		for name := range u.trailer {
			u.trailer[name] = u.sent[name]
		}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = bodyError(bytepool.ErrTooLarge, u.limit)
	}
	return n, err
}
