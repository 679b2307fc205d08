package dataplane

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// maxBufferedRaw is the size up to which the JSON body of a pass-through
// request is buffered, so that its model and stream flag are known and it can
// be sent again.
const maxBufferedRaw = 1 << 20

// readBody reads the request's body in the way of its route.
func (p *Plane) readBody(r *http.Request, a *admission, route route) error {
	switch route.body {
	case bodyJSON:
		return p.readJSON(r, a)
	case bodyForm:
		if m := mediaType(r); m != "multipart/form-data" {
			return apierr.New(apierr.Invalid, "unsupported content type %.60q; send multipart/form-data", m).WithParam("content-type")
		}
		return p.stream(r, a)
	case bodyRaw:
		return p.readRaw(r, a)
	}
	return nil
}

func mediaType(r *http.Request) string {
	v := r.Header["Content-Type"]
	if len(v) == 0 || v[0] == "" {
		return ""
	}
	m, _, err := mime.ParseMediaType(v[0])
	if err != nil {
		m, _, _ = strings.Cut(v[0], ";")
	}
	return m
}

// readJSON buffers, scans and validates the body of a unified route.
func (p *Plane) readJSON(r *http.Request, a *admission) error {
	if !jsonContent(r) {
		return apierr.New(apierr.Invalid, "this route accepts application/json, not %.60q; send the header content-type: application/json", mediaType(r)).WithParam("content-type")
	}
	if err := p.bufferPlain(r, a); err != nil {
		return err
	}
	if err := scan(a); err != nil {
		return err
	}
	if err := p.fillBody(a); err != nil {
		return err
	}
	a.readRoutingFields()
	a.fromPath()
	a.takeProvider()
	if err := a.checkBody(); err != nil {
		return err
	}
	if err := beginTurn(r, a); err != nil {
		return err
	}
	a.request.Edits = append(a.request.Edits, a.request.Client.Defaults(a.request.Operation, &a.doc)...)
	return nil
}

// jsonContent reports whether the content type is JSON. The usual spelling is
// not parsed.
func jsonContent(r *http.Request) bool {
	v := r.Header["Content-Type"]
	if len(v) == 1 && v[0] == "application/json" {
		return true
	}
	m := mediaType(r)
	return m == "" || m == "application/json" || strings.HasSuffix(m, "+json")
}

// scan finds the members of the buffered body.
func scan(a *admission) error {
	err := a.doc.Scan(a.request.Received.Body.Bytes())
	if err == nil {
		a.request.Received.Doc = &a.doc
		return nil
	}
	e := apierr.New(apierr.Invalid, "the request body is not a JSON object: %v", err).WithCode("invalid_json")
	if d, ok := errors.AsType[*jsonedit.DuplicateKeyError](err); ok {
		e = apierr.New(apierr.Invalid, "%v", d).WithParam(d.Key).WithCode("duplicate_key")
	}
	return e
}

// readRoutingFields reads the fields that routing and the record need.
func (a *admission) readRoutingFields() {
	if v, ok := a.doc.Find("stream"); ok {
		a.request.Stream, _ = v.Bool()
		a.entry.Stream = a.request.Stream
	}
	if v, ok := a.doc.Find("user"); ok {
		if user, ok := v.Text(); ok && user != "" && len(user) <= api.MaxMetadataValue {
			describe(a, "_user", user)
		}
	}
	v, ok := a.doc.Find("model")
	if !ok {
		return
	}
	model, ok := v.Text()
	if !ok {
		return
	}
	a.request.Model, a.request.Received.RequestedModel, a.entry.Model = model, model, truncate(model)
	if !a.opts.namesTarget() {
		a.splitModel()
	}
}

