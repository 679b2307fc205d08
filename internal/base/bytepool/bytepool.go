// Package bytepool provides pooled byte buffers for bodies.
//
// Buffers have size classes, so that a short body does not occupy a large buffer, and
// count against one limit, so that many large bodies are rejected instead of exhausting
// memory. A [Share] limits what one organisation or key holds of it, and the last part
// of every limit is reserved for small bodies. A buffer is shared by reference counting,
// because the transport may still be reading a request body after the response has begun;
// it returns to the pool when the last reader releases it.
package bytepool

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// ErrBudget is returned if the memory limit does not allow another buffer.
var ErrBudget = errors.New("the gateway is out of body memory")

// ErrTooLarge is returned for a body over the caller's limit.
var ErrTooLarge = errors.New("the body is larger than the limit")

// classes are the pooled capacities. Steps of at most a half limit waste; larger
// buffers are rare and left to the garbage collector.
var classes = [...]int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 96 << 10, 128 << 10,
	192 << 10, 256 << 10, 384 << 10, 512 << 10, 768 << 10, 1 << 20}

// trusted is the announced length up to which a buffer is allocated at once. Above it
// the buffer grows with the data received.
const trusted = 256 << 10

// Pool provides buffers. It is safe for concurrent use.
type Pool struct {
	pools         [len(classes)]sync.Pool
	all, keyless  Share
	organisations sync.Map // of *Share by id
}

// New returns a pool with a limit of budget bytes in use. Zero or less means no limit.
func New(budget int64) *Pool {
	p := &Pool{all: Share{limit: budget, full: ErrBudget}}
	p.keyless = Share{above: &p.all, limit: budget / 16, full: ErrKeyless}
	return p
}

// Used returns the number of bytes in use.
func (p *Pool) Used() int64 { return p.all.used.Load() }

// Budget returns the limit of bytes in use; zero or less means none.
func (p *Pool) Budget() int64 { return p.all.limit }

// Get returns an empty buffer with space for size bytes and one reference, held by the
// caller. It belongs to no share.
func (p *Pool) Get(size int) (*Buffer, error) { return p.GetShare(size, nil) }

// GetShare is [Pool.Get] with a buffer that counts against share, with all that is
// reserved for it, until it is released.
func (p *Pool) GetShare(size int, share *Share) (*Buffer, error) {
	class, capacity := classOf(size)
	if share == nil {
		share = &p.all
	}
	if err := share.add(int64(capacity), capacity <= small); err != nil {
		return nil, err
	}
	if class >= 0 {
		if b, ok := p.pools[class].Get().(*Buffer); ok {
			b.share = share
			b.refs.Store(1)
			return b, nil
		}
	}
	b := &Buffer{bytes: make([]byte, 0, capacity), pool: p, share: share, class: class, capacity: capacity}
	b.refs.Store(1)
	return b, nil
}

func classOf(size int) (class, capacity int) {
	for i, c := range classes {
		if size <= c {
			return i, c
		}
	}
	return -1, size
}

// ReadAll reads r to its end into a buffer. Length is the announced length, or
// negative; limit is the limit of data read. On an error the buffer is released.
func (p *Pool) ReadAll(r io.Reader, length, limit int64) (*Buffer, error) {
	return p.ReadShare(r, length, limit, nil)
}

