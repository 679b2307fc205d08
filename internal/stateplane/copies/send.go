package copies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/provider"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorcall"
	"modelgate/internal/store"
)

// protocol is how the files of a provider are sent and read.
type protocol struct {
	kind    string                                          // of the records of its files
	path    string                                          // to which files are sent
	file    func(id string) string                          // path of a file
	content func(id string) string                          // path of its content
	header  map[string]string                               // of every request
	encode  func(head *fileHead, body io.Reader) *fileInput // what is sent
}

// fileHead is what is known of a file before its content.
type fileHead struct {
	name, mime, purpose string
	size                int64 // -1 if unknown
}

// fileInput is a file as a provider takes it.
type fileInput struct {
	header map[string]string
	body   io.Reader
	length int64 // -1 if unknown
}

// The protocols of files.
//
//   - https://platform.openai.com/docs/api-reference/files/create
//   - https://docs.claude.com/en/api/files-create
//   - https://ai.google.dev/api/files
var (
	ofOpenAI = &protocol{
		kind: store.ObjectFile, path: "/v1/files", encode: encodeForm, file: filePath,
		content: func(id string) string { return filePath(id) + "/content" },
	}
	ofAnthropic = &protocol{
		kind: store.ObjectAnthropicFile, path: "/v1/files", encode: encodeForm, file: filePath,
		content: func(id string) string { return filePath(id) + "/content" },
		header:  map[string]string{"Anthropic-Version": "2023-06-01", "Anthropic-Beta": "files-api-2025-04-14"},
	}
	ofGemini = &protocol{
		kind: store.ObjectGeminiFile, path: "/upload/v1beta/files", encode: encodeRaw,
		file:    func(id string) string { return "/v1beta/files/" + url.PathEscape(id) },
		content: func(id string) string { return "/v1beta/files/" + url.PathEscape(id) + ":download?alt=media" },
	}
)

func filePath(id string) string { return "/v1/files/" + url.PathEscape(id) }

// protocolOf returns the protocol of the files of a provider, nil if it takes none.
func protocolOf(t *provider.Target) *protocol {
	_, has := t.Paths[api.Files]
	switch {
	case !has:
		return nil
	case t.Dialect == api.DialectMessages:
		return ofAnthropic
	case t.Dialect == api.DialectGemini:
		return ofGemini
	case kept.Speaks(t, api.Files):
		return ofOpenAI
	}
	return nil
}

// send makes a copy at a provider.
func (w *Copy) send(ctx context.Context, o *store.Object, to *protocol) error {
	d, err := files.DetailsOf(w.File)
	if err != nil {
		return err
	}
	content, err := w.open(ctx, o.Provider)
	if err != nil {
		return err
	}
	defer content.Close()
	head := &fileHead{name: d.Filename, mime: mimeOf(&d), purpose: w.Purpose, size: -1}
	if w.File.ProviderID == "" {
		head.size = d.Bytes
	}
	if head.name == "" {
		head.name = "file"
	}
	in := to.encode(head, content)
	r, err := w.request(ctx, http.MethodPost, to.path, o.Provider)
	if err != nil {
		return err
	}
	for name, v := range in.header {
		r.Header.Set(name, v)
	}
	for name, v := range to.header {
		r.Header.Set(name, v)
	}
	r.Body, r.ContentLength = io.NopCloser(in.body), in.length
	var res kept.Capture
	call := &dataplane.Call{Identity: w.Identity, Manages: true, Nested: w.Nested}
	w.Deps.Call(&res, r, call)
	if content.err != nil {
		return w.contentError(o.Provider, content.err)
	}
	if !res.OK() || call.Result.Broken {
		return apierr.New(apierr.UpstreamFailed, "copying the file %.80s from %s to %s failed: %s answered with status %d; try again, or upload the file to %s",
			w.Name, place(w.File.Provider), o.Provider, o.Provider, res.Status, o.Provider).WithParam(w.Param).WithCode("upstream_error")
	}
	return adopt(o, res.Body)
}

// adopt puts a copy into its record, as its provider describes it.
func adopt(o *store.Object, body []byte) error {
	var in struct {
		File json.RawMessage `json:"file"`
	}
	if json.Unmarshal(body, &in) == nil && in.File != nil {
		body = in.File
	}
	var f struct {
		ID      string          `json:"id"`
		Name    string          `json:"name"`
		Expires json.RawMessage `json:"expires_at"`
		Until   time.Time       `json:"expirationTime"`
	}
	if err := json.Unmarshal(body, &f); err != nil || f.ID == "" && f.Name == "" {
		return kept.RefuseUnreadable("file")
	}
	if o.ProviderID = f.ID; f.ID == "" {
		o.ProviderID = strings.TrimPrefix(f.Name, "files/")
	}
	o.ExpiresAt = f.Until
	if seconds, err := strconv.ParseInt(string(f.Expires), 10, 64); err == nil && seconds > 0 {
		o.ExpiresAt = time.Unix(seconds, 0)
	}
	var err error
	o.Data, err = json.Marshal(files.Details{Shown: body})
	return err
}

// keep makes a copy in the gateway.
func (w *Copy) keep(ctx context.Context, o *store.Object) error {
	d, err := files.DetailsOf(w.File)
	if err != nil {
		return err
	}
	content, err := w.open(ctx, "")
	if err != nil {
		return err
	}
	defer content.Close()
	if used, err := w.Deps.DB.ObjectBytes(ctx, o.Workspace); err != nil {
		return w.Deps.DB.ClientError(err)
	} else if used+d.Bytes > w.Deps.Limits.WorkspaceBytes {
		return kept.NoRoom(w.Deps, used)
	}
	blob := kept.Blob{Name: o.Organisation + "/" + o.ID}
	blob.Size, err = w.Deps.Contents.Put(ctx, o.Organisation, blob.Name, content)
	switch {
	case content.err != nil:
		return w.contentError("", content.err)
	case err != nil:
		return kept.StoreFailed(err)
	}
	o.Size = blob.Size
	o.Data, err = json.Marshal(files.Details{Filename: d.Filename, Bytes: blob.Size, Content: kept.Content{Blobs: []kept.Blob{blob}}})
	return err
}

