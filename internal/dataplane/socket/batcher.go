package socket

import (
	"bufio"
	"net"
	"net/http"
	"sync"
)

// maxBatch is the number of bytes up to which writes are held.
const maxBatch = 16 << 10

// batcher is the connection of a client. Its writes can be held, so that the events that a
// stream has at a time leave in one system call. It is safe for concurrent use.
type batcher struct {
	net.Conn

	mu      sync.Mutex
	holders int    // guarded by mu
	held    []byte // guarded by mu
}

// Write implements net.Conn.
func (b *batcher) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holders == 0 && len(b.held) == 0 {
		return b.Conn.Write(p)
	}
	if b.held = append(b.held, p...); b.holders > 0 && len(b.held) < maxBatch {
		return len(p), nil
	}
	return len(p), b.flush()
}

// hold begins to hold writes, until send is called as often.
func (b *batcher) hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holders++
}

// send writes what is held, unless others hold it.
func (b *batcher) send() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holders--; b.holders > 0 {
		return nil
	}
	return b.flush()
}

// flush writes what is held. The caller holds mu.
func (b *batcher) flush() error {
	if len(b.held) == 0 {
		return nil
	}
	_, err := b.Conn.Write(b.held)
	if b.held = b.held[:0]; cap(b.held) > 2*maxBatch {
		b.held = nil
	}
	return err
}

// batchWriter has the handshake answered on a connection that can hold writes.
type batchWriter struct {
	http.ResponseWriter
	conn *batcher // nil until the connection is taken over
}

// Hijack implements http.Hijacker.
func (w *batchWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.conn = &batcher{Conn: conn}
	// Messages larger than its buffer are written without it.
	return w.conn, bufio.NewReadWriter(buffered.Reader, bufio.NewWriterSize(w.conn, socketBuffer)), nil
}

// socketBuffer is the size in bytes of the buffer of a client's connection for writes.
const socketBuffer = 512
