package blob

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Limits of uploads.
const (
	partSize = 8 << 20 // held in memory while it is sent
	maxParts = 10_000
	// smallPart is the memory that a part has at first; partSize is a multiple of it.
	smallPart = 32 << 10
	tries     = 4
)

// aborting is the time limit for aborting a failed upload.
const aborting = 10 * time.Second

// upload is a multipart upload.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
type upload struct {
	*Bucket
	key, id string
	parts   []partSent
}

type partSent struct {
	Number int    `xml:"PartNumber"`
	ETag   string `xml:"ETag"`
}

// putParts uploads first, which is full, and the rest of r. All parts reuse the memory
// of first.
func (b *Bucket) putParts(ctx context.Context, key string, r io.Reader, first []byte) (size int64, err error) {
	a, err := b.ask(ctx, http.MethodPost, key, url.Values{"uploads": {""}}, nil)
	if err != nil {
		return 0, err
	}
	var begun struct {
		ID string `xml:"UploadId"`
	}
	if err := xml.Unmarshal(a.text, &begun); err != nil || begun.ID == "" {
		return 0, errNotS3(err)
	}
	u := &upload{Bucket: b, key: key, id: begun.ID}
	for n := len(first); n > 0 && err == nil; {
		if err = u.send(ctx, first[:n]); err == nil {
			size += int64(n)
			n, err = readFull(r, first)
		}
	}
	if err == nil {
		err = u.complete(ctx, size)
	}
	if err != nil {
		b.abort(ctx, key, u.id)
		return 0, err
	}
	return size, nil
}

func (u *upload) send(ctx context.Context, part []byte) error {
	number := len(u.parts) + 1
	if number > maxParts {
		return fault(nil, "the file needs more than %d parts", maxParts)
	}
	a, err := u.ask(ctx, http.MethodPut, u.key, url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {u.id}}, part)
	if err != nil {
		return err
	}
	u.parts = append(u.parts, partSent{number, a.etag})
	return nil
}

// complete combines the parts to a file of a size.
func (u *upload) complete(ctx context.Context, size int64) error {
	text, err := xml.Marshal(struct {
		XMLName xml.Name   `xml:"CompleteMultipartUpload"`
		Parts   []partSent `xml:"Part"`
	}{Parts: u.parts})
	if err != nil {
		return err
	}
	a, err := u.ask(ctx, http.MethodPost, u.key, url.Values{"uploadId": {u.id}}, text)
	if f, ok := errors.AsType[*Error](err); ok && f.status == http.StatusNotFound {
		// The upload is gone if the response to an earlier try was lost.
		if n, e := u.size(ctx, u.key); e == nil && n == size {
			return nil
		}
	}
	if err != nil {
		return err
	}
	// A response that begins as a success may still contain an error.
	// https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html
	var said struct{ XMLName xml.Name }
	if xml.Unmarshal(a.text, &said) == nil && said.XMLName.Local == "Error" {
		return serverError(http.StatusOK, a.text)
	}
	return nil
}

// abort aborts an upload if the server can be reached.
func (b *Bucket) abort(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aborting)
	defer cancel()
	b.ask(ctx, http.MethodDelete, key, url.Values{"uploadId": {id}}, nil)
}

// abortAll aborts all incomplete uploads of a file.
func (b *Bucket) abortAll(ctx context.Context, key string) {
	list, err := b.listUploads(ctx, key, "", "")
	if err != nil {
		return
	}
	for _, u := range list.Uploads {
		if u.Key == key {
			b.abort(ctx, key, u.UploadId)
		}
	}
}
