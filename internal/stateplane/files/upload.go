package files

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Limits of the fields of a form.
const (
	maxField    = 4 << 10
	maxFields   = 16
	maxFilename = 255
)

// Times that a client may give a file.
// https://platform.openai.com/docs/api-reference/files/create
const (
	leastExpiry = time.Hour
	mostExpiry  = 30 * 24 * time.Hour
)

// form is what a client sends with a file. Its fields may be before or after the file.
type form struct {
	purpose   string
	expiry    time.Duration
	anchor    string
	filename  string
	stored    bool
	size      int64
	blob      string
	sha256    string
	hasExpiry bool
}

// upload keeps a file. provider is "@" with the slug of the provider that it is for, empty
// for any.
func upload(q *kept.Request, provider string) error {
	ctx := q.HTTP.Context()
	o := q.NewObject(store.ObjectFile, "gw_file_")
	o.Provider = provider
	left, err := q.Room(q.HTTP.ContentLength)
	if err != nil {
		return err
	}
	f := form{blob: o.Organisation + "/" + o.ID}
	if err := f.read(q, o.Organisation, left); err != nil {
		q.Deps.DeleteBlobs(ctx, f.blobs()) // it may not exist
		return err
	}
	data, err := json.Marshal(Details{Filename: f.filename, Bytes: f.size, SHA256: f.sha256, Content: kept.Content{Blobs: f.blobs()}})
	if err != nil {
		return err
	}
	o.State, o.Label, o.Size, o.Data = StateProcessed, f.purpose, f.size, data
	o.ExpiresAt = expiry(q.Deps, &o, f.hasExpiry, f.expiry)
	if err := q.Change(func(tx *store.Tx) error { return addToQuota(q, tx, o) }); err != nil {
		q.Deps.DeleteBlobs(ctx, f.blobs())
		return err
	}
	shown, err := describe(&o)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, shown)
}

// addToQuota stores a file whose workspace has room for it. Uploads at the same time see
// one another here.
func addToQuota(q *kept.Request, tx *store.Tx, o store.Object) error {
	used, err := tx.ObjectBytes(q.HTTP.Context(), o.Workspace)
	if err != nil {
		return err
	}
	if used+o.Size > q.Deps.Limits.WorkspaceBytes {
		return q.NoRoom(used)
	}
	return q.Add(q.HTTP.Context(), tx, o)
}

// expiry returns when a file is deleted: zero is never.
func expiry(d *kept.Deps, o *store.Object, given bool, after time.Duration) time.Time {
	switch {
	case given:
		return o.CreatedAt.Add(after)
	case (o.Label == "batch" || o.Label == "batch_output") && d.Limits.KeepBatchFiles > 0:
		return o.CreatedAt.Add(d.Limits.KeepBatchFiles)
	}
	return time.Time{}
}

func (f *form) blobs() []kept.Blob { return []kept.Blob{{Name: f.blob, Size: f.size}} }

// read reads a form and stores its file, of which left bytes have room.
func (f *form) read(q *kept.Request, organisation string, left int64) error {
	media, params, err := mime.ParseMediaType(q.HTTP.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" || params["boundary"] == "" {
		return apierr.New(apierr.Invalid, "send the file as multipart/form-data with the fields file and purpose, not as %.60q", media).WithParam("content-type")
	}
	parts := multipart.NewReader(q.HTTP.Body, params["boundary"])
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return incomplete(err)
		}
		if n >= maxFields {
			return apierr.New(apierr.Invalid, "the form has more than %d fields", maxFields)
		}
		if part.FormName() == "file" {
			err = f.store(q, organisation, part, left)
		} else {
			err = f.field(part)
		}
		if err != nil {
			return err
		}
	}
	return f.check(q)
}

// incomplete returns the error for a form that ends early or is malformed. An error of
// limits in time or size stays.
func incomplete(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", e.Limit)
	}
	return apierr.New(apierr.Invalid,
		"the form is incomplete or malformed; nothing was stored, send it again").WithCode("body_incomplete").WithCause(err)
}

