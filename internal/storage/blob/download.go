package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Get implements [Store].
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := b.GetRange(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// GetRange implements [Store]. If a connection breaks, the reader continues with another
// one, unless the file has changed.
func (b *Bucket) GetRange(ctx context.Context, name string, offset, length int64) (*Reader, error) {
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	if length == 0 {
		return b.getNothing(ctx, name)
	}
	if length > math.MaxInt64-offset {
		length = -1
	}
	d := &download{at: offset, etag: anyVersion, alive: ctx.Err, request: func(at, length int64) (*http.Response, func(), error) {
		ctx, cancel := context.WithCancel(ctx)
		resp, err := b.send(ctx, call{method: http.MethodGet, key: b.prefix + name, header: rangeHeader(at, length)})
		return resp, cancel, err
	}}
	size, err := d.open(length)
	if f, ok := errors.AsType[*Error](err); ok && f.status == http.StatusRequestedRangeNotSatisfiable {
		return b.getNothing(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	d.end = offset + clamp(size, offset, length)
	return &Reader{d, size}, nil
}

// getNothing returns an empty range.
func (b *Bucket) getNothing(ctx context.Context, name string) (*Reader, error) {
	size, err := b.Size(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Reader{io.NopCloser(strings.NewReader("")), size}, nil
}

// rangeHeader returns the header of a request for length bytes, or -1 for all.
func rangeHeader(at, length int64) http.Header {
	switch {
	case length >= 0:
		return http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", at, at+length-1)}}
	case at > 0:
		return http.Header{"Range": {fmt.Sprintf("bytes=%d-", at)}}
	}
	return nil
}

// Size implements [Store].
func (b *Bucket) Size(ctx context.Context, name string) (int64, error) {
	if err := check(name); err != nil {
		return 0, err
	}
	return b.size(ctx, b.prefix+name)
}

// size returns the size of the file with a key.
func (b *Bucket) size(ctx context.Context, key string) (int64, error) {
	resp, err := b.send(ctx, call{method: http.MethodHead, key: key})
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if resp.ContentLength < 0 {
		return 0, errNotS3(errors.New("the size of a file is missing"))
	}
	return resp.ContentLength, nil
}

// download reads a range of a file, with several requests if connections break.
type download struct {
	request func(at, length int64) (resp *http.Response, cancel func(), err error)
	alive   func() error  // returns an error if the reader was canceled
	body    io.ReadCloser // nil after it broke
	cancel  func()        // ends the request of body
	etag    string        // of the version that is read
	at, end int64         // positions of the next byte, and of the first byte after the range

	breaks int   // how often a connection broke since much was read
	broken int64 // the position at which the first of them broke
}

// readTimeout is the time limit for a read of a download.
const readTimeout = time.Minute

// anyVersion is the ETag of a download before its first response.
const anyVersion = "*"

// muchRead is how many bytes a download must read before it may break as often as one
// that begins.
const muchRead = 1 << 20

// open sends a request for length bytes from the current position, and returns the size
// of the file.
func (d *download) open(length int64) (size int64, err error) {
	resp, cancel, err := d.request(d.at, length)
	if err != nil {
		cancel()
		return 0, err
	}
	start, size := int64(0), resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		start, size, err = parseContentRange(resp.Header.Get("Content-Range"))
	}
	etag := resp.Header.Get("ETag")
	switch {
	case err == nil && (size < 0 || start != 0 && start != d.at):
		err = errNotS3(errors.New("the range of a response is not the one of its request"))
	case err == nil && d.etag != anyVersion && d.etag != etag:
		err = fault(nil, "the file was replaced while it was read")
	case err == nil && start != d.at: // it is 0: the server ignores ranges
		if _, err = io.CopyN(io.Discard, resp.Body, d.at); err == io.EOF {
			err = nil
		} else if err != nil {
			err = fault(err, "the bucket cannot be reached")
		}
	}
	if err != nil {
		resp.Body.Close()
		cancel()
		return 0, err
	}
	d.body, d.cancel, d.etag = resp.Body, cancel, etag
	return size, nil
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (n int, err error) {
	if d.at == d.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), d.end-d.at)]
	for n == 0 && len(p) > 0 {
		if d.body == nil {
			if _, err := d.open(d.end - d.at); err != nil {
				return 0, err
			}
		}
		timer := time.AfterFunc(readTimeout, d.cancel)
		n, err = d.body.Read(p)
		timer.Stop()
		if d.at += int64(n); err != nil && d.at < d.end {
			if err := d.noteBreak(err); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// noteBreak closes a broken connection, and returns an error if another one must not be
// tried.
func (d *download) noteBreak(cause error) error {
	d.Close() // it is broken already
	if err := d.alive(); err != nil {
		return err
	}
	if d.breaks == 0 || d.at-d.broken >= muchRead {
		d.breaks, d.broken = 0, d.at
	}
	if d.breaks++; d.breaks >= tries || d.etag == "" { // without it, it may be another version
		return fault(cause, "the bucket cannot be reached")
	}
	return nil
}

// Close implements io.Closer.
func (d *download) Close() error {
	if d.body == nil {
		return nil
	}
	err := d.body.Close()
	d.cancel()
	d.body = nil
	return err
}

// parseContentRange returns the position of the first byte of a range, and the size of
// the complete file.
func parseContentRange(text string) (start, size int64, err error) {
	span, total, _ := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, _, _ := strings.Cut(span, "-")
	if start, err = strconv.ParseInt(first, 10, 64); err == nil {
		size, err = strconv.ParseInt(total, 10, 64)
	}
	if err != nil || start < 0 || size <= start {
		return 0, 0, errNotS3(fmt.Errorf("the range of a response is %.60q", text))
	}
	return start, size, nil
}
