package dataplane

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"unicode/utf8"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/provider"
	"modelgate/internal/upstream"
)

// maxHead is the number of bytes of an upload that are stored to find the model
// in a form. If a form names it later, the log entry has no model.
const maxHead = 4 << 10

// maxFormHead is the number of bytes of a form that are read to find the model,
// if nothing else names the provider: audio files of the usual limit of 25 MB
// may precede it.
const maxFormHead = 32 << 20

// upload is a request body that streams through. It counts the bytes that pass;
// the transport may still read it while the response is written.
type upload struct {
	io.ReadCloser
	body        *inbound.Body // below ReadCloser; nil if its time is not limited
	limit       int64
	contentType string
	length      int64       // -1 if unknown
	fields      *formFields // nil unless the route takes a form

	front io.ReadCloser // of the bytes read to find the model; nil if none were

	mu   sync.Mutex
	read int64  // guarded by mu, as are the fields below
	end  bool   // the body has been read to its end
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
	u := &upload{ReadCloser: http.MaxBytesReader(nil, r.Body, limit), body: inbound.BodyOf(r), limit: limit,
		contentType: r.Header.Get("Content-Type"), length: r.ContentLength}
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
	u.fields.write(p[:n])
	u.mu.Lock()
	u.read += int64(n)
	u.end = u.end || err == io.EOF || u.read == u.length
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

// complete reports whether the client's body has been read to its end. It is true
// for a nil upload.
func (u *upload) complete() bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.end
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
	return u.read, cmp.Or(modelIn(u.contentType, u.head), u.fields.get().Model)
}

// ahead waits for the beginning of the body and returns it.
func (u *upload) ahead() []byte {
	head, _ := u.peek().Peek(maxHead) // Read reports errors
	return head
}

// begin waits for the first byte of the body and returns what has arrived with it.
func (u *upload) begin() []byte {
	body := u.peek()
	body.Peek(1)
	head, _ := body.Peek(body.Buffered())
	return head
}

// peek returns a reader of the body that can look ahead.
func (u *upload) peek() *bufio.Reader {
	ahead, ok := u.ReadCloser.(peeked)
	if !ok {
		ahead = peeked{bufio.NewReaderSize(u.ReadCloser, maxHead), u.ReadCloser}
		u.ReadCloser = ahead
	}
	return ahead.Reader
}

// splitFormModel reads a form up to its model, from which it takes the provider
// if it has the form @slug/model. Everything else is sent as it came, the
// bytes read first.
func (a *admission) splitFormModel() error {
	head, end, err := a.readFormModel()
	if head == nil {
		return err
	}
	model := a.request.Model
	if model == "" && head.Len() >= maxFormHead {
		err = apierr.New(apierr.Invalid, "no provider selected: the form names no model in its first %d bytes; put the field model before the file, or set x-gateway-provider", maxFormHead).
			WithParam("model").WithCode("missing_provider")
	}
	if a.splitModel(); a.opts.provider != "" {
		cut := int64(len(model) - len(a.request.Model))
		head.Fill(func(b []byte) []byte {
			b = b[:head.Len()]
			return append(b[:end-int64(len(model))], b[end-int64(len(a.request.Model)):]...)
		})
		a.upload.read += cut
		a.request.Received.Length = max(a.request.Received.Length-cut, -1)
	}
	a.upload.unread(head)
	return err
}

// readFormModel reads a form up to its model, which it sets, and returns what it has read
// and where the model ends in it. The caller returns that with [upload.unread]. A nil head
// means that the body is not a form that all providers read alike.
func (a *admission) readFormModel() (head *bytepool.Buffer, end int64, err error) {
	u := a.upload
	var model string
	var form *modelnames.Multipart
	form, err = modelnames.NewMultipart(u.contentType, func(name string) error {
		model, end = name, form.FieldEnd()
		return errModelFound
	})
	if err != nil {
		return nil, 0, nil
	}
	head, err = u.readUntil(a.plane.Engine.Bounds.Pool, a.request.Memory, form)
	if err != nil {
		return nil, 0, bodyError(err, u.limit)
	}
	if !isModelAt(head.Bytes(), end, model) {
		model = ""
	}
	a.request.Model, a.entry.Model = model, model
	return head, end, nil
}