// fromPath reads the values that some dialects have in the path rather than the
// body. The query belongs to the client's protocol; the provider definition
// sets what a provider needs of it.
func (a *admission) fromPath() {
	if !a.request.Dialect.ModelInPath() {
		return
	}
	a.request.Stream, a.entry.Stream = a.route.stream, a.route.stream
	a.request.Model, a.request.Received.RequestedModel, a.entry.Model = a.route.model, a.route.model, truncate(a.route.model)
	if a.request.Dialect == api.DialectGemini && a.request.Stream && !wantsEvents(a.request.Received.Query) {
		a.jsonArray = true
	}
	a.request.Received.Query = ""
	if !a.opts.namesTarget() {
		a.splitModel()
	}
}

// splitModel splits a model of the form @slug/model. If something else names
// the provider, the model is not split.
func (a *admission) splitModel() {
	if !strings.HasPrefix(a.request.Model, "@") {
		return
	}
	slug, rest, ok := strings.Cut(a.request.Model, "/")
	if !ok || rest == "" {
		return
	}
	a.opts.provider = slug
	a.request.Model, a.entry.Model = rest, truncate(rest)
	if a.upload == nil {
		a.request.Edits = append(a.request.Edits, jsonedit.Edit{Name: "model", Value: jsonedit.AppendString(nil, rest)})
	}
}

// readRaw buffers a short JSON body of a pass-through request and streams any
// other.
func (p *Plane) readRaw(r *http.Request, a *admission) error {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	limit := int64(maxBufferedRaw)
	if v := a.route.api; v.op != "" && v.op != api.Files { // the body names the model
		limit = p.MaxJSON
	}
	if r.ContentLength < 0 || r.ContentLength > limit || mediaType(r) != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return p.stream(r, a)
	}
	if err := p.bufferBody(r, a, limit); err != nil {
		return err
	}
	if a.doc.Scan(a.request.Received.Body.Bytes()) == nil { // pass-through does not validate
		a.request.Received.Doc = &a.doc
		a.readRoutingFields()
	}
	return nil
}

// bufferPlain buffers the body of a unified route without its content coding. The provider
// gets it so.
func (p *Plane) bufferPlain(r *http.Request, a *admission) error {
	coding := r.Header.Get("Content-Encoding")
	if contentcoding.IsIdentity(coding) {
		return p.bufferBody(r, a, p.MaxJSON)
	}
	release, err := a.request.Memory.Hold(contentcoding.Memory(coding))
	if err != nil {
		return bodyError(err, p.MaxJSON)
	}
	defer release()
	inbound.BodyOf(r).Hold()
	plain, err := contentcoding.NewReader(coding, r.Body, p.MaxJSON)
	if err != nil {
		return bodyError(err, p.MaxJSON)
	}
	defer plain.Close()
	if err := p.buffer(a, plain, -1, p.MaxJSON); err != nil {
		return err
	}
	for _, name := range [...]string{"Content-Encoding", "Content-Md5", "Content-Digest"} { // of the body as it was sent
		a.request.Received.Header.Del(name)
	}
	return nil
}

func (p *Plane) bufferBody(r *http.Request, a *admission, limit int64) error {
	inbound.BodyOf(r).Hold()
	return p.buffer(a, r.Body, r.ContentLength, limit)
}

func (p *Plane) buffer(a *admission, body io.Reader, length, limit int64) error {
	buf, err := p.Engine.Bounds.Pool.ReadShare(body, length, limit, a.request.Memory)
	if err != nil {
		return bodyError(err, limit)
	}
	a.request.Received.Body = buf
	a.entry.RequestBytes = int64(buf.Len())
	captureRequest(a, buf.Bytes())
	return nil
}

