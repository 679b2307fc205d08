// Package contentcoding decodes HTTP bodies by their Content-Encoding: gzip,
// deflate, br, zstd, and two of them on top of each other.
//
// A [Reader] decodes as it is read and holds no more than the window of each
// coding, at most 8 MB. It guarantees that a body which decodes to more than its
// limit, or to far more than text compresses to, ends in [ErrTooLarge]. It does
// not compress, and it does not choose what a provider is asked for.
package contentcoding

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

var (
	// ErrUnknown is the error for codings that this package does not decode.
	ErrUnknown = errors.New("unknown content coding")
	// ErrCorrupt is the error for bodies that are not in their coding, or end
	// within it.
	ErrCorrupt = errors.New("the body is not in its content coding")
	// ErrTooLarge is the error for bodies that decode to more than is allowed.
	ErrTooLarge = errors.New("the compressed body decodes to more than the limit")
)

const (
	// maxCodings is how many codings of one body are decoded.
	maxCodings = 2
	// A body that decodes to more than harmless bytes and to more than swelling
	// times its size is refused: text compresses to about a tenth.
	harmless = 1 << 20
	swelling = 100
	// maxWindow is the largest window of zstd in HTTP.
	// https://www.rfc-editor.org/rfc/rfc9659
	maxWindow = 8 << 20
	// maxBrotli is the number of bits of the largest window of br.
	maxBrotli = 22
)

// codings returns the names in a Content-Encoding, in the order of its list.
func codings(header string) (list []string) {
	for name := range strings.SplitSeq(header, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "" && name != "identity" {
			list = append(list, name)
		}
	}
	return list
}

// IsIdentity reports whether a body with this Content-Encoding is not encoded.
func IsIdentity(header string) bool {
	return header == "" || len(codings(header)) == 0
}

// Memory returns the bytes that a [Reader] of a body with this Content-Encoding may hold: its
// windows.
func Memory(header string) (n int) {
	for _, name := range codings(header) {
		switch name {
		case "zstd":
			n += maxWindow
		case "br":
			n += 1 << maxBrotli
		default:
			n += 64 << 10
		}
	}
	return n
}

// Reader reads a decoded body. It is for one goroutine.
type Reader struct {
	io.Reader
	release []func()
}

// NewReader returns a reader of src without the codings of a Content-Encoding.
// It may read the beginning of src. limit bounds the decoded body in bytes. Errors
// of src are returned as they are. The caller closes the reader, and src.
func NewReader(header string, src io.Reader, limit int64) (*Reader, error) {
	list := codings(header)
	if len(list) > maxCodings {
		return nil, fmt.Errorf("%w: %d codings, at most %d are decoded", ErrUnknown, len(list), maxCodings)
	}
	r := &Reader{Reader: src}
	for i := len(list) - 1; i >= 0; i-- {
		packed := &countingReader{Reader: r.Reader}
		plain, err := r.open(list[i], packed)
		if err != nil {
			r.Close()
			return nil, packed.explain(err)
		}
		r.Reader = &limitedReader{Reader: plain, packed: packed, limit: limit}
	}
	return r, nil
}

// open returns a decoder of one coding.
func (r *Reader) open(name string, src io.Reader) (io.Reader, error) {
	switch name {
	case "gzip", "x-gzip":
		return gzip.NewReader(src)
	case "deflate":
		return openDeflate(src)
	case "br":
		return openBrotli(src)
	case "zstd":
		d, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		r.release = append(r.release, d.Close)
		return d, nil
	}
	return nil, fmt.Errorf("%w %.40q", ErrUnknown, name)
}

// openBrotli refuses windows of more than 4 MB, the largest that encoders use unless
// they are told to: a decoder holds one, however short the body is.
// https://www.rfc-editor.org/rfc/rfc7932#section-9.1
func openBrotli(src io.Reader) (io.Reader, error) {
	ahead := bufio.NewReader(src)
	head, err := ahead.Peek(1)
	if err != nil {
		return nil, err
	}
	if bits := 17 + head[0]>>1&7; head[0]&1 == 1 && bits > maxBrotli {
		return nil, fmt.Errorf("%w: a br window of %d bits, at most %d are read", ErrTooLarge, bits, maxBrotli)
	}
	return brotli.NewReader(ahead), nil
}

// openDeflate reads the zlib format, as the name deflate means in HTTP, and the bare
// deflate that some servers send under it.
func openDeflate(src io.Reader) (io.Reader, error) {
	ahead := bufio.NewReader(src)
	head, err := ahead.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(ahead)
	}
	return flate.NewReader(ahead), nil
}

// Close releases the decoders. Src stays open.
func (r *Reader) Close() error {
	for _, f := range r.release {
		f()
	}
	r.release = nil
	return nil
}

// limitedReader reads a decoded body within its limits.
type limitedReader struct {
	io.Reader
	packed *countingReader
	read   int64
	limit  int64
}

func (b *limitedReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	if b.read > b.limit || b.read > harmless && b.read > swelling*b.packed.read {
		return 0, ErrTooLarge
	}
	return n, b.packed.explain(err)
}

// countingReader counts what is read of an encoded body, and keeps its error.
type countingReader struct {
	io.Reader
	read int64
	err  error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// explain returns what a decoder's error means: the error of the encoded body, or
// that it can't be decoded.
func (c *countingReader) explain(err error) error {
	switch {
	case err == nil, err == io.EOF && c.read > 0, errors.Is(err, ErrTooLarge), errors.Is(err, ErrUnknown), errors.Is(err, ErrCorrupt):
		return err
	case c.err != nil:
		return c.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
