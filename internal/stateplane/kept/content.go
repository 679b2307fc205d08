package kept

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"modelgate/internal/store"
)

// Blob is a part of the content of a kept file.
type Blob struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Content is what a kept file has in it: parts in their order. The record of every kept
// file has it.
type Content struct {
	Blobs []Blob `json:"blobs,omitempty"`
}

// Size returns the number of bytes.
func (c *Content) Size() (n int64) {
	for _, b := range c.Blobs {
		n += b.Size
	}
	return n
}

// ContentOf returns the content of a kept file.
func ContentOf(o *store.Object) (c Content, err error) {
	err = json.Unmarshal(o.Data, &c)
	return c, err
}

// DeleteContent deletes the content of a kept file.
func (d *Deps) DeleteContent(ctx context.Context, o *store.Object) error {
	c, err := ContentOf(o)
	if err != nil {
		return err
	}
	return d.DeleteBlobs(ctx, c.Blobs)
}

// DeleteBlobs deletes parts of contents.
func (d *Deps) DeleteBlobs(ctx context.Context, blobs []Blob) (err error) {
	for _, b := range blobs {
		err = errors.Join(err, d.Contents.Delete(context.WithoutCancel(ctx), b.Name))
	}
	return err
}

// Open returns a reader of a kept file. The caller closes it.
func (d *Deps) Open(ctx context.Context, o *store.Object) (*Reader, error) {
	c, err := ContentOf(o)
	if err != nil {
		return nil, err
	}
	return &Reader{deps: d, ctx: ctx, organisation: o.Organisation, content: c, size: c.Size()}, nil
}

// Reader reads a kept file, from any position. It opens a part when it is read.
type Reader struct {
	deps         *Deps
	ctx          context.Context // of the request or the job that reads
	organisation string
	content      Content
	size, at     int64
	open         io.ReadCloser // at position at; nil if nothing is open
	left         int64         // of open
}

// Size returns the number of bytes of the file.
func (r *Reader) Size() int64 { return r.size }

// Read implements [io.Reader].
func (r *Reader) Read(b []byte) (int, error) {
	for {
		if r.open != nil && r.left > 0 {
			n, err := r.open.Read(b)
			r.at, r.left = r.at+int64(n), r.left-int64(n)
			if err == io.EOF && r.left > 0 {
				err = io.ErrUnexpectedEOF
			}
			if err == io.EOF {
				err = nil
			}
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		if err := r.Close(); err != nil {
			return 0, err
		}
		if r.at >= r.size {
			return 0, io.EOF
		}
		if err := r.openPart(); err != nil {
			return 0, err
		}
	}
}

// openPart opens the part with the position of the reader.
func (r *Reader) openPart() error {
	skip := r.at
	for _, b := range r.content.Blobs {
		if skip >= b.Size {
			skip -= b.Size
			continue
		}
		body, err := r.deps.Contents.Get(r.ctx, r.organisation, b.Name, skip, -1)
		if err != nil {
			return err
		}
		r.open, r.left = body, b.Size-skip
		return nil
	}
	return io.ErrUnexpectedEOF
}

// Seek implements [io.Seeker].
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("kept: a position before the beginning of a file")
	}
	if offset != r.at {
		if err := r.Close(); err != nil {
			return 0, err
		}
		r.at = offset
	}
	return offset, nil
}

// Close implements [io.Closer].
func (r *Reader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open, r.left = nil, 0
	return err
}
