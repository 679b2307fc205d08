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

// maxHead is how much of an upload is kept to find the model that a form names.
// A form that names it later is recorded without one.
const maxHead = 4 << 10

// upload is a request body on its way through. It counts what passes; the
// transport may still be reading when the answer is written.
type upload struct {
	io.ReadCloser
	body        *inbound.Body // below ReadCloser; nil where nothing limits its time
	limit       int64
	contentType string

	mu   sync.Mutex
	read int64  // guarded by mu, as is all below
	head []byte // the first bytes
	kept *capture
	form *modelnames.Multipart // checks what passes; nil checks nothing

	// trailer has the announced fields that may pass, nil without any. Their
	// values come from sent, where the server puts them at the body's end. Values
	// for which drops is true stay out.
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

// responseBegun is called when the beginning of the response was flushed. A nil
// upload is a body that was read before.
func (u *upload) responseBegun() {
	if u != nil {
		u.body.ResponseBegun()
	}
}

// late returns why the client was cut off, nil when it was not.
func (u *upload) late() *apierr.Error {
	if u == nil {
		return nil
	}
	return u.body.TimeoutError()
}

// seen returns how many bytes have passed, and the model that a form named.
func (u *upload) seen() (n int64, model string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.read, modelIn(u.contentType, u.head)
}

// ahead returns the beginning of the body, which it waits for.
func (u *upload) ahead() []byte {
	ahead, ok := u.ReadCloser.(peeked)
	if !ok {
		ahead = peeked{bufio.NewReaderSize(u.ReadCloser, maxHead), u.ReadCloser}
		u.ReadCloser = ahead
	}
	head, _ := ahead.Peek(maxHead) // Read tells of what went wrong
	return head
}

// peeked is a body of which the beginning was looked at.
type peeked struct {
	*bufio.Reader
	io.Closer
}

// watch checks the models of a form as they pass, after [upload.ahead]. Nil
// checks none.
func (u *upload) watch(allow func(model string) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.form = nil
	if allow != nil {
		u.form, _ = modelnames.NewMultipart(u.contentType, allow)
	}
}

// check looks at the next bytes before they are passed on. The last of them are
// passed on only when the body ended as a form does: a parser may take what
// there is of a form that did not.
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

// modelIn returns the first model that the beginning of a form names.
func modelIn(contentType string, head []byte) string {
	models, _ := modelsIn(contentType, head)
	if len(models) == 0 || len(models[0]) > maxWord || !utf8.ValidString(models[0]) {
		return ""
	}
	return models[0]
}

// modelsIn returns the models that the beginning of a form names, and why the
// form can't be read.
func modelsIn(contentType string, head []byte) (models []string, err error) {
	form, err := modelnames.NewMultipart(contentType, func(model string) error { models = append(models, model); return nil })
	if err == nil {
		_, err = form.Write(head)
	}
	return models, err
}
