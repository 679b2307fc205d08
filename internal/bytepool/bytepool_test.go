package bytepool_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"modelgate/internal/bytepool"
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
	for _, size := range []int{5, 20 << 10} { // a short content is copied, a long one held
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

// countingConn counts the writes of a connection, each of which is a system
// call and mostly a packet.
type countingConn struct {
	net.Conn
	writes *atomic.Int32
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestShortBodyLeavesInOneWriteWithItsHead(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write(sent)
	}))
	defer srv.Close()
	var writes atomic.Int32
	transport := &http.Transport{
		WriteBufferSize: 8 << 10,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return countingConn{c, &writes}, err
		},
	}
	defer transport.CloseIdleConnections()
	body := strings.Repeat("a short body ", 400)
	b, err := bytepool.New(0).ReadAll(strings.NewReader(body), int64(len(body)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, srv.URL, b.Reader())
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); string(got) != body || err != nil {
		t.Errorf("the body that arrived has %d bytes, %v; want the %d sent", len(got), err, len(body))
	}
	if n := writes.Load(); n != 1 {
		t.Errorf("the request took %d writes, want 1", n)
	}
}