// ReadShare is [Pool.ReadAll] with a buffer that counts against share until it is
// released.
func (p *Pool) ReadShare(r io.Reader, length, limit int64, share *Share) (*Buffer, error) {
	if length > limit {
		return nil, ErrTooLarge
	}
	size := trusted / 64
	if length >= 0 {
		size = int(min(length, trusted-1)) + 1 // space to detect the end without growing
	}
	b, err := p.GetShare(size, share)
	if err != nil {
		return nil, err
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			if b, err = b.grow(); err != nil {
				return nil, err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if int64(len(b.bytes)) > limit {
			b.Release()
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			b.Release()
			return nil, err
		}
	}
}

// Buffer is a pooled buffer. Its bytes may be read while it is held and must not be
// changed once it is shared.
type Buffer struct {
	bytes    []byte
	pool     *Pool
	share    *Share // that pays for it
	class    int
	capacity int
	reserved int64 // counted in addition to capacity
	refs     atomic.Int32
}

// Reserve counts n more bytes against the limit until the buffer is released, for
// copies of its content elsewhere. On an error nothing has changed. The caller must be
// the only holder.
func (b *Buffer) Reserve(n int) error {
	if err := b.share.add(int64(n), int64(b.capacity)+b.reserved+int64(n) <= small); err != nil {
		return err
	}
	b.reserved += int64(n)
	return nil
}

// ReserveTo is [Buffer.Reserve] up to n bytes in total, if fewer are reserved.
func (b *Buffer) ReserveTo(n int) error {
	if more := n - int(b.reserved); more > 0 {
		return b.Reserve(more)
	}
	return nil
}

// Bytes returns the content, valid until the last holder releases it.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Len returns the length of the content.
func (b *Buffer) Len() int { return len(b.bytes) }

// Fill sets the content to what fill appends to an empty slice with the buffer's
// capacity. The caller must be the only holder.
func (b *Buffer) Fill(fill func(dst []byte) []byte) { b.bytes = fill(b.bytes[:0]) }

// Append appends p and returns the buffer to use from then on: b, or a larger one, with
// b released. On an error nothing has changed. The caller must be the only holder.
func (b *Buffer) Append(p []byte) (*Buffer, error) {
	if need := len(b.bytes) + len(p); need > cap(b.bytes) {
		next, err := b.pool.GetShare(max(need, 2*b.capacity), b.share)
		if err != nil {
			return b, err
		}
		next.bytes = append(next.bytes, b.bytes...)
		b.Release()
		b = next
	}
	b.bytes = append(b.bytes, p...)
	return b, nil
}

// grow moves the content to a buffer of about twice the capacity and releases b.
func (b *Buffer) grow() (*Buffer, error) {
	next, err := b.pool.GetShare(2*b.capacity, b.share)
	if err == nil {
		next.bytes = append(next.bytes, b.bytes...)
	}
	b.Release()
	return next, err
}

// Retain adds a holder.
func (b *Buffer) Retain() { b.refs.Add(1) }

// Release removes a holder. The last release returns the buffer to the pool.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("bytepool: buffer released more often than held")
	}
	b.share.remove(int64(b.capacity) + b.reserved)
	b.share, b.reserved = nil, 0
	if b.class < 0 || cap(b.bytes) != b.capacity {
		return // not a class: garbage collected
	}
	b.bytes = b.bytes[:0]
	b.pool.pools[b.class].Put(b)
}

// Reader returns a reader of the content that holds the buffer until it is closed.
func (b *Buffer) Reader() *Reader {
	b.Retain()
	return &Reader{buf: b}
}

// Open is [Buffer.Reader] for callers that need a function with an error. It never
// fails.
func (b *Buffer) Open() (io.ReadCloser, error) { return b.Reader(), nil }

// Reader reads the content of a Buffer. Its methods may be called concurrently, as
// http.Transport does.
type Reader struct {
	mu  sync.Mutex
	buf *Buffer // nil once closed; guarded by mu
	at  int
}

// short is the length up to which InMemory copies: what fits into one write of an
// http.Transport together with the request headers.
const short = 6 << 10

// InMemory returns a reader of a copy and closes r if the content is short, and r
// otherwise. An http.Transport sends a body of a type that it knows to be in memory
// together with the headers in one write, but does not say when it has read it.
func (r *Reader) InMemory() io.ReadCloser {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf == nil || r.at > 0 || len(r.buf.bytes) > short {
		return r
	}
	copied := bytes.Clone(r.buf.bytes)
	r.buf.Release()
	r.buf = nil
	return io.NopCloser(bytes.NewReader(copied))
}

// Read implements io.Reader. It returns [io.ErrClosedPipe] after Close.
func (r *Reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf == nil {
		return 0, io.ErrClosedPipe
	}
	if r.at == len(r.buf.bytes) {
		return 0, io.EOF
	}
	n := copy(p, r.buf.bytes[r.at:])
	r.at += n
	return n, nil
}

// Close releases the buffer.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf != nil {
		r.buf.Release()
		r.buf = nil
	}
	return nil
}
