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
	"modelgate/internal/pipeline"
	"modelgate/internal/upstream"
)

// maxBufferedRaw is the size up to which the JSON body of a pass-through
// request is buffered, so that its model and stream flag are known and it can
// be sent again.
const maxBufferedRaw = 1 << 20

// readBody reads the request's body in the way of its route.
func (p *Plane) readBody(r *http.Request, x *exchange, route route) error {
	switch route.body {
	case bodyJSON:
		return p.readJSON(r, x)
	case bodyForm:
		if m := mediaType(r); m != "multipart/form-data" {
			return apierr.New(apierr.Invalid, "unsupported content type %.60q; send multipart/form-data", m).WithParam("content-type")
		}
		return p.stream(r, x)
	case bodyRaw:
		return p.readRaw(r, x)
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
func (p *Plane) readJSON(r *http.Request, x *exchange) error {
	if !jsonContent(r) {
		return apierr.New(apierr.Invalid, "this route accepts application/json, not %.60q; send the header content-type: application/json", mediaType(r)).WithParam("content-type")
	}
	if err := p.bufferPlain(r, x); err != nil {
		return err
	}
	if err := scan(x); err != nil {
		return err
	}
	if err := p.fillBody(x); err != nil {
		return err
	}
	x.readRoutingFields()
	x.fromPath()
	x.takeProvider()
	if err := x.checkBody(); err != nil {
		return err
	}
	x.Edits = append(x.Edits, x.Client.Defaults(x.Operation, &x.doc)...)
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
func scan(x *exchange) error {
	err := x.doc.Scan(x.Received.Body.Bytes())
	if err == nil {
		x.Received.Doc = &x.doc
		return nil
	}
	e := apierr.New(apierr.Invalid, "the request body is not a JSON object: %v", err).WithCode("invalid_json")
	if d, ok := errors.AsType[*jsonedit.DuplicateKeyError](err); ok {
		e = apierr.New(apierr.Invalid, "%v", d).WithParam(d.Key).WithCode("duplicate_key")
	}
	return e
}

// readRoutingFields reads the fields that routing and the record need.
func (x *exchange) readRoutingFields() {
	if v, ok := x.doc.Find("stream"); ok {
		x.Stream, _ = v.Bool()
		x.entry.Stream = x.Stream
	}
	if v, ok := x.doc.Find("user"); ok {
		if user, ok := v.Text(); ok {
			x.setUser(user)
		}
	}
	v, ok := x.doc.Find("model")
	if !ok {
		return
	}
	model, ok := v.Text()
	if !ok {
		return
	}
	x.Model, x.Received.RequestedModel, x.entry.Model = model, model, truncate(model)
	if !x.opts.namesTarget() {
		x.splitModel()
	}
}

// fromPath reads the values that some dialects have in the path rather than the
// body. The query belongs to the client's protocol; the provider definition
// sets what a provider needs of it.
func (x *exchange) fromPath() {
	if !x.Dialect.ModelInPath() {
		return
	}
	x.Stream, x.entry.Stream = x.route.stream, x.route.stream
	x.Model, x.Received.RequestedModel, x.entry.Model = x.route.model, x.route.model, truncate(x.route.model)
	if x.Dialect == api.DialectGemini && x.Stream && !wantsEvents(x.Received.Query) {
		x.array = new(jsonArrayWriter)
	}
	x.Received.Query = ""
	if !x.opts.namesTarget() {
		x.splitModel()
	}
}

// setUser copies the body's user to the metadata unless the header has one.
func (x *exchange) setUser(user string) {
	if _, ok := x.Metadata["_user"]; ok || user == "" || len(user) > api.MaxMetadataValue {
		return
	}
	if x.Metadata == nil {
		x.Metadata = make(map[string]string, 1)
	}
	x.Metadata["_user"] = user
}

// splitModel splits a model of the form @slug/model. If something else names
// the provider, the model is not split.
func (x *exchange) splitModel() {
	if !strings.HasPrefix(x.Model, "@") {
		return
	}
	slug, rest, ok := strings.Cut(x.Model, "/")
	if !ok || rest == "" {
		return
	}
	x.opts.provider = slug
	x.Model, x.entry.Model = rest, truncate(rest)
	if x.upload == nil {
		x.Edits = append(x.Edits, jsonedit.Edit{Name: "model", Value: jsonedit.AppendString(nil, rest)})
	}
}

// readRaw buffers a short JSON body of a pass-through request and streams any
// other.
func (p *Plane) readRaw(r *http.Request, x *exchange) error {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	limit := int64(maxBufferedRaw)
	if v := x.route.api; v.op != "" && v.op != api.Files { // the body names the model
		limit = p.MaxJSON
	}
	if r.ContentLength < 0 || r.ContentLength > limit || mediaType(r) != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return p.stream(r, x)
	}
	if err := p.bufferBody(r, x, limit); err != nil {
		return err
	}
	if x.doc.Scan(x.Received.Body.Bytes()) == nil { // pass-through does not validate
		x.Received.Doc = &x.doc
		x.readRoutingFields()
	}
	return nil
}

// bufferPlain buffers the body of a unified route without its content coding. The provider
// gets it so.
func (p *Plane) bufferPlain(r *http.Request, x *exchange) error {
	coding := r.Header.Get("Content-Encoding")
	if contentcoding.IsIdentity(coding) {
		return p.bufferBody(r, x, p.MaxJSON)
	}
	release, err := x.Memory.Hold(contentcoding.Memory(coding))
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
	if err := p.buffer(x, plain, -1, p.MaxJSON); err != nil {
		return err
	}
	for _, name := range [...]string{"Content-Encoding", "Content-Md5", "Content-Digest"} { // of the body as it was sent
		x.Received.Header.Del(name)
	}
	return nil
}

func (p *Plane) bufferBody(r *http.Request, x *exchange, limit int64) error {
	inbound.BodyOf(r).Hold()
	return p.buffer(x, r.Body, r.ContentLength, limit)
}

func (p *Plane) buffer(x *exchange, body io.Reader, length, limit int64) error {
	buf, err := p.Engine.Pool.ReadShare(body, length, limit, x.Memory)
	if err != nil {
		return bodyError(err, limit)
	}
	x.Received.Body = buf
	x.entry.RequestBytes = int64(buf.Len())
	x.captureRequest(buf.Bytes())
	return nil
}

func (p *Plane) stream(r *http.Request, x *exchange) error {
	if r.ContentLength > p.MaxUpload {
		return apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", p.MaxUpload)
	}
	x.upload = newUpload(r, p.MaxUpload)
	if x.bodies != nil {
		x.upload.kept = &x.bodies.request
	}
	sent := pipeline.Received{Key: x.Received.Key} // a copy: the transport may still read after x has been recorded
	x.upload.drops = sent.HoldsKey
	x.Received.Upload = &pipeline.Upload{Body: x.upload, Trailer: x.upload.trailer, Watch: x.upload.watch, Limit: p.MaxUpload, TokenBytes: x.tokenBytes(r), Time: x.upload.body}
	if x.route.body == bodyForm {
		x.upload.fields = newFormFields(x.upload.contentType)
		x.Received.Upload.Fields = x.upload.fields.get
	}
	upstream.DropFamilies(x.Received.Upload.Trailer, x.Received.HeaderPrefixes)
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
func (x *exchange) tokenBytes(r *http.Request) int64 {
	switch {
	case !x.mayPassText(), isBinary(mediaType(r)):
		return 0
	case !contentcoding.IsIdentity(r.Header.Get("Content-Encoding")):
		return codedTokenBytes
	}
	return textTokenBytes
}

// mayPassText reports whether a body that streams through may be text, not a form or a file.
func (x *exchange) mayPassText() bool {
	return x.route.op == api.Proxy && x.route.api.op != api.Files && !strings.HasPrefix(strings.ToLower(x.Received.Header.Get("Content-Type")), "multipart/")
}

// findUploadText looks at the beginning of a body whose type says that it is media: many
// providers read JSON whatever its type is.
func (x *exchange) findUploadText() {
	if x.upload == nil || x.Received.Upload == nil || x.Received.Upload.TokenBytes > 0 || !x.mayPassText() {
		return
	}
	switch head := bytes.TrimSpace(x.upload.begin()); {
	case len(head) == 0, head[0] == '{', head[0] == '[', head[0] == '"':
		x.Received.Upload.TokenBytes = textTokenBytes
	}
}

// isBinary reports whether a media type is one of audio, video, images or files.
func isBinary(media string) bool {
	first, rest, _ := strings.Cut(strings.ToLower(media), "/")
	switch first {
	case "audio", "video", "image", "font", "model":
		return true
	case "application":
		return rest == "octet-stream" || rest == "pdf" || rest == "zip" || rest == "gzip" || strings.HasPrefix(rest, "vnd.") && !strings.HasSuffix(rest, "json")
	}
	return false
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
		return apierr.New(apierr.Invalid, "the request body is not in the content coding that its Content-Encoding names").WithParam("content-encoding")
	case bytepool.IsFull(err):
		return apierr.BodyMemoryFull(err)
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok { // of a time limit
		return e
	}
	return apierr.New(apierr.Invalid, "the request body is shorter than its Content-Length; send it again").WithCode("body_incomplete").WithCause(err)
}
