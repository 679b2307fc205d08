package dataplane

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"sync"
	"unicode/utf8"

	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/inbound"
	"modelgate/internal/modelnames"
	"modelgate/internal/pipeline"
	"modelgate/internal/upstream"
)

// maxHead is the number of bytes of an upload that are stored to find the model
// in a form. If a form names it later, the log entry has no model.
const maxHead = 4 << 10

// upload is a request body that streams through. It counts the bytes that pass;
// the transport may still read it while the response is written.
type upload struct {
	io.ReadCloser
	body        *inbound.Body // below ReadCloser; nil if its time is not limited
	limit       int64
	contentType string

	mu   sync.Mutex
	read int64  // guarded by mu, as are the fields below
	head []byte // the first bytes
	kept *capture
	form *modelnames.Multipart // checks the models that pass; nil checks nothing

	// trailer has the announced fields that may pass, nil if none. Their values
	// are from sent, which the server fills in at the body's end. Values for
	// which drops is true are left out.
	trailer, sent http.Header
	drops         func(values []string) bool
}

func newUpload(r *http.Request, limit int64) *upload {
	u := &upload{ReadCloser: http.MaxBytesReader(nil, r.Body, limit), body: inbound.BodyOf(r), limit: limit, contentType: r.Header.Get("Content-Type")}
	if len(r.Trailer) > 0 {
		u.sent, u.trailer = r.Trailer, make(http.Header, len(r.Trailer))
		upstream.CopyRequestHeader(u.trailer, r.Trailer)
	}
	return u
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if refused := u.check(p[:n]); refused != nil {
		return 0, refused
	}
	u.mu.Lock()
	u.read += int64(n)
	u.head = append(u.head, p[:min(n, maxHead-len(u.head))]...)
	u.kept.add(p[:n])
	u.mu.Unlock()
	if err == io.EOF {
		for name := range u.trailer {
			if values := u.sent[name]; !u.drops(values) {
				u.trailer[name] = values
			}
		}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = bodyError(bytepool.ErrTooLarge, u.limit)
	}
	return n, err
}

// responseBegun calls [inbound.Body.ResponseBegun]. It does nothing for a nil
// upload, a body that has been read.
func (u *upload) responseBegun() {
	if u != nil {
		u.body.ResponseBegun()
	}
}

// timeoutError returns the error of a client that was too slow, nil if it was
// not.
func (u *upload) timeoutError() *apierr.Error {
	if u == nil {
		return nil
	}
	return u.body.TimeoutError()
}

// state returns the number of bytes that have passed, and the model that a form
// named.
func (u *upload) state() (n int64, model string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.read, modelIn(u.contentType, u.head)
}

// ahead waits for the beginning of the body and returns it.
func (u *upload) ahead() []byte {
	ahead, ok := u.ReadCloser.(peeked)
	if !ok {
		ahead = peeked{bufio.NewReaderSize(u.ReadCloser, maxHead), u.ReadCloser}
		u.ReadCloser = ahead
	}
	head, _ := ahead.Peek(maxHead) // Read reports errors
	return head
}

// peeked is a body whose beginning has been read ahead.
type peeked struct {
	*bufio.Reader
	io.Closer
}

// watch checks the models in a form as they pass, after [upload.ahead]. A nil
// allow checks none.
func (u *upload) watch(allow func(model string) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.form = nil
	if allow != nil {
		u.form, _ = modelnames.NewMultipart(u.contentType, allow)
	}
}

// check checks bytes before they are forwarded. The last bytes are forwarded
// only if the form ended properly: some parsers accept an incomplete form.
func (u *upload) check(p []byte) error {
	u.mu.Lock()
	form := u.form
	u.mu.Unlock()
	if form == nil {
		return nil
	}
	_, err := form.Write(p)
	if ahead, ok := u.ReadCloser.(peeked); ok && err == nil {
		if _, end := ahead.Peek(1); end == io.EOF {
			err = form.Close()
		}
	}
	if _, ok := errors.AsType[*modelnames.UnreadableError](err); ok {
		err = pipeline.ModelRefused("the model of this request cannot be known: %v", err)
	}
	return err
}

// modelIn returns the first model in the beginning of a form.
func modelIn(contentType string, head []byte) string {
	models, _ := modelsIn(contentType, head)
	if len(models) == 0 || len(models[0]) > maxWord || !utf8.ValidString(models[0]) {
		return ""
	}
	return models[0]
}

// modelsIn returns the models in the beginning of a form, or an error if the
// form cannot be read.
func modelsIn(contentType string, head []byte) (models []string, err error) {
	form, err := modelnames.NewMultipart(contentType, func(model string) error { models = append(models, model); return nil })
	if err == nil {
		_, err = form.Write(head)
	}
	return models, err
}
