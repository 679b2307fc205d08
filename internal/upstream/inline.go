package upstream

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxInlineBody is the size of the largest request body that an inline sends, in
// bytes. It fits into the buffers of two operating systems, so writing it does not
// wait for a provider that responds before it has read the request.
const maxInlineBody = 32 << 10

// inline sends requests over HTTP/1.1 without TLS on the goroutine of the caller. An
// [http.Transport] has two goroutines per connection, and hands each request and
// response from one to the other, which costs more than writing and parsing them.
//
// It sends small requests with a JSON body, as models get them, and leaves the others
// to a transport; see takes. It writes and reads messages with net/http, so that bytes
// are the same on both ways. It is safe for concurrent use.
type inline struct {
	dial      dialFunc
	proxied   func(*http.Request) bool
	maxHeader int64
	idle      idleConns
}

// newInline returns an inline that dials like the transports. proxied reports whether
// a request goes through a proxy; nil means that none does.
func newInline(o Options, dial dialFunc, proxied func(*http.Request) bool) *inline {
	return &inline{
		dial: dialPlain(dial), proxied: proxied, maxHeader: o.MaxHeaderBytes,
		idle: idleConns{timeout: o.IdleConnTimeout, most: o.MaxIdlePerHost, byHost: make(map[string][]*inlineConn)},
	}
}

// takes reports whether the request can be sent here: a POST to a plain address with a
// small body that can be read again, and nothing that changes the protocol.
func (t *inline) takes(req *http.Request) bool {
	if req.Method != http.MethodPost || req.URL == nil || req.URL.Scheme != "http" || !isPlainHost(req.URL.Host) {
		return false
	}
	if req.GetBody == nil || req.ContentLength <= 0 || req.ContentLength > maxInlineBody {
		return false
	}
	if req.Close || req.TransferEncoding != nil || req.Trailer != nil || req.Header["Upgrade"] != nil || req.Header["Connection"] != nil {
		return false
	}
	return sendable(req) && (t.proxied == nil || !t.proxied(req))
}

// isPlainHost reports whether a host of a URL is in ASCII and can be dialled as it is.
func isPlainHost(host string) bool {
	for i := range len(host) {
		if c := host[i]; c <= ' ' || c >= 0x7f || c == '%' {
			return false
		}
	}
	return host != ""
}

// RoundTrip sends a request that takes accepts and returns the response when its
// headers have arrived. The error is an *unsentError if nothing of the request was
// written. It closes the request's body. An idle connection that the
// provider has closed is noticed before anything is written to it; afterwards nothing
// is sent twice.
func (t *inline) RoundTrip(req *http.Request) (*http.Response, error) {
	if cause := context.Cause(req.Context()); cause != nil {
		closeBody(req)
		return nil, &unsentError{cause}
	}
	c := t.idle.take(req.URL.Host)
	if c == nil {
		var err error
		if c, err = t.connect(req); err != nil {
			closeBody(req)
			return nil, &unsentError{err}
		}
	}
	return c.exchange(req)
}

