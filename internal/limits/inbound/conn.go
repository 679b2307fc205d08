package inbound

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a client's connection. It is safe for concurrent use.
type conn struct {
	net.Conn
	listener *Listener
	opened   time.Time
	network  netip.Prefix
	place    *list.Element // nil if it is not counted; guarded by the listener's mu
	shown    atomic.Bool   // a valid key was sent

	// until is the current write deadline, in nanoseconds since 1970, zero for
	// none. explicit is true if it was set by a caller.
	until    atomic.Int64
	explicit atomic.Bool

	// joining is set by [WriteBody]. held is a write that waits for the next one,
	// nil if there is none; it belongs to the goroutine that writes.
	joining atomic.Bool
	held    *heldWrite
}

// heldWrite is what net/http writes when its buffer is full.
type heldWrite struct {
	data  [4 << 10]byte
	n     int
	parts [2][]byte   // of the system call that writes it with what follows
	both  net.Buffers // over parts
}

var heldWrites = sync.Pool{New: func() any { return new(heldWrite) }}

// piece is the number of bytes written between checks of the deadline.
const piece = 32 << 10

// Write writes p. Unless a caller set a deadline, each piece has the stall
// time.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.joining.Load() && c.held == nil && len(p) <= len(c.held.data) {
		c.held = heldWrites.Get().(*heldWrite)
		c.held.n = copy(c.held.data[:], p)
		return len(p), nil
	}
	for !c.explicit.Load() {
		c.extend()
		if len(p) <= piece {
			break
		}
		m, err := c.write(p[:piece])
		n += m
		if err != nil {
			return n, err
		}
		p = p[piece:]
	}
	m, err := c.write(p)
	return n + m, err
}

// write writes what is held and p, in one system call if this is TCP. It returns how
// much of p it wrote.
func (c *conn) write(p []byte) (int, error) {
	held := c.held
	if held == nil {
		return c.Conn.Write(p)
	}
	c.held = nil
	defer heldWrites.Put(held)
	if len(p) == 0 {
		_, err := c.Conn.Write(held.data[:held.n])
		return 0, err
	}
	held.parts = [2][]byte{held.data[:held.n], p}
	held.both = held.parts[:]
	n, err := held.both.WriteTo(c.Conn)
	held.parts = [2][]byte{} // does not keep p
	return max(int(n)-held.n, 0), err
}

// endJoin writes what is held.
func (c *conn) endJoin() error {
	c.joining.Store(false)
	if c.held == nil {
		return nil
	}
	_, err := c.Write(nil)
	return err
}

// extend moves the deadline. It does so only after a quarter of the stall time,
// because moving it costs as much as a small write.
func (c *conn) extend() {
	stall := c.stall()
	if stall <= 0 {
		if c.until.Swap(0) != 0 {
			c.Conn.SetWriteDeadline(time.Time{})
		}
		return
	}
	now := time.Now()
	if left := time.Duration(c.until.Load() - now.UnixNano()); left < stall-stall/4 || left > stall {
		deadline := now.Add(stall)
		c.until.Store(deadline.UnixNano())
		c.Conn.SetWriteDeadline(deadline)
	}
}

// stall returns how long the client may accept nothing. Zero means forever.
func (c *conn) stall() time.Duration {
	stall := c.listener.o.Stall
	if !c.shown.Load() && (stall <= 0 || stall > keylessStall) {
		return keylessStall
	}
	return max(stall, 0)
}

// SetWriteDeadline implements net.Conn. With a zero time the next Write has the
// stall time again.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.explicit.Store(!t.IsZero())
	if t.IsZero() {
		return nil
	}
	c.until.Store(t.UnixNano())
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.Conn.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// CloseWrite closes the connection for writing, as net/http does before it
// waits for a client that has not read its response.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.forget(c)
	return c.Conn.Close()
}
