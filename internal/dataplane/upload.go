package dataplane

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"unicode/utf8"

	"modelgate/internal/bytepool"
	"modelgate/internal/upstream"
)

// maxHead is how much of an upload is kept to find the model that a form names.
// A form that names it later is recorded without one.
const maxHead = 4 << 10

// upload is a request body on its way through. It counts what passes; the
// transport may still be reading when the answer is written.
type upload struct {
	io.ReadCloser
	limit int64

	mu   sync.Mutex
	read int64  // guarded by mu, as is all below
	head []byte // the first bytes
	kept *capture

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
	u.mu.Lock()
	u.read += int64(n)
	u.head = append(u.head, p[:min(n, maxHead-len(u.head))]...)
	u.kept.add(p[:n])
	u.mu.Unlock()
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

// seen returns how many bytes have passed, and the model that a form named.
func (u *upload) seen() (n int64, model string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.read, modelIn(u.head)
}

// peek returns the model that a form names in its beginning, which it waits for.
func (u *upload) peek() string {
	ahead, ok := u.ReadCloser.(peeked)
	if !ok {
		ahead = peeked{bufio.NewReaderSize(u.ReadCloser, maxHead), u.ReadCloser}
		u.ReadCloser = ahead
	}
	head, _ := ahead.Peek(maxHead) // Read tells of what went wrong
	return modelIn(head)
}

// peeked is a body of which the beginning was looked at.
type peeked struct {
	*bufio.Reader
	io.Closer
}

// modelIn returns the model that the beginning of a form names.
func modelIn(head []byte) string {
	_, after, _ := bytes.Cut(head, []byte("name=\"model\"\r\n\r\n"))
	value, _, whole := bytes.Cut(after, []byte("\r\n"))
	if !whole || len(value) > maxWord || !utf8.Valid(value) {
		return ""
	}
	return string(value)
}