func (p *Plane) stream(r *http.Request, a *admission) error {
	if r.ContentLength > p.MaxUpload {
		return apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", p.MaxUpload)
	}
	a.upload = newUpload(r, p.MaxUpload)
	if a.bodies != nil {
		a.upload.kept = &a.bodies.request
	}
	sent := exchange.Received{Key: a.request.Received.Key} // a copy: the transport may still read after x has been recorded
	a.upload.drops = sent.HoldsKey
	a.request.Received.Upload = &exchange.Upload{Body: a.upload, Trailer: a.upload.trailer,
		Watch: a.upload.watch, Limit: p.MaxUpload, TokenBytes: a.tokenBytes(r), Time: a.upload.body}
	if a.route.body == bodyForm {
		a.upload.fields = newFormFields(a.upload.contentType)
		a.request.Received.Upload.Fields = a.upload.fields.get
	}
	upstream.DropFamilies(a.request.Received.Upload.Trailer, a.request.Received.HeaderPrefixes)
	return nil
}

// Bytes per token of pass-through bodies that stream through.
const (
	textTokenBytes  = 3
	codedTokenBytes = 1 // of compressed text
)

// tokenBytes returns the number of bytes of a body that streams through that are estimated
// as a token, 0 for that of media. On pass-through it is text unless its type or its path
// says that it holds media or files.
func (a *admission) tokenBytes(r *http.Request) int64 {
	switch {
	case !a.mayPassText(), isBinary(mediaType(r)):
		return 0
	case !contentcoding.IsIdentity(r.Header.Get("Content-Encoding")):
		return codedTokenBytes
	}
	return textTokenBytes
}

// mayPassText reports whether a body that streams through may be text, not a form or a file.
func (a *admission) mayPassText() bool {
	return a.route.op == api.Proxy && a.route.api.op != api.Files &&
		!strings.HasPrefix(strings.ToLower(a.request.Received.Header.Get("Content-Type")), "multipart/")
}

// findUploadText looks at the beginning of a body whose type says that it is media: many
// providers read JSON whatever its type is.
func (a *admission) findUploadText() {
	if a.upload == nil || a.request.Received.Upload == nil || a.request.Received.Upload.TokenBytes > 0 || !a.mayPassText() {
		return
	}
	switch head := bytes.TrimSpace(a.upload.begin()); {
	case len(head) == 0, head[0] == '{', head[0] == '[', head[0] == '"':
		a.request.Received.Upload.TokenBytes = textTokenBytes
	}
}

// isBinary reports whether a media type is one of audio, video, images or files.
func isBinary(media string) bool {
	first, rest, _ := strings.Cut(strings.ToLower(media), "/")
	switch first {
	case "audio", "video", "image", "font", "model":
		return true
	case "application":
		return rest == "octet-stream" || rest == "pdf" || rest == "zip" || rest == "gzip" ||
			strings.HasPrefix(rest, "vnd.") && !strings.HasSuffix(rest, "json")
	}
	return false
}

// releaseBody releases the memory of the body.
func (a *admission) releaseBody() {
	a.upload.releaseHead()
	if a.request.Received.Body != nil {
		a.request.Received.Body.Release()
		a.request.Received.Body, a.request.Received.Doc = nil, nil
		a.doc.Reset()
	}
}

// bodyError returns the error for a request body that could not be read.
func bodyError(err error, limit int64) error {
	switch {
	case errors.Is(err, bytepool.ErrTooLarge):
		return apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", limit)
	case errors.Is(err, contentcoding.ErrTooLarge):
		return apierr.New(apierr.TooLarge, "the compressed request body decodes to more than the limit of %d bytes, or to more than a hundred times its size", limit)
	case errors.Is(err, contentcoding.ErrUnknown):
		return apierr.New(apierr.Invalid, "the content coding of the request body is not supported; send it as gzip, deflate, br or zstd, or uncompressed").WithParam("content-encoding")
	case errors.Is(err, contentcoding.ErrCorrupt):
		return apierr.New(apierr.Invalid,
			"the request body is not in the content coding that its Content-Encoding names").WithParam("content-encoding")
	case bytepool.IsFull(err):
		return apierr.BodyMemoryFull(err)
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok { // of a time limit
		return e
	}
	return apierr.New(apierr.Invalid,
		"the request body is shorter than its Content-Length; send it again").WithCode("body_incomplete").WithCause(err)
}
