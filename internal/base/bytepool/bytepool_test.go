package bytepool_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"modelgate/internal/base/bytepool"
)

func TestReadAllKeepsEveryByte(t *testing.T) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 255 << 10, 256 << 10, 1<<20 + 3} {
		body := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		for name, length := range map[string]int64{"announced": int64(size), "unannounced": -1} {
			pool := bytepool.New(0)
			b, err := pool.ReadAll(iotest.HalfReader(bytes.NewReader(body)), length, 2<<20)
			if err != nil {
				t.Fatalf("%s %d bytes: %v", name, size, err)
			}
			if !bytes.Equal(b.Bytes(), body) {
				t.Errorf("%s %d bytes: content differs", name, size)
			}
			b.Release()
			if used := pool.Used(); used != 0 {
				t.Errorf("%s %d bytes: %d bytes still lent", name, size, used)
			}
		}
	}
}

func TestReadAllRefuses(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name   string
		body   io.Reader
		length int64
		want   error
	}{
		{"announced over the limit", strings.NewReader(""), 101, bytepool.ErrTooLarge},
		{"longer than announced", strings.NewReader(strings.Repeat("x", 101)), 5, bytepool.ErrTooLarge},
		{"unannounced over the limit", strings.NewReader(strings.Repeat("x", 101)), -1, bytepool.ErrTooLarge},
		{"broken off", iotest.ErrReader(broken), 5, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := bytepool.New(0)
			if _, err := pool.ReadAll(tt.body, tt.length, 100); !errors.Is(err, tt.want) {
				t.Errorf("ReadAll = %v, want %v", err, tt.want)
			}
			if used := pool.Used(); used != 0 {
				t.Errorf("%d bytes still lent", used)
			}
		})
	}
}

func TestBudgetBoundsWhatIsLent(t *testing.T) {
	pool := bytepool.New(16 << 10)
	first, err := pool.Get(10 << 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Get(1); !errors.Is(err, bytepool.ErrBudget) {
		t.Errorf("Get beyond the budget = %v, want ErrBudget", err)
	}
	first.Release()
	if _, err := pool.Get(1); err != nil {
		t.Errorf("Get after release = %v", err)
	}
}

// A transport may read a body after its request was answered: the buffer must
// not go to another request until that reader is closed.
func TestBufferStaysUntilItsReadersClose(t *testing.T) {
	for _, size := range []int{5, 20 << 10} {
		first, second := strings.Repeat("1", size), strings.Repeat("2", size)
		pool := bytepool.New(0)
		b, _ := pool.ReadAll(strings.NewReader(first), int64(size), 1<<20)
		r := b.Reader()
		b.Release()

		other, _ := pool.ReadAll(strings.NewReader(second), int64(size), 1<<20)
		defer other.Release()
		if got, err := io.ReadAll(r); string(got) != first || err != nil {
			t.Errorf("late reader of %d bytes got %.10q…, %v; want what the buffer held", size, got, err)
		}
		r.Close()
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Errorf("reading %d bytes after Close succeeded", size)
		}
	}
}

func TestReadAndCloseTogether(t *testing.T) {
	pool := bytepool.New(0)
	for range 100 {
		b, _ := pool.ReadAll(strings.NewReader(strings.Repeat("a", 4000)), 4000, 4096)
		r := b.Reader()
		b.Release()
		var wg sync.WaitGroup
		wg.Go(func() {
			got, _ := io.ReadAll(iotest.OneByteReader(r))
			if s := string(got); strings.Trim(s, "a") != "" {
				t.Errorf("a closed reader saw another body: %q", s)
			}
		})
		wg.Go(func() { r.Close() })
		next, _ := pool.ReadAll(strings.NewReader(strings.Repeat("b", 4000)), 4000, 4096)
		wg.Wait()
		next.Release()
	}
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes still lent", used)
	}
}

func TestShortContentsAreCopied(t *testing.T) {
	for _, tt := range []struct {
		size   int
		copied bool
	}{{5, true}, {6 << 10, true}, {6<<10 + 1, false}} {
		first := strings.Repeat("1", tt.size)
		pool := bytepool.New(0)
		b, _ := pool.ReadAll(strings.NewReader(first), int64(tt.size), 1<<20)
		r := b.Reader()
		body := r.InMemory()
		b.Release()
		if held := pool.Used() > 0; held == tt.copied {
			t.Errorf("a reader of %d bytes holds the buffer: %t, want %t", tt.size, held, !tt.copied)
		}
		if got, err := io.ReadAll(body); string(got) != first || err != nil {
			t.Errorf("a reader of %d bytes got %.10q…, %v", tt.size, got, err)
		}
		body.Close()
		if used := pool.Used(); used != 0 {
			t.Errorf("%d bytes still lent after %d were read", used, tt.size)
		}
	}
}

func TestABegunReaderIsNotCopied(t *testing.T) {
	pool := bytepool.New(0)
	b, _ := pool.ReadAll(strings.NewReader("abc"), 3, 10)
	r := b.Reader()
	b.Release()
	r.Read(make([]byte, 1))
	if got, err := io.ReadAll(r.InMemory()); string(got) != "bc" || err != nil {
		t.Errorf("the rest is %q, %v, want bc", got, err)
	}
	r.Close()
	if got, err := r.InMemory().Read(make([]byte, 1)); err != io.ErrClosedPipe {
		t.Errorf("a closed reader gave %d bytes, %v", got, err)
	}
}
