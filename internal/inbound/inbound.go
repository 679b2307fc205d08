// Package inbound bounds what a client may cost while it connects and sends.
//
// A [Listener] limits the connections of an address that have shown no valid
// key, [Limit] the time that a request body may take. It guarantees that every
// read of a body and every write of a response has a deadline, and that a client
// that sends steadily, however slowly, is not cut off above the minimum rate. It
// does not check keys: whoever does calls [KeyShown].
package inbound

import (
	"context"
	"net"
	"net/http"
	"time"
)

type connKey struct{}

// WithConn returns a context that knows the connection c of a [Listener], for
// [http.Server.ConnContext]. Layers around the connection, such as TLS, are
// looked through.
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

// KeyShown reports that a request showed a valid key. Its connection, which ctx
// knows by [WithConn], no longer counts against the limit of its address.
func KeyShown(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok && !c.shown.Load() {
		c.shown.Store(true)
		c.listener.forget(c)
	}
}

// LimitResponse sets the write deadline of a response of HTTP/2: the stall time
// after more. The flow control of a stream is the client's, so a client that opens
// no window takes nothing of the response without a write that stalls. In HTTP/1
// every write has its deadline by the connection.
func LimitResponse(w http.ResponseWriter, r *http.Request, more time.Duration) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok || r.ProtoMajor != 2 {
		return
	}
	if stall := c.stall(); stall > 0 {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall + more)) // HTTP/2 has deadlines
	}
}
