package contentcoding_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"modelgate/internal/format/contentcoding"
)

// encoders write a coding.
var encoders = map[string]func(w io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"x-gzip":  func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd":    func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
}

// encode applies the codings of a Content-Encoding header in its order.
func encode(t testing.TB, header string, body []byte) []byte {
	t.Helper()
	for name := range strings.SplitSeq(header, ",") {
		var out bytes.Buffer
		w := encoders[strings.TrimSpace(name)](&out)
		_, err := w.Write(body)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		body = out.Bytes()
	}
	return body
}

func decode(header string, body []byte, limit int64) ([]byte, error) {
	r, err := contentcoding.NewReader(header, bytes.NewReader(body), limit)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

const text = `{"choices":[{"message":{"content":"Hello"}}],"usage":{"total_tokens":3}}`

func TestEveryCodingIsDecoded(t *testing.T) {
	for _, header := range []string{"gzip", "x-gzip", "deflate", "br", "zstd", "gzip, br", "br,gzip", "zstd, gzip"} {
		t.Run(header, func(t *testing.T) {
			got, err := decode(header, encode(t, header, []byte(text)), 1<<20)
			if string(got) != text || err != nil {
				t.Errorf("decoded %q, %v", got, err)
			}
		})
	}
	for _, header := range []string{"", "identity", " Identity , "} {
		if got, err := decode(header, []byte(text), 1); string(got) != text || err != nil || !contentcoding.IsIdentity(header) {
			t.Errorf("decode(%q) = %q, %v", header, got, err)
		}
	}
}

func TestBareDeflateIsDecoded(t *testing.T) {
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.DefaultCompression)
	io.WriteString(w, text)
	w.Close()
	if got, err := decode("deflate", out.Bytes(), 1<<20); string(got) != text || err != nil {
		t.Errorf("decoded %q, %v", got, err)
	}
}

func TestBombsEndInAnError(t *testing.T) {
	zeros, mixed := make([]byte, 8<<20), bytes.Repeat([]byte(text), 1<<10)
	for _, header := range []string{"gzip", "deflate", "br", "zstd", "gzip, gzip", "br, zstd"} {
		t.Run(header, func(t *testing.T) {
			if got, err := decode(header, encode(t, header, zeros), 64<<20); !errors.Is(err, contentcoding.ErrTooLarge) || len(got) > 2<<20 {
				t.Errorf("8 MB of zeros: %d bytes and the error %v, want ErrTooLarge after about 1 MB", len(got), err)
			}
			if _, err := decode(header, encode(t, header, mixed), 1<<10); !errors.Is(err, contentcoding.ErrTooLarge) {
				t.Errorf("a body over the limit: the error %v, want ErrTooLarge", err)
			}
		})
	}
}

func TestBodiesThatAreNotTheirCodingEndInAnError(t *testing.T) {
	for _, header := range []string{"gzip", "deflate", "br", "zstd"} {
		t.Run(header, func(t *testing.T) {
			packed := encode(t, header, bytes.Repeat([]byte(text), 50))
			for name, body := range map[string][]byte{"cut": packed[:len(packed)/2], "plain": []byte(text), "empty": {}} {
				if got, err := decode(header, body, 1<<20); !errors.Is(err, contentcoding.ErrCorrupt) {
					t.Errorf("%s: %d bytes and the error %v, want ErrCorrupt", name, len(got), err)
				}
			}
		})
	}
}

func TestUnknownAndManyCodingsAreRefused(t *testing.T) {
	for _, header := range []string{"compress", "gzip, rot13", "gzip, gzip, gzip", "aes128gcm"} {
		if _, err := decode(header, encode(t, "gzip", []byte(text)), 1<<20); !errors.Is(err, contentcoding.ErrUnknown) {
			t.Errorf("%s: the error %v, want ErrUnknown", header, err)
		}
	}
}

func TestLargeBrotliWindowsAreRefused(t *testing.T) {
	for bits, fits := range map[int]bool{22: true, 23: false, 24: false} {
		var out bytes.Buffer
		w := brotli.NewWriterOptions(&out, brotli.WriterOptions{Quality: 5, LGWin: bits})
		w.Write([]byte(text)) // short, so that nothing but its window is too large
		w.Close()
		got, err := decode("br", out.Bytes(), 64<<20)
		if fits && (string(got) != text || err != nil) || !fits && !errors.Is(err, contentcoding.ErrTooLarge) {
			t.Errorf("a window of %d bits: decoded %q, %v", bits, got, err)
		}
	}
}

// A frame may say any window and any size before its content, for which a decoder would
// make room. https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1.1
func TestZstdThatClaimsALargeSizeIsRefused(t *testing.T) {
	block := append([]byte{byte(len(text)<<3&0xff | 1), byte(len(text) >> 5), 0}, text...) // the last one, not compressed
	for _, tt := range []struct {
		name   string
		header []byte
		fits   bool
	}{
		{"a window of 8 MB", []byte{0, 13 << 3}, true},
		{"a window of 9 MB", []byte{0, 13<<3 | 1}, false},
		{"a window of 16 MB", []byte{0, 14 << 3}, false},
		{"a window of 1 TB", []byte{0, 30 << 3}, false},
		{"one segment of 10 GB", binary.LittleEndian.AppendUint64([]byte{0xe0}, 10<<30), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode("zstd", slices.Concat([]byte{0x28, 0xb5, 0x2f, 0xfd}, tt.header, block), 64<<20)
			if tt.fits && (string(got) != text || err != nil) || !tt.fits && !errors.Is(err, contentcoding.ErrTooLarge) {
				t.Errorf("decoded %q, %v", got, err)
			}
		})
	}
}

func TestErrorsOfTheSourceAreKept(t *testing.T) {
	broken := errors.New("connection reset")
	for header := range encoders {
		packed := encode(t, header, bytes.Repeat([]byte(text), 50))
		src := io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), failingReader{broken})
		r, err := contentcoding.NewReader(header, src, 1<<20)
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if !errors.Is(err, broken) {
			t.Errorf("%s: the error %v, want that of the connection", header, err)
		}
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func FuzzReader(f *testing.F) {
	for header := range encoders {
		f.Add(header, encode(f, header, []byte(text)))
	}
	f.Add("gzip, br", []byte("x"))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		const limit = 1 << 16
		if got, err := decode(header, body, limit); len(got) > limit+512 && !contentcoding.IsIdentity(header) {
			t.Errorf("decode(%q) gave %d bytes, %v; the limit is %d", header, len(got), err, limit)
		}
	})
}
