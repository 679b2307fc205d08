package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modelgate/internal/storage/blob"
)

// pattern returns bytes that never repeat at a distance of a chunk.
func pattern(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// slice returns the bytes that a range of data has.
func slice(data []byte, offset, length int64) []byte {
	offset = min(offset, int64(len(data)))
	if rest := int64(len(data)) - offset; length < 0 || length > rest {
		length = rest
	}
	return data[offset : offset+length]
}

// ranger is what has ranges: a file of a store, or a composite one.
type ranger func(offset, length int64) (*blob.Reader, error)

func rangesOf(ctx context.Context, s blob.Store, name string) ranger {
	return func(offset, length int64) (*blob.Reader, error) { return s.GetRange(ctx, name, offset, length) }
}

func readRange(get ranger, offset, length int64) (got []byte, size int64, err error) {
	r, err := get(offset, length)
	if err != nil {
		return nil, 0, err
	}
	got, err = io.ReadAll(r)
	return got, r.Size, errors.Join(err, r.Close())
}

// checkRanges compares ranges of a file with those of its data.
func checkRanges(t *testing.T, get ranger, data []byte) {
	t.Helper()
	const chunk = 64 << 10
	n := int64(len(data))
	for _, offset := range []int64{0, 1, 7, chunk - 1, chunk, chunk + 1, 2 * chunk, n - 1, n, n + 1, n + 3*chunk, math.MaxInt64} {
		for _, length := range []int64{-1, 0, 1, 5, chunk, chunk + 1, n, math.MaxInt64} {
			if offset < 0 {
				continue
			}
			got, size, err := readRange(get, offset, length)
			if want := slice(data, offset, length); err != nil || size != n || !bytes.Equal(got, want) {
				t.Errorf("%d bytes at %d of %d: %d bytes of %d, %v; want %d", length, offset, n, len(got), size, err, len(want))
			}
		}
	}
}

func TestEveryRangeOfAFileIsReadable(t *testing.T) {
	onEach(t, func(t *testing.T, s blob.Store) {
		for _, n := range []int{0, 1, 5, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, 200_000} {
			data := pattern(n)
			if _, err := s.Put(t.Context(), "files/x", bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if size, err := s.Size(t.Context(), "files/x"); err != nil || size != int64(n) {
				t.Errorf("Size = %d, %v; want %d", size, err, n)
			}
			checkRanges(t, rangesOf(t.Context(), s, "files/x"), data)
		}
		for _, invalid := range [][2]int64{{-1, 1}, {0, -2}, {math.MinInt64, -1}} {
			if _, err := s.GetRange(t.Context(), "files/x", invalid[0], invalid[1]); err == nil {
				t.Errorf("the range %d was accepted", invalid)
			}
		}
		for _, length := range []int64{-1, 0, 1} {
			if _, err := s.GetRange(t.Context(), "files/none", 0, length); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a range of a file that does not exist: %v", err)
			}
		}
		for _, name := range []string{"files/none", "files"} {
			if _, err := s.Size(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Size(%q): %v", name, err)
			}
		}
	})
}

func TestPartsAreReadAsOneFile(t *testing.T) {
	onEach(t, func(t *testing.T, s blob.Store) {
		var data []byte
		j := blob.Composite{Files: s}
		for i, n := range []int{100_000, 0, 1, 64 << 10, 7} {
			part, name := pattern(n + i)[i:], "uploads/"+string(rune('a'+i))
			if _, err := s.Put(t.Context(), name, bytes.NewReader(part)); err != nil {
				t.Fatal(err)
			}
			data, j.Parts = append(data, part...), append(j.Parts, blob.Part{Name: name, Size: int64(n)})
		}
		get := func(offset, length int64) (*blob.Reader, error) { return j.GetRange(t.Context(), offset, length) }
		checkRanges(t, get, data)
		if _, err := get(-1, 1); err == nil {
			t.Error("a negative offset was accepted")
		}
		for _, more := range []int64{1, -1} {
			j.Parts[0].Size += more
			if _, _, err := readRange(get, 0, -1); err == nil {
				t.Errorf("a file whose first part has %d bytes more was opened", -more)
			}
			j.Parts[0].Size -= more
		}
		if _, err := s.Put(t.Context(), "uploads/d", bytes.NewReader(data[:9])); err != nil {
			t.Fatal(err)
		}
		if got, _, err := readRange(get, 0, -1); err == nil {
			t.Errorf("%d bytes of a file with a part of another size", len(got))
		}
		if err := s.Delete(t.Context(), "uploads/d"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readRange(get, 0, -1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a part is missing: %v", err)
		}
	})
	if _, size, err := readRange(func(offset, length int64) (*blob.Reader, error) {
		return blob.Composite{}.GetRange(t.Context(), offset, length)
	}, 0, -1); err != nil || size != 0 {
		t.Errorf("a file without parts: %d, %v", size, err)
	}
}

func TestCompositeFilesEqualTheirParts(t *testing.T) {
	s := sealed(t, blob.Folder(t.TempDir()))
	data := pattern(1 << 20)
	rapid.Check(t, func(rt *rapid.T) {
		j, end := blob.Composite{Files: s}, int64(0)
		for i, n := range rapid.SliceOfN(rapid.Int64Range(0, 1<<17), 0, 5).Draw(rt, "sizes") {
			name := "p/" + string(rune('a'+i))
			if _, err := s.Put(t.Context(), name, bytes.NewReader(data[end:end+n])); err != nil {
				rt.Fatal(err)
			}
			end, j.Parts = end+n, append(j.Parts, blob.Part{Name: name, Size: n})
		}
		offset, length := rapid.Int64Range(0, end+10).Draw(rt, "offset"), rapid.Int64Range(-1, end+10).Draw(rt, "length")
		get := func(offset, length int64) (*blob.Reader, error) { return j.GetRange(t.Context(), offset, length) }
		got, size, err := readRange(get, offset, length)
		if want := slice(data[:end], offset, length); err != nil || size != end || !bytes.Equal(got, want) {
			rt.Errorf("%d bytes of %d, %v; want %d of %d", len(got), size, err, len(want), end)
		}
	})
}

// listed returns the files in a folder of a store, with their sizes.
func listed(t *testing.T, s blob.Store, folder string) map[string]int64 {
	t.Helper()
	files := make(map[string]int64)
	for info, err := range s.List(t.Context(), folder) {
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(info.Time); age < -time.Minute || age > time.Hour {
			t.Errorf("%s was written %v ago", info.Name, age)
		}
		if _, twice := files[info.Name]; twice {
			t.Errorf("%s is listed twice", info.Name)
		}
		files[info.Name] = info.Size
	}
	return files
}

func TestFilesOfAFolderAreListed(t *testing.T) {
	onEach(t, func(t *testing.T, s blob.Store) {
		if got := listed(t, s, ""); len(got) != 0 {
			t.Errorf("an empty store has %v", got)
		}
		all := map[string]int64{"x": 0, "files/a/1": 5, "files/a/2": 70_000, "files/ab": 1, "files-b/1": 2}
		for name, n := range all {
			if _, err := s.Put(t.Context(), name, bytes.NewReader(make([]byte, n))); err != nil {
				t.Fatal(err)
			}
		}
		for folder, want := range map[string][]string{
			"": slices.Collect(maps.Keys(all)), "files": {"files/a/1", "files/a/2", "files/ab"}, "files/a": {"files/a/1", "files/a/2"}, "none": nil,
		} {
			got := listed(t, s, folder)
			if len(got) != len(want) {
				t.Errorf("%q: %v, want %v", folder, got, want)
			}
			for _, name := range want {
				if size, ok := got[name]; !ok || size != all[name] {
					t.Errorf("%q: %s has %d bytes, %t; want %d", folder, name, size, ok, all[name])
				}
			}
		}
		for _, err := range s.List(t.Context(), "../files") {
			if err == nil {
				t.Error("a folder outside was listed")
			}
		}
		deleted := 0
		for info, err := range s.List(t.Context(), "files") {
			if err != nil || s.Delete(t.Context(), info.Name) != nil {
				t.Fatal(info, err)
			}
			deleted++
		}
		if got := listed(t, s, ""); deleted != 3 || len(got) != 2 {
			t.Errorf("%d deleted; left: %v", deleted, got)
		}
		for range s.List(t.Context(), "") {
			break
		}
	})
}

func TestIncompleteFilesOfAFolderAreNeitherListedNorKept(t *testing.T) {
	f := blob.Folder(t.TempDir())
	now := time.Now()
	for name, age := range map[string]time.Duration{"old": 48 * time.Hour, "new.part-X": time.Minute, "old.part-X": 3 * time.Hour} {
		path := filepath.Join(string(f), name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for info, err := range f.List(t.Context(), "") {
		if err != nil || info.Name != "old" {
			t.Errorf("listed: %v, %v", info, err)
		}
	}
	if err := f.DeleteIncomplete(t.Context(), now.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(string(f), "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "new.part-X" {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestFilesAreServedWithRanges(t *testing.T) {
	onEach(t, func(t *testing.T, s blob.Store) {
		data := pattern(200_000)
		for i, name := range []string{"p/1", "p/2"} {
			if _, err := s.Put(t.Context(), name, bytes.NewReader(data[i*100_000:][:100_000])); err != nil {
				t.Fatal(err)
			}
		}
		j := blob.Composite{Files: s, Parts: []blob.Part{{Name: "p/1", Size: 100_000}, {Name: "p/2", Size: 100_000}}}
		opened := 0
		serve := func(method, span string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "/", nil)
			w.Header().Set("Content-Type", "application/octet-stream")
			r.Header.Set("Range", span)
			file := blob.NewSeeker(j.Size(), func(offset, length int64) (*blob.Reader, error) {
				opened++
				return j.GetRange(t.Context(), offset, length)
			})
			http.ServeContent(w, r, "", time.Time{}, file)
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			return w
		}
		for span, want := range map[string][]byte{
			"": data, "bytes=0-9": data[:10], "bytes=99990-100009": data[99_990:100_010],
			"bytes=-5": data[199_995:], "bytes=150000-": data[150_000:],
		} {
			if w := serve("GET", span); !bytes.Equal(w.Body.Bytes(), want) {
				t.Errorf("%q: status %d, %d bytes, want %d", span, w.Code, w.Body.Len(), len(want))
			}
		}
		opened = 0
		if w := serve("HEAD", ""); w.Code != 200 || w.Header().Get("Content-Length") != "200000" || opened != 0 {
			t.Errorf("HEAD: %d %v, opened %d times", w.Code, w.Header(), opened)
		}
		if w := serve("GET", "bytes=200000-"); w.Code != 416 || opened != 0 {
			t.Errorf("a range after the end: %d, opened %d times", w.Code, opened)
		}
		if _, err := blob.NewSeeker(1, nil).Seek(-2, io.SeekEnd); err == nil {
			t.Error("a position before the beginning was accepted")
		}
	})
}
