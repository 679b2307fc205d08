package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
)

// maxField is the maximum length of a form field.
const maxField = 64 << 10

// An upload is one multipart form, read as a stream.
type upload struct {
	fields map[string]string
	found  bool // there was a file
	name   string
	mime   string // as sent; empty if it was not
	size   int64
	sum    string
	kept   []byte // the stored beginning of the content
}

// readUpload reads a multipart form and stores the first bytes of its file, up
// to keep. It returns false if the request is over.
func (x *exchange) readUpload(keep int64) (up upload, ok bool) { return x.readForm(keep, "file") }

// readForm reads a multipart form whose file has a name of its own.
func (x *exchange) readForm(keep int64, file string) (up upload, ok bool) {
	up.fields = make(map[string]string)
	form, err := x.r.MultipartReader()
	if err != nil {
		x.refuse(http.StatusBadRequest, providerError{kind: invalidRequest, message: "the body must be multipart/form-data with a boundary"})
		return up, false
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			// The rest after the form must be read too, so that net/http
			// notices if the client disconnects.
			_, err = io.Copy(io.Discard, x.r.Body)
			if err != nil {
				x.recordDisconnect()
			}
			return up, err == nil
		}
		if err == nil {
			err = up.read(part, keep, file)
		}
		if err != nil {
			x.refuse(http.StatusBadRequest, providerError{kind: invalidRequest, message: "the form cannot be read: " + err.Error()})
			return up, false
		}
	}
}

func (up *upload) read(part *multipart.Part, keep int64, file string) error {
	if part.FileName() == "" && part.FormName() != file {
		value, err := io.ReadAll(io.LimitReader(part, maxField))
		up.fields[part.FormName()] = string(value)
		return err
	}
	up.found, up.name, up.mime = true, part.FileName(), part.Header.Get("Content-Type")
	return up.readContent(part, keep)
}

// readContent reads the content of a file and stores its first bytes, up to
// keep.
func (up *upload) readContent(content io.Reader, keep int64) error {
	digest := sha256.New()
	both := io.TeeReader(content, digest)
	kept, err := io.ReadAll(io.LimitReader(both, keep))
	if err != nil {
		return err
	}
	rest, err := io.Copy(io.Discard, both)
	up.kept, up.size = kept, int64(len(kept))+rest
	up.sum = hex.EncodeToString(digest.Sum(nil))
	return err
}

func (up *upload) describe() string {
	return fmt.Sprintf("file %s of %d bytes, sha256 %s", up.name, up.size, up.sum)
}

func (up *upload) appendJSON(dst []byte) []byte {
	dst = appendRaw(append(dst, `{"name":"`...), up.name)
	dst = strconv.AppendInt(append(dst, `","size":`...), up.size, 10)
	return append(append(append(dst, `,"sha256":"`...), up.sum...), `"}`...)
}
