// Package inbound limits what a client may cost while it connects and sends.
//
// A [Listener] limits the connections of an address that have not sent a valid
// key; [Limit] limits the time of a request body. It guarantees that every read
// of a body and every write of a response has a deadline, and that a client
// that sends steadily above the minimum rate, however slowly, is not cut off.
// It does not check keys: the caller that does reports valid ones with
// [MarkAuthenticated].
package inbound

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

type connKey struct{}

// WithConn returns a context that holds the connection c of a [Listener], for
// [http.Server.ConnContext]. Wrappers of the connection, such as TLS, are
// unwrapped.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	for {
		if own, ok := c.(*conn); ok {
			return context.WithValue(ctx, connKey{}, own)
		}
		layer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return ctx
		}
		c = layer.NetConn()
	}
}

// MarkAuthenticated records that a request had a valid key. Its connection,
// which [WithConn] stored in ctx, no longer uses up the limit of its address.
func MarkAuthenticated(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok && !c.shown.Load() {
		c.shown.Store(true)
		c.listener.forget(c)
	}
}

// LimitResponse sets the write deadline of an HTTP/2 response: the stall time
// after more. The flow control of a stream belongs to the client, so a client
// that opens no window receives nothing without a write that stalls. In HTTP/1
// every write has its deadline on the connection.
func LimitResponse(w http.ResponseWriter, r *http.Request, more time.Duration) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok || r.ProtoMajor != 2 {
		return
	}
	if stall := c.stall(); stall > 0 {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall + more)) // HTTP/2 supports deadlines
	}
}

// WriteBody writes a complete body and flushes it. In HTTP/1 head and body leave in one
// write where they fit into two of net/http's, which writes whenever its buffer of 4 KB
// is full: a long response costs a system call and a packet less. It returns how much
// of the body net/http accepted.
func WriteBody(w http.ResponseWriter, r *http.Request, body []byte) (n int, err error) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok && r.ProtoMajor == 1 {
		c.joining.Store(true)
		defer func() {
			if late := c.endJoin(); err == nil {
				err = late
			}
		}()
	}
	if n, err = w.Write(body); err != nil {
		return n, err
	}
	if err = http.NewResponseController(w).Flush(); errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	return n, err
}
