package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/base/secret"
	"modelgate/internal/storage/blob"
)

// Sizes of a stored file.
const (
	headerBytes = 88
	chunkBytes  = 64<<10 + 16
)

// sealedFile is a file that a test alters.
type sealedFile struct {
	folder blob.Folder
	store  blob.Sealed
	plain  []byte
}

func newSealedFile(t testing.TB, plain []byte) *sealedFile {
	t.Helper()
	f := &sealedFile{folder: blob.Folder(t.TempDir()), plain: plain}
	f.store = sealed(t, f.folder)
	f.put(t, "x", plain)
	return f
}

func (f *sealedFile) put(t testing.TB, name string, plain []byte) {
	t.Helper()
	if n, err := f.store.Put(t.Context(), name, bytes.NewReader(plain)); err != nil || n != int64(len(plain)) {
		t.Fatalf("Put = %d, %v", n, err)
	}
}

func (f *sealedFile) path(name string) string { return filepath.Join(string(f.folder), name) }

func (f *sealedFile) stored(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// read returns a range of the file after its stored form was replaced.
func (f *sealedFile) read(ctx context.Context, stored []byte, offset, length int64) ([]byte, error) {
	if err := os.WriteFile(f.path("x"), stored, 0o600); err != nil {
		return nil, err
	}
	got, _, err := readRange(rangesOf(ctx, f.store, "x"), offset, length)
	return got, err
}

// mustFail checks that a stored form is an error, and that the bytes before it are the
// right ones.
func (f *sealedFile) mustFail(t *testing.T, what string, stored []byte) {
	t.Helper()
	got, err := f.read(t.Context(), stored, 0, -1)
	if e, ok := errors.AsType[*blob.Error](err); !ok || e.Reason != "the stored file is damaged or was altered" {
		t.Errorf("%s: %d bytes, %v", what, len(got), err)
	}
	if !bytes.HasPrefix(f.plain, got) {
		t.Errorf("%s: bytes that were never stored were returned", what)
	}
}

func TestASealedFileShowsNothing(t *testing.T) {
	f := newSealedFile(t, bytes.Repeat([]byte("canary "), 30_000))
	first := f.stored(t, "x")
	if bytes.Contains(first, []byte("canary")) || len(first) != headerBytes+210_000+4*16 {
		t.Errorf("%d bytes are stored, and can be read", len(first))
	}
	f.put(t, "x", f.plain)
	again := f.stored(t, "x")
	if bytes.Equal(first[headerBytes:], again[headerBytes:]) || bytes.Equal(first[:headerBytes], again[:headerBytes]) {
		t.Error("the same data is sealed alike twice, so equal files can be recognised")
	}
	if link, err := f.store.Link(t.Context(), "x", "x", 1); link != "" || err != nil {
		t.Errorf("a sealed file has the address %q, %v", link, err)
	}
}

func TestEveryFlippedByteOfASealedFileIsAnError(t *testing.T) {
	f := newSealedFile(t, pattern(64<<10+500))
	stored := f.stored(t, "x")
	for i := range stored {
		if i > headerBytes+100 && i < headerBytes+chunkBytes-100 && i%997 != 0 {
			continue // a sample of the middle of a chunk
		}
		altered := bytes.Clone(stored)
		altered[i] ^= 1 << (i % 8)
		f.mustFail(t, fmt.Sprintf("byte %d", i), altered)
	}
}

func TestEveryCutOfASealedFileIsAnError(t *testing.T) {
	for _, n := range []int{0, 10, 64 << 10, 64<<10 + 10, 3 * 64 << 10} {
		f := newSealedFile(t, pattern(n))
		stored := f.stored(t, "x")
		for _, at := range []int{
			0, 1, 7, 8, headerBytes - 1, headerBytes, headerBytes + 1, headerBytes + 15, headerBytes + 16, headerBytes + 17,
			headerBytes + chunkBytes - 1, headerBytes + chunkBytes, headerBytes + chunkBytes + 16, headerBytes + 2*chunkBytes,
			len(stored) - 16, len(stored) - 1,
		} {
			if at < len(stored) {
				f.mustFail(t, fmt.Sprintf("%d of %d bytes", at, len(stored)), stored[:at])
			}
		}
		for _, more := range []int{1, 15, 16, 17, chunkBytes} {
			f.mustFail(t, fmt.Sprintf("%d more bytes", more), append(bytes.Clone(stored), make([]byte, more)...))
		}
	}
}

func TestChunksOfASealedFileHaveTheirPlace(t *testing.T) {
	f := newSealedFile(t, pattern(4*64<<10))
	stored := f.stored(t, "x")
	chunk := func(i int) []byte { return stored[headerBytes+i*chunkBytes : headerBytes+(i+1)*chunkBytes] }
	for what, order := range map[string][]int{
		"two are swapped": {1, 0, 2, 3}, "the last is first": {3, 0, 1, 2},
		"one is missing": {0, 2, 3}, "one is repeated": {0, 1, 1, 2, 3}, "the last is repeated": {0, 1, 2, 3, 3}, "only the last": {3}, "without the last": {0, 1, 2},
	} {
		altered := bytes.Clone(stored[:headerBytes])
		for _, i := range order {
			altered = append(altered, chunk(i)...)
		}
		f.mustFail(t, what, altered)
	}
	f.put(t, "x", f.plain) // the same data with another key
	again := f.stored(t, "x")
	f.mustFail(t, "the header of another version", append(bytes.Clone(again[:headerBytes]), stored[headerBytes:]...))
	f.mustFail(t, "a chunk of another version", append(bytes.Clone(again[:headerBytes+chunkBytes]), stored[headerBytes+chunkBytes:]...))
	f.put(t, "y", f.plain)
	f.mustFail(t, "another file", f.stored(t, "y"))
}

// counted counts what is read of a store.
type counted struct {
	blob.Store
	requests, bytes int64
}

// GetRange implements blob.Store.
func (s *counted) GetRange(ctx context.Context, name string, offset, length int64) (*blob.Reader, error) {
	s.requests++
	r, err := s.Store.GetRange(ctx, name, offset, length)
	if err == nil {
		if length < 0 || length > r.Size-offset {
			length = r.Size - offset
		}
		s.bytes += length
	}
	return r, err
}

func TestARangeCostsItsChunksOnly(t *testing.T) {
	f := newSealedFile(t, pattern(10*64<<10+5))
	const last = 16 + 5
	for _, tt := range []struct{ offset, length, requests, bytes int64 }{
		{0, 1, 1, headerBytes + chunkBytes},
		{0, 64 << 10, 1, headerBytes + chunkBytes},
		{0, 64<<10 + 1, 1, headerBytes + 2*chunkBytes},
		{5, 64 << 10, 1, headerBytes + 2*chunkBytes},
		{0, 0, 1, headerBytes},
		{0, -1, 1, headerBytes + 10*chunkBytes + last},
		{64 << 10, 1, 2, headerBytes + chunkBytes},
		{64 << 10, 64 << 10, 2, headerBytes + chunkBytes},
		{3*64<<10 - 1, 2, 2, headerBytes + 2*chunkBytes},
		{9 * 64 << 10, -1, 2, headerBytes + chunkBytes + last},
		{9 * 64 << 10, 1 << 41, 2, headerBytes + chunkBytes + last},
		{10 * 64 << 10, 5, 2, headerBytes + last},
		{100 * 64 << 10, -1, 2, headerBytes + last},
		{100 * 64 << 10, 5, 2, headerBytes + last},
	} {
		s := &counted{Store: f.folder}
		f.store.Files = s
		got, _, err := readRange(rangesOf(t.Context(), f.store, "x"), tt.offset, tt.length)
		if err != nil || !bytes.Equal(got, slice(f.plain, tt.offset, tt.length)) || s.requests != tt.requests || s.bytes > tt.bytes {
			t.Errorf("%d bytes at %d: %d requests for %d bytes, want %d for %d; %v", tt.length, tt.offset, s.requests, s.bytes, tt.requests, tt.bytes, err)
		}
	}
}

func TestSizesOfSealedFilesAreThoseOfTheirData(t *testing.T) {
	f := newSealedFile(t, nil)
	for stored, want := range map[int]int64{
		0: -1, headerBytes - 1: -1, headerBytes: -1, headerBytes + 15: -1, headerBytes + 16: 0, headerBytes + 17: 1, headerBytes + 1016: 1000,
		headerBytes + chunkBytes - 1: 64<<10 - 1, headerBytes + chunkBytes: 64 << 10, headerBytes + chunkBytes + 1: -1,
		headerBytes + chunkBytes + 16: -1, headerBytes + chunkBytes + 17: 64<<10 + 1, headerBytes + 3*chunkBytes: 3 * 64 << 10,
		headerBytes + 3*chunkBytes + 5: -1, headerBytes + 3*chunkBytes + 26: 3*64<<10 + 10,
	} {
		if err := os.WriteFile(f.path("x"), make([]byte, stored), 0o600); err != nil {
			t.Fatal(err)
		}
		if size, err := f.store.Size(t.Context(), "x"); err == nil && size != want || (err == nil) != (want >= 0) {
			t.Errorf("the size of %d stored bytes is %d, %v; want %d", stored, size, err, want)
		}
	}
}

func TestADamagedPartIsAnErrorOfTheFile(t *testing.T) {
	f := newSealedFile(t, pattern(100_000))
	f.put(t, "y", f.plain)
	stored := f.stored(t, "y")
	stored[headerBytes+chunkBytes] ^= 1 // in the second chunk
	if err := os.WriteFile(f.path("y"), stored, 0o600); err != nil {
		t.Fatal(err)
	}
	c := blob.Composite{Files: f.store, Parts: []blob.Part{{Name: "x", Size: 100_000}, {Name: "y", Size: 100_000}}}
	r, err := c.GetRange(t.Context(), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := io.CopyN(io.Discard, r, 200_000); err == nil || n != 100_000+64<<10 {
		t.Errorf("%d bytes were read, %v", n, err)
	}
}

func TestSealedFilesOpenForTheirOrganisationOnly(t *testing.T) {
	f := newSealedFile(t, []byte("text"))
	for name, key := range map[string]*secret.DataKey{"another organisation": dataKey(t, "other"), "another key": dataKey(t, "acme")} {
		_, _, err := readRange(rangesOf(t.Context(), blob.Sealed{Files: f.folder, Key: key}, "x"), 0, -1)
		if e, ok := errors.AsType[*blob.Error](err); !ok || !errors.Is(err, secret.ErrWrongDataKey) || strings.Contains(e.Reason, "acme") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.folder.Put(t.Context(), "plain", bytes.NewReader(make([]byte, 1000))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Get(t.Context(), "plain"); err == nil {
		t.Error("a file that is not sealed was opened")
	}
	if got := listed(t, f.store, ""); got["x"] != 4 {
		t.Errorf("listed: %v", got)
	}
	if _, err := f.folder.Put(t.Context(), "short", strings.NewReader("short")); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, f.store, ""); got["short"] != -1 {
		t.Errorf("listed: %v", got)
	}
}

// A file that was altered anywhere gives an error or the right bytes, whatever range of
// it is read.
func TestRangesOfAlteredFilesAreRightOrAnError(t *testing.T) {
	f := newSealedFile(t, pattern(3*64<<10+1000))
	stored := f.stored(t, "x")
	f.put(t, "x", f.plain)
	other := f.stored(t, "x")
	rapid.Check(t, func(rt *rapid.T) {
		b := alter(rt, bytes.Clone(stored), other)
		offset := rapid.Int64Range(0, int64(len(f.plain))+70_000).Draw(rt, "offset")
		length := rapid.Int64Range(-1, 150_000).Draw(rt, "length")
		got, err := f.read(t.Context(), b, offset, length)
		if want := slice(f.plain, offset, length); err == nil && !bytes.Equal(got, want) {
			rt.Fatalf("%d bytes, want %d", len(got), len(want))
		}
		if all, err := f.read(t.Context(), b, 0, -1); (err == nil) != (bytes.Equal(b, stored) || bytes.Equal(b, other)) {
			rt.Fatalf("the complete file: %d bytes, %v", len(all), err)
		}
	})
}

// alter cuts, lengthens, flips or replaces a part of stored.
func alter(rt *rapid.T, stored, other []byte) []byte {
	at := rapid.IntRange(0, len(stored)-1).Draw(rt, "at")
	if rapid.Bool().Draw(rt, "at the start of a chunk") {
		at = headerBytes + (at/chunkBytes)*chunkBytes
	}
	switch rapid.SampledFrom([]string{"nothing", "cut", "flip", "replace", "remove", "double"}).Draw(rt, "alteration") {
	case "cut":
		return stored[:at]
	case "flip":
		stored[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
	case "replace":
		end := rapid.IntRange(at, len(stored)).Draw(rt, "end")
		copy(stored[at:end], other[at:end])
	case "remove":
		return append(stored[:at], stored[min(at+chunkBytes, len(stored)):]...)
	case "double":
		return append(bytes.Clone(stored[:at]), append(bytes.Clone(stored[max(at-chunkBytes, 0):at]), stored[at:]...)...)
	}
	return stored
}

func TestSealedFilesEqualTheirData(t *testing.T) {
	s := sealed(t, blob.Folder(t.TempDir()))
	data := pattern(300_000)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, len(data)).Draw(rt, "size")
		if rapid.Bool().Draw(rt, "full chunks") {
			n = n / (64 << 10) * (64 << 10)
		}
		steps := rapid.SliceOfN(rapid.IntRange(1, 200_000), 1, 5).Draw(rt, "reads")
		if size, err := s.Put(t.Context(), "x", &stepReader{data[:n], steps}); err != nil || size != int64(n) {
			rt.Fatalf("Put = %d, %v", size, err)
		}
		offset, length := rapid.Int64Range(0, int64(n)+10).Draw(rt, "offset"), rapid.Int64Range(-1, int64(n)+10).Draw(rt, "length")
		got, size, err := readRange(rangesOf(t.Context(), s, "x"), offset, length)
		if want := slice(data[:n], offset, length); err != nil || size != int64(n) || !bytes.Equal(got, want) {
			rt.Fatalf("%d bytes of %d, %v; want %d of %d", len(got), size, err, len(want), n)
		}
	})
}

// stepReader returns at most as many bytes as the next step, in turn.
type stepReader struct {
	data  []byte
	steps []int
}

// Read implements io.Reader.
func (r *stepReader) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), r.steps[0])], r.data)
	r.data, r.steps = r.data[n:], append(r.steps[1:], r.steps[0])
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func FuzzSealedFile(f *testing.F) {
	file := newSealedFile(f, pattern(64<<10+100))
	stored := file.stored(f, "x")
	f.Add(stored, int64(0), int64(-1))
	f.Add(stored[:len(stored)-1], int64(64<<10), int64(10))
	f.Add(stored[:headerBytes+16], int64(0), int64(-1))
	f.Add([]byte("mgblob1\n"), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, b []byte, offset, length int64) {
		got, err := file.read(t.Context(), b, offset, length)
		if err == nil && !bytes.Equal(got, slice(file.plain, offset, length)) {
			t.Errorf("%d bytes that were never stored", len(got))
		}
		if _, err := file.read(t.Context(), b, 0, -1); (err == nil) != bytes.Equal(b, stored) {
			t.Errorf("the complete file: %v", err)
		}
	})
}
