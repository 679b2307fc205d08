package blob_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"modelgate/internal/storage/blob"
	"modelgate/internal/testing/s3test"
)

// generator generates n bytes that do not repeat.
type generator struct{ n, at int64 }

// Read implements io.Reader.
func (g *generator) Read(p []byte) (int, error) {
	if g.at == g.n {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), g.n-g.at))
	for i := range p[:n] {
		at := uint64(g.at) + uint64(i)
		p[i] = byte(at / 8 * 0x9e3779b97f4a7c15 >> (at % 8 * 8))
	}
	g.at += int64(n)
	return n, nil
}

// memory returns the memory of this process that is resident, and the Go heap, in bytes.
func memory(t *testing.T) (resident, heap int64) {
	t.Helper()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	heap = int64(m.HeapSys - m.HeapReleased)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return heap, heap // not Linux
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize()), heap
}

// mostMemory returns the additional memory that f needs at most, in bytes.
func mostMemory(t *testing.T, f func()) (resident, heap int64) {
	t.Helper()
	debug.FreeOSMemory()
	resident0, heap0 := memory(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		r, h := memory(t)
		resident, heap = max(resident, r-resident0), max(heap, h-heap0)
		select {
		case <-done:
			tick.Stop()
			return resident, heap
		case <-tick.C:
		}
	}
}

// Files of 512 MB are written and read in little memory. The race detector needs memory of
// its own, and time.
func TestBigFilesNeedLittleMemory(t *testing.T) {
	if testing.Short() {
		return // it writes a gigabyte
	}
	const most = 40 << 20
	size := int64(512 << 20)
	if raced {
		size = 64 << 20
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, &generator{n: size}); err != nil {
		t.Fatal(err)
	}
	needsLittle := func(t *testing.T, store blob.Store) {
		resident, heap := mostMemory(t, func() {
			if n, err := store.Put(t.Context(), "files/big", &generator{n: size}); err != nil || n != size {
				t.Errorf("Put = %d, %v", n, err)
			}
			r, err := store.Get(t.Context(), "files/big")
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			got := sha256.New()
			if _, err := io.Copy(got, r); err != nil || !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
				t.Errorf("Get: %v", err)
			}
		})
		t.Logf("at most %d MB resident and %d MB of heap more", resident>>20, heap>>20)
		if resident > most && !raced || heap > most {
			t.Errorf("%d MB resident and %d MB of heap more, want at most %d", resident>>20, heap>>20, most>>20)
		}
	}
	t.Run("folder", func(t *testing.T) { needsLittle(t, sealed(t, blob.Folder(t.TempDir()))) })
	t.Run("bucket", func(t *testing.T) { needsLittle(t, sealed(t, open(t, optionsOf(s3test.NewServer(t))))) })
}