func (t *inline) connect(req *http.Request) (*inlineConn, error) {
	addr := req.URL.Host
	if req.URL.Port() == "" {
		addr = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	conn, err := t.dial(req.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &inlineConn{from: t, host: req.URL.Host, conn: conn, probe: newProbe(conn)}, nil
}

// inlineConn is a connection with at most one request on it.
type inlineConn struct {
	from  *inline
	host  string
	conn  net.Conn
	probe probe

	r     *bufio.Reader // nil while idle
	limit int64         // bytes that may be read from conn before the headers are complete
	wrote bool          // anything of the request
	lost  error         // why the request can't be written; the provider may have responded before

	since time.Time // when it became idle; guarded by idleConns.mu
}

// Read reads for the bufio.Reader, within the limit of response headers.
func (c *inlineConn) Read(p []byte) (int, error) {
	if c.limit <= 0 {
		return 0, errHeadersTooLarge
	}
	n, err := c.conn.Read(p[:min(int64(len(p)), c.limit)])
	c.limit -= int64(n)
	return n, err
}

var errHeadersTooLarge = errors.New("the response headers are too large")

// exchange sends the request and reads the headers of its response, which a provider
// that refuses a request may send before it has read all of it. The body of the
// response returns the connection, or closes it.
func (c *inlineConn) exchange(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	b := &inlineBody{conn: c, ctx: ctx}
	b.stop = context.AfterFunc(ctx, c.abort)
	c.wrote = false
	unsent := c.write(req)
	if unsent != nil && c.lost == nil {
		return nil, c.markUnsent(b.fail(unsent))
	}
	c.r = inlineReaders.Get().(*bufio.Reader)
	c.r.Reset(c)
	resp, err := c.readHeaders(req)
	if err != nil {
		return nil, c.markUnsent(b.fail(cmp.Or(c.lost, err)))
	}
	b.reusable = unsent == nil && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	if resp.Body == http.NoBody {
		b.finish()
		return resp, nil
	}
	b.body, resp.Body = resp.Body, b
	return resp, nil
}

// markUnsent returns err, the end of a request, as an *unsentError if nothing was written.
func (c *inlineConn) markUnsent(err error) error {
	if !c.wrote {
		return &unsentError{err}
	}
	return err
}

// Write writes a part of the request.
func (c *inlineConn) Write(p []byte) (int, error) {
	n, err := c.conn.Write(p)
	c.wrote = c.wrote || n > 0
	if err != nil {
		c.lost = err
	}
	return n, err
}

func (c *inlineConn) write(req *http.Request) error {
	w := inlineWriters.Get().(*bufio.Writer)
	defer inlineWriters.Put(w)
	defer w.Reset(nil)
	w.Reset(c)
	if err := req.Write(buffered{w}); err != nil {
		return err
	}
	return w.Flush()
}

// buffered hides the type of a writer: [http.Request.Write] sends the headers alone
// through a *bufio.Writer, unless it knows that the body is in memory.
type buffered struct{ *bufio.Writer }

// readHeaders returns the final response; informational ones are skipped and count for
// the limit of headers.
func (c *inlineConn) readHeaders(req *http.Request) (*http.Response, error) {
	c.limit = c.from.maxHeader
	for {
		resp, err := http.ReadResponse(c.r, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			c.limit = math.MaxInt64
			return resp, nil
		}
	}
}

// abort ends reads and writes in progress. The connection can't be used again, since
// nobody knows when it takes effect.
func (c *inlineConn) abort() { c.conn.SetDeadline(time.Unix(1, 0)) }

func (c *inlineConn) close() {
	c.conn.Close()
	c.releaseReader()
}

func (c *inlineConn) releaseReader() {
	if c.r != nil {
		c.r.Reset(nil)
		inlineReaders.Put(c.r)
		c.r = nil
	}
}

// Buffers are lent to connections while they are in use. The sizes are those of the
// transports: most requests are written, and most responses read, in one call.
var (
	inlineReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16<<10) }}
	inlineWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 8<<10) }}
)

// inlineBody is the body of a response. Close may be called while Read is in progress,
// and ends it.
type inlineBody struct {
	conn     *inlineConn
	ctx      context.Context
	stop     func() bool // detaches the connection from ctx; false if abort has begun
	body     io.ReadCloser
	reusable bool

	mu    sync.Mutex // held while the body is read
	err   error      // guarded by mu: what further reads return
	ended atomic.Bool
}

// Read returns the body and io.EOF at its end, which makes the connection available to
// other requests. After another error, and after Close, the connection is closed.
func (b *inlineBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	if b.ended.Load() {
		return 0, errBodyClosed
	}
	n, err := b.body.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.err = err
		b.finish()
	default:
		b.err = b.fail(err)
		err = b.err
	}
	return n, err
}

// Close closes the connection if the body has not been read to its end.
func (b *inlineBody) Close() error {
	if b.ended.CompareAndSwap(false, true) {
		b.stop()
		b.conn.conn.Close() // ends a Read in progress
		b.mu.Lock()
		b.conn.releaseReader()
		b.mu.Unlock()
	}
	return nil
}

var errBodyClosed = errors.New("upstream: read of a closed response body")

// finish makes the connection available to other requests, unless the provider or the
// context has ended it or has sent more than the response.
func (b *inlineBody) finish() {
	if !b.ended.CompareAndSwap(false, true) {
		return
	}
	c := b.conn
	if !b.stop() || !b.reusable || c.r.Buffered() > 0 {
		c.close()
		return
	}
	c.releaseReader()
	c.from.idle.put(c)
}

// fail closes the connection and returns the error: that of the context if it has
// ended.
func (b *inlineBody) fail(err error) error {
	if b.ended.CompareAndSwap(false, true) {
		b.stop()
		b.conn.close()
	}
	if cause := context.Cause(b.ctx); cause != nil {
		return cause
	}
	return err
}
