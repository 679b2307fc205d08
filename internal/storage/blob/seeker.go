package blob

import (
	"errors"
	"io"
)

// Seeker reads a file at any position, for http.ServeContent. The first read, and the
// first after a seek, opens the range from there to the end. It must be closed, and be
// used by one goroutine at a time.
type Seeker struct {
	size int64
	get  func(offset, length int64) (*Reader, error)
	at   int64   // position of the next byte
	open *Reader // at this position; nil if it must be opened
}

var _ io.ReadSeekCloser = (*Seeker)(nil)

// NewSeeker returns a seeker at the beginning of a file of a size in bytes. Get is
// [Store.GetRange] with the context and the name of the file, or [Composite.GetRange] with
// the context.
func NewSeeker(size int64, get func(offset, length int64) (*Reader, error)) *Seeker {
	return &Seeker{size: size, get: get}
}

// Read implements io.Reader.
func (s *Seeker) Read(p []byte) (n int, err error) {
	if s.open == nil {
		if s.open, err = s.get(s.at, -1); err != nil {
			return 0, err
		}
	}
	n, err = s.open.Read(p)
	s.at += int64(n)
	return n, err
}

// Seek implements io.Seeker. It reads nothing.
func (s *Seeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, errors.New("blob: the position is before the beginning of the file")
	}
	if offset == s.at {
		return offset, nil
	}
	err := s.Close()
	s.at = offset
	return offset, err
}

// Close implements io.Closer.
func (s *Seeker) Close() error {
	if s.open == nil {
		return nil
	}
	err := s.open.Close()
	s.open = nil
	return err
}
