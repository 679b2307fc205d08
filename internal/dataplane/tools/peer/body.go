package peer

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// message is the body of a request: the message of a call, which its caller may change once
// the call is over, although a transport may still be reading it then.
type message struct {
	mu    sync.Mutex
	bytes []byte // guarded by mu; nil after release
}

// setBody makes a message the body of a request.
func setBody(req *http.Request, m *message) {
	req.ContentLength = int64(len(m.bytes))
	req.Body = &messageReader{m: m}
	req.GetBody = func() (io.ReadCloser, error) { return &messageReader{m: m}, nil }
}

// release ends all reads from now on, which a transport reports as an error.
func (m *message) release() {
	m.mu.Lock()
	m.bytes = nil
	m.mu.Unlock()
}

// messageReader reads a message. Its methods may be called concurrently with release.
type messageReader struct {
	m  *message
	at int
}

// shortMessage is the length up to which a message is copied for an http.Transport: what
// fits into one write of it together with the headers.
const shortMessage = 6 << 10

// InMemory returns a reader of a copy if the message is short, of a type that an
// http.Transport sends together with the headers.
func (r *messageReader) InMemory() io.ReadCloser {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.at > 0 || len(r.m.bytes) > shortMessage {
		return r
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(r.m.bytes)))
}

// Read implements io.Reader.
func (r *messageReader) Read(p []byte) (int, error) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.at >= len(r.m.bytes) {
		return 0, io.EOF
	}
	n := copy(p, r.m.bytes[r.at:])
	r.at += n
	return n, nil
}

// Close implements io.Closer.
func (r *messageReader) Close() error { return nil }