// unread puts what was read back before the rest of the body.
func (u *upload) unread(head *bytepool.Buffer) {
	u.front = released{head.Reader()}
	head.Release()
	u.ReadCloser = prefixed{io.MultiReader(u.front, u.ReadCloser), u.ReadCloser}
}

// findUploadModel finds the model of a body that streams through: for its price, and for
// policies if any needs it. Then a body whose model cannot be known is an error, unless it
// runs none.
func (a *admission) findUploadModel() error {
	if a.upload == nil || a.request.Received.Upload == nil || a.request.Model != "" || a.upload.front != nil {
		return nil
	}
	a.oneModel = a.request.Received.Method != http.MethodGet && !a.runsNoModel() && a.snap.Policies.ReadsModels(a.facts())
	if !a.oneModel && a.route.body != bodyForm {
		return nil
	}
	models, err := modelsIn(a.upload.contentType, a.upload.ahead())
	if err != nil && a.route.body == bodyForm {
		return refuseForm(err)
	}
	if err == nil {
		if len(models) > 0 && len(models[0]) <= maxWord && utf8.ValidString(models[0]) {
			a.request.Model, a.entry.Model = models[0], models[0]
			return nil
		}
		if a.oneModel {
			return a.findLateModel()
		}
	}
	if !a.oneModel {
		return nil
	}
	n := a.modelsOutsideDoc()
	switch {
	case n.err != nil:
		return modelUnknown(n.err.Error())
	case a.request.Received.Doc != nil:
		a.readRoutingFields()
	case len(n.models) > 0:
		a.request.Model = n.models[0]
	}
	return nil
}

// findLateModel finds the model of a form that names it after its file.
func (a *admission) findLateModel() error {
	head, _, err := a.readFormModel()
	if head == nil {
		return err
	}
	if a.request.Model == "" && head.Len() >= maxFormHead {
		err = modelUnknown(fmt.Sprintf("its form names none in its first %d bytes", maxFormHead))
	}
	a.upload.unread(head)
	return err
}

func modelUnknown(why string) error {
	return provider.ModelRefused("policies depend on the model of this request, which cannot be known: %s; send JSON or a form that names its model before the file, not compressed", why)
}

// isModelAt reports whether the model is the complete text before end, rather
// than part of JSON in a field, and can be recorded.
func isModelAt(head []byte, end int64, model string) bool {
	return len(model) <= maxWord && utf8.ValidString(model) && bytes.HasSuffix(head[:end], []byte("\r\n\r\n"+model))
}

var errModelFound = errors.New("the model of the form has been found")

// readUntil reads the body until w returns an error, the body ends or maxFormHead
// bytes have been read. Later errors of the body are for its reader.
func (u *upload) readUntil(pool *bytepool.Pool, share *bytepool.Share, w io.Writer) (*bytepool.Buffer, error) {
	chunk := make([]byte, 32<<10)
	head, err := pool.GetShare(len(chunk), share)
	if err != nil {
		return nil, err
	}
	u.body.Hold()
	defer u.body.Pass()
	for head.Len() < maxFormHead {
		n, readErr := u.ReadCloser.Read(chunk[:min(len(chunk), maxFormHead-head.Len())])
		larger, err := head.Append(chunk[:n])
		if err != nil {
			head.Release()
			return nil, err
		}
		head = larger
		if _, err := w.Write(chunk[:n]); err != nil || readErr != nil {
			break
		}
	}
	return head, nil
}

// releaseHead releases the bytes read to find the model. It does nothing for a
// nil upload.
func (u *upload) releaseHead() {
	if u != nil && u.front != nil {
		u.front.Close()
	}
}

// released is closed as soon as it has been read.
type released struct{ io.ReadCloser }

func (r released) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err == io.EOF {
		r.Close()
	}
	return n, err
}

// prefixed is a body with the bytes that have been read of it in front.
type prefixed struct {
	io.Reader
	io.Closer
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
		err = refuseForm(err)
	}
	return err
}

// refuseForm returns the error for a form whose model parsers may read differently.
func refuseForm(err error) error {
	return provider.ModelRefused("the model of this request cannot be known: %v", err)
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