// store stores the file of the form.
func (f *form) store(q *kept.Request, organisation string, part *multipart.Part, left int64) error {
	if f.stored {
		return apierr.New(apierr.Invalid, "the form has two fields named file; send one file").WithParam("file")
	}
	name, err := filename(part)
	if err != nil {
		return err
	}
	sum := sha256.New()
	limit := min(q.Deps.Limits.FileBytes, left)
	body := &limited{r: io.TeeReader(part, sum), left: limit}
	size, err := q.Deps.Contents.Put(q.HTTP.Context(), organisation, f.blob, body)
	switch {
	case body.over && left < q.Deps.Limits.FileBytes:
		return q.NoRoom(q.Deps.Limits.WorkspaceBytes - left)
	case body.over:
		return apierr.New(apierr.TooLarge, "the file is larger than the limit of %d bytes",
			q.Deps.Limits.FileBytes).WithParam("file").WithCode("file_too_large")
	case body.err != nil:
		return incomplete(body.err)
	case err != nil:
		return kept.StoreFailed(err)
	}
	f.stored, f.filename, f.size, f.sha256 = true, name, size, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// filename returns the name of the file in a part, without folders.
func filename(part *multipart.Part) (string, error) {
	name := part.FileName()
	if i := strings.LastIndexByte(name, '\\'); i >= 0 {
		name = name[i+1:]
	}
	if name = path.Base(name); name == "." || name == "/" || name == ".." {
		return "", apierr.New(apierr.Invalid,
			"the field file has no file name; send it with a name, such as lines.jsonl").WithParam("file").WithCode("invalid_filename")
	}
	if !validName(name) {
		return "", apierr.New(apierr.Invalid, "the name of the file must be at most %d bytes of text without control characters", maxFilename).
			WithParam("file").WithCode("invalid_filename")
	}
	return name, nil
}

func validName(name string) bool {
	return len(name) <= maxFilename && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// field reads another field of the form.
func (f *form) field(part *multipart.Part) error {
	b, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if err != nil {
		return incomplete(err)
	}
	name, value := part.FormName(), string(b)
	if len(b) > maxField {
		return apierr.New(apierr.Invalid, "the field %.60q is longer than %d bytes", name, maxField).WithParam(name)
	}
	switch name {
	case "purpose":
		f.purpose = value
	case "expires_after[anchor]":
		f.anchor = value
	case "expires_after[seconds]":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return expiryError()
		}
		f.hasExpiry, f.expiry = true, time.Duration(min(n, int64(mostExpiry/time.Second)+1))*time.Second
	default:
		return apierr.New(apierr.Invalid, "the field %.60q is not supported; send file, purpose and expires_after",
			name).WithParam(name).WithCode("unknown_parameter")
	}
	return nil
}

func expiryError() error {
	return apierr.New(apierr.Invalid, "expires_after[seconds] must be an integer from %d to %d", int(leastExpiry/time.Second),
		int(mostExpiry/time.Second)).
		WithParam("expires_after")
}

// check checks a form that has been read.
func (f *form) check(q *kept.Request) error {
	switch {
	case !f.stored:
		return apierr.New(apierr.Invalid, "the form has no field file").WithParam("file").WithCode("missing_required_parameter")
	case f.purpose == "":
		return apierr.New(apierr.Invalid, "the form has no field purpose; it is one of %s", strings.Join(purposes, ", ")).
			WithParam("purpose").WithCode("missing_required_parameter")
	case !slices.Contains(purposes, f.purpose):
		return apierr.New(apierr.Invalid, "purpose must be one of %s, not %.40q", strings.Join(purposes, ", "), f.purpose).WithParam("purpose")
	case f.hasExpiry && (f.expiry < leastExpiry || f.expiry > mostExpiry):
		return expiryError()
	case f.anchor != "" && f.anchor != "created_at":
		return apierr.New(apierr.Invalid, "expires_after[anchor] must be created_at, not %.40q", f.anchor).WithParam("expires_after")
	case (f.anchor != "") != f.hasExpiry:
		return apierr.New(apierr.Invalid, "expires_after needs both fields, expires_after[anchor] and expires_after[seconds]").WithParam("expires_after")
	case f.purpose == "batch" && f.size > q.Deps.Limits.BatchFileBytes:
		return apierr.New(apierr.TooLarge, "the file has %d bytes; the limit of files with the purpose batch is %d", f.size,
			q.Deps.Limits.BatchFileBytes).
			WithParam("file").WithCode("file_too_large")
	case f.size == 0:
		return apierr.New(apierr.Invalid, "the file is empty").WithParam("file").WithCode("file_empty")
	}
	return nil
}

// limited fails a read beyond left bytes.
type limited struct {
	r    io.Reader
	left int64
	over bool
	err  error // of the reader, except for the end
}

var errOver = errors.New("the file is larger than its limit")

// Read implements [io.Reader].
func (l *limited) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		l.over = true
		return 0, errOver
	}
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}

// content serves the content of a file, in ranges too.
func content(q *kept.Request, id string) error {
	o, err := q.Find(store.ObjectFile, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectFile)
	case err != nil:
		return err
	case !hasContent(&o):
		return relay(q, &o)
	}
	d, err := DetailsOf(&o)
	if err != nil {
		return err
	}
	body, err := q.Deps.Open(q.HTTP.Context(), &o)
	if err != nil {
		return err
	}
	defer body.Close()
	h := q.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", disposition(d.Filename))
	h.Set("X-Content-Type-Options", "nosniff")
	tag := d.SHA256
	if tag == "" {
		tag = o.ID
	}
	h.Set("Etag", `"`+tag+`"`)
	http.ServeContent(q.W, q.HTTP, "", o.CreatedAt, body)
	return nil
}

// disposition returns the header that saves a file under its name, whatever is in that.
func disposition(name string) string {
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" {
		return v
	}
	return fmt.Sprintf("attachment; filename=%q", "file")
}