// errTooLarge is the error of a content that is longer than the limit of copies.
var errTooLarge = errors.New("the file is too large to be copied")

// source is the content of a file.
type source struct {
	io.ReadCloser
	left int64
	err  error // of reading, other than the end
}

// Read implements [io.Reader].
func (s *source) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	if s.left -= int64(n); s.left < 0 {
		n, err = 0, errTooLarge
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// open opens the content of the file, wherever it is. The destination is for messages.
func (w *Copy) open(ctx context.Context, destination string) (*source, error) {
	limit := w.Deps.Limits.CopyBytes
	if w.File.ProviderID == "" {
		body, err := w.Deps.Open(ctx, w.File)
		if err != nil {
			return nil, err
		}
		return &source{ReadCloser: body, left: limit}, nil
	}
	target, _, err := w.Deps.Target(w.Identity.Workspace, w.File.Provider)
	if err != nil {
		return nil, err
	}
	from := protocolOf(target)
	if from == nil || from.kind != w.File.Kind {
		return nil, w.refuse(destination, "and its content cannot be read")
	}
	r, err := w.request(ctx, http.MethodGet, from.content(w.File.ProviderID), w.File.Provider)
	if err != nil {
		return nil, err
	}
	for name, v := range from.header {
		r.Header.Set(name, v)
	}
	res := w.Deps.Stream(r, &dataplane.Call{Identity: w.Identity, Manages: true, Nested: w.Nested})
	if res.Status < 200 || res.Status > 299 {
		defer res.Body.Close()
		if vendorcall.IsTemporary(res.Status) {
			return nil, w.contentError(destination, nil)
		}
		return nil, w.refuse(destination, "and "+w.File.Provider+" does not return its content, so that it cannot be copied")
	}
	return &source{ReadCloser: res.Body, left: limit}, nil
}

// contentError returns the error for a content that could not be read to its end.
func (w *Copy) contentError(destination string, err error) error {
	if errors.Is(err, errTooLarge) {
		return w.tooLarge(destination)
	}
	return apierr.New(apierr.UpstreamFailed, "copying the file %.80s from %s to %s failed: its content ended early; try again",
		w.Name, place(w.File.Provider), place(destination)).WithParam(w.Param).WithCode("upstream_error").WithCause(err)
}

// request returns a request to a managed provider, without the headers of its protocol.
func (w *Copy) request(ctx context.Context, method, address, name string) (*http.Request, error) {
	r, err := newRequest(ctx, method, address, name)
	if err == nil && w.TraceID != "" {
		r.Header.Set(api.HeaderTraceID, w.TraceID)
	}
	return r, err
}

func newRequest(ctx context.Context, method, address, name string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.RequestURI = address
	r.Header.Set(api.HeaderProvider, name)
	return r, nil
}

// Deletion returns the request that deletes a file at a provider, and the kind of the files
// of the provider.
func Deletion(ctx context.Context, t *provider.Target, o *store.Object) (r *http.Request, kind string, err error) {
	to := protocolOf(t)
	if to == nil {
		return nil, "", apierr.New(apierr.Unsupported, "%s takes no files any more", o.Provider).WithCode("unsupported_operation")
	}
	if r, err = newRequest(ctx, http.MethodDelete, to.file(o.ProviderID), o.Provider); err != nil {
		return nil, "", err
	}
	for name, v := range to.header {
		r.Header.Set(name, v)
	}
	return r, to.kind, nil
}

// mimeOf returns the media type of a file.
func mimeOf(d *files.Details) string {
	var shown struct {
		Anthropic string `json:"mime_type"`
		Gemini    string `json:"mimeType"`
	}
	if json.Unmarshal(d.Shown, &shown) == nil && shown.Anthropic+shown.Gemini != "" {
		return shown.Anthropic + shown.Gemini
	}
	if kind := mime.TypeByExtension(path.Ext(d.Filename)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

// encodeForm returns a file as a form.
func encodeForm(head *fileHead, body io.Reader) *fileInput {
	var form bytes.Buffer // whose writes do not fail
	w := multipart.NewWriter(&form)
	if head.purpose != "" {
		_ = w.WriteField("purpose", head.purpose)
	}
	disposition := multipart.FileContentDisposition("file", plainName(head.name))
	_, _ = w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {head.mime}})
	begin := bytes.Clone(form.Bytes())
	form.Reset()
	_ = w.Close()
	in := &fileInput{
		header: map[string]string{"Content-Type": w.FormDataContentType()}, body: io.MultiReader(bytes.NewReader(begin), body, &form), length: -1,
	}
	if head.size >= 0 {
		in.length = int64(len(begin)) + head.size + int64(form.Len())
	}
	return in
}

// encodeRaw returns a file as its content.
func encodeRaw(head *fileHead, body io.Reader) *fileInput {
	return &fileInput{
		header: map[string]string{"Content-Type": head.mime, "X-Goog-Upload-Protocol": "raw"}, body: body, length: head.size,
	}
}

// plainName returns a name without control characters, which headers cannot have.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '_'
		}
		return r
	}, name)
}

// addressIn returns the address in the description of a file of Gemini.
func addressIn(shown json.RawMessage) string {
	var f struct {
		Address string `json:"uri"`
	}
	if json.Unmarshal(shown, &f) != nil {
		return ""
	}
	return f.Address
}
