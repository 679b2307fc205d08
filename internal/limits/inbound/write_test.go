package inbound_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"modelgate/internal/limits/inbound"
)

// countedListener counts the writes of its connections.
type countedListener struct {
	net.Listener
	writes atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l}, err
}

type countedConn struct {
	net.Conn
	l *countedListener
}

func (c countedConn) Write(p []byte) (int, error) {
	c.l.writes.Add(1)
	return c.Conn.Write(p)
}

// flushWatcher is a response writer that calls before ahead of each flush.
type flushWatcher struct {
	http.ResponseWriter
	before func()
}

func (f flushWatcher) FlushError() error {
	f.before()
	return http.NewResponseController(f.ResponseWriter).Flush()
}

func TestHeadAndBodyLeaveTogether(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedListener{Listener: raw}
	var early atomic.Int64 // writes before the flush
	s := &http.Server{ConnContext: inbound.WithConn, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Path[1:])
		body := bytes.Repeat([]byte("0123456789"), size/10)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		before := counted.writes.Load()
		n, err := inbound.WriteBody(flushWatcher{w, func() { early.Store(counted.writes.Load() - before) }}, r, body)
		if n != len(body) || err != nil {
			t.Errorf("WriteBody = %d, %v; want %d and no error", n, err, len(body))
		}
	})}
	go s.Serve(inbound.NewListener(counted, inbound.ListenerOptions{Plain: true}))
	t.Cleanup(func() { s.Close() })
	const twoBuffers = 8 << 10
	for _, size := range []int{10, 1300, 2050, 3900, 4000, 4090, 5000, 7000, 100_000, 1_000_000} {
		res, err := http.Get("http://" + raw.Addr().String() + "/" + strconv.Itoa(size))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if want := bytes.Repeat([]byte("0123456789"), size/10); err != nil || !bytes.Equal(body, want) {
			t.Errorf("%d bytes: received %d and %v", size, len(body), err)
		}
		if n := early.Load(); size < twoBuffers && n != 0 {
			t.Errorf("%d bytes: %d writes before the flush, want the head and the body in one", size, n)
		}
	}
}
