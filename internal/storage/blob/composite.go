package blob

import (
	"context"
	"errors"
	"io"
)

// Composite is a file that consists of several files of a store, one after the other, such
// as the parts of an upload. Nothing is copied. Deleting the files is the caller's task.
type Composite struct {
	Files Store
	Parts []Part
}

// Part is a file that another one consists of.
type Part struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // in bytes, as returned by Put
}

// Size returns the size of the file in bytes.
func (c Composite) Size() int64 {
	size := int64(0)
	for _, p := range c.Parts {
		size += p.Size
	}
	return size
}

// GetRange is [Store.GetRange] for the file. If the size of a part is not the one of
// Parts, reading returns an error.
func (c Composite) GetRange(ctx context.Context, offset, length int64) (*Reader, error) {
	if offset < 0 || length < -1 {
		return nil, errors.New("blob: the range is not valid")
	}
	size := c.Size()
	rest := clamp(size, offset, length)
	parts := c.Parts
	for len(parts) > 0 && offset >= parts[0].Size {
		offset -= parts[0].Size
		parts = parts[1:]
	}
	r := &compositeReader{parts: parts, offset: offset, rest: rest, get: func(p Part, offset, length int64) (*Reader, error) {
		return c.Files.GetRange(ctx, p.Name, offset, length)
	}}
	if rest > 0 {
		if err := r.next(); err != nil {
			r.Close()
			return nil, err
		}
	}
	return &Reader{r, size}, nil
}

// compositeReader reads a range of a file in parts. One part is open at a time.
type compositeReader struct {
	get    func(p Part, offset, length int64) (*Reader, error)
	parts  []Part // after the open one
	offset int64  // in the first of parts
	rest   int64  // bytes of the range that are not read yet
	open   *Reader
	left   int64 // bytes of the range in open that are not read yet
}

// next opens the next part of the range.
func (r *compositeReader) next() error {
	p := r.parts[0]
	n := min(p.Size-r.offset, r.rest)
	if n > 0 {
		open, err := r.get(p, r.offset, n)
		if err != nil {
			return err
		}
		if r.open = open; open.Size != p.Size {
			return fault(nil, "a part of the file has another size than when it was stored")
		}
	}
	r.parts, r.offset, r.left = r.parts[1:], 0, n
	return nil
}

// Read implements io.Reader.
func (r *compositeReader) Read(p []byte) (int, error) {
	for r.left == 0 {
		if r.rest == 0 {
			return 0, io.EOF
		}
		if err := r.Close(); err != nil {
			return 0, err
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n, err := r.open.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.rest -= int64(n)
	switch {
	case err == io.EOF && r.left > 0:
		return n, io.ErrUnexpectedEOF
	case err == io.EOF:
		return n, nil
	}
	return n, err
}

// Close implements io.Closer.
func (r *compositeReader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}
